"""PyTorch's threads share a batch, and nothing but the time shows it."""

from __future__ import annotations

import ctypes
import os

import pytest
import torch
from kernel_cases import kernel

import eastward as ew
from eastward.kernels import sharing
from eastward.kernels import team as team_module

pytest.importorskip("numba", reason="the extra 'fast' is not installed")
pytestmark = pytest.mark.skipif(
    team_module.team() is None, reason="PyTorch has no GNU OpenMP on this system"
)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def batch(size):
    generator = torch.Generator().manual_seed(0)
    rows = 100_000 // size
    logits = torch.randn(rows, size, generator=generator)
    targets = torch.randint(size, (rows,), generator=generator)
    targets[::9] = -100
    return logits, targets, torch.rand(rows, generator=generator)


def value_and_gradient(threads, logits, targets, weights):
    torch.set_num_threads(threads)
    leaf = logits.clone().requires_grad_()
    with kernel("numba"):
        loss = ew.EASTLoss("f1_macro")(leaf, targets, weights)
        (gradient,) = torch.autograd.grad(loss, leaf, retain_graph=True)
        (again,) = torch.autograd.grad(loss, leaf)
    torch.testing.assert_close(again, gradient, rtol=0, atol=0)
    return loss.detach(), gradient


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("size", [10, 48, 49, 300])
def test_two_threads_give_what_one_gives(size):
    given = batch(size)
    alone, together = (value_and_gradient(threads, *given) for threads in (1, 2))
    torch.testing.assert_close(together[0], alone[0], rtol=0, atol=1e-6)
    largest = alone[1].abs().max()
    assert (together[1] - alone[1]).abs().max() < 1e-5 * largest


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("size", [10, 300])
def test_what_is_wrong_in_one_share_is_said(size):
    logits, targets, _ = batch(size)
    wrong = targets.clone()
    wrong[-1] = size
    strange = logits.clone()
    strange[-1, 0] = torch.nan
    with kernel("numba"):
        with pytest.raises(ValueError, match="targets of EASTLoss"):
            ew.EASTLoss("f1_macro")(logits, wrong)
        with pytest.raises(ValueError, match="logits of EASTLoss must be finite"):
            ew.EASTLoss("f1_macro")(strange, targets)
        with pytest.warns(UserWarning, match="every sample is ignored"):
            ew.EASTLoss("f1_macro")(logits, torch.full_like(targets, -100))


@pytest.mark.usefixtures("two_threads")
def test_without_a_team_other_threads_share_the_work(monkeypatch):
    given = batch(60)
    expected = value_and_gradient(2, *given)
    monkeypatch.setattr("eastward.kernels.compiled_plan.team", lambda: None)
    monkeypatch.setattr("eastward.kernels.compiled_plan.SHARE_OF_A_THREAD", 1000)
    monkeypatch.setattr("eastward.kernels.sharing.SHARE_OF_A_THREAD", 1000)
    shared = []

    def watched(work, parts):
        shared.append(len(parts))
        return sharing.everywhere(work, parts)

    monkeypatch.setattr("eastward.kernels.compiled.everywhere", watched)
    found = value_and_gradient(2, *given)
    assert set(shared) == {2}
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-6)
    assert (found[1] - expected[1]).abs().max() < 1e-5 * expected[1].abs().max()


def test_a_library_that_pytorch_has_not_loaded_is_no_team(monkeypatch):
    def refuses(_path, mode):
        assert mode == os.RTLD_NOLOAD
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", refuses)
    team_module.team.cache_clear()
    try:
        assert team_module.team() is None
    finally:
        team_module.team.cache_clear()
