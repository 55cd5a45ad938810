"""Large batches without a compiler: several chunks, ties, and everything that may be asked of them."""

from __future__ import annotations

import pytest
import torch
from kernel_cases import batch, kernel, value_and_gradient

import eastward as ew
from eastward.kernels import eager_large, eager_plan, eager_ties

ROWS = 130


@pytest.fixture(params=[3, 21, 48, 60])
def size(request):
    return request.param


@pytest.fixture
def chunks(monkeypatch, size):
    """Chunks of about forty rows, the last one shorter; the lengths of those that were worked on."""
    monkeypatch.setattr(eager_plan, "SMALL", 0)
    monkeypatch.setattr(eager_large, "CHUNK", 40 * size)
    seen, name = [], "fill_narrow" if size <= 48 else "fill_wide"
    given = getattr(eager_large, name)

    def noted(logits, *rest):
        seen.append(len(logits))
        return given(logits, *rest)

    monkeypatch.setattr(eager_large, name, noted)
    return seen


def weights_of(weighted):
    if not weighted:
        return None
    weights = torch.rand(ROWS, generator=torch.Generator().manual_seed(1))
    weights[5] = 0
    return weights


def assert_like_the_definition(options, logits, targets, weights, temperature, tolerance=1e-5):
    exact = value_and_gradient(
        "definition", options, logits.double(), targets, weights, temperature
    )
    ours = value_and_gradient("eager", options, logits, targets, weights, temperature)
    torch.testing.assert_close(ours[0].double(), exact[0], atol=1e-6, rtol=0)
    scale = exact[1].abs().max()
    torch.testing.assert_close(
        ours[1] / scale, exact[1] / scale, atol=tolerance, rtol=0, check_dtype=False
    )


@pytest.mark.parametrize("temperature", [0.22, 0.2, 0.1, 0.05])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("detached", [False, True], ids=["", "detached"])
@pytest.mark.parametrize("metric", ["f1_macro", "matthews_corrcoef", "precision_weighted"])
def test_chunks_add_up_to_the_definition(chunks, size, metric, detached, weighted, temperature):
    logits, targets = batch({}, size, rows=ROWS)
    options = {"metric": metric, "detach_threshold": detached}
    assert_like_the_definition(options, logits, targets, weights_of(weighted), temperature)
    assert len(chunks) > 2
    assert sum(chunks) == ROWS


@pytest.mark.parametrize("temperature", [0.2, 0.05])
@pytest.mark.parametrize("detached", [False, True], ids=["", "detached"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_classes_that_tie_share_the_gradient(
    monkeypatch, chunks, size, detached, weighted, temperature
):
    monkeypatch.setattr(eager_ties, "CHUNK", 3 * size)
    logits, targets = batch({}, size, rows=ROWS)
    logits[1] = 0
    logits[50, :2] = logits[50].max() + 1  # first place, in the second chunk
    logits[51, 0] = logits[51].max() + 2
    logits[51, 1:3] = logits[51, 0] - 1  # second place
    logits[52] = logits[51].roll(1)
    logits[120] = torch.arange(size) % 2
    logits[121] = -300.0 * torch.arange(size)  # nothing left of the others: no tie
    options = {"detach_threshold": detached}
    assert_like_the_definition(options, logits, targets, weights_of(weighted), temperature)
    assert len(chunks) > 2


@pytest.mark.parametrize("temperature", [0.01, 1e-3])
def test_cold_gradients_lose_no_more_digits_than_the_definition_does(chunks, size, temperature):
    for seed in range(3):
        logits, targets = batch({}, size, rows=ROWS, seed=seed)
        exact = value_and_gradient("definition", {}, logits.double(), targets, None, temperature)
        plain = value_and_gradient("definition", {}, logits, targets, None, temperature)
        ours = value_and_gradient("eager", {}, logits, targets, None, temperature)
        own, its = ((found[1] - exact[1]).abs().max() for found in (ours, plain))
        assert own <= 10 * its + 1e-5 * exact[1].abs().max()
        assert abs(ours[0] - exact[0]) < 1e-5
    assert chunks


def test_above_two_ninths_the_general_way_is_taken(chunks, size):
    logits, targets = batch({}, size, rows=ROWS)
    assert_like_the_definition({}, logits, targets, None, 0.3)
    assert not chunks


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_large_and_shifted_logits_stay_exact(chunks, size, shift):
    # Multiples of 1/64 are exact in float32 up to 2 ** 18, so that the shift costs no digits.
    logits, targets = batch({}, size, rows=ROWS)
    logits = (logits * 8 * 64).round() / 64 + shift
    assert_like_the_definition({}, logits, targets, None, 0.2)
    assert chunks


def test_a_class_that_is_ignored_has_no_gradient(chunks, size):
    logits, targets = batch({"ignore_index": 1}, size, rows=ROWS)
    options = {"ignore_index": 1}
    assert_like_the_definition(options, logits, targets, None, 0.2)
    _, gradient = value_and_gradient("eager", options, logits, targets)
    assert not gradient[targets == 1].any()
    assert gradient[targets != 1].any(1).all()


def test_values_without_a_gradient_are_the_same(chunks, size):
    logits, targets = batch({}, size, rows=ROWS)
    value, _ = value_and_gradient("eager", {}, logits, targets)
    with kernel("eager"):
        torch.testing.assert_close(ew.EASTLoss()(logits, targets), value, rtol=0, atol=0)
    assert len(chunks) > 4


def test_a_logit_that_is_not_finite_is_found_in_the_last_chunk(chunks, size):
    logits, targets = batch({}, size, rows=ROWS)
    for wrong in (float("nan"), float("inf"), float("-inf")):
        logits[-1, 0] = wrong
        with kernel("eager"), pytest.raises(ValueError, match="logits of EASTLoss"):
            ew.EASTLoss()(logits, targets)
    with kernel("eager"), torch.no_grad():
        masked = ew.EASTLoss(check_inputs=False)(logits, targets)
    with kernel("definition"), torch.no_grad():
        expected = ew.EASTLoss(check_inputs=False)(logits, targets)
    torch.testing.assert_close(masked, expected)


def test_two_threads_find_the_same(chunks, size):
    logits, targets = batch({}, size, rows=ROWS)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(value_and_gradient("eager", {}, logits, targets))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found[0], found[1], rtol=1e-6, atol=1e-9)
