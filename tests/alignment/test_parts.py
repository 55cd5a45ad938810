"""The parts of `align`: heads, rows, frequencies, and what validation rows say."""

from __future__ import annotations

import pytest
import torch
from small_networks import clusters
from torch import nn

from eastward import soft_confusion, soft_memberships
from eastward.alignment.batches import as_batch, has_index, joined_loaders
from eastward.alignment.evidence import STEP, TEMPERATURE, Judge
from eastward.alignment.head_stage import HeadOptions, aligned_heads
from eastward.alignment.heads import HeadWeights, find_head
from eastward.alignment.priors import judged_weight, target_prior
from eastward.alignment.rows import HeadRows, concatenated, thinned
from eastward.decisions import decision_gain
from eastward.metrics import get


def rows_of(X, y):
    return HeadRows(X, y, torch.ones(len(y)).double(), torch.arange(len(y)))


@pytest.mark.parametrize("single", [False, True])
def test_a_changed_head_makes_changed_logits(single):
    torch.manual_seed(0)
    outputs = 1 if single else 2
    head = HeadWeights(torch.randn(outputs, 4), torch.randn(outputs), single)
    features, shift = torch.randn(7, 4), torch.tensor([0.3, -0.5])
    before, after = head.logits(features), head.changed(2.0, shift).logits(features)
    wanted = 2 * before + shift
    torch.testing.assert_close(after[:, 1] - after[:, 0], wanted[:, 1] - wanted[:, 0])


@pytest.mark.parametrize(
    ("network", "shape", "targets", "name"),
    [
        (nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), (6, 4), (6,), "2"),
        (
            nn.Sequential(nn.Conv2d(4, 5, 3, padding=1), nn.Conv2d(5, 3, 1)),
            (2, 4, 6, 6),
            (2, 6, 6),
            "1",
        ),
        (nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)), (6, 4), (6,), "0"),
    ],
)
def test_the_head_is_the_layer_that_makes_the_logits(network, shape, targets, name):
    batch = as_batch((torch.randn(shape), torch.zeros(targets).long()))
    found = find_head(network.eval(), batch, None, None)
    assert found.name == name
    weights = found.weights(network)
    found.put(network, weights.changed(1.0, torch.arange(found.layout.size).double()))
    assert found.layout.rows(network(batch.inputs)).shape[1] == found.layout.size


def test_weighted_rows_have_the_frequencies_that_one_is_judged_by():
    _, y = clusters((60, 30, 10))
    rows = rows_of(torch.zeros(100, 1), y)
    target = torch.tensor([0.2, 0.3, 0.5]).double()
    weight = judged_weight(rows, target)
    mass = torch.zeros(3).double().index_add(0, y, weight)
    torch.testing.assert_close(mass / mass.sum(), target)
    assert target_prior(None, target) is target


@pytest.mark.parametrize("room", [10, 50, 1000])
def test_fewer_rows_stand_for_all(room):
    X, y = clusters((200, 30, 4))
    fewer = thinned(rows_of(X, y), 3, room, torch.Generator().manual_seed(0))
    assert len(fewer) <= max(room, 3)
    assert set(fewer.targets.tolist()) == {0, 1, 2}
    torch.testing.assert_close(fewer.class_mass(3), torch.tensor([200.0, 30.0, 4.0]).double())


def test_rows_of_one_sample_are_in_one_fold():
    X, y = clusters((40, 40))
    rows = HeadRows(X, y, torch.ones(80).double(), torch.arange(80) // 8)
    judge = Judge.of(rows, get("f1_macro"), 2, grouped=True, seed=0)
    for sample in range(10):
        assert len(judge.folds[rows.groups == sample].unique()) == 1
    joined = concatenated(rows, rows)
    assert len(joined.groups.unique()) == 20


def test_heads_side_by_side_are_heads_alone():
    X, y = clusters((60, 30, 10))
    rows = rows_of(X, y)
    torch.manual_seed(0)
    starts = [HeadWeights(torch.randn(3, 6), torch.zeros(3)) for _ in range(2)]
    used = torch.ones(2, 100, dtype=torch.bool)
    used[1, ::3] = False
    prior = torch.tensor([0.5, 0.3, 0.2])
    # Few steps: rounding grows with each of Adam's.
    options = HeadOptions(steps=5)
    together = aligned_heads(starts, rows, used, get("f1_macro"), prior, options)
    alone = aligned_heads(
        starts[1:], rows.taken(used[1]), used[1:, used[1]], get("f1_macro"), prior, options
    )
    scale = (
        rows.features.square().mean().sqrt() / rows.taken(used[1]).features.square().mean().sqrt()
    )
    assert 0.9 < float(scale) < 1.1  # the unit of the steps differs a little with the rows
    torch.testing.assert_close(together[1].weight, alone[0].weight, rtol=0, atol=0.02)
    assert not torch.allclose(together[0].weight, starts[0].weight)


def test_a_strong_pull_keeps_the_head_where_it_started():
    X, y = clusters((60, 30, 10))
    start = HeadWeights(torch.zeros(3, 6), torch.zeros(3))
    used = torch.ones(1, 100, dtype=torch.bool)
    moved = [
        aligned_heads(
            [start], rows_of(X, y), used, get("f1_macro"), None, HeadOptions(proximal=pull)
        )
        for pull in (1e4, 0.0)
    ]
    sizes = [float(heads[0].weight.norm()) for heads in moved]
    assert sizes[0] < 0.1 < sizes[1]


def test_groups_widen_the_error_of_a_gain():
    truth = torch.arange(400) % 2
    # Whole groups of twenty are right or wrong together.
    after = torch.where((torch.arange(400) // 20) % 3 == 0, 1 - truth, truth)
    before = torch.zeros(400).long()
    alone = decision_gain(before, after, truth, "accuracy", num_classes=2)
    together = decision_gain(
        before, after, truth, "accuracy", num_classes=2, groups=torch.arange(400) // 20
    )
    assert together.gain == alone.gain
    assert together.high - together.low > 2 * (alone.high - alone.low)


@pytest.mark.parametrize("metric", ["f1_macro", "matthews_corrcoef", "accuracy"])
def test_soft_gains_are_those_of_soft_confusion_matrices(metric):
    X, y = clusters((60, 30, 10))
    rows = HeadRows(
        X,
        y,
        torch.rand(100, generator=torch.Generator().manual_seed(1)).double(),
        torch.arange(100),
    )
    judge = Judge.of(rows, get(metric), 3, grouped=False, seed=0)
    first, second = X[:, :3].double(), X[:, 3:].double()

    def value(logits):
        soft = soft_memberships(logits.softmax(1), TEMPERATURE, step=STEP)
        return float(get(metric)(soft_confusion(soft, y, sample_weight=rows.weight)))

    found = judge.soft_gain(first, second)
    assert found.gain == pytest.approx(value(second) - value(first))
    assert found.error > 0
    assert judge.soft_gain(first, first) == (0.0, 0.0, "soft")
    # Sharper logits decide alike, and are surer of it.
    assert judge.counted_gain(first.argmax(1), (9 * first).argmax(1)).gain == 0.0


def test_soft_gains_of_labels_are_those_of_their_counts():
    truth = torch.tensor([[1, 0], [0, 1], [1, 1], [0, -100]])
    rows = HeadRows(torch.zeros(4, 1), truth, torch.ones(4).double(), torch.arange(4))
    judge = Judge.of(rows, get("f1_macro"), 2, grouped=False, seed=0)
    right = torch.where(truth == 1, 50.0, -50.0)
    assert judge.soft_gain(-right, right).gain > 0.9
    assert judge.value((right > 0).long()) == 1.0


def test_labels_are_judged_by_their_counts():
    truth = torch.tensor([[1, 0], [0, 1], [1, 1], [0, -100]])
    found = decision_gain(torch.zeros(4, 2), truth == 1, truth, "f1_macro", num_classes=2)
    assert (found.before, found.after) == (0.0, 1.0)


def test_two_loaders_become_one():
    first, second = ([(torch.zeros(2), torch.zeros(2))], [(torch.ones(2), torch.ones(2))])
    both = joined_loaders(first, second)
    assert not has_index(both)
    assert [len(list(both)) for _ in range(2)] == [2, 2]
