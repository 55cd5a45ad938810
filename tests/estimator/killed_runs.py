"""Kill training with SIGKILL at random moments, resume it, and compare with a run that was left alone.

A program of its own: it imports everything once and forks a child for each attempt, which is then killed from
outside as ``kill -9`` does. Prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import torch
from small_models import clusters, quick

from eastward.training import Callback


class Pause(Callback):
    """Longer epochs, so that an observer outside can tell them apart."""

    def epoch_end(self, run):
        time.sleep(0.02)


def fit(folder: Path | None, result: Path) -> None:
    """Fit in this process, and leave weights, offsets and probabilities behind."""
    X, y = clusters(counts=(120, 60, 20))
    options = {"n_folds": 3, "max_epochs": 14, "batch_size": 16, "random_state": 3}
    model = quick(**options, checkpoint=folder, callbacks=[Pause()])
    model.fit(X, y)
    state = {name: value.numpy() for name, value in model.members_.state_dict().items()}
    history = [[r["stage"], r["epoch"], r["train_loss"], r["valid_loss"]] for r in model.history_]
    outcome = {**state, "decision": model.decision_.matrix, "probabilities": model.predict_proba(X)}
    outcome["report"] = np.array(json.dumps([model.report_, history], sort_keys=True))
    np.savez(result, **outcome)


def start(folder: Path | None, result: Path) -> int:
    """The process number of a child that fits."""
    child = os.fork()
    if child == 0:
        try:
            fit(folder, result)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)  # the child must never return into the parent's code
    return child


def finished(folder: Path | None, result: Path) -> dict[str, np.ndarray]:
    """The outcome of a run that is left alone."""
    _, status = os.waitpid(start(folder, result), 0)
    if status:
        raise SystemExit(f"training failed with status {status}")
    return dict(np.load(result))


def position(folder: Path) -> tuple[int, int] | None:
    """Stage and epoch of the checkpoint, which must be a whole file whenever one looks."""
    path = folder / "training.ckpt"
    if not path.exists():
        return None
    state = torch.load(path, weights_only=True)
    return state["stage"], state["epoch"]


def kill_when(folder: Path, result: Path, wanted: tuple[int, int], delay: float) -> bool:
    """Start, wait until the checkpoint is at ``wanted`` or beyond, and a little longer; then kill -9."""
    child = start(folder, result)
    while (position(folder) or (-1, 0)) < wanted:
        time.sleep(0.002)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main(workplace: Path, seed: int) -> None:
    chance = random.Random(seed)
    expected = finished(None, workplace / "expected.npz")
    folder = workplace / "checkpoints"
    seen = []
    moments = [(0, 1), (0, chance.randint(2, 12)), (1, 1), (1, chance.randint(3, 12))]
    for wanted in moments:
        killed = kill_when(folder, workplace / "never.npz", wanted, chance.uniform(0, 0.03))
        seen.append({"wanted": wanted, "killed": killed, "found": position(folder)})
    resumed = finished(folder, workplace / "resumed.npz")
    different = [name for name in expected if not np.array_equal(expected[name], resumed[name])]
    names = sorted(path.name for path in folder.iterdir())
    print(json.dumps({"kills": seen, "different": different, "files": names}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]))
