r"""Adapt probabilities to class frequencies that differ from training.

If only the frequencies change, :math:`p'_i \propto p_i\,\pi'_i / \pi_i`. The new frequencies are known, or estimated
from unlabelled rows by expectation–maximisation.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks
from eastward.decisions._inputs import checked_classes, probability_table

__all__ = ["adjusted_probabilities", "estimate_prior", "named_frequencies"]

MAX_ROUNDS, CONVERGED = 2000, 1e-9
CORRECTION_ROUNDS = 100

# Above this value of two standard errors, the rows cannot determine a frequency.
CANNOT_TELL = 0.1
# A change by this factor suggests that more than the frequencies has changed.
FAR_AWAY = 10.0

# How many numbers of the held-out rows a decision stores, to be tuned again for other frequencies.
MAX_NUMBERS = 20_000


def adjusted_probabilities(probabilities: Any, prior: Any, new_prior: Any) -> Tensor:
    r"""Adjust probabilities to other class frequencies, :math:`p'_i \propto p_i\,\pi'_i / \pi_i`.

    Parameters
    ----------
    probabilities : Tensor or array
        ``(N, C)``, rows sum to one.
    prior : array-like
        ``(C,)``: the frequencies that the probabilities were learnt with.
    new_prior : array-like
        ``(C,)``: the new frequencies.

    Returns
    -------
    Tensor
        ``(N, C)`` in float64.

    Examples
    --------
    >>> import torch
    >>> adjusted_probabilities(torch.tensor([[0.5, 0.5]]), [0.5, 0.5], [0.9, 0.1])
    tensor([[0.9000, 0.1000]], dtype=torch.float64)
    """
    table = probability_table("adjusted_probabilities", probabilities)
    ratio = prior_ratio("adjusted_probabilities", prior, new_prior, table.shape[1])
    shifted = table * ratio
    return shifted / shifted.sum(1, keepdim=True)


def prior_ratio(caller: str, prior: Any, new_prior: Any, size: int) -> Tensor:
    """Divide new frequencies by old ones, ``(C,)``."""
    old, new = (_checks.prior(caller, value, size).double() for value in (prior, new_prior))
    if bool(((old <= 0) & (new > 0)).any()):
        advice = "The model gives no probability to a class that training did not contain."
        _checks.fail(caller, "prior", "positive where the new one is", old.tolist()[:10], advice)
    return new / old.clamp_min(1e-300)


def frequency_correction(probabilities: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    """Find factors ``(C,)`` that bring mean probabilities to the frequencies of the labels, if needed.

    A model trained with balanced classes predicts the wrong frequencies. The factors maximise the likelihood. They
    stay at one for classes without labels, and unless they raise the log-likelihood enough for their number.
    """
    size = probabilities.shape[1]
    mass = weight.new_zeros(size).index_add(0, targets, weight)
    frequencies, known = mass / mass.sum(), mass > 0
    shares = (weight / weight.sum()).unsqueeze(1)
    factors = torch.ones_like(mass)
    for _ in range(CORRECTION_ROUNDS):
        joint = probabilities * factors
        expected = (shares * joint / joint.sum(1, keepdim=True).clamp_min(1e-300)).sum(0)
        step = torch.where(known, frequencies / expected.clamp_min(1e-12), 1.0)
        factors = factors * step
        if float((step - 1).abs().max()) < 1e-4:
            break
    own = torch.arange(len(targets))
    joint = (probabilities * factors).clamp_min(1e-12)
    ratio = joint[own, targets] / joint.sum(1) / probabilities[own, targets].clamp_min(1e-12)
    # Weights say how much rows matter, but the evidence depends on how many there are.
    gain = float((shares.squeeze(1) * ratio.clamp_min(1e-300).log()).sum() * len(targets))
    return factors if gain > 2 * (size - 1) else torch.ones_like(factors)


def named_frequencies(prior: Any, labels: list[Any], probabilities: Any, known: Any) -> Any:
    """Return class frequencies in the order of ``labels``: given in order, by label, or estimated.

    Parameters
    ----------
    prior : array-like, mapping or "auto"
        The frequencies; "auto" estimates them with :func:`estimate_prior`.
    labels : list
        All classes.
    probabilities, known : array-like
        Probabilities ``(N, C)`` of the rows to estimate from, and the class frequencies ``(C,)`` in training.

    Returns
    -------
    array-like
        ``(C,)``.

    Examples
    --------
    >>> named_frequencies({"yes": 0.1, "no": 0.9}, ["no", "yes"], None, None)
    [0.9, 0.1]
    """
    if isinstance(prior, str):
        _checks.one_of("predict", "prior", prior, ("auto",), otherwise="or frequencies")
        return estimate_prior(probabilities, known, labels)
    if not isinstance(prior, Mapping):
        return _checks.prior("predict", prior, len(labels))
    if set(prior) != set(labels):
        _checks.fail("predict", "prior", f"given for the classes {labels}", list(prior))
    return [prior[label] for label in labels]


def estimate_prior(
    probabilities: Any, prior: Any, classes: Sequence[Any] | None = None
) -> NDArray[Any]:
    r"""Estimate the class frequencies of unlabelled rows by expectation–maximisation.

    .. math:: \pi' \leftarrow \operatorname{mean}_n p'_n, \qquad p'_{ni} \propto p_{ni}\,\pi'_i / \pi_i

    Parameters
    ----------
    probabilities : Tensor or array
        ``(N, C)``: calibrated probabilities of the rows.
    prior : array-like
        ``(C,)``: the frequencies that the model was trained with.
    classes : sequence, optional
        Labels in the order of the columns, for warnings.

    Returns
    -------
    ndarray
        ``(C,)``, sums to one: the frequencies under which the rows are most likely.

    Warns
    -----
    UserWarning
        If the rows cannot determine a frequency (two standard errors exceed 0.1), or if a frequency has changed by
        more than a factor of ten.

    References
    ----------
    Saerens, Latinne and Decaestecker (2002), "Adjusting the outputs of a classifier to new a priori probabilities".

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.99, 0.01]] * 900 + [[0.01, 0.99]] * 100)
    >>> estimate_prior(p, [0.5, 0.5]).round(2).tolist()
    [0.9, 0.1]
    """
    caller = "estimate_prior"
    table = probability_table(caller, probabilities)
    old = _checks.prior(caller, prior, table.shape[1]).double()
    names = None if classes is None else checked_classes(caller, classes, table.shape[1])
    likelihood = table / old.clamp_min(1e-12)
    found = old.clone()
    for _ in range(MAX_ROUNDS):
        before = found
        joint = likelihood * before
        found = (joint / joint.sum(1, keepdim=True).clamp_min(1e-300)).mean(0)
        if float((found - before).abs().max()) < CONVERGED:
            break
    _warn_of_doubt(likelihood, found, old, names)
    result: NDArray[Any] = (found / found.sum()).numpy()
    return result


def _warn_of_doubt(
    likelihood: Tensor, found: Tensor, old: Tensor, classes: Sequence[Any] | None
) -> None:
    error = 2 * _standard_errors(likelihood, found)
    names = [f"class {code}" for code in range(len(found))] if classes is None else classes
    worst = int(error.argmax())
    if float(error[worst]) > CANNOT_TELL:
        warnings.warn(
            f"{len(likelihood)} rows cannot tell how frequent the classes are: {float(found[worst]):.2f} ± "
            f"{min(1.0, float(error[worst])):.2f} for {names[worst]}. Use more rows, or frequencies that you know.",
            stacklevel=3,
        )
        return
    ratio = torch.where(old > 0, found / old.clamp_min(1e-300), 1.0).clamp(1e-300)
    change = torch.maximum(ratio, 1 / ratio) * (torch.maximum(found, old) > error)
    worst = int(change.argmax())
    if float(change[worst]) > FAR_AWAY:
        warnings.warn(
            f"{names[worst]} has a frequency of {float(found[worst]):.3g}, far from "
            f"{float(old[worst]):.3g} in training: check that nothing but the frequencies has changed.",
            stacklevel=3,
        )


def _standard_errors(likelihood: Tensor, prior: Tensor) -> Tensor:
    """Compute standard errors of maximum-likelihood frequencies from the observed information."""
    density = (likelihood @ prior).clamp_min(1e-300)
    scores = likelihood / density.unsqueeze(1)
    free = torch.linalg.svd(torch.ones_like(prior).unsqueeze(0))[2][
        1:
    ].T  # directions that keep the sum
    information = free.T @ (scores.T @ scores) @ free
    # If the rows say nothing about a direction, a tiny ridge makes its error huge.
    ridge = 1e-9 * torch.eye(len(information), dtype=information.dtype)
    covariance = free @ torch.linalg.inv(information + ridge) @ free.T
    errors: Tensor = covariance.diagonal().clamp_min(0).sqrt()
    return errors


class Reference(NamedTuple):
    """Held-out probabilities ``(M, C)`` with weights ``(M,)``, stored to tune a decision again.

    ``correction`` holds the factors ``(C,)`` by which they differ from the model's own.
    """

    probabilities: Tensor
    weight: Tensor
    correction: Tensor

    @classmethod
    def of(
        cls,
        probabilities: Tensor,
        weight: Tensor,
        correction: Tensor,
        *,
        prior: Tensor,
        seed: int,
    ) -> Reference:
        """Store all rows, or a sample in which rows of rare classes are more likely."""
        size, classes = probabilities.shape
        count = max(classes, MAX_NUMBERS // classes)
        if size <= count:
            return cls(probabilities, weight / weight.sum(), correction)
        chance = weight * (probabilities / prior.clamp_min(1e-9)).mean(1)
        chance = chance / chance.sum()
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.multinomial(chance, count, replacement=True, generator=generator)
        stands_for = weight[drawn] / chance[drawn]
        return cls(probabilities[drawn], stands_for / stands_for.sum(), correction)

    def under(self, ratio: Tensor) -> tuple[Tensor, Tensor]:
        """Return probabilities and beliefs of mass one, for frequencies changed by a ratio per class."""
        joint = self.probabilities * ratio
        total = joint.sum(1, keepdim=True).clamp_min(1e-300)
        truth = joint * self.weight.unsqueeze(1)
        return joint / total, truth / truth.sum()

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain lists with six digits."""
        rows = np.round(self.probabilities.numpy(), 6).tolist()
        return {
            "probabilities": rows,
            "weight": self.weight.tolist(),
            "correction": self.correction.tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Reference:
        """Read what :meth:`to_dict` wrote."""
        names = ("probabilities", "weight", "correction")
        return cls(*(torch.tensor(data[name], dtype=torch.float64) for name in names))
