r"""The papers' theorems as functions: the error of a batch's confusion matrix, and the slope of a surrogate.

Each function returns the number of a theorem, or the practical rule that goes with it. The page *Theory* derives the
constants and compares each with a simulation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from eastward import _checks

__all__ = [
    "ENOUGH_ROWS",
    "ClassRows",
    "batch_for_class",
    "btg_lipschitz",
    "confusion_error",
    "heaviside_lipschitz",
    "membership_lipschitz",
    "rows_for_error",
    "rows_of_class",
    "sigmoid_lipschitz",
]

ENOUGH_ROWS = 5
"""With this many rows of a class in a batch, the gradient of F1 is practically unbiased (``results/batch_size``)."""

# Terms of a binomial sum farther than this from its middle are zero in float64.
STANDARD_DEVIATIONS = 40
# Larger than any table; above 2**53 a float64 can no longer count.
MOST_ROWS = 10**15


def confusion_error(rows: int, num_classes: int, delta: float = 0.05) -> float:
    r"""Bound the error of a confusion matrix of ``rows`` samples, entry by entry.

    With probability at least :math:`1 - \delta`, every entry, divided by the number of samples, differs from that of
    the population by at most

    .. math:: \sqrt{\frac{\log(2 d^2 / \delta)}{2n}}

    Parameters
    ----------
    rows : int
        Independent samples *n*.
    num_classes : int
        Classes *d*.
    delta : float, default=0.05
        Chance of a larger error, in (0, 1).

    Returns
    -------
    float
        The bound. A value above one carries no information.

    References
    ----------
    EAST, Theorem 5.8.

    Examples
    --------
    >>> round(confusion_error(1000, 4), 4)
    0.0568
    """
    caller = "confusion_error"
    n = _checks.whole_number(caller, "rows", rows, at_least=1)
    return math.sqrt(_log_cells(caller, num_classes, delta) / (2 * n))


def rows_for_error(error: float, num_classes: int, delta: float = 0.05) -> int:
    r"""Compute how many samples bring every entry of the confusion matrix within ``error``.

    The inverse of :func:`confusion_error`, rounded up: :math:`\lceil \log(2 d^2 / \delta) / (2 \epsilon^2) \rceil`.

    Parameters
    ----------
    error : float
        Largest error :math:`\epsilon` of an entry, in (0, 1).
    num_classes : int
        Classes *d*.
    delta : float, default=0.05
        Chance of a larger error, in (0, 1).

    Returns
    -------
    int
        The number of samples.

    References
    ----------
    EAST, Theorem 5.8.

    Examples
    --------
    >>> rows_for_error(0.05, 4)
    1293
    """
    caller = "rows_for_error"
    wanted = _checks.in_unit_interval(caller, "error", error)
    return math.ceil(_log_cells(caller, num_classes, delta) / (2 * wanted**2))


def _log_cells(caller: str, num_classes: int, delta: float) -> float:
    classes = _checks.whole_number(caller, "num_classes", num_classes, at_least=2)
    return math.log(2 * classes**2 / _checks.in_unit_interval(caller, "delta", delta))


class ClassRows(NamedTuple):
    """The number of rows of one class in a random batch.

    Attributes
    ----------
    expected : float
        Average number.
    at_least : int
        Number that a batch reaches with the given chance.
    missing : float
        Chance that a batch holds none.

    Examples
    --------
    >>> rows = rows_of_class(64, 0.1)
    >>> round(rows.expected, 1), rows.at_least, round(rows.missing, 3)
    (6.4, 3, 0.001)
    """

    expected: float
    at_least: int
    missing: float


def rows_of_class(batch_size: int, share: float, chance: float = 0.95) -> ClassRows:
    r"""Compute how many rows of a class a random batch holds.

    Their number is binomial: :math:`n q` on average for a class of share *q*, and none with probability
    :math:`(1 - q)^n`. A batch that is drawn without replacement from few rows misses the class a little less often.

    Parameters
    ----------
    batch_size : int
        Rows *n* in a batch.
    share : float
        Share *q* of the class among all rows, in (0, 1).
    chance : float, default=0.95
        Probability with which ``at_least`` holds, in (0, 1).

    Returns
    -------
    ClassRows
        ``expected``, ``at_least`` and ``missing``.

    Examples
    --------
    A class of one per cent is missing from most batches of 32 rows:

    >>> rows = rows_of_class(32, 0.01)
    >>> round(rows.expected, 2), rows.at_least, round(rows.missing, 2)
    (0.32, 0, 0.72)
    """
    caller = "rows_of_class"
    size = _checks.whole_number(caller, "batch_size", batch_size, at_least=1, at_most=MOST_ROWS)
    q = _checks.in_unit_interval(caller, "share", share)
    wanted = _checks.in_unit_interval(caller, "chance", chance)
    low, high = 0, size + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _chance_of(middle, size, q) >= wanted else (low, middle)
    return ClassRows(size * q, low, math.exp(size * math.log1p(-q)))


def batch_for_class(share: float, rows: int = ENOUGH_ROWS, chance: float = 0.95) -> int:
    """Find the smallest batch that holds a given number of rows of a class.

    This is the practical rule that goes with :func:`confusion_error`. How well a batch estimates a macro average
    depends on the rows of its rarest class, and about five rows are enough.

    Parameters
    ----------
    share : float
        Share of the class among all rows, in (0, 1).
    rows : int, default=5
        Rows of the class that a batch must hold.
    chance : float, default=0.95
        Probability with which a random batch must hold them, in (0, 1).

    Returns
    -------
    int
        The size of the batch.

    Examples
    --------
    >>> batch_for_class(0.01)
    913
    >>> batch_for_class(0.01, rows=1)
    299
    """
    caller = "batch_for_class"
    q = _checks.in_unit_interval(caller, "share", share)
    wanted = _checks.whole_number(caller, "rows", rows, at_least=1, at_most=MOST_ROWS)
    needed = _checks.in_unit_interval(caller, "chance", chance)
    low, high = wanted - 1, max(wanted, math.ceil(wanted / q))
    while _chance_of(wanted, high, q) < needed:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _chance_of(wanted, middle, q) >= needed else (middle, high)
    return high


def _chance_of(rows: int, size: int, share: float) -> float:
    """Compute the chance that ``size`` independent rows hold at least ``rows`` of a class."""
    reach = math.ceil(STANDARD_DEVIATIONS * math.sqrt(size * share * (1 - share) + 1))
    first = max(0, math.floor(size * share) - reach)
    if rows <= first:
        return 1.0
    # Each term follows from the one before, because logarithms of large factorials would cost digits.
    below = torch.arange(first, rows - 1, dtype=torch.float64)
    growth = ((size - below) / (below + 1) * (share / (1 - share))).log().cumsum(0)
    fewer = _log_chance_of_exactly(first, size, share) + torch.cat([growth.new_zeros(1), growth])
    return 1.0 - float(fewer.exp().sum())


def _log_chance_of_exactly(rows: int, size: int, share: float) -> float:
    ways = math.lgamma(size + 1) - math.lgamma(rows + 1) - math.lgamma(size - rows + 1)
    return (ways if rows else 0.0) + rows * math.log(share) + (size - rows) * math.log1p(-share)


def heaviside_lipschitz(tau: float = 0.5, temperature: float = 0.2) -> float:
    r"""Compute the Lipschitz constant of :func:`eastward.heaviside`, :math:`\max(m_1, m_2, m_3)`.

    It is the smallest possible constant, because some piece of the step is that steep. It is also the constant of the
    memberships :math:`(1 - h, h)` of two classes with a fixed threshold, and so of every entry of their matrix.

    Parameters
    ----------
    tau : float, default=0.5
        Threshold, in (0, 1).
    temperature : float, default=0.2
        In (0, 0.4].

    Returns
    -------
    float
        Infinite at temperature 0.4, where the step jumps at one of its ends.

    References
    ----------
    Bridging the Gap, Theorems 4.1 and 4.2.

    Examples
    --------
    >>> heaviside_lipschitz(0.5, 0.2)
    1.2
    """
    caller = "heaviside_lipschitz"
    heat = _temperature(caller, temperature)
    threshold = _checks.in_unit_interval(caller, "tau", tau)
    return _steepest(threshold, 2.5 * heat * min(threshold, 1 - threshold), heat)


def btg_lipschitz(tau: float = 0.5, delta: float = 0.2) -> float:
    r"""Compute the Lipschitz constant of :func:`eastward.btg_step`, :math:`\max(m_1, m_2, m_3)`.

    Parameters
    ----------
    tau : float, default=0.5
        Threshold, in (0, 1).
    delta : float, default=0.2
        Height of the outer pieces, in [0, 0.5].

    Returns
    -------
    float
        The smallest possible constant.

    References
    ----------
    Bridging the Gap, Theorem 4.1.

    Examples
    --------
    >>> btg_lipschitz(0.5, 0.1)
    1.6
    """
    caller = "btg_lipschitz"
    _checks.step_height(caller, delta)
    _checks.real(caller, "delta", delta)
    threshold = _checks.in_unit_interval(caller, "tau", tau)
    return _steepest(threshold, 0.5 * min(threshold, 1 - threshold), float(delta))


def sigmoid_lipschitz(k: float = 10.0) -> float:
    """Compute the Lipschitz constant of :func:`eastward.sigmoid_step`, ``k / 4``.

    Parameters
    ----------
    k : float, default=10.0
        Steepness; ``step="sigmoid"`` has ``2 / temperature``.

    Returns
    -------
    float
        The slope at the threshold.

    Examples
    --------
    >>> sigmoid_lipschitz()
    2.5
    """
    return _checks.positive("sigmoid_lipschitz", "k", k) / 4


def _steepest(tau: float, half_width: float, height: float) -> float:
    """Compute the largest slope of the step through (tau - half_width, height) and (tau + half_width, 1 - height)."""
    outer = min(tau, 1 - tau) - half_width
    return max((0.5 - height) / half_width, height / outer if outer > 0 else math.inf)


def _temperature(caller: str, value: float) -> float:
    _checks.one_temperature(caller, value)
    return float(value)


def membership_lipschitz(num_classes: int, temperature: float = 0.2) -> float:
    r"""Compute a Lipschitz constant of the memberships :math:`g_T` of ``num_classes`` classes.

    For any two rows of probabilities, each with its own dynamic threshold,

    .. math:: \lVert g_T(p) - g_T(p') \rVert_1 \le L \, \lVert p - p' \rVert_1

    So no membership moves by more than :math:`\tfrac L2 \lVert p - p' \rVert_1`. For two classes *L* is the largest
    slope of the step at one half. For *d* classes it is *d* times the larger of

    .. math::
        \frac{\tfrac{1+w}2 m + \max(m, q)}{1 + \kappa (d-2)} + \sigma, \qquad
        \frac{F q \left(1 + \tfrac{1+w}2 T\right)}{1 + \kappa (d-2)}
        + \min\left(\frac{F / 2}{1 + \kappa (d-2)}, \frac18\right)

    with :math:`w = \tfrac52 T`, the slopes :math:`m = (1 - 2T) / 5T` and :math:`q = T / (1 - w)` of the step in units
    of its threshold, and :math:`\kappa = \min(q, \tfrac12)`. The page *Theory* derives it and says what
    :math:`\sigma` and *F* are.

    Parameters
    ----------
    num_classes : int
        Classes *d*, at least two.
    temperature : float, default=0.2
        In (0, 0.4].

    Returns
    -------
    float
        Exact for two classes. For 3 to 100 classes it is at most three times the steepest slope that was found.
        Infinite at temperature 0.4.

    References
    ----------
    EAST v1, Theorem 5.1, which proves that there is a constant; Bridging the Gap, Theorem 4.2, for two classes.

    Examples
    --------
    >>> round(membership_lipschitz(2), 2), round(membership_lipschitz(10), 2)
    (1.2, 4.03)
    >>> round(membership_lipschitz(10, 0.01))
    999
    """
    caller = "membership_lipschitz"
    classes = _checks.whole_number(caller, "num_classes", num_classes, at_least=2)
    heat = _temperature(caller, temperature)
    if 2.5 * heat >= 1:
        return math.inf
    if classes == 2:
        return heaviside_lipschitz(0.5, heat)
    return classes * max(_near_a_tie(classes - 2, heat), _with_a_winner(classes - 2, heat))


def _near_a_tie(others: int, heat: float) -> float:
    """The constant over *d* where the two largest probabilities lie on the middle piece of the step."""
    width, middle, outer = 2.5 * heat, (1 - 2 * heat) / (5 * heat), heat / (1 - 2.5 * heat)
    low, high = min(outer, 0.5), max(outer, 0.5)
    total = 1 + low * others
    direct = ((1 + width) / 2 * middle + max(middle, outer)) / total
    # How fast memberships shrink, each in proportion to itself, when the threshold rises.
    rates = (0.5, middle, middle / (2 * outer))
    besides = max(low * others, min(1.0, high * others))
    spread = (max(rates) - min(rates)) / 4 + min(rates) * besides / (1 + besides) ** 2
    return direct + min(max(middle, outer) * others / 2 / total, spread)


def _with_a_winner(others: int, heat: float) -> float:
    """The constant over *d* where the largest probability lies above the middle piece, and all others below."""
    width, outer = 2.5 * heat, heat / (1 - 2.5 * heat)
    low = min(outer, 0.5)
    slack = 1 + low * (1 - width) / (1 + 2 * math.sqrt(heat))
    total = 1 + low * others
    return slack * outer * (1 + (1 + width) / 2 * heat) / total + min(slack / 2 / total, 1 / 8)
