"""Train, decide and report with the one metric you are judged by.

``import eastward`` loads torch and nothing heavier; what needs more is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eastward import annealing, baselines, metrics, theory
from eastward._version import __version__ as __version__
from eastward.confusion import Counts, multilabel_counts, soft_confusion, soft_counts
from eastward.losses import (
    AUROCLoss,
    AveragePrecisionLoss,
    EASTLoss,
    exact_backward,
    metric_loss,
)
from eastward.memberships import soft_memberships
from eastward.steps import btg_step, hard_step, heaviside, sigmoid_step

if TYPE_CHECKING:
    from eastward.alignment.aligning import align
    from eastward.alignment.result import Alignment
    from eastward.alignment.schedule import AlignmentSchedule
    from eastward.comparison import Comparison, compare
    from eastward.decisions import Decision, tune_decision
    from eastward.estimators.boosting import EASTBoostingClassifier
    from eastward.estimators.ensemble import EASTEnsembleClassifier
    from eastward.estimators.network import EASTClassifier
    from eastward.estimators.tuned import TunedDecisionClassifierCV
    from eastward.tuning import tune

__all__ = [
    "AUROCLoss",
    "Alignment",
    "AlignmentSchedule",
    "AveragePrecisionLoss",
    "Comparison",
    "Counts",
    "Decision",
    "EASTBoostingClassifier",
    "EASTClassifier",
    "EASTEnsembleClassifier",
    "EASTLoss",
    "TunedDecisionClassifierCV",
    "align",
    "annealing",
    "baselines",
    "btg_step",
    "compare",
    "exact_backward",
    "hard_step",
    "heaviside",
    "metric_loss",
    "metrics",
    "multilabel_counts",
    "sigmoid_step",
    "soft_confusion",
    "soft_counts",
    "soft_memberships",
    "theory",
    "tune",
    "tune_decision",
]

# Loaded when first used, with the extra that brings what they need.
_LAZY = {
    "Alignment": ("eastward.alignment.result", ""),
    "AlignmentSchedule": ("eastward.alignment.schedule", ""),
    "align": ("eastward.alignment.aligning", "tabular"),
    "Comparison": ("eastward.comparison", "tabular"),
    "Decision": ("eastward.decisions", ""),
    "EASTBoostingClassifier": ("eastward.estimators.boosting", "boost"),
    "EASTClassifier": ("eastward.estimators.network", "tabular"),
    "EASTEnsembleClassifier": ("eastward.estimators.ensemble", "tabular,boost"),
    "TunedDecisionClassifierCV": ("eastward.estimators.tuned", "tabular"),
    "compare": ("eastward.comparison", "tabular"),
    "tune": ("eastward.tuning", "tabular,search"),
    "tune_decision": ("eastward.decisions", ""),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'eastward' has no attribute {name!r}")
    module, extra = _LAZY[name]
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        message = f"{name} needs {error.name}: install it with  pip install 'eastward[{extra}]'"
        raise ModuleNotFoundError(message, name=error.name) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
