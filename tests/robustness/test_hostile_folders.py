"""Folders that somebody tampered with, or a killed process left: one sentence, no waiting, nothing lost."""

from __future__ import annotations

import copy
import functools
import json
import operator
import os
import platform
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from eastward import EASTBoostingClassifier, EASTClassifier, TunedDecisionClassifierCV
from eastward.comparison.store import CellStore
from eastward.model_folder import load_model
from eastward.saved_trees import are_sound

sys.path.append(str(Path(__file__).parent.parent / "cli"))
from command_runs import SMALL, claims, run

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    claims(80).to_csv(folder / "claims.csv", index=False)
    options = ["--ignore", "claim", "--ignore", "words", "--method", "network", *SMALL]
    done = run("train", folder / "claims.csv", "-t", "fraud", "-o", folder / "model", *options)
    assert done.code == 0, done.err
    return folder / "model"


@pytest.fixture
def model(trained, tmp_path):
    return Path(shutil.copytree(trained, tmp_path / "model"))


def replaced(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def changed(path: Path, **entries) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    replaced(path, json.dumps({**document, **entries}))


def without(path: Path, name: str, **entries) -> None:
    document = {**json.loads(path.read_text(encoding="utf-8")), **entries}
    replaced(path, json.dumps({key: value for key, value in document.items() if key != name}))


TAMPERED = {
    "task.json is a pipe": lambda m: as_pipe(m / "task.json"),
    "task.json is a device": lambda m: as_device(m / "task.json"),
    "weights are a pipe": lambda m: as_pipe(m / "model" / "weights.safetensors"),
    "preprocessing is a device": lambda m: as_device(m / "preprocessing.skops"),
    "an added pipe": lambda m: os.mkfifo(m / "model" / "more"),
    "a hundred thousand levels": lambda m: replaced(m / "task.json", DEEP),
    "a list": lambda m: replaced(m / "task.json", "[]"),
    "a number": lambda m: replaced(m / "task.json", "3"),
    "bytes": lambda m: (m / "task.json").write_bytes(b"\xff\xfe\x00"),
    "half of it": lambda m: replaced(m / "task.json", (m / "task.json").read_text()[:200]),
    "nothing": lambda m: replaced(m / "task.json", ""),
    "a format of the future": lambda m: changed(m / "task.json", format=99),
    "a format without a version": lambda m: without(m / "task.json", "version", format=99),
    "columns that are junk": lambda m: changed(m / "task.json", columns=[3, None, {}]),
    "columns that are text": lambda m: changed(m / "task.json", columns="x"),
    "another kind": lambda m: changed(m / "task.json", kind="else"),
    "digests that are text": lambda m: changed(m / "task.json", digests="x"),
    "another network": lambda m: changed(m / "model" / "model.json", classes=["a", "b", "c"]),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_model_is_refused_in_one_sentence(model, name):
    TAMPERED[name](model)
    with pytest.raises(ValueError, match=r"must be .*; got .*\. ") as caught:
        load_model(model)
    assert "Traceback" not in str(caught.value)
    (model.parent / "a.csv").write_text("amount,fraud\n1,yes\n", encoding="utf-8")
    done = run("predict", model, model.parent / "a.csv", "-o", model.parent / "out.csv")
    assert done.code == 2
    assert done.err.startswith("error: ")


@pytest.mark.parametrize(
    "tamper",
    [
        lambda folder: as_pipe(folder / "model.json"),
        lambda folder: as_device(folder / "weights.safetensors"),
        lambda folder: replaced(folder / "model.json", DEEP),
        lambda folder: changed(folder / "model.json", format="new"),
        lambda folder: (folder / "weights.safetensors").write_bytes(b"\xff" * 16),
    ],
    ids=["pipe", "device", "deep", "format", "weights"],
)
def test_a_tampered_estimator_is_refused_in_one_sentence(tmp_path, tamper):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    EASTClassifier(hidden=(4,), max_epochs=2, n_folds=1).fit(X, y).save(tmp_path / "m")
    tamper(tmp_path / "m")
    with pytest.raises(ValueError, match="must be"):
        EASTClassifier.load(tmp_path / "m")


NONSENSE = (None, -1, 10**12, 1e308, "x", [], {}, [[1]], float("nan"))


def places(value, path=()):
    """Every entry of a document; of a list the first."""
    yield path
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:1])
        if isinstance(value, list)
        else ()
    )
    for key, entry in inside:
        yield from places(entry, (*path, key))


# What the next table must look like: scikit-learn says itself that another one does not fit.
INPUT = ("n_features_in", "feature_names_in")


def loads(kind: type, path: Path) -> bool:
    """Whether the folder loads; if not, one sentence must say so, and nothing else may be raised."""
    try:
        kind.load(path)
    except ValueError as error:
        return "must " not in str(error)
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "classifier",
    [
        EASTClassifier(hidden=(4,), max_epochs=1, n_folds=2),
        TunedDecisionClassifierCV(LogisticRegression(), cv=3),
        EASTBoostingClassifier(),
    ],
    ids=lambda classifier: type(classifier).__name__,
)
def test_nonsense_anywhere_in_a_saved_document_is_refused_or_harmless(classifier, tmp_path):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3
    classifier.fit(X, y).save(tmp_path / "m")
    [header] = (tmp_path / "m").glob("*.json")
    document = json.loads(header.read_text(encoding="utf-8"))
    tried = 0
    for path in places(document):
        if not path or path[0] in {"history", "report", "parameters", "steps"}:
            continue
        for nonsense in NONSENSE:
            altered = copy.deepcopy(document)
            holder = functools.reduce(operator.getitem, path[:-1], altered)
            holder[path[-1]] = nonsense
            replaced(header, json.dumps(altered))
            tried += 1
            if loads(type(classifier), tmp_path / "m") and path[0] not in INPUT:
                type(classifier).load(tmp_path / "m").predict(X)
    assert tried > 150


@pytest.mark.slow
def test_nonsense_anywhere_in_a_task_is_refused_or_harmless(trained, tmp_path):
    model = Path(shutil.copytree(trained, tmp_path / "model"))
    document = json.loads((model / "task.json").read_text(encoding="utf-8"))
    refused = 0
    # The description of the data is only shown to people.
    for path in [path for path in places(document) if path and path[0] != "data"]:
        for nonsense in NONSENSE:
            altered = copy.deepcopy(document)
            functools.reduce(operator.getitem, path[:-1], altered)[path[-1]] = nonsense
            replaced(model / "task.json", json.dumps(altered))
            try:
                load_model(model)
            except ValueError as error:
                assert " of load_model must be " in str(error)  # noqa: PT017  # it need not be refused
                refused += 1
    assert refused > 60


@pytest.mark.parametrize("hidden", [[-1], [10**12], ["x"], [[1]], [4, 4], None])
def test_layers_that_the_weights_do_not_have_are_refused(tmp_path, hidden):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    EASTClassifier(hidden=(4,), max_epochs=1, n_folds=1).fit(X, y).save(tmp_path / "m")
    header = tmp_path / "m" / "model.json"
    parameters = json.loads(header.read_text(encoding="utf-8"))["parameters"]
    changed(header, parameters={**parameters, "hidden": hidden})
    with pytest.raises(ValueError, match="of load must"):
        EASTClassifier.load(tmp_path / "m")


WRONG_LENGTHS = [
    ("decision", "matrix", [[1.0, 0.0], [0.0, 1.0]]),
    ("decision", "matrix", [[1.0, 0.0, 0.0], [0.0, 1.0], [0.0]]),
    ("decision", "prior", [0.5, 0.5]),
    ("decision", "classes", [0, 1]),
    ("calibration", "scales", [1.0]),
    ("calibration", "shifts", [0.0, 0.0]),
]


@pytest.mark.parametrize(("part", "name", "numbers"), WRONG_LENGTHS)
def test_numbers_of_the_wrong_length_are_refused(tmp_path, part, name, numbers):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3
    TunedDecisionClassifierCV(LogisticRegression(), cv=3).fit(X, y).save(tmp_path / "m")
    header = tmp_path / "m" / "tuned.json"
    document = json.loads(header.read_text(encoding="utf-8"))
    changed(header, **{part: {**document[part], name: numbers}})
    with pytest.raises(ValueError, match="of load must"):
        TunedDecisionClassifierCV.load(tmp_path / "m")


SUMMARIES = {
    "a pipe": as_pipe,
    "a device": as_device,
    "a hundred thousand levels": lambda path: replaced(path, DEEP),
    "a list": lambda path: replaced(path, "[]"),
    "a verdict that is a number": lambda path: changed(path, verdict=3),
    "an evaluation that is text": lambda path: changed(path, evaluation="x"),
    "a matrix of two lengths": lambda path: changed(
        path, evaluation={"classes": ["a", "b"], "confusion": [[1], [2, 3]], "rows": 3}
    ),
    "columns without names": lambda path: changed(path, importance={"columns": [{}]}),
    "a history of text": lambda path: changed(path, training={"history": "x", "stages": 3}),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_tampered_summary_gives_the_error_of_the_report(model, name):
    SUMMARIES[name](model / "summary.json")
    before = (model / "report.html").read_bytes()
    done = run("report", model)
    assert done.code == 2, done.out
    assert done.err.startswith("error: DIR of report must be a folder with a summary.json")
    assert (model / "report.html").read_bytes() == before


def test_what_a_killed_process_left_in_a_model_is_removed_by_the_next_run(trained, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(trained, model)
    dead, alive = model / ".999999999.part", model / f".{os.getppid()}.part"
    for folder in (dead, alive):
        folder.mkdir()
        (folder / "weights").write_text("half", encoding="utf-8")
    data = trained.parent / "claims.csv"
    options = ["--ignore", "claim", "--ignore", "words", "--method", "network", "--overwrite"]
    done = run("train", data, "-t", "fraud", "-o", model, *options, *SMALL)
    assert done.code == 0, done.err
    assert not dead.exists()
    assert alive.exists(), "another process may still be writing"


def test_what_a_killed_process_left_beside_an_estimator_is_removed(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    model = EASTClassifier(hidden=(4,), max_epochs=1, n_folds=1).fit(X, y)
    (tmp_path / ".m.999999999.part").mkdir()
    (tmp_path / ".other.999999999.part").mkdir()
    model.save(tmp_path / "m")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.999999999.part", "m"]


def test_unfinished_cells_of_a_killed_comparison_are_removed(tmp_path):
    mine = f".unfinished-{platform.node()}-"
    # Files of a process that has ended, of one that runs, and of other machines, whose processes cannot be seen here.
    ages = {f"{mine}999999999-a": 0, f"{mine}{os.getppid()}-b": 3600}
    ages |= {".unfinished-elsewhere-1-old": 3600, ".unfinished-elsewhere-1-new": 0}
    for name, age in ages.items():
        (tmp_path / name).write_text("{", encoding="utf-8")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    CellStore(tmp_path).save("key", {"score": 1})
    left = {f"{mine}{os.getppid()}-b", ".unfinished-elsewhere-1-new", "key.json"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_a_stored_cell_that_is_a_pipe_is_computed_again(tmp_path, caplog):
    store = CellStore(tmp_path)
    os.mkfifo(tmp_path / "key.json")
    assert store.load("key") is None
    assert "not a regular file" in caplog.text


def test_forged_nodes_of_histogram_boosting_are_found_before_they_are_followed(rng):
    X = rng.normal(size=(200, 3))
    model = HistGradientBoostingClassifier(max_iter=2, random_state=0).fit(X, X[:, 0] > 0)
    assert are_sound(model, 2)
    nodes = model._predictors[0][0].nodes
    inner = int(np.flatnonzero(nodes["is_leaf"] == 0)[0])
    for field, forged in {"left": 10**6, "right": 0, "feature_idx": 3}.items():
        honest = nodes[field][inner].copy()
        nodes[field][inner] = forged
        assert not are_sound(model, 2)
        nodes[field][inner] = honest
    assert are_sound(model, 2)
