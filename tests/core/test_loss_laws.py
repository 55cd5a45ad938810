"""Laws of the metric as a loss: one table of metrics, one list of laws."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from metric_table import METRICS, build, sizes_for
from torch.nn.functional import one_hot

import eastward as ew

NAMES = sorted(METRICS)
TEMPERATURES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)


def batch(size: int, rows: int = 40, seed: int = 0, dtype=torch.float64):
    """Logits that are right more often than not, with every class among the targets."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(rows) % size
    logits = torch.randn(rows, size, generator=generator, dtype=dtype)
    return logits + 1.5 * one_hot(targets, size), targets


def loss_of(name: str, size: int, logits, targets, **options) -> torch.Tensor:
    return ew.metric_loss(logits, targets, build(name, size), **options)


def metric_loss_of_logits(logits, *, targets, metric) -> torch.Tensor:
    return ew.metric_loss(logits, targets, metric)


def hard_score(name: str, size: int, logits, targets) -> float:
    """The metric of the arg max, by the references that know nothing of eastward."""
    ones = torch.ones(len(targets)).numpy()
    return METRICS[name].reference(targets.numpy(), logits.argmax(1).numpy(), ones, size)


def hard_value(name: str, size: int, logits, targets) -> float:
    """What the loss should be at hard memberships."""
    score = hard_score(name, size, logits, targets)
    return 1 - score if build(name, size).higher_is_better else score


@functools.cache
def network_outputs(size: int, seed: int):
    """Logits of a random network at random points, and labels that depend on the points."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(5, 32),
        torch.nn.Tanh(),
        torch.nn.Linear(32, size),
        torch.nn.BatchNorm1d(size, affine=False),
    ).double()
    with torch.no_grad():
        logits = 2 * network(torch.randn(1000, 5, dtype=torch.float64))
    targets = (logits + 2 * torch.randn_like(logits)).argmax(1)
    targets[:size] = torch.arange(size)
    return logits, targets


@functools.cache
def network_confusion(size: int, seed: int, temperature: float) -> torch.Tensor:
    logits, targets = network_outputs(size, seed)
    memberships = ew.soft_memberships(torch.softmax(logits, 1), temperature)
    return ew.soft_confusion(memberships, targets)


@pytest.mark.parametrize("name", NAMES)
def test_towards_zero_temperature_the_soft_metric_becomes_the_score(name):
    # Theorem 5.3: the largest deviation over random networks falls at every cooling. (For memberships that is
    # exact, see test_memberships; in a metric errors of both signs cancel, so it takes many samples to see it.)
    for size in sizes_for(name, 2, 5):
        metric, seeds = build(name, size), range(20)
        truths = [hard_score(name, size, *network_outputs(size, seed)) for seed in seeds]
        largest = [
            max(
                abs(metric(network_confusion(size, seed, temperature)).item() - truth)
                for seed, truth in zip(seeds, truths, strict=True)
            )
            for temperature in TEMPERATURES
        ]
        assert all(later < earlier for earlier, later in itertools.pairwise(largest)), largest
        assert largest[-1] < 0.01


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_one_minus_the_soft_metric_at_every_temperature(name):
    (size,) = sizes_for(name, 5)
    logits, targets = network_outputs(size, 0)
    metric = build(name, size)
    for temperature in TEMPERATURES:
        value = metric(network_confusion(size, 0, temperature))
        expected = 1 - value if metric.higher_is_better else value
        loss = loss_of(name, size, logits, targets, temperature=temperature)
        torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("name", NAMES)
def test_with_the_hard_step_the_loss_is_one_minus_the_score(name):
    for size in sizes_for(name, 2, 6):
        logits, targets = batch(size)
        ours = loss_of(name, size, logits, targets, step="hard").item()
        assert ours == pytest.approx(hard_value(name, size, logits, targets), abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_that_of_finite_differences(name):
    for size in sizes_for(name, 2, 4):
        logits, targets = batch(size, rows=8)
        loss = functools.partial(metric_loss_of_logits, targets=targets, metric=build(name, size))
        assert torch.autograd.gradcheck(loss, (logits.requires_grad_(),))


@pytest.mark.parametrize("name", ["f1_macro", "matthews_corrcoef", "accuracy"])
def test_the_second_derivative_is_that_of_finite_differences(name):
    logits, targets = batch(3, rows=6)
    logits.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda z: loss_of(name, 3, z, targets), (logits,))


@pytest.mark.parametrize(
    "options", [{"threshold": 0.4}, {"threshold": (0.3, 0.6)}, {"step": "sigmoid"}]
)
def test_the_gradient_holds_for_every_kind_of_membership(options):
    logits, targets = batch(3, rows=8)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda z: ew.metric_loss(z, targets, "f1_macro", **options), (logits,)
    )


@pytest.mark.parametrize("name", NAMES)
def test_gradients_on_the_kinks_are_finite(name):
    (size,) = sizes_for(name, 3)
    # Uniform and tied rows; and rows whose second class lies exactly at the lower end of the middle piece.
    rows = torch.zeros(4, size)
    rows[1, 0] = rows[1, 1] = 2.0
    rows[2, 0], rows[2, 1] = torch.tensor([0.75, 0.25]).log()
    rows[3, 0] = 200.0
    for temperature in (1e-6, 0.2, 0.4):
        logits = rows.clone().requires_grad_()
        loss = loss_of(name, size, logits, torch.arange(4) % size, temperature=temperature)
        (gradient,) = torch.autograd.grad(loss, logits)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_samples_does_not_matter(name):
    for size in sizes_for(name, 2, 5):
        logits, targets = batch(size)
        order = torch.randperm(len(targets))
        torch.testing.assert_close(
            loss_of(name, size, logits[order], targets[order]),
            loss_of(name, size, logits, targets),
        )


@pytest.mark.parametrize("name", [n for n in NAMES if not METRICS[n].class_order_matters])
def test_the_names_of_classes_do_not_matter(name):
    size = 5
    logits, targets = batch(size)
    order = torch.randperm(size)
    torch.testing.assert_close(
        loss_of(name, size, logits[:, order], order.argsort()[targets]),
        loss_of(name, size, logits, targets),
    )


@pytest.mark.parametrize("name", NAMES)
def test_weight_two_equals_repetition_in_value_and_gradient(name):
    for size in sizes_for(name, 2, 4):
        logits, targets = batch(size)
        weights = torch.ones(len(targets), dtype=torch.float64)
        weights[:9] = 2
        logits.requires_grad_()
        weighted = loss_of(name, size, logits, targets, sample_weight=weights)
        repeated = loss_of(
            name, size, torch.cat([logits, logits[:9]]), torch.cat([targets, targets[:9]])
        )
        torch.testing.assert_close(weighted, repeated)
        torch.testing.assert_close(
            torch.autograd.grad(weighted, logits), torch.autograd.grad(repeated, logits)
        )


@pytest.mark.parametrize("name", NAMES)
def test_weight_zero_equals_absence(name):
    (size,) = sizes_for(name, 4)
    logits, targets = batch(size)
    weights = torch.ones(len(targets), dtype=torch.float64)
    weights[-11:] = 0
    torch.testing.assert_close(
        loss_of(name, size, logits, targets, sample_weight=weights),
        loss_of(name, size, logits[:-11], targets[:-11]),
    )


@pytest.mark.parametrize("name", NAMES)
def test_scaling_all_weights_changes_nothing(name):
    (size,) = sizes_for(name, 4)
    logits, targets = batch(size)
    plain = loss_of(name, size, logits, targets)
    for factor in (1e-6, 1e6):
        weights = torch.full((len(targets),), factor, dtype=torch.float64)
        torch.testing.assert_close(
            loss_of(name, size, logits, targets, sample_weight=weights), plain
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_confident_right_prediction_costs_nothing(name):
    for size in sizes_for(name, 2, 5):
        targets = torch.arange(20) % size
        logits = 100.0 * one_hot(targets, size).double()
        best = 1 - METRICS[name].best if build(name, size).higher_is_better else METRICS[name].best
        assert loss_of(name, size, logits, targets).item() == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_stays_in_the_range_of_its_metric(name):
    case = METRICS[name]
    for size in sizes_for(name, 2, 4):
        for seed in range(20):
            logits, targets = batch(size, seed=seed, dtype=torch.float32)
            loss = loss_of(name, size, 5 * logits.roll(seed % 3, 1), targets).item()
            low, high = (1 - case.high, 1 - case.low) if case.best == 1 else (case.low, case.high)
            assert low - 1e-5 <= loss <= high + 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_following_the_gradient_improves_the_metric(name):
    (size,) = sizes_for(name, 3)
    logits, targets = batch(size)
    logits = (logits - 1.5 * one_hot(targets, size)).requires_grad_()
    before = hard_value(name, size, logits.detach(), targets)
    optimiser = torch.optim.Adam([logits], lr=0.3)
    for _ in range(30):
        optimiser.zero_grad()
        loss_of(name, size, logits, targets).backward()
        optimiser.step()
    assert hard_value(name, size, logits.detach(), targets) < before


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_concatenated_batches_add_up(name):
    (size,) = sizes_for(name, 4)
    logits, targets = batch(size)
    loss = ew.EASTLoss(build(name, size))
    parts = [loss.tables(logits[cut], targets[cut]) for cut in (slice(0, 13), slice(13, None))]
    torch.testing.assert_close(sum(parts), loss.tables(logits, targets))
    torch.testing.assert_close(loss.loss_at(sum(parts)), loss(logits, targets))


@pytest.mark.parametrize("name", NAMES)
def test_the_module_is_its_function(name):
    (size,) = sizes_for(name, 4)
    logits, targets = batch(size)
    weights = torch.rand(len(targets), dtype=torch.float64)
    options = {"temperature": 0.07, "absent": "observed", "threshold": (0.3, 0.5)}
    module = ew.EASTLoss(build(name, size), **options)
    function = loss_of(name, size, logits, targets, sample_weight=weights, **options)
    torch.testing.assert_close(module(logits, targets, weights), function, atol=1e-7, rtol=1e-6)
