r"""Solve the game between a predictor and an adversary over the labels of a batch exactly.

Both players choose distributions over the :math:`2^n` label vectors. F-beta depends on a vector only through its
number of ones and its true positives, so marginals can replace a distribution: :math:`Q_{il}` is the probability that
label i is one *and* that l labels are. That makes the inner problem a linear program with about :math:`2 n^2`
variables instead of :math:`2^n`.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Equilibrium", "payoff_factors", "solve_game"]


class Equilibrium(NamedTuple):
    """A point of the game where neither player can gain.

    Attributes
    ----------
    value : float
        Expected F-beta minus the adversary's expected score, ``min over Q of max over P``.
    marginals : ndarray
        The adversary's probability of a one, for each sample, ``(n,)``.
    """

    value: float
    marginals: Array


def payoff_factors(size: int, beta: float) -> Array:
    """Compute F-beta per hit, by the number of predicted (rows) and true ones (columns), from 1 on.

    Examples
    --------
    >>> payoff_factors(2, 1.0)
    array([[1.        , 0.66666667],
           [0.66666667, 0.5       ]])
    """
    ones = np.arange(1, size + 1, dtype=float)
    factors: Array = (1 + beta**2) / (beta**2 * ones[None, :] + ones[:, None])
    return factors


def solve_game(scores: Array, beta: float) -> Equilibrium:
    r"""Compute the equilibrium for scores ``(n,)`` by a linear program.

    .. math::
        \min_Q \max_P \; \mathbb{E}\,[F_\beta(\hat y, \check y)] - \sum_i s_i \Pr(\check y_i = 1)

    where no ones against no ones counts as 1. The predictor's best answer to Q takes the k largest entries of a column
    of :math:`Z_{ik} = \sum_l f_{kl} Q_{il} - q_0 / k`; the sum of the k largest is
    :math:`\min_t k t + \sum_i (Z_{ik} - t)_+`, which is linear.

    Parameters
    ----------
    scores : ndarray
        The adversary's reward for a one, ``(n,)``.
    beta : float
        The beta of F-beta.

    Returns
    -------
    Equilibrium
        Its value and the adversary's marginals.

    Examples
    --------
    >>> import numpy as np
    >>> round(solve_game(np.zeros(1), 1.0).value, 6)
    0.5
    """
    size = len(scores)
    program = _program(size, float(beta))
    reward = np.zeros(program["num_variables"])
    reward[: size * size] = -np.repeat(scores, size)
    # the predictor's gain, and the agreement of two players without ones
    reward[size * size : size * size + 2] = 1.0
    solved = _scipy("scipy.optimize").linprog(reward, **program["constraints"], method="highs-ds")
    if solved.status != 0:
        raise RuntimeError(f"the linear program of the adversarial game failed: {solved.message}")
    return Equilibrium(float(solved.fun), solved.x[: size * size].reshape(size, size).sum(1))


def _scipy(module: str) -> Any:
    """Import a module of scipy when it is first needed, because the other losses work without it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        message = f"AdversarialFBetaLoss needs {error.name}: install it with  pip install 'eastward[tabular]'"
        raise ModuleNotFoundError(message, name=error.name) from error


@lru_cache(maxsize=64)
def _program(size: int, beta: float) -> dict[str, Any]:
    """Build the constraints, which do not depend on the scores.

    Variables: Q (n x n, by rows) | gain | q_0 | q_l, the mass of vectors with l ones (n) | t_k (n) | slack (n x n).
    """
    sparse = _scipy("scipy.sparse")
    ones = np.arange(1, size + 1, dtype=float)
    cells, eye = size * size, sparse.eye(size)
    column, row = np.ones((size, 1)), np.ones((1, size))

    def block(*parts: Any) -> Any:
        return sparse.hstack([sparse.csr_matrix(part) for part in parts])

    def blank(height: int, width: int) -> Any:
        return sparse.csr_matrix((height, width))

    above_threshold = block(  # Z_ik - t_k <= slack_ik
        sparse.kron(eye, payoff_factors(size, beta)),
        blank(cells, 1),
        -np.tile(1 / ones, size)[:, None],
        blank(cells, size),
        -sparse.kron(column, eye),
        -sparse.eye(cells),
    )
    best_answer = block(  # k t_k + sum of slack_ik <= gain
        blank(size, cells),
        -column,
        blank(size, 1 + size),
        sparse.diags([ones], [0]),
        sparse.kron(row, eye),
    )
    at_most_mass = block(  # Q_il <= q_l
        sparse.eye(cells), blank(cells, 2), -sparse.kron(column, eye), blank(cells, size + cells)
    )
    counted = block(  # sum of Q_il = l q_l
        sparse.kron(row, eye), blank(size, 2), -sparse.diags([ones], [0]), blank(size, size + cells)
    )
    normalised = block(blank(1, cells + 1), [[1.0]], row, blank(1, size + cells))
    bounds = np.zeros((2 * cells + 2 * size + 2, 2))
    bounds[:, 1] = np.inf
    bounds[cells + 2 + size : cells + 2 + 2 * size, 0] = -np.inf
    inequalities = sparse.vstack([above_threshold, best_answer, at_most_mass]).tocsr()
    return {
        "num_variables": len(bounds),
        "constraints": {
            "A_ub": inequalities,
            "b_ub": np.zeros(inequalities.shape[0]),
            "A_eq": sparse.vstack([counted, normalised]).tocsr(),
            "b_eq": np.concatenate([np.zeros(size), [1.0]]),
            "bounds": bounds,
        },
    }
