"""Votes that are learnt instead of fixed: what they would be worth to EASTEnsembleClassifier, on development splits.

    EASTWARD_DATA=<data folder> python -m benchmarks.quality run --random-state 0 --plan key:3
    EASTWARD_DATA=<data folder> python -m benchmarks.quality.stacking

reads the components that the first left and writes ``results/quality/stacking.md``. Votes and what else is learnt are
fitted on held-out predictions; the decision is the ensemble's own, tuned on them after that. F1 on the test rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import wilcoxon
from torch import Tensor

import eastward as ew
from benchmarks.quality import data
from benchmarks.quality.components import Component
from benchmarks.quality.methods import Problem, metric_named

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "results" / "quality" / "stacking.md"
VOTES = {"ce": 0.5, "lgb": 0.25, "forest": 0.25}
FIXED = np.array(list(VOTES.values()))
STEPS, LEARNING_RATE = 150, 0.02
Array = NDArray[Any]


def mixed(logs: Array, votes: Array) -> Array:
    """Logarithm of the mean of the parts' probabilities ``(P, n, C)``."""
    result: Array = np.logaddexp.reduce(logs + np.log(votes)[:, None, None], axis=0)
    return result


def normalised(logs: Array) -> Array:
    result: Array = logs - np.logaddexp.reduce(logs, axis=-1, keepdims=True)
    return result


def likely_votes(logs: Array, codes: Array, strength: float) -> Array:
    """Votes under which the labels are most probable, by expectation and maximisation.

    ``strength`` is how many rows the fixed votes are worth.

    Examples
    --------
    >>> sure, unsure = np.log([[0.9, 0.1], [0.1, 0.9]]), np.log([[0.5, 0.5], [0.5, 0.5]])
    >>> votes = likely_votes(np.stack([sure, unsure, unsure]), np.array([0, 1]), 0.0)
    >>> bool(votes[0] > 0.99)
    True
    """
    of_label = np.exp(logs[:, np.arange(len(codes)), codes]).clip(1e-9)
    votes = FIXED
    for _ in range(200):
        owners = votes[:, None] * of_label
        votes = (owners / owners.sum(0)).sum(1) + strength * FIXED
        votes = votes / votes.sum()
    found: Array = votes
    return found


def sharpness(logs: Array, codes: Array) -> float:
    """The power of the probabilities under which the labels are most probable."""

    def surprise(power: float) -> float:
        return -float(
            normalised(np.exp(power) * logs)[np.arange(len(codes)), codes].clip(-30).mean()
        )

    return float(np.exp(minimize_scalar(surprise, bounds=(-1.5, 1.0), method="bounded").x))


def aligned_votes(
    logs: Array, codes: Array, offsets: Array, metric: str, penalty: float
) -> tuple[Array, Array]:
    """Votes and offsets trained by the metric as a loss, from the fixed votes and the tuned decision on."""
    table, targets, start = torch.tensor(logs), torch.tensor(codes), torch.tensor(offsets)
    base = torch.tensor(FIXED).log()
    moved, shift = torch.zeros_like(base, requires_grad=True), start.clone().requires_grad_()
    optimizer = torch.optim.Adam([moved, shift], lr=LEARNING_RATE)
    loss = ew.EASTLoss(metric, check_inputs=False)

    def votes() -> Tensor:
        return torch.log_softmax(base + moved, 0)

    for step in range(STEPS):
        loss.temperature = 0.2 * 0.25 ** (step / STEPS)
        scores = torch.logsumexp(table + votes().view(-1, 1, 1), 0) + shift
        far = moved.square().sum() + (shift - start).square().mean()
        optimizer.zero_grad()
        (loss(scores.float(), targets) + penalty * far).backward()
        optimizer.step()
    return votes().exp().detach().numpy(), shift.detach().numpy()


class Case:
    """One split: predictions of the parts, and how a blend of them is decided and judged."""

    def __init__(self, split: data.Split, parts: list[Component]) -> None:
        held = np.stack([part.held_out for part in parts])
        self.known = np.isfinite(held).all(axis=(0, 2))
        self.codes = split.train_codes[self.known]
        self.held, self.test = held[:, self.known], np.stack([part.test_mean for part in parts])
        metric = metric_named("f1", split.train_codes, split.num_classes)
        self.problem = Problem(split, metric, "f1")

    def offsets(self, held: Array) -> Array:
        """The ensemble's decision for these held-out scores."""
        whole = np.full((len(self.known), held.shape[1]), np.nan)
        whole[self.known] = held
        return self.problem.kept_offsets(whole)

    def judged(self, blend: Callable[[Array], Array], offsets: Array | None = None) -> float:
        """F1 of a blend with its own decision, or the given one."""
        found = self.offsets(blend(self.held)) if offsets is None else offsets
        predicted = (blend(self.test) + found).argmax(1)
        return self.problem.merit(predicted, self.problem.split.test_codes)


def scores(case: Case) -> dict[str, float]:
    """F1 of every variant."""
    found = {"fixed votes": case.judged(lambda logs: mixed(logs, FIXED))}
    for strength in (0, 30, 100):
        votes = likely_votes(case.held, case.codes, strength)
        name = f"most likely votes, fixed ones worth {strength} rows"
        found[name] = case.judged(lambda logs, votes=votes: mixed(logs, votes))
    powers = np.array([sharpness(part, case.codes) for part in case.held])[:, None, None]
    found["each part calibrated first"] = case.judged(
        lambda logs: mixed(normalised(powers * logs), FIXED)
    )
    found["geometric mean"] = case.judged(
        lambda logs: normalised((FIXED[:, None, None] * logs.clip(-12)).sum(0))
    )
    start = case.offsets(mixed(case.held, FIXED))
    for penalty in (0.0, 0.05):
        name = f"votes and offsets by the metric as a loss, penalty {penalty:g}"
        votes, offsets = aligned_votes(
            case.held, case.codes, start, case.problem.metric.name, penalty
        )
        found[name] = case.judged(lambda logs, votes=votes: mixed(logs, votes), offsets)
        found[f"{name}, tuned again"] = case.judged(lambda logs, votes=votes: mixed(logs, votes))
    return found


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """Mean F1 over sets, and differences to the fixed votes."""
    variants = list(next(iter(found.values()))[0])
    means = {
        variant: np.array(
            [np.mean([split[variant] for split in splits]) for splits in found.values()]
        )
        for variant in variants
    }
    lines = ["| votes | F1 | difference | sets better–worse | Wilcoxon p |", "|---" * 5 + "|"]
    for variant, values in means.items():
        gains = values - means[variants[0]]
        versus = " | | "
        if variant != variants[0]:
            wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
            versus = f"{gains.mean():+.3f} | {wins}–{losses} | {wilcoxon(gains).pvalue:.3f}"
        lines.append(f"| {variant} | {values.mean():.3f} | {versus} |")
    splits = sum(len(each) for each in found.values())
    lines.append(f"\n{len(found)} development tables, {splits} splits.")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--max-rows", type=int, default=500)
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "quality" / "0")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, list[dict[str, float]]] = {}
    for name, load in data.tabular(data.data_folder() / "tabular").items():
        for number in range(10):
            folder = options.store / "components" / f"{name}-{number}"
            if not all((folder / f"{part}.npz").exists() for part in VOTES):
                continue
            split = data.make_split(load(), 0, number, options.max_rows)
            parts = [Component.load(folder / f"{part}.npz") for part in VOTES]
            found.setdefault(name, []).append(scores(Case(split, parts)))
    TABLE.write_text(table(found))
    print(TABLE.read_text())


if __name__ == "__main__":
    main()
