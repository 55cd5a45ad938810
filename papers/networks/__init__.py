"""The networks of the papers; torchvision is not needed.

The networks for images need torch only. Those for tables are the trainer's and come with the extra ``tabular``, the
graph network needs torch_geometric (the extra ``graph``); they are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from papers.networks.darknet import Darknet19
from papers.networks.resnet import ResNet, resnet18, resnet34

if TYPE_CHECKING:
    from papers.networks.group_network import GroupAffinityNetwork, frame_graph
    from papers.networks.tables import btg_network, east_network

__all__ = [
    "Darknet19",
    "GroupAffinityNetwork",
    "ResNet",
    "btg_network",
    "east_network",
    "frame_graph",
    "resnet18",
    "resnet34",
]

# Loaded when first used, with the extra that brings what they need.
_LAZY = {
    "GroupAffinityNetwork": ("papers.networks.group_network", "graph"),
    "btg_network": ("papers.networks.tables", "tabular"),
    "east_network": ("papers.networks.tables", "tabular"),
    "frame_graph": ("papers.networks.group_network", "graph"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'papers.networks' has no attribute {name!r}")
    module, extra = _LAZY[name]
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        message = f"{name} needs {error.name}: install it with  pip install 'eastward[{extra}]'"
        raise ModuleNotFoundError(message, name=error.name) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
