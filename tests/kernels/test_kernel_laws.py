"""Every kernel computes what the definition computes, with every option."""

from __future__ import annotations

import pytest
import torch
from kernel_cases import OPTIONS, TEMPERATURES, batch, kernel, value_and_gradient

import eastward as ew


@pytest.fixture(params=["eager", "numba"])
def fast(request):
    if request.param == "numba":
        pytest.importorskip("numba", reason="numba is not installed")
    return request.param


def assert_alike(ours, exact, *, value=1e-6, gradient=1e-5):
    """The loss to ``value``, the gradient to ``gradient`` of its largest entry."""
    torch.testing.assert_close(ours[0].double(), exact[0].double(), atol=value, rtol=0)
    size = exact[1].abs().max().item() + 1e-12
    torch.testing.assert_close(
        ours[1].double() / size, exact[1].double() / size, atol=gradient, rtol=0
    )


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("case", OPTIONS)
def test_value_and_gradient_are_those_of_the_definition_in_double_precision(
    fast, case, weighted, temperature
):
    options, size = OPTIONS[case]
    logits, targets = batch(options, size)
    weights = torch.rand(len(targets)) if weighted else None
    exact = value_and_gradient(
        "definition", options, logits.double(), targets, weights, temperature
    )
    ours = value_and_gradient(fast, options, logits, targets, weights, temperature)
    assert ours[0].dtype == ours[1].dtype == torch.float32
    assert_alike(ours, exact)


@pytest.mark.whole
@pytest.mark.parametrize(
    "case",
    ["macro F1", "weighted kappa", "one logit", "grid of thresholds", "prior", "labels on a grid"],
)
def test_each_kind_of_problem_has_the_gradient_of_the_definition(fast, case):
    options, size = OPTIONS[case]
    logits, targets = batch(options, size)
    exact = value_and_gradient("definition", options, logits.double(), targets)
    assert_alike(value_and_gradient(fast, options, logits, targets), exact)


@pytest.mark.parametrize("temperature", [0.01, 1e-3])
@pytest.mark.parametrize("size", [2, 5, 60])
def test_cold_gradients_lose_no_more_digits_than_the_definition_does(fast, size, temperature):
    for seed in range(5):
        logits, targets = batch({}, size, rows=200, seed=seed)
        exact = value_and_gradient("definition", {}, logits.double(), targets, None, temperature)
        plain = value_and_gradient("definition", {}, logits, targets, None, temperature)
        ours = value_and_gradient(fast, {}, logits, targets, None, temperature)
        own, its = ((found[1] - exact[1]).abs().max() for found in (ours, plain))
        assert own <= 10 * its + 1e-5 * exact[1].abs().max()
        assert abs(ours[0] - exact[0]) < 1e-5


@pytest.mark.parametrize("size", [3, 4, 60])
def test_ties_share_the_gradient_like_the_definition(fast, size):
    rows = torch.zeros(8, size)
    rows[1, 0] = rows[1, 1] = 2.0
    rows[2, 0] = rows[2, 1] = rows[2, 2] = 1.0
    rows[3, 0] = 1.0  # all others share the second place
    rows[4, 2], rows[4, 0], rows[4, 1] = 3.0, 1.0, 1.0
    rows[5] = -1e4 * torch.arange(size)
    targets = torch.arange(8) % size
    for temperature in (0.2, 0.05):
        exact = value_and_gradient("definition", {}, rows.double(), targets, None, temperature)
        assert_alike(value_and_gradient(fast, {}, rows, targets, None, temperature), exact)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_logits_are_computed_in_float32(fast, kind):
    dtype = getattr(torch, kind)
    logits, targets = batch({}, 5, dtype=dtype)
    exact = value_and_gradient("definition", {}, logits.double(), targets)
    value, gradient = value_and_gradient(fast, {}, logits, targets)
    assert value.dtype == gradient.dtype == dtype
    torch.testing.assert_close(value.double(), exact[0], atol=torch.finfo(dtype).eps, rtol=0)
    scale = exact[1].abs().max()
    torch.testing.assert_close(
        gradient / scale, exact[1] / scale, atol=0.01, rtol=0, check_dtype=False
    )


def test_images_and_transposed_logits_are_rows_like_any_other(fast):
    logits, targets = torch.randn(2, 5, 6, 7), torch.randint(5, (2, 6, 7))
    for given in (logits, logits.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)):
        exact = value_and_gradient("definition", {}, given.double(), targets)
        assert_alike(value_and_gradient(fast, {}, given, targets), exact)


@pytest.mark.parametrize("size", [2, 3, 21, 300])
def test_many_chunks_and_blocks_add_up(fast, size):
    rows = 150_000 // size + 37
    logits, targets = batch({}, size, rows=rows)
    exact = value_and_gradient("definition", {}, logits.double(), targets)
    # Near ties the gradient jumps; a few rows of so many are that close.
    ours = value_and_gradient(fast, {}, logits, targets)
    torch.testing.assert_close(ours[0].double(), exact[0], atol=1e-6, rtol=0)
    wrong = (ours[1] - exact[1]).abs().amax(1) > 1e-5 * exact[1].abs().max()
    assert wrong.sum() <= 5


@pytest.mark.parametrize("case", ["macro F1", "two classes", "weighted kappa", "labels", "running"])
def test_a_graph_can_be_used_twice_and_scaled(fast, case):
    options, size = OPTIONS[case]
    logits, targets = batch(options, size)
    expected = value_and_gradient(fast, options, logits, targets)[1]
    if options.get("running"):
        options = {}
        expected = value_and_gradient(fast, options, logits, targets)[1]
    leaf = logits.clone().requires_grad_()
    with kernel(fast):
        loss = ew.EASTLoss(**{"metric": "f1_macro", **options})(leaf, targets)
        for factor in (1.0, -3.0):
            (found,) = torch.autograd.grad(factor * loss, leaf, retain_graph=True)
            torch.testing.assert_close(found, factor * expected)


@pytest.mark.parametrize("size", [2, 5, 60])
def test_the_returned_gradient_shares_no_memory(fast, size):
    logits, targets = batch({}, size)
    logits.requires_grad_()
    with kernel(fast):
        loss = ew.EASTLoss()(logits, targets)
        (first,) = torch.autograd.grad(loss, logits, retain_graph=True)
        kept = first.clone()
        first.zero_()
        (second,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(second, kept)


@pytest.mark.parametrize("size", [2, 5])
def test_logits_that_change_before_the_backward_pass_are_noticed(fast, size):
    leaf, targets = batch({}, size)
    logits = leaf.requires_grad_() * 1
    with kernel(fast):
        loss = ew.EASTLoss()(logits, targets)
        logits.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("case", ["macro F1", "two classes", "running", "labels", "weighted kappa"])
def test_second_derivatives_are_those_of_the_definition(fast, case):
    options, size = OPTIONS[case]
    logits, targets = batch(options, size, rows=12)
    direction = torch.randn(logits.shape)

    def curvature(name):
        leaf = logits.clone().requires_grad_()
        with kernel(name):
            loss = ew.EASTLoss(**{"metric": "f1_macro", **options})
            if options.get("running"):
                loss(logits.flip(0), targets)
            (slope,) = torch.autograd.grad(loss(leaf, targets), leaf, create_graph=True)
            (second,) = torch.autograd.grad((slope * direction).sum(), leaf)
        return second

    torch.testing.assert_close(curvature(fast), curvature("definition"), atol=1e-5, rtol=1e-4)


def test_weights_that_learn_get_their_gradient(fast):
    logits, targets = batch({}, 4)
    weights = torch.rand(len(targets), requires_grad=True)
    with kernel(fast):
        loss = ew.metric_loss(logits, targets, sample_weight=weights)
    (slope,) = torch.autograd.grad(loss, weights)
    assert slope.abs().sum() > 0


def test_without_a_gradient_nothing_is_recorded(fast):
    logits, targets = batch({}, 4)
    with kernel(fast):
        assert not ew.EASTLoss()(logits, targets).requires_grad
        with torch.no_grad():
            assert not ew.EASTLoss()(logits.requires_grad_(), targets).requires_grad


def test_masked_classes_of_minus_infinity_are_understood_without_checks(fast):
    logits, targets = batch({}, 5)
    targets = targets.clamp_max(3)
    logits[:, 4] = float("-inf")

    def loss(name, z):
        with kernel(name):
            return ew.metric_loss(z, targets, check_inputs=False)

    torch.testing.assert_close(loss(fast, logits), loss("definition", logits))
    leaf = logits.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(fast, leaf), leaf)
    assert torch.isfinite(slope).all()


def test_nan_logits_without_checks_give_nan_and_not_a_number_that_looks_right(fast):
    logits, targets = batch({}, 5)
    logits[3, 2] = float("nan")
    with kernel(fast):
        assert torch.isnan(ew.metric_loss(logits, targets, check_inputs=False))


@pytest.mark.parametrize("size", [2, 5, 60])
@pytest.mark.parametrize(
    "wrong", [("inf", "inf"), ("inf", "-inf"), ("-inf", "-inf"), ("nan", "0"), ("3e38", "inf")]
)
def test_logits_that_are_not_finite_are_refused_without_another_word(fast, size, wrong):
    logits, targets = batch({}, size)
    logits[3, :2] = torch.tensor([float(value) for value in wrong])
    with kernel(fast), pytest.raises(ValueError, match="logits of metric_loss"):
        ew.metric_loss(logits, targets)


def test_class_indices_are_refused_where_labels_are_independent(fast):
    """A kernel that took them would read beyond their end."""
    loss = ew.EASTLoss("f1_macro", multilabel=True)
    with kernel(fast), pytest.raises(ValueError, match="of the logits' shape"):
        loss(torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 1, 0]))


@pytest.mark.parametrize("size", [2, 5, 60])
def test_finite_logits_whose_sum_overflows_have_a_loss(fast, size):
    logits, targets = batch({}, size)
    logits[:, 0] = 3e38
    exact = value_and_gradient("definition", {}, logits.double(), targets)
    assert_alike(value_and_gradient(fast, {}, logits, targets), exact)


@pytest.mark.parametrize("size", [2, 3])
def test_labels_out_of_range_never_reach_memory(fast, size):
    logits, targets = torch.randn(6, size), torch.tensor([0, 1, 0, 1, 10**9, 0])
    with kernel(fast):
        with pytest.raises(ValueError, match="targets of metric_loss must be in"):
            ew.metric_loss(logits, targets)
        with pytest.raises(IndexError, match="outside"):
            ew.metric_loss(logits, targets, check_inputs=False)


def test_autocast_changes_no_table(fast):
    logits, targets = batch({}, 12, rows=200)
    with kernel(fast):
        expected = ew.metric_loss(logits, targets)
        with torch.autocast("cpu", torch.bfloat16):
            assert ew.metric_loss(logits, targets) == expected
