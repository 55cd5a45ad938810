"""Text, graphs and segmentation: what `eastward.align` adds to one trained network of each kind.

    EASTWARD_DATA=<folder> python -m benchmarks.quality.align_kinds --seeds 5
    python -m benchmarks.quality.align_kinds --table       # results/align/kinds.md from the finished runs

Protocol. A network is trained by cross-entropy and kept at its lowest held-out loss; a fifth of its rows is held out.
`align` gets the network, both parts and the metric. *trec* is questions of six kinds, one of them rare: 2000 training
questions, the official test, macro-F1; once as TF-IDF of words and pairs of words under a network of 64 hidden units,
once as words under a transformer of two layers from scratch. *cocktail_party* is 320 frames of six people, each frame a
graph; the network passes messages between people and decides for each of the fifteen pairs whether they stand in one
group. The first 60 % of the frames in time are for training, the last 40 % are the test, F1 of pairs together. *shapes*
is pictures of 24 x 24 pixels: background, squares, a few small discs and rare single strokes under noise; 120 pictures
to train, 40 held out, 200 to test, the macro-averaged Jaccard index of pixels, five in a hundred without a label.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import stats
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import eastward as ew
from benchmarks.quality.data import data_folder
from benchmarks.quality.images import read
from eastward.confusion import hard_confusion
from eastward.metrics import get
from eastward.training import assign_folds
from papers.data.cocktail_party import read_cocktail_frames

FOLDER = Path(__file__).parents[2] / "results" / "align"
RUNS, PAGE = FOLDER / "kinds.jsonl", FOLDER / "kinds.md"
IGNORED = 255
QUESTIONS, WORDS = 2000, 20


class Case(NamedTuple):
    """One network to be, its rows, and what it is judged by."""

    network: nn.Module
    train: TensorDataset
    valid: TensorDataset
    test: TensorDataset
    metric: str
    classes: int
    epochs: int = 30
    class_axis: int = 1


def questions(seed: int) -> tuple[list[str], Tensor, list[str], Tensor]:
    """Texts and kinds of training questions, and of the official test."""
    table = pd.read_parquet(data_folder() / "text" / "trec.parquet")
    codes = table["coarse"].astype("category").cat.codes.to_numpy(np.int64)
    train = np.flatnonzero(table["split"] == "train")
    train = np.random.default_rng(seed).permutation(train)[:QUESTIONS]
    test = np.flatnonzero(table["split"] == "test")
    found: list[Any] = []
    for rows in (train, test):
        found += [table["text"].iloc[rows].tolist(), torch.from_numpy(codes[rows])]
    return found[0], found[1], found[2], found[3]


def split(X: Tensor, y: Tensor, seed: int) -> tuple[TensorDataset, TensorDataset]:
    held = assign_folds(y, 5, torch.Generator().manual_seed(seed)) == 0
    return TensorDataset(X[~held], y[~held]), TensorDataset(X[held], y[held])


def words_counted(seed: int) -> Case:
    """TF-IDF of words and pairs of words."""
    texts, y, new, truth = questions(seed)
    vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    X, test = (
        torch.from_numpy(found.toarray().astype(np.float32))
        for found in (vectors.fit_transform(texts), vectors.transform(new))
    )
    network = nn.Sequential(
        nn.Linear(X.shape[1], 64), nn.ReLU(), nn.Dropout(0.25), nn.Linear(64, 6)
    )
    return Case(network, *split(X, y, seed), TensorDataset(test, truth), "f1_macro", 6)


class Reader(nn.Module):
    """A transformer of two layers over words; zero is no word."""

    def __init__(self, size: int, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(size, width, padding_idx=0)
        self.places = nn.Parameter(0.02 * torch.randn(WORDS, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.2, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 6)

    def forward(self, words: Tensor) -> Tensor:
        """Logits ``(N, 6)`` of the mean over the words."""
        empty = words == 0
        hidden = self.layers(self.words(words) + self.places, src_key_padding_mask=empty)
        there = (~empty).unsqueeze(2).float()
        return self.head((hidden * there).sum(1) / there.sum(1).clamp_min(1))


def words_in_order(seed: int) -> Case:
    """A transformer from scratch."""
    texts, y, new, truth = questions(seed)
    cut = [re.findall(r"\w+|\?", text.lower())[:WORDS] for text in (*texts, *new)]
    counts = Counter(word for words in cut[: len(texts)] for word in words)
    known = {word: k for k, (word, n) in enumerate(sorted(counts.items()), start=2) if n > 1}
    X = torch.zeros(len(cut), WORDS, dtype=torch.long)
    for row, words in enumerate(cut):
        X[row, : len(words)] = torch.tensor([known.get(word, 1) for word in words])
    parts = split(X[: len(texts)], y, seed)
    test = TensorDataset(X[len(texts) :], truth)
    return Case(Reader(max(known.values()) + 1), *parts, test, "f1_macro", 6)


class Party(nn.Module):
    """Two rounds of messages between six people, then a decision for each pair: logits ``(N, 15, 2)``."""

    pairs = tuple(combinations(range(6), 2))

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.people = nn.Linear(4, width)
        self.message = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))
        self.both = nn.Linear(2 * width + 2, width)
        self.head = nn.Linear(width, 2)

    def forward(self, people: Tensor) -> Tensor:
        """Whether each pair stands together."""
        hidden = torch.relu(self.people(people))
        for layer in self.message:
            others = (hidden.sum(1, keepdim=True) - hidden) / 5
            hidden = torch.relu(layer(torch.cat([hidden, others], 2)))
        one, two = (torch.tensor(side) for side in zip(*self.pairs, strict=True))
        # Either of a pair may come first: sums, absolute differences, distance, and how they face each other.
        apart = (people[:, one, :2] - people[:, two, :2]).norm(dim=2, keepdim=True)
        facing = (people[:, one, 2:] * people[:, two, 2:]).sum(2, keepdim=True)
        joined = [hidden[:, one] + hidden[:, two], (hidden[:, one] - hidden[:, two]).abs()]
        return self.head(torch.relu(self.both(torch.cat([*joined, apart, facing], 2))))


def party(seed: int) -> Case:
    """Graphs: frames of people."""
    frames = read_cocktail_frames(data_folder())
    people = torch.from_numpy(frames.people)
    people[..., :2] -= people[..., :2].mean(1, keepdim=True)
    one, two = (list(side) for side in zip(*Party.pairs, strict=True))
    together = torch.from_numpy(frames.together[:, one, two].astype(np.int64))
    order = torch.from_numpy(np.argsort(frames.times, kind="stable"))
    past, later = order[: int(0.6 * len(order))], order[int(0.6 * len(order)) :]
    past = past[torch.randperm(len(past), generator=torch.Generator().manual_seed(seed))]
    held, seen = past[: len(past) // 5], past[len(past) // 5 :]
    parts = (TensorDataset(people[rows], together[rows]) for rows in (seen, held, later))
    return Case(Party(), *parts, "f1", 2, 60, -1)


def pictures(count: int, rng: np.random.Generator) -> TensorDataset:
    """Noisy grey pictures ``(N, 1, H, W)`` and the class of each pixel ``(N, H, W)``."""
    size = 24
    truth = np.zeros((count, size, size), np.int64)
    rows, columns = np.mgrid[:size, :size]
    for picture in truth:
        for _ in range(2):
            top, left = rng.integers(0, size - 8, 2)
            picture[top : top + 7, left : left + 7] = 1
        if rng.random() < 0.6:
            middle = rng.integers(4, size - 4, 2)
            picture[(rows - middle[0]) ** 2 + (columns - middle[1]) ** 2 < 7] = 2
        if rng.random() < 0.3:
            picture[rng.integers(size), 4 : rng.integers(8, size)] = 3
    grey = np.array([0.0, 0.6, 1.0, 1.4])[truth] + 0.6 * rng.normal(size=truth.shape)
    labels = np.where(rng.random(truth.shape) < 0.05, IGNORED, truth)
    return TensorDataset(torch.tensor(grey[:, None], dtype=torch.float32), torch.tensor(labels))


def shapes(seed: int) -> Case:
    """Segmentation."""
    rng = np.random.default_rng(seed)
    network = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(12, 4, 1),
    )
    return Case(network, *(pictures(n, rng) for n in (120, 40, 200)), "jaccard_macro", 4, 15)


KINDS: dict[str, Callable[[int], Case]] = {
    "trec, TF-IDF": words_counted,
    "trec, transformer": words_in_order,
    "cocktail_party, graph": party,
    "shapes, segmentation": shapes,
}


def trained(case: Case, batch: int, seed: int) -> nn.Module:
    """The network at its lowest held-out cross-entropy."""
    torch.manual_seed(seed)
    model = case.network
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loss = partial(nn.functional.cross_entropy, ignore_index=IGNORED)
    best, kept = float("inf"), model.state_dict()
    for _ in range(case.epochs):
        model.train()
        for inputs, targets in DataLoader(case.train, batch, shuffle=True):
            optimizer.zero_grad()
            loss(model(inputs).movedim(case.class_axis, 1), targets).backward()
            optimizer.step()
        model.eval()
        inputs, targets = case.valid.tensors
        with torch.no_grad():
            now = float(loss(model(inputs).movedim(case.class_axis, 1), targets))
        if now < best:
            best, kept = now, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return model.eval()


def run(kind: str, seed: int) -> dict[str, Any]:
    """Test values before and after, and the last stage that was kept."""
    torch.manual_seed(seed)
    case = KINDS[kind](seed)
    batch = 8 if case.train.tensors[1].dim() > 1 else 32
    model = trained(case, batch, seed)
    loaders = DataLoader(case.train, batch, shuffle=True), DataLoader(case.valid, batch)
    options = {"ignore_index": IGNORED, "learning_rate": 2e-3}
    result = ew.align(model, *loaders, case.metric, **options)
    inputs, truth = case.test.tensors
    with torch.no_grad():
        before, after = model(inputs).argmax(case.class_axis), result.decide(result.model(inputs))

    def value(decided: Tensor) -> float:
        flat = decided.flatten(), truth.flatten()
        table = hard_confusion(*flat, num_classes=case.classes, ignore_index=IGNORED)
        return float(get(case.metric)(table))

    shared = {"kind": kind, "seed": seed, "metric": case.metric, "kept": result.report["kept"]}
    return {**shared, "given": value(before), "aligned": value(after)}


def page(runs: list[dict[str, Any]]) -> str:
    """One row for each kind."""
    lines = [
        "| data | metric | seeds | as given | aligned | gain | better–worse | last stage kept |",
        "|---" * 8 + "|",
    ]
    for kind in KINDS:
        own = [one for one in runs if one["kind"] == kind]
        if not own:
            continue
        before, after = (np.array([one[who] for one in own]) for who in ("given", "aligned"))
        gain = after - before
        error = f" ± {stats.sem(gain):.3f}" if len(own) > 1 else ""
        kept = ", ".join(f"{name} {n}" for name, n in Counter(r["kept"] for r in own).items())
        shown = [kind, f"`{own[0]['metric']}`", str(len(own)), f"{before.mean():.3f}"]
        shown += [f"{after.mean():.3f}", f"{gain.mean():+.3f}{error}"]
        lines.append(
            "| " + " | ".join([*shown, f"{(gain > 0).sum()}–{(gain < 0).sum()}", kept]) + " |"
        )
    protocol = __doc__.split("Protocol. ")[1].strip()
    return "\n\n".join(["# Aligned networks of several kinds", protocol, "\n".join(lines)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kinds", nargs="*", choices=tuple(KINDS), default=tuple(KINDS))
    parser.add_argument("--table", action="store_true", help="write the page, run nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for seed in () if options.table else range(options.seeds):
        for kind in options.kinds:
            if (kind, seed) in {(one["kind"], one["seed"]) for one in read(RUNS)}:
                continue
            found = run(kind, seed)
            with RUNS.open("a") as handle:
                handle.write(json.dumps(found) + "\n")
            print(kind, seed, round(found["aligned"] - found["given"], 4), flush=True)
    PAGE.write_text(page(read(RUNS)))


if __name__ == "__main__":
    main()
