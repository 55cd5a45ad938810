"""From scores to decisions, and the offsets per class that a metric wants.

A model's probabilities say how likely each class is; which class to *decide* for depends on how decisions are judged.
Here the judge is a metric, and the answer is a shift of the log-probabilities, found on cross-fitted predictions.
"""

from eastward.decisions.bagging import bagged_offsets
from eastward.decisions.bounds import rate_bound
from eastward.decisions.calibration import Calibration, fit_calibration
from eastward.decisions.conformal import PredictionSets, prediction_sets
from eastward.decisions.constraints import Constraint, KeptConstraint
from eastward.decisions.deciding import tune_decision
from eastward.decisions.gain import DecisionGain, decision_gain
from eastward.decisions.guard import (
    OffsetEvidence,
    guarded_offsets,
    offset_evidence,
    stratified_folds,
)
from eastward.decisions.keeping import keep_classes
from eastward.decisions.matrix import Decision
from eastward.decisions.multilabel import LabelThresholds, multilabel_thresholds
from eastward.decisions.offsets import tune_offsets
from eastward.decisions.rules import ABSTAIN, cheapest, decide
from eastward.decisions.shifting import adjusted_probabilities, estimate_prior
from eastward.decisions.smoothing import LABEL_SHARE, smoothed_offsets
from eastward.decisions.surrogate import anneal_offsets

__all__ = [
    "ABSTAIN",
    "LABEL_SHARE",
    "Calibration",
    "Constraint",
    "Decision",
    "DecisionGain",
    "KeptConstraint",
    "LabelThresholds",
    "OffsetEvidence",
    "PredictionSets",
    "adjusted_probabilities",
    "anneal_offsets",
    "bagged_offsets",
    "cheapest",
    "decide",
    "decision_gain",
    "estimate_prior",
    "fit_calibration",
    "guarded_offsets",
    "keep_classes",
    "multilabel_thresholds",
    "offset_evidence",
    "prediction_sets",
    "rate_bound",
    "smoothed_offsets",
    "stratified_folds",
    "tune_decision",
    "tune_offsets",
]
