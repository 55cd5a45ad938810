"""The benchmark of long-tailed images: what it trains once stands for what it would train twice."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from eastward import EASTClassifier

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.quality import images  # the benchmarks are no installed package


@pytest.mark.slow
@pytest.mark.parametrize("folds", [1, 2])
def test_the_start_of_the_aligned_networks_is_cross_entropy(monkeypatch, folds):
    monkeypatch.setitem(images.TRAINING, "max_epochs", 3)
    train, labels, test, truth = images.digits()
    cell = images.run_seed("digits", 60, 6, 7, folds)
    rows = images.long_tailed(labels, 60, 6, 7)
    model = EASTClassifier(
        "f1_macro",
        module=lambda _, classes: images.convolutions(1, classes),
        recipe="cross_entropy",
        n_folds=folds,
        tune_decision=True,
        random_state=7,
        **images.TRAINING,
    ).fit(torch.from_numpy(train[rows]), labels[rows])
    frequency = np.bincount(labels[rows]) / len(rows)
    weight = frequency[truth] / np.bincount(truth)[truth]
    name = "cross-entropy" if folds == 1 else f"cross-entropy x{folds}"
    for label, probabilities in (
        (name, model.raw_predict_proba(torch.from_numpy(test))),
        (f"{name} + tuned", np.eye(10)[model.predict(torch.from_numpy(test))]),
    ):
        assert cell["scores"][label] == images._macro_f1(probabilities, truth, weight)


def cell_of(seed, folds, **scores):
    return {"set": "toys", "most": 9, "seed": seed, "folds": folds, "scores": scores}


def test_the_table_of_targets_pairs_seeds_and_says_what_is_missed():
    cells = []
    for seed in (0, 1):
        one = {"cross-entropy": 0.50 + seed / 10, "cross-entropy + tuned": 0.6, "balanced": 0.4}
        one["aligned"] = 0.51 + seed / 10
        five = {f"{name} x5".replace(" + tuned x5", " x5 + tuned"): 0.7 for name in one}
        five["aligned x5 + tuned"] = 0.65
        cells.append(cell_of(seed, 1, **one))
        cells += [cell_of(seed, 5, **five)] if seed == 0 else []
    lines = images.target_table(cells).splitlines()[4:]
    assert lines == [
        "| toys, one network against one | 2 | +0.010, **missed** | -0.040, **missed** | +0.160, met |",
        "| toys, five networks against one | 1 | +0.150, met | +0.050, met | +0.250, met |",
        "| toys, five networks against five | 1 | -0.050 | -0.050 | -0.050 |",
    ]


def test_networks_that_went_on_with_all_rows_are_compared_with_cross_entropy_that_did():
    one = {"cross-entropy": 0.5, "cross-entropy + tuned": 0.6, "balanced": 0.4, "aligned": 0.61}
    more = dict.fromkeys(images.LIKEWISE, 0.62) | {images.OURS_OF_ALL: 0.63}
    lines = images.target_table([cell_of(0, 1, **one, **more)]).splitlines()[5:]
    assert lines == [
        "| toys, one network, all rows, against one | 1 | +0.130, met | +0.030, met | +0.230, met |",
        "| toys, one network, all rows, against all rows | 1 | +0.010 | +0.010 |  |",
    ]
