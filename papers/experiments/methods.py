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
from papers.experiments.scores import THRESHOLDS

__all__ = ["METHODS", "Method", "Problem"]


@dataclass(frozen=True)
class Problem:
    """Facts about the training rows that a loss may need."""

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
    """A row of a table: a method.

    Attributes
    ----------
    label : str
        Name in the table.
    make : callable or None
        Problem to loss; None for classifiers other than networks.
    annealed : bool
        Whether the temperature falls.
    one_logit : bool
        Whether the network has one output (Bridging the Gap), or one for each class.
    tuned : bool
        Whether the threshold is chosen on validation rows.
    classical : {"forest", "ccs", "network", "ensemble"} or None
        A classifier that is trained by a call of its own; the last two are this library's estimators.
    small_batches : bool
        The adversarial loss: batches of 25.
    plan : mapping
        Changes to the training plan.
    point : mapping
        Settings that are not searched, for example a batch size.
    network_ending : str
        Added to the name of the panel's network.
    ours : bool
        A row that no paper has.
    """

    label: str
    make: Callable[[Problem], nn.Module] | None
    annealed: bool = False
    one_logit: bool = False
    tuned: bool = False
    classical: str | None = None
    small_batches: bool = False
    plan: Mapping[str, Any] = field(default_factory=dict)
    point: Mapping[str, Any] = field(default_factory=dict)
    network_ending: str = ""
    ours: bool = False


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
        return 1 - (2 * tp / (2 * tp + fp + fn).clamp_min(1e-12)).mean()


# The papers average over all classes, whether a batch has rows of them or not.
PAPERS_ABSENT = "zero"


def _east(metric: str | None, problem: Problem, **options: Any) -> nn.Module:
    given = {"absent": PAPERS_ABSENT, **options}
    return ew.EASTLoss(metric or problem.f1_name(), check_inputs=False, **given)


def _with_prior(problem: Problem) -> nn.Module:
    total = sum(problem.class_counts)
    return _east(None, problem, prior=[count / total for count in problem.class_counts])


def _preference(name: str, beta: float, problem: Problem) -> nn.Module:
    betas = [1.0] * len(problem.classes)
    betas[problem.code(name)] = beta
    metric = ew.metrics.get("f_beta", beta=betas, average="macro")
    return ew.EASTLoss(metric, check_inputs=False, absent=PAPERS_ABSENT)


def _one_beta(beta: float, problem: Problem) -> nn.Module:
    return _preference("dog", beta, problem)


def _btg(metric: str, _: Problem, *, step: Any = "linear", temperature: float = 0.2) -> nn.Module:
    chosen: Any = metric
    if metric.startswith("f_"):
        # By its name, because only a named metric has a closed form in a loss.
        chosen = ew.metrics.get("f_beta", beta=float(metric[2:]), average="binary")
    options: Any = {"threshold": THRESHOLDS, "step": step, "temperature": temperature}
    return ew.EASTLoss(chosen, check_inputs=False, **options)


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


# Half of the limit of epochs that tables have: long enough to cool, short enough to be asked often.
FIXED, PLATEAU, FALLING = (0.05, 0.1, 0.2), (0.8, 0.9), ("linear", "cosine")


def _schedules() -> dict[str, Method]:
    """F1 under other temperatures: fixed, cooled on plateaus, or falling with the epochs; kept by validation F1."""
    by_score = {"select": "score"}
    table = {
        f"fixed_{value:g}": Method(
            f"fixed T = {value:g}", partial(_east, None, temperature=value), plan=by_score
        )
        for value in FIXED
    }
    table |= {
        f"plateau_{rate:g}": Method(
            f"geometric on plateaus, r = {rate:g}",
            partial(_east, None),
            annealed=True,
            plan={**by_score, "rate": rate},
        )
        for rate in PLATEAU
    }
    table |= {
        f"falling_{name}": Method(
            f"{name}, 0.2 to 0.01",
            partial(_east, None),
            annealed=True,
            plan={**by_score, "schedule": name},
        )
        for name in FALLING
    }
    return table


LARGE_BATCH, EXACT_BATCHES = 8192, 16


def _remedies() -> dict[str, Method]:
    """What may help where a batch holds too few positives; all kept by validation F1."""
    plan = {"select": "score"}
    return {
        "f1_small_batch": Method("F1*, T = 0.2", partial(_east, None), plan=plan),
        "f1_large_batch": Method(
            f"F1*, batches of {LARGE_BATCH}",
            partial(_east, None),
            plan=plan,
            point={"batch_size": LARGE_BATCH},
        ),
        "f1_prior": Method(
            "F1*, balanced batches, `prior=`",
            _with_prior,
            plan={**plan, "stratified": True},
        ),
        "f1_running": Method("F1*, `running=0.9`", partial(_east, None, running=0.9), plan=plan),
        "f1_exact": Method(
            f"F1*, exact steps over {EXACT_BATCHES} batches",
            partial(_east, None),
            plan={**plan, "exact_batches": EXACT_BATCHES},
        ),
        "ce_by_score": Method("CE", _cross_entropy, plan=plan),
        "ce_by_score_tuned": Method("CE, threshold tuned", _cross_entropy, tuned=True, plan=plan),
        "ce_balanced_by_score": Method("balanced CE", _balanced, plan=plan),
    }


def _many_classes() -> dict[str, Method]:
    """F1 as a loss with hundreds of classes, and what may help.

    All have the same number of epochs, and validation macro-F1 chooses one of them.
    """
    plan = {"select": "score"}
    warm = {**plan, "warm_epochs": 10, "max_epochs": 10}
    return {
        "many_ce": Method("CE", _cross_entropy, plan=plan),
        "many_f1": Method("F1*, T = 0.2", partial(_east, None), plan=plan),
        "many_f1_warm": Method("10 epochs of CE, then F1*", partial(_east, None), plan=warm),
        "many_f1_skip": Method(
            "F1*, absent classes skipped", partial(_east, None, absent="skip"), plan=plan
        ),
        "many_f1_large": Method(
            "F1*, batches of 1024", partial(_east, None), plan=plan, point={"batch_size": 1024}
        ),
        "many_f1_running": Method(
            "F1*, `running=0.9`", partial(_east, None, running=0.9), plan=plan
        ),
        "many_f1_warm_running": Method(
            "10 epochs of CE, then F1*, `running=0.9`",
            partial(_east, None, running=0.9),
            plan=warm,
        ),
    }


# Rows of our own on pictures: three more epochs at a fifth of the learning rate, the best by validation F1 kept.
AFTER_CROSS_ENTROPY = {
    "warm_epochs": 8,
    "max_epochs": 3,
    "rate_after_warm": 0.2,
    "select": "score",
}
BETAS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def _preferences_after_cross_entropy() -> dict[str, Method]:
    """Preferences that start from a trained network; the last epoch counts, because macro-F1 would undo them."""
    plan = {**AFTER_CROSS_ENTROPY, "select": "last"}
    wanted = [("dog", beta) for beta in BETAS] + [("frog", beta) for beta in (0.25, 5.0)]
    return {
        f"after_{name}_{beta:g}": Method(
            f"CE, then F-beta*, {name} {beta:g}",
            partial(_preference, name, beta),
            plan=plan,
            ours=True,
        )
        for name, beta in wanted
    }


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
        "accuracy_warm": Method(
            "Acc* after 2 epochs of CE",
            partial(_east, "accuracy"),
            annealed=True,
            plan={"warm_epochs": 2},
            ours=True,
        ),
        "accuracy_norm": Method(
            "Acc*, batch norm",
            partial(_east, "accuracy"),
            annealed=True,
            network_ending=" with batch norm",
            ours=True,
        ),
        "f1_warm": Method(
            "8 epochs of CE, then 3 of F1*",
            partial(_east, None),
            plan=AFTER_CROSS_ENTROPY,
            ours=True,
        ),
        "ce_longer": Method(
            "8 epochs of CE, then 3 more", _cross_entropy, plan=AFTER_CROSS_ENTROPY, ours=True
        ),
        "eastward_network": Method("`EASTClassifier`", None, classical="network", ours=True),
        "eastward_ensemble": Method(
            "`EASTEnsembleClassifier`", None, classical="ensemble", ours=True
        ),
    },
    {
        "f1_btg": Method("F1*", partial(_btg, "f1"), one_logit=True),
        "f1_btg_sigmoid": Method(
            "F1*, sigmoid", partial(_btg, "f1", step="sigmoid"), one_logit=True
        ),
        "f1_btg_delta_0.1": Method(
            "F1*, δ = 0.1",
            partial(_btg, "f1", step=ew.btg_step, temperature=0.1),
            one_logit=True,
            ours=True,
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
        f"prefer_dog_{beta:g}_fixed": Method(
            f"F-beta*, dog {beta:g}, T = 0.2", partial(_preference, "dog", beta)
        )
        for beta in (0.25, 5.0)
    },
    {
        f"beta_{beta:g}": Method(f"β = {beta:g}", partial(_one_beta, beta), annealed=True)
        for beta in BETAS
    },
    _preferences_after_cross_entropy(),
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
    _remedies(),
    _many_classes(),
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
