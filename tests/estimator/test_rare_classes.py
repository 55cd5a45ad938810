"""The report says when batches are far too small for a class that the metric counts, and only then."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from small_models import clusters, quick
from torch.utils.data import DataLoader, TensorDataset

from eastward import metrics
from eastward.estimators.network.rare_classes import Supply, batch_notes
from eastward.training import Stage

RARE = (960, 30, 10)


def stage(batch_size=32, *, objective="metric", **changes) -> Stage:
    return Stage("short", objective, 5, 1e-3, batch_size, **changes)


def notes(stage, counts=RARE, metric="f1_macro", *, source="table", batches=None, multilabel=False):
    supply = Supply(sum(RARE), torch.tensor(counts), source, batches)
    names = ["a", "b", "c", "d"][: len(counts)]
    return batch_notes([stage], supply, metrics.get(metric), names, multilabel=multilabel)


TOO_SMALL = {
    "a class of one per cent in batches of 32": (
        {"stage": stage()},
        (
            "of 32 rows hold no row of classes ['c'], and f1_macro of a batch leaves them out; use "
            "recipe='auto', which stratifies batches, or batch_size=913"
        ),
    ),
    "two classes in batches of 16": ({"stage": stage(16)}, "no row of classes ['c', 'b']"),
    "the positive class": (
        {"stage": stage(), "counts": (990, 10), "metric": "f1"},
        "no row of classes ['b']",
    ),
    "a stage that wants stratified batches, of a loader": (
        {"stage": stage(stratified=True), "source": "loader", "batches": 40},
        (
            "of 25 rows hold no row of classes ['c'], and f1_macro of a batch leaves them out; use "
            "a loader that stratifies its batches, or batches of 913 rows"
        ),
    ),
    "exact steps of a stream that are too short": (
        {"stage": stage(8, effective_batch=32), "source": "stream"},
        (
            "of 32 rows hold no row of classes ['c'], and f1_macro of a batch leaves them out; use "
            "accumulate='exact' with effective_batch=913"
        ),
    ),
    "a rare label": (
        {"stage": stage(stratified=True), "counts": (960, 300, 10), "multilabel": True},
        "no row of labels ['c'], and f1_macro of a batch leaves them out; use batch_size=913",
    ),
    "no batch but all rows would do": (
        {"stage": stage(), "counts": (990, 7, 3)},
        "or batch_size=1000",
    ),
}
LARGE_ENOUGH = {
    "cross-entropy": {"stage": stage(4, objective="cross_entropy")},
    "focal loss": {"stage": stage(4, objective="focal")},
    "stratified batches": {"stage": stage(8, stratified=True)},
    "larger batches": {"stage": stage(128)},
    "exact steps": {"stage": stage(8, effective_batch=512)},
    "all rows in a batch": {"stage": stage(1000), "counts": (999, 1)},
    "a metric that counts rows": {"stage": stage(), "metric": "accuracy"},
    "a metric that weights classes by their rows": {"stage": stage(), "metric": "f1_weighted"},
    "a rare class that is not the positive one": {
        "stage": stage(),
        "counts": (10, 990),
        "metric": "f1",
    },
    "a loader that stratifies": {
        "stage": stage(),
        "counts": (334, 333, 333),
        "source": "loader",
        "batches": 40,
    },
    "a class without rows": {"stage": stage(), "counts": (500, 500, 0)},
    "a label of all rows and one of none": {
        "stage": stage(),
        "counts": (1000, 0, 300),
        "multilabel": True,
    },
}


@pytest.mark.parametrize(("case", "expected"), TOO_SMALL.values(), ids=TOO_SMALL)
def test_batches_that_are_far_too_small_are_named(case, expected):
    (note,) = notes(**case)
    assert note.startswith("stage 'short': most batches of ")
    assert expected in note


@pytest.mark.parametrize("case", LARGE_ENOUGH.values(), ids=LARGE_ENOUGH)
def test_sufficient_batches_get_no_note(case):
    assert notes(**case) == []


def test_most_batches_do_miss_the_class_that_is_named_and_few_of_the_size_that_is_advised():
    targets = torch.repeat_interleave(torch.arange(3), torch.tensor(RARE))
    held = {
        size: [int((targets[torch.randperm(1000)[:size]] == 2).sum()) for _ in range(300)]
        for size in (32, 913)
    }
    assert np.mean(np.equal(held[32], 0)) > 0.5
    assert np.mean(np.greater_equal(held[913], 5)) > 0.95


@pytest.mark.parametrize(("batch_size", "said"), [(256, True), (640, False)])
def test_stratified_batches_are_too_small_without_room_for_half_of_the_classes(batch_size, said):
    supply = Supply(20_000, torch.full((1000,), 20))
    described = stage(batch_size, stratified=True)
    found = batch_notes([described], supply, metrics.get("f1_macro"), list(range(1000)))
    assert bool(found) is said
    assert not said or found[0].endswith("use batch_size=1000 or more")


@pytest.fixture(scope="module")
def rare_table():
    X, y = clusters((300, 140, 6), spread=0.5)
    return X, np.array(["dog", "cat", "emu"])[y]


def test_the_report_of_a_fit_says_so_before_anything_else(rare_table, caplog):
    with caplog.at_level(logging.WARNING, "eastward"):
        model = quick(recipe="paper", batch_size=16, n_folds=1, max_epochs=2).fit(*rare_table)
    note = model.report_["notes"][0]
    assert note.startswith("stage 'EAST': most batches of 16 rows hold no row of classes ['emu']")
    assert note in caplog.text


@pytest.mark.parametrize(
    "settings",
    [{}, {"batch_size": 8}, {"recipe": "cross_entropy"}, {"recipe": "paper", "batch_size": 200}],
    ids=["default", "small batches, stratified", "cross-entropy", "large batches"],
)
def test_the_report_of_an_ordinary_fit_says_nothing_of_batches(rare_table, settings):
    model = quick(max_epochs=2, **settings).fit(*rare_table)
    assert not [note for note in model.report_["notes"] if "most batches" in note]


@pytest.mark.slow
def test_the_batches_of_a_loader_are_counted_as_they_come(rare_table):
    X, y = rare_table
    codes = np.searchsorted(np.unique(y), y)
    data = TensorDataset(torch.from_numpy(X).float(), torch.from_numpy(codes))
    held = data[:100]
    weights = (1 / np.bincount(codes))[codes]
    sampler = torch.utils.data.WeightedRandomSampler(weights.tolist(), len(codes))
    plain = DataLoader(data, batch_size=16, shuffle=True)
    balanced = DataLoader(data, batch_size=16, sampler=sampler)
    said = [
        quick(n_folds=1, max_epochs=1).fit(loader, validation_data=held).report_["notes"]
        for loader in (plain, balanced)
    ]
    assert "most batches of 16 rows hold no row of classes [2]" in said[0][0]
    assert not [note for note in said[1] if "most batches" in note]
