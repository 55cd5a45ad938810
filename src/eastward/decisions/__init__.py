"""From scores to decisions, and the offsets per class that a metric wants.

A model's probabilities say how likely each class is; which class to *decide* for depends on how decisions are judged.
Here the judge is a metric, and the answer is a shift of the log-probabilities, found on cross-fitted predictions.
"""

from eastward.decisions.bagging import bagged_offsets
from eastward.decisions.gain import DecisionGain, decision_gain
from eastward.decisions.guard import (
    OffsetEvidence,
    guarded_offsets,
    offset_evidence,
    stratified_folds,
)
from eastward.decisions.keeping import keep_classes
from eastward.decisions.multilabel import multilabel_thresholds
from eastward.decisions.offsets import tune_offsets
from eastward.decisions.rules import ABSTAIN, cheapest, decide
from eastward.decisions.smoothing import LABEL_SHARE, smoothed_offsets
from eastward.decisions.surrogate import anneal_offsets

__all__ = [
    "ABSTAIN",
    "LABEL_SHARE",
    "DecisionGain",
    "OffsetEvidence",
    "anneal_offsets",
    "bagged_offsets",
    "cheapest",
    "decide",
    "decision_gain",
    "guarded_offsets",
    "keep_classes",
    "multilabel_thresholds",
    "offset_evidence",
    "smoothed_offsets",
    "stratified_folds",
    "tune_offsets",
]
