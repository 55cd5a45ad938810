"""Four threads and two processes use everything that is shared, without deadlocks and without mixing results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.utils.data import DataLoader, TensorDataset

import eastward as ew
from eastward._files import write_whole
from eastward._random_numbers import seeded
from eastward.comparison.store import CellStore
from eastward.reporting import report_summary, write_report

sys.path.append(str(Path(__file__).parent.parent / "cli"))
from command_runs import claims, command

X = np.random.default_rng(0).normal(size=(90, 3))
Y = np.digitize(X[:, 0], [-0.6, 0.6])
THREADS = 4


def in_threads(call, times: int = 8) -> list:
    """What a call returns in four threads at once, which start together."""
    ready = threading.Barrier(THREADS)

    def task(number: int):
        if number < THREADS:
            ready.wait()
        return call(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(task, range(times)))


def loss_and_gradient(metric: str, seed: int) -> tuple[float, torch.Tensor]:
    logits = torch.randn(200, 3, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    loss = ew.EASTLoss(metric)(logits, torch.arange(200) % 3)
    loss.backward()
    return loss.item(), logits.grad


@pytest.mark.parametrize("metric", ["f1_macro", "matthews_corrcoef", "cohen_kappa_quadratic"])
def test_losses_in_threads_agree_with_one_thread(metric):
    alone = [loss_and_gradient(metric, seed) for seed in range(8)]
    for one, other in zip(alone, in_threads(lambda k: loss_and_gradient(metric, k)), strict=True):
        assert one[0] == other[0]
        assert torch.equal(one[1], other[1])


def test_one_loss_in_four_threads():
    loss = ew.EASTLoss("f1_macro")
    logits, targets = torch.randn(200, 3), torch.arange(200) % 3
    assert set(in_threads(lambda _: loss(logits, targets).item())) == {loss(logits, targets).item()}


MODELS = {
    "network": lambda: ew.EASTClassifier(hidden=(4,), max_epochs=3, n_folds=2, random_state=0),
    "tuned": lambda: ew.TunedDecisionClassifierCV(LogisticRegression(), cv=3, random_state=0),
    "boosting": lambda: ew.EASTBoostingClassifier(n_estimators=5, random_state=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_predicts_in_threads_as_alone(name):
    model = MODELS[name]().fit(X, Y)
    expected = model.predict_proba(X)
    assert all(
        np.array_equal(found, expected) for found in in_threads(lambda _: model.predict_proba(X))
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_fitted_in_threads_agree_with_one_thread(name):
    expected = MODELS[name]().fit(X, Y).predict_proba(X)
    found = in_threads(lambda _: MODELS[name]().fit(X, Y).predict_proba(X), times=4)
    assert [np.abs(one - expected).max() for one in found] == [0.0] * 4


LAYERS = (torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
NETWORK = torch.nn.Sequential(*LAYERS)


def aligned(seed: int) -> torch.Tensor:
    """The weights of a network that `align` trained further, dropout included."""
    rows = TensorDataset(torch.from_numpy(X).float(), torch.from_numpy(Y))
    loaders = DataLoader(rows, 30, shuffle=True), DataLoader(rows, 30)
    # Any evidence is above this, so what was trained is kept.
    options = {"stages": ("head", "network"), "epochs": 2, "evidence": -1e9, "random_state": seed}
    found = ew.align(NETWORK, *loaders, **options)
    return torch.cat([weight.detach().flatten() for weight in found.model.parameters()])


def tuned(seed: int) -> dict:
    """What a search finds; its networks have dropout."""
    fixed = {"hidden": (4,), "max_epochs": 3, "n_folds": 1, "random_state": seed, "dropout": 0.5}
    return ew.tune(X, Y, trials=2, parameters=fixed).score


def accumulated(seed: int) -> torch.Tensor:
    """What dropout leaves in the second pass minus what it leaves in the first."""
    dropout = torch.nn.Dropout(0.5)
    weight = torch.nn.Parameter(torch.ones(3, 3))
    rows = torch.randn(90, 3, generator=torch.Generator().manual_seed(seed))
    kept = []

    def network(inputs: torch.Tensor) -> torch.Tensor:
        kept.append(dropout(inputs))
        return kept[-1] @ weight

    ew.exact_backward(ew.EASTLoss(), network, [(rows, torch.from_numpy(Y))])
    return kept[1] - kept[0]


@pytest.mark.slow
@pytest.mark.parametrize("call", [aligned, tuned])
def test_what_is_trained_in_threads_is_that_of_one(call):
    expected = [call(0), call(1)]
    for number, found in enumerate(in_threads(lambda k: call(k % 2))):
        assert torch.equal(*map(torch.as_tensor, (found, expected[number % 2])))


def test_both_passes_of_exact_backward_draw_the_same_numbers_in_threads():
    assert all(not difference.any() for difference in in_threads(accumulated, times=40))


@pytest.mark.slow
def test_a_network_loads_beside_a_fit(tmp_path):
    MODELS["network"]().fit(X, Y).save(tmp_path / "m")
    expected = MODELS["network"]().fit(X, Y).predict_proba(X)

    def fit_or_load(number: int):
        if number % 2:
            return ew.EASTClassifier.load(tmp_path / "m").predict_proba(X)
        return MODELS["network"]().fit(X, Y).predict_proba(X)

    assert all(np.array_equal(found, expected) for found in in_threads(fit_or_load))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_a_thread_that_it_does_not_have():
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with seeded(0):
            taken.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    taken.wait()
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends a child that waits
        with seeded(0):
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    done.set()
    other.join()
    assert status == 0


def test_a_model_saved_in_threads_is_whole(tmp_path):
    model = MODELS["network"]().fit(X, Y)

    def save_and_load(_: int):
        model.save(tmp_path / "m")
        return ew.EASTClassifier.load(tmp_path / "m").predict_proba(X)

    found = in_threads(save_and_load, times=40)
    assert all(np.array_equal(one, model.predict_proba(X)) for one in found)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("what", ["file", "report", "cell"])
def test_a_file_written_in_threads_is_one_of_theirs(tmp_path, what):
    store = CellStore(tmp_path)

    def write(number: int) -> None:
        if what == "file":
            write_whole(tmp_path / "a.json", json.dumps({"who": [number] * 20_000}).encode())
        elif what == "report":
            write_report(report_summary(f"Number {number}", "f1_macro"), tmp_path / "a.json")
        else:
            store.save("a", {"who": [number] * 20_000})

    in_threads(write, times=40)
    document = json.loads((tmp_path / "a.json").read_text())
    assert document.get("title", "Number") if what == "report" else len(set(document["who"])) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def both(*commands: list[str]) -> list[subprocess.CompletedProcess[str]]:
    """Several processes at once."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = [subprocess.Popen(words, text=True, env=environment, **pipes) for words in commands]
    said = [process.communicate(timeout=300) for process in started]
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *texts)
        for process, texts in zip(started, said, strict=True)
    ]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "claims.csv"
    claims(80).drop(columns=["claim", "words"]).to_csv(path, index=False)
    return path


SMALL = ("--hidden", "4", "--epochs", "2")
METHODS = "cross_entropy,eastward,logistic_regression"
SHARED = {
    "a store of cells": (
        ("compare", "TABLE", "-t", "fraud", "-o", "OUT", "--splits", "2", "--jobs", "1", *SMALL),
        ("--methods", METHODS, "--json"),
    ),
    "a study": (
        ("tune", "TABLE", "-t", "fraud", "-o", "OUT", "--trials", "4", "--epochs", "2"),
        (),
    ),
    "a model": (
        ("train", "TABLE", "-t", "fraud", "-o", "OUT", "--method", "logistic_regression"),
        ("--overwrite",),
    ),
}


def untimed(methods):
    """Results without the seconds they took, which belong to the process that ran a cell."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in methods]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_two_processes_share(table, tmp_path, name):
    words = [word for part in SHARED[name] for word in part]
    places = {"TABLE": table, "OUT": tmp_path / "out"}
    given = command(*(places.get(word, word) for word in words))
    done = both(given, given)
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    left = [path.name for path in (tmp_path / "out").rglob(".*") if path.suffix == ".part"]
    assert not left
    if name == "a store of cells":
        first, second = (json.loads(one.stdout) for one in done)
        assert untimed(first["methods"]) == untimed(second["methods"])
    if name == "a study":
        from eastward.tuning import optuna

        journal = optuna.storages.journal.JournalFileBackend(str(tmp_path / "out" / "study.log"))
        study = optuna.load_study(
            study_name="eastward", storage=optuna.storages.JournalStorage(journal)
        )
        assert [trial.number for trial in study.trials] == list(range(len(study.trials)))
        assert len({json.dumps(trial.params, sort_keys=True) for trial in study.trials}) >= 4
    if name == "a model":
        predicted = both(command("predict", tmp_path / "out", table, "-o", tmp_path / "p.csv"))
        assert predicted[0].returncode == 0, predicted[0].stderr


@pytest.mark.slow
def test_four_threads_may_be_the_first_to_use_the_library():
    program = """
import threading
names = ["EASTLoss", "EASTClassifier", "compare", "tune_decision"]
found, ready = {}, threading.Barrier(4)
def use(name):
    ready.wait()
    import eastward
    found[name] = getattr(eastward, name)
threads = [threading.Thread(target=use, args=[name]) for name in names]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert sorted(found) == sorted(names), found
"""
    [done] = both([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr
