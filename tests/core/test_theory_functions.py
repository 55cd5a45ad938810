"""What `eastward.theory` says, against sampled slopes, simulated batches and SciPy's binomial."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from error_sentence import assert_error
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import eastward as ew
from eastward import theory
from eastward.steps import step_slopes

TEMPERATURES = (0.001, 0.01, 0.05, 0.1, 0.2, 2 / 9, 0.3, 0.39)
CLASSES = (2, 3, 4, 10, 30)


# --- rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
@pytest.mark.parametrize("classes", [2, 10, 1000])
@pytest.mark.parametrize("rows", [1, 7, 1000, 10**9])
def test_the_error_of_a_matrix_is_the_formula_of_the_theorem(rows, classes, delta):
    expected = np.sqrt(np.log(2 * classes**2 / delta) / (2 * rows))
    assert theory.confusion_error(rows, classes, delta) == pytest.approx(expected)


@given(st.floats(1e-4, 0.99), st.integers(2, 1000), st.floats(1e-9, 0.99))
def test_rows_for_an_error_are_the_fewest_that_reach_it(error, classes, delta):
    rows = theory.rows_for_error(error, classes, delta)
    slightly = 1 + 1e-12
    assert theory.confusion_error(rows, classes, delta) <= error * slightly
    assert rows == 1 or theory.confusion_error(rows - 1, classes, delta) > error / slightly


@pytest.mark.parametrize("share", [1e-6, 0.001, 0.02, 0.5, 0.97])
@pytest.mark.parametrize("size", [1, 16, 1000, 10**6])
@pytest.mark.parametrize("chance", [0.5, 0.95, 0.999])
def test_rows_of_a_class_are_binomial(size, share, chance):
    rows = theory.rows_of_class(size, share, chance)
    assert rows.expected == pytest.approx(size * share)
    assert rows.missing == pytest.approx(binom.pmf(0, size, share), rel=1e-9)
    # sf(k - 1) is the chance of k or more
    assert binom.sf(rows.at_least - 1, size, share) >= chance
    assert binom.sf(rows.at_least, size, share) < chance


@pytest.mark.parametrize("share", [1e-6, 0.001, 0.02, 0.5, 0.97])
@pytest.mark.parametrize("rows", [1, 5, 200])
@pytest.mark.parametrize("chance", [0.05, 0.95, 0.999])
def test_the_batch_for_a_class_is_the_smallest_that_holds_its_rows(share, rows, chance):
    size = theory.batch_for_class(share, rows, chance)
    assert binom.sf(rows - 1, size, share) >= chance
    assert binom.sf(rows - 1, size - 1, share) < chance


def test_random_batches_hold_the_rows_that_are_promised(rng):
    share = 0.02
    size = theory.batch_for_class(share)
    held = (rng.random((4000, size)) < share).sum(1)
    assert (held >= theory.ENOUGH_ROWS).mean() == pytest.approx(0.95, abs=0.015)
    missing = (rng.random((4000, 32)) < share).sum(1) == 0
    assert missing.mean() == pytest.approx(theory.rows_of_class(32, share).missing, abs=0.03)


# --- the steps -------------------------------------------------------------------------------------

STEPS = {
    "heaviside": (ew.heaviside, theory.heaviside_lipschitz, (0.005, 0.05, 0.2, 2 / 9, 0.39)),
    "btg_step": (ew.btg_step, theory.btg_lipschitz, (0.0, 0.01, 0.2, 0.35, 0.5)),
    "sigmoid_step": (ew.sigmoid_step, lambda tau, k: theory.sigmoid_lipschitz(k), (0.5, 10.0, 300)),
}
STEP_TABLE = [
    pytest.param(step, constant, sharpness, id=f"{name}-{sharpness:.3g}")
    for name, (step, constant, values) in STEPS.items()
    for sharpness in values
]


@pytest.mark.parametrize("tau", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(("step", "constant", "sharpness"), STEP_TABLE)
def test_the_constant_of_a_step_is_its_steepest_slope(step, constant, sharpness, tau):
    p = torch.cat([torch.linspace(0, 1, 5001), tau + torch.linspace(-1e-3, 1e-3, 101)])
    p = p.double().clamp(0, 1).requires_grad_()
    (slopes,) = torch.autograd.grad(step(p, tau, sharpness).sum(), p)
    assert slopes.max().item() == pytest.approx(constant(tau, sharpness), rel=1e-4)


@pytest.mark.parametrize(("step", "constant", "sharpness"), STEP_TABLE)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 0.99))
def test_no_secant_of_a_step_is_steeper_than_its_constant(step, constant, sharpness, p, q, tau):
    values = step(torch.tensor([p, q], dtype=torch.float64), tau, sharpness)
    rise = (values[1] - values[0]).abs().item()
    assert rise <= constant(tau, sharpness) * abs(p - q) + 1e-12


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("tau", [0.02, 0.3, 0.5, 0.9])
def test_the_constant_of_the_step_is_its_largest_slope(tau, temperature):
    slopes = [slope.item() for slope in step_slopes(tau, temperature)]
    assert theory.heaviside_lipschitz(tau, temperature) == pytest.approx(max(slopes))


def test_bridging_the_gap_is_gentlest_where_its_slopes_meet():
    # the outer slope delta / (tau / 2) is the middle one, (1 - 2 delta) / tau, at delta = 1/4
    assert theory.btg_lipschitz(0.4, 0.25) == pytest.approx(1 / 0.8)
    assert theory.btg_lipschitz(0.4, 0.24) > theory.btg_lipschitz(0.4, 0.25)
    assert theory.btg_lipschitz(0.4, 0.26) > theory.btg_lipschitz(0.4, 0.25)


# --- memberships -----------------------------------------------------------------------------------


def steep_points(classes: int, temperature: float) -> torch.Tensor:
    """Probabilities where a membership is steep: two lead, some lie at the edge of the step's middle, some below it.

    In units of the threshold the leaders are at 1 + e and 1 - e, the edge is at 1 - 5T/2.
    """
    width = 2.5 * temperature
    edge = 1 - width
    rows = [
        [1 + e, 1 - e] + [min(above, 1 - e)] * many + [min(below, 1 - e)] * (classes - 2 - many)
        for e in (1e-6, width / 2, width * (1 - 1e-6), width * (1 + 1e-6), (1 + width) / 2)
        for many in sorted({0, *np.linspace(0, classes - 2, 8).astype(int).tolist()})
        for above in (edge + 1e-7, (1 + edge) / 2, 1.0)
        for below in (0.0, edge / 2, edge - 1e-7)
    ]
    ratios = torch.tensor(rows, dtype=torch.float64)
    # no exact ties: there the derivative is a mean of those beside it
    ratios = ratios * (1 + 1e-9 * torch.rand(ratios.shape, dtype=torch.float64))
    points = ratios / ratios.sum(1, keepdim=True)
    # rounding may leave the simplex, where two probabilities never have more than all mass
    return points[points.topk(2).values.sum(1) <= 1]


def steepest_slopes(points: torch.Tensor, temperature: float) -> torch.Tensor:
    """The largest change of memberships when mass moves from one class to another, in the norm of the theorem."""
    points = points.clone().requires_grad_()
    memberships = ew.soft_memberships(points, temperature)
    rows = [torch.autograd.grad(g.sum(), points, retain_graph=True)[0] for g in memberships.T]
    jacobian = torch.stack(rows, dim=1)
    moves = [(jacobian[:, :, [i]] - jacobian).abs().sum(1).amax(1) / 2 for i in range(len(rows))]
    return torch.stack(moves).amax(0)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("classes", CLASSES)
def test_memberships_are_never_steeper_than_their_constant_and_nearly_as_steep(
    classes, temperature
):
    constant = theory.membership_lipschitz(classes, temperature)
    dirichlet = torch.distributions.Dirichlet(torch.ones(classes, dtype=torch.float64))
    slopes = [
        steepest_slopes(points, temperature).max().item()
        for points in (steep_points(classes, temperature), dirichlet.sample((200,)))
    ]
    assert max(slopes) <= constant * (1 + 1e-9)
    assert constant <= max(slopes) * (1 + 1e-9 if classes == 2 else 3)


SIMPLEX = st.lists(st.floats(0, 1), min_size=2, max_size=12).filter(lambda row: sum(row) > 0.1)


@given(SIMPLEX, st.data(), st.floats(1e-4, 0.3999))
def test_no_secant_of_memberships_is_steeper_than_their_constant(row, data, temperature):
    other = data.draw(st.lists(st.floats(0, 1), min_size=len(row), max_size=len(row)))
    near = data.draw(st.sampled_from([1.0, 1e-2, 1e-5]))
    first = torch.tensor(row, dtype=torch.float64)
    first = first / first.sum()
    second = (1 - near) * first + near * torch.softmax(
        torch.tensor(other, dtype=torch.float64) * 20, 0
    )
    memberships = ew.soft_memberships(torch.stack([first, second]), temperature)
    moved = (memberships[0] - memberships[1]).abs().sum().item()
    constant = theory.membership_lipschitz(len(row), temperature)
    # what rounding of probabilities and of sums adds
    assert moved <= constant * ((first - second).abs().sum().item() + 1e-14) + 1e-12


@pytest.mark.parametrize("temperature", [0.01, 0.1, 0.3])
def test_no_entry_of_the_matrix_moves_by_more_than_half_the_constant(temperature):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 300, 5, generator=generator, dtype=torch.float64)
    before = logits[0].softmax(1)
    after = (logits[0] + 0.1 * logits[1]).softmax(1)
    targets = torch.arange(300) % 5
    tables = [
        ew.soft_confusion(ew.soft_memberships(p, temperature), targets) for p in (before, after)
    ]
    allowed = theory.membership_lipschitz(5, temperature) / 2 * (before - after).abs().sum()
    assert (tables[0] - tables[1]).abs().max() <= allowed


def test_the_constants_grow_with_classes_and_where_the_step_jumps_there_is_none():
    by_classes = [theory.membership_lipschitz(d, 0.1) for d in (2, 3, 5, 10, 100, 1000)]
    assert by_classes == sorted(by_classes)
    assert theory.membership_lipschitz(2) == theory.heaviside_lipschitz(0.5)
    assert theory.membership_lipschitz(3, 0.4) == theory.heaviside_lipschitz(0.3, 0.4) == math.inf


ERRORS = {
    "no rows": (
        lambda: theory.confusion_error(0, 3),
        ValueError,
        "rows of confusion_error must be >= 1; got 0",
    ),
    "one class": (
        lambda: theory.confusion_error(10, 1),
        ValueError,
        "num_classes of confusion_error must be >= 2; got 1",
    ),
    "a certain bound": (
        lambda: theory.rows_for_error(0.1, 3, delta=0),
        ValueError,
        "delta of rows_for_error must be strictly between 0 and 1; got 0",
    ),
    "no error": (
        lambda: theory.rows_for_error(0.0, 3),
        ValueError,
        "error of rows_for_error must be strictly between 0 and 1; got 0",
    ),
    "half a row": (
        lambda: theory.rows_of_class(0.5, 0.1),
        TypeError,
        "batch_size of rows_of_class must be an integer; got float 0.5",
    ),
    "a class without rows": (
        lambda: theory.batch_for_class(0),
        ValueError,
        "share of batch_for_class must be strictly between 0 and 1; got 0",
    ),
    "certain rows": (
        lambda: theory.batch_for_class(0.1, chance=1),
        ValueError,
        "chance of batch_for_class must be strictly between 0 and 1; got 1",
    ),
    "a hot step": (
        lambda: theory.heaviside_lipschitz(0.5, 0.5),
        ValueError,
        r"temperature of heaviside_lipschitz must be in \(0, 0.4\]; got 0.5",
    ),
    "a threshold at the end": (
        lambda: theory.btg_lipschitz(1.0),
        ValueError,
        "tau of btg_lipschitz must be strictly between 0 and 1; got 1.0",
    ),
    "a high delta": (
        lambda: theory.btg_lipschitz(0.5, 0.7),
        ValueError,
        r"delta of btg_lipschitz must be in \[0, 0.5\]; got 0.7",
    ),
    "a flat sigmoid": (
        lambda: theory.sigmoid_lipschitz(0.0),
        ValueError,
        "k of sigmoid_lipschitz must be > 0; got 0.0",
    ),
    "hot memberships": (
        lambda: theory.membership_lipschitz(3, 0.41),
        ValueError,
        r"temperature of membership_lipschitz must be in \(0, 0.4\]; got 0.41",
    ),
}


@pytest.mark.parametrize(("provoke", "error", "message"), ERRORS.values(), ids=ERRORS)
def test_arguments_that_make_no_sense_are_refused(provoke, error, message):
    assert_error(provoke, error, message)
