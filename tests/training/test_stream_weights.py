"""Weights of streamed rows: a row of weight two is the row twice."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.utils.class_weight import compute_sample_weight
from typer.testing import CliRunner

from eastward import metrics
from eastward.cli import app
from eastward.estimators.network.streaming import prepared_stream
from eastward.training.objectives import CrossEntropyObjective, MetricObjective

sys.path.insert(0, str(Path(__file__).parents[1] / "estimator"))
from small_models import clusters, quick, same_model


def small(**changes):
    return quick(**{"n_folds": "auto", "max_epochs": 4, "batch_size": 64, **changes})


def write(path: Path, X, y, **more) -> Path:
    columns = {f"f{k}": X[:, k] for k in range(X.shape[1])}
    pq.write_table(pa.table({**columns, "label": y, **more}), path, row_group_size=97)
    return path


@pytest.fixture
def weighted(tmp_path):
    """A table with a column of whole weights, and the table in which rows are repeated instead."""
    X, y = clusters(counts=(400, 200, 80))
    times = np.random.default_rng(1).integers(1, 4, len(y))
    once = write(tmp_path / "once.parquet", X, y, weight=times.astype(np.float64))
    repeated = write(tmp_path / "repeated.parquet", np.repeat(X, times, 0), np.repeat(y, times))
    return once, repeated, times


def one_batch(path: Path, weight: str | None, **changes):
    """All rows, those held out as well, in a single batch."""
    model = small(standardize=False, **changes)
    source = prepared_stream(model, path, "label", weight).source
    source.shares, source.batch_size = replace(source.shares, held=0.0), 10**6
    (batch,) = source.epoch(torch.Generator().manual_seed(0))
    return batch


@pytest.mark.parametrize(
    "objective", [CrossEntropyObjective(), MetricObjective(metrics.get("f1_macro"))]
)
def test_weight_two_is_the_row_twice_in_loss_and_gradient(weighted, objective):
    once, repeated, _ = weighted
    torch.manual_seed(0)
    network = torch.nn.Linear(4, 3).double()
    found = []
    for path, weight in ((once, "weight"), (repeated, None)):
        inputs, targets, weights = one_batch(path, weight)
        network.zero_grad()
        loss = objective(network(inputs.double()).unsqueeze(0), targets, weights).sum()
        loss.backward()
        found.append((loss.item(), network.weight.grad.clone()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-5, atol=1e-7)


def test_the_scale_of_weights_does_not_matter(tmp_path):
    X, y = clusters(counts=(200, 100, 60))
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y)).astype(np.float32)
    light = write(tmp_path / "light.parquet", X, y, weight=weights)
    heavy = write(tmp_path / "heavy.parquet", X, y, weight=weights * 8)
    models = [small().fit(path, "label", "weight") for path in (light, heavy)]
    assert same_model(*models)
    assert models[0].feature_names_in_.tolist() == ["f0", "f1", "f2", "f3"]


def test_rows_of_weight_zero_do_not_count(tmp_path):
    """Half of the rows have wrong labels, and no weight."""
    X, y = clusters(counts=(400, 300, 200))
    wrong = np.random.default_rng(0).random(len(y)) < 0.5
    labels = np.where(wrong, (y + 1) % 3, y)
    weighed = write(tmp_path / "weighed.parquet", X, labels, weight=(~wrong).astype(int))
    plain = write(tmp_path / "plain.parquet", X, labels)
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])])
    settings = {"recipe": "cross_entropy", "max_epochs": 8}
    right = [
        np.mean(small(**settings).fit(path, "label", weight).predict(frame) == y)
        for path, weight in ((weighed, "weight"), (plain, None))
    ]
    assert right[0] > right[1] + 0.1


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 2.0, 2: 5.0}])
def test_class_weights_are_those_of_scikit_learn(weighted, class_weight):
    once, _, _ = weighted
    _, targets, weights = one_batch(once, None, class_weight=class_weight)
    expected = compute_sample_weight(class_weight, clusters(counts=(400, 200, 80))[1])
    mean = expected.mean()
    by_class = {float(value) for value in np.unique(expected / mean).round(4)}
    assert {round(float(value), 4) for value in weights.unique()} == by_class
    assert weights.shape == targets.shape


def test_weights_that_are_none_are_named(tmp_path):
    X, y = clusters(counts=(60, 40, 20))
    negative = write(tmp_path / "a.parquet", X, y, weight=np.where(np.arange(120) == 70, -1.0, 1.0))
    words = write(tmp_path / "b.parquet", X, y, weight=["heavy"] * 120)
    nothing = write(tmp_path / "c.parquet", X, y, weight=(y != 2).astype(int))
    with pytest.raises(ValueError, match=r"finite, non-negative numbers; got -1.0"):
        small().fit(negative, "label", "weight")
    with pytest.raises(ValueError, match=r"finite, non-negative numbers; got string"):
        small().fit(words, "label", "weight")
    with pytest.raises(ValueError, match=r"rows of every class; got zero for all rows of \[2\]"):
        small().fit(nothing, "label", "weight")
    with pytest.raises(ValueError, match=r"sample_weight of .* must be a column .* 'wait'"):
        small().fit(negative, "label", "wait")
    with pytest.raises(ValueError, match="must be the name of a column with Parquet files"):
        small().fit(negative, "label", np.ones(120))


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
def test_the_command_line_trains_and_judges_with_weights(tmp_path, streamed):
    X, y = clusters(counts=(300, 200, 100))
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    data = tmp_path / "data"
    data.mkdir()
    path = write(data / "t.parquet", X, np.array(["a", "b", "c"])[y], weight=weight)
    source = data if streamed else path
    out = tmp_path / "model"
    words = ["train", source, "-t", "label", "-o", out, "--weight", "weight", "--quiet"]
    words += ["--epochs", "3", "--hidden", "8", "--folds", "auto" if streamed else "1"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    judged = json.loads((out / "summary.json").read_text())["evaluation"]
    # weights are 1.5 on average and zero for a quarter of the rows, which are not there
    assert np.sum(judged["confusion"]) == pytest.approx(2 * judged["rows"], rel=0.2)
    task = json.loads((out / "task.json").read_text())
    assert [column["name"] for column in task["columns"]] == ["f0", "f1", "f2", "f3"]
    wrong = [word if word != "weight" else "wait" for word in map(str, words)]
    failed = CliRunner().invoke(app, [*wrong, "--overwrite"])
    assert failed.exit_code == 2
    assert "'wait'" in failed.output
