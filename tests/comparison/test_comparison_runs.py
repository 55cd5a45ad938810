"""compare as a whole: fairness, workers, stores, failures, and what it hands back."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from comparison_problems import (
    SMALL,
    FailsSometimes,
    Majority,
    Random,
    RecordsRows,
    blobs,
    overlapping,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import eastward
from eastward import Comparison, EASTClassifier, TunedDecisionClassifierCV, compare
from eastward.comparison import DEFAULT_METHODS, method_names
from eastward.comparison.splits import split_seed, stratified_split
from eastward.comparison.store import CellStore, fingerprint
from eastward.training import Callback

QUICK = {"naive_bayes": GaussianNB(), "logistic": LogisticRegression()}


def quick(X, y, *args, **options):
    # All splits: which methods are dropped is tested in test_dropping.
    options = {"methods": QUICK, "baseline": "logistic", "n_splits": 3, "thorough": True} | options
    return compare(X, y, *args, **options)


def scores(result: Comparison) -> list[tuple]:
    return [(c["method"], c["split"], c["score"], c["log_loss"], c["ece"]) for c in result.cells]


@pytest.mark.slow
def test_all_default_methods_run_through():
    X, y = blobs(rows=90)
    options = SMALL | {"max_epochs": 3} | {"random_forest": {"n_estimators": 5}}
    options |= {"random_forest_tuned": {"estimator__n_estimators": 5, "n_bags": 2}}
    options |= {"gradient_boosting": {"max_iter": 3}}
    options |= {"gradient_boosting_tuned": {"estimator__max_iter": 3, "n_bags": 2}}
    result = compare(X, y, n_splits=2, method_options=options)
    assert [row["name"] for row in result.methods] == list(DEFAULT_METHODS)
    assert [row["failures"] for row in result.methods] == [0] * len(DEFAULT_METHODS)
    assert len(result.cells) == 2 * len(DEFAULT_METHODS)


@pytest.mark.slow
def test_methods_on_request_run_through():
    X, y = overlapping(150)
    extra = [name for name in method_names() if name not in DEFAULT_METHODS]
    options = SMALL | {"max_epochs": 2, "extra_trees_tuned": {"estimator__n_estimators": 5}}
    result = compare(X, y, methods=extra, n_splits=2, method_options=options)
    assert [cell["error"] for cell in result.cells] == [None] * len(result.cells)
    assert result.methods[0]["name"] == "cross_entropy_tuned"


def test_the_plain_dictionary_is_json_of_the_agreed_shape():
    X, y = blobs()
    result = quick(X, y)
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["metric"] == "f1_macro"
    assert plain["higher_is_better"] is True
    assert (plain["baseline"], plain["splits"]) == ("logistic", 3)
    assert plain["verdict"].keys() == {"sentence", "detail", "recommended"}
    row = plain["methods"][0]
    assert {"name", "label", "mean", "sd", "interval", "difference", "wins", "ties"} <= row.keys()
    assert {"losses", "rank", "log_loss", "brier", "ece", "seconds", "failures"} <= row.keys()
    assert {"mean", "interval", "probability"} <= row["difference"].keys()
    assert {"method", "split", "score"} <= plain["cells"][0].keys()
    assert row["wins"] + row["ties"] + row["losses"] == 3


def test_scores_are_those_of_scikit_learn_on_the_same_rows():
    X, y = overlapping(300)
    result = quick(X, y)
    for split in range(3):
        train, test = stratified_split(y, 0.2, split_seed(0, split))
        model = GaussianNB().fit(X[train], y[train])
        expected = f1_score(y[test], model.predict(X[test]), average="macro")
        found = [c for c in result.cells if (c["method"], c["split"]) == ("naive_bayes", split)]
        assert found[0]["score"] == pytest.approx(expected)


def test_all_networks_share_the_options_that_were_given():
    from eastward.comparison.methods import BUILT_IN, Settings

    settings = Settings(eastward.metrics.get("f1_macro"), {"hidden": (7, 5), "max_epochs": 9})
    networks = 0
    for method in BUILT_IN.values():
        model = method.estimator(settings, 3)
        if isinstance(model, EASTClassifier):
            networks += 1
            assert (model.hidden, model.max_epochs, model.random_state) == ((7, 5), 9, 3)
    assert networks == 10


def test_the_sceptics_baseline_is_the_default_without_its_metric_stage():
    from eastward.comparison.methods import BUILT_IN, Settings

    settings = Settings(eastward.metrics.get("f1_macro"))
    tuned, default = (
        BUILT_IN[name].estimator(settings, 0).get_params()
        for name in ("cross_entropy_tuned", "eastward")
    )
    assert {k: (tuned[k], default[k]) for k in tuned if tuned[k] != default[k]} == {
        "aligned": (False, True)
    }


@pytest.mark.slow
def test_two_workers_give_the_results_of_one():
    X, y = overlapping(200)
    methods = {"mine": RandomForestClassifier(10), "random": Random()}
    options = {"methods": methods, "n_splits": 2, "method_options": SMALL | {"max_epochs": 5}}
    one, two = compare(X, y, n_jobs=1, **options), compare(X, y, n_jobs=2, **options)
    assert scores(one) == scores(two)
    assert [row["rank"] for row in one.methods] == [row["rank"] for row in two.methods]
    assert scores(compare(X, y, random_state=1, **options)) != scores(one)


def test_global_state_is_left_as_it_was():
    X, y = blobs()
    torch.set_num_threads(2)
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002  # the global generator is the point
    expected = torch.rand(1), np.random.random()  # noqa: NPY002  # the same
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002  # the global generator is the point
    quick(X, y, methods={"random": Random(), "logistic": LogisticRegression()})
    assert (torch.rand(1), np.random.random()) == expected  # noqa: NPY002  # the same
    assert torch.get_num_threads() == 2


def test_preprocessing_sees_training_rows_alone():
    X, y = blobs()
    numbered = np.column_stack([np.arange(len(X)), X])
    RecordsRows.seen.clear()
    result = quick(numbered, y, preprocess=RecordsRows())
    expected = [stratified_split(y, 0.2, split_seed(0, s))[0].tolist() for s in range(3)]
    assert RecordsRows.seen == expected  # once for each split, not for each method
    assert scores(result) == scores(quick(X, y))


def test_a_failure_is_reported_and_the_rest_goes_on():
    X, y = blobs()
    methods = {"fragile": FailsSometimes(), "logistic": LogisticRegression()}
    result = quick(X, y, methods=methods, n_splits=8)
    row = result.methods[0]
    assert 0 < row["failures"] < 8
    assert row["errors"] == ["RuntimeError: out of luck"]
    assert result.methods[1]["failures"] == 0
    assert any("RuntimeError: out of luck" in line for line in result.verdict["detail"])
    assert "failures" in str(result)


def test_a_method_that_always_fails_shows_as_such_everywhere():
    X, y = blobs()
    methods = {"broken": FailsSometimes(always=True), "logistic": LogisticRegression()}
    result = quick(X, y, methods=methods)
    assert result.methods[0]["mean"] is None
    json.dumps(result.to_dict(), allow_nan=False)
    assert "broken" in result.to_markdown()
    assert "broken" in result._repr_html_()


def test_warnings_of_a_fit_are_kept_with_its_cell():
    X, y = blobs()
    result = quick(
        X,
        y,
        methods={"short": LogisticRegression(max_iter=1), "majority": Majority()},
        baseline="short",
    )
    assert "failed to converge" in result.cells[0]["warnings"][0]
    assert result.cells[1]["warnings"] == []
    assert result.cells[1]["log_loss"] is None  # it has no probabilities


class Complains(GaussianNB):
    def fit(self, X, y, sample_weight=None):
        logging.getLogger("eastward").warning("predictions of %d rows collapsed", len(X))
        return super().fit(X, y)


def test_what_the_trainer_logs_is_kept_with_its_cell_and_not_shown(caplog):
    X, y = blobs()
    result = quick(X, y, methods={"complains": Complains(), **QUICK})
    assert result.cells[0]["warnings"] == ["predictions of 96 rows collapsed"]
    assert caplog.records == []
    assert logging.getLogger("eastward").propagate


def test_what_is_stored_is_not_computed_again(tmp_path):
    X, y = blobs()
    methods = {"majority": Majority(), "logistic": LogisticRegression()}
    Majority.fits = 0
    first = quick(X, y, methods=methods, store=tmp_path)
    assert Majority.fits == 3
    again = quick(X, y, methods=methods, store=tmp_path)
    assert Majority.fits == 3
    assert again.to_dict() == first.to_dict()
    longer = quick(X, y, methods=methods, store=tmp_path, n_splits=5, thorough=True)
    assert Majority.fits == 5
    assert longer.cells[: len(first.cells)] == first.cells


@pytest.mark.parametrize(
    "change",
    [
        {"metric": "accuracy"},
        {"test_size": 0.3},
        {"random_state": 1},
        {"sample_weight": np.linspace(1, 2, 120)},
        {"preprocess": RecordsRows()},
        {"X": blobs()[0] + 1},
        {"y": (blobs()[1] + 1) % 3},
        {"methods": {"majority": Majority(), "logistic": LogisticRegression(C=0.1)}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changes_the_result_is_computed_again(tmp_path, change):
    X, y = blobs()
    options = {
        "X": X,
        "y": y,
        "methods": {"majority": Majority(), "logistic": LogisticRegression()},
    }
    quick(**options, store=tmp_path)
    count = len(list(tmp_path.glob("*.json")))
    quick(**(options | change), store=tmp_path)
    changed = len(list(tmp_path.glob("*.json"))) - count
    assert changed == (3 if "methods" in change else 6)


def test_failures_are_tried_again(tmp_path):
    X, y = blobs()
    methods = {"broken": FailsSometimes(always=True), "logistic": LogisticRegression()}
    quick(X, y, methods=methods, store=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 3


class StopsAfter:
    """A progress callback that ends the run like a user would."""

    def __init__(self, cells):
        self.cells, self.seen = cells, []

    def __call__(self, progress):
        self.seen.append((progress.done, progress.total))
        if progress.done == self.cells:
            raise KeyboardInterrupt


def test_a_stopped_comparison_goes_on_where_it_was(tmp_path):
    X, y = blobs()
    methods = {"majority": Majority(), "logistic": LogisticRegression()}
    with pytest.raises(KeyboardInterrupt):
        quick(X, y, methods=methods, store=tmp_path, progress=StopsAfter(3))
    assert len(list(tmp_path.iterdir())) == 3
    watcher = StopsAfter(None)
    resumed = quick(X, y, methods=methods, store=tmp_path, progress=watcher)
    assert watcher.seen == [(3, 6), (4, 6), (5, 6), (6, 6)]
    assert scores(resumed) == scores(quick(X, y, methods=methods))


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.3])
def test_a_killed_process_leaves_whole_cells_only(tmp_path, delay):
    code = (
        "import sys; from comparison_problems import *; from eastward import compare\n"
        "X, y = blobs()\n"
        "methods = {'random': Random(), 'majority': Majority()}\n"
        "compare(X, y, methods=methods, baseline='random', n_splits=2000, store=sys.argv[1])\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parent)
    try:
        while len(list(tmp_path.glob("*.json"))) < 5:
            assert child.poll() is None
            time.sleep(0.01)
        time.sleep(delay)
    finally:
        child.kill()
        child.wait()
    for path in tmp_path.glob("*.json"):
        assert json.loads(path.read_text())["error"] is None


class Interrupts(Callback):
    def epoch_end(self, run):
        raise KeyboardInterrupt


def test_a_network_interrupted_by_the_user_is_not_scored(tmp_path):
    X, y = blobs()
    mine = EASTClassifier(hidden=(4,), recipe="cross_entropy", callbacks=[Interrupts()])
    with pytest.raises(KeyboardInterrupt):
        quick(X, y, methods={"mine": mine, "logistic": LogisticRegression()}, store=tmp_path)
    assert list(tmp_path.glob("*.json")) == []


def test_a_damaged_cell_is_computed_again(tmp_path, caplog):
    store = CellStore(tmp_path / "new" / "folder")
    store.save("key", {"score": 0.1})
    (store.folder / "key.json").write_text('{"score": 0.')
    assert store.load("key") is None
    assert "cannot be read" in caplog.text
    store.save("key", {"score": 0.1 + 0.2})
    assert store.load("key") == {"score": 0.1 + 0.2}


def test_a_cell_that_cannot_be_written_leaves_nothing(tmp_path):
    store = CellStore(tmp_path)
    with pytest.raises(ValueError, match="Out of range"):
        store.save("key", {"score": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_names_in_the_store_are_the_same_in_another_process():
    code = (
        "import numpy as np, pandas as pd, eastward as ew\n"
        "from eastward.comparison.store import fingerprint\n"
        "frame = pd.DataFrame({'a': [1.5, 2.0], 'b': ['x', 'y']})\n"
        "parts = frame, np.arange(3), ew.metrics.get('f1_macro'), ew.EASTClassifier(hidden=(3,))\n"
        "name = fingerprint('X', *parts)"
    )
    there = subprocess.run(
        [sys.executable, "-c", f"{code}\nprint(name)"], capture_output=True, text=True, check=True
    ).stdout
    here: dict = {}
    exec(code, here)
    assert there.strip() == here["name"]


def test_frames_with_equal_values_have_one_name():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    assert fingerprint("X", frame) == fingerprint("X", frame.copy())
    assert fingerprint("X", frame) == fingerprint("X", frame.iloc[::-1].iloc[::-1])
    assert fingerprint("X", frame) != fingerprint("X", frame.iloc[::-1])
    assert fingerprint("X", frame) != fingerprint("X", frame.rename(columns={"a": "c"}))


def test_weights_reach_training_and_judging():
    X, y = overlapping(200)
    weight = np.where(np.arange(200) % 3, 1.0, 0.0)
    weighted = quick(X, y, sample_weight=weight)
    assert scores(weighted) != scores(quick(X, y))
    doubled = quick(X, y, sample_weight=weight * 2.0)
    assert doubled.cells[0]["log_loss"] == pytest.approx(weighted.cells[0]["log_loss"])
    train, test = stratified_split(y, 0.2, split_seed(0, 0))
    model = GaussianNB().fit(X[train], y[train], sample_weight=weight[train])
    options = {"average": "macro", "sample_weight": weight[test]}
    assert weighted.cells[0]["score"] == pytest.approx(
        f1_score(y[test], model.predict(X[test]), **options)
    )
    without = quick(X, y, sample_weight=weight, methods={"near": KNeighborsClassifier(), **QUICK})
    assert (
        "Near fitted without sample weights, which it does not support."
        in without.verdict["detail"]
    )


def test_labels_may_be_words_and_betas_may_name_them():
    X, y = overlapping(200)
    words = np.where(y == 1, "fraud", "honest")
    options = {"metric_options": {"beta": {"fraud": 5.0}}}
    result = quick(X, words, "f_beta", **options)
    indexed = quick(X, 1 - y, eastward.metrics.get("f_beta", beta={0: 5.0}))
    assert scores(result) == scores(indexed)


def test_a_frame_of_numbers_is_taken_as_it_is():
    X, y = blobs()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert scores(quick(frame, pd.Series(y))) == scores(quick(X, y))


def test_an_only_row_of_a_class_is_trained_on():
    X, y = blobs()
    y[0] = 3
    assert [cell["error"] for cell in quick(X, y).cells] == [None] * 6


@pytest.mark.slow
def test_a_time_budget_stops_networks_and_is_said_where_it_cannot():
    X, y = overlapping(300)

    class Slow(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            time.sleep(0.8)
            return super().fit(X, y)

    options = {"hidden": (16,), "max_epochs": 100_000, "patience": 100_000}
    started = time.perf_counter()
    result = compare(
        X,
        y,
        methods=[("slow", Slow()), "eastward"],
        baseline="eastward",
        n_splits=2,
        budget=0.5,
        method_options=options,
    )
    assert time.perf_counter() - started < 30
    assert result.cells[0]["notes"] == ["took longer than the time budget, which it cannot enforce"]
    assert result.methods[1]["failures"] == 0


def test_names_from_outside_are_escaped():
    X, y = blobs()
    evil = "<script>alert(1)</script>|x"
    result = quick(X, y, methods={evil: GaussianNB(), "logistic": LogisticRegression()})
    assert "<script>" not in result._repr_html_()
    assert "&lt;script&gt;" in result._repr_html_()
    assert "<script>" not in result.to_markdown()
    assert "| &lt;script&gt;alert(1)&lt;/script&gt;\\|x |" in result.to_markdown()


def test_tables_show_every_method_best_first():
    X, y = blobs(distance=1.0)
    result = quick(X, y, methods={"majority": Majority(), **QUICK})
    lines = str(result).splitlines()
    assert lines[2].split()[0] in QUICK
    assert lines[4].split()[0] == "majority"
    assert result.verdict["sentence"] in str(result)
    assert result.to_markdown().count("\n| ") == 4


def test_words_in_an_object_array_may_name_a_class_of_one_row():
    X, y = blobs()
    words = np.array(["ash", "oak", "elm"], dtype=object)[y]
    words[0] = "fir"
    tuned = TunedDecisionClassifierCV(GaussianNB(), n_bags=1)
    result = quick(X, words, methods={"tuned": tuned, "logistic": LogisticRegression()})
    assert [cell["error"] for cell in result.cells] == [None] * 6
    assert any(
        "only one sample each of class 'fir'" in line for line in result.cells[0]["warnings"]
    )
