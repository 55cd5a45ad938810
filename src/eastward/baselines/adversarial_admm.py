r"""Solve the adversarial game approximately, as published, by the alternating direction method of multipliers.

The adversary's problem is :math:`\min_{Q \in \Delta} \langle E - \Psi, Q\rangle + h(T Q + D)`, where :math:`\Delta` is
the polytope of marginals, h its support function (the predictor's best answer) and T linear. Every iteration projects
two matrices on :math:`\Delta` and multiplies matrices, at a cost that is cubic in the size of the batch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eastward.baselines.adversarial_game import Equilibrium, payoff_factors

if TYPE_CHECKING:
    from eastward.baselines.adversarial_game import Array

__all__ = ["best_answer", "project_on_marginals", "solve_game_by_admm"]

PUBLISHED_ITERATIONS = 100
_MOST_STEPS = 300
_PRECISION = 1e-12  # of the total mass, relative to the largest entry
_TOLERANCE = 1e-9  # of an inequality between entries, relative to the largest


def solve_game_by_admm(
    scores: Array, beta: float, iterations: int = PUBLISHED_ITERATIONS
) -> Equilibrium:
    """Approximate the equilibrium of :func:`~eastward.baselines.adversarial_game.solve_game`.

    Parameters
    ----------
    scores : ndarray
        The adversary's reward for a one, ``(n,)``.
    beta : float
        The beta of F-beta.
    iterations : int, default=100
        Number of iterations; the default is the published one, and more come closer to the solution.

    Returns
    -------
    Equilibrium
        The value at the strategy found, which is never below that of the game, and its marginals.

    Examples
    --------
    >>> import numpy as np
    >>> round(solve_game_by_admm(np.zeros(1), 1.0).value, 3)
    0.5
    """
    size = len(scores)
    game = _Game.of(size, float(beta))
    linear = -game.inverse_counts[None, :] - scores[:, None]
    free, shadow = (
        np.zeros((size, size)),
        np.zeros((size, size)),
    )  # X and, scaled, the price of X = Q
    price = np.zeros((size, size))  # of Z = T X + D
    for _ in range(iterations):
        strategy = project_on_marginals(free + shadow - linear)
        wanted = game.payoffs(free) + price
        answered = wanted - project_on_marginals(wanted)  # the proximal map of a support function
        free = game.least_squares(strategy - shadow, answered - price)
        price = price + game.payoffs(free) - answered
        shadow = shadow + free - strategy
    value = 1 + best_answer(game.payoffs(strategy)) + float((linear * strategy).sum())
    return Equilibrium(value, strategy.sum(1))


class _Game(NamedTuple):
    """The part of the game that does not depend on the scores: Z = T Q + D, and inverses for least squares."""

    factors: Array
    inverse_counts: Array
    deviation_inverse: Array
    mean_inverse: Array

    @staticmethod
    @lru_cache(maxsize=64)
    def of(size: int, beta: float) -> _Game:
        factors = payoff_factors(size, beta)
        inverse_counts = 1 / np.arange(1, size + 1)
        # T acts on the mean row of a matrix and on the deviations from it by different matrices
        on_mean = factors.T + size * np.outer(inverse_counts, inverse_counts)
        eye = np.eye(size)
        inverses = (np.linalg.inv(eye + m @ m.T).astype(float) for m in (factors.T, on_mean))
        return _Game(factors, inverse_counts, *inverses)

    def payoffs(self, strategy: Array) -> Array:
        """Compute what each entry of the predictor's marginals earns."""
        none = 1 - (strategy @ self.inverse_counts).sum()
        earned: Array = strategy @ self.factors.T - none * self.inverse_counts
        return earned

    def least_squares(self, near: Array, payoffs: Array) -> Array:
        """Find the X with the least ``|X - near|^2 + |T X + D - payoffs|^2``."""
        target = payoffs + self.inverse_counts
        pooled = (target @ self.inverse_counts).sum()
        right = near + target @ self.factors + pooled * self.inverse_counts
        mean = right.mean(0)
        solution: Array = (right - mean) @ self.deviation_inverse + mean @ self.mean_inverse
        return solution


def best_answer(payoffs: Array) -> float:
    """Compute the most that marginals can earn: the k largest entries of the best column k, or nothing.

    Examples
    --------
    >>> import numpy as np
    >>> best_answer(np.array([[0.5, 0.4], [-1.0, 0.3]]))
    0.7
    """
    sums = np.cumsum(-np.sort(-payoffs, axis=0), axis=0)
    return max(0.0, float(np.diagonal(sums).max()))


def project_on_marginals(matrix: Array) -> Array:
    r"""Project a matrix on the marginals of distributions over label vectors.

    .. math::
        \Delta = \Big\{P \ge 0:\; P_{ik} \le \tfrac1k \sum_j P_{jk},\;
        \sum_k \tfrac1k \sum_j P_{jk} \le 1\Big\}

    Parameters
    ----------
    matrix : ndarray
        ``(n, n)``; column k - 1 belongs to vectors with k ones.

    Returns
    -------
    ndarray
        ``(n, n)``.

    Examples
    --------
    >>> import numpy as np
    >>> project_on_marginals(np.array([[3.0]]))
    array([[1.]])
    """
    counts = np.arange(1, len(matrix) + 1)
    projected, mass = _with_price(matrix, 0.0)
    if mass <= 1:
        return projected
    low, high, above = 0.0, 1.0, mass - 1
    precision = _PRECISION * max(1.0, float(np.abs(matrix).max()))
    for _ in range(_MOST_STEPS):
        projected, mass = _with_price(matrix, high / counts)
        if mass <= 1:
            break
        low, high, above = high, 2 * high, mass - 1
    below = mass - 1
    # The mass falls piecewise linearly with its price, so use secants; an end that stays twice counts half (Illinois).
    side = 0
    for _ in range(_MOST_STEPS):
        middle = low + (high - low) * above / (above - below)
        projected, mass = _with_price(matrix, middle / counts)
        if abs(mass - 1) < precision:
            break
        if mass > 1:
            low, above, below = middle, mass - 1, below / 2 if side > 0 else below
        else:
            high, below, above = middle, mass - 1, above / 2 if side < 0 else above
        side = 1 if mass > 1 else -1
    return projected


def _with_price(matrix: Array, price: Array | float) -> tuple[Array, float]:
    """Project every column on its cone ``0 <= p <= sum(p) / k`` after a price; return the total mass, too."""
    raised = matrix - price
    lift, cap = _lift_and_cap(raised)
    return np.clip(raised + lift, 0.0, cap), float(cap.sum())


def _lift_and_cap(columns: Array) -> tuple[Array, Array]:
    """Find lift and cap: the projection of column k is ``clip(a + lift, 0, cap)`` with sum ``k * cap``.

    If the ``i`` largest entries are at the cap and those up to the ``m``-th are positive, both follow from two linear
    equations. All pairs (i, m) of all columns are tried at once, and the consistent one is taken.
    """
    size = len(columns)
    descending = -np.sort(-columns, axis=0)
    sums = np.concatenate([np.zeros((1, size)), np.cumsum(descending, axis=0)])
    edges = np.concatenate([np.full((1, size), np.inf), descending, np.full((1, size), -np.inf)])
    capped, positive = np.arange(size)[:, None, None], np.arange(1, size + 1)[None, :, None]
    room = np.arange(1, size + 1) - capped  # k - i, for each i and column
    possible = (room > 0) & (positive > capped)
    room, between = np.where(room > 0, room, 1), positive - capped
    top, middle = sums[:size][:, None, :], sums[1:][None, :, :] - sums[:size][:, None, :]
    cap = (room * middle + between * top) / (room**2 + np.where(possible, between * capped, 0))
    lift = (top - capped * cap) / room
    gap = np.maximum.reduce(
        [
            cap - lift - edges[:size][:, None, :],  # the i-th reaches the cap
            edges[1 : size + 1][:, None, :] + lift - cap,  # the next does not
            -(edges[1 : size + 1][None, :, :] + lift),  # the m-th is positive
            edges[2:][None, :, :] + lift,  # the next is not
            -cap,
        ]
    )
    scale = max(1.0, float(np.abs(columns).max()))  # of rounding errors
    return _consistent(np.where(possible, gap, np.inf) / scale, lift, cap)


def _consistent(gap: Array, lift: Array, cap: Array) -> tuple[Array, Array]:
    """Return lift and cap of the pair with the least violation; zero, the tip of the cone, if none is consistent."""
    size = gap.shape[2]
    flat = gap.reshape(size * size, size)
    chosen = flat.argmin(0)[None]
    found = np.take_along_axis(flat, chosen, 0)[0] <= _TOLERANCE
    lift, cap = (
        np.where(found, np.take_along_axis(part.reshape(size * size, size), chosen, 0)[0], 0.0)
        for part in (lift, cap)
    )
    return lift, np.maximum(cap, 0.0)
