"""Every registered metric with an independent reference, for the tests that run over all of them.

A reference takes NumPy labels and weights and knows nothing of eastward: scikit-learn where it has the
metric, a few lines of NumPy where it has not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn import metrics as sk

import eastward as ew
from eastward.metrics import Metric

Reference = Callable[[np.ndarray, np.ndarray, np.ndarray, int], float]


@dataclass(frozen=True)
class Case:
    """The facts about a metric, besides its name, that tests need."""

    reference: Reference
    low: float = 0.0
    high: float = 1.0
    best: float = 1.0
    two_classes_only: bool = False
    class_order_matters: bool = False


def cost_table(num_classes: int) -> np.ndarray:
    """Costs in [0, 1], zero on the diagonal, not symmetric."""
    rows, columns = np.indices((num_classes, num_classes))
    return np.where(
        rows == columns, 0.0, (1 + (7 * rows + 3 * columns + 5 * rows * columns) % 11) / 12
    )


def build(name: str, num_classes: int) -> Metric:
    """The registered metric, with the options that it cannot do without."""
    options = {"cost": cost_table(num_classes)} if name == "expected_cost" else {}
    return ew.metrics.get(name, **options)


def one_hot_confusion(truth, predicted, weight, num_classes) -> torch.Tensor:
    """Confusion of hard memberships, by way of the library's own soft_confusion."""
    memberships = torch.eye(num_classes, dtype=torch.float64)[torch.as_tensor(predicted)]
    return ew.soft_confusion(
        memberships, torch.as_tensor(truth), sample_weight=torch.as_tensor(weight)
    )


def _scikit_learn(score, **options) -> Reference:
    def reference(truth, predicted, weight, num_classes):
        with warnings.catch_warnings():
            # Absent classes are the point of these tests; scikit-learn warns of each.
            warnings.simplefilter("ignore")
            return score(truth, predicted, sample_weight=weight, **options)

    return reference


def _averaged(score, average, **options) -> Reference:
    return _scikit_learn(score, average=average, zero_division=0, **options)


def _kappa(kind) -> Reference:
    def reference(truth, predicted, weight, num_classes):
        # All labels are named: leaving absent ones out would move the others closer together.
        labels = np.arange(num_classes)
        return sk.cohen_kappa_score(
            truth, predicted, labels=labels, weights=kind, sample_weight=weight
        )

    return reference


def numpy_table(truth, predicted, weight, num_classes) -> np.ndarray:
    """Confusion matrix by scikit-learn."""
    labels = np.arange(num_classes)
    return sk.confusion_matrix(truth, predicted, labels=labels, sample_weight=weight)


def _ratio(numerator, denominator):
    safe = np.where(denominator > 0, denominator, 1.0)
    return np.where(denominator > 0, numerator / safe, 0.0)


def _one_vs_rest(table):
    tp = np.diag(table).astype(float)
    fp, fn = table.sum(0) - tp, table.sum(1) - tp
    return tp, fp, fn, table.sum() - tp - fp - fn


def _per_class(formula, average) -> Reference:
    def reference(truth, predicted, weight, num_classes):
        counts = _one_vs_rest(numpy_table(truth, predicted, weight, num_classes))
        tp, fp, fn, _ = counts
        if average == "binary":
            return formula(*counts)[1]
        if average == "micro":
            return float(formula(*(row.sum() for row in counts)))
        values = formula(*counts)
        share = tp + fn if average == "weighted" else (tp + fp + fn > 0).astype(float)
        return (values * share).sum() / share.sum()

    return reference


def _specificity(tp, fp, fn, tn):
    return _ratio(tn, tn + fp)


def _fowlkes_mallows(tp, fp, fn, tn):
    return np.sqrt(_ratio(tp, tp + fp) * _ratio(tp, tp + fn))


def _informedness(tp, fp, fn, tn):
    return _ratio(tp, tp + fn) + _ratio(tn, tn + fp) - 1


def _markedness(tp, fp, fn, tn):
    return _ratio(tp, tp + fp) + _ratio(tn, tn + fn) - 1


def _geometric_mean(truth, predicted, weight, num_classes):
    tp, fp, fn, _ = _one_vs_rest(numpy_table(truth, predicted, weight, num_classes))
    recalls = _ratio(tp, tp + fn)[tp + fp + fn > 0]
    return recalls.prod() ** (1 / len(recalls))


def _expected_cost(truth, predicted, weight, num_classes):
    return np.average(cost_table(num_classes)[truth, predicted], weights=weight)


def _family(stem: str, of_average: Callable[[str], Reference]) -> dict[str, Case]:
    rows = {f"{stem}_{kind}": Case(of_average(kind)) for kind in ("macro", "micro", "weighted")}
    rows[stem] = Case(of_average("binary"), two_classes_only=True, class_order_matters=True)
    return rows


def _of_class(score, label, **options) -> Case:
    def reference(truth, predicted, weight, num_classes):
        found = _averaged(score, None, labels=np.arange(num_classes), **options)
        return found(truth, predicted, weight, num_classes)[label]

    return Case(reference, class_order_matters=True)


_CHANCE_CORRECTED = Case(lambda *_: 0.0, low=-1.0)

METRICS: dict[str, Case] = {
    "accuracy": Case(_scikit_learn(sk.accuracy_score)),
    "balanced_accuracy": Case(_scikit_learn(sk.balanced_accuracy_score)),
    **_family("f1", lambda kind: _averaged(sk.f1_score, kind)),
    **_family("precision", lambda kind: _averaged(sk.precision_score, kind)),
    **_family("recall", lambda kind: _averaged(sk.recall_score, kind)),
    **_family("jaccard", lambda kind: _averaged(sk.jaccard_score, kind)),
    **_family("specificity", lambda kind: _per_class(_specificity, kind)),
    **_family("fowlkes_mallows", lambda kind: _per_class(_fowlkes_mallows, kind)),
    "f_beta": Case(_averaged(sk.fbeta_score, "macro", beta=1.0)),
    "matthews_corrcoef": replace(_CHANCE_CORRECTED, reference=_scikit_learn(sk.matthews_corrcoef)),
    "cohen_kappa": replace(_CHANCE_CORRECTED, reference=_kappa(None)),
    "cohen_kappa_linear": Case(_kappa("linear"), low=-1.0, class_order_matters=True),
    "cohen_kappa_quadratic": Case(_kappa("quadratic"), low=-1.0, class_order_matters=True),
    "geometric_mean": Case(_geometric_mean),
    "informedness": replace(_CHANCE_CORRECTED, reference=_per_class(_informedness, "macro")),
    "markedness": replace(_CHANCE_CORRECTED, reference=_per_class(_markedness, "macro")),
    "expected_cost": Case(_expected_cost, best=0.0, class_order_matters=True),
}
# Any class may be named; these stand for all.
OF_ONE_CLASS = {
    "f1[0]": _of_class(sk.f1_score, 0),
    "recall[1]": _of_class(sk.recall_score, 1),
    "f2[0]": _of_class(sk.fbeta_score, 0, beta=2.0),
}
METRICS |= OF_ONE_CLASS


def sizes_for(name: str, *sizes: int) -> tuple[int, ...]:
    """Numbers of classes to try: two for a positive-class metric, else ``sizes``."""
    return (2,) if METRICS[name].two_classes_only else sizes
