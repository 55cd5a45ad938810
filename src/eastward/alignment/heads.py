"""Find the last linear layer of a network by its output, and change it by a scale and a shift."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.alignment.batches import CALLER, Batch, Forward, output_of_loaded
from eastward.alignment.sharding import is_sharded, pieces_like, settle, whole

__all__ = ["HALF", "Head", "HeadWeights", "Layout", "find_head", "layout_of", "watched"]

_POINTWISE = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
HALF = (torch.float16, torch.bfloat16)


class HeadWeights(NamedTuple):
    """Weight ``(O, F)`` and bias ``(O,)`` in float32, so that the logits are ``features @ weight.T + bias``.

    ``single`` means that the only output is the logit of class 1; class 0 has the logit zero.
    """

    weight: Tensor
    bias: Tensor
    single: bool = False

    def logits(self, features: Tensor) -> Tensor:
        """Compute logits ``(N, C)`` of features; a single logit becomes two columns with the same decision."""
        found = features @ self.weight.T + self.bias
        return torch.cat([torch.zeros_like(found), found], dim=1) if self.single else found

    def changed(self, scale: float, shift: Tensor) -> HeadWeights:
        """Return a head whose logits are multiplied by a scale and shifted by ``(C,)`` numbers."""
        own = (shift[1:] - shift[:1] if self.single else shift).to(self.bias)
        return self._replace(weight=self.weight * scale, bias=self.bias * scale + own)


@dataclass(frozen=True)
class Layout:
    """The shape of outputs and targets, and how they become rows.

    Attributes
    ----------
    size : int
        Number of classes or labels.
    labels : bool
        Whether the columns are labels that do not exclude each other.
    single : bool
        Whether the network has one logit for two classes.
    class_axis : int
        Axis of the classes in the logits: 1 or -1.
    dense : bool
        Whether a sample has many rows (pixels, tokens).
    squeezed : bool
        Whether a single logit has an axis of length one that the targets lack.
    """

    size: int
    labels: bool
    single: bool
    class_axis: int
    dense: bool
    squeezed: bool = False

    def rows(self, output: Tensor) -> Tensor:
        """Return an output as rows of logits ``(M, C)``; a single logit becomes two columns."""
        if self.single:
            flat = output.reshape(-1, 1)
            return torch.cat([torch.zeros_like(flat), flat], dim=1)
        return output.movedim(self.class_axis, -1).reshape(-1, self.size)

    def targets(self, given: Tensor, ignore_index: int) -> Tensor:
        """Return targets as rows ``(M,)`` or ``(M, L)``; ignored ones are -100."""
        flat = given.movedim(self.class_axis, -1).reshape(-1, self.size) if self.labels else given
        flat = flat if self.labels else flat.reshape(-1)
        flat = torch.where(flat == ignore_index, -100, flat)
        return flat.long()


@dataclass
class Seen:
    """Inputs and outputs of a layer in one forward pass."""

    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True)
class Head:
    """The layer of a network that outputs its logits.

    Attributes
    ----------
    name : str
        Path of the layer in the network.
    layout : Layout
        How outputs and targets become rows.
    """

    name: str
    layout: Layout

    def weights(self, model: nn.Module) -> HeadWeights:
        """Return a copy of the weights of the head in this network."""
        layer = self._settled_layer(model)
        weight = whole(layer.weight.detach()).float().flatten(1).cpu()
        bias = torch.zeros(len(weight))
        if layer.bias is not None:
            bias = whole(layer.bias.detach()).float().cpu()
        return HeadWeights(weight, bias.clone(), self.layout.single)

    def put(self, model: nn.Module, weights: HeadWeights) -> None:
        """Set the weights of the head in this network, and add a bias if it has none."""
        layer = self._settled_layer(model)
        with torch.no_grad():
            if layer.bias is None:
                _check_bias(model, self.name)
                layer.bias = nn.Parameter(torch.zeros_like(weights.bias).to(layer.weight))
            weight = weights.weight.reshape(layer.weight.shape)
            layer.weight.copy_(pieces_like(weight, layer.weight))
            layer.bias.copy_(pieces_like(weights.bias, layer.bias))

    def _settled_layer(self, model: nn.Module) -> Any:
        settle(model)
        return model.get_submodule(self.name)

    def features(self, model: nn.Module, seen: Seen) -> Tensor:
        """Return the input of the layer as rows ``(M, F)``."""
        given = _only(seen.inputs, self.name)
        axis = 1 if isinstance(model.get_submodule(self.name), _POINTWISE) else -1
        return given.movedim(axis, -1).flatten(0, -2)


def find_head(model: nn.Module, batch: Batch, name: str | None, forward: Forward | None) -> Head:
    """Find the layer whose output the network returns as logits, and the layout of its rows.

    Parameters
    ----------
    model : Module
        The network, in evaluation mode.
    batch : Batch
        A batch on the device of the model.
    name : str, optional
        Path of the layer, such as ``"classifier.fc"``; None searches all linear layers.
    forward : callable, optional
        A function that calls the model.

    Returns
    -------
    Head
        Path of the layer, and layout of its rows.
    """
    layers = _linear_layers(model)
    if name is not None:
        layers = {name: _named(model, name, layers)}
    with torch.no_grad(), watched(layers) as seen:
        output = _first_output(model, batch, forward)
    found = [own for own in layers if _makes(seen[own], output, layers[own])]
    if not found:
        _no_head(name, layers)
    _check_own(model, found[-1], layers[found[-1]], seen[found[-1]])
    classes_last = isinstance(layers[found[-1]], nn.Linear)
    return Head(found[-1], layout_of(output, batch.targets, classes_last=classes_last))


def _first_output(model: nn.Module, batch: Batch, forward: Forward | None) -> Tensor:
    """Compute the logits of the first batch, which shows whether the model accepts the batches of the loader."""
    output = output_of_loaded(model, batch, forward, argument="train_loader", number=1)
    check_numbers("train_loader", output)
    return output


@contextmanager
def watched(layers: dict[str, nn.Module]) -> Iterator[dict[str, Seen]]:
    """Record the inputs and outputs of layers."""
    seen = {name: Seen() for name in layers}

    def note(own: Seen) -> Any:
        def hook(_layer: Any, given: Any, output: Any) -> None:
            own.inputs.append(given[0].detach())
            own.outputs.append(output.detach())

        return hook

    handles = [layer.register_forward_hook(note(seen[name])) for name, layer in layers.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def check_numbers(argument: str, values: Tensor) -> None:
    """Refuse a batch for which the network returns NaN."""
    missing = int(torch.isnan(values).sum())
    if missing:
        advice = "Look for missing values in the inputs, and for NaN in the weights."
        got = f"a batch for which it returns {missing} NaN"
        expected = "a loader of batches for which the model returns numbers"
        _checks.fail(CALLER, argument, expected, got, advice)


def check_precision(model: nn.Module) -> None:
    """Refuse weights in half precision, because small steps do not change them."""
    half = next((p for p in model.parameters() if p.dtype in HALF), None)
    if half is not None:
        advice = "Pass model.float(), and precision='bf16-mixed' to compute in half precision."
        _checks.fail(CALLER, "model", "in float32", f"parameters in {half.dtype}", advice)


def _linear_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Return every layer that could be a head, by its path."""

    def fits(layer: nn.Module) -> bool:
        if "weight" not in dict(layer.named_parameters(recurse=False)):
            return False  # weight_norm, for example, computes the weight from other parameters
        if isinstance(layer, _POINTWISE):
            return set(layer.kernel_size) == {1} and layer.groups == 1 and set(layer.stride) == {1}
        return isinstance(layer, nn.Linear)

    return {name: layer for name, layer in model.named_modules() if fits(layer)}


def _named(model: nn.Module, name: str, layers: dict[str, nn.Module]) -> nn.Module:
    if name in layers:
        return layers[name]
    known = dict(model.named_modules())
    expected = "the path of a linear layer or a 1 × 1 convolution"
    got = f"{name!r}, a {type(known[name]).__name__}" if name in known else f"{name!r}"
    advice = _checks.near_misses(name, layers) or f"There are {list(layers)[-5:]}."
    return _checks.fail(CALLER, "head", expected, got, advice)


def _makes(seen: Seen, output: Tensor, layer: nn.Module) -> bool:
    """Return whether the output of the network is that of the layer, up to the order of axes."""
    if not seen.outputs or seen.outputs[-1].numel() != output.numel():
        return False
    own = seen.outputs[-1]
    if own.shape == output.shape:
        return torch.equal(own, output)
    if own.dim() == output.dim() and isinstance(layer, nn.Linear):
        turned = own.movedim(-1, 1)
        return turned.shape == output.shape and torch.equal(turned, output)
    # A single logit may have lost its axis.
    return own.shape[-1] == 1 and torch.equal(own.flatten(), output.flatten())


def _no_head(name: str | None, layers: dict[str, nn.Module]) -> None:
    advice = (
        "Let the model end in an nn.Linear (or a 1 × 1 convolution) and return its output unchanged: "
        "logits, no softmax. Or pass head='added' to put a linear layer after its logits."
    )
    if name is not None:
        expected = "the layer whose output the model returns"
        _checks.fail(CALLER, "head", expected, f"{name!r}, which is another layer", advice)
    got = f"one whose output comes from none of its {len(layers)} linear layers"
    _checks.fail(CALLER, "model", "a network that ends in a linear layer", got, advice)


def _check_own(model: nn.Module, name: str, layer: Any, seen: Seen) -> None:
    """Check that the head is used once, does not share its weights, and is not frozen."""
    _only(seen.inputs, name)
    places = [
        path
        for path, value in model.named_parameters(remove_duplicate=False)
        if value is layer.weight
    ]
    if len(places) > 1:
        advice = "Give the head its own weights: layer.weight = nn.Parameter(layer.weight.clone())."
        _checks.fail(
            CALLER, "head", "a layer with its own weights", f"weights shared by {places}", advice
        )
    frozen = [path for path, value in layer.named_parameters() if not value.requires_grad]
    if frozen:
        advice = "Call requires_grad_(True) on this layer."
        got = f"{name!r} with a frozen {' and '.join(frozen)}"
        _checks.fail(CALLER, "head", "trainable", got, advice)


def _check_bias(model: nn.Module, name: str) -> None:
    if is_sharded(model):
        advice = "Add a bias of zeros before you call fully_shard."
        expected = "a layer with a bias, if the network is sharded"
        _checks.fail(CALLER, "head", expected, f"{name!r}, which has none", advice)


def _only(seen: list[Tensor], name: str) -> Tensor:
    if len(seen) != 1:
        advice = "Name another layer with head=, or give each use its own layer."
        got = f"{name!r}, which is used {len(seen)} times in a pass"
        _checks.fail(CALLER, "head", "a layer that is used once", got, advice)
    return seen[0]


def layout_of(output: Tensor, targets: Tensor, *, classes_last: bool) -> Layout:
    """Infer from the shapes of outputs and targets whether there are classes, labels or a single logit.

    With ``classes_last``, the classes may be the last axis of the output, as in that of a linear layer.
    """
    if output.dim() > 1 and output.shape == targets.shape and output.shape[1] > 1:
        return Layout(output.shape[1], True, False, 1, output.dim() > 2)
    samples = max(1, len(output))
    if output.numel() == targets.numel():
        squeezed = output.dim() > targets.dim()
        axis = 1 if output.dim() > 1 and output.shape[1] == 1 else -1
        return Layout(2, False, True, axis, targets.numel() > samples, squeezed)
    last = classes_last and output.shape[:-1] == targets.shape
    expected = output.shape[:-1] if last else (output.shape[0], *output.shape[2:])
    if output.dim() < 2 or targets.shape != torch.Size(expected):
        wanted = f"of shape {tuple(expected)}, for outputs of shape {tuple(output.shape)}"
        _checks.fail(CALLER, "targets", wanted, _checks.describe(targets))
    size = output.shape[-1] if last else output.shape[1]
    return Layout(size, False, False, -1 if last else 1, targets.numel() > samples)
