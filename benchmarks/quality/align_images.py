"""Long-tailed images: `eastward.align` against what long-tail people use.

    EASTWARD_IMAGES=<folder> python -m benchmarks.quality.align_images fashion --imbalance 100 --seeds 5
    python -m benchmarks.quality.align_images --table       # results/align/images.md from the finished cells

``EASTWARD_IMAGES`` holds ``fashion-mnist/*-ubyte.gz`` and ``cifar-10-batches-bin/*.bin``, the official files. A cell is
one method on one seed of one set; finished ones are kept in ``results/align/images.jsonl`` and not run again.

Protocol. Fashion-MNIST is averaged to 14 x 14 pixels, CIFAR-10 to 16 x 16. Seed s shuffles the order of the classes;
class c keeps ``most`` down to ``most / imbalance`` training images (geometric). A fifth of them is held out. The test
images are all official ones, judged twice by macro-F1: as they are (*balanced*), and weighted to the training
frequencies (*as trained*); balanced accuracy is the same under both. Everybody has 42 epochs: `align` takes a network
that cross-entropy (or balanced softmax, or LDAM-DRW) trained for 30, and has 12 of its own; classifier retraining
(cRT) trains the head of such a network for 12 more, on training and held-out images, as the head of `align` does; all
others train for 42. AdamW with a constant learning rate. Every opponent keeps the epoch that the held-out images prefer
*by the metric and the frequencies that it is judged by*, and has its logits adjusted to these frequencies
(``+ log target - log believed``); *cross-entropy* alone is left as it is, because its adjusted form is *logit
adjustment*. Tuned offsets start from that, and are found on the held-out images. Logit adjustment as a loss and
balanced softmax are the same loss, so they share a row. No augmentation. The small convolutional network learns from
batches of 32; ResNet-18 has an eighth of its width and batches of 64.
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
LEARNING_RATE, WEIGHT_DECAY = 2e-3, 1e-4
BATCH = {"conv": 32, "resnet": 64}
COLUMNS = (
    ("f1_macro", "as trained"),
    ("f1_macro", "balanced"),
    ("balanced_accuracy", "balanced"),
)
OURS, OURS_BALANCED = "align", "align, from balanced softmax"
OURS_MARGINS = "align, from LDAM-DRW"


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
        self.courses: dict[tuple[str, str, int], Course] = {}
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

    model: nn.Module = resnet18(classes, in_channels=channels, width=0.125)
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


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


Logits = dict[tuple[str, str], tuple[Tensor, Tensor]]
State = dict[str, Tensor]


class Course:
    """What is kept of one training: where the held-out loss was lowest at first, and the best epoch for each column.

    `align` and cRT start from the first, opponents are judged by the second; so both share the epochs that they have
    in common.
    """

    def __init__(self, task: Task, kind: str, name: str, epochs: int) -> None:
        self.model = network_for(task, kind, name)
        self.lowest: tuple[float, State] = (float("inf"), {})
        self.best: dict[tuple[str, str], tuple[float, State]] = {}
        self.seconds = 0.0
        loss, (X, y) = losses(task)[name], task.train
        optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True
        )
        generator = torch.Generator().manual_seed(task.seed)
        for epoch in range(epochs):
            began = time.perf_counter()
            self.model.train()
            for rows in torch.randperm(len(y), generator=generator).split(BATCH[kind]):
                optimizer.zero_grad()
                loss(self.model(X[rows]), y[rows], epoch / epochs).backward()
                optimizer.step()
            self.seconds += time.perf_counter() - began if epoch < EPOCHS else 0.0
            self._judge(task, name, loss, epoch)

    def _judge(self, task: Task, name: str, loss: Any, epoch: int) -> None:
        z, state = logits_of(self.model, task.valid[0]), copy.deepcopy(self.model.state_dict())
        value = float(loss(z, task.valid[1], 1.0))
        if epoch < EPOCHS and value < self.lowest[0]:
            self.lowest = value, state
        for metric, protocol in COLUMNS:
            decided = adjusted(task, name, z, protocol).argmax(1)
            value = task.value(metric, protocol, decided, task.valid[1])
            if value >= self.best.get((metric, protocol), (-1.0,))[0]:
                self.best[metric, protocol] = value, state


def course(task: Task, kind: str, name: str, epochs: int) -> Course:
    """Train once for each seed, and only as often as needed."""
    key = kind, name, epochs
    if key not in task.courses:
        task.courses[key] = Course(task, kind, name, epochs)
    return task.courses[key]


Scores = dict[str, float]


def chosen_logits(task: Task, kind: str, name: str) -> Logits:
    """Held-out and test logits of an opponent, for each column those of the epoch that the held-out images prefer."""
    done = course(task, kind, name, EPOCHS + ALIGN_EPOCHS)
    model, found = copy.deepcopy(done.model), {}
    for column, (_, state) in done.best.items():
        model.load_state_dict(state)
        found[column] = logits_of(model, task.valid[0]), logits_of(model, task.test[0])
    return found


def scored(task: Task, decided: dict[tuple[str, str], Tensor]) -> Scores:
    """Values on the test images."""
    return {
        f"{metric}, {protocol}": task.value(metric, protocol, chosen, task.test[1])
        for (metric, protocol), chosen in decided.items()
    }


def opponent(task: Task, kind: str, name: str) -> dict[str, Scores]:
    """Scores of what one loss trains; cross-entropy serves with and without adjustment, and with offsets."""
    found = chosen_logits(task, kind, name)
    shifted = {
        (metric, protocol): [adjusted(task, name, part, protocol) for part in pair]
        for (metric, protocol), pair in found.items()
    }
    plain = {column: pair[1].argmax(1) for column, pair in shifted.items()}
    if name != "cross-entropy":
        return {name: scored(task, plain)}
    tuned = {column: _tuned(task, column, *pair) for column, pair in shifted.items()}
    return {
        name: scored(task, {column: pair[1].argmax(1) for column, pair in found.items()}),
        "logit adjustment": scored(task, plain),
        "tuned offsets": scored(task, tuned),
    }


def _tuned(task: Task, column: tuple[str, str], held: Tensor, test: Tensor) -> Tensor:
    metric, protocol = column
    y = task.valid[1]
    weight = (task.priors[protocol] / torch.bincount(y, minlength=task.size))[y]
    offsets = bagged_offsets(held.log_softmax(1), y, metric, sample_weight=weight)
    return (test + offsets.float()).argmax(1)


def _with_cosines(model: nn.Module, classes: int) -> None:
    name, last = [pair for pair in model.named_modules() if isinstance(pair[1], nn.Linear)][-1]
    parent = model.get_submodule(name.rpartition(".")[0])
    setattr(parent, name.rpartition(".")[2], NormedLinear(last.in_features, classes))


def network_for(task: Task, kind: str, name: str) -> nn.Module:
    """An untrained network with the head that a loss wants."""
    model = network(kind, task.train[0].shape[1], task.size, task.seed)
    if name == "LDAM-DRW":
        _with_cosines(model, task.size)
    return model


def start(task: Task, kind: str, name: str = "cross-entropy") -> tuple[nn.Module, float]:
    """A network at its lowest held-out loss in the first epochs, and the seconds that these took."""
    # LDAM-DRW changes its weights at a share of all epochs, so those of a longer training are others.
    epochs = EPOCHS if name == "LDAM-DRW" else EPOCHS + ALIGN_EPOCHS
    done = course(task, kind, name, epochs)
    model = copy.deepcopy(done.model)
    model.load_state_dict(done.lowest[1])
    return model.eval(), done.seconds


def retrained(task: Task, kind: str) -> dict[str, Scores]:
    """Classifier retraining: the last layer anew, on batches with all classes alike; training and held-out images."""
    model = start(task, kind)[0].requires_grad_(requires_grad=False)
    last = [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1]
    X, y = (torch.cat(pair) for pair in zip(task.train, task.valid, strict=True))
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
        for rows in torch.multinomial(chance, len(y), replacement=True).split(BATCH[kind]):
            optimizer.zero_grad()
            functional.cross_entropy(head(features[rows]), y[rows]).backward()
            optimizer.step()
    last.load_state_dict(head.state_dict())
    z = logits_of(model, task.test[0])
    return {"cRT": scored(task, {c: adjusted(task, "cRT", z, c[1]).argmax(1) for c in COLUMNS})}


def ours(task: Task, kind: str, name: str) -> tuple[Scores, dict[str, Any]]:
    """`align`, for each metric and protocol."""
    model, seconds = start(task, kind, name)
    loader = DataLoader(TensorDataset(*task.train), BATCH[kind], shuffle=True)
    held = DataLoader(TensorDataset(*task.valid), 256)
    decided, reports = {}, {}
    for metric, protocol in COLUMNS:
        prior = None if protocol == "as trained" else "balanced"
        options: dict[str, Any] = {"epochs": ALIGN_EPOCHS, "learning_rate": LEARNING_RATE}
        options["head"] = "added" if name == "LDAM-DRW" else None
        result = ew.align(model, loader, held, metric, prior=prior, **options)
        decided[metric, protocol] = result.decide(logits_of(result.model, task.test[0]))
        stages = result.report["stages"]
        reports[f"{metric}, {protocol}"] = {"kept": result.report["kept"], "stages": stages}
    return scored(task, decided), {"training_seconds": seconds, "reports": reports}


STARTS = {OURS: "cross-entropy", OURS_BALANCED: "balanced softmax", OURS_MARGINS: "LDAM-DRW"}
TRAINED = ("cross-entropy", "class weights", "balanced softmax", "focal loss", "LDAM-DRW")
METHODS = (*STARTS, "cRT", *TRAINED)
ROWS = (*STARTS, "cRT", "logit adjustment", "tuned offsets", *TRAINED)


def run(task: Task, kind: str, method: str) -> list[dict[str, Any]]:
    """Scores of one method, or of all that share its training."""
    if method in STARTS:
        scores, further = ours(task, kind, STARTS[method])
        return [{"method": method, "scores": scores, **further}]
    found = retrained(task, kind) if method == "cRT" else opponent(task, kind, method)
    return [{"method": name, "scores": scores} for name, scores in found.items()]


Key = tuple[str, str, int, int]


def key_of(cell: dict[str, Any]) -> Key:
    return cell["set"], cell["network"], cell["most"], cell["imbalance"]


def table(cells: list[dict[str, Any]]) -> str:
    """Means of each method, and what `align` gains over it."""
    protocol = __doc__.split("Protocol. ")[1].replace("``", "`").strip()
    text = ["# Long-tailed images: align against its opponents", protocol]
    text.append(
        "In brackets: what `align` gains over the row, its standard error, and the seeds won and lost."
    )
    for key in sorted({key_of(cell) for cell in cells}):
        own = [cell for cell in cells if key_of(cell) == key]
        seeds = sorted({cell["seed"] for cell in own if cell["method"] == OURS})
        title = f"## {key[0]}, {key[1]}, {key[2]} images of the largest class, imbalance {key[3]}"
        text += [f"{title}, {len(seeds)} seeds", _scores(own, seeds), _cost(own)]
    return "\n\n".join(text) + "\n"


def _scores(cells: list[dict[str, Any]], seeds: list[int]) -> str:
    columns = [f"{metric}, {protocol}" for metric, protocol in COLUMNS]
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    found = {(cell["method"], cell["seed"]): cell["scores"] for cell in cells}
    for method in ROWS:
        if any((method, seed) not in found for seed in seeds):
            continue
        shown = []
        for column in columns:
            values = np.array([found[method, seed][column] for seed in seeds])
            gain = np.array([found[OURS, seed][column] for seed in seeds]) - values
            extra = ""
            if method != OURS:
                error = f" ± {stats.sem(gain):.3f}" if len(gain) > 1 else ""
                extra = f" ({gain.mean():+.3f}{error}, {(gain > 0).sum()}–{(gain < 0).sum()})"
            shown.append(f"{values.mean():.3f}{extra}")
        lines.append(f"| {method} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _cost(cells: list[dict[str, Any]]) -> str:
    """Seconds of the stages as shares of the training that they follow, and the stages kept."""
    shares: dict[str, list[float]] = {}
    kept: dict[str, int] = {}
    for cell in cells:
        for report in cell.get("reports", {}).values():
            for stage in report["stages"]:
                share = stage["seconds"] / cell["training_seconds"]
                shares.setdefault(stage["stage"], []).append(share)
            total = sum(stage["seconds"] for stage in report["stages"])
            shares.setdefault("all", []).append(total / cell["training_seconds"])
            kept[report["kept"]] = kept.get(report["kept"], 0) + 1
    words = ", ".join(f"{name} {100 * np.median(found):.0f} %" for name, found in shares.items())
    chosen = ", ".join(f"{name} {count}" for name, count in sorted(kept.items()))
    return f"Median cost as a share of the {EPOCHS} epochs before: {words}. Kept last: {chosen}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("name", choices=("fashion", "cifar"), nargs="?", default="fashion")
    parser.add_argument("--network", choices=("conv", "resnet"), default="conv")
    parser.add_argument("--imbalance", type=int, default=100)
    parser.add_argument("--most", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=METHODS)
    parser.add_argument("--cells", type=Path, default=CELLS)
    parser.add_argument("--table", action="store_true", help="write the table, run nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    key = (options.name, options.network, options.most, options.imbalance)
    for seed in () if options.table else range(options.first, options.first + options.seeds):
        task = Task(options.name, options.most, options.imbalance, seed)
        for method in options.methods:
            if (key, seed, method) in {
                (key_of(c), c["seed"], c["method"]) for c in read(options.cells)
            }:
                continue
            began = time.perf_counter()
            shared = dict(zip(("set", "network", "most", "imbalance"), key, strict=True), seed=seed)
            found = run(task, options.network, method)
            with options.cells.open("a") as handle:
                handle.writelines(json.dumps({**shared, **cell}) + "\n" for cell in found)
            print(*key, seed, method, f"{time.perf_counter() - began:.0f} s", flush=True)
    TABLE.write_text(table(read(CELLS)))


if __name__ == "__main__":
    main()
