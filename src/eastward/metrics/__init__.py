"""Metrics of a confusion matrix, with one formula each for soft and hard matrices alike.

A metric is any callable from a confusion matrix to a 0-d tensor. For hard (one-hot) memberships the functions here
give scikit-learn's values. For soft ones they are differentiable, which makes them losses.
"""

from eastward.metrics.agreement import (
    accuracy,
    balanced_accuracy,
    cohen_kappa,
    expected_cost,
    geometric_mean,
    matthews_corrcoef,
)
from eastward.metrics.rates import (
    f1,
    f_beta,
    fowlkes_mallows,
    informedness,
    jaccard,
    markedness,
    precision,
    recall,
    specificity,
)
from eastward.metrics.registry import Metric, as_metric, get, names

__all__ = [
    "Metric",
    "accuracy",
    "as_metric",
    "balanced_accuracy",
    "cohen_kappa",
    "expected_cost",
    "f1",
    "f_beta",
    "fowlkes_mallows",
    "geometric_mean",
    "get",
    "informedness",
    "jaccard",
    "markedness",
    "matthews_corrcoef",
    "names",
    "precision",
    "recall",
    "specificity",
]
