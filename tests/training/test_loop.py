"""One loop: what it records, how it ends, and what it evaluates."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import f1_score
from small_runs import cpu, same_state, small_members, small_rows, small_run, small_stage

from eastward.metrics import get
from eastward.training import Callback, run_stage, train_members, validation
from eastward.training.runner import start_at_decision
from eastward.training.scoring import padded
from eastward.training.validation import held_out_logits, validate


class Recorder(Callback):
    """Writes down which hook was called when."""

    def __init__(self):
        self.calls = []

    def stage_start(self, run):
        self.calls.append(("stage_start", run.epoch))

    def epoch_start(self, run):
        self.calls.append(("epoch_start", run.epoch))

    def epoch_end(self, run):
        self.calls.append(("epoch_end", run.epoch))

    def stage_end(self, run):
        self.calls.append(("stage_end", run.epoch))


class StopAt(Callback):
    def __init__(self, epoch, *, by_hand=False):
        self.epoch, self.by_hand = epoch, by_hand

    def epoch_end(self, run):
        if run.epoch == self.epoch:
            if self.by_hand:
                raise KeyboardInterrupt
            run.stop = True


def test_hooks_are_called_in_order():
    recorder = Recorder()
    run_stage(small_run(small_stage(max_epochs=2)), [recorder])
    assert recorder.calls == [
        ("stage_start", 0),
        ("epoch_start", 0),
        ("epoch_end", 1),
        ("epoch_start", 1),
        ("epoch_end", 2),
        ("stage_end", 2),
    ]


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_callback_or_the_user_can_end_a_stage(by_hand):
    run, recorder = small_run(small_stage(max_epochs=9)), Recorder()
    run_stage(run, [recorder, StopAt(3, by_hand=by_hand)])
    assert run.epoch == len(run.history) == 3
    assert run.interrupted == by_hand
    assert recorder.calls[-1] == ("stage_end", 3)


def test_history_holds_the_numbers_of_each_epoch():
    rows = small_rows()
    run = small_run(small_stage(max_epochs=3, objective="metric"), rows)
    run_stage(run, [])
    assert [record["epoch"] for record in run.history] == [1, 2, 3]
    last = run.history[-1]
    assert last["stage"] == "short"
    assert last["temperature"] == 0.2
    assert last["seconds"] > 0
    scores, losses = [], []
    for k, valid in enumerate(rows.valid):
        logits = run.members.member(k)(rows.inputs[valid])
        scores.append(f1_score(rows.targets[valid], logits.argmax(1), average="macro"))
        losses.append(run.objective(logits[None], rows.targets[valid][None], None).item())
    assert last["valid_score"] == pytest.approx(sum(scores) / 3)
    assert last["valid_loss"] == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert 0 < last["train_loss"] < 1


def test_training_lowers_the_loss():
    for objective in ("cross_entropy", "metric"):
        run = small_run(small_stage(max_epochs=15, objective=objective))
        run_stage(run, [])
        assert run.history[-1]["train_loss"] < 0.7 * run.history[0]["train_loss"]


def test_a_cost_is_recorded_as_a_negative_score():
    run = small_run(small_stage(max_epochs=1))
    run.metric = get("expected_cost", cost=1 - torch.eye(3))
    validate(run)
    cost = run.valid_scores
    run.metric = get("accuracy")
    validate(run)
    torch.testing.assert_close(cost, run.valid_scores - 1)


def test_sample_weights_reach_the_loss_and_the_score():
    weights = torch.rand(120, generator=torch.Generator().manual_seed(3)) * 5
    plain, weighted = (
        small_run(small_stage()),
        small_run(small_stage(), small_rows(weights=weights)),
    )
    run_stage(plain, [])
    run_stage(weighted, [])
    assert not same_state(plain.members.state_dict(), weighted.members.state_dict())
    rows, valid = weighted.rows, weighted.rows.valid[0]
    predicted = weighted.members.member(0)(rows.inputs[valid]).argmax(1)
    expected = f1_score(
        rows.targets[valid], predicted, average="macro", sample_weight=weights[valid]
    )
    assert weighted.valid_scores[0].item() == pytest.approx(expected)


def test_members_with_fewer_held_out_rows_are_not_judged_by_padding():
    assert padded([torch.tensor([3, 4, 5]), torch.tensor([6])])[1].sum().item() == 4
    rows = small_rows(counts=(61, 40, 20))
    lengths = {len(valid) for valid in rows.valid}
    assert len(lengths) > 1, "the folds of this test have unequal sizes"
    run = small_run(small_stage(), rows)
    validate(run)
    for k, valid in enumerate(rows.valid):
        logits = run.members.eval().member(k)(rows.inputs[valid])
        loss = torch.nn.functional.cross_entropy(logits, rows.targets[valid])
        torch.testing.assert_close(run.valid_losses[k], loss)


def test_held_out_logits_come_from_the_member_that_did_not_train_on_the_row():
    rows = small_rows()
    run = small_run(small_stage(), rows)
    held, logits, folds = held_out_logits(run)
    assert held.sort().values.equal(torch.arange(120))
    for k in range(3):
        own = folds == k
        assert held[own].equal(rows.valid[k])
        torch.testing.assert_close(logits[own], run.members.member(k)(rows.inputs[held[own]]))


def test_evaluation_in_parts_is_evaluation_at_once(monkeypatch):
    run = small_run(small_stage())
    index, _ = padded(run.rows.valid)
    at_once = validation.predict_logits(run, index)
    monkeypatch.setattr(validation, "EVALUATION_ROWS", 20)
    torch.testing.assert_close(validation.predict_logits(run, index), at_once)


def test_validation_in_parts_is_validation_at_once(monkeypatch):
    whole, parts = small_run(small_stage()), small_run(small_stage())
    validate(whole)
    monkeypatch.setattr(validation, "EVALUATION_ROWS", 20)
    validate(parts)
    assert whole.held.inputs is not None
    assert parts.held.inputs is None, "inputs are kept only where they are few"
    torch.testing.assert_close(parts.valid_losses, whole.valid_losses)
    torch.testing.assert_close(parts.valid_scores, whole.valid_scores)


def test_stages_follow_each_other_and_leave_held_out_logits():
    rows = small_rows()
    stages = [small_stage(name="first"), small_stage(name="second", objective="metric")]
    result = train_members(
        small_members(rows),
        rows,
        stages,
        metric=get("f1_macro"),
        fabric=cpu(),
        generator=torch.Generator().manual_seed(0),
    )
    assert list(result.held_out) == ["first", "second"]
    assert [record["stage"] for record in result.history] == ["first"] * 4 + ["second"] * 4
    assert not result.interrupted
    assert result.notes == []


def test_a_stage_stopped_by_hand_is_the_last_and_says_so(caplog):
    rows = small_rows()
    result = train_members(
        small_members(rows),
        rows,
        [small_stage(name="first"), small_stage(name="second")],
        metric=get("f1_macro"),
        fabric=cpu(),
        generator=torch.Generator().manual_seed(0),
        callbacks=[StopAt(2, by_hand=True)],
    )
    assert result.interrupted
    assert len(result.history) == 2
    assert list(result.held_out) == ["first"]
    (note,) = result.notes
    assert note == "stopped by hand in stage 'first', epoch 2; the best weights so far are kept"
    assert note in caplog.text


def test_starting_at_the_decision_moves_the_arg_max_and_nothing_else():
    rows = small_rows(counts=(150, 20, 6))
    members = small_members(rows)
    run = small_run(small_stage(max_epochs=20), rows, members=members, metric="recall_macro")
    run_stage(run, [])
    before = held_out_logits(run)[1]
    start_at_decision(run)
    shift = held_out_logits(run)[1] - before
    torch.testing.assert_close(shift, shift[:1].expand_as(shift))
    assert shift[0].argmax() == 2, "the rarest class gains most when recalls count equally"
