"""Long-tailed images: cross-entropy, balanced, tuned and aligned; one small convolutional network, or five of them.

    python -m benchmarks.quality.images digits --seeds 5
    python -m benchmarks.quality.images digits --seeds 5 --folds 5
    EASTWARD_IMAGES=<folder> python -m benchmarks.quality.images fashion --seeds 5 --most 500

``EASTWARD_IMAGES`` holds ``fashion-mnist/*-ubyte.gz`` and ``cifar-10-batches-bin/*.bin``, the official files. Finished
seeds are kept in ``build/quality/images.jsonl``, or where ``--cells`` says; the table goes to
``results/quality/images.md``, or where ``--table`` says.

Protocol. Seed s shuffles the order of the classes; class c keeps ``most`` down to ``most / 100`` training images
(geometric; digits: 120 down to 6). 20 % of them are held out to stop and to tune by. The score is macro-F1 on all test
images, weighted so that classes are as frequent as in training. The same architecture, initial weights, batches of 32
and limits of epochs for all; the aligned stage is the one of ``EASTClassifier``'s default recipe. "x5" are five
networks, each with another fifth held out, whose probabilities are averaged (``n_folds=5``); "aligned x5 + tuned" is
``EASTClassifier`` with ``n_folds=5`` and everything else at its default. "all rows" is one network with ``refit=True``,
which goes on with the images that were held out; the same network before its aligned stage, with the decision tuned on
what was held out, shows what the images alone are worth.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from eastward import EASTClassifier, metrics
from eastward.confusion import hard_confusion
from eastward.decisions.tuning import HeldOut
from eastward.training import Callback, Run
from eastward.training.validation import held_out_logits

ROOT = Path(__file__).parents[2]
CELLS = ROOT / "build" / "quality" / "images.jsonl"
TABLE = ROOT / "results" / "quality" / "images.md"
TRAINING = {"max_epochs": 100, "learning_rate": 2e-3, "patience": 12, "batch_size": 32}
OURS, OURS_OF_FIVE = "aligned", "aligned x5 + tuned"
OURS_OF_ALL = "aligned, all rows"
TARGET = 0.015
OPPONENTS = ("cross-entropy", "cross-entropy + tuned", "balanced")
LIKEWISE = ("cross-entropy, all rows", "cross-entropy, all rows + tuned")
Array = NDArray[Any]
Images = tuple[Array, Array, Array, Array]


def digits() -> Images:
    """Scikit-learn's digits; 40 % are the test images."""
    images, labels = load_digits(return_X_y=True)
    tensors = images.reshape(-1, 1, 8, 8).astype(np.float32) / 16
    train, test, known, truth = train_test_split(
        tensors, labels, test_size=0.4, stratify=labels, random_state=0
    )
    return train, known, test, truth


def fashion() -> Images:
    """Fashion-MNIST, averaged to 14 x 14 pixels."""
    folder = _folder() / "fashion-mnist"
    parts = []
    for kind in ("train", "t10k"):
        images = _idx(folder / f"{kind}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28) / 255.0
        pooled = images.reshape(-1, 14, 2, 14, 2).mean((2, 4), dtype=np.float32)[:, None]
        parts += [pooled, _idx(folder / f"{kind}-labels-idx1-ubyte.gz", 8).astype(np.int64)]
    return parts[0], parts[1], parts[2], parts[3]


def cifar() -> Images:
    """CIFAR-10, averaged to 16 x 16 pixels."""
    folder = _folder() / "cifar-10-batches-bin"
    parts = []
    for names in (sorted(folder.glob("data_batch_*.bin")), [folder / "test_batch.bin"]):
        rows = np.concatenate([np.fromfile(p, np.uint8).reshape(-1, 3073) for p in names])
        images = rows[:, 1:].reshape(-1, 3, 16, 2, 16, 2).mean((3, 5), dtype=np.float32) / 255
        parts += [images, rows[:, 0].astype(np.int64)]
    return parts[0], parts[1], parts[2], parts[3]


SETS = {"digits": digits, "fashion": fashion, "cifar": cifar}


def _folder() -> Path:
    folder = os.environ.get("EASTWARD_IMAGES")
    if not folder:
        raise SystemExit("Set EASTWARD_IMAGES to the folder of the image files.")
    return Path(folder)


def _idx(path: Path, header: int) -> Array:
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)[header:]


def long_tailed(labels: Array, most: int, least: int, seed: int) -> Array:
    """Rows of a geometric tail over the classes, in an order of classes that the seed draws."""
    rng = np.random.default_rng(seed)
    sizes = np.round(np.geomspace(most, least, labels.max() + 1)).astype(int)
    kept = [
        rng.permutation(np.flatnonzero(labels == c))[:size]
        for c, size in zip(rng.permutation(labels.max() + 1), sizes, strict=True)
    ]
    return rng.permutation(np.concatenate(kept))


def convolutions(channels: int, classes: int) -> nn.Module:
    """Three convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(256, classes),
    )


class Start(Callback):
    """The networks as cross-entropy leaves them, with the decision that ``recipe="cross_entropy"`` would tune for them.

    The aligned stage starts from exactly these networks, so that training them a second time would only take longer.
    With ``refit=True`` cross-entropy goes on with all rows, and the last of its networks are kept.
    """

    def stage_end(self, run: Run) -> None:
        """Copy the networks, and keep their held-out predictions."""
        if run.stage.objective != "cross_entropy":
            return
        self.members = copy.deepcopy(run.members).eval()
        self.seconds = sum(record["seconds"] for record in run.history)
        if run.stage.all_rows:
            return
        rows, logits, _ = held_out_logits(run)
        scores = logits.double().log_softmax(1).numpy()
        self.held_out = HeldOut(scores, run.rows.targets[rows].numpy())

    def instead_of(self, model: EASTClassifier) -> EASTClassifier:
        """The fitted classifier with these networks."""
        start = copy.copy(model)
        start.members_, start.held_out_ = self.members, self.held_out
        return start.decide_by()


def run_seed(name: str, most: int, least: int, seed: int, folds: int) -> dict[str, Any]:
    """Scores of all methods on one seed; networks serve with and without their tuned decision."""
    train, labels, test, truth = SETS[name]()
    rows = long_tailed(labels, most, least, seed)
    X, y = torch.from_numpy(train[rows].astype(np.float32)), labels[rows]
    frequency = np.bincount(y, minlength=labels.max() + 1) / len(y)
    weight = frequency[truth] / np.bincount(truth)[truth]

    def fitted(**options: Any) -> tuple[EASTClassifier, float]:
        started = time.perf_counter()
        model = EASTClassifier(
            "f1_macro",
            module=lambda _, classes: convolutions(train.shape[1], classes),
            n_folds=folds,
            random_state=seed,
            **{"tune_decision": True, **TRAINING, **options},
        ).fit(X, y)
        return model, time.perf_counter() - started

    start = Start()
    ours, our_seconds = fitted(callbacks=[start])
    balanced, balanced_seconds = fitted(recipe="cross_entropy", class_weight="balanced")
    models = {"cross-entropy": start.instead_of(ours), "balanced": balanced, OURS: ours}
    seconds = {"cross-entropy": start.seconds, "balanced": balanced_seconds, OURS: our_seconds}
    if folds == 1:
        again = Start()
        models[OURS_OF_ALL], seconds[OURS_OF_ALL] = fitted(
            refit=True, tune_decision="auto", callbacks=[again]
        )
        models["cross-entropy, all rows"] = again.instead_of(models[OURS_OF_ALL])
    ending = f" x{folds}" if folds > 1 else ""
    images = torch.from_numpy(test.astype(np.float32))
    scores = {}
    for label, model in models.items():
        scores[f"{label}{ending}"] = _macro_f1(model.raw_predict_proba(images), truth, weight)
        if label != OURS_OF_ALL:
            # Nothing is held out at its end to tune by.
            tuned = model.decision_.worth(model.predict_proba(images))
            scores[f"{label}{ending} + tuned"] = _macro_f1(tuned, truth, weight)
    return {
        "set": name,
        "most": most,
        "seed": seed,
        "folds": folds,
        "scores": scores,
        "seconds": seconds,
    }


def _macro_f1(probabilities: Array, truth: Array, weight: Array) -> float:
    table = hard_confusion(
        torch.from_numpy(probabilities.argmax(1)),
        torch.from_numpy(truth),
        num_classes=probabilities.shape[1],
        sample_weight=torch.from_numpy(weight),
    )
    return float(metrics.get("f1_macro")(table))


def read(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def _of(cells: list[dict[str, Any]], name: str, most: int, folds: int) -> dict[int, dict[str, Any]]:
    """The cells of a set by their seeds; those written before there were folds are of one network."""
    wanted = (name, most, folds)
    return {c["seed"]: c for c in cells if (c["set"], c["most"], c.get("folds", 1)) == wanted}


def table(cells: list[dict[str, Any]]) -> str:
    """Mean macro-F1 of each method, and what aligned networks gain over it."""
    protocol = __doc__.split("Protocol. ")[1].replace("``", "`").strip()
    text = ["# Long-tailed images", protocol, "## Targets", target_table(cells)]
    for name, most in _sets(cells):
        one, five = (_of(cells, name, most, folds) for folds in (1, 5))
        text += [f"## {name}, {most} images of the largest class"]
        if one:
            scores = [cell["scores"] for cell in one.values()]
            text += [_facts("One network", one), _gains(scores, OURS)]
            if OURS_OF_ALL in scores[0]:
                text.append(_gains(scores, OURS_OF_ALL))
        both = [one[s]["scores"] | five[s]["scores"] for s in sorted(one.keys() & five.keys())]
        if both:
            text += [_facts("Five networks", five), _gains(both, OURS_OF_FIVE)]
    return "\n\n".join(text) + "\n"


def _sets(cells: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return sorted({(cell["set"], cell["most"]) for cell in cells})


def target_table(cells: list[dict[str, Any]]) -> str:
    """Mean gains over the opponents of the target, which are single networks, and over five of each."""
    lines = ["| | seeds | " + " | ".join(OPPONENTS) + " |", "|---" * (2 + len(OPPONENTS)) + "|"]
    fives = tuple(
        name.replace(" +", " x5 +") if "+" in name else f"{name} x5" for name in OPPONENTS
    )
    for name, most in _sets(cells):
        one, five = (_of(cells, name, most, folds) for folds in (1, 5))
        alone = [cell["scores"] for cell in one.values()]
        refitted = [scores for scores in alone if OURS_OF_ALL in scores]
        both = [one[s]["scores"] | five[s]["scores"] for s in one.keys() & five.keys()]
        for who, scores, ours, others in (
            ("one network against one", alone, OURS, OPPONENTS),
            ("one network, all rows, against one", refitted, OURS_OF_ALL, OPPONENTS),
            ("one network, all rows, against all rows", refitted, OURS_OF_ALL, LIKEWISE),
            ("five networks against one", both, OURS_OF_FIVE, OPPONENTS),
            ("five networks against five", both, OURS_OF_FIVE, fives),
        ):
            if scores:
                gains = [np.mean([c[ours] - c[other] for c in scores]) for other in others]
                judged = others is OPPONENTS
                shown = [f"{gain:+.3f}{_met(gain) if judged else ''}" for gain in gains]
                shown += [""] * (len(OPPONENTS) - len(shown))
                lines.append(f"| {name}, {who} | {len(scores)} | " + " | ".join(shown) + " |")
    note = f"Asked for: {TARGET} over each of these as one network, by `EASTClassifier` with one network or several."
    return note + "\n\n" + "\n".join(lines)


def _met(gain: float) -> str:
    return ", met" if gain >= TARGET else ", **missed**"


def _facts(who: str, cells: dict[int, dict[str, Any]]) -> str:
    spent = [c["seconds"] for c in cells.values()]
    costs = {
        name: np.mean([seconds[name] / seconds["cross-entropy"] for seconds in spent])
        for name in (OURS, OURS_OF_ALL)
        if name in spent[0]
    }
    taken = " and ".join(f"{cost:.1f} ({name})" for name, cost in costs.items())
    return f"{who}, {len(cells)} seeds; training takes {taken} times that of cross-entropy."


def _gains(cells: list[dict[str, float]], ours: str) -> str:
    """One row for each method: its score, and the paired differences of ours to it."""
    lines = [
        f"| method | macro-F1 | {ours} against it | better–worse | p (paired t) |",
        "|---" * 5 + "|",
    ]
    for method in cells[0]:
        scores = np.array([cell[method] for cell in cells])
        gain = np.array([cell[ours] for cell in cells]) - scores
        versus = " | | "
        if method != ours and len(gain) > 1:
            p_value = stats.ttest_1samp(gain, 0).pvalue
            versus = f"{gain.mean():+.3f} | {(gain > 0).sum()}–{(gain < 0).sum()} | {p_value:.3f}"
        lines.append(f"| {method} | {scores.mean():.3f} ± {scores.std():.3f} | {versus} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("name", choices=tuple(SETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int)
    parser.add_argument("--folds", type=int, default=1, help="cross-fitted networks")
    parser.add_argument("--cells", type=Path, default=CELLS)
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    most = options.most or (120 if options.name == "digits" else 1500)
    least = 6 if options.name == "digits" else max(2, most // 100)
    options.cells.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(options.seeds):
        if seed in _of(read(options.cells), options.name, most, options.folds):
            continue
        cell = run_seed(options.name, most, least, seed, options.folds)
        with options.cells.open("a") as file:
            file.write(json.dumps(cell) + "\n")
        print(seed, {name: round(score, 3) for name, score in cell["scores"].items()}, flush=True)
    options.table.parent.mkdir(parents=True, exist_ok=True)
    options.table.write_text(table(read(options.cells)))


if __name__ == "__main__":
    main()
