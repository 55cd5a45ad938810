r"""Prediction sets that contain the true class with a chosen probability.

A class is in the set of a row if its probability is at least :math:`1 - q`, where q is the
:math:`\lceil (n + 1)\,\text{coverage} \rceil`-th smallest of :math:`1 - p_{y}` on n held-out rows. If new rows are
exchangeable with them, their sets contain the true class with at least this coverage, however good the model is. With
weights, rows are counted by their weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eastward import _checks
from eastward.decisions._inputs import probability_sample, probability_table

__all__ = ["PredictionSets", "prediction_sets"]


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """Probability thresholds: a class is in the set of a row if its probability reaches its threshold.

    Attributes
    ----------
    thresholds : ndarray
        ``(C,)``: zero for a class that is in every set.
    coverage : float
        The chosen coverage.
    by_class : bool
        Whether the coverage holds for each class, or over all rows.

    Examples
    --------
    >>> found = PredictionSets(np.array([0.3, 0.5]), coverage=0.9, by_class=False)
    >>> found.sets([[0.6, 0.4], [0.4, 0.6]])
    array([[ True, False],
           [ True,  True]])
    """

    thresholds: NDArray[Any]
    coverage: float
    by_class: bool

    def sets(self, probabilities: Any) -> NDArray[Any]:
        """Return the classes in the set of each row.

        Parameters
        ----------
        probabilities : Tensor or array
            ``(N, C)``, rows sum to one.

        Returns
        -------
        ndarray
            ``(N, C)`` booleans. The most probable class is always in the set, so no set is empty.
        """
        table = probability_table(
            "PredictionSets.sets", probabilities, len(self.thresholds)
        ).numpy()
        members: NDArray[Any] = table >= self.thresholds
        members[np.arange(len(table)), table.argmax(1)] = True
        return members

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        return {
            "thresholds": self.thresholds.tolist(),
            "coverage": self.coverage,
            "by_class": self.by_class,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PredictionSets:
        """Read what :meth:`to_dict` wrote."""
        return cls(np.array(data["thresholds"]), float(data["coverage"]), bool(data["by_class"]))


def prediction_sets(
    probabilities: Any,
    targets: Any,
    coverage: float = 0.9,
    *,
    by_class: bool = False,
    sample_weight: Any = None,
) -> PredictionSets:
    """Find thresholds for prediction sets that contain the true class with a chosen probability.

    Parameters
    ----------
    probabilities : Tensor or array
        ``(N, C)``, predicted by a model that was not trained on the rows.
    targets : Tensor or array
        ``(N,)`` class indices.
    coverage : float, default=0.9
        How often the set must contain the true class, in (0, 1).
    by_class : bool, default=False
        Reach the coverage for the rows of every class, not only over all rows. A class with too few rows to prove it
        (fewer than ``coverage / (1 - coverage)``) is then in every set.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative: how frequent rows like this one are among the new rows, relative to the
        held-out ones. If class frequencies change from π to π', it is π'/π of the row's class.

    Returns
    -------
    PredictionSets
        Call its ``sets`` with the probabilities of new rows.

    References
    ----------
    Sadinle, Lei and Wasserman (2019), "Least ambiguous set-valued classifiers with bounded error levels"; Vovk et al.
    (2005), "Algorithmic learning in a random world"; Podkopaev and Ramdas (2021), "Distribution-free uncertainty
    quantification for classification under label shift".

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]).repeat(10, 1)
    >>> found = prediction_sets(p, torch.tensor([0, 1, 0]).repeat(10), 0.5)
    >>> found.sets(torch.tensor([[0.9, 0.1], [0.45, 0.55]]))
    array([[ True, False],
           [False,  True]])
    """
    caller = "prediction_sets"
    sample = probability_sample(caller, probabilities, targets, sample_weight)
    level = _checks.in_unit_interval(caller, "coverage", coverage)
    _checks.boolean(caller, "by_class", by_class)
    rows, codes = sample.scores, sample.targets
    true = rows[torch.arange(len(codes)), codes].numpy()
    weight = None if sample_weight is None else sample.weight.numpy()
    return sets_from(
        true, codes.numpy(), sample.num_classes, level, by_class=by_class, weight=weight
    )


def sets_from(
    true: NDArray[Any],
    codes: NDArray[Any],
    size: int,
    coverage: float,
    *,
    by_class: bool,
    weight: NDArray[Any] | None = None,
) -> PredictionSets:
    """Compute :func:`prediction_sets` from the probabilities of the true classes alone, ``(N,)``."""
    weight = np.ones(len(true)) if weight is None else weight
    if not by_class:
        found = _threshold(true, weight, coverage)
        return PredictionSets(np.full(size, found), coverage, by_class=False)
    own = [codes == label for label in range(size)]
    thresholds = [_threshold(true[rows], weight[rows], coverage) for rows in own]
    return PredictionSets(np.array(thresholds), coverage, by_class=True)


def _threshold(true: NDArray[Any], weight: NDArray[Any], coverage: float) -> float:
    """Return the probability that the true classes reach, but for the allowed share of the weight.

    The new row counts as well. Its weight is unknown, so it gets the largest one.
    """
    if not len(true):
        return 0.0
    order = np.argsort(-true, kind="stable")
    reached = np.cumsum(weight[order])
    # Products such as 0.9 * 10 can round up.
    needed = coverage * (weight.sum() + weight.max()) * (1 - 1e-12)
    place = int(np.searchsorted(reached, needed))
    return 0.0 if place >= len(true) else float(true[order][place])
