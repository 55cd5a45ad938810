"""The compiled search of the quality benchmark against the library's."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from eastward import metrics
from eastward.decisions import tune_offsets

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.quality import offsets  # the benchmarks are no installed package

COST = [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [5.0, 5.0, 0.0]]


def sample(num_classes, rows=200, seed=0, confidence=1.0):
    rng = np.random.default_rng(seed)
    prior = np.geomspace(1, 0.1, num_classes)
    codes = rng.choice(num_classes, rows, p=prior / prior.sum())
    scores = rng.normal(size=(rows, num_classes)) + np.log(prior)
    scores[np.arange(rows), codes] += 1.5
    return torch.from_numpy(confidence * scores).log_softmax(1).numpy(), codes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "num_classes", "options"),
    [
        ("f1", 2, {}),
        ("f1_macro", 3, {}),
        ("matthews_corrcoef", 2, {}),
        ("matthews_corrcoef", 3, {}),
        ("balanced_accuracy", 3, {}),
        ("expected_cost", 3, {"cost": COST}),
    ],
)
@pytest.mark.parametrize("confidence", [1.0, 12.0])
@pytest.mark.parametrize("seed", range(6))
def test_one_search_finds_what_the_librarys_finds(kind, num_classes, options, confidence, seed):
    scores, codes = sample(num_classes, rows=80, seed=seed, confidence=confidence)
    metric = metrics.get(kind, **options)
    cost = np.asarray(options.get("cost", np.zeros((num_classes, num_classes))))
    number = offsets.KINDS["cost" if options else kind]
    shares = np.eye(num_classes)[codes]
    ours = offsets._ascent(scores, shares, np.ones(len(codes)), number, shares @ cost)
    theirs = tune_offsets(scores, codes, metric).numpy()
    assert ours == pytest.approx(theirs, abs=1e-6)


def test_where_nothing_is_gained_nothing_is_moved():
    scores = np.log([[0.999, 0.001]] * 20 + [[1e-6, 1 - 1e-6]] * 2)
    codes = np.array([0] * 20 + [1] * 2)
    assert offsets.bagged(scores, codes, "f1").tolist() == [0.0, 0.0]


def test_bags_are_the_same_every_time_and_centred():
    scores, codes = sample(4)
    found = offsets.bagged(scores, codes, "f1_macro", bags=3)
    assert np.array_equal(found, offsets.bagged(scores, codes, "f1_macro", bags=3))
    assert found.sum() == pytest.approx(0, abs=1e-9)
    assert found[3] > found[0]  # the rare class is helped


def test_expectations_in_place_of_labels_follow_the_librarys_weighted_rows():
    from eastward.decisions import smoothed_offsets

    scores, codes = sample(2, rows=600)
    metric = metrics.get("f1")
    ours = offsets.bagged(scores, codes, "f1", bags=5, label_share=0.25)
    theirs = smoothed_offsets(scores, codes, metric, label_share=0.25, n_bags=5)
    assert ours == pytest.approx(theirs.numpy(), abs=0.15)
    assert ours != pytest.approx(offsets.bagged(scores, codes, "f1", bags=5), abs=1e-3)
