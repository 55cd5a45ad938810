"""The other commands, their help, and what a program sees."""

from __future__ import annotations

import json
import logging
import re
import shlex
import sys
import time
from pathlib import Path

import pytest
import typer
from command_runs import SMALL, claims, fresh, run

from eastward import metrics
from eastward.cli import app
from eastward.cli.compare import LogLines
from eastward.cli.demo import _commands as demo_commands
from eastward.cli.stages import stage
from eastward.comparison import DEFAULT_METHODS, Progress, method_names

COMMANDS = ["demo", "compare", "train", "evaluate", "predict", "report", "metrics", "datasets"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    done = run(name, "--help")
    assert done.code == 0
    assert "--json" in done.out
    if name != "demo":
        assert f"eastward {name}" in done.out.partition("Examples:")[2]


def test_the_overview_lists_all_commands_and_the_exit_codes():
    done = run("--help")
    assert all(f"\n  {name} " in done.out for name in COMMANDS)
    assert "Exit codes: 0 success, 1 unexpected error, 2 mistake" in done.out


def test_a_wrong_option_is_a_usage_error():
    done = run("train", "--speed")
    assert done.code == 2
    assert "--speed" in done.err


def test_all_metrics_are_listed_with_formula_and_range():
    done = run("metrics", "--json")
    assert [row["name"] for row in done.json] == metrics.names()
    by_name = {row["name"]: row for row in done.json}
    assert by_name["matthews_corrcoef"]["low"] == -1
    assert by_name["expected_cost"]["higher_is_better"] is False
    assert by_name["f1_macro"]["formula"] == "2 tp / (2 tp + fp + fn), macro average"
    shown = run("metrics", "kappa")
    assert "cohen_kappa_quadratic" in shown.out
    assert "f1" not in shown.out
    assert "Did you mean" in run("metrics", "kapa").err


def test_embedded_sets_are_listed_and_written(tmp_path, monkeypatch):
    monkeypatch.delenv("EASTWARD_DATA", raising=False)
    done = run("datasets", "--json")
    assert {"name": "iris", "target": "species", "about": "sizes of flowers"} in done.json[
        "embedded"
    ]
    assert done.json["tables"] == []
    done = run("datasets", "wine", "-o", tmp_path / "wine.csv")
    assert "178 rows written" in done.out
    assert (tmp_path / "wine.csv").read_text().count("\n") == 179
    assert run("datasets", "vine", "-o", tmp_path / "v.csv").code == 2
    assert run("datasets", "wine").code == 2


def test_tables_of_a_folder_of_ones_own_are_listed(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    claims(20).to_parquet(tmp_path / "sub" / "claims.parquet")
    (tmp_path / "notes.txt").write_text("no table")
    monkeypatch.setenv("EASTWARD_DATA", str(tmp_path))
    done = run("datasets", "--json")
    assert [row["name"] for row in done.json["tables"]] == ["sub/claims.parquet"]
    assert "sub/claims.parquet" in run("datasets").out
    monkeypatch.setenv("EASTWARD_DATA", str(tmp_path / "nowhere"))
    assert "EASTWARD_DATA of datasets must be a folder" in run("datasets").err


def test_a_report_is_written_again_from_its_numbers(trained, tmp_path):
    done = run("report", trained, "-o", tmp_path / "again.md", "--json")
    assert done.code == 0, done.err
    assert done.json["report"].endswith("again.md")
    assert "fraud in claims" in (tmp_path / "again.md").read_text()
    done = run("report", tmp_path)
    assert done.code == 2
    assert "must be a folder with a summary.json" in done.err


def test_a_comparison_ends_with_a_verdict_and_goes_on_where_it_stopped(table, tmp_path):
    words = ["compare", table, "-t", "fraud", "--ignore", "claim", "--splits", "2", "--jobs", "1"]
    words += ["--methods", "cross_entropy,logistic_regression", "--hidden", "8", "--epochs", "3"]
    done = run(*words, "-o", tmp_path / "c")
    assert done.code == 0, done.err
    assert "logistic_regression" in done.out
    assert "against baseline" in done.out
    assert (
        "6/6" in done.err
    )  # the baseline, cross-entropy with a tuned decision, is added automatically
    summary = json.loads((tmp_path / "c" / "summary.json").read_text())
    assert summary["verdict"]["sentence"] in " ".join(done.out.split())
    assert (tmp_path / "c" / "report.html").exists()
    again = run(*words, "-o", tmp_path / "c", "--json")
    assert again.json["verdict"] == summary["verdict"]
    assert len(again.json["cells"]) == 6
    assert "6/6 loaded from an earlier run" in run(*words, "-o", tmp_path / "c").err


def test_costs_and_preferences_reach_the_comparison_and_its_report(table, tmp_path):
    (tmp_path / "costs.csv").write_text("0,1\n10,0\n")
    words = ["compare", table, "-t", "fraud", "--splits", "2", "--jobs", "1", "--hidden", "8"]
    words += ["--methods", "logistic_regression", "--epochs", "2", "-o", tmp_path / "c"]
    done = run(*words, "--cost", tmp_path / "costs.csv")
    assert done.code == 0, done.err
    assert "expected_cost, mean of 2 splits, lower is better" in done.out
    assert (
        json.loads((tmp_path / "c" / "summary.json").read_text())["metric"]["name"]
        == "expected_cost"
    )
    done = run(*words, "--prefer", "recall:yes=3", "--json")
    assert done.json["metric"] == "f_beta"


@pytest.mark.slow
def test_estimators_of_ones_own_are_compared_in_several_processes(table, tmp_path, monkeypatch):
    code = "from sklearn.naive_bayes import GaussianNB\nclass OwnBayes(GaussianNB):\n    pass\n"
    (tmp_path / "my_models.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    words = ["compare", table, "-t", "fraud", "--splits", "2", "--jobs", "2", "--hidden", "8"]
    words += ["--methods", "logistic_regression", "--epochs", "2", "--json"]
    done = run(*words, "--estimator", "bayes=my_models:OwnBayes")
    assert done.code == 0, done.err
    names = {row["name"]: row["failures"] for row in done.json["methods"]}
    assert names == {"cross_entropy_tuned": 0, "logistic_regression": 0, "bayes": 0}


@pytest.mark.parametrize("word", ["svm", "svm=", "svm=sklearn.svm", "svm=sklearn.svm:Nothing"])
def test_an_estimator_that_is_not_there_is_explained(table, word):
    done = run("compare", table, "-t", "fraud", "--estimator", word)
    assert done.code == 2
    assert "must be NAME=MODULE:OBJECT, such as svm=sklearn.svm:SVC" in done.err


def test_the_help_of_compare_names_every_method():
    shown = " ".join(run("compare", "--help").out.split())
    for name in method_names():
        star = "" if name in (*DEFAULT_METHODS, "ensemble") else "*"
        assert re.search(rf"[ (]{name}{re.escape(star)}[,;. ]", shown), name


@pytest.mark.slow
def test_names_from_data_are_never_read_as_markup(tmp_path):
    frame = claims(80).replace({"fraud": {"yes": "[red]yes[/red]", "no": "[/]"}})
    frame.to_csv(tmp_path / "a.csv", index=False)
    words = ["--hidden", "4", "--epochs", "2", "--folds", "2", "--quiet"]
    done = run("train", tmp_path / "a.csv", "-t", "fraud", "-o", tmp_path / "[bold]m", *words)
    assert done.code == 0, done.err
    assert "[red]yes[/red]" in done.out
    assert "[bold]m" in done.out


def test_an_unexpected_error_is_one_line_with_a_way_to_see_more(trained, table, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("the moon is full")

    monkeypatch.setattr("eastward.model_folder.load_model", broken)
    done = run("evaluate", trained, table)
    assert done.code == 1
    assert "unexpected RuntimeError: the moon is full" in done.err
    assert "EASTWARD_TRACEBACK=1" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("EASTWARD_TRACEBACK", "1")
    assert "Traceback" in run("evaluate", trained, table).err


def test_help_works_without_the_packages_of_the_commands():
    code = "import sys; from eastward.cli import app; print(sorted(set(sys.modules) & {'skrub', 'sklearn', 'pandas'}))"
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_commands_of_the_demo_can_be_typed():
    program = typer.main.get_command(app)
    lines = demo_commands(Path("my demo"), ["cross_entropy_tuned", "ensemble"], "ensemble")
    for line in lines.values():
        _, name, *words = shlex.split(line)
        context = program.commands[name].make_context(name, words)
        assert context.params.get("hidden") in (None, "64,32")
        assert str(context.params.get("model", "my demo")) == "my demo"


@pytest.mark.slow
def test_the_demo_compares_trains_and_names_its_report(tmp_path):
    done = fresh("demo", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "ensemble" in done.out
    assert "eastward-demo/report.html" in done.out
    folder = tmp_path / "eastward-demo"
    assert (folder / "report.html").stat().st_size < 5_000_000
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["method"]["name"] == summary["verdict"]["recommended"]
    assert fresh("evaluate", folder, tmp_path / "no.csv").code == 2


def test_progress_in_a_log_is_a_line_every_half_minute():
    moments = iter([0.0, 10.0, 29.0, 31.0, 40.0, 50.0])
    lines: list[str] = []
    report = LogLines(lines.append, clock=lambda: next(moments))
    for done in range(1, 7):
        cell = {"method": "forest", "split": done - 1, "score": 0.5}
        report(Progress(done, 6, cell, None))
    assert [line.split()[0] for line in lines] == ["1/6", "4/6", "6/6"]


def test_a_stage_prints_its_start_and_regular_progress(monkeypatch, capfd):
    monkeypatch.setattr("eastward.cli.stages.SECONDS_BETWEEN_LINES", 0.05)
    handlers = list(logging.getLogger("eastward").handlers)
    with stage("training a [b]model[/b] on 8 rows"):
        logging.getLogger("eastward").info("%s epoch %d", "aligned", 3)
        time.sleep(0.3)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "training a [b]model[/b] on 8 rows"
    assert re.fullmatch(r"training .* rows: 0 s so far; aligned epoch 3", lines[1])
    assert len(lines) >= 3
    assert logging.getLogger("eastward").handlers == handlers
    with stage("training", quiet=True):
        logging.getLogger("eastward").info("nothing")
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_training_without_a_terminal_writes_a_line_for_each_stage(table, tmp_path):
    loud = [word for word in SMALL if word != "--quiet"]
    done = run("train", table, "-t", "fraud", "-o", tmp_path / "m", "--method", "network", *loud)
    assert done.code == 0, done.err
    assert "training EASTClassifier on 192 rows" in done.err
    assert "judging by 48 held-out rows" in done.err
