r"""Offsets tuned on labels and expectations together.

The metric of a hundred rare rows is a rough estimate, and the offsets that are best for it follow its accidents. The
ensemble's own held-out probabilities say the same with far less variance, but with whatever bias they have. Mixing the
two,

.. math:: q_{nj} = s\,[y_n = j] + (1 - s)\,p_{nj},

and tuning the metric of the matrix :math:`C_{ij} = \sum_n q_{ni}\,[\hat y_n = j]` keeps most of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eastward.decisions import bagged_offsets
from eastward.metrics import Metric

__all__ = ["smoothed_offsets", "smoothed_rows"]

Array = NDArray[Any]

# Smaller shares of a row than this cannot move a decision, but each is a row to sort.
SMALLEST_SHARE = 5e-3


def smoothed_offsets(
    log_probabilities: Array,
    codes: Array,
    metric: Metric,
    *,
    label_share: float,
    n_bags: int,
    sample_weight: Array | None = None,
) -> Array:
    """Offsets that are best for a metric of labels and expectations together, ``(C,)`` with mean zero.

    Parameters
    ----------
    log_probabilities : ndarray
        ``(N, C)``, by models that did not see the rows.
    codes : ndarray
        ``(N,)`` class indices.
    metric : Metric
        What to maximise (or minimise, where lower is better).
    label_share : float
        Share of the labels, in [0, 1].
    n_bags : int
        Bootstraps to average over.
    sample_weight : ndarray, optional
        ``(N,)``.

    Returns
    -------
    ndarray
        Float64.

    Examples
    --------
    >>> import numpy as np
    >>> from eastward import metrics
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]])
    >>> b = smoothed_offsets(
    ...     np.log(p), np.array([0, 0, 1, 1]), metrics.get("f1"), label_share=0.5, n_bags=3
    ... )
    >>> bool(b[1] > 0)
    True
    """
    rows, classes, weights = smoothed_rows(log_probabilities, codes, label_share)
    if sample_weight is not None:
        weights = weights * sample_weight[rows]
    found = bagged_offsets(
        log_probabilities[rows], classes, metric, n_bags=n_bags, sample_weight=weights
    )
    return found.double().numpy()


def smoothed_rows(
    log_probabilities: Array, codes: Array, label_share: float
) -> tuple[Array, Array, Array]:
    """Rows, classes and weights of a weighted sample that stands for the mixture of labels and probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> rows, classes, weights = smoothed_rows(np.log([[0.8, 0.2]]), np.array([1]), 0.5)
    >>> rows.tolist(), classes.tolist(), weights.round(2).tolist()
    ([0, 0], [0, 1], [0.4, 0.6])
    """
    expected = torch.from_numpy(log_probabilities).softmax(1).numpy()
    share = (1 - label_share) * expected
    share[np.arange(len(codes)), codes] += label_share
    share[share < SMALLEST_SHARE] = 0.0
    share /= share.sum(axis=1, keepdims=True)
    rows, classes = np.nonzero(share)
    return rows, classes, share[rows, classes]
