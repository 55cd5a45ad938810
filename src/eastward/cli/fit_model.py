"""Train a model and write its folder with a report, for `train` and `demo`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eastward import _messages, metrics
from eastward._files import write_whole
from eastward.cli.folders import CARD, CHECKPOINT, REPORT, SUMMARY
from eastward.cli.output import note
from eastward.cli.stages import stage
from eastward.comparison.cells import fit_options, pass_interruption_on
from eastward.comparison.choosing import choose_method
from eastward.comparison.methods import BUILT_IN, Settings, tunes_decision
from eastward.comparison.splits import grouped_split, later_rows
from eastward.data import Task, copies_across, make_vectorizer, profile_task
from eastward.estimators.metric_choice import resolve_metric
from eastward.estimators.network import EASTClassifier
from eastward.model_folder import TableModel, save_model
from eastward.reporting import (
    evaluation_summary,
    finding,
    report_summary,
    write_report,
)
from eastward.reporting.model_card import model_card
from eastward.reporting.model_importance import model_importance
from eastward.reporting.training_words import training_words
from eastward.saved_folder import metric_document
from eastward.training.grouped_folds import periods

__all__ = ["FitPlan", "chosen_for", "fit_model", "held_out_rows", "judging_weights"]

# Parameters of a network that an ensemble of networks and trees understands as well.
SHARED_BY_NETWORKS = ("hidden", "max_epochs")


@dataclass(frozen=True)
class FitPlan:
    """The settings of a training run.

    Attributes
    ----------
    metric, metric_options
        The metric and its options; see :class:`~eastward.EASTClassifier`.
    parameters : mapping
        Further parameters of a network.
    holdout : float
        Share of the rows to hold out for judging the model; 0 for none.
    seed : int
        Seed of the split and of training.
    method : str
        Name of the method in :func:`~eastward.compare`.
    reason : str
        The reason for this method.
    decision : mapping
        Options of the decision: ``subject_to``, ``abstain_cost``, ``coverage``.
    compared : bool
        Whether a comparison recommended the method.
    """

    metric: str = "f1_macro"
    metric_options: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    holdout: float = 0.2
    seed: int = 0
    method: str = "eastward"
    reason: str = "as requested"
    decision: Mapping[str, Any] = field(default_factory=dict)
    compared: bool = False

    @property
    def label(self) -> str:
        """A description of the method for readers."""
        return BUILT_IN[self.method].label

    @property
    def is_network(self) -> bool:
        """Whether the method is one `EASTClassifier`, which writes checkpoints while it trains."""
        made = BUILT_IN[self.method].make(Settings(metrics.get("f1_macro")))
        return isinstance(made, EASTClassifier)


def chosen_for(task: Task, plan: FitPlan, asked: str) -> FitPlan:
    """Return ``plan`` with the method ``asked``; "auto" chooses by the data."""
    if asked != "auto":
        return replace(plan, method=asked)
    choice = choose_method(len(task.labels))
    return replace(plan, method=choice.name, reason=choice.reason)


def fit_model(
    task: Task,
    facts: Mapping[str, Any],
    plan: FitPlan,
    folder: Path,
    *,
    comparison: Mapping[str, Any] | None = None,
    commands: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Train, save and judge a model; return the summary of its report.

    An interruption at any time leaves something complete: checkpoints during training, then the model, then its
    report. The checkpoints are removed last.
    """
    trained, held = split_rows(task, plan)
    facts = {**facts, "warnings": [*facts["warnings"], *_repeated(task, held)]}
    quiet = not plan.parameters.get("verbose")
    with stage(f"training {plan.label} on {trained.sum():,} rows", quiet=quiet):
        model = _trained(task, facts, plan, trained, folder / CHECKPOINT)
    save_model(model, folder)
    judged = importance = None
    if held.any():
        with stage(f"judging by {held.sum():,} held-out rows", quiet=quiet):
            judged = _evaluation(model, task, held)
            importance = _importance(model, task, held)
    training = training_words(model.classifier)
    training["sentences"] = [f"{plan.label}: {plan.reason}", *training["sentences"]]
    summary = report_summary(
        f"{task.target} in {task.name}",
        model.metric,
        data={**facts, "profile": profile_task(task)},
        comparison=comparison,
        evaluation=judged,
        importance=importance,
        training=training,
        verdict=None
        if comparison is not None
        else finding(judged, training, model.metric, compared=plan.compared),
        commands=commands,
    )
    summary["method"] = {"name": plan.method, "label": plan.label, "reason": plan.reason}
    write_summary(summary, folder)
    write_card(summary, model.classifier, folder)
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    return summary


def split_rows(task: Task, plan: FitPlan) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Split rows into training and test rows, respecting the groups and times of the task."""
    held = held_out_rows(task.labels, plan.holdout, plan.seed)
    if not held.any() or (task.groups is None and task.times is None):
        return ~held, held
    if task.times is not None:
        held = later_rows(task.times, 1 - plan.holdout)
    elif task.groups is not None:
        codes = np.unique(task.labels, return_inverse=True)[1]
        rows = grouped_split(codes, task.groups, plan.holdout, plan.seed)[1]
        held = np.isin(np.arange(len(codes)), rows)
    trained = ~held
    if task.groups is not None:
        trained &= ~np.isin(task.groups, task.groups[held])
    return trained, _judged(task, plan, trained, held)


def _judged(
    task: Task, plan: FitPlan, trained: NDArray[np.bool_], held: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Select the held-out rows whose class occurs in training; other classes cannot be predicted."""
    known = np.isin(task.labels, np.unique(task.labels[trained]))
    if len(np.unique(task.labels[trained])) < 2:
        got = f"{int(trained.sum()):,} rows to train on, of one class"
        advice = f"Take another column, or another --holdout than {plan.holdout:g}."
        _messages.fail("train", "--group or --time", "such that two classes are left", got, advice)
    if (held & ~known).any():
        unseen = ", ".join(map(repr, np.unique(task.labels[held & ~known]).tolist()[:5]))
        note(
            f"warning: {int((held & ~known).sum()):,} held-out rows belong to classes without training rows "
            f"({unseen}), and are not judged"
        )
    return held & known


def _repeated(task: Task, held: NDArray[np.bool_]) -> list[str]:
    """Warn, before training, if held-out rows are copies of training rows."""
    copies = copies_across(task.features, held)
    if not copies:
        return []
    sentence = f"{copies:,} of the {held.sum():,} held-out rows are copies of training rows"
    note(f"warning: {sentence}")
    return [sentence]


def write_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """Write the numbers as JSON, and the report made of them."""
    write_report(summary, folder / SUMMARY)
    write_report(summary, folder / REPORT)


def write_card(summary: Mapping[str, Any], classifier: Any, folder: Path) -> None:
    """Write the model card: the purpose and the limits of the model in ``folder``."""
    write_whole(folder / CARD, model_card(summary, classifier).encode())


def held_out_rows(labels: NDArray[Any], share: float, seed: int) -> NDArray[np.bool_]:
    """Choose test rows: ``share`` of each class at random, but never its last row.

    Examples
    --------
    >>> held = held_out_rows(np.array(["no"] * 8 + ["yes"] * 2), 0.25, seed=0)
    >>> int(held[:8].sum()), int(held[8:].sum())
    (2, 0)
    """
    generator = np.random.default_rng(seed)
    held = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        held[rows[: min(round(share * len(rows)), len(rows) - 1)]] = True
    return held


def _trained(
    task: Task, facts: Mapping[str, Any], plan: FitPlan, rows: NDArray[np.bool_], checkpoint: Path
) -> TableModel:
    vectorizer = make_vectorizer()
    vectors = vectorizer.fit_transform(task.features[rows])
    labels = task.labels[rows]
    classifier = _unfitted(plan, labels, checkpoint)
    weights = None if task.weights is None else task.weights[rows]
    codes = np.unique(labels, return_inverse=True)[1]
    together = _kept_together(task, rows)
    options, notes = fit_options(classifier, weights, together, codes, plan.seed)
    for sentence in notes:
        note(f"warning: the model was {sentence}")
    classifier.fit(vectors, labels, **options)
    pass_interruption_on(classifier)
    metric = resolve_metric("train", plan.metric, plan.metric_options, np.unique(labels).tolist())
    remembered = {
        "target": task.target,
        "columns": facts["columns"],
        "renamed_labels": dict(task.renamed),
        "method": plan.method,
        "metric": metric.name,
        "judged_by": metric_document(metric, "Use a metric that has a name."),
        "trained_rows": int(rows.sum()),
        "data": dict(facts),
    }
    return TableModel(classifier, vectorizer, remembered)


def _unfitted(plan: FitPlan, labels: NDArray[Any], checkpoint: Path) -> Any:
    """Make the unfitted classifier of ``plan``, with a folder for checkpoints if it writes any."""
    shared = {name: value for name, value in plan.parameters.items() if name in SHARED_BY_NETWORKS}
    metric = resolve_metric("train", plan.metric, plan.metric_options, np.unique(labels).tolist())
    settings = Settings(metric, network=shared, decision=plan.decision)
    made = BUILT_IN[plan.method].estimator(settings, plan.seed)
    if plan.decision and not tunes_decision(made):
        option = "--" + next(iter(plan.decision)).replace("_", "-")
        expected = "left out for a method that does not tune its decision"
        tuned = [name for name in (f"{plan.method}_tuned",) if name in BUILT_IN]
        advice = f"Take --method {' or '.join([*tuned, 'ensemble', 'network'])}."
        _messages.fail("train", option, expected, plan.method, advice)
    if isinstance(made, EASTClassifier):
        return made.set_params(checkpoint=checkpoint, **plan.parameters)
    # Only one model is trained at a time, so its trees may use all cores.
    return made.set_params(n_jobs=-1) if plan.method == "ensemble" else made


def _kept_together(task: Task, rows: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """Return the groups, or else periods, that folds inside the classifier must not split."""
    if task.groups is not None:
        return task.groups[rows]
    return None if task.times is None else periods(task.times[rows])


def _evaluation(model: TableModel, task: Task, held: NDArray[np.bool_]) -> dict[str, Any]:
    frame = task.features[held].reset_index(drop=True)
    codes = np.searchsorted(model.classes, task.labels[held])
    return evaluation_summary(
        codes,
        model.log_probabilities(frame),
        model.classes.tolist(),
        model.metric,
        decision=model.decision,
        sample_weight=judging_weights(model.classifier, codes, _weights(task, held)),
    )


def _weights(task: Task, held: NDArray[np.bool_]) -> NDArray[Any] | None:
    return None if task.weights is None else task.weights[held]


def judging_weights(
    classifier: Any, codes: NDArray[Any], weights: NDArray[Any] | None
) -> NDArray[Any] | None:
    """Return weights of test rows; they follow the class frequencies that the model is meant for."""
    if getattr(classifier, "prior", None) is None:
        return weights
    own = np.ones(len(codes)) if weights is None else weights
    wanted = np.asarray(classifier.decision_.prior)
    mass = np.bincount(codes, own, minlength=len(wanted))
    return np.asarray(own * (wanted / np.maximum(mass, 1e-300))[codes] * mass.sum())


def _importance(model: TableModel, task: Task, held: NDArray[np.bool_]) -> dict[str, Any]:
    """Find the columns that the held-out score depends on."""
    codes = np.searchsorted(model.classes, task.labels[held])
    weights = judging_weights(model.classifier, codes, _weights(task, held))
    return model_importance(model, task.features[held], codes, sample_weight=weights)
