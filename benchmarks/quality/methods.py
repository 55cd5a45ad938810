"""What is compared: each method turns fitted components of a split into predictions of its test rows.

A network alone is judged by the mean over the first three of the five that were cross-fitted (each saw four fifths of
the rows and was stopped, and tuned, by the fifth): less noise for the same training. "tuned" means offsets per class,
found for the metric on held-out predictions and averaged over bootstraps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from lightgbm import LGBMClassifier
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

from benchmarks.quality.components import PARTS, Array, Component
from benchmarks.quality.data import Split
from eastward import metrics
from eastward.confusion import hard_confusion
from eastward.decisions import smoothed_offsets
from eastward.decisions.tuning import HeldOut, fit_decision
from eastward.estimators.ensemble import EASTEnsembleClassifier
from eastward.estimators.ensemble.votes import learnt_votes, log_mean
from eastward.metrics import Metric

NETWORKS_JUDGED = 3
DEFAULT = EASTEnsembleClassifier()
ALL_PARTS = tuple(PARTS.values())
DEFAULT_PARTS = tuple(PARTS[part] for part in DEFAULT.parts)
Components = Mapping[str, Component]
Predictions = list[Array]


@dataclass(frozen=True)
class Problem:
    """A split, and the metric that methods are tuned for and judged by."""

    split: Split
    metric: Metric
    kind: str

    def offsets(
        self, held_out: Array, rows: Array | None = None, *, label_share: float = 1.0
    ) -> Array:
        """Bagged offsets for rows with a held-out prediction."""
        known = np.isfinite(held_out).all(axis=1) if rows is None else rows
        codes, scores = self.split.train_codes[known], held_out[known]
        bags = 15 if label_share == 1 else 5
        found: Array = smoothed_offsets(
            scores, codes, self.metric, label_share=label_share, n_bags=bags
        ).numpy()
        return found

    def decided(self, held_out: Array, test: Array, *, label_share: float | None = None) -> Array:
        """Decisions for test rows as the ensemble makes them: calibrated, by a matrix, no class given up."""
        known = np.isfinite(held_out).all(axis=1)
        held = HeldOut(held_out[known], self.split.train_codes[known], None)
        classes = list(range(self.split.num_classes))
        options = replace(DEFAULT._options(classes, 0), metric=self.metric)  # noqa: SLF001
        if label_share is not None:
            options = replace(options, label_share=label_share)
        found = fit_decision("benchmark", held, classes, options)
        chosen: Array = found.decision.decide(
            found.calibration.apply(torch.from_numpy(test).softmax(1))
        ).numpy()
        return chosen

    def merit(self, predicted: Array, codes: Array) -> float:
        """The metric of predictions; higher is better."""
        table = hard_confusion(
            torch.from_numpy(predicted),
            torch.from_numpy(codes),
            num_classes=self.split.num_classes,
        )
        value = float(self.metric(table))
        return value if self.metric.higher_is_better else -value


@dataclass(frozen=True)
class Method:
    """A name, the components it needs, and how they become predictions."""

    name: str
    needs: tuple[str, ...]
    predict: Callable[[Components, Problem], Predictions]
    binary: bool = False
    trained_for_target: bool = False

    def suits(self, num_classes: int, kind: str) -> bool:
        """Whether it is made for so many classes and this metric; what was trained for F1 is judged by F1 alone."""
        return (num_classes == 2 or not self.binary) and (
            kind == "f1" or not self.trained_for_target
        )


def metric_named(kind: str, codes: Array, num_classes: int) -> Metric:
    """The metric of a kind for so many classes: "f1" is that of the rare class, or the macro average."""
    if kind == "f1":
        return metrics.get("f1" if num_classes == 2 else "f1_macro")
    if kind == "cost":
        # A miss of the rarest class costs five, any other mistake one.
        cost = 1 - np.eye(num_classes)
        cost[np.bincount(codes, minlength=num_classes).argmin()] *= 5
        return metrics.get("expected_cost", cost=cost.tolist())
    return metrics.get(kind)


def blend_of(
    found: Components, parts: Sequence[str], codes: Array, prior_rows: float | None = None
) -> tuple[Array, Array]:
    """The ensemble's mean, of held-out and of test rows; by default with the votes that it would learn."""
    held = {part: found[PARTS[part]].held_out for part in parts}
    known = np.all([np.isfinite(table).all(axis=1) for table in held.values()], axis=0)
    judged = {part: table[known] for part, table in held.items()}
    votes = learnt_votes(judged, codes[known], prior_rows=prior_rows)
    tested = {part: found[PARTS[part]].test_mean for part in parts}
    with np.errstate(invalid="ignore"):  # rows that every model saw have no held-out prediction
        return log_mean(held, votes), log_mean(tested, votes)


def plain(found: Components, problem: Problem, *, name: str) -> Predictions:  # noqa: ARG001
    return [found[name].test_mean.argmax(1)]


def tuned(found: Components, problem: Problem, *, name: str) -> Predictions:
    offsets = problem.offsets(found[name].held_out)
    return [(found[name].test_mean + offsets).argmax(1)]


def alone(found: Components, problem: Problem, *, name: str) -> Predictions:  # noqa: ARG001
    return [table.argmax(1) for table in found[name].test[:NETWORKS_JUDGED]]


def alone_tuned(found: Components, problem: Problem, *, name: str) -> Predictions:
    part = found[name]
    return [
        (table + problem.offsets(part.held_out, part.folds == k)).argmax(1)
        for k, table in enumerate(part.test[:NETWORKS_JUDGED])
    ]


def blended(
    found: Components,
    problem: Problem,
    *,
    parts: Sequence[str] = DEFAULT.parts,
    label_share: float | None = None,
) -> Predictions:
    """The mean of the parts, with a decision of the given share of labels."""
    held, test = blend_of(found, parts, problem.split.train_codes)
    return [problem.decided(held, test, label_share=label_share)]


def smoothed(found: Components, problem: Problem, *, name: str) -> Predictions:
    """One component with the ensemble's way of deciding."""
    return [problem.decided(found[name].held_out, found[name].test_mean)]


def best_tuned(found: Components, problem: Problem, *, names: Sequence[str]) -> Predictions:
    """The component whose tuned decision is best on held-out rows, chosen without the test rows."""
    merits, codes = {}, problem.split.train_codes
    for name in names:
        held = found[name].held_out
        known = np.isfinite(held).all(axis=1)
        shifted = held[known] + problem.offsets(held)
        merits[name] = problem.merit(shifted.argmax(1), codes[known])
    return tuned(found, problem, name=max(merits, key=merits.__getitem__))


def tuned_threshold(found: Components, problem: Problem) -> Predictions:  # noqa: ARG001
    """Scikit-learn's own threshold tuning, around LightGBM."""
    split = problem.split
    base = LGBMClassifier(
        n_estimators=100, learning_rate=0.05, num_leaves=15, min_child_samples=10, verbosity=-1,
        n_jobs=1, random_state=0,
    )  # fmt: skip
    model = TunedThresholdClassifierCV(base, scoring=_score_by(problem.metric), cv=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = model.fit(split.train, split.train_codes).predict(split.test)
    return [np.asarray(predicted)]


def _score_by(metric: Metric) -> Callable[..., float]:
    def score(truth: Array, predicted: Array) -> float:
        codes = [torch.from_numpy(np.asarray(array)) for array in (predicted, truth)]
        value = float(metric(hard_confusion(*codes, num_classes=2)))
        return value if metric.higher_is_better else -value

    scorer: Callable[..., float] = make_scorer(score)
    return scorer


def _both(name: str, label: str) -> list[Method]:
    return [
        Method(label, (name,), partial(plain, name=name)),
        Method(f"{label} + tuned", (name,), partial(tuned, name=name)),
    ]


def _network(name: str, label: str) -> list[Method]:
    """A network alone and five of them, each as it is and with the tuned decision."""
    return [
        Method(label, (name,), partial(alone, name=name)),
        Method(f"{label} + tuned", (name,), partial(alone_tuned, name=name)),
        Method(f"{label} x5", (name,), partial(plain, name=name)),
        Method(f"{label} x5 + tuned", (name,), partial(tuned, name=name)),
    ]


def _target(name: str, label: str, *, binary: bool = False) -> Method:
    """Trained for the target metric, and judged by nothing else."""
    predict = partial(plain, name=name)
    return Method(label, (name,), predict, binary=binary, trained_for_target=True)


TREES = ("rf", "et", "lgb")
# From the most important level down.
LEVELS: dict[str, list[Method]] = {
    "core": [
        Method("EASTEnsembleClassifier", DEFAULT_PARTS, blended),
        *_network("ce", "cross-entropy"),
        *_both("rf", "random forest"),
        *_both("et", "extra trees"),
        *_both("lgb", "LightGBM"),
        Method("best tree + tuned", TREES, partial(best_tuned, names=TREES)),
        *_network("balanced", "balanced"),
        Method("cross-entropy x5 + smoothed", ("ce",), partial(smoothed, name="ce")),
        Method("LightGBM + smoothed", ("lgb",), partial(smoothed, name="lgb")),
    ],
    "key": [
        # Networks see scaled features, as in the papers; these see what EASTClassifier's do.
        *_network("pieces", "cross-entropy, pieces"),
        Method(
            "cross-entropy, pieces x5 + smoothed", ("pieces",), partial(smoothed, name="pieces")
        ),
        # What the ensemble is made of, one step at a time.
        Method("ensemble + tuned by labels", DEFAULT_PARTS, partial(blended, label_share=1.0)),
        Method("ensemble with extra trees", ALL_PARTS, partial(blended, parts=tuple(PARTS))),
    ],
    "paper": [_target("paper", "EAST paper")],
    "default": [_target("east_classifier", "EASTClassifier")],
    # With the sizes that users get, not those that all methods share here.
    "untouched": [
        _target("ensemble_as_it_is", "EASTEnsembleClassifier()"),
        _target("classifier_as_it_is", "EASTClassifier()"),
    ],
    "further": [
        *_network("adjusted", "logit-adjusted"),
        *_network("focal", "focal"),
        *_network("averaged", "averaged weights"),
        _target("soft_f1", "soft F1"),
        _target("btg", "BtG", binary=True),
        _target("surrogate", "Lee's surrogate", binary=True),
        *_both("rf_balanced", "random forest, balanced"),
        *_both("lgb_balanced", "LightGBM, balanced"),
        *_both("xgb", "XGBoost"),
        *_both("xgb_balanced", "XGBoost, balanced"),
        Method("imbalanced-learn forest", ("brf",), partial(plain, name="brf")),
        *(
            Method(label, (name,), partial(plain, name=name))
            for name, label in (
                ("easy_ensemble", "EasyEnsembleClassifier"),
                ("balanced_bagging", "BalancedBaggingClassifier"),
            )
        ),
        Method("TunedThresholdClassifierCV", (), tuned_threshold, binary=True),
    ],
}
