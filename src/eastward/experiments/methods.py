"""The rows of the tables: what each method minimises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

import eastward as ew
from eastward import baselines
from eastward.experiments.scores import THRESHOLDS

__all__ = ["METHODS", "Method", "Problem"]


@dataclass(frozen=True)
class Problem:
    """What a loss may have to know about the training rows."""

    classes: tuple[str, ...]
    class_counts: Sequence[int]

    @property
    def positive_rate(self) -> float:
        """Share of class 1."""
        return self.class_counts[1] / sum(self.class_counts)

    def code(self, name: str) -> int:
        """Number of the class ``name``, which Caltech calls "056.name"."""
        return next(k for k, full in enumerate(self.classes) if full.rpartition(".")[2] == name)

    def f1_name(self) -> str:
        """F1 of the positive class of two, else the mean over classes."""
        return "f1" if len(self.classes) == 2 else "f1_macro"


@dataclass(frozen=True)
class Method:
    """A row.

    Attributes
    ----------
    label : str
        In the table.
    make : callable or None
        Problem to loss; None for classifiers that are no networks.
    annealed : bool
        Whether the temperature falls.
    one_logit : bool
        Whether the network has one output (Bridging the Gap), or one for each class.
    tuned : bool
        Whether the threshold is chosen on validation rows.
    classical : {"forest", "ccs"} or None
        A classifier that is no network.
    small_batches : bool
        The adversarial loss: batches of 25.
    plan : mapping
        Changes to the training plan.
    """

    label: str
    make: Callable[[Problem], nn.Module] | None
    annealed: bool = False
    one_logit: bool = False
    tuned: bool = False
    classical: str | None = None
    small_batches: bool = False
    plan: Mapping[str, Any] = field(default_factory=dict)


class _WithProbabilities(nn.Module):
    """A torch loss for class indices, with one logit or several."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        if logits.shape[1] == 1:
            return nn.functional.binary_cross_entropy_with_logits(
                logits[:, 0], targets.to(logits.dtype)
            )
        return nn.functional.cross_entropy(logits, targets)


class OneVersusRestLoss(nn.Module):
    """EAST without its confusion matrix: soft counts of each class against the rest, macro F1.

    Memberships are not divided by their sum, so that a row may belong to several classes or to none, as if each
    class had a binary classifier of its own.

    Parameters
    ----------
    dynamic : bool
        Threshold between the two largest probabilities of a row, or 1/2.
    """

    def __init__(self, *, dynamic: bool) -> None:
        super().__init__()
        self.dynamic, self.temperature = dynamic, 0.2

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Loss of one batch ``(N, C)``."""
        probabilities = logits.softmax(1)
        threshold: Tensor | float = 0.5
        if self.dynamic:
            threshold = probabilities.topk(2, dim=1).values.mean(1, keepdim=True)
        found = ew.heaviside(probabilities, threshold, self.temperature)
        true = nn.functional.one_hot(targets, logits.shape[1]).to(found)
        tp, fp, fn = (found * true).sum(0), (found * (1 - true)).sum(0), ((1 - found) * true).sum(0)
        present = true.sum(0) > 0
        return 1 - (2 * tp / (2 * tp + fp + fn).clamp_min(1e-12))[present].mean()


def _east(metric: str | None, problem: Problem, **options: Any) -> nn.Module:
    return ew.EASTLoss(metric or problem.f1_name(), check_inputs=False, **options)


def _preference(name: str, beta: float, problem: Problem) -> nn.Module:
    betas = [1.0] * len(problem.classes)
    betas[problem.code(name)] = beta
    metric = partial(ew.metrics.f_beta, beta=betas, average="macro")
    return ew.EASTLoss(metric, check_inputs=False)


def _one_beta(beta: float, problem: Problem) -> nn.Module:
    return _preference("dog", beta, problem)


def _btg(metric: str, problem: Problem, *, step: str = "linear", **options: Any) -> nn.Module:  # noqa: ARG001
    chosen: Any = metric
    if metric.startswith("f_"):
        chosen = partial(ew.metrics.f_beta, beta=float(metric[2:]), average="binary")
    return ew.EASTLoss(chosen, threshold=THRESHOLDS, step=step, check_inputs=False)


def _plain(loss: Callable[[], nn.Module], _: Problem) -> nn.Module:
    return loss()


def _balanced(problem: Problem) -> nn.Module:
    return baselines.BalancedCrossEntropyLoss(problem.class_counts, check_inputs=False)


def _mae(problem: Problem) -> nn.Module:
    weights = baselines.class_weights(problem.class_counts)
    return baselines.MAELoss(class_weight=weights, check_inputs=False)


def _surrogate(beta: float, problem: Problem) -> nn.Module:
    return baselines.SurrogateFBetaLoss(beta, problem.positive_rate, check_inputs=False)


def _soft(beta: float, _: Problem) -> nn.Module:
    return baselines.SoftFBetaLoss(beta, check_inputs=False)


def _cross_entropy(_: Problem) -> nn.Module:
    return _WithProbabilities()


def _adversarial() -> nn.Module:
    return baselines.AdversarialFBetaLoss(split=True, check_inputs=False)


def _wilcoxon() -> nn.Module:
    return baselines.WilcoxonMannWhitneyLoss(check_inputs=False)


def _dice(*, per_sample: bool) -> nn.Module:
    return baselines.DiceLoss(per_sample=per_sample, check_inputs=False)


def _ablation() -> dict[str, Method]:
    """EAST's three parts, all eight ways to have and lack them."""
    table = {}
    for dynamic in (False, True):
        for matrix in (False, True):
            for annealed in (False, True):
                parts = [
                    name
                    for name, there in (
                        ("threshold", dynamic),
                        ("matrix", matrix),
                        ("annealing", annealed),
                    )
                    if there
                ]
                make: Any = partial(_one_versus_rest, dynamic)
                if matrix:
                    make = partial(_east, None, threshold="top2" if dynamic else 0.5)
                label = " + ".join(parts) or "none of the three"
                table[f"parts_{'_'.join(parts) or 'none'}"] = Method(label, make, annealed=annealed)
    return table


def _one_versus_rest(dynamic: bool, _: Problem) -> nn.Module:
    return OneVersusRestLoss(dynamic=dynamic)


def _schedules() -> dict[str, Method]:
    """EAST's cooling, one setting changed at a time."""
    default = {"start": 0.2, "rate": 0.8, "cooling_patience": 5}
    table = {
        "schedule_default": Method("T0 = 0.2, r = 0.8, patience 5", partial(_east, None), True)
    }
    changes = (
        *(("start", value, "T0") for value in (0.05, 0.1, 0.4)),
        *(("rate", value, "r") for value in (0.5, 0.9, 0.95)),
        *(("cooling_patience", value, "patience") for value in (2, 10, 20)),
    )
    for key, value, short in changes:
        plan = {**default, key: value}
        table[f"schedule_{key}_{value}"] = Method(
            f"{short} = {value}", partial(_east, None), True, plan=plan
        )
    table["schedule_default"] = Method(
        table["schedule_default"].label, partial(_east, None), True, plan=default
    )
    return table


_GROUPS: tuple[dict[str, Method], ...] = (
    {
        "f1_east": Method("F1*", partial(_east, None), annealed=True),
        "accuracy_east": Method("Acc*", partial(_east, "accuracy"), annealed=True),
        "mcc_east": Method("MCC*", partial(_east, "matthews_corrcoef"), annealed=True),
        "f1_east_fixed": Method("F1*, T = 0.2", partial(_east, None)),
        "dice": Method("Dice", partial(_plain, partial(_dice, per_sample=True))),
        "dice_by_class": Method("Dice by class", partial(_plain, partial(_dice, per_sample=False))),
        "ce": Method("CE", _cross_entropy),
        "ce_tuned": Method("CE, threshold tuned", _cross_entropy, tuned=True),
        "ce_balanced": Method("balanced CE", _balanced),
        "forest": Method("RF", None, classical="forest"),
        "ccs": Method("CCS", None, classical="ccs"),
    },
    {
        "f1_btg": Method("F1*", partial(_btg, "f1"), one_logit=True),
        "f1_btg_sigmoid": Method(
            "F1*, sigmoid", partial(_btg, "f1", step="sigmoid"), one_logit=True
        ),
        "f2_btg": Method("F2*", partial(_btg, "f_2"), one_logit=True),
        "f3_btg": Method("F3*", partial(_btg, "f_3"), one_logit=True),
        "accuracy_btg": Method("Accuracy*", partial(_btg, "accuracy"), one_logit=True),
        "auroc_btg": Method(
            "AUROC*", partial(_plain, partial(ew.AUROCLoss, check_inputs=False)), one_logit=True
        ),
        "f1_adversarial": Method(
            "F1, adversarial", partial(_plain, _adversarial), one_logit=True, small_batches=True
        ),
        "auroc_wmw": Method("AUROC, WMW", partial(_plain, _wilcoxon), one_logit=True),
        "bce": Method("BCE", _cross_entropy, one_logit=True),
    },
    {
        f"prefer_{name}_{beta:g}": Method(
            f"F-beta*, {name} {beta:g}", partial(_preference, name, beta), annealed=True
        )
        for name in ("dog", "frog")
        for beta in (0.25, 5.0)
    },
    {
        f"beta_{beta:g}": Method(f"β = {beta:g}", partial(_one_beta, beta), annealed=True)
        for beta in (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
    },
    {
        f"surrogate_{beta:g}": Method(f"surrogate F{beta:g}", partial(_surrogate, beta))
        for beta in (0.5, 1.0, 2.0, 3.0)
    },
    {
        f"soft_{beta:g}": Method(f"macro soft F{beta:g}", partial(_soft, beta))
        for beta in (0.5, 1.0, 2.0, 3.0)
    },
    {"mae": Method("MAE", _mae)},
    _ablation(),
    _schedules(),
)
METHODS: Mapping[str, Method] = MappingProxyType(
    {name: method for group in _GROUPS for name, method in group.items()}
)


def tuned_threshold(probability: Tensor, targets: Tensor) -> float:
    """The threshold with the highest F1 on these rows.

    Examples
    --------
    >>> tuned_threshold(torch.tensor([0.1, 0.25, 0.6]), torch.tensor([0, 1, 1]))
    0.25
    """
    order = torch.argsort(probability, descending=True)
    sorted_targets = targets[order].double()
    found = sorted_targets.cumsum(0)
    predicted = torch.arange(1, len(order) + 1)
    scores = 2 * found / (predicted + sorted_targets.sum())
    return float(probability[order[int(scores.argmax())]])
