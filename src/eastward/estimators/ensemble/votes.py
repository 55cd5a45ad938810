"""The votes of the parts: equal for few rows, and learnt from held-out rows for many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["equal_votes", "learnt_votes", "log_mean"]

# With this many held-out rows, evidence and equal votes have the same weight. On tables of 500 rows learnt votes gain
# nothing; from a few thousand rows on they gain a lot (docs/decisions/0030).
EVEN_ROWS = 3_000
# The likelihood is concave in the votes, and each round raises it.
ROUNDS, TOLERANCE = 500, 1e-5
Array = NDArray[Any]


def equal_votes(names: Iterable[str]) -> dict[str, float]:
    """Give half of the votes to networks and half to trees, however many kinds of trees there are.

    Examples
    --------
    >>> equal_votes(["networks", "lightgbm", "random_forest"])
    {'networks': 0.5, 'lightgbm': 0.25, 'random_forest': 0.25}
    """
    parts = list(names)
    trees = len(parts) - ("networks" in parts)
    shares = {name: float(trees or 1) if name == "networks" else 1.0 for name in parts}
    return {name: share / sum(shares.values()) for name, share in shares.items()}


def learnt_votes(
    parts: Mapping[str, Array],
    codes: Array,
    weight: Array | None = None,
    *,
    prior_rows: float | None = None,
) -> dict[str, float]:
    r"""Find the votes that make held-out labels most probable, with equal votes as a prior.

    .. math:: \max_v\; \sum_n w_n \log \sum_m v_m\, p_m(y_n \mid x_n) + s \sum_m e_m \log v_m

    The second sum is the log-density of a Dirichlet prior with its mode at the equal votes :math:`e`. Expectation
    maximisation finds the maximum. With n rows the prior is worth :math:`s = 3000^2 / n` of them. So evidence hardly
    counts at 500 rows, has half of the weight at 3 000, and nearly all of it at 20 000.

    Parameters
    ----------
    parts : mapping
        Held-out log-probabilities ``(N, C)`` by part.
    codes : ndarray
        ``(N,)`` class indices.
    weight : ndarray, optional
        ``(N,)`` weights of the rows; they are scaled to mean one.
    prior_rows : float, optional
        Number of rows :math:`s` that the equal votes are worth; by default :math:`3000^2 / n`.

    Returns
    -------
    dict
        Shares by part; they sum to one.

    Examples
    --------
    With few rows the votes stay equal; with many, the part that is right gets nearly all of them.

    >>> import numpy as np
    >>> right, wrong = np.log([[0.9, 0.1]]), np.log([[0.1, 0.9]])
    >>> for rows in (100, 100_000):
    ...     parts = {"networks": right.repeat(rows, 0), "lightgbm": wrong.repeat(rows, 0)}
    ...     print(round(learnt_votes(parts, np.zeros(rows, dtype=int))["networks"], 2))
    0.5
    1.0
    """
    start = equal_votes(parts)
    if not len(codes):
        return start
    if prior_rows is None:
        prior_rows = EVEN_ROWS**2 / len(codes)
    equal = np.array(list(start.values()))
    rows = np.arange(len(codes))
    likelihood = np.exp(np.stack([logs[rows, codes] for logs in parts.values()], axis=1))
    mass = np.ones(len(codes)) if weight is None else weight / weight.mean()
    votes = equal
    for _ in range(ROUNDS):
        share = votes * likelihood
        share /= np.maximum(share.sum(1, keepdims=True), np.finfo(float).tiny)
        moved = (prior_rows * equal + mass @ share) / (prior_rows + mass.sum())
        step = float(np.abs(moved - votes).max())
        votes = moved / moved.sum()
        if step < TOLERANCE:
            break
    return dict(zip(parts, votes.tolist(), strict=True))


def log_mean(parts: Mapping[str, Array], votes: Mapping[str, float] | None = None) -> Array:
    """Average the parts' probabilities, given and returned as logarithms; votes are equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> parts = {"networks": np.log([[0.2, 0.8]]), "lightgbm": np.log([[0.6, 0.4]])}
    >>> np.exp(log_mean(parts)).round(3)
    array([[0.4, 0.6]])
    """
    shares = equal_votes(parts) if votes is None else votes
    logs = np.log([max(shares[name], np.finfo(float).tiny) for name in parts])
    mean: Array = np.logaddexp.reduce(np.stack(list(parts.values())) + logs[:, None, None], axis=0)
    return mean
