"""Losses of several models at once; which kernel runs; threads."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
import torch
from kernel_cases import kernel

import eastward as ew
from eastward.kernels import choice
from eastward.losses.stacked import StackedLoss


@pytest.fixture(params=["eager", "numba"])
def fast(request):
    if request.param == "numba":
        pytest.importorskip("numba", reason="numba is not installed")
    return request.param


STACKS = {
    "five classes": ("f1_macro", 5, {}),
    "two classes": ("f1", 2, {}),
    "a prior": ("f1_macro", 3, {"prior": torch.tensor([0.2, 0.3, 0.5])}),
    "a matrix": ("cohen_kappa_quadratic", 3, {}),
    "a grid": ("f1_macro", 3, {"threshold": (0.3, 0.5)}),
    "labels": ("f1_macro", 3, {"multilabel": True}),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", STACKS)
def test_stacked_losses_are_those_of_each_model_alone(fast, case, weighted):
    name, size, options = STACKS[case]
    logits = torch.randn(3, 30, size)
    targets = torch.randint(size, (3, 30))
    if options.get("multilabel"):
        targets = torch.randint(2, (3, 30, size))
    weights = torch.rand(3, 30) if weighted else None
    metric = ew.metrics.get(name)
    leaf = logits.double().requires_grad_()
    rows = [None] * 3 if weights is None else weights
    alone = torch.stack(
        [
            ew.metric_loss(z, y, metric, sample_weight=w, **options)
            for z, y, w in zip(leaf, targets, rows, strict=True)
        ]
    )
    (expected,) = torch.autograd.grad(alone.sum(), leaf)
    logits.requires_grad_()
    with kernel(fast):
        losses = StackedLoss(metric, **options)(logits, targets, weights)
        (slope,) = torch.autograd.grad(losses.sum(), logits)
    torch.testing.assert_close(losses.double(), alone, atol=1e-6, rtol=0)
    torch.testing.assert_close(slope.double(), expected, atol=1e-6, rtol=1e-4)


def test_each_member_can_have_its_own_weight_in_the_sum(fast):
    logits = torch.randn(2, 20, 3, requires_grad=True)
    targets = torch.randint(3, (2, 20))
    with kernel(fast):
        losses = StackedLoss(ew.metrics.get("f1_macro"))(logits, targets, None)
        (one,) = torch.autograd.grad(losses.sum(), logits, retain_graph=True)
        (two,) = torch.autograd.grad(losses[0] * 2 - losses[1], logits)
    torch.testing.assert_close(two, one * torch.tensor([2.0, -1.0]).view(2, 1, 1))


@pytest.mark.parametrize("options", [{}, {"step": "sigmoid"}], ids=["double", "sigmoid"])
def test_stacks_that_no_kernel_knows_take_the_definition(options):
    logits, targets = torch.randn(2, 20, 3).double(), torch.randint(3, (2, 20))
    losses = StackedLoss(ew.metrics.get("f1_macro"), **options)(logits, targets, None)
    alone = [ew.metric_loss(*one, **options) for one in zip(logits, targets, strict=True)]
    torch.testing.assert_close(losses, torch.stack(alone))


@pytest.mark.parametrize("size", [2, 10, 300])
def test_threads_change_nothing(size):
    pytest.importorskip("numba", reason="numba is not installed")
    logits = torch.randn(1_600_000 // size, size, requires_grad=True)
    targets = torch.randint(size, (len(logits),))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            with kernel("numba"):
                loss = ew.EASTLoss()(logits, targets)
            found.append((loss.detach(), torch.autograd.grad(loss, logits)[0]))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found[0], found[1], atol=1e-7, rtol=1e-4)


def test_the_choice_is_logged_in_one_line_and_made_once(caplog):
    choice._kernel.cache_clear()
    with caplog.at_level(logging.INFO, "eastward"), kernel("eager"):
        for _ in range(3):
            ew.EASTLoss()(torch.randn(4, 3), torch.arange(4) % 3)
    assert [record.message for record in caplog.records] == [
        "EAST losses on cpu use the eager kernel (EASTWARD_KERNEL=eager)"
    ]


WAYS = {
    ("auto", "cpu", "top2"): "compiled",
    ("auto", "cpu", "fixed"): "compiled",
    ("auto", "cpu", "pair"): "compiled",
    ("auto", "cpu", "labels"): "compiled",
    ("auto", "cuda", "top2"): "tiled",
    ("auto", "cuda", "labels"): "plain",
    ("auto", "mps", "top2"): "plain",
    ("auto", "mps", "fixed"): None,
    ("eager", "cpu", "top2"): "plain",
    ("eager", "cpu", "fixed"): None,
    ("numba", "cuda", "top2"): "plain",
    ("definition", "cpu", "top2"): None,
}


@pytest.mark.parametrize("asked", WAYS, ids=" ".join)
def test_the_kernel_is_the_first_row_of_the_table_that_fits(asked):
    for package in ("numba", "triton"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    wanted, *place = asked
    with kernel(wanted):
        found = choice.kernel_for(*place)
    name = None if found is None else found.__name__.rsplit(".", 1)[1]
    assert name == WAYS[asked]


WITHOUT_NUMBA = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "numba" else find(name, *rest)
from eastward.kernels.choice import kernel_for
print(kernel_for("cpu", "top2").__name__)
"""


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [("auto", "eastward.kernels.plain"), ("numba", "needs numba: install it with  pip install")],
)
@pytest.mark.slow
def test_without_numba_plain_pytorch_is_used_unless_numba_is_requested(wanted, shown):
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "EASTWARD_KERNEL": wanted},
    )
    assert shown in run.stdout + run.stderr


def test_a_misspelt_kernel_is_named():
    with kernel("nubma"), pytest.raises(ValueError, match="Did you mean 'numba'"):
        ew.EASTLoss()(torch.randn(4, 3), torch.arange(4) % 3)


def test_a_loss_keeps_the_choice_of_its_first_batch():
    loss, given = ew.EASTLoss(), (torch.randn(4, 3), torch.arange(4) % 3)
    with kernel("eager"):
        first = loss(*given)
    with kernel("nubma"):
        assert loss(*given) == first


def test_importing_the_library_loads_no_compiler():
    code = "import sys, eastward; print([m for m in ('numba', 'triton') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
