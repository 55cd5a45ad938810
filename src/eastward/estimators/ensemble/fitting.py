"""The steps of ``fit``: encode, assign folds, fit the parts, and collect held-out predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length

from eastward import _checks
from eastward.decisions.deciding import checked_share
from eastward.decisions.tuning import HeldOut, decision_table
from eastward.estimators.ensemble.folds import Fitting, split_into_folds
from eastward.estimators.ensemble.networks import Networks, pace
from eastward.estimators.ensemble.trees import ExtraTrees, LightBoosting, RandomForest
from eastward.estimators.ensemble.votes import learnt_votes, log_mean
from eastward.estimators.frames import Encoder
from eastward.estimators.network import EASTClassifier, preparation
from eastward.metrics import Metric

if TYPE_CHECKING:
    from eastward.estimators.ensemble.classifier import EASTEnsembleClassifier

__all__ = [
    "PARTS",
    "FittedParts",
    "check_parameters",
    "fit_parts",
    "gathered",
    "log_mean",
    "part_scores",
    "training_rows",
]

CALLER = "EASTEnsembleClassifier"
# If less than this share of the weight is held out, it is too little to tune a decision on.
LEAST_HELD_OUT = 0.5
Array = NDArray[Any]

PARTS: Mapping[str, Any] = MappingProxyType(
    {
        "networks": Networks,
        "lightgbm": LightBoosting,
        "extra_trees": ExtraTrees,
        "random_forest": RandomForest,
    }
)
# Five of these cost about as much as one network of EASTClassifier's default size. Features are not cut into pieces:
# networks that resemble trees would add less to the trees.
NETWORK = MappingProxyType({"hidden": (128, 64), "learning_rate": 2e-3, "patience": 12, "bins": 0})
_OWN = (
    "metric",
    "metric_options",
    "aligned",
    "refit",
    "n_folds",
    "random_state",
    "tune_decision",
    "module",
    "calibrate",
    "subject_to",
    "confidence",
    "on_infeasible",
    "abstain_cost",
    "coverage",
    "abstain_label",
)


def check_parameters(model: EASTEnsembleClassifier) -> None:
    """Check the parameters before anything is fitted."""
    parts: Any = model.parts
    if isinstance(parts, str) or not isinstance(parts, Sequence) or not parts:
        got = _checks.describe(parts)
        _checks.fail(CALLER, "parts", "a sequence of at least one name", got, error=TypeError)
    for name in parts:
        _checks.one_of(CALLER, "parts", name, tuple(PARTS))
    if len(set(parts)) < len(parts):
        _checks.fail(CALLER, "parts", "without repetition", list(parts))
    _checks.whole_number(CALLER, "n_folds", model.n_folds, at_least=2)
    _checks.jobs(CALLER, model.n_jobs)
    checked_share(CALLER, model.label_share, 2)
    _checks.boolean(CALLER, "aligned", model.aligned)
    _check_network_options(model.network_options)


def _check_network_options(options: Any) -> None:
    if options is None:
        return
    if not isinstance(options, Mapping):
        got = _checks.describe(options)
        _checks.fail(CALLER, "network_options", "a mapping, or None", got, error=TypeError)
    allowed = [name for name in EASTClassifier().get_params() if name not in _OWN]
    for name in options:
        _checks.one_of(CALLER, "network_options", name, allowed)


@dataclass(frozen=True)
class FittedParts:
    """The parts, their votes, and held-out log-probabilities of each part and of their mean."""

    parts: dict[str, Any]
    folds: Array
    held_out: HeldOut
    by_part: dict[str, Array]
    votes: dict[str, float]


def fit_parts(model: EASTEnsembleClassifier, rows: TrainingRows, metric: Metric) -> FittedParts:
    """Fit every part on the same folds."""
    raw = rows.encoder.raw(rows.table)
    folds, count = split_into_folds(rows.codes, int(model.n_folds), rows.seed, rows.groups)
    data = Fitting(
        raw,
        rows.encoder.filled(raw),
        rows.codes,
        rows.weights,
        folds,
        count,
        rows.num_classes,
        rows.seed,
        model.n_jobs,
    )
    parts, tables = {}, {}
    for name in model.parts:
        mine = data.at_most(PARTS[name].most_rows)
        parts[name] = _fitted(model, name, mine, metric)
        tables[name] = parts[name].held_out[mine.folds >= 0]
    return gathered(data, parts, tables)


def gathered(data: Fitting, parts: dict[str, Any], tables: Mapping[str, Array]) -> FittedParts:
    """Combine the parts with their votes; ``tables`` are their log-probabilities of held-out rows, in order."""
    judged = data.folds >= 0
    held = np.all([np.isfinite(table).all(1) for table in tables.values()], axis=0)
    weights = None if data.weights is None else data.weights[judged]
    if weights is not None and weights[held].sum() < LEAST_HELD_OUT * weights.sum():
        # Rows of large weight are drawn by every tree of a forest and so never held out. The other rows alone would
        # have other class frequencies.
        held[:] = False
    by_part = {name: table[held] for name, table in tables.items()}
    codes, weights = data.codes[judged][held], None if weights is None else weights[held]
    votes = learnt_votes(by_part, codes, weights)
    mean = HeldOut(log_mean(by_part, votes), codes, weights)
    return FittedParts(parts, data.folds, mean, by_part, votes)


@dataclass(frozen=True)
class TrainingRows:
    """Rows of positive weight: the table, class indices, weights, groups, and the encoder of columns."""

    table: Any
    encoder: Encoder
    codes: Array
    classes: Array
    weights: Array | None
    groups: Any
    seed: int

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)


def training_rows(table: Any, y: Any, sample_weight: Any, groups: Any, seed: int) -> TrainingRows:
    """Select the rows of positive weight, with class indices and weights."""
    labels = preparation.encode_labels(y)
    if labels.multilabel:
        advice = "Use EASTClassifier."
        _checks.fail(f"{CALLER}.fit", "y", "one label per row", "indicators of several", advice)
    check_consistent_length(table, labels.codes)
    weights, used = preparation.row_weights(sample_weight, None, table, labels)
    if used is not None:
        rows = used.numpy()
        labels = preparation.encode_labels(np.asarray(y)[rows])
        weights = None if weights is None else weights[used]
        table = table[rows] if isinstance(table, np.ndarray) else table.iloc[rows]
        groups = None if groups is None else np.asarray(groups)[rows]
    given = None if weights is None else weights.double().numpy()
    codes = labels.codes.numpy()
    return TrainingRows(table, Encoder.of(table), codes, labels.classes, given, groups, seed)


def _fitted(model: EASTEnsembleClassifier, name: str, data: Fitting, metric: Metric) -> Any:
    if name != "networks":
        return PARTS[name].fitted(data)
    options = {**NETWORK, **pace(len(data.codes)), **(model.network_options or {})}
    # The ensemble decides, so its networks need not.
    own = {"aligned": bool(model.aligned), "tune_decision": False, "calibrate": "none"}
    return Networks.fitted(data, metric, {**options, **own})


def part_scores(
    metric: Metric, held: HeldOut, by_part: Mapping[str, Array], num_classes: int
) -> dict[str, float]:
    """Compute the metric of the most probable class for each part and for their mean, on held-out rows."""
    scores = {}
    for name, logs in {**by_part, "mean": held.scores}.items():
        table = decision_table(held.codes, logs.argmax(1), held.weight, num_classes)
        scores[name] = float(metric(table))
    return scores
