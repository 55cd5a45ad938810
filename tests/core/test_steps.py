"""The soft Heaviside steps: shape, limits, slopes and agreement with the published formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from error_sentence import assert_error
from hypothesis import given
from hypothesis import strategies as st

import eastward as ew
from eastward.steps import STEPS, resolve_step, step_and_complement, step_slopes

PROBABILITIES = st.floats(0.0, 1.0)
TEMPERATURES = st.floats(0.0, 0.4, exclude_min=True)
DTYPES = (torch.float32, torch.float64)
HEIGHTS = (0.01, 0.1, 0.2, 0.35, 0.49)
THRESHOLDS = (0.01, 0.1, 0.35, 0.5, 0.8, 0.99)


def equation_5(p: np.ndarray, tau: float, delta: float) -> np.ndarray:
    """Equation 5 of Bridging the Gap, term by term."""
    width = min(tau, 1 - tau)
    first = delta / (tau - width / 2)
    middle = (1 - 2 * delta) / width
    last = delta / (1 - tau - width / 2)
    below, above = p < tau - width / 2, p > tau + width / 2
    upper = p * last + (1 - delta - last * (tau + width / 2))
    return np.where(below, p * first, np.where(above, upper, p * middle + (0.5 - middle * tau)))


@pytest.mark.parametrize("tau", THRESHOLDS)
def test_at_temperature_one_fifth_the_step_is_that_of_bridging_the_gap(tau):
    p = np.linspace(0, 1, 1001)
    ours = ew.heaviside(torch.from_numpy(p), tau, 0.2).numpy()
    np.testing.assert_allclose(ours, equation_5(p, tau, 0.2), atol=1e-12)


@pytest.mark.parametrize("delta", HEIGHTS)
@pytest.mark.parametrize("tau", THRESHOLDS)
def test_the_step_of_bridging_the_gap_is_equation_5_for_every_delta(tau, delta):
    p = np.linspace(0, 1, 1001)
    ours = ew.btg_step(torch.from_numpy(p), tau, delta).numpy()
    np.testing.assert_allclose(ours, equation_5(p, tau, delta), atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_at_delta_one_fifth_both_steps_have_the_same_bits(dtype):
    p = torch.rand(1000, 1, dtype=dtype, requires_grad=True)
    tau = torch.cat([torch.rand(200, dtype=dtype), torch.tensor([0.0, 0.5, 1.0], dtype=dtype)])
    values = [step(p, tau, 0.2) for step in (ew.btg_step, ew.heaviside)]
    assert torch.equal(*values)
    slopes = [torch.autograd.grad(value.sum(), p)[0] for value in values]
    assert torch.equal(*slopes)


@given(PROBABILITIES, PROBABILITIES, st.floats(0.0, 0.5))
def test_bridging_the_gap_has_finite_values_and_gradients_everywhere(p, tau, delta):
    for dtype in DTYPES:
        inputs = [torch.tensor(v, dtype=dtype, requires_grad=True) for v in (p, tau, delta)]
        value = ew.btg_step(*inputs)
        assert 0 <= value.item() <= 1
        assert all(torch.isfinite(slope) for slope in torch.autograd.grad(value, inputs))


@given(st.lists(PROBABILITIES, min_size=2, max_size=30), PROBABILITIES, st.floats(0.0, 0.5))
def test_the_step_of_bridging_the_gap_never_falls(points, tau, delta):
    p = torch.tensor(sorted(points), dtype=torch.float64)
    assert ew.btg_step(p, tau, delta).diff().min() >= -1e-12
    assert ew.btg_step(torch.tensor(tau, dtype=torch.float64), tau, delta) == 0.5


@pytest.mark.parametrize("delta", HEIGHTS)
@pytest.mark.parametrize("tau", [0.2, 0.5, 0.7])
def test_gradients_by_probability_threshold_and_delta_are_right(tau, delta):
    # away from the kinks, where there is no derivative
    p = torch.tensor([0.03, 0.31, 0.43, 0.57, 0.97], dtype=torch.float64, requires_grad=True)
    others = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (tau, delta)]
    assert torch.autograd.gradcheck(ew.btg_step, (p, *others))


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.8])
def test_at_delta_zero_the_ends_are_flat_and_at_one_half_the_middle(tau):
    p = torch.linspace(0, 1, 101, dtype=torch.float64)
    reach = min(tau, 1 - tau) / 2
    ramp = (0.5 + (p - tau) / (2 * reach)).clamp(0, 1)
    torch.testing.assert_close(ew.btg_step(p, tau, 0.0), ramp)
    torch.testing.assert_close(ew.btg_step(p, tau, 1e-9), ramp)
    middle = (p - tau).abs() < reach
    assert (ew.btg_step(p, tau, 0.5)[middle] == 0.5).all()


BAD_HEIGHTS = {
    "negative": (-0.1, ValueError, r"must be in \[0, 0\.5\]; got -0\.1\. Above 0\.5"),
    "too high": (0.6, ValueError, r"must be in \[0, 0\.5\]; got 0\.6\. Above 0\.5"),
    "a tensor too high": (
        torch.tensor([0.1, 0.7]),
        ValueError,
        r"must be in \[0, 0\.5\]; got \[0\.1",
    ),
    "no number": ("0.2", TypeError, r"must be a real number; got str '0\.2'"),
    "NaN": (float("nan"), ValueError, r"must be finite; got nan"),
}


@pytest.mark.parametrize(("delta", "error", "message"), BAD_HEIGHTS.values(), ids=BAD_HEIGHTS)
def test_a_delta_that_makes_no_sense_is_refused(delta, error, message):
    assert_error(
        lambda: ew.btg_step(torch.rand(2), 0.5, delta), error, "delta of btg_step " + message
    )


@pytest.mark.parametrize("delta", [0.05, 0.2, 0.3])
@pytest.mark.parametrize("metric", ["f1", "accuracy"])
def test_as_the_step_of_a_loss_the_temperature_is_delta(metric, delta):
    logits, targets = torch.randn(40, dtype=torch.float64, requires_grad=True), torch.arange(40) % 2
    thresholds = [k / 10 for k in range(1, 10)]
    loss = ew.EASTLoss(metric, step=ew.btg_step, temperature=delta, threshold=thresholds)
    value = loss(logits, targets)
    p = torch.sigmoid(logits).detach().numpy()
    scores = []
    for tau in thresholds:
        high = torch.from_numpy(equation_5(p, tau, delta))
        table = ew.soft_confusion(torch.stack([1 - high, high], 1), targets)
        scores.append(ew.metrics.get(metric)(table).item())
    assert value.item() == pytest.approx(1 - np.mean(scores))
    (slope,) = torch.autograd.grad(value, logits)
    assert (slope != 0).all()


@pytest.mark.parametrize("temperature", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("tau", [0.2, 0.5, 0.7])
def test_the_step_passes_through_its_four_corners(tau, temperature):
    half_width = 2.5 * temperature * min(tau, 1 - tau)
    corners = torch.tensor([0.0, tau - half_width, tau + half_width, 1.0], dtype=torch.float64)
    expected = torch.tensor([0.0, temperature, 1 - temperature, 1.0], dtype=torch.float64)
    torch.testing.assert_close(ew.heaviside(corners, tau, temperature), expected)


@given(PROBABILITIES, PROBABILITIES, TEMPERATURES)
def test_value_and_gradients_are_finite_everywhere(p, tau, temperature):
    for dtype in DTYPES:
        # A tensor's temperature below the dtype's smallest number is zero and rightly refused.
        heat_value = max(temperature, torch.finfo(dtype).tiny)
        inputs = [torch.tensor(v, dtype=dtype, requires_grad=True) for v in (p, tau, heat_value)]
        value = ew.heaviside(*inputs)
        assert 0 <= value.item() <= 1
        for gradient in torch.autograd.grad(value, inputs):
            assert torch.isfinite(gradient)


@given(st.lists(PROBABILITIES, min_size=2, max_size=30), PROBABILITIES, TEMPERATURES)
def test_the_step_never_falls(points, tau, temperature):
    p = torch.tensor(sorted(points), dtype=torch.float64)
    rises = ew.heaviside(p, tau, temperature).diff()
    assert rises.min() >= -1e-12


@pytest.mark.parametrize("temperature", [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.2, 0.4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_cold_step_stays_in_the_unit_interval_and_rises_near_its_threshold(dtype, temperature):
    # Where the middle piece is a few units in the last place wide, rounding must not leave [0, 1].
    tau = torch.rand(100, 1, dtype=dtype)
    reach = 2.5 * temperature * torch.minimum(tau, 1 - tau)
    p = (tau + reach * (2.4 * torch.rand(100, 200, dtype=dtype) - 1.2)).clamp(0, 1)
    values = ew.heaviside(p.sort(dim=1).values, tau, temperature)
    assert values.min() >= 0
    assert values.max() <= 1
    assert values.diff(dim=1).min() >= -1e-6


@given(PROBABILITIES, TEMPERATURES)
def test_the_step_is_one_half_at_its_threshold(tau, temperature):
    value = ew.heaviside(torch.tensor(tau, dtype=torch.float64), tau, temperature)
    assert value.item() == 0.5


@pytest.mark.parametrize("temperature", [0.005, 0.05, 0.2, 0.35])
@pytest.mark.parametrize("tau", [0.1, 0.4, 0.5, 0.9])
def test_the_largest_slope_is_the_lipschitz_constant(tau, temperature):
    # Theorem 4.1 of Bridging the Gap: no secant is steeper than max(m1, m2, m3), and one is that steep.
    p = torch.linspace(0, 1, 20001, dtype=torch.float64)
    value = ew.heaviside(p, tau, temperature)
    steepest = (value.diff() / p.diff()).max().item()
    constant = max(float(slope) for slope in step_slopes(tau, temperature))
    assert steepest == pytest.approx(constant, rel=1e-6)
    first, second = p[torch.randint(len(p), (2, 5000))]
    rise = (ew.heaviside(first, tau, temperature) - ew.heaviside(second, tau, temperature)).abs()
    assert (rise <= constant * (first - second).abs() + 1e-12).all()


@pytest.mark.parametrize("corner", [-1, 0, 1])
def test_the_gradient_on_a_kink_is_the_slope_of_an_adjacent_piece(corner):
    tau, temperature = 0.5, 0.2
    p = torch.tensor(tau + corner * 0.25, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(ew.heaviside(p, tau, temperature), p)
    assert slope.item() == pytest.approx(float(step_slopes(tau, temperature)[1]))


@pytest.mark.parametrize("name", sorted(STEPS))
def test_a_cold_step_is_hard(name):
    p = torch.tensor([0.0, 0.2, 0.4, 0.6, 1.0], dtype=torch.float64)
    tau, cold = p.new_tensor(0.5), p.new_tensor(1e-4)
    expected = ew.hard_step(p, 0.5)
    torch.testing.assert_close(resolve_step(name)(p, tau, cold), expected, atol=1e-3, rtol=0)


def test_the_sigmoid_step_is_the_logistic_function_of_the_distance():
    p = np.linspace(0, 1, 11)
    ours = ew.sigmoid_step(torch.from_numpy(p), 0.3, k=7.0).numpy()
    np.testing.assert_allclose(ours, 1 / (1 + np.exp(-7.0 * (p - 0.3))), atol=1e-14)


def test_the_sigmoid_of_name_has_steepness_ten_at_temperature_one_fifth():
    p, tau = torch.rand(9), torch.tensor(0.4)
    named = resolve_step("sigmoid")(p, tau, torch.tensor(0.2))
    torch.testing.assert_close(named, ew.sigmoid_step(p, 0.4, k=10.0))


def test_the_hard_step_counts_its_threshold_as_above():
    assert ew.hard_step(torch.tensor([0.499, 0.5, 0.501]), 0.5).tolist() == [0.0, 1.0, 1.0]


def test_inputs_broadcast():
    value = ew.heaviside(torch.rand(5, 1), torch.rand(3), torch.tensor(0.1))
    assert value.shape == (5, 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single_precision(dtype):
    assert ew.heaviside(torch.rand(3).to(dtype), 0.5, 0.2).dtype == torch.float32


@pytest.mark.parametrize("name", STEPS)
def test_a_step_and_its_complement_sum_to_one(name):
    p = torch.linspace(0, 1, 101, dtype=torch.float64)
    tau, heat = (torch.tensor(value, dtype=torch.float64) for value in (0.3, 0.1))
    step, rest = step_and_complement(STEPS[name], p, 1 - p, tau, heat)
    torch.testing.assert_close(step + rest, torch.ones_like(p))
