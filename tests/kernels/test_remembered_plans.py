"""What a loss remembers of its last batch is forgotten as soon as something has changed."""

from __future__ import annotations

import pytest
import torch
from kernel_cases import kernel

import eastward as ew


def filled_in_place(loss):
    loss.temperature.fill_(0.05)


def assigned(loss):
    loss.temperature = 0.05


def loaded(loss):
    loss.load_state_dict(ew.EASTLoss(temperature=0.05).state_dict())


def moved(loss):
    loss.double().float().temperature = 0.05


def other_metric(loss):
    loss.metric = ew.metrics.get("recall_macro")


def ignoring(loss):
    loss.ignore_index = 0


def other_step(loss):
    loss.step = "sigmoid"


def with_prior(loss):
    loss.prior = torch.tensor([0.2, 0.3, 0.5])


CHANGES = {
    filled_in_place: {"temperature": 0.05},
    assigned: {"temperature": 0.05},
    loaded: {"temperature": 0.05},
    moved: {"temperature": 0.05},
    other_metric: {"metric": "recall_macro"},
    ignoring: {"ignore_index": 0},
    other_step: {"step": "sigmoid"},
    with_prior: {"prior": [0.2, 0.3, 0.5]},
}


@pytest.fixture(params=["eager", "numba"])
def fast(request):
    if request.param == "numba":
        pytest.importorskip("numba", reason="the extra 'fast' is not installed")
    return request.param


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_of_the_loss_is_noticed(fast, change):
    logits, targets = torch.randn(60, 3), torch.randint(3, (60,))
    loss = ew.EASTLoss()
    with kernel(fast):
        before = loss(logits, targets)
        change(loss)
        after = loss(logits, targets)
    exact = ew.EASTLoss(**CHANGES[change]).double()(logits.double(), targets)
    assert abs(after.item() - exact.item()) < 1e-6
    assert abs(after.item() - before.item()) > 1e-4


def test_the_environment_is_asked_for_every_batch(fast):
    logits, targets = torch.randn(20, 3, requires_grad=True), torch.randint(3, (20,))
    loss = ew.EASTLoss()
    ways = []
    for name in (fast, "definition", fast):
        with kernel(name):
            ways.append(type(loss(logits, targets).grad_fn).__name__)
    assert ways[0] == ways[2] != ways[1]


def test_batches_of_other_widths_have_other_plans(fast):
    loss = ew.EASTLoss()
    for size in (3, 5, 2, 60, 3):
        logits, targets = torch.randn(40, size), torch.randint(size, (40,))
        with kernel(fast):
            found = loss(logits, targets)
        exact = ew.EASTLoss()(logits.double(), targets)
        assert abs(found.item() - exact.item()) < 1e-6
