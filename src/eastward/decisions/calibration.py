r"""Calibrate probabilities, and measure how well calibrated they are.

Held-out predictions show how overconfident a model is. Three maps can correct it: one temperature, a scale and a shift
for each class (vector scaling), and for two classes any increasing curve (isotonic regression). The choice is the
simplest map whose cross-validated log-loss is within one standard error of the best. No map at all is chosen if it is
within one and a half.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks
from eastward.decisions._inputs import (
    Sample,
    probability_sample,
    probability_table,
    stratified_folds,
)

__all__ = [
    "Calibration",
    "brier_score",
    "expected_calibration_error",
    "fit_calibration",
    "log_loss",
    "reliability",
]

KINDS = ("none", "temperature", "vector", "isotonic")
N_FOLDS = 5

# An isotonic curve can have many parameters, so it needs at least this many rows of the rarer class.
FEWEST_FOR_ISOTONIC = 300
# For more numbers, a sample of the rows calibrates just as well.
MAX_NUMBERS = 200_000
# No prediction is certain enough for exactly zero or one.
SMALLEST = 1e-6
# A map must lower the log-loss by this many standard errors, because on few rows one seems better by chance.
TO_CHANGE = 1.5
# Steps of LBFGS, which are enough because the problem is convex.
STEPS = 60


@dataclass(frozen=True, eq=False)
class Calibration:
    r"""A map from a model's probabilities to calibrated ones.

    Attributes
    ----------
    kind : {"none", "temperature", "vector", "isotonic"}
        The kind of map.
    scales, shifts : ndarray
        ``(C,)``: :math:`p'_j \propto \exp(a_j \log p_j + b_j)`. For an isotonic curve, the x and y of its points.
    log_loss : float or None
        Cross-validated log-loss after the map, if the map was chosen by log-loss.
    log_loss_before : float or None
        Log-loss of the original probabilities.
    error, error_before : float or None
        Expected calibration error after the map and before.

    Examples
    --------
    >>> import numpy as np
    >>> soft = Calibration("temperature", np.full(2, 0.5), np.zeros(2))
    >>> soft.apply(np.array([[0.9, 0.1]])).round(2)
    array([[0.75, 0.25]])
    """

    kind: str
    scales: NDArray[Any]
    shifts: NDArray[Any]
    log_loss: float | None = None
    log_loss_before: float | None = None
    error: float | None = None
    error_before: float | None = None

    def apply(self, probabilities: Any) -> Any:
        """Calibrate probabilities.

        Parameters
        ----------
        probabilities : array or Tensor
            ``(N, C)``, rows sum to one.

        Returns
        -------
        ndarray or Tensor
            ``(N, C)`` in float64, array or Tensor like the input; rows sum to one.
        """
        size = 2 if self.kind == "isotonic" else len(self.scales)
        table = probability_table("Calibration.apply", probabilities, size)
        result = self._mapped(table)
        return result if isinstance(probabilities, Tensor) else result.numpy()

    def _mapped(self, table: Tensor) -> Tensor:
        if self.kind == "none":
            return table
        if self.kind == "isotonic":
            curve = np.interp(table[:, 1].numpy(), self.scales, self.shifts)
            positive = torch.from_numpy(curve)
            return torch.stack([1 - positive, positive], 1)
        scales, shifts = torch.tensor(self.scales), torch.tensor(self.shifts)
        return (scales * _logs(table) + shifts).softmax(1)

    def with_prior(self, prior: Any, new_prior: Any) -> Calibration:
        r"""Combine the map with a change of class frequencies, :math:`p'_i \propto p_i\,\pi'_i / \pi_i`.

        Parameters
        ----------
        prior, new_prior : array-like
            ``(C,)`` each: the class frequencies in training, and the new ones.

        Returns
        -------
        Calibration
            This map, followed by the change.
        """
        old, new = (
            np.maximum(np.asarray(value, dtype=float), 1e-12) for value in (prior, new_prior)
        )
        if self.kind == "isotonic":
            odds = new[1] / old[1] * self.shifts
            heights = odds / (odds + new[0] / old[0] * (1 - self.shifts))
            return replace(self, shifts=heights)
        return replace(self, kind="vector", shifts=self.shifts + np.log(new / old))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        return {
            "kind": self.kind,
            "scales": self.scales.tolist(),
            "shifts": self.shifts.tolist(),
            "log_loss": self.log_loss,
            "log_loss_before": self.log_loss_before,
            "error": self.error,
            "error_before": self.error_before,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Calibration:
        """Read what :meth:`to_dict` wrote."""
        _checks.one_of("Calibration.from_dict", "kind", data.get("kind"), KINDS)
        arrays = np.array(data["scales"], dtype=float), np.array(data["shifts"], dtype=float)
        names = ("log_loss", "log_loss_before", "error", "error_before")
        return cls(data["kind"], *arrays, *(data.get(name) for name in names))


def fit_calibration(
    probabilities: Any,
    targets: Any,
    kind: str = "auto",
    *,
    averaged: bool = False,
    sample_weight: Any = None,
    random_state: int = 0,
) -> Calibration:
    r"""Find the map that calibrates held-out probabilities.

    Parameters
    ----------
    probabilities : Tensor or array
        ``(N, C)``, predicted by a model that was not trained on the rows.
    targets : Tensor or array
        ``(N,)`` class indices.
    kind : {"auto", "none", "temperature", "vector", "isotonic"}, default="auto"
        ``"temperature"``: :math:`p' \propto p^{1/T}`. ``"vector"``: a scale and a shift of log-probabilities for each
        class. ``"isotonic"``: an increasing curve, for two classes; it needs scikit-learn. ``"auto"`` takes the
        simplest map whose cross-validated log-loss is within one standard error of the best; it leaves the
        probabilities unchanged if they are within one and a half. It considers an isotonic curve only if both classes
        have at least 300 rows.
    averaged : bool, default=False
        Whether new rows are predicted by the mean of several models, but each held-out row by one of them. The mean is
        less confident than a single model, so temperature and vector scaling then never flatten the probabilities
        overall.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    Calibration
        The map. Its ``apply`` calibrates new probabilities.

    References
    ----------
    Guo et al. (2017), "On calibration of modern neural networks"; Zadrozny and Elkan (2002), "Transforming classifier
    scores into accurate multiclass probability estimates".

    Examples
    --------
    >>> import torch
    >>> torch.manual_seed(0)
    <torch._C.Generator object at ...>
    >>> true = torch.rand(2000)
    >>> y = (torch.rand(2000) < true).long()
    >>> odds = 3 * torch.logit(true)  # three times too sure
    >>> p = torch.stack([torch.sigmoid(-odds), torch.sigmoid(odds)], 1)
    >>> found = fit_calibration(p, y)
    >>> found.kind, bool(abs(found.scales[0] - 1 / 3) < 0.05)
    ('temperature', True)
    """
    caller = "fit_calibration"
    sample = probability_sample(caller, probabilities, targets, sample_weight)
    _checks.one_of(caller, "kind", kind, ("auto", *KINDS))
    seed = _checks.seed(caller, random_state)
    if kind == "isotonic" and sample.num_classes != 2:
        got = f"'isotonic' for {sample.num_classes} classes"
        _checks.fail(caller, "kind", "other than 'isotonic' for more than two classes", got)
    sample = _some_rows(sample, seed)
    return (
        _chosen(sample, seed, averaged=averaged)
        if kind == "auto"
        else _fitted(sample, kind, averaged=averaged)
    )


def _some_rows(sample: Sample, seed: int) -> Sample:
    sample = sample.rows(torch.nonzero(sample.weight > 0).flatten())
    most = max(1, MAX_NUMBERS // sample.num_classes)
    if len(sample.targets) <= most:
        return sample
    order = torch.randperm(len(sample.targets), generator=torch.Generator().manual_seed(seed))
    return sample.rows(order[:most])


def _chosen(sample: Sample, seed: int, *, averaged: bool) -> Calibration:
    """Choose the simplest map whose cross-validated log-loss is close to that of the best."""
    folds = stratified_folds(sample.targets, min(N_FOLDS, len(sample.targets)), seed)
    kinds = _possible(sample)
    tables = [_held_out_tables(sample, folds, kind, averaged=averaged) for kind in kinds]
    losses = torch.stack([_row_losses(table, sample.targets) for table in tables])
    weight = sample.weight / sample.weight.sum()
    means = losses @ weight
    place = _simplest(losses, weight)
    found = _fitted(sample, kinds[place], averaged=averaged)
    rows = sample.targets.numpy(), sample.weight.numpy()
    errors = [expected_calibration_error(tables[k].numpy(), *rows) for k in (place, 0)]
    return replace(
        found,
        log_loss=float(means[place]),
        log_loss_before=float(means[0]),
        error=errors[0],
        error_before=errors[1],
    )


def _simplest(losses: Tensor, weight: Tensor) -> int:
    """Return the first map that is close enough to the best one; ``losses`` ``(maps, N)`` start with "none"."""
    means = losses @ weight
    best = int(means.argmin())
    excess = losses - losses[best]
    spread = (excess - (means - means[best]).unsqueeze(1)).square() @ weight
    hurdles = torch.ones_like(means)
    hurdles[0] = TO_CHANGE
    within = means - means[best] <= hurdles * (spread * weight.square().sum()).sqrt()
    return int(torch.nonzero(within).flatten()[0])


def _possible(sample: Sample) -> list[str]:
    fewest = int(torch.bincount(sample.targets, minlength=sample.num_classes).min())
    if not fewest:
        # Without a class among the rows, its probability would vanish.
        return ["none"]
    kinds = ["none", "temperature", "vector"]
    if sample.num_classes != 2 or importlib.util.find_spec("sklearn") is None:
        return kinds
    enough = fewest >= FEWEST_FOR_ISOTONIC
    return [*kinds, "isotonic"] if enough else kinds


def _held_out_tables(sample: Sample, folds: Tensor, kind: str, *, averaged: bool) -> Tensor:
    """Calibrate each row ``(N, C)`` by a map that was fitted without its fold."""
    tables = torch.empty_like(sample.scores)
    for fold in range(int(folds.max()) + 1):
        inside = folds == fold
        map_ = _fitted(sample.rows(~inside), kind, averaged=averaged)
        tables[inside] = map_.apply(sample.scores[inside])
    return tables


def _row_losses(table: Tensor, targets: Tensor) -> Tensor:
    """Compute the log-loss of each row, ``(N,)``."""
    own = table.gather(1, targets.unsqueeze(1)).squeeze(1)
    return -own.clamp_min(SMALLEST).log()


def _fitted(sample: Sample, kind: str, *, averaged: bool) -> Calibration:
    size = sample.num_classes
    if kind == "none":
        return Calibration(kind, np.ones(size), np.zeros(size))
    if kind == "isotonic":
        return _isotonic(sample)
    found = _scaled(sample, kind)
    logs = np.log(found.scales)
    return replace(found, scales=np.exp(logs - min(0.0, logs.mean()))) if averaged else found


def _scaled(sample: Sample, kind: str) -> Calibration:
    """Find the scales and shifts of highest likelihood, with a weak prior towards one and zero."""
    size, logs = sample.num_classes, _logs(sample.scores)
    free = torch.zeros(1 if kind == "temperature" else 2 * size, dtype=torch.float64)
    free.requires_grad_()
    weight = sample.weight / sample.weight.mean()

    def parts() -> tuple[Tensor, Tensor]:
        if kind == "temperature":
            return free.exp().expand(size), torch.zeros(size, dtype=torch.float64)
        return free[:size].exp(), free[size:]

    def objective() -> Tensor:
        scales, shifts = parts()
        rows = torch.nn.functional.cross_entropy(
            scales * logs + shifts, sample.targets, reduction="none"
        )
        return ((weight * rows).sum() + 0.5 * free.square().sum()) / len(rows)

    _minimise(objective, free)
    scales, shifts = (part.detach().clone() for part in parts())
    return Calibration(kind, scales.numpy(), (shifts - shifts.mean()).numpy())


def _minimise(objective: Any, free: Tensor) -> None:
    optimiser = torch.optim.LBFGS([free], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimiser.zero_grad()
        value = objective()
        value.backward()
        return float(value.detach())

    optimiser.step(closure)


def _isotonic(sample: Sample) -> Calibration:
    """Fit scikit-learn's isotonic regression, clipped away from zero and one."""
    from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415 - the losses must work without scikit-learn

    curve = IsotonicRegression(out_of_bounds="clip")
    positive = sample.scores[:, 1].numpy()
    curve.fit(positive, sample.targets.numpy(), sample_weight=sample.weight.numpy())
    floor = 1 / (len(positive) + 2)
    heights = np.clip(curve.y_thresholds_, floor, 1 - floor)
    return Calibration("isotonic", np.asarray(curve.X_thresholds_), heights)


def _logs(table: Tensor) -> Tensor:
    return table.clamp_min(SMALLEST).log()


# Forests predict probabilities of zero; scikit-learn clips at the same value.
_SMALLEST = float(np.finfo(np.float64).eps)
_BINS = 15


def log_loss(probabilities: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any]) -> float:
    """Compute the mean negative log-probability of the true class; 0 is best.

    Examples
    --------
    >>> import numpy as np
    >>> log_loss(np.array([[0.5, 0.5]]), np.array([1]), np.ones(1))
    0.6931
    """
    chosen = probabilities[np.arange(len(targets)), targets].clip(_SMALLEST, 1.0)
    return float(np.average(-np.log(chosen), weights=weight))


def brier_score(probabilities: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any]) -> float:
    """Compute the mean squared distance of probabilities to the truth, halved for two classes as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> brier_score(np.array([[0.5, 0.5]]), np.array([1]), np.ones(1))
    0.25
    """
    truth = np.eye(probabilities.shape[1])[targets]
    distances = np.square(probabilities - truth).sum(axis=1)
    scale = 0.5 if probabilities.shape[1] == 2 else 1.0
    return float(np.average(distances, weights=weight) * scale)


def expected_calibration_error(
    probabilities: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any]
) -> float:
    """Compute the mean gap between confidence and accuracy over 15 bins of equal width; 0 is best.

    References
    ----------
    Guo et al., *On calibration of modern neural networks*, ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> expected_calibration_error(np.array([[0.3, 0.7]] * 2), np.array([1, 0]), np.ones(2))
    0.2
    """
    _, mass, sure, right = reliability(probabilities, targets, weight)
    return float(np.abs(right - sure).sum() / mass.sum())


def reliability(
    probabilities: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Sort rows into 15 bins of equal width by their confidence in the most probable class.

    Returns
    -------
    tuple of ndarray
        The bin of each row ``(N,)``. Then, for each bin, the weight of its rows, that weight times their confidence,
        and the weight of the correct rows.

    Examples
    --------
    >>> import numpy as np
    >>> bins, mass, sure, right = reliability(
    ...     np.array([[0.3, 0.7]] * 2), np.array([1, 0]), np.ones(2)
    ... )
    >>> bins.tolist(), [float(of[10]) for of in (mass, sure, right)]
    ([10, 10], [2.0, 1.4, 1.0])
    """
    confidence = probabilities.max(axis=1)
    hit = (probabilities.argmax(axis=1) == targets).astype(float)
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    mass, sure, right = (
        np.bincount(bins, weights=weight * values, minlength=_BINS)
        for values in (np.ones_like(hit), confidence, hit)
    )
    return bins, mass, sure, right
