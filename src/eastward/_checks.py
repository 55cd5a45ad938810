"""Every argument check and its message.

Every message has one shape: *argument of function must be expectation; got value. What to do.* ``TypeError`` reports a
wrong type, ``ValueError`` a wrong value. Checks that read tensor values are skipped on request, and while a graph is
compiled or vectorised, because reading values would stall or break that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from eastward._messages import MOST_JOBS as MOST_JOBS
from eastward._messages import boolean as boolean
from eastward._messages import decay as decay
from eastward._messages import describe as describe
from eastward._messages import fail as fail
from eastward._messages import in_unit_interval as in_unit_interval
from eastward._messages import jobs as jobs
from eastward._messages import near_misses as near_misses
from eastward._messages import not_negative as not_negative
from eastward._messages import one_of as one_of
from eastward._messages import path as path
from eastward._messages import positive as positive
from eastward._messages import real as real
from eastward._messages import seed as seed
from eastward._messages import whole_number as whole_number

MAX_TEMPERATURE = 0.4
# Far below any useful temperature; a much smaller one would be zero in float32.
MIN_TEMPERATURE = 1e-30


def can_inspect(*tensors: Tensor | None) -> bool:
    """Whether tensor values may be read now: not during compilation, and not inside ``torch.func``."""
    if torch.compiler.is_compiling():
        return False
    return not any(t is not None and (t.is_meta or not has_memory(t)) for t in tensors)


def has_memory(tensor: Tensor) -> bool:
    """Whether a tensor has storage in memory; tensors inside ``torch.func`` have none."""
    try:
        return tensor.data_ptr() != 0 or tensor.numel() == 0
    except (NotImplementedError, RuntimeError):
        return False


def tensor(caller: str, argument: str, value: object) -> None:
    """Check that ``value`` is a tensor."""
    if not isinstance(value, Tensor):
        advice = "Convert it with torch.as_tensor."
        fail(caller, argument, "a torch.Tensor", describe(value), advice, error=TypeError)


def numeric(caller: str, argument: str, value: object) -> Tensor:
    """Return ``value`` as a tensor: a tensor, array or nested list of real numbers."""
    try:
        given = torch.as_tensor(_for_torch(value))
    except (TypeError, ValueError, RuntimeError):
        expected = "a tensor or an array of numbers"
        fail(caller, argument, expected, describe(value), error=TypeError)
    real_numbers(caller, argument, given)
    return given


def _for_torch(value: Any) -> Any:
    """Copy an array that PyTorch does not take as it is: it warns about read-only ones, and refuses reversed ones."""
    read_only = not getattr(getattr(value, "flags", None), "writeable", True)
    backwards = any(stride < 0 for stride in getattr(value, "strides", None) or ())
    return value.copy() if read_only or backwards else value


def real_numbers(caller: str, argument: str, value: Tensor) -> None:
    """Check that ``value`` is dense and not complex."""
    _layout(caller, argument, value)
    if value.is_complex():
        fail(caller, argument, "real numbers", describe(value), error=TypeError)


def beside_rows(caller: str, argument: str, value: object, rows: Tensor) -> Tensor:
    """Return ``value`` as a tensor that broadcasts with ``rows``, in their dtype and on their device."""
    if isinstance(value, Tensor) and value.is_meta and not rows.is_meta:
        fail(caller, argument, "a tensor with values", "one on the meta device")
    given = torch.as_tensor(_for_torch(value), dtype=rows.dtype, device=rows.device)
    try:
        torch.broadcast_shapes(given.shape, rows.shape)
    except RuntimeError:
        expected = f"one number, or of a shape that goes with {tuple(rows.shape)}"
        fail(caller, argument, expected, describe(given))
    return given


def floating(caller: str, argument: str, value: Tensor) -> None:
    """Check that ``value`` has a floating dtype."""
    tensor(caller, argument, value)
    if not value.is_floating_point():
        advice = "Convert it with .float()."
        fail(caller, argument, "floating point", describe(value), advice, error=TypeError)


def ordinary_logits(caller: str, value: object) -> None:
    """Check that the logits are a dense floating tensor with values and at least one column."""
    floating(caller, "logits", value)  # type: ignore[arg-type]  # floating() itself checks that it is a tensor
    if isinstance(value, Tensor):
        _dense(caller, "logits", value)
        if value.dim() >= 2 and value.shape[1] == 0:
            expected = "of shape (N, C) with at least one column"
            fail(caller, "logits", expected, describe(value))


def beside(caller: str, argument: str, value: Any, logits: Tensor) -> None:
    """Check that ``value`` is a dense tensor of real numbers on the logits' device."""
    same_device(caller, argument, value, "logits", logits)
    _dense(caller, argument, value)
    real_numbers(caller, argument, value)


def same_device(caller: str, argument: str, value: Tensor, other: str, there: Tensor) -> None:
    """Check that ``value`` is on the device of the argument called ``other``."""
    if value.device != there.device:
        expected = f"on the {other}' device {there.device}"
        fail(caller, argument, expected, f"a tensor on {value.device}", "Move it with .to().")


def _layout(caller: str, argument: str, value: Tensor) -> None:
    if value.layout != torch.strided or value.is_nested:
        advice = "Convert it with .to_dense(), or torch.nested.to_padded_tensor."
        fail(caller, argument, "a dense tensor", _kind_of(value), advice, error=TypeError)


def _dense(caller: str, argument: str, value: Tensor) -> None:
    _layout(caller, argument, value)
    if torch.compiler.is_compiling() or has_memory(value):
        return
    if value.is_meta:
        fail(caller, argument, "a tensor with values", "one on the meta device")
    if value.numel() and _is_emptied(value):
        got = "one whose storage was freed (resized to zero)"
        fail(caller, argument, "a tensor with values", got)


def _kind_of(value: Tensor) -> str:
    return "a nested tensor" if value.is_nested else f"a tensor of layout {value.layout}"


def _is_emptied(value: Tensor) -> bool:
    try:
        return value.untyped_storage().nbytes() == 0
    except (NotImplementedError, RuntimeError):
        # Tensors inside torch.func have no storage.
        return False


def temperature(caller: str, value: object, *, argument: str = "temperature") -> None:
    """Check a temperature: a number in (0, 0.4], or a tensor of such numbers."""
    advice = "Start at 0.2 and cool towards 0; above 0.4 the step is no longer monotone."
    if isinstance(value, Tensor):
        # One unit in the last place is allowed: 0.4 rounds up in float32 and bfloat16.
        limit = MAX_TEMPERATURE * (1 + torch.finfo(torch.bfloat16).eps)
        real_numbers(caller, argument, value)
        if can_inspect(value) and not bool(((value > 0) & (value <= limit)).all()):
            fail(caller, argument, "in (0, 0.4]", value.detach().flatten()[:5].tolist(), advice)
        return
    number = real(caller, argument, value)
    if not 0 < number <= MAX_TEMPERATURE * (1 + torch.finfo(torch.bfloat16).eps):
        fail(caller, argument, "in (0, 0.4]", value, advice)


def step_height(caller: str, value: object, *, argument: str = "delta") -> None:
    """Check the height of a step: a number in [0, 0.5], or a tensor of such numbers."""
    advice = "Above 0.5 the step would fall in the middle; Bridging the Gap uses 0.2."
    if isinstance(value, Tensor):
        real_numbers(caller, argument, value)
        if can_inspect(value) and not bool(((value >= 0) & (value <= 0.5)).all()):
            fail(caller, argument, "in [0, 0.5]", value.detach().flatten()[:5].tolist(), advice)
        return
    if not 0 <= real(caller, argument, value) <= 0.5:
        fail(caller, argument, "in [0, 0.5]", value, advice)


def one_temperature(caller: str, value: object, *, argument: str = "temperature") -> None:
    """Check a single temperature: a number, or a tensor that holds one."""
    if isinstance(value, Tensor) and value.numel() != 1:
        fail(caller, argument, "one number in (0, 0.4]", describe(value))
    temperature(caller, value, argument=argument)
    if not (isinstance(value, Tensor) and not can_inspect(value)) and value < MIN_TEMPERATURE:  # type: ignore[operator]
        advice = f"Below {MIN_TEMPERATURE:g} it is zero in float32; use step='hard' for the limit."
        fail(caller, argument, f"at least {MIN_TEMPERATURE:g}", value, advice)


def threshold_in_range(caller: str, value: object) -> None:
    """Check a threshold: a number in [0, 1], or a tensor of such numbers."""
    _numbers(caller, "tau", value, "in [0, 1]", lambda tau: (tau >= 0) & (tau <= 1))


def steepness(caller: str, value: object) -> None:
    """Check a steepness: a number above 0, or a tensor of such numbers."""
    _numbers(caller, "k", value, "> 0", lambda k: k > 0)


def _numbers(
    caller: str, argument: str, value: object, expected: str, good: Callable[[Any], Any]
) -> None:
    if not isinstance(value, Tensor):
        number = real(caller, argument, value)
        if not good(number):
            fail(caller, argument, expected, value)
        return
    real_numbers(caller, argument, value)
    if can_inspect(value) and not bool(good(value).all()):
        fail(caller, argument, expected, value.detach().flatten()[:5].tolist())


def thresholds(
    caller: str, value: object, *, argument: str = "threshold"
) -> tuple[float, ...] | None:
    """Return None for "top2", else the threshold grid as a tuple of numbers in (0, 1)."""
    if isinstance(value, str):
        one_of(caller, argument, value, ("top2",), otherwise="a number, or a sequence of numbers")
        return None
    if isinstance(value, Real):
        return (in_unit_interval(caller, argument, value),)
    if isinstance(value, Tensor):
        _dense(caller, argument, value)
        value = value.tolist() if value.dim() else [value.item()]
    if not isinstance(value, Iterable):
        expected = "'top2', a number in (0, 1), or a sequence of such numbers"
        fail(caller, argument, expected, describe(value), error=TypeError)
    grid = tuple(in_unit_interval(caller, argument, entry) for entry in value)
    if not grid:
        fail(caller, argument, "a non-empty sequence", "an empty one")
    return grid


def ignore_index(caller: str, value: object) -> int | None:
    """Check an ignored label: an integer, or None if no label is ignored."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral):
        fail(caller, "ignore_index", "an integer or None", describe(value), error=TypeError)
    number = int(value)
    if not -(2**63) < number < 2**63:
        fail(caller, "ignore_index", "a 64-bit integer", value, "No target can have that value.")
    return number


def finite(caller: str, argument: str, value: Tensor) -> None:
    """Check that ``value`` contains neither NaN nor infinity."""
    good = torch.isfinite(value)
    if bool(good.all()):
        return
    nans = int(torch.isnan(value).sum())
    infinite = value.numel() - int(good.sum()) - nans
    advice = (
        "The model diverged or the features hold such values; check_inputs=False skips this check."
    )
    fail(
        caller, argument, "finite", f"{nans} NaN and {infinite} infinite of {value.numel()}", advice
    )


def probabilities(caller: str, value: Tensor) -> None:
    """Check that ``value`` lies in [0, 1]."""
    outside = ~((value >= 0) & (value <= 1))
    if bool(outside.any()):
        count, example = int(outside.sum()), float(value[outside].flatten()[0])
        advice = "Pass probabilities, not logits: torch.softmax(logits, 1)."
        fail(
            caller,
            "probabilities",
            "in [0, 1]",
            f"{count} outside, for example {example:g}",
            advice,
        )


def class_targets(caller: str, targets: Tensor, num_classes: int, ignored: int | None) -> None:
    """Check that labels are integers in [0, num_classes), or the ignored label."""
    tensor(caller, "targets", targets)
    if targets.is_floating_point() or targets.is_complex():
        advice = "Class indices are needed: targets.long(); for one-hot rows targets.argmax(1)."
        fail(caller, "targets", "integer class indices", describe(targets), advice, error=TypeError)
    if not can_inspect(targets) or targets.dtype == torch.bool:
        return
    # As int64: compared with a byte, an ignored label of -100 would wrap around to 156.
    labels = targets.long()
    outside = (labels < 0) | (labels >= num_classes)
    if ignored is not None:
        outside &= labels != ignored
    if bool(outside.any()):
        count, example = int(outside.sum()), int(labels[outside].flatten()[0])
        rule = (
            "no label is ignored"
            if ignored is None
            else f"only ignore_index={ignored} is passed over"
        )
        got = f"{count} outside, for example {example}"
        fail(caller, "targets", f"in [0, {num_classes})", got, f"Check the labels; {rule}.")


def indicator_targets(caller: str, targets: Tensor, ignored: int | None) -> None:
    """Check that labels are zeros and ones, or the ignored label."""
    tensor(caller, "targets", targets)
    real_numbers(caller, "targets", targets)
    if not can_inspect(targets) or targets.dtype == torch.bool:
        return
    labels = targets if targets.is_floating_point() else targets.long()
    outside = (labels != 0) & (labels != 1)
    if ignored is not None:
        outside &= labels != ignored
    if bool(outside.any()):
        count, example = int(outside.sum()), labels[outside].flatten()[0].item()
        fail(caller, "targets", "0 or 1", f"{count} other values, for example {example:g}")


def weights(caller: str, sample_weight: Tensor) -> None:
    """Check that sample weights are finite and not negative."""
    tensor(caller, "sample_weight", sample_weight)
    real_numbers(caller, "sample_weight", sample_weight)
    if not can_inspect(sample_weight) or sample_weight.numel() == 0:
        return
    low, high = sample_weight.detach().aminmax()
    # This also rejects NaN.
    if low >= 0 and high < torch.inf:
        return
    bad = ~(torch.isfinite(sample_weight) & (sample_weight >= 0))
    if bool(bad.any()):
        count, example = int(bad.sum()), sample_weight[bad].flatten()[0].item()
        fail(caller, "sample_weight", "finite and >= 0", f"{count} others, for example {example:g}")


def prior(
    caller: str,
    value: Any,
    size: int | None,
    *,
    sums_to_one: bool = True,
    check_values: bool = True,
) -> Tensor:
    """Return the class prior as a tensor of ``size`` numbers >= 0 that sum to one; None allows any size.

    ``check_values`` is False for a prior whose values were checked before.
    """
    try:
        given = torch.as_tensor(
            _for_torch(value), dtype=None if isinstance(value, Tensor) else torch.float64
        )
    except (TypeError, ValueError, RuntimeError):
        fail(caller, "prior", "one number per class", describe(value), error=TypeError)
    if given.dim() != 1:
        fail(caller, "prior", "one number per class", describe(value), error=TypeError)
    if size is not None and given.shape != (size,):
        fail(caller, "prior", f"of length {size}, one entry per class", describe(given))
    if not check_values or not can_inspect(given):
        return given
    if not bool((torch.isfinite(given) & (given >= 0) & (given <= 1)).all()):
        fail(caller, "prior", "made of numbers in [0, 1]", given.tolist()[:10])
    if sums_to_one and abs(float(given.double().sum()) - 1) > 1e-3:
        advice = "Divide the class counts by their total."
        fail(
            caller, "prior", "a distribution that sums to 1", f"sum {float(given.sum()):g}", advice
        )
    return given


def beta(caller: str, value: Any, num_classes: int) -> Tensor:
    """Return beta as ``num_classes`` (or one) float64 numbers > 0.

    Classes that a mapping does not name get a beta of 1.
    """
    if isinstance(value, Mapping):
        value = _beta_from_mapping(caller, value, num_classes)
    try:
        betas = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        expected = "a number, one number per class, or a mapping from class to number"
        fail(caller, "beta", expected, describe(value), error=TypeError)
    if betas.dim() > 1 or (betas.dim() == 1 and betas.numel() != num_classes):
        fail(caller, "beta", f"a number or {num_classes} of them, one per class", describe(betas))
    if can_inspect(betas) and not bool((torch.isfinite(betas) & (betas > 0)).all()):
        fail(caller, "beta", "finite and > 0", value, "beta < 1 favours precision, > 1 recall.")
    return betas


def _beta_from_mapping(caller: str, value: Mapping[Any, Any], num_classes: int) -> list[float]:
    betas = [1.0] * num_classes
    for label, number in value.items():
        if not _is_class_index(label, num_classes):
            expected = f"a mapping whose keys are class indices in [0, {num_classes})"
            fail(caller, "beta", expected, f"key {label!r}")
        betas[int(label)] = real(caller, f"beta[{label}]", number)
    return betas


def _is_class_index(label: object, num_classes: int) -> bool:
    integer = isinstance(label, Integral) and not isinstance(label, bool)
    return integer and 0 <= int(label) < num_classes  # type: ignore[call-overload]  # checked just before


def cost(caller: str, value: Any, num_classes: int) -> Tensor:
    """Return the cost table as a finite ``(num_classes, num_classes)`` tensor."""
    try:
        table = torch.as_tensor(
            _for_torch(value), dtype=None if isinstance(value, Tensor) else torch.float64
        )
    except (TypeError, ValueError, RuntimeError):
        fail(caller, "cost", "a square table of numbers", describe(value), error=TypeError)
    if table.shape != (num_classes, num_classes):
        expected = f"of shape ({num_classes}, {num_classes}): rows true, columns predicted"
        fail(caller, "cost", expected, describe(table))
    if can_inspect(table) and not bool(torch.isfinite(table).all()):
        fail(caller, "cost", "finite", "NaN or infinite entries")
    return table


def metric_value(name: str, value: object, table: Tensor) -> None:
    """Check that a metric returned a 0-d tensor that is still connected to the table."""
    if not isinstance(value, Tensor) or value.dim() != 0:
        advice = "Return one number per call, for example by .mean()."
        fail(name, "the result", "a 0-d tensor", describe(value), advice, error=TypeError)
    if table.requires_grad and not value.requires_grad:
        advice = "Use torch operations only: no .item(), .detach(), NumPy or torch.tensor(...)."
        fail(name, "the result", "differentiable", "a tensor cut off from the graph", advice)
