"""Train, decide and report with the one metric you are judged by.

``import eastward`` loads nothing heavy. Each name is loaded on first use; the losses load torch and nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eastward._version import __version__ as __version__

if TYPE_CHECKING:
    from eastward import annealing, baselines, decisions, metrics, theory
    from eastward.alignment.aligning import align
    from eastward.alignment.result import Alignment
    from eastward.alignment.schedule import AlignmentSchedule
    from eastward.comparison import Comparison, compare
    from eastward.confusion import Counts, multilabel_counts, soft_confusion, soft_counts
    from eastward.decisions import Decision, tune_decision
    from eastward.estimators.boosting import EASTBoostingClassifier
    from eastward.estimators.ensemble import EASTEnsembleClassifier
    from eastward.estimators.network import EASTClassifier
    from eastward.estimators.tuned import TunedDecisionClassifierCV
    from eastward.losses import (
        AUROCLoss,
        AveragePrecisionLoss,
        EASTLoss,
        exact_backward,
        metric_loss,
    )
    from eastward.memberships import soft_memberships
    from eastward.steps import btg_step, hard_step, heaviside, sigmoid_step
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
    "decisions",
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

# Where each name lives, and the extra that brings what it needs.
_LAZY = {
    "AUROCLoss": ("eastward.losses", ""),
    "AveragePrecisionLoss": ("eastward.losses", ""),
    "Counts": ("eastward.confusion", ""),
    "EASTLoss": ("eastward.losses", ""),
    "btg_step": ("eastward.steps", ""),
    "exact_backward": ("eastward.losses", ""),
    "hard_step": ("eastward.steps", ""),
    "heaviside": ("eastward.steps", ""),
    "metric_loss": ("eastward.losses", ""),
    "multilabel_counts": ("eastward.confusion", ""),
    "sigmoid_step": ("eastward.steps", ""),
    "soft_confusion": ("eastward.confusion", ""),
    "soft_counts": ("eastward.confusion", ""),
    "soft_memberships": ("eastward.memberships", ""),
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


_MODULES = ("annealing", "baselines", "decisions", "metrics", "theory")


# Hidden from type checkers, which read the imports above and so report names that do not exist.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"eastward.{name}")
        if name not in _LAZY:
            raise AttributeError(f"module 'eastward' has no attribute {name!r}")
        module, extra = _LAZY[name]
        try:
            found = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            message = f"{name} needs {error.name}: install it with  pip install 'eastward[{extra}]'"
            raise ModuleNotFoundError(message, name=error.name) from error
        globals()[name] = found  # so that the next access skips this function
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})
