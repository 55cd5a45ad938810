"""The default of ``eastward train`` against other people's tools, each in an environment of its own.

    EASTWARD_DATA=<data folder> python -m benchmarks.quality.peers install
    EASTWARD_DATA=<data folder> python -m benchmarks.quality.peers run --splits 5
    python -m benchmarks.quality.peers report

``install`` makes virtual environments below ``build/peers``; no peer is a dependency. ``run`` fits what is missing and
appends one line for each cell to ``results/quality/peers/cells.jsonl``: stop it at any time, and the same command goes
on. Splits are those of ``benchmarks.quality`` (33 tables, at most 500 training rows). Peers that can be told a metric
are told F1 (macro-F1 beyond two classes); nothing is tuned on these tables. The budgets of FLAML and AutoGluon are wall
time, so run those two on a machine that does nothing else. ``report`` writes ``results/quality/peers/README.md``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from benchmarks.quality import data, statistics
from benchmarks.quality.__main__ import read_cells
from benchmarks.quality.components import Array, fitted
from benchmarks.quality.methods import Problem, metric_named, tuned
from eastward.estimators.ensemble import EASTEnsembleClassifier
from eastward.estimators.network import EASTClassifier

ROOT = Path(__file__).parents[2]
ENVIRONMENTS, RESULTS = ROOT / "build" / "peers", ROOT / "results" / "quality" / "peers"
OURS = "eastward train"
TORCH = "torch==2.13.0"
# Cells that do not say what they ran on.
FIRST_PROCESSOR = "AVX512"


@dataclass(frozen=True)
class Peer:
    """A function of ``peer_worker``, the environment it runs in, and its options."""

    function: str
    environment: str
    options: Mapping[str, Any] = field(default_factory=dict)


# What is installed into each environment, one call of pip after the other.
INSTALLED = {
    "catboost": (("catboost", "flaml[automl]"),),
    "pytabkit": ((TORCH,), (TORCH, "pytabkit[models]")),
    "autogluon": ((TORCH,), (TORCH, "autogluon.tabular[lightgbm,catboost,xgboost,fastai]")),
}
PEERS = {
    "CatBoost, balanced": Peer("catboost", "catboost"),
    "RealMLP": Peer("realmlp", "pytabkit"),
    "TabM": Peer("tabm", "pytabkit"),
    "FLAML, 10 s": Peer("flaml", "catboost", {"seconds": 10}),
    "FLAML, 30 s": Peer("flaml", "catboost", {"seconds": 30}),
    "AutoGluon, 60 s": Peer("autogluon", "autogluon", {"seconds": 60}),
}


def install(names: list[str]) -> None:
    """Make the environments that are missing."""
    for name in names or INSTALLED:
        folder = ENVIRONMENTS / name
        if not folder.exists():
            venv.create(folder, with_pip=True)
        for packages in INSTALLED[name]:
            subprocess.run(  # noqa: S603
                [folder / "bin" / "pip", "install", "-q", *packages], check=True
            )


def estimator(split: data.Split, metric: str, folder: Path, *, kind: Any) -> dict[str, Any]:  # noqa: ARG001
    """One of our estimators with nothing but a metric and a random state."""
    cpu = time.process_time()
    model = kind(metric, random_state=split.seed % 2**31).fit(split.train, split.train_codes)
    predicted = model.predict(split.test)
    return {"predicted": predicted, "cpu": time.process_time() - cpu}


def tuned_boosting(split: data.Split, metric: str, folder: Path) -> dict[str, Any]:
    """LightGBM cross-fitted on five folds, with a decision tuned on what they held out."""
    found = fitted(("lgb",), split, metric, folder)
    kind = metric_named("f1", split.train_codes, split.num_classes)
    return {"predicted": tuned(found, Problem(split, kind, "f1"), name="lgb")[0], "cpu": None}


OWN = {
    OURS: partial(estimator, kind=EASTEnsembleClassifier),
    "EASTClassifier": partial(estimator, kind=EASTClassifier),
    "LightGBM, tuned decision": tuned_boosting,
}


class Worker:
    """A peer's process, which is asked again and again."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        self.peer, self.path = peer, folder / "split.npz"
        python = ENVIRONMENTS / peer.environment / "bin" / "python"
        script = Path(__file__).with_name("peer_worker.py")
        quiet = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
        self.process = subprocess.Popen(  # noqa: S603
            [python, "-P", script],  # this folder has modules with the names of others
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=quiet,
            cwd=folder,  # CatBoost leaves files where it runs
        )

    def __call__(self, split: data.Split) -> dict[str, Any]:
        """Predictions of the test rows."""
        np.savez(self.path, train=split.train, codes=split.train_codes, test=split.test)
        asked = {"peer": self.peer.function, "path": str(self.path), "seed": split.seed % 2**31}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({**asked, "options": dict(self.peer.options)}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else {"failed": "the process ended"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()


def run(options: argparse.Namespace) -> None:
    """Fit whatever is missing, one split of all tables after the other."""
    torch.set_num_threads(1)
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / "cells.jsonl"
    done = {(cell["set"], cell["split"], cell["method"]) for cell in read_cells(path)}
    tasks = data.tabular(data.data_folder() / "tabular")
    tasks = {name: tasks[name] for name in options.sets or tasks}
    deadline = time.monotonic() + 60 * options.minutes
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers: dict[str, Worker] = {}
        for split in range(options.splits):
            for name, load in tasks.items():
                for method in options.methods:
                    if (name, split, method) in done or time.monotonic() > deadline:
                        continue
                    if method in PEERS and method not in workers:
                        workers[method] = stack.enter_context(Worker(PEERS[method], folder))
                    rows = data.make_split(load(), options.random_state, split, options.max_rows)
                    store = options.store / str(options.random_state)
                    own = partial(_own, method, store / "components" / f"{name}-{split}")
                    found = workers[method](rows) if method in PEERS else own(rows)
                    cell = {"set": name, "split": split, "method": method, "metric": "f1"}
                    cell["processor"] = torch.backends.cpu.get_cpu_capability()
                    with path.open("a") as file:
                        file.write(json.dumps({**cell, **_judged(rows, found)}) + "\n")


def _own(method: str, folder: Path, split: data.Split) -> dict[str, Any]:
    metric = "f1" if split.num_classes == 2 else "f1_macro"
    return OWN[method](split, metric, folder)


def _judged(split: data.Split, found: Mapping[str, Any]) -> dict[str, Any]:
    """A peer that failed has no score; it keeps its reason."""
    if "failed" in found:
        return {"score": None, "failed": found["failed"], "cpu": found.get("cpu")}
    metric = metric_named("f1", split.train_codes, split.num_classes)
    predicted: Array = np.asarray(found["predicted"])
    score = Problem(split, metric, "f1").merit(predicted, split.test_codes)
    never = np.setdiff1d(np.unique(split.test_codes), predicted).tolist()
    return {"score": score, "never_predicted": never, "cpu": found["cpu"]}


def report() -> None:
    """Every peer beside the default: mean, rank, processor seconds, and a test over tables."""
    cells = read_cells(RESULTS / "cells.jsonl")
    judged = [cell for cell in cells if cell["score"] is not None]
    methods = list(dict.fromkeys(cell["method"] for cell in judged))
    others = [name for name in methods if name != OURS]
    heads = ("against", "cells", "F1, default", "F1, peer", "gain (95 %)", "W–T–L", "p", "p (Holm)")
    heads += ("CPU s, default", "CPU s, peer")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in statistics.versus_all(judged, "f1", OURS, others):
        pairs = _pairs(judged, row.name)
        score = [np.mean([pair[side]["score"] for pair in pairs]) for side in (0, 1)]
        lines.append(
            f"| {row.name} | {len(pairs)} on {row.sets} tables | {score[0]:.3f} | {score[1]:.3f} "
            f"| {row.gain:+.3f} ({row.low:+.3f} to {row.high:+.3f}) | {row.wins}–{row.ties}–{row.losses} "
            f"| {row.p_value:.4f} | {row.p_holm:.4f} | {_cost(pairs, 0)} | {_cost(pairs, 1)} |"
        )
    failed = [cell for cell in cells if cell["score"] is None]
    told = "; ".join(f"{c['method']} on {c['set']}: {c['failed']}" for c in failed)
    text = "\n".join([*lines, "", _ranks(judged), "", f"Failed: {told or 'none'}."])
    (RESULTS / "README.md").write_text(
        f"# Peers\n\n<!-- peers -->\n\n{text}\n\n<!-- end peers -->\n"
    )
    print(text)


def _pairs(cells: list[dict[str, Any]], other: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Cells of the default and of a peer on the same splits."""
    by_key = {(cell["method"], cell["set"], cell["split"]): cell for cell in cells}
    return [
        (by_key[OURS, *key[1:]], cell)
        for key, cell in by_key.items()
        if key[0] == other and (OURS, *key[1:]) in by_key
    ]


def _cost(pairs: list[tuple[dict[str, Any], dict[str, Any]]], side: int) -> str:
    """Mean processor seconds, over the splits that both ran on the same kind of processor."""
    kinds = [[cell.get("processor", FIRST_PROCESSOR) for cell in pair] for pair in pairs]
    alike = [pair for pair, kind in zip(pairs, kinds, strict=True) if kind[0] == kind[1]]
    seconds = [pair[side]["cpu"] for pair in alike]
    return "–" if None in seconds else f"{np.mean(seconds):.1f}"


def _ranks(cells: list[dict[str, Any]]) -> str:
    """Average ranks of the methods that have run on every table."""
    methods, sets, table = statistics.mean_table(cells, "f1")
    whole = [k for k in range(len(methods)) if np.isfinite(table[k]).all()]
    ranks = statistics.ranks(table[whole])
    order = sorted(zip(ranks, (methods[k] for k in whole), strict=True))
    told = ", ".join(f"{name} {rank:.2f}" for rank, name in order)
    distance = statistics.critical_difference(len(whole), len(sets))
    return (
        f"Average ranks over {len(sets)} tables (1 is best; two differ by chance up to {distance:.2f}, Nemenyi, "
        f"5 %): {told}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("action", choices=("install", "run", "report"))
    parser.add_argument("--methods", nargs="+", default=[*OWN, *PEERS], choices=[*OWN, *PEERS])
    parser.add_argument("--environments", nargs="*", default=[], choices=list(INSTALLED))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=[], help="tables; default: all")
    parser.add_argument("--random-state", type=int, default=1)
    parser.add_argument("--max-rows", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "quality")
    options = parser.parse_args()
    logging.getLogger("eastward").setLevel(logging.ERROR)
    if options.action == "install":
        install(options.environments)
    elif options.action == "run":
        run(options)
    else:
        report()


if __name__ == "__main__":
    sys.exit(main())
