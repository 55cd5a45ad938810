"""A collapse is seen, explained in one sentence, and answered."""

from __future__ import annotations

import logging

import pytest
import torch
from small_runs import cpu, same_state, small_members, small_rows, small_run, small_stage

from eastward.confusion import hard_confusion, multilabel_counts
from eastward.metrics import get
from eastward.training import Callback, Stage, run_stage, train_members
from eastward.training.callbacks import Anneal
from eastward.training.collapse import CollapseGuard, unpredicted
from eastward.training.runner import stage_callbacks, start_at_decision
from eastward.training.validation import validate


class Push(Callback):
    """Adds to the output bias before each of the given epochs: a collapse on demand."""

    def __init__(self, bias, epochs, member=None):
        self.bias, self.epochs, self.member = torch.tensor(bias), set(epochs), member

    def epoch_start(self, run):
        if run.epoch + 1 in self.epochs:
            with torch.no_grad():
                chosen = slice(None) if self.member is None else self.member
                run.members.biases[-1][chosen] += self.bias


def trained(rows):
    """Members that predict every class."""
    members = small_members(rows)
    run_stage(small_run(small_stage(max_epochs=20), rows, members=members), [])
    return members


def cold_stage(**changes) -> Stage:
    settings = {
        "objective": "metric",
        "temperatures": (0.05,),
        "max_epochs": 12,
        "learning_rate": 1e-4,
        "guard": "answer",
    }
    return small_stage(**{**settings, **changes})


def guarded_run(rows, pushes, **changes):
    stage = cold_stage(**changes)
    run = small_run(stage, rows, members=trained(rows))
    guard = CollapseGuard(answer=stage.guard == "answer")
    run_stage(run, [Anneal(stage), guard, *pushes])
    return run, guard


def history_of(run, name):
    return [record[name] for record in run.history]


def test_classes_that_occur_and_are_never_predicted_are_found():
    scores = torch.tensor([[2.0, 0.0, 0.0], [2.0, 0.0, 1.0]])
    table = hard_confusion(scores.argmax(1), torch.tensor([0, 2]), num_classes=3)
    assert unpredicted(table).tolist() == [False, False, True]
    table = hard_confusion(scores.argmax(1), torch.tensor([0, -100]), num_classes=3)
    assert not unpredicted(table).any()
    labels = torch.tensor([[1, 0, 1], [0, 0, 1]])
    counts = multilabel_counts((scores - 1 > 0).double(), labels)
    assert unpredicted(counts).tolist() == [False, False, True]


def test_a_healthy_stage_is_left_alone():
    run, guard = guarded_run(small_rows(folds=2), [])
    assert run.notes == []
    assert guard.streaks == [0, 0]
    assert run.temperature_floor == run.objective.blend == 0.0
    assert history_of(run, "temperature") == [0.05] * 12


def test_a_collapse_is_said_in_one_sentence_and_answered_with_warmth_and_cross_entropy(caplog):
    rows = small_rows(folds=1)
    run, _ = guarded_run(rows, [Push([50.0, 0.0, 0.0], [2])], max_epochs=4)
    (note,) = run.notes
    assert note == (
        "stage 'short', epoch 3: all predictions fall into one class: "
        "the temperature goes back up from 0.05 to 0.2 and cross-entropy is mixed in with weight 0.5"
    )
    assert note in [record.getMessage() for record in caplog.records]
    assert caplog.records[0].levelno == logging.WARNING
    assert run.temperature_floor == 0.2
    assert run.objective.blend == 0.5
    assert history_of(run, "temperature") == [0.05, 0.05, 0.05, 0.2]


def test_the_answer_ends_when_the_members_are_well_again():
    pushes = [Push([50.0, 0.0, 0.0], [2]), Push([-50.0, 0.0, 0.0], [5])]
    run, guard = guarded_run(small_rows(folds=1), pushes, max_epochs=8)
    assert len(run.notes) == 1
    assert guard.streaks == [0]
    assert run.temperature_floor == run.objective.blend == 0.0
    assert history_of(run, "temperature") == [0.05] * 3 + [0.2] * 2 + [0.05] * 3


def test_one_bad_epoch_is_no_collapse():
    pushes = [Push([50.0, 0.0, 0.0], [2]), Push([-50.0, 0.0, 0.0], [3])]
    run, _ = guarded_run(small_rows(folds=1), pushes)
    assert run.notes == []


def test_a_dead_class_is_named():
    run, _ = guarded_run(small_rows(folds=1), [Push([0.0, 0.0, -50.0], [1])], max_epochs=2)
    assert "classes [2] are no longer predicted: the temperature goes back up" in run.notes[0]


def test_a_class_that_was_dead_before_the_stage_is_not_its_fault():
    rows = small_rows(folds=1)
    members = trained(rows)
    with torch.no_grad():
        members.biases[-1] += torch.tensor([0.0, 0.0, -50.0])
    stage = cold_stage(max_epochs=3)
    run = small_run(stage, rows, members=members)
    run_stage(run, [Anneal(stage), CollapseGuard(answer=True)])
    assert run.notes == []


def test_a_vanished_gradient_is_named():
    class Saturate(Callback):
        """Makes every probability zero or one, without changing a decision."""

        def stage_start(self, run):
            with torch.no_grad():
                run.members.weights[-1] *= 1e6
                run.members.biases[-1] *= 1e6

    run, _ = guarded_run(small_rows(folds=1), [Saturate()], max_epochs=2)
    assert "the gradient has vanished" in run.notes[0]


@pytest.mark.slow
def test_a_class_that_only_the_tuned_decision_predicted_is_no_loss():
    rows = small_rows(folds=1)
    members = trained(rows)
    with torch.no_grad():
        members.biases[-1] += torch.tensor([0.0, 0.0, -5.0])
    stage = cold_stage(max_epochs=3, from_decision=True)
    run = small_run(stage, rows, members=members)
    assert unpredicted_by(run).tolist() == [False, False, True]
    start_at_decision(run)
    assert not unpredicted_by(run).any(), "the tuned decision brings the class back"
    run_stage(run, [Anneal(stage), CollapseGuard(answer=True), Push([0.0, 0.0, -50.0], [1])])
    assert unpredicted_by(run).tolist() == [False, False, True]
    assert run.notes == []


def unpredicted_by(run):
    validate(run)
    return unpredicted(run.valid_tables[0])


@pytest.mark.slow
def test_a_member_beyond_help_goes_back_to_the_start_and_the_stage_ends():
    rows = small_rows(folds=1)
    start = trained(rows).member_state(0)
    run, _ = guarded_run(rows, [Push([500.0, 0.0, 0.0], range(1, 100))], max_epochs=30)
    assert run.epoch == 8
    assert "class, for 8 epochs now: member 0 goes back to the start and the stage" in run.notes[-1]
    assert same_state(run.members.member_state(0), start)


@pytest.mark.slow
def test_the_others_go_on_without_a_member_beyond_help():
    rows = small_rows(folds=2)
    push = Push([500.0, 0.0, 0.0], range(1, 100), member=1)
    start = trained(rows).member_state(1)
    run, _ = guarded_run(rows, [push], max_epochs=12)
    assert run.epoch == 12
    assert "epoch 8: " in run.notes[-1]
    assert "member 1 goes back to the start and the others go on" in run.notes[-1]
    assert run.temperature_floor == run.objective.blend == 0.0, "nobody who is left is ill"
    assert same_state(run.members.member_state(1), start)


def test_giving_up_a_member_does_not_take_back_a_stop():
    class Stop(Callback):
        def epoch_end(self, run):
            run.stop = run.stop or run.epoch == 8

    rows = small_rows(folds=2)
    stage = cold_stage(max_epochs=12)
    run = small_run(stage, rows, members=trained(rows))
    push = Push([500.0, 0.0, 0.0], range(1, 100), member=1)
    run_stage(run, [Anneal(stage), Stop(), CollapseGuard(answer=True), push])
    assert "member 1 goes back to the start" in run.notes[-1]
    assert run.epoch == 8


def test_a_restored_member_is_not_replaced_by_the_average_of_its_collapse():
    rows = small_rows(folds=2)
    stage = cold_stage(max_epochs=12, average_last=0.9)
    members = trained(rows)
    starts = [members.member_state(k) for k in range(2)]
    run = small_run(stage, rows, members=members)
    push = Push([500.0, 0.0, 0.0], range(1, 100), member=1)
    run_stage(run, stage_callbacks(stage, 0, [push]))
    assert "member 1 goes back to the start" in run.notes[-1]
    assert same_state(members.member_state(1), starts[1])
    assert not same_state(members.member_state(0), starts[0]), "the healthy one was averaged"


def test_the_papers_procedure_is_only_warned_about_once(caplog):
    rows = small_rows(folds=1)
    run, _ = guarded_run(rows, [Push([50.0, 0.0, 0.0], range(1, 9))], guard="warn", max_epochs=8)
    (note,) = run.notes
    assert note == (
        "stage 'short', epoch 2: all predictions fall into one class at temperature 0.05; "
        "recipe='auto' starts from cross-entropy"
    )
    assert note in caplog.text
    assert run.temperature_floor == run.objective.blend == 0.0
    assert run.epoch == 8


def test_a_collapse_that_the_metric_cannot_leave_is_left_with_the_guard():
    rows = small_rows(folds=1, counts=(400, 10, 10))
    scores = {}
    for guard in ("off", "answer"):
        stage = cold_stage(
            temperatures=(0.1,),
            max_epochs=20,
            batch_size=64,
            learning_rate=0.1,
            stratified=True,
            guard=guard,
        )
        result = train_members(
            small_members(rows),
            rows,
            [stage],
            metric=get("f1_macro"),
            fabric=cpu(),
            generator=torch.Generator().manual_seed(0),
            # So far out that the gradient of the surrogate is less than rounding.
            callbacks=[Push([30.0, 0.0, 0.0], [1])],
        )
        scores[guard] = result.history[-1]["valid_score"]
    assert scores["off"] == pytest.approx(1 / 3, abs=0.02), "one class of three"
    assert scores["answer"] > 0.6
