"""The papers' networks by name, made for a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from eastward.training.members import plain_mlp
from papers import networks

__all__ = ["AUGMENTED_SIDE", "NETWORKS", "FrameNetwork", "moved_and_mirrored", "padded"]

AUGMENTED_SIDE, PADDING = 32, 4


def _perceptron(sample: Tensor, outputs: int, dropout: float, width: float) -> nn.Module:
    if width == 1:
        return networks.east_network(sample.numel(), outputs, dropout=dropout)
    hidden = [max(2, round(width * size)) for size in (512, 256, 128)]
    return plain_mlp([sample.numel(), *hidden, outputs], dropout)


def _normalised_perceptron(sample: Tensor, outputs: int, dropout: float, width: float) -> nn.Module:
    """The network for tables with batch normalisation before each ReLU: a row of our own, not the papers'."""
    sizes = [sample.numel(), *(max(2, round(width * size)) for size in (512, 256, 128))]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


def _small_perceptron(sample: Tensor, outputs: int, dropout: float, _: float) -> nn.Module:
    return networks.btg_network(sample.numel(), outputs, dropout=dropout)


def _darknet(sample: Tensor, outputs: int, dropout: float, width: float) -> nn.Module:
    return networks.Darknet19(
        outputs,
        in_channels=sample.shape[0],
        small_images=sample.shape[-1] < 64,
        width=width,
        dropout=dropout,
    )


def _resnet(
    make: Callable[..., nn.Module], _: Tensor, outputs: int, __: float, width: float
) -> nn.Module:
    # Lee repeats grey pictures into three channels.
    return nn.Sequential(ThreeChannels(), make(outputs, in_channels=3, width=width))


def _frames(_: Tensor, outputs: int, __: float, width: float) -> nn.Module:
    return FrameNetwork(outputs, hidden=max(4, round(64 * width)))


class ThreeChannels(nn.Module):
    """Grey pictures ``(N, 1, H, W)`` as three equal channels; others as they are."""

    def forward(self, images: Tensor) -> Tensor:
        """Pictures ``(N, 3, H, W)``."""
        return images.expand(-1, 3, -1, -1)


class FrameNetwork(nn.Module):
    """The graph network on frames ``(N, people, 4)`` in which every frame has the same number of people."""

    def __init__(self, outputs: int, hidden: int = 64) -> None:
        super().__init__()
        self.affinities = networks.GroupAffinityNetwork(outputs, hidden=hidden)

    def forward(self, frames: Tensor) -> Tensor:
        """Logits ``(N * pairs, outputs)``, frame by frame."""
        logits: Tensor = self.affinities(_one_graph(frames))
        return logits


def _one_graph(frames: Tensor) -> Any:
    """All frames as one graph without edges between frames; what ``frame_graph`` makes of each, but at once."""
    from torch_geometric.data import Data  # noqa: PLC0415  # only the graph experiment needs it

    count, people, _ = frames.shape
    places = frames[..., :2]
    centred = torch.cat([places - places.mean(1, keepdim=True), frames[..., 2:]], dim=2)
    sources, ends = torch.nonzero(~torch.eye(people, dtype=torch.bool), as_tuple=True)
    distances = (places[:, sources] - places[:, ends]).norm(dim=2)
    start = people * torch.arange(count).unsqueeze(1)
    edges = torch.stack([(start + sources).flatten(), (start + ends).flatten()])
    return Data(x=centred.flatten(0, 1), edge_index=edges, edge_attr=distances.reshape(-1, 1))


# (one sample, number of outputs, dropout, width factor) -> network
NETWORKS: Mapping[str, Callable[[Tensor, int, float, float], nn.Module]] = MappingProxyType(
    {
        "512-256-128": _perceptron,
        "512-256-128 with batch norm": _normalised_perceptron,
        "32-16": _small_perceptron,
        "Darknet-19": _darknet,
        "ResNet-18": partial(_resnet, networks.resnet18),
        "ResNet-34": partial(_resnet, networks.resnet34),
        "graph": _frames,
    }
)


def padded(images: Tensor, side: int) -> Tensor:
    """Pictures with a margin of zeros, which is the mean, up to ``side``."""
    missing = side - images.shape[-1]
    before = missing // 2
    return functional.pad(images, [before, missing - before, before, missing - before])


def moved_and_mirrored(images: Tensor, generator: torch.Generator) -> Tensor:
    """Lee's augmentation: 4 pixels of margin, a random 32 x 32 crop of each picture, and half of them mirrored."""
    wide = functional.pad(images, [PADDING] * 4)
    count, room = len(images), wide.shape[-1] - AUGMENTED_SIDE
    corner = torch.randint(room + 1, (2, count, 1), generator=generator)
    rows, columns = corner + torch.arange(AUGMENTED_SIDE)
    mirrored = torch.rand(count, generator=generator) < 0.5
    columns = torch.where(mirrored.unsqueeze(1), columns.flip(1), columns)
    picture = torch.arange(count).reshape(-1, 1, 1)
    # Indices in front: (N, 32, 32, channels), which is channels-last already.
    return wide[picture, :, rows.unsqueeze(2), columns.unsqueeze(1)].permute(0, 3, 1, 2)
