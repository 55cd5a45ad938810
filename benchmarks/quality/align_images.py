"""Long-tailed images: `eastward.align` against what long-tail people use.

    EASTWARD_IMAGES=<folder> python -m benchmarks.quality.align_images fashion --imbalance 100 --seeds 5
    python -m benchmarks.quality.align_images --table       # results/align/images.md from the finished cells

``EASTWARD_IMAGES`` holds ``fashion-mnist/*-ubyte.gz`` and ``cifar-10-batches-bin/*.bin``, the official files. A cell is
one seed of one set; finished ones are kept in ``results/align/images.jsonl`` and not run again.

Protocol. Seed s shuffles the order of the classes; class c keeps ``most`` down to ``most / imbalance`` training images
(geometric). A fifth of them is held out. The test images are all official ones, judged twice by macro-F1: as they are
(*balanced*), and weighted to the training frequencies (*as trained*); balanced accuracy is the same under both. `align`
starts from 30 epochs of cross-entropy and has 12 of its own. Every opponent trains for 42, keeps the epoch that is best
on the held-out images *by the metric and the frequencies that it is judged by*, and has its logits adjusted to these
frequencies (``+ log target - log believed``). Opponents that retrain or tune a head do so on the network that `align`
starts from: classifier retraining (cRT) sees the held-out images as well, as the head of `align` does; tuned offsets
are found on the held-out ones. Logit adjustment as a loss and balanced softmax are the same loss, so they share a row.
No augmentation.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import eastward as ew
from benchmarks.quality.images import SETS, convolutions, long_tailed, read
from eastward.baselines import FocalLoss, class_weights
from eastward.confusion import hard_confusion
from eastward.decisions import bagged_offsets
from eastward.metrics import get
from eastward.training import assign_folds

FOLDER = Path(__file__).parents[2] / "results" / "align"
CELLS, TABLE = FOLDER / "images.jsonl", FOLDER / "images.md"
EPOCHS, ALIGN_EPOCHS = 30, 12
LEARNING_RATE, WEIGHT_DECAY, BATCH = 2e-3, 1e-4, 64
COLUMNS = (
    ("f1_macro", "as trained"),
    ("f1_macro", "balanced"),
    ("balanced_accuracy", "balanced"),
)
OURS = "align"


class Task:
    """Images of one seed: to train, held out, to test; and the frequencies that each protocol judges by."""

    def __init__(self, name: str, most: int, imbalance: int, seed: int) -> None:
        train, labels, test, truth = SETS[name]()
        rows = long_tailed(labels, most, max(5, most // imbalance), seed)
        X, y = torch.from_numpy(train[rows].astype(np.float32)), torch.from_numpy(labels[rows])
        held = assign_folds(y, 5, torch.Generator().manual_seed(seed)) == 0
        self.train, self.valid = (X[~held], y[~held]), (X[held], y[held])
        self.test = torch.from_numpy(test.astype(np.float32)), torch.from_numpy(truth)
        self.size, self.seed = int(labels.max()) + 1, seed
        counts = torch.bincount(self.train[1], minlength=self.size).double()
        self.counts = counts
        self.priors = {
            "as trained": counts / counts.sum(),
            "balanced": torch.full((self.size,), 1 / self.size, dtype=torch.float64),
        }

    def value(self, metric: str, protocol: str, decided: Tensor, truth: Tensor) -> float:
        """The metric under the frequencies of a protocol."""
        present = torch.bincount(truth, minlength=self.size).double()
        weight = (self.priors[protocol] / present)[truth]
        table = hard_confusion(decided, truth, num_classes=self.size, sample_weight=weight)
        return float(get(metric)(table))


class NormedLinear(nn.Module):
    """Cosines of features and classes, as LDAM wants them."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, features).uniform_(-1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Thirty times the cosines."""
        return 30 * functional.normalize(x) @ functional.normalize(self.weight).T


def network(kind: str, channels: int, classes: int, seed: int) -> nn.Module:
    """Untrained; the same for every method of a seed."""
    torch.manual_seed(seed)
    if kind == "conv":
        return convolutions(channels, classes)
    from papers.networks.resnet import resnet18  # noqa: PLC0415 - the one method that needs it

    return resnet18(classes, in_channels=channels, width=0.25)


def logits_of(model: nn.Module, X: Tensor) -> Tensor:
    model.eval()
    with torch.no_grad():
        return torch.cat([model(part) for part in X.split(1000)])


def losses(task: Task) -> dict[str, Any]:
    """What each opponent minimises, with the share of training that is over."""
    log_prior = task.priors["as trained"].log().float()
    weights = class_weights(task.counts).float()
    weights = weights / (weights * task.counts).sum() * task.counts.sum()
    deferred = class_weights(task.counts, scheme="effective_number", effective_beta=0.9999).float()
    margins = 0.5 * (task.counts / task.counts.min()).pow(-0.25).float()
    focal = FocalLoss(gamma=2.0)

    def ldam(z: Tensor, y: Tensor, done: float) -> Tensor:
        shifted = z - 30 * functional.one_hot(y, task.size) * margins
        return functional.cross_entropy(shifted, y, weight=deferred if done >= 0.8 else None)

    return {
        "cross-entropy": lambda z, y, _: functional.cross_entropy(z, y),
        "class weights": lambda z, y, _: functional.cross_entropy(z, y, weight=weights.float()),
        "balanced softmax": lambda z, y, _: functional.cross_entropy(z + log_prior, y),
        "focal loss": lambda z, y, _: focal(z, y),
        "LDAM-DRW": ldam,
    }


BELIEVES_BALANCED = ("class weights", "balanced softmax", "LDAM-DRW", "cRT")


def adjusted(task: Task, method: str, z: Tensor, protocol: str) -> Tensor:
    """Logits for the frequencies that are judged by."""
    believed = task.priors["balanced" if method in BELIEVES_BALANCED else "as trained"]
    return z + (task.priors[protocol].log() - believed.log()).float()


def train(task: Task, model: nn.Module, loss: Any, epochs: int, watch: Any) -> float:
    """Train on the training images; ``watch`` sees the model after each epoch. Seconds of training alone."""
    X, y = task.train
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    generator, seconds = torch.Generator().manual_seed(task.seed), 0.0
    for epoch in range(epochs):
        began = time.perf_counter()
        model.train()
        for rows in torch.randperm(len(y), generator=generator).split(BATCH):
            optimizer.zero_grad()
            loss(model(X[rows]), y[rows], epoch / epochs).backward()
            optimizer.step()
        seconds += time.perf_counter() - began
        watch(model)
    return seconds


def opponent(task: Task, kind: str, name: str, loss: Any) -> dict[str, float]:
    """Scores of one opponent, each at the epoch that the held-out images prefer."""
    model = network(kind, task.train[0].shape[1], task.size, task.seed)
    if name == "LDAM-DRW":
        _with_cosines(model, task.size)
    best: dict[tuple[str, str], tuple[float, Any]] = {}

    def watch(now: nn.Module) -> None:
        z, state = logits_of(now, task.valid[0]), copy.deepcopy(now.state_dict())
        for metric, protocol in COLUMNS:
            decided = adjusted(task, name, z, protocol).argmax(1)
            value = task.value(metric, protocol, decided, task.valid[1])
            if value > best.get((metric, protocol), (-1.0, None))[0]:
                best[metric, protocol] = value, state

    train(task, model, loss, EPOCHS + ALIGN_EPOCHS, watch)
    scores = {}
    for (metric, protocol), (_, state) in best.items():
        model.load_state_dict(state)
        chosen = adjusted(task, name, logits_of(model, task.test[0]), protocol).argmax(1)
        scores[f"{metric}, {protocol}"] = task.value(metric, protocol, chosen, task.test[1])
    return scores


def _with_cosines(model: nn.Module, classes: int) -> None:
    name, last = [pair for pair in model.named_modules() if isinstance(pair[1], nn.Linear)][-1]
    parent = model.get_submodule(name.rpartition(".")[0])
    setattr(parent, name.rpartition(".")[2], NormedLinear(last.in_features, classes))


def start(task: Task, kind: str) -> tuple[nn.Module, float]:
    """Cross-entropy, at its lowest held-out loss: what `align` and the heads start from."""
    model = network(kind, task.train[0].shape[1], task.size, task.seed)
    kept: list[Any] = [float("inf"), None]

    def watch(now: nn.Module) -> None:
        value = float(functional.cross_entropy(logits_of(now, task.valid[0]), task.valid[1]))
        if value < kept[0]:
            kept[:] = [value, copy.deepcopy(now.state_dict())]

    loss = losses(task)["cross-entropy"]
    seconds = train(task, model, loss, EPOCHS, watch)
    model.load_state_dict(kept[1])
    return model.eval(), seconds


def heads(task: Task, model: nn.Module) -> dict[str, dict[str, float]]:
    """Opponents that leave the network as it is: argmax, adjusted, tuned offsets, retrained classifier."""
    found: dict[str, dict[str, float]] = {}
    z, held = logits_of(model, task.test[0]), logits_of(model, task.valid[0])
    retrained = logits_of(crt(task, model), task.test[0])
    for metric, protocol in COLUMNS:
        shifted, own = (adjusted(task, "", part, protocol) for part in (z, held))
        y, present = task.valid[1], torch.bincount(task.valid[1], minlength=task.size)
        weight = (task.priors[protocol] / present)[y]
        offsets = bagged_offsets(own.log_softmax(1), y, metric, sample_weight=weight)
        choices = {
            "as given": z,
            "logit adjustment": shifted,
            "tuned offsets": shifted + offsets.float(),
            "cRT": adjusted(task, "cRT", retrained, protocol),
        }
        for name, logits in choices.items():
            score = task.value(metric, protocol, logits.argmax(1), task.test[1])
            found.setdefault(name, {})[f"{metric}, {protocol}"] = score
    return found


def crt(task: Task, model: nn.Module) -> nn.Module:
    """The last layer, anew, on batches with all classes alike; training and held-out images."""
    model = copy.deepcopy(model).requires_grad_(requires_grad=False)
    last = [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1]
    X, y = (torch.cat(pair) for pair in zip(task.train, task.valid, strict=True))
    with torch.no_grad():
        seen: list[Tensor] = []
        handle = last.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        logits_of(model, X)
        handle.remove()
    features = torch.cat(seen)
    torch.manual_seed(task.seed)
    head = nn.Linear(last.in_features, task.size)
    optimizer = torch.optim.AdamW(head.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    chance = (1 / torch.bincount(y).double())[y]
    for _ in range(ALIGN_EPOCHS):
        for rows in torch.multinomial(chance, len(y), replacement=True).split(BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(head(features[rows]), y[rows]).backward()
            optimizer.step()
    last.load_state_dict(head.state_dict())
    return model.eval()


def ours(task: Task, model: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
    """`align`, for each metric and protocol."""
    loader = DataLoader(TensorDataset(*task.train), BATCH, shuffle=True)
    held = DataLoader(TensorDataset(*task.valid), 256)
    scores, reports = {}, {}
    for metric, protocol in COLUMNS:
        prior = None if protocol == "as trained" else "balanced"
        options = {"epochs": ALIGN_EPOCHS, "learning_rate": LEARNING_RATE}
        result = ew.align(model, loader, held, metric, prior=prior, **options)
        decided = result.decide(logits_of(result.model, task.test[0]))
        key = f"{metric}, {protocol}"
        scores[key] = task.value(metric, protocol, decided, task.test[1])
        reports[key] = {"kept": result.report["kept"], "stages": result.report["stages"]}
    return scores, reports


def run_cell(name: str, kind: str, most: int, imbalance: int, seed: int) -> dict[str, Any]:
    """All methods on one seed."""
    task = Task(name, most, imbalance, seed)
    model, seconds = start(task, kind)
    scores = heads(task, model)
    scores[OURS], reports = ours(task, model)
    for method, loss in losses(task).items():
        scores[method] = opponent(task, kind, method, loss)
    return {
        "set": name,
        "network": kind,
        "most": most,
        "imbalance": imbalance,
        "seed": seed,
        "scores": scores,
        "training_seconds": seconds,
        "reports": reports,
    }


def table(cells: list[dict[str, Any]]) -> str:
    """Means of each method, and what `align` gains over it."""
    protocol = __doc__.split("Protocol. ")[1].replace("``", "`").strip()
    text = ["# Long-tailed images: align against its opponents", protocol]
    keys = sorted({(c["set"], c["network"], c["most"], c["imbalance"]) for c in cells})
    for key in keys:
        own = [c for c in cells if (c["set"], c["network"], c["most"], c["imbalance"]) == key]
        title = f"## {key[0]}, {key[1]}, {key[2]} images of the largest class, imbalance {key[3]}"
        text += [f"{title}, {len(own)} seeds", _scores(own), _cost(own)]
    return "\n\n".join(text) + "\n"


def _scores(cells: list[dict[str, Any]]) -> str:
    columns = [f"{metric}, {protocol}" for metric, protocol in COLUMNS]
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for method in (OURS, *(name for name in cells[0]["scores"] if name != OURS)):
        shown = []
        for column in columns:
            values = np.array([cell["scores"][method][column] for cell in cells])
            gain = np.array([cell["scores"][OURS][column] for cell in cells]) - values
            extra = ""
            if method != OURS:
                error = f" ± {stats.sem(gain):.3f}" if len(gain) > 1 else ""
                extra = f" ({gain.mean():+.3f}{error}, {(gain > 0).sum()}–{(gain < 0).sum()})"
            shown.append(f"{values.mean():.3f}{extra}")
        lines.append(f"| {method} | " + " | ".join(shown) + " |")
    note = "In brackets: what `align` gains over the row, its standard error, and the seeds won and lost."
    return note + "\n\n" + "\n".join(lines)


def _cost(cells: list[dict[str, Any]]) -> str:
    """Seconds of the stages as shares of the training that they follow."""
    shares: dict[str, list[float]] = {}
    for cell in cells:
        for report in cell["reports"].values():
            for stage in report["stages"]:
                share = stage["seconds"] / cell["training_seconds"]
                shares.setdefault(stage["stage"], []).append(share)
            total = sum(stage["seconds"] for stage in report["stages"])
            shares.setdefault("all", []).append(total / cell["training_seconds"])
    words = ", ".join(f"{name} {100 * np.median(found):.0f} %" for name, found in shares.items())
    kept: dict[str, int] = {}
    for cell in cells:
        for report in cell["reports"].values():
            kept[report["kept"]] = kept.get(report["kept"], 0) + 1
    chosen = ", ".join(f"{name} {count}" for name, count in sorted(kept.items()))
    return f"Median cost as a share of the {EPOCHS} epochs before: {words}. Kept last: {chosen}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("name", choices=("fashion", "cifar"), nargs="?", default="fashion")
    parser.add_argument("--network", choices=("conv", "resnet"), default="conv")
    parser.add_argument("--imbalance", type=int, default=100)
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--table", action="store_true", help="write the table, run nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    key = (options.name, options.network, options.most, options.imbalance)
    for seed in () if options.table else range(options.first, options.first + options.seeds):
        done = {(c["set"], c["network"], c["most"], c["imbalance"], c["seed"]) for c in read(CELLS)}
        if (*key, seed) in done:
            continue
        began = time.perf_counter()
        cell = run_cell(*key, seed)
        with CELLS.open("a") as handle:
            handle.write(json.dumps(cell) + "\n")
        print(*key, seed, f"{time.perf_counter() - began:.0f} s", flush=True)
    TABLE.write_text(table(read(CELLS)))


if __name__ == "__main__":
    main()
