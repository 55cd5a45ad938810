r"""Metrics computed from tp, fp, fn, tn of each class and averaged over classes.

Common parameters
-----------------
confusion
    ``(C, C)`` matrix (rows true, columns predicted; tensor or array, soft or hard) or :class:`~eastward.Counts`.
average
    ``"binary"`` (class 1 of two), ``"macro"`` (plain mean over classes), ``"weighted"`` (by true mass),
    ``"micro"`` (formula of the summed counts), ``"none"`` (one value per class).
absent
    Which classes without true samples a macro average counts: ``"observed"`` those with mass in row or column
    (scikit-learn's rule), ``"skip"`` none, ``"zero"`` all at their value (0 when undefined), ``"one"`` all at 1.
    An undefined value, 0/0, is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from eastward import _checks
from eastward.confusion import Counts
from eastward.metrics._averaging import averaged, square_matrix
from eastward.metrics.quotients import (
    FOWLKES_MALLOWS,
    INFORMEDNESS,
    JACCARD,
    MARKEDNESS,
    PRECISION,
    RECALL,
    SPECIFICITY,
    f_beta_quotients,
)

__all__ = [
    "f1",
    "f_beta",
    "fowlkes_mallows",
    "informedness",
    "jaccard",
    "markedness",
    "precision",
    "recall",
    "specificity",
]


def precision(
    confusion: Tensor | Counts, average: str = "macro", *, absent: str = "observed"
) -> Tensor:
    r"""Share of the predictions that are right: :math:`tp / (tp + fp)`.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    average : {"binary", "macro", "micro", "weighted", "none"}, default="macro"
        "binary": class 1 of two; "macro": mean over classes; "weighted": mean weighted by true mass; "micro": formula
        of the summed counts; "none": one value for each class.
    absent : {"observed", "skip", "zero", "one"}, default="observed"
        How a macro average treats classes without true samples: "observed" counts those that were predicted
        (scikit-learn's rule), "skip" leaves them out, "zero" counts all at their value (0 if undefined), "one" counts
        all as 1.

    Returns
    -------
    Tensor
        0-d in [0, 1]; ``(C,)`` for ``average="none"``. Zero for a class that is never predicted.

    Examples
    --------
    >>> import torch
    >>> precision(torch.tensor([[3.0, 1.0], [2.0, 4.0]]), "binary")
    tensor(0.8000)
    """
    return averaged("precision", confusion, PRECISION, average, absent)


def recall(
    confusion: Tensor | Counts, average: str = "macro", *, absent: str = "observed"
) -> Tensor:
    r"""Share of the true samples that are found: :math:`tp / (tp + fn)`.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    average : {"binary", "macro", "micro", "weighted", "none"}, default="macro"
        "binary": class 1 of two; "macro": mean over classes; "weighted": mean weighted by true mass; "micro": formula
        of the summed counts; "none": one value for each class.
    absent : {"observed", "skip", "zero", "one"}, default="observed"
        How a macro average treats classes without true samples: "observed" counts those that were predicted
        (scikit-learn's rule), "skip" leaves them out, "zero" counts all at their value (0 if undefined), "one" counts
        all as 1.

    Returns
    -------
    Tensor
        0-d in [0, 1]; ``(C,)`` for ``average="none"``. Zero for a class without true samples.

    Examples
    --------
    >>> import torch
    >>> recall(torch.tensor([[3.0, 1.0], [2.0, 6.0]]), "none")
    tensor([0.7500, 0.7500])
    """
    return averaged("recall", confusion, RECALL, average, absent)


def specificity(
    confusion: Tensor | Counts, average: str = "macro", *, absent: str = "observed"
) -> Tensor:
    r"""Share of the samples of other classes that are not predicted as the class: :math:`tn / (tn + fp)`.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    average : {"binary", "macro", "micro", "weighted", "none"}, default="macro"
        "binary": class 1 of two; "macro": mean over classes; "weighted": mean weighted by true mass; "micro": formula
        of the summed counts; "none": one value for each class.
    absent : {"observed", "skip", "zero", "one"}, default="observed"
        How a macro average treats classes without true samples: "observed" counts those that were predicted
        (scikit-learn's rule), "skip" leaves them out, "zero" counts all at their value (0 if undefined), "one" counts
        all as 1.

    Returns
    -------
    Tensor
        0-d in [0, 1]; ``(C,)`` for ``average="none"``.

    Examples
    --------
    >>> import torch
    >>> specificity(torch.tensor([[3.0, 1.0], [2.0, 6.0]]), "binary")
    tensor(0.7500)
    """
    return averaged("specificity", confusion, SPECIFICITY, average, absent)


def f_beta(
    confusion: Tensor | Counts,
    beta: float | Sequence[float] | Mapping[int, float] | Tensor = 1.0,
    average: str = "macro",
    *,
    absent: str = "observed",
) -> Tensor:
    r"""The F-score: a weighted harmonic mean of precision and recall.

    .. math:: F_\beta = \frac{(1+\beta^2)\,tp}{(1+\beta^2)\,tp + \beta^2 fn + fp}

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    beta : float, sequence of float, or mapping from class to float, default=1.0
        How many times as much recall counts as precision: below 1 favours precision, above 1 recall. Pass one number
        for all classes, one per class, or ``{class: beta}`` with 1 for the others (the papers' preference for one
        class). Values per class cannot be micro-averaged.
    average : {"binary", "macro", "micro", "weighted", "none"}, default="macro"
        "binary": class 1 of two; "macro": mean over classes; "weighted": mean weighted by true mass; "micro": formula
        of the summed counts; "none": one value for each class.
    absent : {"observed", "skip", "zero", "one"}, default="observed"
        How a macro average treats classes without true samples: "observed" counts those that were predicted
        (scikit-learn's rule), "skip" leaves them out, "zero" counts all at their value (0 if undefined), "one" counts
        all as 1.

    Returns
    -------
    Tensor
        0-d in [0, 1]; ``(C,)`` for ``average="none"``.

    References
    ----------
    EAST v1, equation 6; EAST v2, section F.3 for per-class beta.

    Examples
    --------
    >>> import torch
    >>> confusion = torch.tensor([[8.0, 2.0], [1.0, 4.0]])
    >>> f_beta(confusion, beta={1: 5.0}, average="none")
    tensor([0.8421, 0.7939])
    """
    if not isinstance(confusion, Counts):
        confusion = square_matrix("f_beta", confusion)
    size = len(confusion.tp if isinstance(confusion, Counts) else confusion)
    quotients = f_beta_quotients(beta, size)
    if str(average) == "micro" and quotients.terms[0][0][0].dim():
        advice = "Pooled counts have no classes left; use 'macro'."
        _checks.fail("f_beta", "beta", "one number when average='micro'", f"{size} numbers", advice)
    return averaged("f_beta", confusion, quotients, average, absent)


def f1(confusion: Tensor | Counts, average: str = "macro", *, absent: str = "observed") -> Tensor:
    r"""F-score that weighs precision and recall equally: :math:`2 tp / (2 tp + fp + fn)`.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    average : {"binary", "macro", "micro", "weighted", "none"}, default="macro"
        "binary": class 1 of two; "macro": mean over classes; "weighted": mean weighted by true mass; "micro": formula
        of the summed counts; "none": one value for each class.
    absent : {"observed", "skip", "zero", "one"}, default="observed"
        How a macro average treats classes without true samples: "observed" counts those that were predicted
        (scikit-learn's rule), "skip" leaves them out, "zero" counts all at their value (0 if undefined), "one" counts
        all as 1.

    Returns
    -------
    Tensor
        0-d in [0, 1]; ``(C,)`` for ``average="none"``.

    Examples
    --------
    >>> import torch
    >>> f1(torch.tensor([[8.0, 2.0], [1.0, 4.0]]), "binary")
    tensor(0.7273)
    """
    return f_beta(confusion, 1.0, average, absent=absent)


def jaccard(
    confusion: Tensor | Counts, average: str = "macro", *, absent: str = "observed"
) -> Tensor:
    r"""Intersection over union: :math:`tp / (tp + fp + fn)`.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    average : {"binary", "macro", "micro", "weighted", "none"}, default="macro"
        "binary": class 1 of two; "macro": mean over classes (the mean IoU of segmentation); "weighted": mean weighted
        by true mass; "micro": formula of the summed counts; "none": one value for each class.
    absent : {"observed", "skip", "zero", "one"}, default="observed"
        How a macro average treats classes without true samples: "observed" counts those that were predicted
        (scikit-learn's rule), "skip" leaves them out, "zero" counts all at their value (0 if undefined), "one" counts
        all as 1.

    Returns
    -------
    Tensor
        0-d in [0, 1]; ``(C,)`` for ``average="none"``.

    Examples
    --------
    >>> import torch
    >>> jaccard(torch.tensor([[8.0, 2.0], [2.0, 4.0]]), "binary")
    tensor(0.5000)
    """
    return averaged("jaccard", confusion, JACCARD, average, absent)


def fowlkes_mallows(
    confusion: Tensor | Counts, average: str = "macro", *, absent: str = "observed"
) -> Tensor:
    r"""Geometric mean of precision and recall: :math:`tp / \sqrt{(tp + fp)(tp + fn)}`.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    average : {"binary", "macro", "micro", "weighted", "none"}, default="macro"
        "binary": class 1 of two; "macro": mean over classes; "weighted": mean weighted by true mass; "micro": formula
        of the summed counts; "none": one value for each class.
    absent : {"observed", "skip", "zero", "one"}, default="observed"
        How a macro average treats classes without true samples: "observed" counts those that were predicted
        (scikit-learn's rule), "skip" leaves them out, "zero" counts all at their value (0 if undefined), "one" counts
        all as 1.

    Returns
    -------
    Tensor
        0-d in [0, 1]; ``(C,)`` for ``average="none"``.

    Examples
    --------
    >>> import torch
    >>> fowlkes_mallows(torch.tensor([[8.0, 2.0], [2.0, 4.0]]), "binary")
    tensor(0.6667)
    """
    return averaged("fowlkes_mallows", confusion, FOWLKES_MALLOWS, average, absent)


def informedness(
    confusion: Tensor | Counts, average: str = "macro", *, absent: str = "observed"
) -> Tensor:
    r"""Youden's J, how much better than chance the classes are told apart: :math:`recall + specificity - 1`.

    With two classes both have the same value, so the macro average is the binary one.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    average : {"binary", "macro", "micro", "weighted", "none"}, default="macro"
        "binary": class 1 of two; "macro": mean over classes; "weighted": mean weighted by true mass; "micro": formula
        of the summed counts; "none": one value for each class.
    absent : {"observed", "skip", "zero", "one"}, default="observed"
        How a macro average treats classes without true samples: "observed" counts those that were predicted
        (scikit-learn's rule), "skip" leaves them out, "zero" counts all at their value (0 if undefined), "one" counts
        all as 1.

    Returns
    -------
    Tensor
        0-d in [-1, 1]; ``(C,)`` for ``average="none"``. 0 is chance.

    Examples
    --------
    >>> import torch
    >>> informedness(torch.tensor([[3.0, 1.0], [2.0, 6.0]]))
    tensor(0.5000)
    """
    return averaged("informedness", confusion, INFORMEDNESS, average, absent)


def markedness(
    confusion: Tensor | Counts, average: str = "macro", *, absent: str = "observed"
) -> Tensor:
    r"""How much more reliable than chance predictions are: :math:`precision + npv - 1`.

    The negative predictive value is :math:`npv = tn / (tn + fn)`. With two classes both have the same value, so
    the macro average is the binary one.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    average : {"binary", "macro", "micro", "weighted", "none"}, default="macro"
        "binary": class 1 of two; "macro": mean over classes; "weighted": mean weighted by true mass; "micro": formula
        of the summed counts; "none": one value for each class.
    absent : {"observed", "skip", "zero", "one"}, default="observed"
        How a macro average treats classes without true samples: "observed" counts those that were predicted
        (scikit-learn's rule), "skip" leaves them out, "zero" counts all at their value (0 if undefined), "one" counts
        all as 1.

    Returns
    -------
    Tensor
        0-d in [-1, 1]; ``(C,)`` for ``average="none"``. 0 is chance.

    Examples
    --------
    >>> import torch
    >>> markedness(torch.tensor([[3.0, 1.0], [1.0, 3.0]]))
    tensor(0.5000)
    """
    return averaged("markedness", confusion, MARKEDNESS, average, absent)
