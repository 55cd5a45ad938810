"""The papers' baselines: losses, a linear classifier, and a random forest for images.

The losses need only torch and numpy; the adversarial one also needs scipy when it is first called. The two estimators
need scikit-learn and are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eastward.baselines.adversarial import AdversarialFBetaLoss
from eastward.baselines.class_balance import class_weights
from eastward.baselines.overlap import DiceLoss, SoftFBetaLoss
from eastward.baselines.pointwise import BalancedCrossEntropyLoss, FocalLoss, MAELoss
from eastward.baselines.surrogate_f_beta import SurrogateFBetaLoss
from eastward.baselines.wilcoxon import WilcoxonMannWhitneyLoss

if TYPE_CHECKING:
    from eastward.baselines.convex_calibrated import ConvexCalibratedFBeta
    from eastward.baselines.images import image_forest, on_principal_components

__all__ = [
    "AdversarialFBetaLoss",
    "BalancedCrossEntropyLoss",
    "ConvexCalibratedFBeta",
    "DiceLoss",
    "FocalLoss",
    "MAELoss",
    "SoftFBetaLoss",
    "SurrogateFBetaLoss",
    "WilcoxonMannWhitneyLoss",
    "class_weights",
    "image_forest",
    "on_principal_components",
]

_LAZY = {
    "ConvexCalibratedFBeta": "eastward.baselines.convex_calibrated",
    "image_forest": "eastward.baselines.images",
    "on_principal_components": "eastward.baselines.images",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'eastward.baselines' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        message = f"{name} needs {error.name}: install it with  pip install 'eastward[tabular]'"
        raise ModuleNotFoundError(message, name=error.name) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
