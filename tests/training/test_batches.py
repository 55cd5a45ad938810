"""Folds and batches: who trains on what, and how often."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eastward.confusion import class_confusion
from eastward.training import ShuffledBatches, StratifiedBatches, assign_folds
from eastward.training.batches import Rows, take

counts_of_classes = st.lists(st.integers(1, 30), min_size=2, max_size=8)


def labels_with(counts):
    return torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@given(counts_of_classes, st.integers(2, 5))
def test_folds_are_stratified_and_single_rows_belong_to_none(counts, num_folds):
    labels = labels_with(counts)
    folds = assign_folds(labels, num_folds, seeded())
    for label, count in enumerate(counts):
        own = folds[labels == label]
        if count == 1:
            assert own.tolist() == [-1]
        else:
            sizes = torch.bincount(own, minlength=num_folds)
            assert sizes.max() - sizes.min() <= 1
    overall = torch.bincount(folds[folds >= 0], minlength=num_folds)
    assert overall.max() - overall.min() <= 1


def test_folds_depend_on_the_generator_alone():
    labels = labels_with([20, 20])
    assert assign_folds(labels, 4, seeded(1)).equal(assign_folds(labels, 4, seeded(1)))
    assert not assign_folds(labels, 4, seeded(1)).equal(assign_folds(labels, 4, seeded(2)))


@given(st.integers(1, 200), st.integers(1, 64))
def test_shuffled_batches_take_each_row_once_in_nearly_equal_sizes(count, batch_size):
    rows = torch.arange(count) + 1000
    batches = list(ShuffledBatches([rows], batch_size).epoch(seeded()))
    together = torch.cat(batches, dim=1).flatten()
    assert together.sort().values.equal(rows)
    sizes = [batch.shape[1] for batch in batches]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) < 2 * batch_size


def test_shuffled_batches_of_two_epochs_and_of_two_members_differ():
    source = ShuffledBatches([torch.arange(64), torch.arange(64)], 64)
    generator = seeded()
    (first,), (second,) = source.epoch(generator), source.epoch(generator)
    assert not first.equal(second)
    assert not first[0].equal(first[1])


def test_members_of_unequal_size_share_the_shorter_length():
    source = ShuffledBatches([torch.arange(10), torch.arange(12)], 4)
    batches = torch.cat(list(source.epoch(seeded())), dim=1)
    assert batches.shape == (2, 10)
    assert len(batches[1].unique()) == 10


@pytest.mark.parametrize("kind", ["shuffled", "stratified"])
def test_an_epoch_can_be_cut_short(kind):
    labels = labels_with([50, 50])
    rows = [torch.arange(100)]
    source = (
        ShuffledBatches(rows, 10, max_steps=3)
        if kind == "shuffled"
        else StratifiedBatches(rows, labels, 2, 10, max_steps=3)
    )
    assert len(list(source.epoch(seeded()))) == 3


@given(counts_of_classes, st.integers(8, 64))
def test_every_class_is_in_every_stratified_batch_when_it_fits(counts, batch_size):
    labels = labels_with(counts)
    source = StratifiedBatches([torch.arange(len(labels))], labels, len(counts), batch_size)
    for batch in source.epoch(seeded()):
        found = torch.bincount(labels[batch[0]], minlength=len(counts))
        if source.batch_size >= len(counts):
            assert (found > 0).all()
        assert batch.shape[1] == source.batch_size == min(batch_size, len(labels))


@given(counts_of_classes, st.integers(8, 64))
def test_quotas_are_equal_but_for_what_small_classes_lack(counts, batch_size):
    source = StratifiedBatches(
        [torch.arange(sum(counts))], labels_with(counts), len(counts), batch_size
    )
    share = source.batch_size // len(counts)
    for quota, count in zip(source.quotas, counts, strict=True):
        assert quota == count or quota >= min(share, count)
        assert quota <= count
    full = [q for q, count in zip(source.quotas, counts, strict=True) if q < count]
    assert not full or max(full) - min(full) <= 1


def test_rows_of_a_class_repeat_only_after_all_were_used():
    labels = labels_with([40, 8])
    source = StratifiedBatches([torch.arange(48)], labels, 2, 8)
    seen = torch.cat(list(source.epoch(seeded())), dim=1).flatten()
    times = torch.bincount(seen, minlength=48)
    for own in (times[:40], times[40:]):
        assert own.max() - own.min() <= 1


def test_more_classes_than_fit_are_drawn_one_row_each_and_all_get_their_turn():
    labels = labels_with([3] * 40)
    source = StratifiedBatches([torch.arange(120)], labels, 40, batch_size=10)
    assert source.crowded
    generator, drawn = seeded(), torch.zeros(40)
    for _ in range(30):
        for batch in source.epoch(generator):
            found = torch.bincount(labels[batch[0]], minlength=40)
            assert batch.shape == (1, 10)
            assert found.max() == 1
            drawn += found
    # 360 batches: each class is expected 90 times, with a standard deviation of 8.2.
    assert drawn.min() > 50
    assert drawn.max() < 130


def test_corrected_by_the_prior_stratified_batches_estimate_the_population():
    counts = [180, 40, 9]
    labels = labels_with(counts)
    memberships = torch.rand(len(labels), 3, generator=seeded(5)).softmax(1)
    prior = torch.tensor(counts) / len(labels)
    population = class_confusion(memberships, labels) / len(labels)
    source = StratifiedBatches([torch.arange(len(labels))], labels, 3, batch_size=24)
    generator, estimates = seeded(6), []
    for _ in range(100):
        for (batch,) in source.epoch(generator):
            estimates.append(class_confusion(memberships[batch], labels[batch], prior=prior))
    estimates = torch.stack(estimates)
    error = estimates.std(0) / len(estimates) ** 0.5
    assert ((estimates.mean(0) - population).abs() < 4 * error + 1e-6).all()
    # Without the correction the same batches speak of another population.
    plain = class_confusion(memberships[batch], labels[batch]) / len(batch)
    assert (plain.sum(1) - population.sum(1)).abs().max() > 0.3


def test_class_mass_counts_weights():
    weights = torch.tensor([1.0, 1.0, 6.0])
    rows = Rows(torch.zeros(3, 1), torch.tensor([0, 0, 1]), weights, [], [], 2)
    assert rows.class_mass.tolist() == [0.25, 0.75]


def test_rows_are_taken_from_tensors_arrays_and_dictionaries():
    table = torch.arange(12.0).view(6, 2)
    chosen = torch.tensor([4])
    assert take(table, chosen).tolist() == [[8.0, 9.0]]
    assert take(table.numpy(), chosen).tolist() == [[8.0, 9.0]]
    assert take({"a": table, "b": table + 1}, chosen)["b"].tolist() == [[9.0, 10.0]]
