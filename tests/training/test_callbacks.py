"""Annealing, keeping the best, averaging weights."""

from __future__ import annotations

import pytest
import torch
from small_runs import same_state, small_rows, small_run, small_stage

from eastward.training import Callback, run_stage
from eastward.training.callbacks import Anneal, AverageWeights, KeepBest


class Recorder(Callback):
    """Keeps every member's weights and validation loss of every epoch."""

    def __init__(self):
        self.states, self.losses = [], []

    def epoch_end(self, run):
        self.states.append([run.members.member_state(k) for k in range(run.members.size)])
        self.losses.append(run.valid_losses.tolist())


class Losses(Callback):
    """Replaces the validation losses by a script: one list for each member."""

    def __init__(self, *scripts):
        self.scripts = scripts

    def epoch_end(self, run):
        values = [script[min(run.epoch, len(script)) - 1] for script in self.scripts]
        run.valid_losses = torch.tensor(values)
        run.record["valid_loss"] = sum(values) / len(values)


def temperatures(run):
    return [record["temperature"] for record in run.history]


def test_a_ladder_gives_one_temperature_per_epoch_and_the_last_goes_on():
    stage = small_stage(objective="metric", max_epochs=5, temperatures=(0.2, 0.1, 0.05))
    run = small_run(stage)
    run_stage(run, [Anneal(stage)])
    assert temperatures(run) == [0.2, 0.1, 0.05, 0.05, 0.05]


def test_a_floor_keeps_the_ladder_warm():
    stage = small_stage(objective="metric", max_epochs=3, temperatures=(0.2, 0.1, 0.05))
    run = small_run(stage)
    run.temperature_floor = 0.15
    run_stage(run, [Anneal(stage)])
    assert temperatures(run) == [0.2, 0.15, 0.15]


def test_a_stage_without_a_temperature_records_none():
    stage = small_stage()
    run = small_run(stage)
    run_stage(run, [Anneal(stage)])
    assert temperatures(run) == [None] * 4


def test_plateaus_cool_geometrically_and_end_the_stage():
    cooling = {"start": 0.2, "rate": 0.5, "patience": 2, "max_cold_steps": 2}
    stage = small_stage(objective="metric", max_epochs=50, cooling=cooling)
    run = small_run(stage, small_rows(folds=1))
    script = Losses([0.5, 0.4, 0.6, 0.6, 0.3, 0.7, 0.7, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9])
    run_stage(run, [script, Anneal(stage)])
    # 0.4 was the best at 0.2, 0.3 a new best at 0.1; neither 0.05 nor 0.025 bring one. The first epoch at a
    # temperature is always its best, so a barren one lasts patience + 1 epochs.
    assert temperatures(run) == pytest.approx([0.2] * 4 + [0.1] * 3 + [0.05] * 3 + [0.025] * 3)


def test_each_member_goes_back_to_its_own_best_epoch():
    stage = small_stage(max_epochs=12, learning_rate=0.3)
    run, recorder = small_run(stage), Recorder()
    run_stage(run, [recorder, KeepBest(None)])
    best = torch.tensor(recorder.losses).argmin(0).tolist()
    assert len(set(best)) > 1, "members of this test are best at different epochs"
    for k, epoch in enumerate(best):
        assert same_state(run.members.member_state(k), recorder.states[epoch][k])


def test_a_member_stops_when_its_patience_is_used_up_and_later_luck_does_not_count():
    run, recorder = small_run(small_stage(max_epochs=20), small_rows(folds=2)), Recorder()
    script = Losses([3, 2, 4, 4, 1, 1, 1], [9, 8, 7, 6, 5, 5, 5])
    run_stage(run, [script, recorder, KeepBest(2)])
    assert run.epoch == 7, "the second member improves until epoch 5 and waits two more"
    assert same_state(run.members.member_state(0), recorder.states[1][0])
    assert same_state(run.members.member_state(1), recorder.states[4][1])


def test_without_a_finished_epoch_the_start_is_kept():
    run = small_run(small_stage())
    start = run.members.state_dict()
    start = {name: value.clone() for name, value in start.items()}

    class StopAtOnce(Callback):
        def epoch_end(self, run):
            raise KeyboardInterrupt

    run_stage(run, [StopAtOnce(), KeepBest(None)])
    assert same_state(run.members.state_dict(), start)


def test_averaging_ends_at_the_mean_of_the_last_third():
    stage = small_stage(max_epochs=9, average_last=1 / 3)
    run, recorder = small_run(stage), Recorder()
    run_stage(run, [recorder, AverageWeights(stage)])
    for k in range(3):
        for name, value in run.members.member_state(k).items():
            mean = torch.stack([states[k][name] for states in recorder.states[6:]]).mean(0)
            torch.testing.assert_close(value, mean)


def test_a_stage_of_one_epoch_averages_that_one():
    stage = small_stage(max_epochs=1, average_last=1 / 3)
    run, recorder = small_run(stage), Recorder()
    run_stage(run, [recorder, AverageWeights(stage)])
    assert same_state(run.members.member_state(0), recorder.states[0][0])


def test_averaging_takes_counters_as_they_are_last():
    from eastward.training import SoloMember

    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
    members = SoloMember(network.append(torch.nn.Linear(8, 3)), 3)
    stage = small_stage(max_epochs=3, average_last=1.0)
    run = small_run(stage, small_rows(folds=1), members=members)
    run_stage(run, [AverageWeights(stage)])
    steps = 3 * run.source.steps
    assert network[1].num_batches_tracked.item() == steps


@pytest.mark.parametrize("kind", [Anneal, AverageWeights, KeepBest])
def test_a_callback_continues_from_its_saved_state(kind):
    cooling = {"start": 0.2, "rate": 0.5, "patience": 1, "max_cold_steps": 9}
    stage = small_stage(
        objective="metric", max_epochs=6, cooling=cooling, average_last=0.9, learning_rate=0.3
    )

    def new():
        return KeepBest(None) if kind is KeepBest else kind(stage)

    whole = new()
    run = small_run(stage)
    run_stage(run, [whole])

    class Swap(Callback):
        """Replaces the callback by a new one with its state, as a resumed run does."""

        def __init__(self):
            self.current = new()

        def stage_start(self, run):
            self.current.stage_start(run)

        def epoch_start(self, run):
            if run.epoch == 3:
                state = self.current.state_dict()
                self.current = new()
                self.current.load_state_dict(state)
            self.current.epoch_start(run)

        def epoch_end(self, run):
            self.current.epoch_end(run)

        def stage_end(self, run):
            self.current.stage_end(run)

    resumed = small_run(stage)
    run_stage(resumed, [Swap()])
    assert temperatures(resumed) == temperatures(run)
    assert same_state(resumed.members.state_dict(), run.members.state_dict())
