r"""Memberships and targets to a confusion matrix, or to its one-vs-rest counts.

:math:`C[i, :] = \sum_{n:\,y_n = i} w_n\, g(p_n)`: rows are true classes, columns predicted ones. Every entry is a
sum over samples, so matrices of disjoint batches add up to the matrix of their union; batches, accumulation
and processes all rest on that.

Metrics that need only the diagonal and the margins use :class:`Counts`, which never builds the d x d matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import at_least_float32, safe_divide
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
        """The four rows as one ``(4, C)`` tensor, which adds up over batches."""
        return torch.stack([self.tp, self.fp, self.fn, self.tn])

    @classmethod
    def unstack(cls, table: Tensor, *, exclusive: bool = True) -> Counts:
        """The inverse of :meth:`stack`."""
        tp, fp, fn, tn = table.unbind(0)
        return cls(tp, fp, fn, tn, exclusive)

    def map(self, function: Callable[[Tensor], Tensor]) -> Counts:
        """The same table with ``function`` applied to each of the four rows."""
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
    r"""Confusion matrix of soft (or one-hot) memberships.

    Parameters
    ----------
    memberships : Tensor
        ``(N, C)``, as :func:`~eastward.soft_memberships` returns them; or ``(N, C, ...)`` with spatial dimensions.
    targets : Tensor
        ``(N,)`` (or ``(N, ...)``) integer class indices.
    num_classes : int, optional
        Must equal C; given only to have it checked.
    sample_weight : Tensor, optional
        ``(N,)`` or of the shape of ``targets``; finite, non-negative. Weight 2 equals repetition.
    prior : sequence of C numbers, optional
        True class distribution. Rows become conditional means times ``prior``, so stratified batches estimate the
        matrix of that distribution.
    ignore_index : int or None, default=-100
        Samples with this label do not exist.

    Returns
    -------
    Tensor
        ``(C, C)``, rows true and columns predicted, in float32 at least. Entries sum to the total weight.

    Notes
    -----
    With ``prior`` the row of a class without samples stays zero.

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
    """One-vs-rest counts of soft memberships, in memory N·C: the C x C matrix is never built.

    Parameters are those of :func:`soft_confusion`.

    Returns
    -------
    Counts
        The same as ``counts_from_confusion(soft_confusion(...))``.

    Examples
    --------
    >>> import torch
    >>> soft_counts(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 1])).tp
    tensor([0.9000, 0.8000])
    """
    caller = "soft_counts"
    memberships, targets, sample_weight = _flat(caller, memberships, targets, sample_weight)
    _check_width(caller, memberships, num_classes)
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
    """Counts of independent binary columns.

    Parameters
    ----------
    memberships, targets : Tensor
        ``(N, L)``: the degree to which each label is predicted, and zeros and ones.
    sample_weight : Tensor, optional
        ``(N,)`` or ``(N, L)``.
    prior : sequence of L numbers, optional
        True rate of positives of each label.
    ignore_index : int or None, default=-100
        Entries of the targets with this value do not exist.
    reduce : callable, optional
        Sum over processes, needed only with ``prior``.

    Returns
    -------
    Counts
        With ``exclusive=False``.

    Examples
    --------
    >>> import torch
    >>> multilabel_counts(torch.tensor([[0.9, 0.1]]), torch.tensor([[1, 0]])).fp
    tensor([0.0000, 0.1000])
    """
    _checks.indicator_targets("multilabel_counts", targets, ignore_index)
    if sample_weight is not None:
        _checks.weights("multilabel_counts", sample_weight)
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
    """Confusion matrix of predicted labels, in float64: the matrix that evaluation uses.

    Parameters
    ----------
    predicted, targets : Tensor
        Integer labels of the same shape.
    num_classes : int
        C.
    sample_weight : Tensor, optional
        Of the same shape.
    ignore_index : int or None, default=-100
        Targets with this value do not exist.

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
    """One-vs-rest counts of a confusion matrix ``(C, C)``.

    Examples
    --------
    >>> import torch
    >>> counts_from_confusion(torch.tensor([[3.0, 1.0], [2.0, 4.0]])).tn
    tensor([4., 3.])
    """
    true, predicted, tp = confusion.sum(1), confusion.sum(0), confusion.diagonal()
    return _counts(tp, true, predicted, confusion.sum())


def class_confusion(
    memberships: Memberships,
    targets: Targets,
    *,
    sample_weight: Tensor | None = None,
    prior: Any = None,
    ignore_index: int | None = -100,
    reduce: Reduce | None = None,
) -> Confusion:
    """:func:`soft_confusion` of flat, checked input; ``reduce`` sums class totals over processes."""
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
    """:func:`soft_counts` of flat, checked input; ``reduce`` sums class totals over processes."""
    memberships = at_least_float32(memberships)
    labels, weights = _labels_and_weights(
        memberships, targets, sample_weight, prior, ignore_index, reduce
    )
    hits = memberships.gather(1, labels.unsqueeze(1)).squeeze(1) * weights
    blank = memberships.new_zeros(memberships.shape[1])
    tp, true = blank.index_add(0, labels, hits), blank.index_add(0, labels, weights)
    predicted = (memberships * weights.unsqueeze(1)).sum(0)
    return _counts(tp, true, predicted, weights.sum())


def label_counts(
    memberships: Memberships,
    targets: Targets,
    *,
    sample_weight: Tensor | None = None,
    prior: Any = None,
    ignore_index: int | None = -100,
    reduce: Reduce | None = None,
) -> Counts:
    """:func:`multilabel_counts` of checked input."""
    memberships = at_least_float32(memberships)
    weights = torch.ones_like(memberships)
    if sample_weight is not None:
        given = sample_weight.to(memberships)
        weights = weights * (given if given.dim() == memberships.dim() else given.unsqueeze(-1))
    if ignore_index is not None:
        weights = weights.masked_fill(targets == ignore_index, 0.0)
    positive = (targets == 1).to(memberships.dtype)
    if prior is not None:
        rate = _checks.prior(
            "multilabel_counts", prior, memberships.shape[1], sums_to_one=False
        ).to(memberships)
        mass = torch.stack([(weights * (1 - positive)).sum(0), (weights * positive).sum(0)])
        mass = reduce(mass) if reduce is not None else mass
        scale = safe_divide(torch.stack([1 - rate, rate]), mass)
        weights = weights * torch.where(positive.bool(), scale[1], scale[0])
    on, off = weights * positive, weights * (1 - positive)
    hit, miss = memberships, 1 - memberships
    return Counts(
        tp=(on * hit).sum(0),
        fp=(off * hit).sum(0),
        fn=(on * miss).sum(0),
        tn=(off * miss).sum(0),
        exclusive=False,
    )


def _counts(tp: Tensor, true: Tensor, predicted: Tensor, total: Tensor) -> Counts:
    # Differences of equal sums round to about -1e-8; a count below zero would leave the metric's range.
    fp, fn = (predicted - tp).clamp_min(0), (true - tp).clamp_min(0)
    return Counts(tp, fp, fn, ((total - true) - fp).clamp_min(0))


def _labels_and_weights(
    memberships: Tensor,
    targets: Tensor,
    sample_weight: Tensor | None,
    prior: Any,
    ignore_index: int | None,
    reduce: Reduce | None,
) -> tuple[Tensor, Tensor]:
    """Labels that are safe to index with, and weights in which ignoring and the prior are folded."""
    weights = torch.ones_like(targets) if sample_weight is None else sample_weight
    weights = weights.to(memberships)
    labels = targets.long()
    if ignore_index is not None:
        # Masked before anything indexes: 255 or -100 must never reach index_add or gather.
        ignored = labels == ignore_index
        labels, weights = labels.masked_fill(ignored, 0), weights.masked_fill(ignored, 0.0)
    if prior is not None:
        wanted = _checks.prior("soft_confusion", prior, memberships.shape[1]).to(memberships)
        present = torch.zeros_like(wanted).index_add(0, labels, weights)
        present = reduce(present) if reduce is not None else present
        weights = weights * safe_divide(wanted, present)[labels]
    return labels, weights


def _flat(
    caller: str, memberships: Tensor, targets: Tensor, sample_weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    _checks.floating(caller, "memberships", memberships)
    _checks.tensor(caller, "targets", targets)
    if sample_weight is not None:
        _checks.weights(caller, sample_weight)
    return flatten_samples(caller, memberships, targets, sample_weight, argument="memberships")


def _check_width(caller: str, memberships: Tensor, num_classes: int | None) -> None:
    if num_classes is not None and num_classes != memberships.shape[1]:
        got = f"{num_classes} for memberships of {memberships.shape[1]} columns"
        _checks.fail(caller, "num_classes", "the number of membership columns", got)
