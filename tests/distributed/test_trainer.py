"""EASTClassifier in two processes of its own takes the steps of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from eastward.model_folder import load_model
from eastward.training import Callback
from eastward.training.launch import in_processes

sys.path.insert(0, str(Path(__file__).parents[1] / "estimator"))
from small_models import clusters, quick, weights_of

pytestmark = pytest.mark.distributed


def model(**changes):
    return quick(**{"dropout": 0.0, "n_folds": 2, "max_epochs": 5, **changes})


class Die(Callback):
    def epoch_end(self, run):
        if run.processes.rank == 1 and run.epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_two_processes_train_the_model_of_one():
    """Odd row numbers: batches and validation rows do not divide by two, and nothing is padded."""
    X, y = clusters(counts=(151, 78, 26))
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    alone = model().fit(X, y, sample_weight=weights)
    together = model(devices=2, strategy="ddp").fit(X, y, sample_weight=weights)
    # Adam divides by the gradient's size: rounding grows with every step.
    for name, value in weights_of(alone).items():
        np.testing.assert_allclose(weights_of(together)[name], value, atol=2e-3)
    for ours, theirs in zip(together.history_, alone.history_, strict=True):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], abs=1e-3)
        assert ours["valid_loss"] == pytest.approx(theirs["valid_loss"], abs=1e-3)
    first = (together.history_[0], alone.history_[0])
    assert first[0]["valid_loss"] == pytest.approx(first[1]["valid_loss"], abs=1e-6)


@pytest.mark.slow
def test_networks_of_ones_own_are_cross_fitted_by_two_processes():
    X, y = clusters(counts=(71, 38, 16))
    own = partial(model, module=torch.nn.Linear, patience=1, max_epochs=8)
    alone, together = own().fit(X, y), own(devices=2, strategy="ddp").fit(X, y)
    assert alone.members_.size == 2
    for name, value in weights_of(alone).items():
        np.testing.assert_allclose(weights_of(together)[name], value, atol=2e-3)


def shuffled_loader(X, y):
    rows = TensorDataset(torch.from_numpy(X).float(), torch.from_numpy(y))
    return DataLoader(rows, batch_size=31, shuffle=True)


def fitted_in_a_job(path: Path) -> dict:
    """Inside a job the classifier uses its processes: a stream with exact steps, and a loader."""
    X, y = clusters(counts=(300, 150, 51))
    settings = {"n_folds": 1, "devices": 2, "strategy": "ddp"}
    exact = {"accumulate": "exact", "effective_batch": 128, "batch_size": 32}
    stream = model(**settings, **exact).fit(path, "label")
    loaded = model(**settings).fit(shuffled_loader(X, y), validation_data=(X[:99], y[:99]))
    return {
        "stream": (stream.history_, stream.report_["stages"][-1]["tuned"]),
        "loader": (loaded.history_, weights_of(loaded)),
    }


@pytest.mark.slow
def test_streams_and_loaders_are_dealt_out_to_the_processes_of_a_job(tmp_path):
    X, y = clusters(counts=(300, 150, 51))
    columns = {f"f{k}": X[:, k] for k in range(X.shape[1])}
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({**columns, "label": y}), path, row_group_size=64)
    found = in_processes(2, partial(fitted_in_a_job, path))
    history, tuned = found["stream"]
    assert history[-1]["stage"] == "aligned"
    assert tuned > 0.6
    # a loader's batches are shared out, so that the losses are of the size that one process has
    alone = model(n_folds=1).fit(shuffled_loader(X, y), validation_data=(X[:99], y[:99]))
    history, weights = found["loader"]
    assert history[0]["train_loss"] == pytest.approx(alone.history_[0]["train_loss"], rel=0.1)
    assert weights.keys() == weights_of(alone).keys()


@pytest.mark.slow
def test_a_process_that_dies_ends_the_job_and_leaves_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("EASTWARD_CHECKPOINT_SECONDS", "0")
    X, y = clusters(counts=(60, 30, 12))
    settings = {"devices": 2, "checkpoint": tmp_path}
    with pytest.raises(
        RuntimeError, match=r"process \d (was ended by SIGKILL|failed).*call it again"
    ):
        model(callbacks=[Die()], **settings).fit(X, y)
    saved = torch.load(tmp_path / "training.ckpt", weights_only=True)
    assert (saved["stage"], saved["epoch"]) in {(0, 1), (0, 2)}
    assert [path.name for path in tmp_path.iterdir()] == ["training.ckpt"]


def is_ended_while_it_complains():
    def write_half(path, data):
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    Path.write_bytes = write_half
    raise ValueError("nobody will read this")


@pytest.mark.slow
def test_half_a_complaint_of_a_process_that_was_ended_is_not_read():
    with pytest.raises(RuntimeError, match=r"process \d was ended by SIGKILL"):
        in_processes(2, is_ended_while_it_complains)


def test_what_cannot_travel_is_named():
    X, y = clusters(counts=(30, 30))
    with pytest.raises(TypeError, match="must be picklable with devices > 1"):
        model(
            devices=2,
            n_folds=1,
            module=torch.nn.Linear,
            metric=lambda c: c.trace(),
        ).fit(X, y)
    with pytest.raises(ValueError, match="strategy of EASTClassifier must be 'auto' or 'ddp'"):
        model(devices=2, strategy="fsdp").fit(X, y)


def agreed_in_a_job(folder: Path) -> None:
    """The papers' recipe: cooling on plateaus, early stopping and the best epoch are all decisions."""
    X, y = clusters(counts=(90, 45, 20))
    settings = {"recipe": "paper", "n_folds": 1, "patience": 1, "max_cold_steps": 1}
    settings |= {"max_epochs": 40, "learning_rate": 0.05, "dropout": 0.25}
    fitted = model(**settings, devices=2, strategy="ddp").fit(X, y)
    path = folder / f"rank-{os.environ['RANK']}.pt"
    torch.save({"history": fitted.history_, "weights": weights_of(fitted)}, path)


@pytest.mark.slow
def test_ranks_agree_on_cooling_stopping_and_the_best_epoch(tmp_path):
    in_processes(2, partial(agreed_in_a_job, tmp_path))
    first, second = (torch.load(tmp_path / f"rank-{k}.pt", weights_only=False) for k in range(2))
    names = ("epoch", "temperature", "valid_loss", "valid_score")
    told = [
        [[record[name] for name in names] for record in run["history"]] for run in (first, second)
    ]
    assert told[0] == told[1]
    temperatures = [record["temperature"] for record in first["history"]]
    assert temperatures[-1] < temperatures[0]  # it cooled
    assert len(temperatures) < 40  # and stopped
    for name, value in first["weights"].items():
        np.testing.assert_array_equal(value, second["weights"][name])


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
def test_the_command_line_trains_in_two_processes(tmp_path, streamed):
    X, y = clusters(counts=(240, 120, 60))
    names = np.array(["no", "perhaps", "yes"])[y]
    columns = {f"f{k}": X[:, k] for k in range(X.shape[1])}
    city = np.array(["Graz", "Linz"])[(X[:, 0] > 0).astype(int)]
    data, out = tmp_path / "data", tmp_path / "model"
    data.mkdir()
    table = pa.table({**columns, "city": city, "label": names})
    pq.write_table(table, data / "t.parquet", row_group_size=64)
    source = data if streamed else data / "t.parquet"
    words = ["train", source, "-t", "label", "-o", out, "--devices", "2", "--quiet"]
    words += ["--epochs", "4", "--hidden", "16", "--folds", "1" if streamed else "2"]
    start = "import sys; from eastward.cli import main; sys.argv[0] = 'eastward'; main()"
    command = [sys.executable, "-c", start, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    written = sorted(path.name for path in out.iterdir())
    assert written == [
        "README.md",
        "model",
        "preprocessing.skops",
        "report.html",
        "summary.json",
        "task.json",
    ]
    scores = load_model(out).predict(table.drop_columns("label").to_pandas())
    assert np.mean(scores == names) > 0.5
