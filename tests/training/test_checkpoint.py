"""Checkpoints: whole files only, of this run only, and an exact continuation."""

from __future__ import annotations

import functools

import pytest
import torch
from small_runs import cpu, same_state, small_members, small_rows, small_stage

from eastward.metrics import get
from eastward.training import Callback, train_members
from eastward.training.checkpoint import fingerprint, load_checkpoint, write_atomically

STAGES = (
    small_stage(name="first", max_epochs=5, patience=2),
    small_stage(
        name="second",
        objective="metric",
        max_epochs=6,
        stratified=True,
        temperatures=(0.2, 0.1, 0.05),
        average_last=0.5,
        from_decision=True,
        guard="answer",
    ),
    small_stage(
        name="third",
        objective="metric",
        max_epochs=6,
        cooling={"start": 0.2, "rate": 0.5, "patience": 1, "max_cold_steps": 9},
        guard="warn",
    ),
)


class Crash(Callback):
    """Ends the process, as far as training can tell, in the given epoch of all stages together."""

    def __init__(self, epoch):
        self.epoch, self.seen = epoch, 0

    def epoch_end(self, run):
        self.seen += 1
        if self.seen == self.epoch:
            raise MemoryError


class Watch(Callback):
    """Takes the place of the crash in the list of callbacks, and does nothing."""


def train(folder=None, crash_at=None, dropout=0.3):
    rows = small_rows()
    members = small_members(rows, dropout=dropout)
    generator = torch.Generator().manual_seed(4)
    result = train_members(
        members,
        rows,
        STAGES,
        metric=get("f1_macro"),
        fabric=cpu(),
        generator=generator,
        checkpoint=None if folder is None else folder / "training.ckpt",
        identity="this run",
        checkpoint_interval=0.0,
        callbacks=[Watch() if crash_at is None else Crash(crash_at)],
    )
    return members, result


@functools.cache
def uninterrupted():
    return train()


def without_seconds(history):
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


@pytest.mark.slow
@pytest.mark.parametrize("crash_at", [1, 4, 5, 6, 9, 11, 12, 14])
def test_a_crashed_run_continues_to_the_same_bits(tmp_path, crash_at):
    expected, expected_result = uninterrupted()
    with pytest.raises(MemoryError):
        train(tmp_path, crash_at)
    torch.rand(3)  # whatever happened to the global generator in between
    resumed, result = train(tmp_path)
    assert same_state(resumed.state_dict(), expected.state_dict())
    assert without_seconds(result.history) == without_seconds(expected_result.history)
    for name, held in expected_result.held_out.items():
        assert result.held_out[name].logits.equal(held.logits)


def test_checkpoints_do_not_change_training(tmp_path):
    assert same_state(uninterrupted()[0].state_dict(), train(tmp_path)[0].state_dict())
    assert [path.name for path in tmp_path.iterdir()] == ["training.ckpt"]


def test_a_finished_run_is_not_trained_again(tmp_path):
    first, result = train(tmp_path)
    again, again_result = train(tmp_path, crash_at=1)
    assert same_state(first.state_dict(), again.state_dict())
    assert again_result.history == result.history


@pytest.mark.slow
def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    train(tmp_path)
    message = (
        r"checkpoint of fit must be from the same data, parameters and version; got training\.ckpt"
    )
    with pytest.raises(ValueError, match=message):
        load_checkpoint(tmp_path / "training.ckpt", "another run")


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty", "not a run"])
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    train(tmp_path)
    path = tmp_path / "training.ckpt"
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-500])
    elif damage == "not a run":
        torch.save({"weights": torch.zeros(3)}, path)
    else:
        path.write_bytes(b"hello" if damage == "foreign" else b"")
    message = r"checkpoint of fit must be a file that fit wrote; got training\.ckpt, which cannot be read .*Delete"
    with pytest.raises(ValueError, match=message):
        load_checkpoint(path, "this run")


def test_a_checkpoint_that_would_execute_something_is_refused(tmp_path):
    marker = tmp_path / "executed"

    class Payload:
        def __reduce__(self):
            return marker.touch, ()

    path = tmp_path / "training.ckpt"
    torch.save({"identity": Payload(), "format": 1}, path)
    with pytest.raises(ValueError, match="must be a file that fit wrote"):
        load_checkpoint(path, "this run")
    assert not marker.exists()


def test_no_checkpoint_is_no_error(tmp_path):
    assert load_checkpoint(tmp_path / "nothing.ckpt", "this run") is None


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def half(temporary):
        temporary.write_text("ne")
        message = "disk full"
        raise OSError(message)

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, half)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_atomically(path, lambda temporary: temporary.write_text("new"))
    assert path.read_text() == "new"


def test_fingerprints_differ_with_values_shapes_and_types():
    values = torch.arange(6.0)
    others = [values + 1, values.view(2, 3), values.double(), values.int(), "settings"]
    digests = {fingerprint(part) for part in [values, *others]}
    assert len(digests) == 6
    assert fingerprint(values) == fingerprint(values.clone())
