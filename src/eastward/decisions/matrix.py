r"""A decision: one small matrix applied to probabilities.

.. math:: h(p) = \arg\max_j \sum_i p_i\,G_{ij}

Offsets, thresholds, costs and "do not decide" are special cases of the matrix, and so is the best rule for any metric
of the confusion matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks, metrics
from eastward.constraints import Constraint, KeptConstraint
from eastward.decisions._inputs import checked_classes, float_array, probability_table
from eastward.decisions.rules import ABSTAIN, describe_matrix
from eastward.decisions.shifting import Reference, prior_ratio
from eastward.decisions.solving import Objective, matrix_scores, scales_and_shifts, solved_again
from eastward.metrics import Metric

__all__ = ["Decision"]

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Decision:
    r"""A rule from probabilities to classes, :math:`\arg\max_j \sum_i p_i\,G_{ij}`.

    :func:`eastward.tune_decision` finds one for a metric. You can also pass a matrix of your own, without any data:
    minus a table of costs gives the cheapest decision.

    Parameters
    ----------
    matrix : array-like
        ``(C, K)``: rows are true classes, columns decisions. K is C, or C + 1 if the last column stands for not
        deciding.
    classes : sequence, optional
        Labels in the order of the rows, for :func:`print`; plain JSON values.
    prior : array-like, optional
        ``(C,)``: class frequencies of the rows that the probabilities were learnt from, for :meth:`with_prior`.
    metric : Metric, optional
        The metric that the rule was tuned for.
    abstain_cost : float, optional
        The cost of not deciding, >= 0.
    constraints : sequence of KeptConstraint
        The constraints that the rule satisfies, with the evidence.
    reference : Reference, optional
        Held-out probabilities, from which :meth:`with_prior` tunes the rule again.
    note : str
        A further remark for readers.

    Examples
    --------
    >>> import numpy as np
    >>> decision = Decision([[0, -1], [-4, 0]], classes=["legal", "fraud"])
    >>> print(decision)
    fraud from a probability of 0.20 on; legal below.
    >>> decision.decide(np.array([[0.9, 0.1], [0.7, 0.3]]))
    array([0, 1])
    """

    matrix: Any
    classes: Any = None
    prior: Any = None
    metric: Metric | None = None
    abstain_cost: float | None = None
    constraints: tuple[KeptConstraint, ...] = ()
    reference: Reference | None = None
    note: str = ""

    def __post_init__(self) -> None:
        matrix = float_array("Decision", "matrix", self.matrix)
        if matrix.ndim != 2 or len(matrix) < 2 or matrix.shape[1] - len(matrix) not in (0, 1):
            expected = "of shape (C, C) or (C, C + 1) with C >= 2"
            _checks.fail("Decision", "matrix", expected, f"shape {matrix.shape}")
        if not np.isfinite(matrix).all():
            _checks.fail("Decision", "matrix", "finite", "NaN or infinite entries")
        matrix.flags.writeable = False
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "constraints", _as_constraints(self.constraints))
        _check_origin(self)
        if self.prior is not None:
            prior = _checks.prior("Decision", self.prior, len(matrix)).double().numpy().copy()
            object.__setattr__(self, "prior", prior)
        if self.classes is not None:
            object.__setattr__(
                self, "classes", checked_classes("Decision", self.classes, len(matrix))
            )

    def decide(self, probabilities: Any) -> Any:
        """Decide rows of probabilities for class indices.

        Parameters
        ----------
        probabilities : array or Tensor
            ``(N, C)``, rows sum to one.

        Returns
        -------
        ndarray or Tensor
            ``(N,)`` integers, array or Tensor like the input; -1 where nothing is decided. The first of several equal
            classes wins.
        """
        chosen = self._worth("Decision.decide", probabilities).argmax(1)
        chosen = torch.where(chosen == len(self.matrix), ABSTAIN, chosen)
        return chosen if isinstance(probabilities, Tensor) else chosen.numpy()

    def worth(self, probabilities: Any) -> Any:
        """Compute the value of each possible decision, ``probabilities @ matrix``; the rule takes the largest.

        Parameters
        ----------
        probabilities : array or Tensor
            ``(N, C)``, rows sum to one.

        Returns
        -------
        ndarray or Tensor
            ``(N, K)``, array or Tensor like the input; correct up to a constant for each row.
        """
        found = self._worth("Decision.worth", probabilities)
        return found if isinstance(probabilities, Tensor) else found.numpy()

    def _worth(self, caller: str, probabilities: Any) -> Tensor:
        table = probability_table(caller, probabilities, len(self.matrix))
        return matrix_scores(table, torch.tensor(self.matrix).to(table.device))

    @property
    def offsets_(self) -> NDArray[Any] | None:
        """Offsets ``(C,)`` of log-probabilities with the same decisions and mean zero; None if there are none."""
        size = len(self.matrix)
        if self.matrix.shape[1] > size:
            return None
        if size == 2:
            scales: Any = np.array(
                [self.matrix[0, 0] - self.matrix[0, 1], self.matrix[1, 1] - self.matrix[1, 0]]
            )
        else:
            parts = scales_and_shifts(torch.tensor(self.matrix))
            if parts is None or float(parts[1].abs().max()) > 1e-9 * float(parts[0].abs().max()):
                return None
            scales = parts[0].numpy()
        if (scales <= 0).any():
            return None
        logs = np.log(scales)
        offsets: NDArray[Any] = logs - logs.mean()
        return offsets

    def scales_and_shifts(self) -> tuple[NDArray[Any], NDArray[Any] | None] | None:
        r"""Write the rule with offsets b and shifts s, :math:`\arg\max_j e^{b_j} p_j + s_j`.

        Returns
        -------
        tuple of ndarray, or None
            ``(C,)`` each, b with mean zero; s is None without shifts. None if the rule cannot be written this way.
        """
        offsets = self.offsets_
        if offsets is not None:
            return offsets, None
        size = len(self.matrix)
        parts = scales_and_shifts(torch.tensor(self.matrix)) if size > 2 else None
        if parts is None or bool((parts[0] <= 0).any()):
            return None
        logs = parts[0].log()
        scale = float(logs.mean().exp())
        return (logs - logs.mean()).numpy(), (parts[1] / scale).numpy()

    def with_prior(self, prior: Any) -> Decision:
        r"""Adapt the decision to other class frequencies.

        Probabilities become :math:`p_i \pi'_i / \pi_i`, and the matrix is tuned again on the stored held-out
        probabilities. No labels are needed. A decision without held-out probabilities is applied unchanged to the new
        probabilities, which is right for accuracy and costs.

        Parameters
        ----------
        prior : array-like
            ``(C,)``: the new frequencies; they sum to one.

        Returns
        -------
        Decision
            The adapted decision, which takes the model's unchanged probabilities. Constraints hold in expectation.
        """
        caller, size = "Decision.with_prior", len(self.matrix)
        if self.prior is None:
            advice = "Give the frequencies of training: Decision(matrix, prior=...)."
            _checks.fail(
                caller, "the decision", "one that knows its own prior", "one without", advice
            )
        ratio = prior_ratio(caller, self.prior, prior, size)
        if torch.allclose(ratio, torch.ones_like(ratio), atol=1e-6):
            return self
        note = "for class frequencies " + ", ".join(f"{one:.3g}" for one in _numbers(prior)[:10])
        if self.reference is None or self.metric is None:
            matrix = ratio.unsqueeze(1) * torch.tensor(self.matrix)
            return replace(self, matrix=matrix.numpy(), constraints=(), note=note)
        rule = solved_again(self.reference, ratio, self._objective(caller), self.matrix.shape[1])
        kept = tuple(one.constraint.expected(rule.table) for one in self.constraints)
        factors = (ratio * self.reference.correction).unsqueeze(1)
        return replace(self, matrix=(factors * rule.matrix).numpy(), constraints=kept, note=note)

    def _objective(self, caller: str) -> Objective:
        metric = self.metric
        if metric is None or metric.function is _lost:
            expected = "one tuned for a registered metric, if it was saved and loaded"
            advice = "Functions are not saved: tune it again, or call with_prior before saving."
            _checks.fail(caller, "the decision", expected, getattr(metric, "name", None), advice)
        constraints = tuple(kept.constraint for kept in self.constraints)
        return Objective(metric, self.abstain_cost, constraints)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        return {
            "format": FORMAT,
            "matrix": self.matrix.tolist(),
            "classes": None if self.classes is None else list(self.classes),
            "prior": None if self.prior is None else self.prior.tolist(),
            "metric": _metric_to_dict(self.metric),
            "abstain_cost": self.abstain_cost,
            "constraints": [asdict(kept) for kept in self.constraints],
            "reference": None if self.reference is None else self.reference.to_dict(),
            "note": self.note,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Decision:
        """Restore a decision from the values that :meth:`to_dict` returned.

        Parameters
        ----------
        data : mapping
            The values. Nothing in them is executed.

        Returns
        -------
        Decision
            Decides exactly like the original.
        """
        if not _is_document(data):
            _no_document(_checks.describe(data))
        try:
            return cls._from_document(data)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            return _no_document(f"a document with an unfit entry ({error})")

    @classmethod
    def _from_document(cls, data: Mapping[str, Any]) -> Decision:
        reference = data["reference"]
        return cls(
            data["matrix"],
            classes=data["classes"],
            prior=data["prior"],
            metric=_metric_from_dict(data["metric"]),
            abstain_cost=data["abstain_cost"],
            constraints=tuple(
                KeptConstraint(**{**kept, "constraint": Constraint(**kept["constraint"])})
                for kept in data["constraints"]
            ),
            reference=None if reference is None else Reference.from_dict(reference),
            note=data["note"],
        )

    def __str__(self) -> str:
        size = len(self.matrix)
        names = [f"class {index}" for index in range(size)]
        if self.classes is not None:
            names = [str(label) for label in self.classes]
        counted = None if self.metric is None else self.metric.options.get("average")
        positive = counted if size == 2 and isinstance(counted, int) else 1
        lines = [describe_matrix(self.matrix, names, positive) + "."]
        lines += [f"{kept}." for kept in self.constraints]
        if self.note:
            lines.append(f"({self.note})")
        return "\n".join(lines)


def _as_constraints(value: Any) -> tuple[KeptConstraint, ...]:
    expected = "a sequence of KeptConstraint"
    if not isinstance(value, Sequence) or isinstance(value, str):
        _checks.fail("Decision", "constraints", expected, _checks.describe(value), error=TypeError)
    for one in value:
        if not isinstance(one, KeptConstraint):
            got, advice = (
                f"{_checks.describe(one)} in it",
                "Name them in tune_decision(subject_to=).",
            )
            _checks.fail("Decision", "constraints", expected, got, advice, error=TypeError)
    return tuple(value)


def _check_origin(decision: Decision) -> None:
    """Check the attributes that say how a decision was tuned."""
    given: tuple[Any, Any, Any] = decision.metric, decision.reference, decision.note
    metric, reference, note = given
    if metric is not None and not isinstance(metric, Metric):
        expected, got = "a Metric, such as metrics.get('f1'), or None", _checks.describe(metric)
        _checks.fail("Decision", "metric", expected, got, error=TypeError)
    if decision.abstain_cost is not None:
        _checks.not_negative("Decision", "abstain_cost", decision.abstain_cost)
    if reference is not None and not isinstance(reference, Reference):
        got = _checks.describe(reference)
        _checks.fail("Decision", "reference", "a Reference or None", got, error=TypeError)
    if not isinstance(note, str):
        _checks.fail("Decision", "note", "a string", _checks.describe(note), error=TypeError)


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in torch.as_tensor(values, dtype=torch.float64)]


def _lost(*_: Any) -> Any:
    """Report that a metric function was not saved with its decision."""
    _checks.fail("Decision", "metric", "a registered one to be saved", "a function of your own")


def _metric_to_dict(metric: Metric | None) -> dict[str, Any] | None:
    if metric is None:
        return None
    options = {key: _plain(value) for key, value in metric.options.items()}
    return {"name": metric.name, "options": options, "registered": _is_registered(metric)}


def _is_registered(metric: Metric) -> bool:
    try:
        known = metrics.get(metric.name, **metric.options)
    except (TypeError, ValueError):
        return False
    return known.function is metric.function


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | Tensor) else value


def _metric_from_dict(data: Mapping[str, Any] | None) -> Metric | None:
    if data is None:
        return None
    if not data["registered"]:
        return Metric(data["name"], _lost)
    return metrics.get(data["name"], **data["options"])


def _is_document(data: object) -> bool:
    return isinstance(data, Mapping) and repr(data.get("format")) == repr(FORMAT)


def _no_document(got: str) -> NoReturn:
    expected = f"what to_dict returned, with format {FORMAT}"
    advice = "Update eastward, or tune it again."
    _checks.fail("Decision.from_dict", "data", expected, " ".join(got.split()), advice)
