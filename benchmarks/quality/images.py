"""Long-tailed images: cross-entropy, balanced, tuned, and the aligned default, one small convolutional network each.

    python -m benchmarks.quality.images digits --seeds 5
    EASTWARD_IMAGES=<folder> python -m benchmarks.quality.images fashion --seeds 5 --most 500

``EASTWARD_IMAGES`` holds ``fashion-mnist/*-ubyte.gz`` and ``cifar-10-batches-bin/*.bin``, the official files. Finished
seeds are kept in ``build/quality/images.jsonl``; the table goes to ``results/quality/images.md``.

Protocol. Seed s shuffles the order of the classes; class c keeps ``most`` down to ``most / 100`` training images
(geometric; digits: 120 down to 6). 20 % of them are held out to stop and to tune by. The score is macro-F1 on all test
images, weighted so that classes are as frequent as in training. The same architecture, initial weights, batches of 32
and limits of epochs for all; the aligned stage is the one of ``EASTClassifier``'s default recipe.
"""

from __future__ import annotations

import argparse
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

ROOT = Path(__file__).parents[2]
CELLS = ROOT / "build" / "quality" / "images.jsonl"
TABLE = ROOT / "results" / "quality" / "images.md"
TRAINING = {"max_epochs": 100, "learning_rate": 2e-3, "patience": 12, "batch_size": 32}
OURS = "aligned"
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


def run_seed(name: str, most: int, least: int, seed: int) -> dict[str, Any]:
    """Scores of all methods on one seed; a network serves with and without its tuned decision."""
    train, labels, test, truth = SETS[name]()
    rows = long_tailed(labels, most, least, seed)
    X, y = torch.from_numpy(train[rows].astype(np.float32)), labels[rows]
    frequency = np.bincount(y, minlength=labels.max() + 1) / len(y)
    weight = frequency[truth] / np.bincount(truth)[truth]
    recipes = {
        "cross-entropy": {"recipe": "cross_entropy"},
        "balanced": {"recipe": "cross_entropy", "class_weight": "balanced"},
        OURS: {"recipe": "auto"},
    }
    scores, seconds = {}, {}
    for label, options in recipes.items():
        started = time.perf_counter()
        model = EASTClassifier(
            "f1_macro",
            module=lambda _, classes: convolutions(train.shape[1], classes),
            tune_decision=True,
            random_state=seed,
            **TRAINING,
            **options,
        ).fit(X, y)
        seconds[label] = time.perf_counter() - started
        images = torch.from_numpy(test.astype(np.float32))
        scores[label] = _macro_f1(model.raw_predict_proba(images), truth, weight)
        scores[f"{label} + tuned"] = _macro_f1(model.predict_proba(images), truth, weight)
    return {"set": name, "most": most, "seed": seed, "scores": scores, "seconds": seconds}


def _macro_f1(probabilities: Array, truth: Array, weight: Array) -> float:
    table = hard_confusion(
        torch.from_numpy(probabilities.argmax(1)),
        torch.from_numpy(truth),
        num_classes=probabilities.shape[1],
        sample_weight=torch.from_numpy(weight),
    )
    return float(metrics.get("f1_macro")(table))


def read() -> list[dict[str, Any]]:
    lines = CELLS.read_text().splitlines() if CELLS.exists() else []
    return [json.loads(line) for line in lines]


def table(cells: list[dict[str, Any]]) -> str:
    """Mean macro-F1 of each method, and what the aligned network gains over it."""
    text = ["# Long-tailed images", __doc__.split("Protocol. ")[1].replace("``", "`").strip()]
    for name, most in sorted({(cell["set"], cell["most"]) for cell in cells}):
        chosen = [c for c in cells if (c["set"], c["most"]) == (name, most)]
        ours = np.array([c["scores"][OURS] for c in chosen])
        lines = [
            "| method | macro-F1 | aligned against it | better–worse | p (paired t) |",
            "|---" * 5 + "|",
        ]
        for method in chosen[0]["scores"]:
            scores = np.array([c["scores"][method] for c in chosen])
            gain = ours - scores
            versus = " | | "
            if method != OURS and len(gain) > 1:
                p_value = stats.ttest_1samp(gain, 0).pvalue
                versus = (
                    f"{gain.mean():+.3f} | {(gain > 0).sum()}–{(gain < 0).sum()} | {p_value:.3f}"
                )
            lines.append(f"| {method} | {scores.mean():.3f} ± {scores.std():.3f} | {versus} |")
        cost = np.mean([c["seconds"][OURS] / c["seconds"]["cross-entropy"] for c in chosen])
        facts = f"{len(chosen)} seeds; training takes {cost:.1f} times that of cross-entropy."
        text += [f"## {name}, {most} images of the largest class", facts, "\n".join(lines)]
    return "\n\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("name", choices=tuple(SETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    most = options.most or (120 if options.name == "digits" else 1500)
    least = 6 if options.name == "digits" else max(2, most // 100)
    CELLS.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(options.seeds):
        if any((c["set"], c["most"], c["seed"]) == (options.name, most, seed) for c in read()):
            continue
        cell = run_seed(options.name, most, least, seed)
        with CELLS.open("a") as file:
            file.write(json.dumps(cell) + "\n")
        print(seed, {name: round(score, 3) for name, score in cell["scores"].items()}, flush=True)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(table(read()))


if __name__ == "__main__":
    main()
