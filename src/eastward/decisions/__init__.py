"""From probabilities to decisions: one small matrix, found for a metric on held-out predictions.

A model's probabilities say how likely each class is. Which class to *decide* for depends on how decisions are judged:
by a metric, and optionally by constraints, a cost of not deciding, and other class frequencies.
"""

from eastward.bounds import rate_bound
from eastward.constraints import Constraint, KeptConstraint
from eastward.decisions._inputs import stratified_folds
from eastward.decisions.calibration import Calibration, fit_calibration
from eastward.decisions.conformal import PredictionSets, prediction_sets
from eastward.decisions.deciding import tune_decision
from eastward.decisions.estimating import keep_classes
from eastward.decisions.gain import DecisionGain, decision_gain
from eastward.decisions.matrix import Decision
from eastward.decisions.multilabel import LabelThresholds, multilabel_thresholds
from eastward.decisions.offsets import (
    LABEL_SHARE,
    anneal_offsets,
    bagged_offsets,
    smoothed_offsets,
    tune_offsets,
)
from eastward.decisions.rules import ABSTAIN, cheapest, decide
from eastward.decisions.shifting import adjusted_probabilities, estimate_prior

__all__ = [
    "ABSTAIN",
    "LABEL_SHARE",
    "Calibration",
    "Constraint",
    "Decision",
    "DecisionGain",
    "KeptConstraint",
    "LabelThresholds",
    "PredictionSets",
    "adjusted_probabilities",
    "anneal_offsets",
    "bagged_offsets",
    "cheapest",
    "decide",
    "decision_gain",
    "estimate_prior",
    "fit_calibration",
    "keep_classes",
    "multilabel_thresholds",
    "prediction_sets",
    "rate_bound",
    "smoothed_offsets",
    "stratified_folds",
    "tune_decision",
    "tune_offsets",
]
