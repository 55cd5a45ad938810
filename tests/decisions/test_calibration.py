"""Calibration: finds the map that was applied, never hurts much, and survives JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from made_up import assert_sentence, made_up
from scipy.special import softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss

from eastward.decisions import Calibration, fit_calibration
from eastward.decisions.calibration import KINDS, _simplest


def distorted(probabilities, scales, shifts):
    """What a model says that exaggerates by these scales and shifts of log-probabilities."""
    return (torch.as_tensor(scales) * probabilities.log() + torch.as_tensor(shifts)).softmax(1)


def loss(probabilities, targets) -> float:
    return log_loss(targets, probabilities, labels=range(probabilities.shape[1]))


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("factor", [0.4, 2.5])
def test_a_temperature_is_found_again(num_classes, factor):
    true, targets = made_up(4000, num_classes)
    found = fit_calibration(distorted(true, factor, 0.0), targets)
    assert found.kind == "temperature"
    assert found.scales == pytest.approx(1 / factor, rel=0.1)
    assert found.log_loss < found.log_loss_before


def test_scales_and_shifts_are_found_again():
    true, targets = made_up(6000, 3)
    found = fit_calibration(distorted(true, 1.5, [1.0, -1.0, 0.0]), targets)
    assert found.kind == "vector"
    new, truth = made_up(20_000, 3, seed=1)
    mended = found.apply(distorted(new, 1.5, [1.0, -1.0, 0.0]))
    assert loss(mended, truth) == pytest.approx(loss(new, truth), abs=0.003)


@pytest.mark.parametrize("num_classes", [2, 3, 6])
@pytest.mark.parametrize("num_rows", [60, 2000])
def test_calibrated_probabilities_are_left_alone(num_classes, num_rows):
    true, targets = made_up(num_rows, num_classes)
    found = fit_calibration(true, targets)
    new, truth = made_up(20_000, num_classes, seed=1)
    assert loss(found.apply(new), truth) <= loss(new, truth) + (0.005 if num_rows > 60 else 0.03)


@pytest.mark.parametrize(
    ("gain", "expected"), [(0.9, "none"), (1.4, "none"), (1.6, "temperature"), (3.0, "temperature")]
)
def test_a_map_has_to_gain_more_than_one_and_a_half_standard_errors(gain, expected):
    # The map lowers the loss of a row by ``gain`` ± 10, and 100 rows have a standard error of one tenth of that.
    noise = 10.0 * torch.tensor([1.0, -1.0]).repeat(50)
    losses = torch.stack([gain + noise, torch.zeros(100)]).double()
    place = _simplest(losses, torch.full((100,), 0.01, dtype=torch.float64))
    assert KINDS[place] == expected


def test_an_isotonic_curve_is_chosen_where_scaling_does_not_help():
    true, targets = made_up(8000, 2, prior=[0.5, 0.5])
    bent = torch.where(true[:, 1] < 0.5, 0.3 * true[:, 1], 0.9 + 0.1 * (true[:, 1] - 0.5))
    found = fit_calibration(torch.stack([1 - bent, bent], 1), targets)
    assert found.kind == "isotonic"


def test_the_isotonic_curve_is_scikit_learns():
    true, targets = made_up(1500, 2)
    found = fit_calibration(true, targets, "isotonic").apply(true)[:, 1]
    oracle = IsotonicRegression(out_of_bounds="clip").fit(true[:, 1], targets).predict(true[:, 1])
    np.testing.assert_allclose(found, np.clip(oracle, 1 / 1502, 1 - 1 / 1502), atol=1e-12)


@pytest.mark.parametrize("kind", ["none", "temperature", "vector", "isotonic"])
def test_every_kind_gives_probabilities_and_survives_json(kind):
    true, targets = made_up(500, 2)
    found = fit_calibration(true, targets, kind)
    again = Calibration.from_dict(json.loads(json.dumps(found.to_dict())))
    mended = found.apply(true)
    assert isinstance(mended, torch.Tensor)
    assert isinstance(found.apply(true.numpy()), np.ndarray)
    torch.testing.assert_close(mended.sum(1), torch.ones(500, dtype=torch.float64))
    torch.testing.assert_close(again.apply(true), mended)
    if kind in ("none", "temperature"):
        assert torch.equal(mended.argmax(1), true.argmax(1))


def test_weights_count_rows():
    true, targets = made_up(400, 3)
    weight = torch.arange(400) % 3
    repeated = torch.arange(400).repeat_interleave(weight)
    by_weight = fit_calibration(true, targets, "temperature", sample_weight=weight)
    by_rows = fit_calibration(true[repeated], targets[repeated], "temperature")
    assert by_weight.scales == pytest.approx(by_rows.scales, rel=0.02)


def test_probabilities_of_zero_and_one_are_survived():
    hard = torch.nn.functional.one_hot(torch.arange(60) % 3, 3).double()
    targets = (torch.arange(60) % 3).roll(1)
    assert torch.isfinite(fit_calibration(hard, targets).apply(hard)).all()


BAD = {
    "for more than two classes": lambda p, y: fit_calibration(p, y, "isotonic"),
    "one of 'auto'": lambda p, y: fit_calibration(p, y, "platt"),
    "rows that sum to one": lambda p, y: fit_calibration(2 * p / 3, y),
    r"shape \(N, 3\)": lambda p, y: fit_calibration(p, y, "vector").apply(p[:, :2]),
    "one of 'none'": lambda p, y: Calibration.from_dict({"kind": "platt"}),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_gets_one_clear_sentence(message):
    true, targets = made_up(60, 3)
    assert_sentence(lambda: BAD[message](true, targets), ValueError, message)


def test_rows_that_lack_a_class_calibrate_nothing():
    rng = np.random.default_rng(0)
    table = rng.dirichlet([2, 2, 2], 200)
    targets = np.array([int(rng.random() < row[1] / (row[0] + row[1])) for row in table])
    assert fit_calibration(table, targets).kind == "none"


@pytest.mark.parametrize("kind", ["temperature", "vector"])
@pytest.mark.parametrize("sharpness", [0.5, 3.0])
def test_a_mean_of_models_is_sharpened_but_never_flattened(kind, sharpness):
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(3000, 3))
    truth = np.array([generator.choice(3, p=row) for row in softmax(logits, axis=1)])
    given = softmax(sharpness * logits, axis=1)
    one, mean = (fit_calibration(given, truth, kind, averaged=many) for many in (False, True))
    assert np.exp(np.log(one.scales).mean()) == pytest.approx(1 / sharpness, rel=0.1)
    if sharpness < 1:
        np.testing.assert_array_equal(mean.scales, one.scales)
    else:
        assert np.log(mean.scales).mean() == pytest.approx(0, abs=1e-12)
        # Classes keep their differences.
        ratio = mean.scales / one.scales
        np.testing.assert_allclose(ratio, ratio[0])
    np.testing.assert_array_equal(mean.shifts, one.shifts)


def test_an_isotonic_curve_follows_other_frequencies_by_the_rule_of_bayes():
    curve = Calibration("isotonic", np.array([0.0, 0.5, 1.0]), np.array([0.1, 0.5, 0.8]))
    moved = curve.with_prior([0.5, 0.5], [0.8, 0.2])
    odds = curve.shifts / (1 - curve.shifts) * 0.2 / 0.8
    np.testing.assert_allclose(moved.shifts, odds / (1 + odds), rtol=1e-12)
