"""Train, decide and report with the one metric you are judged by.

``import eastward`` loads torch and nothing heavier; what needs more is loaded when it is first used.
"""

from eastward import annealing, metrics
from eastward.confusion import Counts, multilabel_counts, soft_confusion, soft_counts
from eastward.losses import AUROCLoss, AveragePrecisionLoss, EASTLoss, metric_loss
from eastward.memberships import soft_memberships
from eastward.steps import hard_step, heaviside, sigmoid_step

__version__ = "0.1.0"

__all__ = [
    "AUROCLoss",
    "AveragePrecisionLoss",
    "Counts",
    "EASTLoss",
    "annealing",
    "hard_step",
    "heaviside",
    "metric_loss",
    "metrics",
    "multilabel_counts",
    "sigmoid_step",
    "soft_confusion",
    "soft_counts",
    "soft_memberships",
]
