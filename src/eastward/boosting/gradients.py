"""Gradient and curvature of the soft metric with respect to raw scores, for boosting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks
from eastward.losses import metric_loss
from eastward.memberships import class_probabilities
from eastward.metrics import Metric, as_metric

__all__ = ["metric_gradients", "row_labels", "row_weights", "score_tensor"]

CALLER = "metric_gradients"
OPTIONS = ("threshold", "step", "detach_threshold", "prior", "absent", "ignore_index")

# Relative to a row's weight; keeps the curvature of leaves positive where rows have no slope.
SMALLEST_CURVATURE = 1e-6
TINY = 1e-16


def metric_gradients(
    raw_scores: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    temperature: float = 0.2,
    sample_weight: Any = None,
    **options: Any,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Compute the gradient of one minus the soft metric of all rows, and a bound on its curvature.

    .. math:: g_n = W\, \Big(\frac{\partial p_n}{\partial z_n}\Big)^{\!\top}
              \Big(\frac{\partial m_n}{\partial p_n}\Big)^{\!\top} K_{y_n},
              \qquad K = -\frac{\partial M}{\partial C}

    W is the total weight, which makes a row's gradient as large as that of cross-entropy. The curvature of
    :math:`\langle v, \mathrm{softmax}(z) \rangle` is bounded by the gradient itself. With :math:`h_j = 2|g_j| + p_j
    \sum_k |g_k|` the matrix :math:`\mathrm{diag}(h) - \nabla^2` is positive semidefinite; for two classes :math:`h =
    |g|`. No leaf is then larger than one before the learning rate. The memberships of two classes have this form
    between their kinks. Those of more classes bend a little more, because threshold and norm move with the scores. The
    bound then holds at nearly all points; at low temperatures it fails at about one in a hundred.

    Parameters
    ----------
    raw_scores : array of shape (N,) or (N, C)
        One positive-class margin per row, or one score per class, before any sigmoid or softmax.
    targets : array of shape (N,)
        Class indices.
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a function from a confusion matrix to a 0-d tensor.
    temperature : float, default=0.2
        Width of the soft step, in (0, 0.4].
    sample_weight : array of shape (N,), optional
        Weights of the rows in the confusion matrix.
    **options
        Further options of :func:`eastward.metric_loss`: ``threshold``, ``step``, ``prior``, ``absent``.

    Returns
    -------
    gradient, curvature : ndarray
        Both have the shape of the scores; the curvature is positive.

    Examples
    --------
    >>> gradient, curvature = metric_gradients([0.5, 0.1, -1.0], [1, 0, 0], "f1")
    >>> gradient.round(3), bool((curvature > 0).all())
    (array([-0.515,  0.202,  0.159]), True)
    """
    for name in options:
        _checks.one_of(CALLER, "a further option", name, OPTIONS)
    _checks.one_temperature(CALLER, temperature)
    chosen = as_metric(metric, CALLER)
    scores = score_tensor(CALLER, "raw_scores", raw_scores).requires_grad_()
    _checks.finite(CALLER, "raw_scores", scores)
    labels = row_labels(CALLER, targets, scores, options.get("ignore_index", -100))
    weight = row_weights(CALLER, sample_weight, scores)
    loss = metric_loss(
        scores, labels, chosen, temperature=temperature, sample_weight=weight, **options
    )
    (slope,) = torch.autograd.grad(loss, scores)
    mass = torch.ones(len(labels), dtype=scores.dtype) if weight is None else weight
    gradient = slope * mass.sum()
    return gradient.numpy(), _curvature_bound(scores.detach(), gradient, mass).numpy()


def row_labels(caller: str, targets: Any, scores: Tensor, ignored: int | None = None) -> Tensor:
    """Return class indices ``(N,)`` as int64; libraries store them as floating-point numbers."""
    given = _numbers(caller, "targets", targets)
    if given.shape != scores.shape[:1]:
        expected = f"of shape ({len(scores)},), one class index per row"
        _checks.fail(caller, "targets", expected, _checks.describe(given))
    labels = given.long()
    if given.is_floating_point() and not torch.equal(labels.to(given), given):
        example = given[labels.to(given) != given][0].item()
        _checks.fail(caller, "targets", "class indices", f"{example:g} among them")
    _checks.class_targets(caller, labels, scores.shape[1] if scores.dim() == 2 else 2, ignored)
    return labels


def row_weights(caller: str, sample_weight: Any, scores: Tensor) -> Tensor | None:
    """Return weights ``(N,)`` in float64, or None."""
    if sample_weight is None:
        return None
    weight = _numbers(caller, "sample_weight", sample_weight).double()
    if weight.shape != scores.shape[:1]:
        expected = f"of shape ({len(scores)},), one number per row"
        _checks.fail(caller, "sample_weight", expected, _checks.describe(weight))
    _checks.weights(caller, weight)
    return weight


def _numbers(caller: str, argument: str, value: Any) -> Tensor:
    """Return ``value`` as a tensor; lists keep double precision, as in NumPy."""
    try:
        array = value if isinstance(value, Tensor) else np.asarray(value)
    except ValueError:  # rows of different lengths
        array = value
    return _checks.numeric(caller, argument, array)


def score_tensor(caller: str, argument: str, given: Any) -> Tensor:
    """Copy scores to float64, because libraries pass views of their own memory."""
    scores = _numbers(caller, argument, given).detach().double().clone()
    if scores.dim() not in {1, 2} or (scores.dim() == 2 and scores.shape[1] < 2):
        expected = "of shape (N,) for two classes or (N, C) for C"
        advice = "Reshape flat multiclass scores to one row per sample."
        _checks.fail(caller, argument, expected, _checks.describe(scores), advice)
    return scores


def _curvature_bound(scores: Tensor, gradient: Tensor, mass: Tensor) -> Tensor:
    """Bound the second derivative by a diagonal, with memberships linear in the probabilities.

    With v constant and f = <v, p>: g_j = p_j (v_j - f), the second derivatives are g_j (1 - 2 p_j) on the diagonal
    and -(p_k g_j + p_j g_k) elsewhere; a diagonal that exceeds each row's absolute sum dominates the matrix.
    """
    size = gradient.abs()
    if scores.dim() == 1:
        return torch.maximum(size, SMALLEST_CURVATURE * mass + TINY)
    probabilities = class_probabilities(scores)
    bound = 2 * size + probabilities * size.sum(1, keepdim=True)
    return torch.maximum(bound, SMALLEST_CURVATURE * mass.unsqueeze(1) + TINY)
