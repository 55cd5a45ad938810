"""ResNet-18 and ResNet-34, the networks of Lee et al."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from eastward import _checks

__all__ = ["ResNet", "resnet18", "resnet34"]

_CHANNELS = (64, 128, 256, 512)


class _Residual(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut, which is a 1 x 1 convolution where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            reshape = nn.Conv2d(before, after, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(reshape, nn.BatchNorm2d(after))

    def forward(self, features: Tensor) -> Tensor:
        hidden = functional.relu(self.first_norm(self.first(features)))
        return functional.relu(self.second_norm(self.second(hidden)) + self.shortcut(features))


class ResNet(nn.Module):
    """A residual network of basic blocks.

    Parameters
    ----------
    blocks : sequence of int
        Blocks of each of the four stages.
    num_outputs : int
        Logits: the number of classes, or 1 for a single positive-class logit.
    in_channels : int, default=3
        1 for grey images.
    small_images : bool, default=True
        Begin with one 3 x 3 convolution, for 32 x 32 images; False begins with 7 x 7, stride 2, and a pooling, as for
        224 x 224.
    width : float, default=1.0
        Factor of all channel counts, for runs without a GPU; say so where a result is shown.

    References
    ----------
    He et al., *Deep residual learning for image recognition*, CVPR 2016, Table 1; Lee et al., section 5.1.

    Examples
    --------
    >>> import torch
    >>> ResNet((1, 1, 1, 1), 1, width=0.125)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 1])
    """

    def __init__(
        self,
        blocks: Sequence[int],
        num_outputs: int,
        *,
        in_channels: int = 3,
        small_images: bool = True,
        width: float = 1.0,
    ) -> None:
        super().__init__()
        outputs = _checks.whole_number("ResNet", "num_outputs", num_outputs, at_least=1)
        inputs = _checks.whole_number("ResNet", "in_channels", in_channels, at_least=1)
        factor = _checks.positive("ResNet", "width", width)
        if len(blocks) != len(_CHANNELS):
            _checks.fail("ResNet", "blocks", "four numbers, one per stage", list(blocks))
        channels = [max(1, round(factor * count)) for count in _CHANNELS]
        self.stem = _stem(inputs, channels[0], small_images=small_images)
        before, layers = channels[0], []
        for stage, (count, after) in enumerate(zip(blocks, channels, strict=True)):
            _checks.whole_number("ResNet", "blocks", count, at_least=1)
            for index in range(count):
                layers.append(_Residual(before, after, 2 if stage > 0 and index == 0 else 1))
                before = after
        self.stages = nn.Sequential(*layers)
        self.scores = nn.Linear(before, outputs)
        self._initialise()

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(N, num_outputs)`` of images ``(N, in_channels, H, W)``."""
        logits: Tensor = self.scores(self.stages(self.stem(images)).mean(dim=(2, 3)))
        return logits

    def _initialise(self) -> None:
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")


def _stem(inputs: int, outputs: int, *, small_images: bool) -> nn.Sequential:
    if small_images:
        layers: list[nn.Module] = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)]
    else:
        layers = [nn.Conv2d(inputs, outputs, 7, stride=2, padding=3, bias=False)]
    layers += [nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, *([] if small_images else [nn.MaxPool2d(3, 2, padding=1)]))


def resnet18(
    num_outputs: int, *, in_channels: int = 3, small_images: bool = True, width: float = 1.0
) -> ResNet:
    """ResNet-18, two blocks in each stage; see :class:`ResNet`.

    Examples
    --------
    >>> sum(p.numel() for p in resnet18(1000, small_images=False).parameters())
    11689512
    """
    blocks = (2, 2, 2, 2)
    return ResNet(
        blocks, num_outputs, in_channels=in_channels, small_images=small_images, width=width
    )


def resnet34(
    num_outputs: int, *, in_channels: int = 3, small_images: bool = True, width: float = 1.0
) -> ResNet:
    """ResNet-34, three, four, six and three blocks in its stages; see :class:`ResNet`.

    Examples
    --------
    >>> sum(p.numel() for p in resnet34(1000, small_images=False).parameters())
    21797672
    """
    blocks = (3, 4, 6, 3)
    return ResNet(
        blocks, num_outputs, in_channels=in_channels, small_images=small_images, width=width
    )
