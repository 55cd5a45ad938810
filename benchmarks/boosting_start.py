"""Where aligned trees should start: at held-out scores of the cross-entropy model, or at scores of its training rows.

Run ``EASTWARD_DATA=../shared/data python benchmarks/boosting_start.py`` (a few minutes). Nine small tables, three
splits with 30 % test rows, LightGBM's defaults with 100 rounds; offsets tuned on five-fold predictions are the start,
then 15 or 50 rounds with macro-F1 as objective at temperature 0.2, trained on all training rows. Printed is the mean
test macro-F1.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from eastward.boosting import lightgbm_objective, true_score
from eastward.decisions import offset_evidence
from eastward.estimators.boosting.backends import Task, make_backend
from eastward.estimators.boosting.columns import Columns
from eastward.estimators.boosting.folds import columns, margins

SETS = "glass ecoli yeast winequality-red contraceptive haberman vehicle1 german_credit abalone9-18"


def load(name: str) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    path = next((Path(os.environ["EASTWARD_DATA"]) / "tabular").glob(f"*/{name}.parquet"))
    frame = pd.read_parquet(path)
    codes = pd.factorize(frame.pop("target").astype(str), sort=True)[0]
    known = Columns.of(frame, "from_dtype")
    return known.encode(frame).to_numpy(dtype=float), codes, known.categorical


def scores_of_starts(name: str, seed: int) -> dict[str, float]:
    X, y, categorical = load(name)
    train, test = next(StratifiedShuffleSplit(1, test_size=0.3, random_state=seed).split(X, y))
    size = int(y.max()) + 1
    backend = make_backend("lightgbm", Task(size, categorical, 0.1, 0, 1, {}))
    held_out = np.zeros((len(train), size))
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X[train], y[train])
    for outside, inside in folds:
        part = backend.train(X[train[outside]], y[train[outside]], None, 100)
        held_out[inside] = columns(backend.raw_scores(part, X[train[inside]]))
    model = backend.train(X[train], y[train], None, 100)
    logs = torch.from_numpy(held_out).log_softmax(1)
    offsets = offset_evidence(logs, y[train], "f1_macro").offsets.numpy()
    base = columns(backend.raw_scores(model, X[test])) + offsets
    own = columns(backend.raw_scores(model, X[train]))
    found = {
        "cross-entropy": true_score(base - offsets, y[test]),
        "tuned": true_score(base, y[test]),
    }
    for start_name, start in (("own rows", own), ("held-out rows", held_out)):
        begin = np.ascontiguousarray(margins(start + offsets))
        objective = lightgbm_objective("f1_macro")
        trees = backend.train(X[train], y[train], None, 50, start=begin, objective=objective)
        for rounds in (15, 50):
            added = columns(backend.raw_scores(trees, X[test], rounds))
            found[f"{start_name}, {rounds} rounds"] = true_score(base + added, y[test])
    return found


def main() -> None:
    if "EASTWARD_DATA" not in os.environ:
        sys.exit("Set EASTWARD_DATA to the data folder, for example EASTWARD_DATA=../shared/data.")
    torch.set_num_threads(1)
    rows = []
    for name in SETS.split():
        rows += [scores_of_starts(name, seed) for seed in (100, 101, 102)]
        shown = pd.DataFrame(rows[-3:]).mean()
        print(name, " ".join(f"{k}: {v:.3f}" for k, v in shown.items()), flush=True)
    print(pd.DataFrame(rows).mean().round(4).to_string())


if __name__ == "__main__":
    main()
