"""Segmentation: `eastward.align` on pictures of shapes, of which some are small and rare.

    python -m benchmarks.quality.align_shapes --seeds 5

Pictures of 24 x 24 pixels: background, squares, a few small discs and rare single strokes under noise; five pixels in a
hundred have no label. A network of three convolutions is trained by cross-entropy for 15 epochs on 120 pictures; 40 are
held out, 200 are the test. The metric is the macro-averaged Jaccard index of pixels. Results go to
``results/align/shapes.md``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import eastward as ew
from eastward.confusion import hard_confusion
from eastward.metrics import get

PAGE = Path(__file__).parents[2] / "results" / "align" / "shapes.md"
SIZE, CLASSES, IGNORED = 24, 4, 255
METRIC = "jaccard_macro"


def pictures(count: int, rng: np.random.Generator) -> TensorDataset:
    """Noisy grey pictures ``(N, 1, H, W)`` and the class of each pixel ``(N, H, W)``."""
    truth = np.zeros((count, SIZE, SIZE), np.int64)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    for picture in truth:
        for _ in range(2):
            top, left = rng.integers(0, SIZE - 8, 2)
            picture[top : top + 7, left : left + 7] = 1
        if rng.random() < 0.6:
            middle = rng.integers(4, SIZE - 4, 2)
            picture[(rows - middle[0]) ** 2 + (columns - middle[1]) ** 2 < 7] = 2
        if rng.random() < 0.3:
            picture[rng.integers(SIZE), 4 : rng.integers(8, SIZE)] = 3
    grey = np.array([0.0, 0.6, 1.0, 1.4])[truth] + 0.6 * rng.normal(size=truth.shape)
    labels = np.where(rng.random(truth.shape) < 0.05, IGNORED, truth)
    return TensorDataset(torch.tensor(grey[:, None], dtype=torch.float32), torch.tensor(labels))


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(12, CLASSES, 1),
    )


def value(decided: Tensor, truth: Tensor) -> float:
    flat = decided.flatten(), truth.flatten()
    return float(get(METRIC)(hard_confusion(*flat, num_classes=CLASSES, ignore_index=IGNORED)))


def run(seed: int) -> tuple[float, float, str]:
    """Test value before and after, and the last stage that was kept."""
    rng = np.random.default_rng(seed)
    train, valid, test = (pictures(count, rng) for count in (120, 40, 200))
    torch.manual_seed(seed)
    model, loader = network(), DataLoader(train, 8, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(15):
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets, ignore_index=IGNORED).backward()
            optimizer.step()
    options = {"ignore_index": IGNORED, "learning_rate": 2e-3, "epochs": 6}
    result = ew.align(model, loader, DataLoader(valid, 8), METRIC, **options)
    inputs, truth = test.tensors
    with torch.no_grad():
        before, after = model(inputs).argmax(1), result.decide(result.model(inputs))
    return value(before, truth), value(after, truth), result.report["kept"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=5)
    torch.set_num_threads(1)
    found = [run(seed) for seed in range(parser.parse_args().seeds)]
    before, after = (np.array([one[place] for one in found]) for place in (0, 1))
    gain = after - before
    wins = f"{(gain > 0).sum()} better and {(gain < 0).sum()} worse"
    change = f"{before.mean():.3f} as given, {after.mean():.3f} aligned"
    words = f"gain {gain.mean():+.3f} ± {stats.sem(gain):.3f}, {wins}"
    kept = ", ".join(one[2] for one in found)
    lines = [
        "# Segmentation of shapes",
        __doc__.split("--seeds 5\n\n")[1].replace("``", "`").strip(),
        f"{len(found)} seeds: {METRIC} {change}; {words}. Last stage kept: {kept}.",
    ]
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n\n".join(lines) + "\n")
    print(lines[-1])


if __name__ == "__main__":
    main()
