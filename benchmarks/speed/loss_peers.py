"""Losses of other packages, as functions of ``(N, d)`` logits and class indices; absent packages are left out."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional

Loss = Callable[[Tensor, Tensor], Tensor]
PACKAGES = ("monai", "segmentation_models_pytorch", "torch_btg", "imbalanced_losses")


def soft_f1(logits: Tensor, targets: Tensor) -> Tensor:
    """The plain soft macro-F1 that people write by hand."""
    p = torch.softmax(logits, 1)
    truth = functional.one_hot(targets, logits.shape[1]).to(p)
    tp = (p * truth).sum(0)
    return 1 - (2 * tp / (p.sum(0) + truth.sum(0)).clamp_min(1e-8)).mean()


def absent() -> list[str]:
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


def peers(size: int) -> dict[str, Loss]:
    """Return the peers that support ``size`` classes."""
    found: dict[str, Loss] = {"soft F1": soft_f1}
    found |= _monai() | _smp(size) | _imbalanced(size)
    return found | (_btg() if size == 2 else {})


def _as_image(logits: Tensor) -> Tensor:
    """Samples as the pixels of one image, ``(1, d, N)``, without a copy."""
    return logits.t().unsqueeze(0)


def _monai() -> dict[str, Loss]:
    if importlib.util.find_spec("monai") is None:
        return {}
    dice = importlib.import_module("monai.losses").DiceLoss(to_onehot_y=True, softmax=True)
    return {"MONAI Dice": lambda z, y: dice(_as_image(z), y.view(1, 1, -1))}


def _smp(size: int) -> dict[str, Loss]:
    if "segmentation_models_pytorch" not in sys.modules:
        spec = importlib.util.find_spec("segmentation_models_pytorch")
        if spec is None:
            return {}
        # Its losses need nothing; the package around them would load every encoder.
        package = types.ModuleType("segmentation_models_pytorch")
        package.__path__ = list(spec.submodule_search_locations or [])
        package.__spec__ = spec
        sys.modules["segmentation_models_pytorch"] = package
    losses = importlib.import_module("segmentation_models_pytorch.losses")
    dice = losses.DiceLoss(mode="multiclass", from_logits=True)
    found: dict[str, Loss] = {"smp Dice": lambda z, y: dice(_as_image(z), y.view(1, -1))}
    if size == 2:
        mcc = losses.MCCLoss()
        found["smp MCC"] = lambda z, y: mcc(torch.sigmoid(z[:, 1] - z[:, 0]), y)
    return found


def _imbalanced(size: int) -> dict[str, Loss]:
    if importlib.util.find_spec("imbalanced_losses") is None:
        return {}
    losses = importlib.import_module("imbalanced_losses")
    return {"il recall@q": losses.RecallAtQuantileLoss(num_classes=size, queue_size=0)}


def _btg() -> dict[str, Loss]:
    if importlib.util.find_spec("torch_btg") is None:
        return {}
    with mock.patch(
        "torch.range", lambda start, end, step: torch.arange(start, end + step / 2, step)
    ):
        module: Any = importlib.import_module("torch_btg.loss")
    # It sends a tensor to a GPU that need not be there.
    Tensor.cuda = lambda self, *_args, **_kwargs: self  # type: ignore[method-assign]
    loss = module.fb_loss()
    return {"torch-btg": lambda z, y: loss(torch.sigmoid(z[:, 1] - z[:, 0]), y.float())[0]}
