"""`eastward train --method`: every method that `compare` knows becomes a folder that predicts the same again."""

from __future__ import annotations

import json
import shlex
import shutil

import numpy as np
import pytest
import skops.io
import typer
from command_runs import claims, run
from sklearn.dummy import DummyClassifier

from eastward.cli.recommended import RECOMMENDED, defaults_from, remember
from eastward.comparison import choosing, method_names
from eastward.comparison.methods import BUILT_IN, Settings
from eastward.metrics import get
from eastward.model_folder import load_model
from eastward.saved_classifiers import load_classifier, save_classifier

QUICK = ["--hidden", "8", "--epochs", "3", "--quiet"]
NETWORK = {"hidden": (8,), "max_epochs": 2}


class Foreign(DummyClassifier):
    """Somebody's own class."""


def numbers(rows: int = 150):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(rows, 3)).astype(np.float32)
    return features, np.where(features[:, 0] + rng.normal(size=rows) > 1, "yes", "no")


@pytest.mark.parametrize("name", method_names())
def test_every_method_of_compare_is_saved_and_predicts_the_same(name, tmp_path):
    features, labels = numbers()
    model = BUILT_IN[name].estimator(Settings(get("f1_macro"), network=NETWORK), 0)
    model.fit(features, labels)
    save_classifier(model, tmp_path / "m")
    again = load_classifier(tmp_path / "m")
    assert np.array_equal(again.predict(features), model.predict(features))
    assert np.allclose(again.predict_proba(features), model.predict_proba(features), atol=1e-12)
    for path in (tmp_path / "m").rglob("*"):
        # The length of a safetensors header may be any byte.
        plain = path.is_dir() or path.suffix == ".safetensors"
        assert plain or not path.read_bytes().startswith(b"\x80"), path


@pytest.fixture(scope="module")
def forest(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "forest"
    words = ["train", table, "-t", "fraud", "-o", folder, "--ignore", "claim"]
    done = run(*words, "--method", "random_forest_tuned", "--prefer", "recall:yes=3")
    assert done.code == 0, done.err
    assert "method   random forest with a tuned threshold: as requested" in done.out
    return folder


@pytest.mark.slow
def test_tuned_trees_have_a_report_and_are_evaluated_by_their_metric(forest, table, tmp_path):
    summary = json.loads((forest / "summary.json").read_text())
    assert summary["method"]["name"] == "random_forest_tuned"
    assert summary["training"]["stages"][0]["tuned"] > 0
    done = run("evaluate", forest, table, "--report", tmp_path / "e.html", "--json")
    assert done.code == 0, done.err
    assert done.json["metrics"][0]["name"] == "f_beta"
    model = load_model(forest)
    assert model.metric.options["beta"] == {1: 3.0}
    worth = np.exp(model.log_probabilities(claims())) @ model.decision.matrix
    assert np.array_equal(model.classes[worth.argmax(1)], model.predict(claims()))


@pytest.mark.slow
def test_auto_is_the_ensemble_and_says_why(table, tmp_path):
    done = run("train", table, "-t", "fraud", "-o", tmp_path / "m", *QUICK)
    assert done.code == 0, done.err
    assert (
        "method   EASTEnsembleClassifier: an ensemble of networks and trees, the best method on average"
        in done.out
    )
    assert (tmp_path / "m" / "model" / "ensemble.json").is_file()
    stages = json.loads((tmp_path / "m" / "summary.json").read_text())["training"]["stages"]
    assert [stage["name"] for stage in stages] == [
        "networks",
        "lightgbm",
        "random forest",
        "mean of the parts",
    ]
    predicted = tmp_path / "p.csv"
    done = run("predict", tmp_path / "m", table, "-o", predicted, "--json")
    assert done.json["rows"] == 240


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (1_000, []),
        (150_000, ["random forest from 100,000"]),
        (2_000_000, ["networks from", "lightgbm from", "random forest from 100,000"]),
    ],
)
def test_auto_says_which_parts_learn_from_a_sample(rows, told):
    choice = choosing.choose_method(rows)
    assert choice.name == "ensemble"
    assert [each in choice.reason for each in told] == [True] * len(told)
    assert choice.reason.count(" from ") == len(told) + bool(told)


def test_options_of_a_network_mean_a_network(trained):
    """The fixture gives --folds and no --method."""
    assert json.loads((trained / "summary.json").read_text())["method"]["name"] == "eastward"


MISTAKES = [
    (["--method", "random_forrest"], "did you mean 'random_forest'"),
    (["--method", "ensemble", "--folds", "2"], "--folds of train must be left out for ensemble"),
    (["--method", "ensemble", "--recipe", "paper"], "--recipe of train must be left out"),
    (["--method", "east_paper", "--coverage", "0.9"], "Take --method ensemble or network."),
    (["--method", "focal", "--coverage", "0.9"], "Take --method ensemble or network."),
    (["--method", "cross_entropy", "--coverage", "0.9"], "cross_entropy_tuned or ensemble"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_what_does_not_fit_a_method_is_refused(table, tmp_path, words, message):
    done = run("train", table, "-t", "fraud", "-o", tmp_path / "m", *words)
    assert done.code == 2
    assert message.lower() in " ".join(done.err.split()).lower()


@pytest.fixture(scope="module")
def compared(table, tmp_path_factory):
    """A comparison of two quick methods, with its folder."""
    folder = tmp_path_factory.mktemp("comparisons") / "c"
    names = "logistic_regression_tuned,cross_entropy_tuned"
    words = ["compare", table, "-t", "fraud", "--ignore", "claim", "-m", "f1", "--methods", names]
    done = run(*words, "--splits", "2", "--jobs", "1", "-o", folder, *QUICK[:-1])
    assert done.code == 0, done.err
    return folder, done


@pytest.mark.slow
def test_compare_ends_in_the_command_that_trains_its_winner(compared, tmp_path):
    folder, done = compared
    summary = json.loads((folder / "summary.json").read_text())
    winner = summary["verdict"]["recommended"]
    command = done.out.strip().splitlines()[-1].removeprefix("train it with:  ")
    assert command == summary["commands"]["train"]
    assert command.endswith(f"--method {winner} --out model")
    trained = run(*command.split()[1:-1], tmp_path / "model")
    assert trained.code == 0, trained.err
    assert json.loads((tmp_path / "model" / "task.json").read_text())["method"] == winner


@pytest.mark.slow
def test_train_from_takes_data_metric_and_winner(compared, tmp_path):
    folder, _ = compared
    done = run("train", "--from", folder, "-o", tmp_path / "m", "--json")
    assert done.code == 0, done.err
    winner = json.loads((folder / "recommended.json").read_text())["method"]
    assert done.json["method"]["name"] == winner
    assert done.json["metric"]["name"] == "f1"
    assert "recommended by the comparison" in (tmp_path / "m" / "README.md").read_text()
    assert "eastward compare" not in " ".join(done.json["verdict"]["detail"])
    assert "claim" not in [c["name"] for c in load_model(tmp_path / "m").task["columns"]]
    done = run("train", "--from", folder, "-o", tmp_path / "n", "-m", "f1_macro", "--json")
    assert done.json["metric"]["name"] == "f1_macro"


@pytest.mark.parametrize(
    ("method", "kept"), [("random_forest_tuned", True), ("random_forest", False)]
)
@pytest.mark.parametrize(
    "demand",
    [["--subject-to", "recall[yes] >= 0.9"], ["--abstain-cost", "0.1"], ["--coverage", "0.9"]],
)
def test_the_command_keeps_demands_on_the_decision_if_the_method_can(method, kept, demand):
    from types import SimpleNamespace

    import typer

    from eastward.cli import app
    from eastward.cli.recommended import train_command

    command = typer.main.get_command(app).commands["compare"]
    context = command.make_context("compare", ["claims.csv", "-t", "fraud", *demand])
    told = SimpleNamespace(params=context.params, command=command, info_name="compare")
    expected = f" {shlex.join(demand)}" if kept else ""
    assert train_command(told, method) == (
        f"eastward train claims.csv --target fraud{expected} --method {method} --out model"
    )


def test_weights_count_in_a_comparison_and_in_its_command(tmp_path):
    """A row of weight three is the row three times: what is judged tells."""
    frame = claims(120).assign(times=np.where(np.arange(120) % 2, 3.0, 1.0))
    frame.to_csv(tmp_path / "claims.csv", index=False)
    wanted = ["--methods", "logistic_regression,random_forest", "--splits", "2", "--json"]
    done = run("compare", tmp_path / "claims.csv", "-t", "fraud", "--weight", "times", *wanted)
    assert done.code == 0, done.err
    assert "--weight times" in done.json["commands"]["train"]
    plain = run("compare", tmp_path / "claims.csv", "-t", "fraud", "--ignore", "times", *wanted)
    scores = [[cell["score"] for cell in one.json["cells"]] for one in (done, plain)]
    assert scores[0] != scores[1]


def test_train_from_a_missing_comparison_is_refused(tmp_path):
    done = run("train", "--from", tmp_path, "-o", tmp_path / "m")
    assert done.code == 2
    assert "must be the folder of a finished" in " ".join(done.err.split())


def test_a_forged_tree_is_refused(forest, tmp_path):
    folder = shutil.copytree(forest / "model", tmp_path / "m")
    model = skops.io.load(folder / "estimator.skops", trusted=["sklearn.tree._tree.Tree"])
    state = model.estimators_[0].tree_.__getstate__()
    state["nodes"]["left_child"][0] = 10**6
    model.estimators_[0].tree_.__setstate__(state)
    skops.io.dump(model, folder / "estimator.skops")
    with pytest.raises(ValueError, match="branches that lead nowhere"):
        load_classifier(folder)


def test_a_classifier_that_would_run_code_is_not_saved(tmp_path):
    features, labels = numbers()
    with pytest.raises(ValueError, match="must be made of parts of eastward and scikit-learn"):
        save_classifier(Foreign().fit(features, labels), tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_comparison_won_by_an_estimator_of_ones_own_replaces_the_winner_before(tmp_path):
    (tmp_path / RECOMMENDED).write_text('{"method": "random_forest"}\n')
    remember(None, "knows", tmp_path, own=True)
    with pytest.raises(typer.BadParameter, match="recommends 'knows', an estimator of your own"):
        defaults_from(None, tmp_path)
    remember(None, None, tmp_path, own=True)
    with pytest.raises(typer.BadParameter, match="recommends nothing"):
        defaults_from(None, tmp_path)
