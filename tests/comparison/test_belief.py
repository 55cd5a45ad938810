"""What the verdict believes: calibrated in simulation, of less regret than other rules, and made from the cells."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.quality import prior as fitting
from benchmarks.quality import verdicts
from eastward import compare, metrics
from eastward.comparison.belief import Expected, Noise, Prior, believed_gain, shipped_prior
from eastward.comparison.statistics import corrected_mean

MARGIN, SPLITS = 0.005, 5
NOISE = Noise(0.02**2, 6.0)
METHODS = {"a": Expected(0.01, 0.015), "b": Expected(-0.01, 0.02), "c": Expected(0.0, 0.01)}


def simulated(rng, cases, *, ratio=0.0):
    """True gains of three methods on made-up tables, and their gains on splits that share rows."""
    for _ in range(cases):
        spread = np.sqrt(NOISE.variance * NOISE.degrees / rng.chisquare(NOISE.degrees))
        truth = {
            name: known.location + known.scale * rng.standard_t(3)
            for name, known in METHODS.items()
        }
        yield (
            truth,
            {
                # The shared rows shift all splits together: the second term of Nadeau and Bengio's variance.
                name: gain + spread * (rng.normal(size=SPLITS) + np.sqrt(ratio) * rng.normal())
                for name, gain in truth.items()
            },
        )


def test_without_a_prior_a_belief_is_the_corrected_t_distribution():
    gains = np.array([0.02, 0.03, 0.01, 0.02, 0.06])
    belief, known = believed_gain(gains, 0.25, MARGIN), corrected_mean(gains, 0.25)
    assert [belief.expected, belief.low, belief.high, belief.better] == pytest.approx(list(known))


def test_mean_and_probabilities_of_a_belief_agree_with_brute_force():
    gains, known = np.array([0.03, -0.01, 0.04]), Expected(0.01, 0.02)
    belief = believed_gain(gains, 0.25, MARGIN, expected=known, noise=NOISE)
    rng = np.random.default_rng(0)
    drawn = known.location + known.scale * rng.standard_t(3, 400_000)
    degrees = NOISE.degrees + 2
    spread = NOISE.degrees * NOISE.variance + ((gains - gains.mean()) ** 2).sum()
    error = np.sqrt(spread / degrees * (1 / 3 + 0.25))
    weight = (1 + ((drawn - gains.mean()) / error) ** 2 / degrees) ** (-(degrees + 1) / 2)
    weight /= weight.sum()
    assert belief.expected == pytest.approx(weight @ drawn, abs=3e-4)
    assert belief.better == pytest.approx(weight @ (drawn > 0), abs=5e-3)
    assert belief.equal == pytest.approx(weight @ (np.abs(drawn) <= MARGIN), abs=5e-3)


@pytest.mark.parametrize("ratio", [0.0, 0.25])
def test_its_probabilities_are_calibrated_in_simulation(ratio):
    told, was, equal, near, inside = [], [], [], [], []
    for truth, seen in simulated(np.random.default_rng(1), 500, ratio=ratio):
        for name, gains in seen.items():
            belief = believed_gain(gains, ratio, MARGIN, expected=METHODS[name], noise=NOISE)
            told.append(belief.better)
            was.append(truth[name] > 0)
            equal.append(belief.equal)
            near.append(abs(truth[name]) <= MARGIN)
            inside.append(belief.low <= truth[name] <= belief.high)
    told, was = np.array(told), np.array(was)
    bins = np.digitize(told, [0.2, 0.4, 0.6, 0.8])
    for k in range(5):
        error = 4 * np.sqrt(0.25 / max(1, (bins == k).sum()))
        assert told[bins == k].mean() == pytest.approx(was[bins == k].mean(), abs=error)
    assert np.mean(equal) == pytest.approx(np.mean(near), abs=0.04)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.025)


@pytest.mark.slow
def test_choices_by_belief_cost_less_than_those_of_other_rules():
    prior = Prior(verdicts.REFERENCE, {"f1": METHODS}, Expected(0.0, 0.02), NOISE, 33)
    found = [
        verdicts.Trial("f1", seen, {verdicts.REFERENCE: 0.0, **truth}, prior)
        for truth, seen in simulated(np.random.default_rng(2), 400, ratio=verdicts.RATIO)
    ]
    efforts = {**verdicts.EFFORTS, **dict.fromkeys(METHODS, 3)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "EFFORTS", efforts)
        regrets = {name: regret for name, (_, regret) in verdicts.judged(found).items()}
    ours = regrets.pop("expected score")
    assert all(ours < regret for regret in regrets.values()), (ours, regrets)


def test_the_shipped_prior_can_be_computed_from_the_cells():
    tables = fitting.read_tables()
    noise = shipped_prior().noise
    for metric, method in [("f1", "ensemble"), ("balanced_accuracy", "random_forest")]:
        gains = fitting.paired_gains(tables, metric, method, sorted(tables))
        assert len(gains) == shipped_prior().tables == 33
        found = fitting.fitted_gain(gains, noise)
        assert list(found) == pytest.approx(list(shipped_prior().gains[metric][method]), abs=5e-4)
    text = fitting.SHIPPED.read_text(encoding="utf-8")
    assert json.loads(text)["made_by"] == "python -m benchmarks.quality.prior --write"
    assert len(text) < 10_000


def test_the_prior_knows_other_baselines_kin_of_metrics_and_nothing_of_strangers():
    prior, f1 = shipped_prior(), metrics.get("f1_macro")
    forward = prior.expected("ensemble", "random_forest", f1)
    backward = prior.expected("random_forest", "ensemble", f1)
    assert forward.location == -backward.location > 0
    assert prior.expected("ensemble", "cross_entropy_tuned", metrics.get("f2")) == prior.expected(
        "ensemble", "cross_entropy_tuned", f1
    )
    assert prior.expected("svm", "cross_entropy_tuned", f1) == prior.unknown
    cost = metrics.get("expected_cost", cost=[[0, 1], [5, 0]])
    small, large = (prior.expected("svm", "forest", cost, level) for level in (1.0, 100.0))
    assert large.scale == pytest.approx(100 * small.scale)


@pytest.mark.parametrize("prior", ["table", 3, {}])
def test_another_prior_is_refused(prior):
    with pytest.raises((ValueError, TypeError), match="prior of compare must be"):
        compare(np.zeros((20, 1)), np.arange(20) % 2, prior=prior)
