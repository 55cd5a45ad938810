"""The methods of a comparison by name, and the users' own estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eastward
from eastward import _checks
from eastward.comparison.budget import TimeBudget
from eastward.estimators.base import DecidingClassifier
from eastward.estimators.network import EASTClassifier
from eastward.estimators.tuned import TunedDecisionClassifierCV
from eastward.metrics import Metric

__all__ = ["BUILT_IN", "DEFAULT_METHODS", "Method", "Settings", "method_names", "resolve_methods"]

# Parameters that distinguish the methods; options shared by all networks must not change them.
_OWN_CHOICES = (
    "metric",
    "metric_options",
    "recipe",
    "n_folds",
    "aligned",
    "refit",
    "tune_decision",
    "subject_to",
    "confidence",
    "on_infeasible",
    "abstain_cost",
    "coverage",
    "abstain_label",
    "class_weight",
    "random_state",
    "callbacks",
    "checkpoint",
)
_OWN_ESTIMATOR_RANK = 2


@dataclass(frozen=True)
class Settings:
    """Settings that all methods of a comparison share.

    Attributes
    ----------
    metric : Metric
        The metric that judges methods, and that some are tuned for.
    network : mapping
        Parameters of every network, such as ``hidden`` and ``max_epochs``.
    budget : float, optional
        Seconds of training for a network.
    options : mapping
        Further parameters of single methods, by their name.
    decision : mapping
        Options of the decision, such as ``subject_to``, for methods that tune their decision.
    """

    metric: Metric
    network: Mapping[str, Any] = field(default_factory=dict)
    budget: float | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    decision: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A method of a comparison: a name, and a function that makes a classifier.

    Attributes
    ----------
    name : str
        Name of the method.
    label : str
        A description for readers.
    effort : int
        A rank of complexity: of equally good methods, the one with less effort is recommended.
    make : callable
        ``(settings) -> unfitted estimator``.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> method = Method("bayes", "naive Bayes", 1, lambda settings: GaussianNB())
    >>> method.make(None)
    GaussianNB()
    """

    name: str
    label: str
    effort: int
    make: Callable[[Settings], Any]

    def estimator(self, settings: Settings, seed: int) -> Any:
        """Make an unfitted estimator with its options.

        Parameters
        ----------
        settings : Settings
            Settings that all methods of the comparison share.
        seed : int
            Seed of the estimator, unless its options have one.

        Returns
        -------
        estimator
            An unfitted scikit-learn estimator.
        """
        made = self.make(settings)
        if settings.decision and tunes_decision(made):
            made.set_params(**settings.decision)
        made.set_params(**settings.options.get(self.name, {}))
        return _seeded(made, seed)


def tunes_decision(estimator: Any) -> bool:
    """Whether an estimator tunes its decision, and can therefore satisfy constraints.

    Examples
    --------
    >>> [tunes_decision(EASTClassifier(recipe=recipe)) for recipe in ("auto", "cross_entropy")]
    [True, False]
    """
    if not isinstance(estimator, DecidingClassifier):
        return False
    return getattr(estimator, "recipe", "auto") == "auto" or estimator.tune_decision is True


def _seeded(estimator: Any, seed: int) -> Any:
    unset = [
        name
        for name, value in estimator.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    ]
    return estimator.set_params(**dict.fromkeys(sorted(unset), seed))


def _network(settings: Settings, *, stages: int = 1, **choices: Any) -> EASTClassifier:
    timed = None if settings.budget is None else [TimeBudget(settings.budget, stages)]
    return EASTClassifier(settings.metric, callbacks=timed, **settings.network, **choices)


def _ensemble(settings: Settings) -> Any:
    timed = {} if settings.budget is None else {"callbacks": [TimeBudget(settings.budget)]}
    # By its public name, which loads it on first use and says which extra it needs.
    return eastward.EASTEnsembleClassifier(
        settings.metric, network_options={**settings.network, **timed}
    )


def _boosting(settings: Settings) -> Any:
    return eastward.EASTBoostingClassifier(settings.metric)


def _plain(settings: Settings, *, kind: Callable[[], Any]) -> Any:  # noqa: ARG001  # judged, not tuned
    return kind()


def _tuned(settings: Settings, *, kind: Callable[[], Any]) -> TunedDecisionClassifierCV:
    return TunedDecisionClassifierCV(kind(), settings.metric)


def _logistic_regression() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def _pair(name: str, label: str, kind: Callable[[], Any], effort: int) -> list[Method]:
    """Return two methods: a classifier, and the classifier with a tuned decision."""
    return [
        Method(name, label, effort, partial(_plain, kind=kind)),
        Method(
            f"{name}_tuned",
            f"{label} with a tuned threshold",
            effort + 2,
            partial(_tuned, kind=kind),
        ),
    ]


_SINGLE: dict[str, Any] = {"recipe": "cross_entropy", "n_folds": 1}
_METHODS = [
    Method("cross_entropy", "cross-entropy", 1, partial(_network, **_SINGLE)),
    Method(
        "balanced_cross_entropy",
        "class-balanced cross-entropy",
        2,
        partial(_network, class_weight="balanced", **_SINGLE),
    ),
    Method("focal", "focal loss", 2, partial(_network, recipe="focal", n_folds=1)),
    # The default recipe without its metric stage, but with equally many networks, the same folds and the same tuning.
    # So the difference to `eastward` is due to the metric as a loss, and to nothing else.
    Method(
        "cross_entropy_tuned",
        "cross-entropy with a tuned threshold",
        3,
        partial(_network, recipe="auto", aligned=False),
    ),
    Method("east_paper", "EAST as published", 4, partial(_network, recipe="paper", n_folds=1)),
    Method("eastward", "EASTClassifier", 5, partial(_network, stages=2, recipe="auto")),
    *_pair("random_forest", "random forest", RandomForestClassifier, 1),
    *_pair("gradient_boosting", "gradient boosting", HistGradientBoostingClassifier, 1),
]
_ENSEMBLE = Method("ensemble", "EASTEnsembleClassifier", 6, _ensemble)
_ON_REQUEST = [
    _ENSEMBLE,
    Method("boosting", "EASTBoostingClassifier", 4, _boosting),
    Method("btg", "Bridging the Gap", 4, partial(_network, recipe="btg", n_folds=1)),
    Method(
        "cross_entropy_ensemble",
        "five networks of cross-entropy",
        3,
        partial(_network, recipe="cross_entropy", n_folds=5),
    ),
    Method(
        "cross_entropy_tuned_single",
        "one network of cross-entropy with a tuned threshold",
        2,
        partial(_network, tune_decision=True, **_SINGLE),
    ),
    Method(
        "eastward_single",
        "EASTClassifier with one network",
        4,
        partial(_network, stages=2, recipe="auto", n_folds=1),
    ),
    *_pair("extra_trees", "extra trees", ExtraTreesClassifier, 1),
    *_pair("logistic_regression", "logistic regression", _logistic_regression, 0),
]

# The ensemble is part of the default if its trees are installed.
_DEFAULT = [*_METHODS, _ENSEMBLE] if find_spec("lightgbm") else _METHODS
DEFAULT_METHODS = tuple(method.name for method in _DEFAULT)
BUILT_IN: Mapping[str, Method] = MappingProxyType(
    {method.name: method for method in [*_METHODS, *_ON_REQUEST]}
)


def method_names() -> list[str]:
    """List all built-in methods, those of the default comparison first.

    Returns
    -------
    list of str
        Names for ``compare(methods=...)``.

    Examples
    --------
    >>> method_names()[:2]
    ['cross_entropy', 'balanced_cross_entropy']
    """
    return list(BUILT_IN)


def resolve_methods(methods: Any, baseline: str) -> list[Method]:
    """Return the methods that a user chose, including the baseline.

    Parameters
    ----------
    methods : None, sequence or mapping
        None for the default methods; names; pairs ``(name, estimator)``; or a mapping from name to estimator.
    baseline : str
        Name of the method that the others are compared with; added in front if it is missing.

    Returns
    -------
    list of Method
        The methods, with the baseline.
    """
    if methods is None:
        methods = DEFAULT_METHODS
    chosen = [_resolved(entry) for entry in _entries(methods)]
    names = [method.name for method in chosen]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        _checks.fail("compare", "methods", "without repeated names", twice)
    if baseline not in names:
        _checks.one_of("compare", "baseline", baseline, (*names, *BUILT_IN))
        chosen.insert(0, BUILT_IN[baseline])
    if len(chosen) < 2:
        advice = f"Add one of {', '.join(method_names())}, or an estimator of your own."
        _checks.fail("compare", "methods", "at least one besides the baseline", names, advice)
    return chosen


def _entries(methods: Any) -> Iterable[Any]:
    if isinstance(methods, Mapping):
        return list(methods.items())
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        expected = "a sequence of names, or a mapping from name to estimator"
        advice = f"For example methods=[{methods!r}]." if isinstance(methods, str) else ""
        _checks.fail(
            "compare", "methods", expected, _checks.describe(methods), advice, error=TypeError
        )
    return list(methods)


def _resolved(entry: Any) -> Method:
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) and entry[0]:
        name, estimator = entry
        needed = ("fit", "predict", "get_params", "set_params")
        if isinstance(estimator, type) or not all(hasattr(estimator, part) for part in needed):
            got = _checks.describe(estimator)
            advice = "Derive it from sklearn.base.BaseEstimator, and pass an instance."
            expected = "a scikit-learn classifier"
            _checks.fail("compare", f"methods[{name!r}]", expected, got, advice, error=TypeError)
        return Method(name, name, _OWN_ESTIMATOR_RANK, partial(_copy_of, estimator=estimator))
    _checks.one_of("compare", "methods", entry, method_names(), otherwise="(name, estimator)")
    return BUILT_IN[entry]


def _copy_of(settings: Settings, *, estimator: Any) -> Any:  # noqa: ARG001  # the user's estimator stays unchanged
    return clone(estimator)


def split_options(options: Mapping[str, Any] | None, methods: list[Method]) -> tuple[Any, Any]:
    """Split a mapping into parameters of all networks and those of single methods."""
    given = dict(options or {})
    names = [method.name for method in methods]
    single = {name: given.pop(name) for name in names if isinstance(given.get(name), Mapping)}
    allowed = [name for name in EASTClassifier().get_params() if name not in _OWN_CHOICES]
    for name in given:
        if name not in allowed:
            known = [*allowed, *names]
            advice = _checks.near_misses(name, known) or (
                "Options of one method go under its name, as in {'random_forest': {'max_depth': 5}}."
            )
            expected = "made of parameters that all networks share, or of methods' names"
            _checks.fail("compare", "method_options", expected, repr(name), advice)
    return given, single
