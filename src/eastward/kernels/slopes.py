r"""Value of a metric and its derivative by the counts, in closed form.

Everything acts on R tables at once, ``(R, 4, C)`` in float64: one for each member and threshold.

Two terms of the full derivative are left out on purpose. The mass of a true class and the total mass do not depend on
the logits: :math:`\partial fn_k = -\partial tp_k` and :math:`\partial tn_k = -\partial fp_k`, and whatever both
members of such a pair have in common cancels.
"""

from __future__ import annotations

import numpy as np

from eastward.kernels.rules import (
    ACCURACY,
    CORRELATION,
    FOWLKES_MALLOWS,
    GEOMETRIC,
    KAPPA,
    NO_VIRTUAL,
    RATIOS,
    VIRTUAL_CLASSES,
    VIRTUAL_POOLED,
    Rule,
)

__all__ = ["loss_and_slope", "loss_and_slope_of_arrays"]

# Those of the definition: see _numerics.tiny(float32), VIRTUAL_SHARE in losses, _SMALLEST_RECALL in agreement.
_TINY = 1.0842021724855044e-19
_VIRTUAL_SHARE = 0.01
_SMALLEST_RECALL = 1e-12

_BINARY, _MACRO, _WEIGHTED, _MICRO = range(4)
_SKIP, _OBSERVED, _ZERO, _ONE = range(4)


def loss_and_slope(tables: np.ndarray, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Losses ``(R,)`` of tables ``(R, 4, C)``, and their derivatives ``(R, 4, C)``; zero where a table is empty.

    Examples
    --------
    >>> from eastward.kernels.rules import rule_of
    >>> from eastward.metrics import get
    >>> rule = rule_of(get("accuracy"), 2, exclusive=True, virtual=True)
    >>> losses, slope = loss_and_slope(np.array([[[3.0, 4], [0, 1], [1, 0], [4, 3]]]), rule)
    >>> losses.round(3), slope[0, 0].round(3)
    (array([0.125]), array([-0.125, -0.125]))
    """
    return loss_and_slope_of_arrays(tables, *rule)


def loss_and_slope_of_arrays(
    tables: np.ndarray,
    code: int,
    average: int,
    absent: int,
    exclusive: bool,
    virtual: int,
    higher_is_better: bool,
    numerators: np.ndarray,
    denominators: np.ndarray,
    factor: float,
    offset: float,
) -> tuple[np.ndarray, np.ndarray]:
    """:func:`loss_and_slope` with the fields of the rule one by one."""
    counts = tables.copy()
    filled = (counts.sum(axis=2).sum(axis=1) > 0.0).astype(np.float64)
    if virtual != NO_VIRTUAL:
        _add_virtual(counts, virtual)
    mass = counts.sum(axis=2).sum(axis=1) / counts.shape[2]
    unit = np.where(mass > 0.0, mass, 1.0)
    counts /= unit.reshape(-1, 1, 1)
    if code in (CORRELATION, KAPPA):
        values, slope = _agreement(counts, code, exclusive)
    elif code == ACCURACY:
        values, slope = _accuracy(counts, exclusive)
    elif code == GEOMETRIC:
        values, slope = _geometric_mean(counts, absent)
    else:
        values, slope = _averaged(
            counts, code, average, absent, numerators, denominators, factor, offset
        )
    sign = -1.0 if higher_is_better else 1.0
    losses = ((1.0 - values) if higher_is_better else values) * filled
    slope *= (sign * filled / unit).reshape(-1, 1, 1)
    return losses, slope


def _add_virtual(counts: np.ndarray, virtual: int) -> None:
    """Rightly predicted mass for what is missing; see ``with_virtual_classes`` and ``..._labels`` in losses."""
    positives, negatives = counts[:, 0] + counts[:, 2], counts[:, 1] + counts[:, 3]
    share = _VIRTUAL_SHARE * (positives + negatives)
    missing = (positives <= 0.0).astype(np.float64)
    if virtual == VIRTUAL_CLASSES:
        lonely = (missing.sum(axis=1) > missing.shape[1] - 1.5).astype(np.float64)
        extra = missing * lonely.reshape(-1, 1) * share
        counts[:, 0] += extra
        counts[:, 3] += extra.sum(axis=1).reshape(-1, 1) - extra
        return
    one_sided = (negatives <= 0.0).astype(np.float64)
    if virtual == VIRTUAL_POOLED:
        full = missing.shape[1] - 0.5
        missing = missing * (missing.sum(axis=1) > full).reshape(-1, 1)
        one_sided = one_sided * (one_sided.sum(axis=1) > full).reshape(-1, 1)
    counts[:, 0] += missing * share
    counts[:, 3] += one_sided * share


def _inverse(value: np.ndarray) -> np.ndarray:
    """``1 / value``, and 0 where the value vanishes."""
    usable = np.abs(value) > _TINY
    inverse: np.ndarray = usable / np.where(usable, value, 1.0)
    return inverse


def _root(value: np.ndarray) -> np.ndarray:
    return np.sqrt(np.where(value > _TINY, value, 0.0))


def _averaged(
    counts: np.ndarray,
    code: int,
    average: int,
    absent: int,
    numerators: np.ndarray,
    denominators: np.ndarray,
    factor: float,
    offset: float,
) -> tuple[np.ndarray, np.ndarray]:
    """A formula of each class (or of the pooled counts), averaged."""
    pooled = counts
    if average == _MICRO:
        pooled = counts.sum(axis=2).reshape(counts.shape[0], 4, 1)
    if code == RATIOS:
        values, slope = _ratios(pooled, numerators, denominators, factor, offset)
    elif code == FOWLKES_MALLOWS:
        values, slope = _fowlkes_mallows(pooled)
    else:
        values, slope = _pair_geometric(pooled, numerators, denominators)
    true = pooled[:, 0] + pooled[:, 2]
    if absent == _ONE and average in (_MACRO, _WEIGHTED):
        present = (true > 0.0).astype(np.float64)
        values = values * present + (1.0 - present)
        slope *= present.reshape(present.shape[0], 1, -1)
    weights = _class_weights(pooled, true, average, absent)
    weights = weights * _inverse(weights.sum(axis=1)).reshape(-1, 1)
    slope *= weights.reshape(weights.shape[0], 1, -1)
    return (values * weights).sum(axis=1), slope + np.zeros_like(counts)


def _class_weights(counts: np.ndarray, true: np.ndarray, average: int, absent: int) -> np.ndarray:
    weights = np.ones_like(true)
    if average == _WEIGHTED:
        weights = true.copy()
    elif average == _BINARY:
        weights[:, 0] = 0.0
    elif average == _MACRO and absent == _SKIP:
        weights = (true > 0.0).astype(np.float64)
    elif average == _MACRO and absent == _OBSERVED:
        weights = (true + counts[:, 1] > 0.0).astype(np.float64)
    return weights


def _ratios(
    counts: np.ndarray,
    numerators: np.ndarray,
    denominators: np.ndarray,
    factor: float,
    offset: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of quotients n/d of linear forms: the derivative is (n' - (n/d) d') / d."""
    values = np.full(counts[:, 0].shape, offset)
    slope = np.zeros_like(counts)
    for term in range(numerators.shape[0]):
        upper = numerators[term, :, : counts.shape[2]]
        lower = denominators[term, :, : counts.shape[2]]
        inverse = _inverse((counts * lower).sum(axis=1))
        ratio = (counts * upper).sum(axis=1) * inverse
        values += factor * ratio
        for kind in range(4):
            slope[:, kind] += factor * inverse * (upper[kind] - ratio * lower[kind])
    return values, slope


def _fowlkes_mallows(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tp, predicted = counts[:, 0], counts[:, 0] + counts[:, 1]
    inverse = _inverse(_root(predicted) * _root(tp + counts[:, 2]))
    values = tp * inverse
    slope = np.zeros_like(counts)
    by_predicted = 0.5 * values * _inverse(predicted)
    slope[:, 0] = inverse - by_predicted
    slope[:, 1] = -by_predicted
    return values, slope


def _pair_geometric(
    counts: np.ndarray, numerators: np.ndarray, denominators: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Square root of recall times specificity, for independent labels."""
    recalls, of_recall = _ratios(counts, numerators[:1], denominators[:1], 1.0, 0.0)
    others, of_others = _ratios(counts, numerators[1:], denominators[1:], 1.0, 0.0)
    values = _root(recalls) * _root(others)
    shape = (counts.shape[0], 1, counts.shape[2])
    slope = of_recall * (0.5 * _root(others) * _inverse(_root(recalls))).reshape(shape)
    slope += of_others * (0.5 * _root(recalls) * _inverse(_root(others))).reshape(shape)
    return values, slope


def _accuracy(counts: np.ndarray, exclusive: bool) -> tuple[np.ndarray, np.ndarray]:
    slope = np.zeros_like(counts)
    if exclusive:
        slope[:, 0] = 1.0
        return counts[:, 0].sum(axis=1), slope
    share = 1.0 / counts.shape[2]
    slope[:, 0] = share
    slope[:, 3] = share
    return (counts[:, 0] + counts[:, 3]).sum(axis=1) * share, slope


def _geometric_mean(counts: np.ndarray, absent: int) -> tuple[np.ndarray, np.ndarray]:
    true = counts[:, 0] + counts[:, 2]
    inverse = _inverse(true)
    recalls = counts[:, 0] * inverse
    chosen = _class_weights(counts, true, _MACRO, absent)
    present = (true > 0.0).astype(np.float64)
    if absent == _ONE:
        recalls = recalls * present + (1.0 - present)
        inverse = inverse * present
    found = np.maximum(recalls, _SMALLEST_RECALL)
    number = chosen.sum(axis=1)
    lost = ((recalls <= 0.0) & (chosen > 0.0)).sum(axis=1)
    defined = ((lost == 0) & (number > 0.0)).astype(np.float64)
    share = _inverse(number)
    values = defined * np.exp((np.log(found) * chosen).sum(axis=1) * share)
    steep = (recalls >= _SMALLEST_RECALL) * chosen / found
    by_recall = (values * share).reshape(-1, 1) * steep
    slope = np.zeros_like(counts)
    slope[:, 0] = by_recall * inverse * (1.0 - recalls)
    slope[:, 2] = -by_recall * inverse * recalls
    return values, slope


def _agreement(counts: np.ndarray, code: int, exclusive: bool) -> tuple[np.ndarray, np.ndarray]:
    """Correlation (MCC) or kappa: J / N, with J = tp tn - fp fn summed over classes, or label by label."""
    tp, fp, fn, tn = counts[:, 0], counts[:, 1], counts[:, 2], counts[:, 3]
    joint = tp * tn - fp * fn
    predicted, rest, true, other = tp + fp, fn + tn, tp + fn, fp + tn
    of_truth, of_prediction = true * other, predicted * rest
    chance = true * rest if exclusive else 0.5 * (true * rest + other * predicted)
    if exclusive:
        joint, chance = _summed(joint), _summed(chance)
        of_truth, of_prediction = _summed(of_truth), _summed(of_prediction)
    slope = np.zeros_like(counts)
    if code == CORRELATION:
        inverse = _inverse(_root(of_truth) * _root(of_prediction))
        values = joint * inverse
        drag = 0.5 * values * _inverse(of_prediction)
        slope[:, 0], slope[:, 1] = tn * inverse - drag * rest, -fn * inverse - drag * rest
        slope[:, 2], slope[:, 3] = -fp * inverse - drag * predicted, tp * inverse - drag * predicted
    else:
        inverse = _inverse(chance)
        values = joint * inverse
        drag, half = values * inverse, 1.0 if exclusive else 0.5
        slope[:, 0], slope[:, 3] = (
            tn * inverse - drag * half * rest,
            tp * inverse - drag * half * true,
        )
        slope[:, 1], slope[:, 2] = -fn * inverse, -fp * inverse - drag * half * (rest + true)
        if not exclusive:
            slope[:, 0] -= drag * 0.5 * other
            slope[:, 1] -= drag * 0.5 * (other + predicted)
            slope[:, 3] -= drag * 0.5 * predicted
    if exclusive:
        return values[:, 0].copy(), slope
    return _mean_where(values, slope, (of_truth if code == CORRELATION else true) > 0.0)


def _summed(value: np.ndarray) -> np.ndarray:
    total: np.ndarray = value.sum(axis=1).reshape(-1, 1) + np.zeros_like(value)
    return total


def _mean_where(
    values: np.ndarray, slope: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    weights = chosen.astype(np.float64)
    weights = weights * _inverse(weights.sum(axis=1)).reshape(-1, 1)
    slope *= weights.reshape(weights.shape[0], 1, -1)
    return (values * weights).sum(axis=1), slope
