"""The input of every tuner, checked and converted once: scores, targets, weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks
from eastward._numerics import at_least_float32

# A probability of zero has a logarithm of minus infinity; this floor is finite, yet no offset can make up for it.
LOWEST_SCORE = -100.0

# Loose enough for probabilities in float16 or rounded to three digits.
SUMS_TO_ONE_WITHIN = 1e-2


class Sample(NamedTuple):
    """Checked input: scores ``(N, C)`` and weights in float64, targets as int64.

    ``resolution`` is the distance below which two scores count as equal: sums of scores and offsets round by
    about that much in the dtype that the caller works in.
    """

    scores: Tensor
    targets: Tensor
    weight: Tensor
    dtype: torch.dtype
    resolution: float

    def rows(self, chosen: Tensor, weight: Tensor | None = None) -> Sample:
        """Select the rows ``chosen``, optionally with new weights."""
        weight = self.weight[chosen] if weight is None else weight
        return self._replace(
            scores=self.scores[chosen], targets=self.targets[chosen], weight=weight
        )

    @property
    def num_classes(self) -> int:
        """Number of score columns."""
        return self.scores.shape[1]

    def class_mass(self) -> Tensor:
        """Total weight of each true class, ``(C,)``."""
        return self.weight.new_zeros(self.num_classes).index_add(0, self.targets, self.weight)


def class_sample(
    caller: str,
    scores: Any,
    targets: Any,
    sample_weight: Any,
    *,
    argument: str = "log_probabilities",
) -> Sample:
    """Check the input of a tuner for classes that exclude each other."""
    scores, dtype = score_table(caller, argument, scores)
    if scores.shape[1] < 2:
        advice = "Widen one positive-class log-odds column z to torch.stack([0 * z, z], 1)."
        expected = "of shape (N, C) with C >= 2"
        _checks.fail(caller, argument, expected, _checks.describe(scores), advice)
    labels = _checks.numeric(caller, "targets", targets).to(scores.device)
    if labels.shape != scores.shape[:1]:
        expected = f"of shape ({scores.shape[0]},), one class index per row"
        _checks.fail(caller, "targets", expected, _checks.describe(labels))
    _checks.class_targets(caller, labels, scores.shape[1], None)
    weight = row_weight(caller, sample_weight, scores)
    return Sample(scores, labels.long(), weight, dtype, resolution_of(scores, dtype))


def class_indices(caller: str, targets: Any, classes: Any) -> Any:
    """Convert targets that are labels to indices among ``classes``; numbers are indices already."""
    if isinstance(targets, Tensor) or not all(isinstance(value, str) for value in targets):
        return targets
    words = [str(value) for value in targets]
    places = {str(label): index for index, label in enumerate(classes)}
    unknown = sorted(set(words) - set(places))
    if unknown:
        got = f"{unknown[:5]}, not among {list(classes)[:10]}"
        _checks.fail(caller, "targets", "class indices, or labels that are in classes", got)
    return torch.tensor([places[word] for word in words])


def checked_classes(caller: str, classes: Any, size: int) -> tuple[Any, ...]:
    """Return labels as plain values, one for each class and all different."""
    try:
        labels = tuple(getattr(label, "item", lambda label=label: label)() for label in classes)
        hash(labels)
    except (TypeError, ValueError):
        _checks.fail(caller, "classes", "labels", _checks.describe(classes), error=TypeError)
    if len(labels) != size or len(set(labels)) != size:
        expected = f"{size} different labels, in the order of the columns"
        _checks.fail(caller, "classes", expected, list(labels)[:10])
    return labels


def score_table(caller: str, argument: str, value: Any) -> tuple[Tensor, torch.dtype]:
    """Return ``value`` as a finite float64 ``(N, C)`` tensor, and the dtype for results."""
    given = _checks.numeric(caller, argument, value)
    _checks.floating(caller, argument, given)
    if given.dim() != 2 or not given.shape[0]:
        _checks.fail(caller, argument, "of shape (N, C) with N >= 1", _checks.describe(given))
    scores = given.detach().double()
    if bool((torch.isnan(scores) | (scores == torch.inf)).any()):
        bad = int((torch.isnan(scores) | (scores == torch.inf)).sum())
        advice = "The model diverged, or probabilities of zero were divided by zero."
        got = f"{bad} NaN or +inf of {scores.numel()}"
        _checks.fail(caller, argument, "free of NaN and +inf", got, advice)
    return scores.clamp_min(LOWEST_SCORE), at_least_float32(given[:0]).dtype


def float_array(caller: str, argument: str, value: Any) -> NDArray[np.float64]:
    """Copy a tensor, array or nested list of real numbers to a float64 array."""
    given = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    try:
        if given is not None and not np.iscomplexobj(given):
            return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    got = _checks.describe(value)
    return _checks.fail(caller, argument, "an array of numbers", got, error=TypeError)


def row_weight(caller: str, sample_weight: Any, scores: Tensor) -> Tensor:
    """Return weights ``(N,)`` in float64, ones by default; they must not all be zero."""
    if sample_weight is None:
        return torch.ones(scores.shape[0], dtype=torch.float64, device=scores.device)
    weight = _checks.numeric(caller, "sample_weight", sample_weight).to(scores.device).double()
    if weight.shape != scores.shape[:1]:
        expected = f"of shape ({scores.shape[0]},)"
        _checks.fail(caller, "sample_weight", expected, _checks.describe(weight))
    _checks.weights(caller, weight)
    if not bool((weight > 0).any()):
        _checks.fail(caller, "sample_weight", "positive somewhere", "zeros only")
    return weight


def resolution_of(scores: Tensor, dtype: torch.dtype) -> float:
    """Return the distance below which scores tie, because one addition in ``dtype`` could swap them."""
    return 2 * torch.finfo(dtype).eps * max(1.0, float(scores.abs().max()))


def probability_sample(
    caller: str, probabilities: Any, targets: Any, sample_weight: Any = None
) -> Sample:
    """Check input whose scores are probabilities in [0, 1] with rows that sum to one."""
    table = probability_table(caller, probabilities)
    return class_sample(caller, table, targets, sample_weight, argument="probabilities")


def probability_table(caller: str, value: Any, num_classes: int | None = None) -> Tensor:
    """Return ``value`` as float64 probabilities ``(N, C)`` whose rows sum to one."""
    given = _checks.numeric(caller, "probabilities", value)
    _checks.floating(caller, "probabilities", given)
    if given.dim() != 2 or (num_classes is not None and given.shape[1] != num_classes):
        expected = f"of shape (N, {'C' if num_classes is None else num_classes})"
        advice = "Two classes have two columns: np.stack([1 - p, p], axis=1)."
        _checks.fail(caller, "probabilities", expected, _checks.describe(given), advice)
    table = given.detach().double()
    _checks.probabilities(caller, table)
    sums = table.sum(1)
    wrong = (sums - 1).abs() > SUMS_TO_ONE_WITHIN
    if bool(wrong.any()):
        got = f"{int(wrong.sum())} rows with other sums, for example {float(sums[wrong][0]):g}"
        advice = "Divide each row by its sum, or apply a softmax to logits."
        _checks.fail(caller, "probabilities", "rows that sum to one", got, advice)
    return table / sums.unsqueeze(1)


def stratified_folds(targets: Tensor, num_folds: int, seed: int) -> Tensor:
    """Assign rows to folds ``(N,)`` at random, with each class spread evenly.

    Parameters
    ----------
    targets : Tensor
        Class indices ``(N,)``.
    num_folds : int
        Number of folds.
    seed : int
        Seed of the shuffle.

    Returns
    -------
    Tensor
        The fold of each row, ``(N,)`` integers from 0 to ``num_folds - 1``.

    Examples
    --------
    >>> import torch
    >>> stratified_folds(torch.tensor([0, 0, 1, 1]), 2, seed=0).sort().values
    tensor([0, 0, 1, 1])
    """
    shuffled = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
    order = shuffled[targets.cpu()[shuffled].argsort(stable=True)]
    folds = torch.empty_like(order)
    folds[order] = torch.arange(len(order)) % num_folds
    return folds.to(targets.device)
