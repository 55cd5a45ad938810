"""Temperature schedules: their formulas, their ends, and that they can be saved."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle

import pytest

import eastward as ew
from eastward.annealing import (
    PlateauCooling,
    constant_schedule,
    cosine_schedule,
    geometric_schedule,
    linear_schedule,
)

SCHEDULES = {
    "geometric": geometric_schedule(0.2, 0.8),
    "linear": linear_schedule(0.2, 0.02, steps=10),
    "cosine": cosine_schedule(0.2, 0.02, steps=10),
    "constant": constant_schedule(0.15),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_gives_temperatures_that_a_loss_accepts_and_never_rises(name):
    schedule = SCHEDULES[name]
    temperatures = [schedule(step) for step in range(200)]
    assert temperatures == sorted(temperatures, reverse=True)
    loss = ew.EASTLoss()
    for temperature in temperatures:
        loss.temperature = temperature


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_can_be_saved_and_restored(name):
    schedule = SCHEDULES[name]
    for restored in (
        pickle.loads(pickle.dumps(schedule)),
        copy.deepcopy(schedule),
        type(schedule)(**dataclasses.asdict(schedule)),
    ):
        assert restored == schedule
        assert [restored(k) for k in range(30)] == [schedule(k) for k in range(30)]


def test_the_geometric_schedule_is_that_of_the_papers_down_to_its_floor():
    schedule = geometric_schedule(0.2, 0.8, floor=1e-3)
    for step in range(20):
        assert schedule(step) == pytest.approx(max(0.2 * 0.8**step, 1e-3))
    assert schedule(1000) == 1e-3


def test_the_linear_schedule_takes_equal_steps_and_then_stays():
    schedule = linear_schedule(0.3, 0.1, steps=4)
    assert [schedule(k) for k in range(6)] == pytest.approx([0.3, 0.25, 0.2, 0.15, 0.1, 0.1])


def test_the_cosine_schedule_is_half_a_cosine_and_then_stays():
    schedule = cosine_schedule(0.3, 0.1, steps=4)
    expected = [0.2 + 0.1 * math.cos(math.pi * min(k, 4) / 4) for k in range(6)]
    assert [schedule(k) for k in range(6)] == pytest.approx(expected)


def test_plateau_cooling_waits_for_patience_and_then_cools():
    cooling = PlateauCooling(0.2, 0.5, patience=2)
    values = [1.0, 0.9, 0.95, 0.95, 0.94, 0.96, 0.96]
    temperatures = [cooling.step(value) for value in values]
    assert temperatures == pytest.approx([0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.05])


def test_plateau_cooling_judges_each_temperature_by_its_own_best():
    # A colder surrogate has other values; comparing with those of the warmer one would cool at once.
    cooling = PlateauCooling(0.2, 0.5, patience=2)
    for value in (0.1, 0.2, 0.2):
        cooling.step(value)
    assert cooling.temperature == pytest.approx(0.1)
    assert [cooling.step(v) for v in (0.5, 0.4, 0.3, 0.29)] == pytest.approx([0.1] * 4)


def test_plateau_cooling_is_finished_when_coolings_bring_nothing():
    cooling = PlateauCooling(0.2, 0.9, patience=1, max_cold_steps=3)
    cooling.step(0.5)
    steps = 0
    while not cooling.finished:
        cooling.step(0.6)
        steps += 1
        assert steps < 100
    assert cooling.best == 0.5
    assert cooling.cold_steps == 3


def test_a_new_best_starts_the_count_of_cold_steps_again():
    cooling = PlateauCooling(0.2, 0.9, patience=1, max_cold_steps=3)
    for value in (0.5, 0.6, 0.6, 0.6, 0.6, 0.4, 0.6):
        cooling.step(value)
    assert cooling.cold_steps == 0
    assert not cooling.finished


def test_improvements_smaller_than_min_delta_do_not_count():
    patient = PlateauCooling(0.2, 0.5, patience=2, min_delta=0.1)
    for value in (1.0, 0.95, 0.92):
        patient.step(value)
    assert patient.temperature == pytest.approx(0.1)


def test_plateau_cooling_stops_at_its_floor():
    cooling = PlateauCooling(0.2, 0.1, patience=1, floor=0.01)
    for _ in range(20):
        cooling.step(1.0)
    assert cooling.temperature == 0.01


def test_plateau_cooling_goes_on_exactly_where_it_was_saved():
    values = [1.0, 0.8, 0.9, 0.9, 0.7, 0.75, 0.72, 0.71, 0.9, 0.9]
    whole, first = PlateauCooling(patience=2), PlateauCooling(patience=2)
    expected = [whole.step(value) for value in values]
    ours = [first.step(value) for value in values[:5]]
    second = PlateauCooling(patience=2)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    ours += [second.step(value) for value in values[5:]]
    assert ours == expected
    assert second.state_dict() == whole.state_dict()
