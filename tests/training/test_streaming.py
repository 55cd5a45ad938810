"""Parquet row groups as batches: every row once, in every process the same number of steps, resumable anywhere."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from eastward.estimators.network.construction import stage_options
from eastward.training import Callback
from eastward.training.streams import ParquetTable, PreparedRows, RowShares, StreamBatches

sys.path.insert(0, str(Path(__file__).parents[1] / "estimator"))
from small_models import clusters, quick, same_model

ROWS = 1000


@pytest.fixture
def folder(tmp_path):
    """Three files whose first column is the number of the row."""
    number = np.arange(ROWS)
    table = pa.table({"number": number, "label": number % 3})
    for name, start, stop, size in (("a", 0, 250, 40), ("b", 250, 700, 64), ("c", 700, ROWS, 300)):
        pq.write_table(
            table.slice(start, stop - start), tmp_path / f"{name}.parquet", row_group_size=size
        )
    return tmp_path


def numbers_and_labels(rows):
    return PreparedRows(
        torch.from_numpy(rows.column("number").to_numpy().copy()).unsqueeze(1),
        torch.from_numpy(rows.column("label").to_numpy().copy()),
    )


def stream(folder, held=0.2, **changes) -> StreamBatches:
    table = ParquetTable(folder)
    shares = RowShares(7, frozenset(range(0, len(table.groups), 2)), held=held)
    settings = {"batch_size": 50, "buffer_rows": 100, **changes}
    return StreamBatches(table, shares, numbers_and_labels, ["number", "label"], **settings)


def epoch(source, seed=0, start=0):
    return list(source.epoch(torch.Generator().manual_seed(seed), start))


def rows_of(batches) -> list[int]:
    return torch.cat([inputs.flatten() for inputs, _, _ in batches]).tolist()


def held_rows(source) -> list[int]:
    groups = enumerate(source.table.groups)
    return [
        group.first + row
        for position, group in groups
        for row in np.flatnonzero(source.shares.drawn(position, group, "held"))
    ]


@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_training_row_comes_once_in_one_process(folder, world):
    sources = [stream(folder, rank=rank, world=world) for rank in range(world)]
    parts = [epoch(source) for source in sources]
    seen = [row for part in parts for row in rows_of(part)]
    held = held_rows(sources[0])
    assert len(held) > 50
    assert sorted([*seen, *held]) == list(range(ROWS))
    assert {len(part) for part in parts} == {sources[0].steps}
    sizes = [len(inputs) for part in parts for inputs, _, _ in part]
    assert max(sizes) - min(sizes) <= 1


def test_rows_keep_their_labels_and_are_shuffled(folder):
    batches = epoch(stream(folder))
    for inputs, targets, weights in batches:
        assert torch.equal(inputs.flatten() % 3, targets[0])
        assert weights is None
    order = rows_of(batches)
    # neighbours in the file are hardly ever neighbours in an epoch
    assert np.mean(np.abs(np.diff(order)) == 1) < 0.1


def test_epochs_differ_and_the_generator_fixes_them(folder):
    source = stream(folder)
    assert rows_of(epoch(source, seed=1)) == rows_of(epoch(source, seed=1))
    assert rows_of(epoch(source, seed=1)) != rows_of(epoch(source, seed=2))


@pytest.mark.parametrize("start", [0, 1, 7, 15])
def test_an_epoch_goes_on_in_its_middle(folder, start):
    source = stream(folder, rank=1, world=2, batch_size=40)
    whole = epoch(source)
    assert rows_of(whole[start:]) == rows_of(epoch(source, start=start))


def test_steps_are_limited(folder):
    assert len(epoch(stream(folder, max_steps=3))) == 3


def test_a_resumed_epoch_reads_only_what_is_left(folder, monkeypatch):
    source = stream(folder)
    read = []
    monkeypatch.setattr(source.table, "read", _noting(source.table.read, read))
    epoch(source, start=source.steps - 1)
    assert len(read) < len(source.table.groups) / 2


def _noting(function, calls):
    def noted(group, columns):
        calls.append(group)
        return function(group, columns)

    return noted


def test_values_are_counted_in_one_column(folder):
    counts = ParquetTable(folder).value_counts("label")
    assert counts == {0: 334, 1: 333, 2: 333}


def test_shares_depend_on_the_row_alone(folder):
    """However the files are cut into row groups, the same rows are held out."""
    table = pq.read_table(folder)
    other = folder / "other"
    other.mkdir()
    pq.write_table(table, other / "all.parquet", row_group_size=1000)
    fine, coarse = ParquetTable(sorted(folder.glob("*.parquet"))), ParquetTable(other)
    shares = RowShares(3, frozenset(range(100)), held=0.3)
    cut = [shares.drawn(k, group, "held") for k, group in enumerate(fine.groups)]
    assert np.array_equal(np.concatenate(cut), shares.drawn(0, coarse.groups[0], "held"))


@pytest.fixture
def labelled(tmp_path):
    """A table with classes that can be told apart."""
    X, y = clusters(counts=(900, 450, 150))
    names = np.array(["no", "perhaps", "yes"])[y]
    columns = {f"f{k}": X[:, k] for k in range(X.shape[1])}
    pq.write_table(pa.table({**columns, "label": names}), tmp_path / "t.parquet", row_group_size=99)
    return tmp_path, X, names


def small(**changes):
    return quick(**{"n_folds": "auto", "max_epochs": 4, "batch_size": 64, **changes})


@pytest.mark.slow
def test_fit_on_files_is_as_good_as_fit_in_memory(labelled):
    folder, X, y = labelled
    model = small().fit(folder, "label")
    assert model.class_counts_ == {"no": 900, "perhaps": 450, "yes": 150}
    assert model.feature_names_in_.tolist() == ["f0", "f1", "f2", "f3"]
    model.__dict__.pop("feature_names_in_")  # the array below has no names
    in_memory = small(n_folds=1).fit(X, y)
    assert model.score(X, y) == pytest.approx(in_memory.score(X, y), abs=0.05)
    assert 200 < model.report_["held_out_rows"] < 400


def test_steps_have_enough_rows_of_the_rarest_class():
    """A stream cannot be stratified; where a batch has too few rows of a class, steps become larger."""
    model = small(batch_size=64)
    assert stage_options(model, 1000, rarest=0.2)["effective_batch"] is None
    assert stage_options(model, 1000, rarest=0.01)["effective_batch"] == 800
    assert stage_options(model, 1000, rarest=1e-6)["effective_batch"] == 65_536
    asked = small(batch_size=64, accumulate="exact", effective_batch=256)
    assert stage_options(asked, 1000, rarest=0.01)["effective_batch"] == 256


@pytest.mark.slow
def test_the_same_seed_and_files_give_the_same_bits(labelled):
    folder, _, _ = labelled
    assert same_model(small().fit(folder, "label"), small().fit(folder, "label"))


class Crash(Callback):
    """Fails in the middle of an epoch."""

    def __init__(self, epoch, step):
        self.epoch, self.step = epoch, step

    def batch_end(self, run):
        if (run.epoch, run.step) == (self.epoch, self.step):
            raise RuntimeError("power cut")


@pytest.mark.slow
@pytest.mark.parametrize("crash", [(0, 3), (2, 11)])
def test_a_run_that_died_within_an_epoch_ends_with_the_same_bits(
    labelled, tmp_path, crash, monkeypatch
):
    folder, _, _ = labelled
    monkeypatch.setenv("EASTWARD_CHECKPOINT_SECONDS", "0")
    expected = small(dropout=0.25).fit(folder, "label")
    checkpoint = tmp_path / "checkpoints"
    with pytest.raises(RuntimeError, match="power cut"):
        small(dropout=0.25, checkpoint=checkpoint, callbacks=[Crash(*crash)]).fit(folder, "label")
    saved = torch.load(checkpoint / "training.ckpt", weights_only=True)
    assert saved["step"] > 0
    resumed = small(dropout=0.25, checkpoint=checkpoint).fit(folder, "label")
    assert same_model(resumed, expected)
    losses = [record["train_loss"] for record in resumed.history_]
    assert losses == [record["train_loss"] for record in expected.history_]


def test_what_cannot_be_streamed_is_named(labelled, tmp_path):
    folder, _, _ = labelled
    with pytest.raises(ValueError, match=r"y of EASTClassifier.fit must be a column .* 'lbl'"):
        small().fit(folder, "lbl")
    with pytest.raises(ValueError, match="must be the name of a column"):
        small().fit(folder, np.zeros(3))
    with pytest.raises(FileNotFoundError, match="does not exist"):
        small().fit(tmp_path / "nowhere.parquet", "label")
    with pytest.raises(ValueError, match=r"n_folds of EASTClassifier.fit must be 'auto' or 1"):
        small(n_folds=3).fit(folder, "label")
    words = tmp_path / "words"
    words.mkdir()
    table = pa.table({"city": ["Graz", "Linz"] * 50, "label": [0, 1] * 50})
    pq.write_table(table, words / "t.parquet")
    with pytest.raises(ValueError, match=r"column 'city' of X .* must be numbers"):
        small().fit(words, "label")


def test_a_table_too_small_to_hold_rows_out_is_named(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "label": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"X of .* must be large enough to hold rows out"):
        small(validation_fraction=1e-6).fit(tmp_path / "t.parquet", "label")


def test_several_readers_bring_the_same_rows_in_the_same_order(folder):
    alone, many = stream(folder, readers=1), stream(folder, readers=3)
    assert rows_of(epoch(alone)) == rows_of(epoch(many))


def test_a_missing_value_is_named_with_its_column(tmp_path):
    values = np.arange(500.0)
    values[3::7] = np.nan
    table = pa.table({"ok": np.arange(500.0), "gaps": values, "label": [0, 1] * 250})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    with pytest.raises(ValueError, match="NaN or inf in gaps"):
        small().fit(tmp_path / "t.parquet", "label")
