"""Estimate a method's gain from its splits, combined with experience on many tables."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from eastward import _checks
from eastward.metrics import Metric

__all__ = [
    "Belief",
    "Expected",
    "Noise",
    "Prior",
    "believed_gain",
    "resolved_prior",
    "shipped_prior",
]

# Gains over many tables have long tails: most are small, a few are large. The tail has to be longer than that of the
# evidence from two or three splits; otherwise the prior wins wherever they differ much, and a method that gains more
# would be believed less.
TAIL = 1.0
POINTS, REACH = 601, 2000.0
SAME_SCORE = 1e-9
# Metrics without a fitted prior, and the fitted metric that they resemble.
KIN = {
    "f_beta": "f1",
    "jaccard": "f1",
    "geometric_mean": "balanced_accuracy",
    "cohen_kappa": "matthews_corrcoef",
}


class Expected(NamedTuple):
    """The expected gain before any split is run: location and scale of a t distribution."""

    location: float
    scale: float


class Noise(NamedTuple):
    """The expected variance between splits, with the number of splits that this expectation is worth."""

    variance: float
    degrees: float


class Belief(NamedTuple):
    """The estimated gain of one method over another, after the splits.

    Attributes
    ----------
    expected : float
        Mean of the distribution.
    low, high : float
        The interval that holds the middle 95 % of the distribution.
    better : float
        Probability that the gain is positive.
    equal : float
        Probability that the gain is within the margin.
    upside : float
        Mean of the positive part of the gain: the average loss from dropping the method.
    """

    expected: float
    low: float
    high: float
    better: float
    equal: float
    upside: float


@dataclass(frozen=True)
class Prior:
    """Gains over a reference method, fitted on many tables.

    Attributes
    ----------
    reference : str
        The method that gains are measured against.
    gains : mapping
        ``gains[metric][method]`` is an :class:`Expected`.
    unknown : Expected
        Expected gain of methods and metrics without experience.
    noise : Noise
        Noise of a single split.
    tables : int
        Number of tables that the prior was fitted on.
    """

    reference: str
    gains: Mapping[str, Mapping[str, Expected]]
    unknown: Expected
    noise: Noise
    tables: int

    def expected(self, method: str, baseline: str, metric: Metric, level: float = 1.0) -> Expected:
        """Return the expected gain of ``method`` over ``baseline``; higher is better.

        ``level`` is the score of the baseline. For a metric without a fixed range, such as a cost, expected gains are
        in proportion to it.
        """
        known = self.gains.get(_family(metric.name), {})
        if not {method, baseline} <= {*known, self.reference}:
            return Expected(0.0, self.unknown.scale * _unit(metric, level))
        own, other = (known.get(name, Expected(0.0, 0.0)) for name in (method, baseline))
        return Expected(own.location - other.location, math.hypot(own.scale, other.scale))

    def noise_of(self, metric: Metric, level: float = 1.0) -> Noise:
        """Return the expected variance between splits, in units of ``metric``."""
        return Noise(self.noise.variance * _unit(metric, level) ** 2, self.noise.degrees)

    def words(self, method: str, baseline: str, metric: Metric) -> str:
        """Describe the expectation in words."""
        found = self.expected(method, baseline, metric)
        if found == self.unknown:
            return "nothing is known about these two in advance, and large gains are rare"
        return f"on {self.tables} tables the gain was {found.location:+.3f}, give or take {found.scale:.3f}"

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Prior:
        """Restore a prior from the document that ``benchmarks/quality/prior.py`` writes."""
        gains = {
            metric: {name: Expected(*pair) for name, pair in methods.items()}
            for metric, methods in document["gains"].items()
        }
        unknown, noise = Expected(*document["unknown"]), Noise(*document["noise"])
        return cls(document["reference"], gains, unknown, noise, document["tables"])


@cache
def shipped_prior() -> Prior:
    """Load the prior that comes with the library.

    Examples
    --------
    >>> from eastward.metrics import get
    >>> shipped_prior().expected("ensemble", "cross_entropy_tuned", get("f1_macro")).location > 0
    True
    """
    text = resources.files("eastward.comparison").joinpath("prior.json").read_text("utf-8")
    return Prior.from_dict(json.loads(text))


def resolved_prior(prior: Any) -> Prior | None:
    """Return the prior that a user chose: "tables", None, or their own."""
    if prior is None or isinstance(prior, Prior):
        return prior
    _checks.one_of("compare", "prior", prior, ("tables",), otherwise="None or a Prior")
    return shipped_prior()


def believed_gain(
    gains: NDArray[Any],
    test_ratio: float,
    margin: float,
    *,
    expected: Expected | None = None,
    noise: Noise | None = None,
) -> Belief:
    r"""Estimate the distribution of a method's true gain from its gains on splits.

    .. math:: p(\delta \mid d) \propto t_1\!\Big(\frac{\delta - \mu}{\tau}\Big)\,
              t_{\nu_0 + J - 1}\!\Big(\frac{\bar d - \delta}{s \sqrt{1/J + n_\text{test}/n_\text{train}}}\Big),
              \quad s^2 = \frac{\nu_0 s_0^2 + \sum_j (d_j - \bar d)^2}{\nu_0 + J - 1}

    The second factor is the corrected t distribution of Nadeau and Bengio, with a variance stabilised by that of
    splits of other tables. The first factor is the experience with the method on those tables; without ``expected`` it
    is left out.

    Parameters
    ----------
    gains : ndarray
        ``(J,)`` gains, one for each split; higher is better. J >= 2, or J >= 1 with ``noise``.
    test_ratio : float
        Test rows over training rows.
    margin : float
        Gains within plus or minus this make no practical difference.
    expected : Expected, optional
        Prior knowledge of the gain.
    noise : Noise, optional
        Prior knowledge of the variance.

    Returns
    -------
    Belief
        The estimated gain, with its interval and probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> splits = np.array([0.03, 0.01, 0.04, -0.01, 0.03])
    >>> round(believed_gain(splits, 0.25, 0.005).expected, 3)
    0.02
    >>> sceptical = believed_gain(splits, 0.25, 0.005, expected=Expected(0.0, 0.01))
    >>> 0 < sceptical.expected < 0.02
    True
    """
    count, mean = len(gains), float(np.mean(gains))
    known = noise or Noise(0.0, 0.0)
    degrees = known.degrees + count - 1
    spread = known.degrees * known.variance + float(np.sum((gains - mean) ** 2))
    error = math.sqrt(spread / degrees * (1 / count + test_ratio))
    if error < SAME_SCORE and expected is None:
        # Splits that agree to the last digit have no spread.
        sure = 0.5 + 0.5 * float(np.sign(round(mean, 12)))
        return Belief(mean, mean, mean, sure, float(abs(mean) <= margin), max(mean, 0.0))
    error = max(error, SAME_SCORE)
    if expected is None:
        grid = _grid(mean, error, Expected(mean, error))
        density = _log_t((grid - mean) / error, degrees)
        evidence = stats.t(degrees, mean, error)
        low, high = (float(end) for end in evidence.interval(0.95))
        least, zero, most = evidence.cdf([-margin, 0.0, margin]).tolist()
        # With two splits the distribution has no mean, so take its centre, which was measured.
        return Belief(mean, low, high, 1 - zero, most - least, _upside(grid, density))
    grid = _grid(mean, error, expected)
    density = _log_t((grid - mean) / error, degrees)
    density += _log_t((grid - expected.location) / max(expected.scale, SAME_SCORE), TAIL)
    masses = _masses(density)
    steps = np.diff(grid)
    below = np.concatenate([[0.0], np.cumsum(steps * (masses[1:] + masses[:-1]) / 2)])
    below /= below[-1]
    low, high = np.interp([0.025, 0.975], below, grid).tolist()
    least, zero, most = np.interp([-margin, 0.0, margin], grid, below).tolist()
    centre = float(np.trapezoid(grid * masses, grid) / np.trapezoid(masses, grid))
    return Belief(centre, low, high, 1 - zero, most - least, _upside(grid, density))


def _masses(logs: NDArray[Any]) -> NDArray[Any]:
    masses: NDArray[Any] = np.exp(logs - logs.max())
    return masses


def _upside(grid: NDArray[Any], logs: NDArray[Any]) -> float:
    """Compute the mean of the positive part."""
    masses = _masses(logs)
    positive = np.trapezoid(np.maximum(grid, 0) * masses, grid)
    return float(positive / np.trapezoid(masses, grid))


def _log_t(values: NDArray[Any], degrees: float) -> NDArray[Any]:
    """Compute the logarithm of the t density, up to a constant."""
    logs: NDArray[Any] = -(degrees + 1) / 2 * np.log1p(values**2 / degrees)
    return logs


def _grid(mean: float, error: float, expected: Expected) -> NDArray[Any]:
    """Return points that are dense around the measured and the expected gain."""
    steps = np.sinh(np.linspace(-1, 1, POINTS) * math.asinh(REACH * 25)) / 25
    parts = [mean + error * steps, expected.location + max(expected.scale, SAME_SCORE) * steps]
    points: NDArray[Any] = np.unique(np.concatenate(parts))
    return points


def _unit(metric: Metric, level: float) -> float:
    """Return one for a metric of known range, else the level that gains are proportional to."""
    bounded = math.isfinite(metric.low) and math.isfinite(metric.high)
    return 1.0 if bounded else max(level, SAME_SCORE)


def _family(name: str) -> str:
    """Return the metric that ``name`` resembles: every F-score resembles f1."""
    stem = re.sub(r"(_(macro|micro|weighted|linear|quadratic)|\[.*\])$", "", name)
    return "f1" if re.fullmatch(r"f[\d.]+", stem) else KIN.get(stem, stem)
