r"""From memberships and targets to a confusion matrix, or to its one-vs-rest counts.

:math:`C[i, :] = \sum_{n:\,y_n = i} w_n\, g(p_n)`: rows are true classes, columns predicted ones. Every entry is a
sum over samples, so the matrices of disjoint batches add up to the matrix of their union. That is why batches and
processes can be accumulated.

Metrics that need only the diagonal and the margins use :class:`Counts`, which never builds the d x d matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import at_least_float32
from eastward._prior_weights import masked_labels, weights_of_prior, weights_of_rates
from eastward._samples import flatten_samples
from eastward.protocols import Confusion, Memberships, Reduce, Targets

__all__ = [
    "Counts",
    "counts_from_confusion",
    "hard_confusion",
    "multilabel_counts",
    "soft_confusion",
    "soft_counts",
]


class Counts(NamedTuple):
    """One-vs-rest table: true/false positives/negatives of each class, each of shape ``(C,)``.

    Attributes
    ----------
    tp, fp, fn, tn : Tensor
        Soft or hard counts, ``(C,)``.
    exclusive : bool
        Whether the classes exclude each other (the counts come from one d x d matrix). Multilabel columns are
        separate binary problems and do not.

    Examples
    --------
    >>> import torch
    >>> counts_from_confusion(torch.tensor([[3.0, 1.0], [2.0, 4.0]])).fp
    tensor([2., 1.])
    """

    tp: Tensor
    fp: Tensor
    fn: Tensor
    tn: Tensor
    exclusive: bool = True

    @property
    def true(self) -> Tensor:
        """Mass of the true class, ``tp + fn``."""
        return self.tp + self.fn

    @property
    def predicted(self) -> Tensor:
        """Mass predicted as the class, ``tp + fp``."""
        return self.tp + self.fp

    def stack(self) -> Tensor:
        """Stack the four rows into one ``(4, C)`` tensor, which adds up over batches."""
        return torch.stack([self.tp, self.fp, self.fn, self.tn])

    @classmethod
    def unstack(cls, table: Tensor, *, exclusive: bool = True) -> Counts:
        """Split a stacked tensor into counts again; the inverse of :meth:`stack`."""
        tp, fp, fn, tn = table.unbind(0)
        return cls(tp, fp, fn, tn, exclusive)

    def map(self, function: Callable[[Tensor], Tensor]) -> Counts:
        """Apply ``function`` to each of the four rows."""
        tp, fp, fn, tn = (function(row) for row in (self.tp, self.fp, self.fn, self.tn))
        return Counts(tp, fp, fn, tn, self.exclusive)


def soft_confusion(
    memberships: Memberships,
    targets: Targets,
    *,
    num_classes: int | None = None,
    sample_weight: Tensor | None = None,
    prior: Any = None,
    ignore_index: int | None = -100,
) -> Confusion:
    r"""Compute the confusion matrix of soft (or one-hot) memberships.

    Parameters
    ----------
    memberships : Tensor
        ``(N, C)``, as :func:`~eastward.soft_memberships` returns them; or ``(N, C, ...)`` with spatial dimensions.
    targets : Tensor
        ``(N,)`` (or ``(N, ...)``) integer class indices.
    num_classes : int, optional
        Number of classes C, to be checked against the columns.
    sample_weight : Tensor, optional
        ``(N,)`` or of the shape of ``targets``; finite and not negative. Weight 2 counts a sample twice.
    prior : sequence of C numbers, optional
        True class distribution. Each row becomes a conditional mean times its ``prior``, so that stratified batches
        estimate the matrix of that distribution.
    ignore_index : int or None, default=-100
        Samples with this label are left out.

    Returns
    -------
    Tensor
        ``(C, C)``, rows true and columns predicted, in float32 at least. Entries sum to the total weight.

    Notes
    -----
    With ``prior``, the row of a class without samples stays zero.

    References
    ----------
    EAST, section 4.2 and definition 5.5.

    Examples
    --------
    >>> import torch
    >>> soft_confusion(
    ...     torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]), torch.tensor([0, 1, -100])
    ... )
    tensor([[0.9000, 0.1000],
            [0.2000, 0.8000]])
    """
    caller = "soft_confusion"
    memberships, targets, sample_weight = _flat(caller, memberships, targets, sample_weight)
    _check_width(caller, memberships, num_classes)
    ignore_index = _checks.ignore_index(caller, ignore_index)
    _checks.class_targets(caller, targets, memberships.shape[1], ignore_index)
    return class_confusion(
        memberships, targets, sample_weight=sample_weight, prior=prior, ignore_index=ignore_index
    )


def soft_counts(
    memberships: Memberships,
    targets: Targets,
    *,
    num_classes: int | None = None,
    sample_weight: Tensor | None = None,
    prior: Any = None,
    ignore_index: int | None = -100,
) -> Counts:
    """Compute one-vs-rest counts of soft memberships without building the C x C matrix.

    Parameters
    ----------
    memberships : Tensor
        ``(N, C)``, as :func:`~eastward.soft_memberships` returns them; or ``(N, C, ...)`` with spatial dimensions.
    targets : Tensor
        ``(N,)`` (or ``(N, ...)``) integer class indices.
    num_classes : int, optional
        Number of classes C, to be checked against the columns.
    sample_weight : Tensor, optional
        ``(N,)`` or of the shape of ``targets``; finite and not negative. Weight 2 counts a sample twice.
    prior : sequence of C numbers, optional
        True class distribution. Each class is weighted to its ``prior``, so that stratified batches estimate the
        counts of that distribution.
    ignore_index : int or None, default=-100
        Samples with this label are left out.

    Returns
    -------
    Counts
        Equal to ``counts_from_confusion(soft_confusion(...))``, but needs memory for only N·C numbers.

    Examples
    --------
    >>> import torch
    >>> soft_counts(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 1])).tp
    tensor([0.9000, 0.8000])
    """
    caller = "soft_counts"
    memberships, targets, sample_weight = _flat(caller, memberships, targets, sample_weight)
    _check_width(caller, memberships, num_classes)
    ignore_index = _checks.ignore_index(caller, ignore_index)
    _checks.class_targets(caller, targets, memberships.shape[1], ignore_index)
    return class_counts(
        memberships, targets, sample_weight=sample_weight, prior=prior, ignore_index=ignore_index
    )


def multilabel_counts(
    memberships: Memberships,
    targets: Targets,
    *,
    sample_weight: Tensor | None = None,
    prior: Any = None,
    ignore_index: int | None = -100,
    reduce: Reduce | None = None,
) -> Counts:
    """Compute the true and false positives and negatives of independent binary columns.

    Parameters
    ----------
    memberships, targets : Tensor
        Both ``(N, L)``. A membership is the degree, in [0, 1], to which a label is predicted; a target is 0 or 1.
    sample_weight : Tensor, optional
        ``(N,)`` or ``(N, L)``.
    prior : sequence of L numbers, optional
        True rate of positives of each label.
    ignore_index : int or None, default=-100
        Entries of the targets with this value are left out.
    reduce : callable, optional
        Function that sums a tensor over processes. Only ``prior`` needs it, in a job of several processes.

    Returns
    -------
    Counts
        Counts of each label, with ``exclusive=False``.

    Examples
    --------
    >>> import torch
    >>> multilabel_counts(torch.tensor([[0.9, 0.1]]), torch.tensor([[1, 0]])).fp
    tensor([0.0000, 0.1000])
    """
    caller = "multilabel_counts"
    _checks.floating(caller, "memberships", memberships)
    _checks.real_numbers(caller, "memberships", memberships)
    _checks.indicator_targets(caller, targets, _checks.ignore_index(caller, ignore_index))
    _checks.same_device(caller, "targets", targets, "memberships", memberships)
    if targets.shape != memberships.shape or memberships.dim() != 2:
        expected = f"of the memberships' shape {tuple(memberships.shape)}, which is (N, L)"
        _checks.fail(caller, "targets", expected, _checks.describe(targets))
    if sample_weight is not None:
        _checks.weights(caller, sample_weight)
        _checks.same_device(caller, "sample_weight", sample_weight, "memberships", memberships)
        if sample_weight.shape not in (memberships.shape, memberships.shape[:1]):
            expected = f"of shape ({len(memberships)},) or {tuple(memberships.shape)}"
            _checks.fail(caller, "sample_weight", expected, _checks.describe(sample_weight))
    return label_counts(
        memberships,
        targets,
        sample_weight=sample_weight,
        prior=prior,
        ignore_index=ignore_index,
        reduce=reduce,
    )


def hard_confusion(
    predicted: Tensor,
    targets: Targets,
    *,
    num_classes: int,
    sample_weight: Tensor | None = None,
    ignore_index: int | None = -100,
) -> Confusion:
    """Compute the confusion matrix of predicted labels, in float64.

    Parameters
    ----------
    predicted, targets : Tensor
        Integer labels of the same shape.
    num_classes : int
        Number of classes C.
    sample_weight : Tensor, optional
        Weights of the samples, of the shape of ``targets``.
    ignore_index : int or None, default=-100
        Targets with this value are left out.

    Returns
    -------
    Tensor
        ``(C, C)``, rows true and columns predicted.

    Examples
    --------
    >>> import torch
    >>> hard_confusion(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), num_classes=2)
    tensor([[1., 1.],
            [0., 1.]], dtype=torch.float64)
    """
    predicted, targets = predicted.reshape(-1), targets.reshape(-1)
    weights = torch.ones_like(targets, dtype=torch.float64)
    if sample_weight is not None:
        weights = sample_weight.reshape(-1).to(weights)
    if ignore_index is not None:
        ignored = targets == ignore_index
        targets, weights = targets.masked_fill(ignored, 0), weights.masked_fill(ignored, 0.0)
    cells = targets.long() * num_classes + predicted.long()
    flat = weights.new_zeros(num_classes * num_classes).index_add(0, cells, weights)
    return flat.view(num_classes, num_classes)


def counts_from_confusion(confusion: Confusion) -> Counts:
    """Reduce a confusion matrix ``(C, C)`` to its one-vs-rest counts.

    Examples
    --------
    >>> import torch
    >>> counts_from_confusion(torch.tensor([[3.0, 1.0], [2.0, 4.0]])).tn
    tensor([4., 3.])
    """
    tp = confusion.diagonal()
    wrong = confusion - torch.diag_embed(tp)
    fp, fn = wrong.sum(0), wrong.sum(1)
    # True negatives are what the other classes get right plus what they confuse among themselves. Neither part is a
    # difference of large sums, which would lose its digits where one class holds nearly all the mass.
    right = _sums_of_others(tp)
    # Differences of equal sums round to about -1e-8; a count below zero would leave the metric's range.
    return Counts(tp, fp, fn, right + (wrong.sum() - fn - fp).clamp_min(0))


def _sums_of_others(values: Tensor) -> Tensor:
    """Sum all other entries for each entry of ``(C,)``, without a subtraction."""
    nothing = values.new_zeros(1)
    before = torch.cat([nothing, values.cumsum(0)[:-1]])
    after = torch.cat([values.flip(0).cumsum(0)[:-1].flip(0), nothing])
    return before + after


def class_confusion(
    memberships: Memberships,
    targets: Targets,
    *,
    sample_weight: Tensor | None = None,
    prior: Any = None,
    ignore_index: int | None = -100,
    reduce: Reduce | None = None,
) -> Confusion:
    """Compute :func:`soft_confusion` of flat, checked input; ``reduce`` sums class totals over processes."""
    memberships = at_least_float32(memberships)
    labels, weights = _labels_and_weights(
        memberships, targets, sample_weight, prior, ignore_index, reduce
    )
    size = memberships.shape[1]
    blank = memberships.new_zeros(size, size)
    return blank.index_add(0, labels, memberships * weights.unsqueeze(1))


def class_counts(
    memberships: Memberships,
    targets: Targets,
    *,
    sample_weight: Tensor | None = None,
    prior: Any = None,
    ignore_index: int | None = -100,
    reduce: Reduce | None = None,
) -> Counts:
    """Compute :func:`soft_counts` of flat, checked input; ``reduce`` sums class totals over processes."""
    memberships = at_least_float32(memberships)
    labels, weights = _labels_and_weights(
        memberships, targets, sample_weight, prior, ignore_index, reduce
    )
    true, mass = labels.unsqueeze(1), weights.unsqueeze(1)
    blank = memberships.new_zeros(memberships.shape[1])
    # Each count is summed on its own: as a difference of two large sums, a small count would lose its digits.
    found, missed = memberships * mass, complements(memberships) * mass
    return Counts(
        tp=blank.index_add(0, labels, found.gather(1, true).squeeze(1)),
        fp=found.scatter(1, true, 0.0).sum(0),
        fn=blank.index_add(0, labels, missed.gather(1, true).squeeze(1)),
        tn=missed.scatter(1, true, 0.0).sum(0),
    )


def complements(memberships: Memberships) -> Tensor:
    """Compute one minus the memberships ``(N, C)`` without cancellation.

    Examples
    --------
    >>> import torch
    >>> complements(torch.tensor([[1.0, 1e-12]]))
    tensor([[1.0000e-12, 1.0000e+00]])
    """
    largest = memberships.argmax(1, keepdim=True)
    others = memberships.scatter(1, largest, 0.0).sum(1, keepdim=True)
    return (1 - memberships).scatter(1, largest, others)


def label_counts(
    memberships: Memberships,
    targets: Targets,
    *,
    missed: Tensor | None = None,
    sample_weight: Tensor | None = None,
    prior: Any = None,
    ignore_index: int | None = -100,
    reduce: Reduce | None = None,
) -> Counts:
    """Compute :func:`multilabel_counts` of checked input; ``missed`` is one minus the memberships, if known exactly."""
    memberships = at_least_float32(memberships)
    weights = torch.ones_like(memberships)
    if sample_weight is not None:
        given = sample_weight.to(memberships)
        weights = weights * (given if given.dim() == memberships.dim() else given.unsqueeze(-1))
    if ignore_index is not None:
        weights = weights.masked_fill(targets == ignore_index, 0.0)
    positive = (targets == 1).to(memberships.dtype)
    if prior is not None:
        weights = weights_of_rates(positive, weights, prior, reduce)
    on, off = weights * positive, weights * (1 - positive)
    hit, miss = memberships, 1 - memberships if missed is None else missed
    return Counts(
        tp=(on * hit).sum(0),
        fp=(off * hit).sum(0),
        fn=(on * miss).sum(0),
        tn=(off * miss).sum(0),
        exclusive=False,
    )


def _labels_and_weights(
    memberships: Tensor,
    targets: Tensor,
    sample_weight: Tensor | None,
    prior: Any,
    ignore_index: int | None,
    reduce: Reduce | None,
) -> tuple[Tensor, Tensor]:
    """Return labels that are safe as indices, and weights that include ignored samples and the prior."""
    weights = torch.ones_like(targets) if sample_weight is None else sample_weight
    labels, weights = masked_labels(targets, weights.to(memberships), ignore_index)
    if prior is not None:
        weights = weights_of_prior(labels, weights, prior, memberships.shape[1], reduce)
    return labels, weights


def _flat(
    caller: str, memberships: Tensor, targets: Tensor, sample_weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    _checks.floating(caller, "memberships", memberships)
    _checks.real_numbers(caller, "memberships", memberships)
    _checks.tensor(caller, "targets", targets)
    _checks.same_device(caller, "targets", targets, "memberships", memberships)
    if sample_weight is not None:
        _checks.weights(caller, sample_weight)
    return flatten_samples(caller, memberships, targets, sample_weight, argument="memberships")


def _check_width(caller: str, memberships: Tensor, num_classes: int | None) -> None:
    if num_classes is None:
        return
    if _checks.whole_number(caller, "num_classes", num_classes, at_least=2) != memberships.shape[1]:
        got = f"{num_classes} for memberships of {memberships.shape[1]} columns"
        _checks.fail(caller, "num_classes", "the number of membership columns", got)
