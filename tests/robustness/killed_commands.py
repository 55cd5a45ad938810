"""Kill commands with SIGKILL at random moments, repeat them, and compare with a run that was left alone.

A program of its own: it imports everything once and forks a child for each attempt. The counts go to a file after
every life, and a run that is stopped goes on where it was::

    python tests/robustness/killed_commands.py train --kills 50 --out results/robustness/kills.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parent.parent / "cli"))
from command_runs import claims

from eastward.cli import app
from eastward.model_folder import load_model
from papers.command_line import app as papers

KILLS_IN_A_LIFE = 4
# What a clock, a folder's name or a process says is not part of a result.
CLOCKS = ("seconds", "wall", "wall_seconds", "epoch_seconds", "train_minutes", "row_microseconds")
VOLATILE = {*CLOCKS, "commands", "digests"}


@dataclass(frozen=True)
class Command:
    """A command line that writes to a folder, and the files that hold what it found out."""

    words: tuple[str, ...]
    results: tuple[str, ...]
    resume: tuple[str, ...] = ()
    program: Any = app


SMALL = ("--hidden", "4", "--epochs", "3")
TRAIN = ("train", "TABLE", "-t", "fraud", "-o", "FOLDER", "--method", "network", "--folds", "2")
COMPARE = ("compare", "TABLE", "-t", "fraud", "-o", "FOLDER", "--splits", "2", "--jobs", "1")
METHODS = "cross_entropy,eastward_single,logistic_regression"
COMMANDS = {
    "train": Command(
        (*TRAIN, "--quiet", *SMALL),
        ("summary.json", "task.json", "model/*"),
        ("--resume",),
    ),
    "compare": Command((*COMPARE, "--methods", METHODS, *SMALL), ("summary.json", "cells/*")),
    "tune": Command(
        ("tune", "TABLE", "-t", "fraud", "-o", "FOLDER", "--trials", "4", "--epochs", "3"),
        ("best.json",),
    ),
    "papers run": Command(
        ("run", "btg-table4", "--scale", "smoke", "-o", "FOLDER"),
        ("cells.jsonl", "btg-table4/results.json"),
        program=papers,
    ),
}


def outcome(folder: Path, patterns: tuple[str, ...]) -> dict[str, str]:
    """The name of every file, so that nothing is left behind, and digests of results without what clocks say."""
    found = {str(path.relative_to(folder)): "there" for path in folder.rglob("*") if path.is_file()}
    files = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    found |= {str(path.relative_to(folder)): _digest(path) for path in files}
    if (folder / "task.json").exists():
        # The archive of the preprocessing holds the time of day; what it does is in the predictions.
        predictions = load_model(folder).predict_proba(claims(80))
        found["predictions"] = hashlib.sha256(predictions.tobytes()).hexdigest()
    return found


def _digest(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".json":
        content = _text(json.loads(content)).encode()
    elif path.suffix == ".jsonl":
        content = "\n".join(
            sorted(_text(json.loads(line)) for line in content.splitlines())
        ).encode()
    return hashlib.sha256(content).hexdigest()


def _text(document: Any) -> str:
    return json.dumps(_without_clocks(document), sort_keys=True)


def _without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_clocks(one) for key, one in value.items() if key not in VOLATILE}
    return [_without_clocks(one) for one in value] if isinstance(value, list) else value


def child(program: Any, words: list[str], log: Path) -> int:
    """The process number of a child that runs the command."""
    number = os.fork()
    if number:
        return number
    try:
        with log.open("ab", buffering=0) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        program(words, standalone_mode=True)
        os._exit(0)
    except SystemExit as end:
        os._exit(int(end.code or 0))
    finally:
        traceback.print_exc()
        os._exit(1)  # the child must never return into the parent's code


def _different(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


@dataclass
class Lives:
    """Runs of one command that are killed now and then, and what came of them."""

    command: Command
    place: Path
    chance: random.Random

    def __post_init__(self) -> None:
        self.log = self.place / "log.txt"
        # Once in this process: every child then starts with all that is imported and compiled here.
        done = CliRunner().invoke(self.command.program, self._words(self.place / "first"))
        if done.exit_code:
            raise SystemExit(f"the command does not work at all: {done.output}")
        started = time.monotonic()
        self.expected = self._finished(self.place / "second")
        self.seconds = time.monotonic() - started
        first = outcome(self.place / "first", self.command.results)
        if different := _different(first, self.expected):
            raise SystemExit(f"two runs that nobody killed differ in {different}")

    def life(self) -> dict[str, Any]:
        """Kill at random moments, then let it finish; what it found must be what it always finds."""
        folder = self.place / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        kills, lives = 0, True
        while lives and kills < KILLS_IN_A_LIFE:
            started = time.monotonic()
            lives = self._killed(self._start(folder), self.chance.uniform(0, self.seconds))
            if not lives and not kills:
                # The machine was busier when this was measured: later moments would hit nothing.
                self.seconds = time.monotonic() - started
            kills += lives
        # It may have come to its end before it was killed.
        found = self._finished(folder) if lives else outcome(folder, self.command.results)
        return {"kills": kills, "different": _different(found, self.expected)}

    def _killed(self, number: int, seconds: float) -> bool:
        """Kill a child after this many seconds; False if it finished before."""
        started = time.monotonic()
        while (passed := time.monotonic() - started) < seconds:
            if os.waitpid(number, os.WNOHANG)[0]:
                return False
            time.sleep(min(0.01, seconds - passed))
        os.kill(number, signal.SIGKILL)
        _, status = os.waitpid(number, 0)
        return os.WIFSIGNALED(status)

    def _finished(self, folder: Path) -> dict[str, str]:
        _, status = os.waitpid(self._start(folder), 0)
        if status:
            return {
                f"exit status {status}: {self.log.read_text(errors='replace')[-500:]}": "failed"
            }
        return outcome(folder, self.command.results)

    def _start(self, folder: Path) -> int:
        return child(self.command.program, self._words(folder), self.log)

    def _words(self, folder: Path) -> list[str]:
        places = {"TABLE": self.place / "claims.csv", "FOLDER": folder}
        again = self.command.resume if folder.exists() else ()
        return [str(places.get(word, word)) for word in (*self.command.words, *again)]


def lives(name: str, kills: int, before: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield counts after each run, until the command was killed this many times."""
    counts = {"kills": 0, "lives": 0, "different": [], **before}
    if counts["kills"] >= kills:
        return
    with tempfile.TemporaryDirectory() as place:
        claims(80).drop(columns=["claim", "words"]).to_csv(Path(place) / "claims.csv", index=False)
        run = Lives(COMMANDS[name], Path(place), random.Random(f"{name} {counts['lives']}"))
        while counts["kills"] < kills:
            seen = run.life()
            counts["kills"] += seen["kills"]
            counts["lives"] += 1
            counts["seconds of an undisturbed run"] = round(run.seconds, 2)
            counts["different"] = [*counts["different"], *seen["different"]]
            yield counts


def main(
    names: list[str],
    kills: int,
    report: Callable[[dict[str, Any]], None],
    all_counts: dict[str, Any],
) -> None:
    """Kill each command this many times, and report after every run."""
    for name in names:
        for counts in lives(name, kills, all_counts.get(name, {})):
            all_counts[name] = counts
            report(all_counts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", nargs="*", default=list(COMMANDS))
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["EASTWARD_CHECKPOINT_SECONDS"] = "0"

    def write(counts: dict[str, Any]) -> None:
        if given.out is None:
            print(json.dumps(counts), flush=True)
        else:
            given.out.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")

    known = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    main(given.command or list(COMMANDS), given.kills, write, known)
