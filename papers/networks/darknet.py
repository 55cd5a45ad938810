"""Darknet-19, the papers' network for images."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from eastward import _checks

__all__ = ["Darknet19"]

# Channels of each stage's convolutions; widths alternate between 3 x 3 and, to compress, 1 x 1. A stage ends where
# the resolution is halved and the channels double.
_STAGES = (
    (32,),
    (64,),
    (128, 64, 128),
    (256, 128, 256),
    (512, 256, 512, 256, 512),
    (1024, 512, 1024, 512, 1024),
)


class Darknet19(nn.Module):
    """Nineteen convolutions, five halvings of the resolution, and a mean over what is left.

    Parameters
    ----------
    num_outputs : int
        Logits: the number of classes, or 1 for a single positive-class logit.
    in_channels : int, default=3
        1 for grey images.
    small_images : bool, default=False
        For 32 x 32: the first stage does not halve the resolution, so that the last one sees 2 x 2 positions and not
        one. Leave it off from 64 x 64 on.
    width : float, default=1.0
        Factor of all channel counts, for runs without a GPU; say so where a result is shown.
    dropout : float, default=0.0
        Dropout rate of whole channels before the last convolution. YOLOv2's network has none; EAST searches over 0.25
        and 0.5 and does not say where it stands.

    Notes
    -----
    3 x 3 filters, channels that double after each pooling, 1 x 1 filters that compress between them, batch
    normalisation and leaky ReLU, and global average pooling after the last 1 x 1 convolution, as in YOLOv2. Any image
    of at least 32 x 32 pixels (16 x 16 with ``small_images``) will do.

    References
    ----------
    Redmon and Farhadi, *YOLO9000*, CVPR 2017, Table 6; EAST, E.3.1.

    Examples
    --------
    >>> import torch
    >>> Darknet19(10, small_images=True, width=0.125)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        num_outputs: int,
        *,
        in_channels: int = 3,
        small_images: bool = False,
        width: float = 1.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        caller = "Darknet19"
        outputs = _checks.whole_number(caller, "num_outputs", num_outputs, at_least=1)
        channels = _checks.whole_number(caller, "in_channels", in_channels, at_least=1)
        factor = _checks.positive(caller, "width", width)
        rate = _checks.real(caller, "dropout", dropout)
        if not 0 <= rate < 1:
            _checks.fail(caller, "dropout", "in [0, 1)", dropout)
        layers: list[nn.Module] = []
        for index, stage in enumerate(_STAGES):
            widths = [channels, *(max(1, round(factor * count)) for count in stage)]
            layers += _convolutions(widths)
            channels = widths[-1]
            last = index == len(_STAGES) - 1
            if not last and not (small_images and index == 0):
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.dropout = nn.Dropout2d(rate)
        self.scores = nn.Conv2d(channels, outputs, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(N, num_outputs)`` of images ``(N, in_channels, H, W)``."""
        logits: Tensor = self.scores(self.dropout(self.features(images))).mean(dim=(2, 3))
        return logits


def _convolutions(widths: list[int]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for index, (before, after) in enumerate(pairwise(widths)):
        size = 3 if index % 2 == 0 else 1
        layers += [
            nn.Conv2d(before, after, size, padding=size // 2, bias=False),
            nn.BatchNorm2d(after),
            nn.LeakyReLU(0.1),
        ]
    return layers
