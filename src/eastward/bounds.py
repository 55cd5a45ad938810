r"""One-sided confidence bounds for rates: what held-out rows prove, not just what they show.

A recall of 0.93 on 30 rows proves less than on 3000. The bound of Clopper and Pearson is exact for a share of
independent rows; other metrics are bounded by the bootstrap of their table.
"""

from __future__ import annotations

import math

from eastward import _checks

__all__ = ["rate_bound"]

# Halvings of [0, 1]: 2^-50 is finer than any number that is printed.
HALVINGS = 50

# Modified Lentz: the continued fraction converges in about sqrt(max(a, b)) terms.
MAX_TERMS, TINY, CONVERGED = 20_000, 1e-300, 1e-14

# Effective numbers are sums of weights, so rounding may leave slightly more successes than rows.
ROUNDING = 1e-9


def rate_bound(
    successes: float, rows: float, *, confidence: float = 0.95, upper: bool = False
) -> float:
    r"""Compute the one-sided Clopper–Pearson bound for a share of rows.

    .. math:: L = \inf\{p : P(X \ge k \mid n, p) > 1 - \text{confidence}\}, \quad X \sim \mathrm{Bin}(n, p)

    Parameters
    ----------
    successes : float
        ``k``, the number of successful rows, at most ``rows``. It need not be whole: weighted rows have an effective
        number.
    rows : float
        ``n``, the number of all rows.
    confidence : float, default=0.95
        Probability with which the bound is on the right side of the true share.
    upper : bool, default=False
        Bound the share from above instead of from below.

    Returns
    -------
    float
        In [0, 1]. Without any rows, the lower bound is 0 and the upper bound is 1.

    References
    ----------
    Clopper and Pearson (1934), "The use of confidence or fiducial limits illustrated in the case of the binomial";
    Korn and Graubard (1998) for effective numbers of rows.

    Examples
    --------
    >>> round(rate_bound(198, 212), 3)
    0.899
    >>> round(rate_bound(0, 59, upper=True), 4)
    0.0495
    """
    caller = "rate_bound"
    level = _checks.in_unit_interval(caller, "confidence", confidence)
    total = _checks.not_negative(caller, "rows", rows)
    count = _checks.real(caller, "successes", successes)
    if not 0 <= count <= total * (1 + ROUNDING):
        _checks.fail(caller, "successes", f"in [0, rows], here [0, {total:g}]", successes)
    above = _checks.boolean(caller, "upper", upper)
    return one_sided_bound(count, total, confidence=level, upper=above)


def one_sided_bound(
    successes: float, rows: float, *, confidence: float, upper: bool = False
) -> float:
    """Compute :func:`rate_bound` without checking the arguments; sums of weights may round to below zero."""
    if upper:
        return 1 - one_sided_bound(rows - successes, rows, confidence=confidence)
    if successes <= 0 or rows <= 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if proves_rate(successes, rows, middle, confidence=confidence):
            low = middle
        else:
            high = middle
    return low


def proves_rate(successes: float, rows: float, bound: float, *, confidence: float) -> bool:
    """Return whether :func:`rate_bound` is at least ``bound``, without computing it.

    Examples
    --------
    >>> proves_rate(59, 59, 0.95, confidence=0.95), proves_rate(58, 58, 0.95, confidence=0.95)
    (True, False)
    """
    if bound <= 0:
        return True
    if successes <= 0 or rows <= 0:
        return False
    tail = _incomplete_beta(successes, max(rows - successes, 0.0) + 1, bound)
    return tail <= 1 - confidence


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Compute the regularised incomplete beta function; for whole a, P(X >= a) of Bin(a + b - 1, x)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_front += a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) * _continued_fraction(a, b, x) / a


def _continued_fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 / _not_zero(1 + term * d), _not_zero(1 + term / c)
            value *= d * c
        if abs(d * c - 1) < CONVERGED:
            break
    return value


def _not_zero(number: float) -> float:
    return number if abs(number) > TINY else TINY
