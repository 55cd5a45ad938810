"""Search the parameters of EASTClassifier with Optuna, judged by the metric itself.

A study lives in a journal file or a database. Any number of processes and machines can work on it, and nothing is
tried twice. Trials that fall behind are stopped early, judged by the target metric on held-out rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from eastward import _checks
from eastward._studies import OWNER, give_up_dead_trials, open_study, optuna, this_process
from eastward.estimators.frames import refuse_repeated_columns
from eastward.estimators.metric_choice import resolve_metric
from eastward.estimators.network import EASTClassifier
from eastward.training import Callback, Run
from eastward.training.checkpoint import fingerprint

__all__ = ["SPACES", "Space", "TuningResult", "tune"]

logger = logging.getLogger("eastward")

TABLES = (128, 256, 512, 1024, 2048)
FINISHED = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)


@dataclass(frozen=True)
class Space:
    """The parameters that are searched, and those that are fixed.

    Attributes
    ----------
    choices : mapping
        The values to try for each parameter. A space of only choices is a grid, and each of its points is tried once.
    ranges : mapping
        ``(low, high, logarithmic)`` for each numeric parameter.
    fixed : mapping
        Parameters with the same value in every trial.
    """

    choices: Mapping[str, Sequence[Any]]
    ranges: Mapping[str, tuple[float, float, bool]]
    fixed: Mapping[str, Any]

    @property
    def is_grid(self) -> bool:
        """Whether the space has finitely many points."""
        return not self.ranges

    def suggest(self, trial: Any) -> dict[str, Any]:
        """Draw the parameters of one trial."""
        chosen = {
            name: trial.suggest_categorical(name, list(values))
            for name, values in self.choices.items()
        }
        numbers = {
            name: trial.suggest_float(name, low, high, log=logarithmic)
            for name, (low, high, logarithmic) in self.ranges.items()
        }
        return {**self.fixed, **chosen, **numbers}


def _papers_grid(batch_sizes: Sequence[int]) -> Space:
    """Return the grid of EAST, appendix E.4: batch size, learning rate, dropout and cooling rate."""
    choices = {
        "batch_size": tuple(batch_sizes),
        "learning_rate": (0.01, 0.001, 0.0001),
        "dropout": (0.25, 0.5),
        "cooling_rate": (0.8, 0.9),
    }
    return Space(choices, {}, {"recipe": "paper", "temperature": 0.2})


SPACES: Mapping[str, Space] = MappingProxyType(
    {
        "auto": Space(
            {"batch_size": (64, 128, 256, 512, 1024), "hidden": ("64", "256,128", "512,256,128")},
            {"learning_rate": (1e-4, 1e-2, True), "dropout": (0.0, 0.6, False)},
            {"recipe": "auto"},
        ),
        "east_tables": _papers_grid(TABLES),
        # The paper prints 4069, but all its neighbours are powers of two.
        "east_kaggle": _papers_grid((*TABLES, 4096, 8192)),
        "east_cifar10": _papers_grid((32, 64, 128, 256)),
        "east_caltech256": _papers_grid((32, 64)),
    }
)


@dataclass(frozen=True)
class TuningResult:
    """The trials of a study, and the best parameters so far.

    Attributes
    ----------
    parameters : dict
        Parameters of the best trial, for :class:`~eastward.EASTClassifier`.
    score : float
        Metric of the best trial on held-out rows.
    trials : list of dict
        ``number``, ``state``, ``score`` and ``parameters`` of each.
    """

    parameters: dict[str, Any]
    score: float
    trials: list[dict[str, Any]]


class StopBehind(Callback):
    """A callback that reports a trial to its study, and stops it when it falls behind.

    Parameters
    ----------
    trial : optuna.Trial
        Receives the validation score of each epoch.
    """

    def __init__(self, trial: Any) -> None:
        self.trial, self.epochs = trial, 0

    def epoch_end(self, run: Run) -> None:
        """Report the score; raise the exception that stops a trial if it has fallen behind."""
        self.trial.report(run.record["valid_score"], self.epochs)
        self.epochs += 1
        if self.trial.should_prune():
            raise optuna.TrialPruned


def tune(
    X: Any,
    y: Any,
    metric: str = "f1_macro",
    *,
    space: str | Space = "auto",
    trials: int = 20,
    storage: Any = None,
    study: str = "eastward",
    parameters: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    random_state: int = 0,
) -> TuningResult:
    """Search for the parameters with the best metric on held-out rows.

    Every trial holds out the same rows. Call it again with the same storage, even on several machines at once, and
    the study continues. After a crash, even ``kill -9``, the interrupted trial is run again, and the study ends with
    the same result as one that was never stopped.

    Parameters
    ----------
    X : array-like or DataFrame
        ``(n_samples, n_features)``: numbers, or a frame that may have text columns; see
        :class:`~eastward.EASTClassifier`.
    y : array-like
        ``(n_samples,)`` labels.
    metric : str, default="f1_macro"
        The metric that judges and stops trials.
    space : str or Space, default="auto"
        One of :data:`SPACES`, such as "east_tables" (the papers' grid), or a space of your own.
    trials : int, default=20
        Number of finished trials in the study, over all processes and calls.
    storage : path or str, optional
        A journal file, or the URL of a database (``postgresql://...``). By default the study is only in memory.
    study : str, default="eastward"
        Name of the study in the storage.
    parameters : mapping, optional
        Further parameters of the classifier, the same in every trial.
    seconds : float, optional
        No trial starts after this many seconds.
    random_state : int, default=0
        Seed of the split, of training and of the search.

    Returns
    -------
    TuningResult
        The best ``parameters``, their ``score``, and all ``trials``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> quick = {"hidden": (8,), "max_epochs": 3, "n_folds": 1}
    >>> result = tune(X, y, space="east_caltech256", trials=2, parameters=quick)
    >>> len(result.trials), sorted(result.parameters)
    (2, ['batch_size', 'cooling_rate', 'dropout', 'learning_rate', 'recipe', 'temperature'])
    """
    _checks.whole_number("tune", "trials", trials, at_least=1)
    if seconds is not None:
        _checks.positive("tune", "seconds", seconds)
    if y is None or not hasattr(y, "__len__"):
        got = _checks.describe(y)
        _checks.fail("tune", "y", "one label for each row of X", got, error=TypeError)
    refuse_repeated_columns(X, "tune")
    _checks.seed("tune", random_state)
    _check_study(study)
    _check_parameters(parameters)
    # Before the first trial, because a failed trial stays in the study.
    labels = list(dict.fromkeys(np.asarray(y).ravel().tolist()))
    resolve_metric("tune", metric, (parameters or {}).get("metric_options"), labels)
    chosen = _space(space)
    common = {**(parameters or {}), "metric": metric, "random_state": random_state}
    settings = sorted((name, value) for name, value in common.items() if name != "callbacks")
    identity = fingerprint(repr(space), repr(settings), repr(y[:100]), len(y))
    opened = open_study(storage, study, identity)
    give_up_dead_trials(opened)
    started = time.monotonic()
    while _finished(opened) < trials:
        if seconds is not None and time.monotonic() - started >= seconds:
            break
        opened.sampler = _sampler(random_state, opened)
        if chosen.is_grid and not _next_point(chosen, random_state, opened):
            break
        opened.optimize(lambda trial: _score(trial, chosen, common, X, y), n_trials=1)
    return _result(opened, chosen)


def _check_parameters(given: object) -> None:
    if given is not None and not isinstance(given, Mapping):
        expected = "a mapping from parameters of EASTClassifier to values"
        _checks.fail("tune", "parameters", expected, _checks.describe(given), error=TypeError)
    known = EASTClassifier().get_params()
    for name in given or ():
        _checks.one_of("tune", "parameters", name, tuple(known))


def _check_study(name: object) -> None:
    if not isinstance(name, str) or not name:
        _checks.fail("tune", "study", "a name", _checks.describe(name), error=TypeError)


def _finished(study: Any) -> int:
    return sum(trial.state in FINISHED for trial in study.trials)


def _sampler(seed: int, study: Any) -> Any:
    """Return a sampler whose next draw depends only on the trials of the study.

    So a study that continues after a crash draws the same points, and machines that share a study draw different ones.
    """
    drawn = sum(trial.state != optuna.trial.TrialState.FAIL for trial in study.trials)
    own = np.random.SeedSequence([seed, drawn]).generate_state(1)[0]
    return optuna.samplers.TPESampler(seed=int(own))


def _next_point(space: Space, seed: int, study: Any) -> bool:
    """Enqueue the next point of a grid, in an order shuffled by the seed; False if all were tried."""
    points = [
        dict(zip(space.choices, values, strict=True)) for values in product(*space.choices.values())
    ]
    trials = [t for t in study.trials if t.state != optuna.trial.TrialState.FAIL]
    if any(trial.state == optuna.trial.TrialState.WAITING for trial in trials):
        return True  # the process that enqueued this point never ran it
    tried = [trial.system_attrs.get("fixed_params", trial.params) for trial in trials]
    order = np.random.default_rng(seed).permutation(len(points))
    left = [points[k] for k in order if points[k] not in tried]
    if left:
        study.enqueue_trial(left[0])
    return bool(left)


def _space(space: str | Space) -> Space:
    if isinstance(space, Space):
        return space
    _checks.one_of("tune", "space", space, tuple(SPACES), otherwise="a Space")
    return SPACES[space]


def classifier_parameters(suggested: Mapping[str, Any]) -> dict[str, Any]:
    """Convert stored parameters for the classifier; a study stores widths as text."""
    given = dict(suggested)
    if isinstance(given.get("hidden"), str):
        given["hidden"] = tuple(int(width) for width in given["hidden"].split(","))
    return given


def _score(trial: Any, space: Space, common: Mapping[str, Any], X: Any, y: Any) -> float:
    """Score one trial on held-out rows, higher is better; the user's parameters override the space."""
    trial.set_user_attr(OWNER, this_process())
    suggested = classifier_parameters(space.suggest(trial))
    own = [*(common.get("callbacks") or ()), StopBehind(trial)]
    model = EASTClassifier(**{**suggested, **common, "callbacks": own})
    model.fit(X, y)
    if model.report_["interrupted"]:
        raise KeyboardInterrupt  # an interrupted trial does not count
    value = _held_out_score(model)
    logger.info("trial %d: %s %.4f with %s", trial.number, model.metric_.name, value, suggested)
    return value if model.metric_.higher_is_better else -value


def _held_out_score(model: EASTClassifier) -> float:
    """Compute the metric on held-out rows, with the model's own decision."""
    if "tuned" in model.report_:
        return float(model.report_["tuned"])
    stages = {stage["name"]: stage for stage in model.report_["stages"]}
    return float(stages[model.report_["shipped"]]["tuned"])


def _result(study: Any, space: Space) -> TuningResult:
    complete = [t for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE]
    if not complete:
        got = f"{len(study.trials)} trials, none of them finished"
        _checks.fail("tune", "trials", "enough for one to finish", got, "Give it more time.")
    rows = [
        {
            "number": trial.number,
            "state": trial.state.name.lower(),
            "score": trial.value,
            "parameters": dict(trial.params),
        }
        for trial in study.trials
    ]
    # The first of several equal ones, because storages disagree on which of them is the best.
    best = max(complete, key=lambda trial: trial.value)
    parameters = classifier_parameters({**space.fixed, **best.params})
    return TuningResult(parameters, float(best.value), rows)
