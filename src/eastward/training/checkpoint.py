"""Checkpoints: everything needed to continue a killed run exactly.

A checkpoint is written under a temporary name and then renamed, so that the file under the final name is always
complete. Loading executes nothing from the file (``weights_only``).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.training.hooks import Callback
from eastward.training.loop import Run

__all__ = ["FORMAT", "Checkpoint", "fingerprint", "load_checkpoint", "write_atomically"]

FORMAT = 3


def write_atomically(path: Path, write: Any) -> None:
    """Call ``write(temporary)`` and rename the file, so that its final name never holds a partial file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(temporary)
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def fingerprint(*parts: Any) -> str:
    """Compute a digest of tensors and settings, which shows whether a checkpoint belongs to a run.

    Examples
    --------
    >>> fingerprint("a") == fingerprint("a"), fingerprint("a") == fingerprint("b")
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, Tensor):
            digest.update(str((tuple(part.shape), part.dtype)).encode())
            digest.update(part.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()


class Checkpoint(Callback):
    """A callback that saves the run after an epoch, at most every ``interval`` seconds.

    This callback must come last, because it saves what the others decided. :meth:`save_finished` saves a finished
    stage.
    """

    def __init__(
        self,
        path: Path,
        identity: str,
        stage_index: int,
        others: Sequence[Callback],
        *,
        kept: dict[str, Any],
        interval: float = 10.0,
    ) -> None:
        self.path, self.identity, self.stage_index = path, identity, stage_index
        self.others, self.interval = others, interval
        self.kept = kept
        self.saved_at = float("-inf")

    def epoch_end(self, run: Run) -> None:
        """Save if the last save was long enough ago."""
        if time.monotonic() - self.saved_at >= self.interval:
            self._save(run, finished=False)

    def batch_end(self, run: Run) -> None:
        """Save within an epoch if epochs are long."""
        if getattr(run.source, "long_epochs", False):
            self.epoch_end(run)

    def save_finished(self, run: Run, kept: dict[str, Any]) -> None:
        """Save a finished stage, with the held-out logits and weights of all stages so far."""
        self.kept = kept
        self._save(run, finished=True)

    def _save(self, run: Run, *, finished: bool) -> None:
        state = {
            "format": FORMAT,
            "identity": self.identity,
            "stage": self.stage_index + finished,
            "epoch": 0 if finished else run.epoch,
            "step": run.step,
            "stop": False if finished else run.stop,
            "members": run.members.state_dict(),
            "history": run.history,
            "notes": run.notes,
            "generator": run.epoch_random if run.step else run.generator.get_state(),
            "random": torch.get_rng_state(),
            **self.kept,
        }
        if not finished:
            state["loss_sum"] = run.loss_sum
            state["optimizer"] = run.optimizer.state_dict()
            state["temperature_floor"] = run.temperature_floor
            state["blend"] = getattr(run.objective, "blend", 0.0)
            state["callbacks"] = [callback.state_dict() for callback in self.others]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, lambda temporary: torch.save(state, temporary))
        self.saved_at = time.monotonic()


def load_checkpoint(path: Path, identity: str, *, caller: str = "fit") -> dict[str, Any] | None:
    """Load a checkpoint, and refuse one of another run; return None if there is no file."""
    for stale in path.parent.glob(f".{path.name}.*.part"):
        stale.unlink(missing_ok=True)  # left by a process that was killed while writing
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
        kept = state["identity"], state["format"]
    except Exception as error:
        advice = "Delete the file to start over."
        message = (
            f"checkpoint of {caller} must be a file that {caller} wrote; got {path.name}, which cannot be read "
            f"({type(error).__name__}). {advice}"
        )
        raise ValueError(message) from error
    if kept != (identity, FORMAT):
        expected = "from the same data, parameters and version"
        advice = "Choose another folder, or delete the file to start over."
        _checks.fail(caller, "checkpoint", expected, f"{path.name} from another run", advice)
    return state
