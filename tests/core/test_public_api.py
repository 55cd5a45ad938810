"""What people may rely on: the names, the signatures, and that importing stays cheap."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import eastward as ew

# A name here is a promise. Change these lists on purpose, together with the changelog.
PUBLIC_NAMES = {
    "AUROCLoss",
    "Alignment",
    "AlignmentSchedule",
    "AveragePrecisionLoss",
    "Comparison",
    "Counts",
    "Decision",
    "EASTBoostingClassifier",
    "EASTClassifier",
    "EASTEnsembleClassifier",
    "EASTLoss",
    "TunedDecisionClassifierCV",
    "align",
    "annealing",
    "baselines",
    "btg_step",
    "compare",
    "decisions",
    "exact_backward",
    "hard_step",
    "heaviside",
    "metric_loss",
    "metrics",
    "multilabel_counts",
    "sigmoid_step",
    "soft_confusion",
    "soft_counts",
    "soft_memberships",
    "theory",
    "tune",
    "tune_decision",
}
METRIC_NAMES = [
    "accuracy",
    "balanced_accuracy",
    "cohen_kappa",
    "cohen_kappa_linear",
    "cohen_kappa_quadratic",
    "expected_cost",
    "f1",
    "f1_macro",
    "f1_micro",
    "f1_weighted",
    "f_beta",
    "fowlkes_mallows",
    "fowlkes_mallows_macro",
    "fowlkes_mallows_micro",
    "fowlkes_mallows_weighted",
    "geometric_mean",
    "informedness",
    "jaccard",
    "jaccard_macro",
    "jaccard_micro",
    "jaccard_weighted",
    "markedness",
    "matthews_corrcoef",
    "precision",
    "precision_macro",
    "precision_micro",
    "precision_weighted",
    "recall",
    "recall_macro",
    "recall_micro",
    "recall_weighted",
    "specificity",
    "specificity_macro",
    "specificity_micro",
    "specificity_weighted",
]
HEAVY = [
    "sklearn",
    "scipy",
    "pandas",
    "pyarrow",
    "matplotlib",
    "lightning",
    "lightning_fabric",
    "lightgbm",
    "xgboost",
    "transformers",
    "rich",
    "typer",
    "jinja2",
    "plotly",
    "safetensors",
    "skrub",
]


def test_the_public_names_are_those_that_were_promised():
    assert set(ew.__all__) == PUBLIC_NAMES
    assert ew.__all__ == sorted(ew.__all__)
    for name in ew.__all__:
        assert getattr(ew, name) is not None
        assert name in dir(ew)


def test_the_metric_names_are_those_that_were_promised():
    assert ew.metrics.names() == METRIC_NAMES


def test_metric_names_that_scikit_learn_scores_by_are_scikit_learns():
    from sklearn.metrics import get_scorer_names

    scored = {name for name in METRIC_NAMES if name in get_scorer_names()}
    assert scored >= {"accuracy", "balanced_accuracy", "f1", "f1_macro", "f1_micro", "f1_weighted"}
    assert scored >= {"jaccard_macro", "precision_weighted", "recall_micro", "matthews_corrcoef"}


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_loads_torch_and_nothing_heavier():
    # What torch itself loads is not ours; the difference is.
    added = python(
        "import sys, torch; before = set(sys.modules)\n"
        "import eastward\n"
        "print(' '.join(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    ).split()
    assert "eastward" in added
    assert not set(added) & set(HEAVY)
    third_party = {name for name in added if not is_standard(name)} - {"eastward", "torch"}
    assert third_party == set()


def is_standard(name: str) -> bool:
    return name in sys.stdlib_module_names or name.startswith("_")


def test_the_loss_works_where_every_extra_is_missing():
    python(
        f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r}))\n"
        "import torch, eastward as ew\n"
        "assert ew.EASTLoss('f1_macro')(torch.randn(4, 3), torch.arange(4) % 3) > 0"
    )


def test_the_version_is_the_same_everywhere():
    root = Path(__file__).parents[2]
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    assert settings["tool"]["setuptools"]["dynamic"]["version"]["attr"] == (
        "eastward._version.__version__"
    )
    assert f"\nversion: {ew.__version__}\n" in (root / "CITATION.cff").read_text()
    assert f"\n## {ew.__version__} (" in (root / "CHANGELOG.md").read_text()


def test_the_reference_lists_every_deprecated_name():
    root = Path(__file__).parents[2]
    moved = [
        path.stem
        for path in (root / "src/eastward").glob("*.py")
        if "moved(__name__" in path.read_text()
    ]
    reference = (root / "docs/api.rst").read_text()
    assert len(moved) >= 4
    assert [name for name in moved if f"``eastward.{name}``" not in reference] == []


SIGNATURES = {
    "heaviside": ["p", "tau", "temperature"],
    "btg_step": ["p", "tau", "delta"],
    "sigmoid_step": ["p", "tau", "k"],
    "soft_memberships": ["probabilities", "temperature", "threshold", "step"],
    "soft_confusion": [
        "memberships",
        "targets",
        "num_classes",
        "sample_weight",
        "prior",
        "ignore_index",
    ],
    "tune_decision": [
        "probabilities",
        "targets",
        "metric",
        "subject_to",
        "confidence",
        "abstain_cost",
        "sample_weight",
        "random_state",
    ],
    "EASTLoss": [
        "metric",
        "temperature",
        "threshold",
        "step",
        "detach_threshold",
        "prior",
        "running",
        "absent",
        "multilabel",
        "ignore_index",
        "process_group",
    ],
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_arguments_are_those_of_the_contract(name):
    given = list(inspect.signature(getattr(ew, name)).parameters)
    assert [argument for argument in given if argument in SIGNATURES[name]] == SIGNATURES[name]


def test_options_of_the_loss_are_keyword_only():
    parameters = inspect.signature(ew.EASTLoss).parameters
    positional = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == ["metric"]


def test_the_defaults_are_those_of_the_contract():
    loss = ew.EASTLoss()
    assert loss.metric.name == "f1_macro"
    assert loss.temperature.item() == pytest.approx(0.2)
    assert (loss.thresholds, loss.step, loss.absent) == (None, "linear", "skip")
    assert (loss.running, loss.prior, loss.ignore_index) == (None, None, -100)
    assert (loss.detach_threshold, loss.multilabel, loss.process_group) == (False, False, "auto")


def test_type_information_is_shipped():
    assert (Path(ew.__file__).parent / "py.typed").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("eastward.estimator", "eastward.estimators.network"),
        ("eastward.estimator.classifier", "eastward.estimators.network.classifier"),
        ("eastward.ensemble_estimator", "eastward.estimators.ensemble"),
        ("eastward.decision_estimator", "eastward.estimators.tuned"),
        ("eastward.tables.strings", "eastward.data.strings"),
    ],
)
def test_moved_modules_are_found_at_their_old_path_for_one_release(old, new):
    code = (
        "import importlib, warnings\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        f"    old = importlib.import_module({old!r})\n"
        f"assert old is importlib.import_module({new!r})\n"
        "assert any('is removed in 0.3' in str(w.message) for w in said)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_boosting_classifier_is_found_at_its_old_path():
    from eastward.boosting import EASTBoostingClassifier

    assert EASTBoostingClassifier is ew.EASTBoostingClassifier
