"""``compare``: run every method on every split, in parallel and resumable."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight

from eastward import _checks
from eastward.comparison.belief import resolved_prior
from eastward.comparison.cell_runs import CellRuns
from eastward.comparison.cells import Cell, Problem
from eastward.comparison.dropping import SPLITS_BETWEEN_LOOKS, beaten
from eastward.comparison.methods import Method, Settings, resolve_methods, split_options
from eastward.comparison.result import Comparison, Progress
from eastward.decisions.deciding import checked_abstain_cost
from eastward.decisions.tuning import DecisionOptions
from eastward.estimators.cross_fitting import check_two_classes, class_labels
from eastward.estimators.frames import refuse_repeated_columns
from eastward.estimators.metric_choice import resolve_metric
from eastward.estimators.network.preparation import encode_labels

__all__ = ["compare"]

_CALLER = "compare"


def compare(
    X: Any,
    y: Any,
    metric: Any = "f1_macro",
    *,
    methods: Any = None,
    n_splits: int = 10,
    test_size: float = 0.2,
    random_state: Any = 0,
    n_jobs: int | None = None,
    store: Any = None,
    budget: float | None = None,
    preprocess: Any = None,
    progress: Callable[[Progress], object] | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    times: Any = None,
    metric_options: Mapping[str, Any] | None = None,
    method_options: Mapping[str, Any] | None = None,
    subject_to: Any = None,
    confidence: float = 0.95,
    abstain_cost: float | None = None,
    coverage: float | None = None,
    baseline: str = "cross_entropy_tuned",
    tie_margin: float = 0.005,
    prior: Any = "tables",
    thorough: bool = False,
) -> Comparison:
    """Find the best method for a table and a metric, and say how certain that is.

    Every method is fitted and judged on the same repeated stratified splits, after the same preprocessing. All
    networks have the same layers and limits. By default, the methods are compared with cross-entropy whose threshold
    is tuned for the metric, a strong baseline.

    Parameters
    ----------
    X : array-like or frame of shape (n_samples, ...)
        Features: finite numbers, or anything that ``preprocess`` turns into numbers.
    y : array-like of shape (n_samples,)
        Labels.
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or any callable from a confusion matrix to a 0-d tensor.
    methods : None, sequence or mapping, optional
        None for the default methods; names from :func:`eastward.comparison.method_names`; pairs
        ``(name, estimator)``; or a mapping from name to scikit-learn estimator. The baseline is added if missing.
    n_splits : int, default=10
        Number of repeated splits, at least 2.
    test_size : float, default=0.2
        Share of test rows, in (0, 1).
    random_state : int, RandomState or None, default=0
        Determines splits and seeds. On one machine, equal seeds and data give equal scores, whatever ``n_jobs``.
    n_jobs : int or None, default=None
        Number of processes, each with one thread; -1 uses all cores. None means one, or the setting of
        ``joblib.parallel_config``, for example the workers of a Dask or Ray cluster.
    store : path, optional
        Folder for finished cells. They are not computed again, so a stopped comparison continues, and more splits or
        methods cost only what is new. Failed cells are tried again.
    budget : float, optional
        Seconds of training for each network; results then depend on the machine. Trees cannot be limited, and a note
        says so. By default limits are in epochs (``max_epochs``, ``patience``), equal for all.
    preprocess : transformer, optional
        Preprocessing, for example ``eastward.data.make_vectorizer()``. A copy is fitted on the training rows of each
        split.
    progress : callable, optional
        Called with a :class:`~eastward.comparison.Progress` after each cell.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of rows, for training (if a method takes them) and for scores.
    groups : array-like of shape (n_samples,), optional
        Rows with the same value, such as rows of one patient, stay on one side of every split, even inside methods.
    times : array-like of shape (n_samples,), optional
        Numbers or dates: test rows are later than training rows. Methods hold out whole periods.
    metric_options : mapping, optional
        Options of the metric, such as ``{"beta": {"fraud": 5}}``.
    method_options : mapping, optional
        Parameters of all networks, such as ``{"hidden": (64, 32), "max_epochs": 50}``, and under a method's name
        those of that method, ``{"random_forest": {"n_estimators": 500}}``.
    subject_to : str or sequence of str, optional
        Constraints such as ``"recall[fraud] >= 0.9"``, as in :func:`eastward.tune_decision`. Methods that tune their
        decision take them into account. A method that violates one on test rows, on average over the splits, is marked
        and not recommended.
    confidence : float, default=0.95
        Confidence of the one-sided bounds on constraints, in (0, 1).
    abstain_cost : float, optional
        The cost, in units of the metric, of leaving a row to somebody who decides it correctly. Methods that tune
        their decision may leave rows undecided; the others decide all.
    coverage : float, optional
        The share of rows that must be decided, in (0, 1); instead of a cost or in addition to it.
    baseline : str, default="cross_entropy_tuned"
        The method that the others are compared with.
    tie_margin : float, default=0.005
        Differences up to this do not matter; for metrics without a fixed range, such as costs, a share of the
        baseline's mean.

    prior : {"tables"}, None or Prior, default="tables"
        Experience that is combined with the splits: the gains of methods on 33 tables. None uses only the splits.
    thorough : bool, default=False
        Whether every method runs on every split. Otherwise methods that can no longer win are dropped after every
        second split. The baseline is never dropped.

    Returns
    -------
    Comparison
        The result: ``print`` shows a table and the verdict, ``verdict`` is a dictionary of sentences, and
        ``to_dict()`` returns plain data.

    Notes
    -----
    Intervals are corrected for the rows that splits share [1]_. The verdict is a decision under uncertainty: it takes
    the highest expected score, or a simpler method that is practically equal, and says how certain that is; see
    :func:`~eastward.comparison.belief.believed_gain`. A method that fails on a split is reported and not recommended;
    the others continue.

    References
    ----------
    .. [1] Nadeau and Bengio, *Inference for the generalization error*, Machine Learning 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> methods, small = ["cross_entropy", "random_forest"], {"hidden": (16,), "max_epochs": 20}
    >>> result = compare(X, y, methods=methods, n_splits=3, method_options=small)
    >>> result.verdict["recommended"] in [row["name"] for row in result.methods]
    True
    """
    _check_numbers(n_splits, test_size, budget, tie_margin)
    _checks.jobs(_CALLER, n_jobs)
    _check_settings(method_options, store, progress, thorough)
    experience = resolved_prior(prior)
    chosen = resolve_methods(methods, baseline)
    problem = _problem(
        X,
        y,
        metric,
        metric_options,
        sample_weight,
        preprocess,
        test_size,
        random_state,
        _settings_parts(method_options, chosen, budget),
    )
    problem = _with_decision_options(problem, subject_to, confidence, abstain_cost, coverage)
    problem = _with_order(problem, groups, times)
    train, test = problem.rows(0)
    cells: list[Cell] = []

    def so_far() -> Comparison:
        order = {method.name: position for position, method in enumerate(chosen)}
        ordered = sorted(cells, key=lambda cell: (cell["split"], order[cell["method"]]))
        bound = problem.settings.metric
        ratio = len(test) / len(train)
        return Comparison(bound, baseline, chosen, ordered, ratio, tie_margin, problem, experience)

    alive = list(chosen)
    with CellRuns(problem, chosen, n_splits, n_jobs, store) as run:
        for begin in range(0, n_splits, SPLITS_BETWEEN_LOOKS):
            if begin and not thorough:
                alive = _still_in(alive, so_far())
            total = len(cells) + len(alive) * (n_splits - begin)
            for cell in run(alive, range(begin, min(begin + SPLITS_BETWEEN_LOOKS, n_splits))):
                cells += cell if isinstance(cell, list) else [cell]
                if progress is not None and cell:
                    just = None if isinstance(cell, list) else cell
                    progress(Progress(len(cells), total, just, so_far()))
    return so_far()


def _still_in(methods: list[Method], so_far: Comparison) -> list[Method]:
    """Return the methods that may still win."""
    direction = 1.0 if so_far.metric.higher_is_better else -1.0
    names = {method.name for method in methods}
    expected = {
        row["name"]: direction * row["difference"]["expected"]
        for row in so_far.methods
        if row["name"] in names and row["difference"]["expected"] is not None
    }
    out = beaten(expected, so_far.gain, so_far.baseline, so_far.margin)
    return [method for method in methods if method.name not in out]


def _with_decision_options(
    problem: Problem, subject_to: Any, confidence: float, abstain_cost: Any, coverage: Any
) -> Problem:
    """Add the options of decisions; a method that cannot satisfy constraints comes as close as it can."""
    named = {"subject_to": subject_to, "abstain_cost": abstain_cost, "coverage": coverage}
    given = {name: value for name, value in named.items() if value is not None}
    if not given:
        return problem
    options = DecisionOptions(
        problem.settings.metric, confidence=confidence, on_infeasible="best", **given
    )
    found = options.checked(_CALLER, problem.classes.tolist())
    cost = checked_abstain_cost(_CALLER, abstain_cost, found)
    given |= {"confidence": confidence, "on_infeasible": "best"}
    settings = replace(problem.settings, decision=given)
    return replace(problem, settings=settings, constraints=found, abstain_cost=cost)


def _settings_parts(
    options: Mapping[str, Any] | None, methods: list[Method], budget: float | None
) -> dict[str, Any]:
    network, single = split_options(options, methods)
    return {"network": network, "budget": budget, "options": single}


def _problem(
    X: Any,
    y: Any,
    metric: Any,
    metric_options: Mapping[str, Any] | None,
    sample_weight: Any,
    preprocess: Any,
    test_size: float,
    random_state: Any,
    settings: dict[str, Any],
) -> Problem:
    """Check the data once for all methods."""
    for argument, value in (("X", X), ("y", y)):
        if value is None:
            _checks.fail(_CALLER, argument, "given", None, error=TypeError)
    refuse_repeated_columns(X, _CALLER)
    labels = class_labels(_CALLER, y)
    check_consistent_length(X, labels)
    weight = None
    if sample_weight is not None:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        _checks.weights(_CALLER, torch.tensor(weight))
    check_two_classes(_CALLER, labels, weight)
    encoded = encode_labels(labels)
    _check_rows(np.bincount(encoded.codes.numpy()))
    _check_features(X, preprocess)
    bound = resolve_metric("compare", metric, metric_options, encoded.classes.tolist())
    return Problem(
        X=X,
        y=np.asarray(labels),
        codes=encoded.codes.numpy(),
        classes=encoded.classes,
        sample_weight=weight,
        settings=Settings(bound, **settings),
        preprocess=preprocess,
        test_size=test_size,
        random_state=_seed(random_state),
        token=uuid.uuid4().hex,
    )


def _with_order(problem: Problem, groups: Any, times: Any) -> Problem:
    """Add groups and times to the problem; too few groups are refused before anything is fitted."""
    if groups is None and times is None:
        return problem
    check_consistent_length(problem.codes, groups, times)
    kept = None if groups is None else _ranks("groups", groups)
    order = None if times is None else _ranks("times", times)
    ordered = replace(problem, groups=kept, times=order)
    for rows, side in zip(ordered.rows(0), ("train on", "judge by"), strict=True):
        if len(np.unique(problem.codes[rows])) < 2:
            advice = "Take another column, or another test_size."
            got = f"{len(rows):,} rows to {side}, of one class"
            expected = "such that both sides of a split have two classes"
            _checks.fail(_CALLER, "groups or times", expected, got, advice)
    return ordered


def _ranks(argument: str, values: Any) -> NDArray[Any]:
    """Number the values in their order."""
    try:
        return np.unique(np.asarray(values), return_inverse=True)[1]
    except TypeError:
        got, advice = "values that cannot be sorted", "Fill or drop missing ones."
        return _checks.fail(_CALLER, argument, "values of one type", got, advice, error=TypeError)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        return _checks.whole_number(_CALLER, "random_state", int(random_state), at_least=0)
    if random_state is not None and not hasattr(random_state, "randint"):
        got = _checks.describe(random_state)
        expected = "an integer, a RandomState or None"
        _checks.fail(_CALLER, "random_state", expected, got, error=TypeError)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _check_numbers(
    n_splits: int, test_size: float, budget: float | None, tie_margin: float
) -> None:
    _checks.whole_number(_CALLER, "n_splits", n_splits, at_least=2)
    _checks.in_unit_interval(_CALLER, "test_size", test_size)
    if budget is not None:
        _checks.positive(_CALLER, "budget", budget)
    if _checks.real(_CALLER, "tie_margin", tie_margin) < 0:
        _checks.fail(_CALLER, "tie_margin", ">= 0", tie_margin)


def _check_settings(method_options: Any, store: Any, progress: Any, thorough: Any) -> None:
    if method_options is not None and not isinstance(method_options, Mapping):
        expected, got = "a mapping from parameters to values", _checks.describe(method_options)
        _checks.fail(_CALLER, "method_options", expected, got, error=TypeError)
    if progress is not None and not callable(progress):
        got = _checks.describe(progress)
        _checks.fail(_CALLER, "progress", "a function or None", got, error=TypeError)
    _checks.boolean(_CALLER, "thorough", thorough)
    if store is None:
        return
    folder = _checks.path(_CALLER, "store", store).absolute()
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            _checks.fail(_CALLER, "store", "a folder", f"{folder}, where {place} is a file")


def _check_rows(counts: Any) -> None:
    if (counts >= 2).sum() < 2:
        advice = "Give more rows of each class."
        _checks.fail(
            _CALLER,
            "y",
            "of at least two classes with at least two rows each",
            counts.tolist()[:10],
            advice,
        )


def _check_features(X: Any, preprocess: Any) -> None:
    """Check that columns are numbers if there is no preprocessing, and name those that are not."""
    if preprocess is not None:
        for needed in ("fit_transform", "transform", "get_params"):
            if not hasattr(preprocess, needed):
                got = _checks.describe(preprocess)
                expected = "a scikit-learn transformer"
                _checks.fail(_CALLER, "preprocess", expected, got, error=TypeError)
        return
    kinds = getattr(X, "dtypes", None)
    if kinds is None or not hasattr(X, "columns"):
        return
    words = [
        str(name)
        for name, kind in zip(X.columns, kinds, strict=True)
        if getattr(kind, "kind", "f") not in "biuf"
    ]
    if words:
        advice = "Give preprocess=eastward.data.make_vectorizer(), or encode them first."
        _checks.fail(
            _CALLER, "X", "made of numbers when preprocess is None", f"columns {words[:5]}", advice
        )
