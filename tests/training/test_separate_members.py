"""Modules one after the other are the networks of one batched graph."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from small_runs import same_state, small_members, small_rows, small_run, small_stage
from torch import nn

from eastward.training import SeparateMembers, SoloMember, run_stage
from eastward.training.callbacks import AverageWeights, KeepBest
from eastward.training.collapse import CollapseGuard


def separate(stack):
    """The members of a stack as modules of their own."""
    modules = [stack.member(k).requires_grad_() for k in range(stack.size)]
    return SeparateMembers(modules, stack.weights[-1].shape[2])


def with_batch_norm(size, seed=0):
    torch.manual_seed(seed)
    modules = [
        nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))
        for _ in range(size)
    ]
    return SeparateMembers(modules, 3)


def callbacks_of(stage):
    kept = AverageWeights(stage) if stage.average_last else KeepBest(stage.patience)
    return [kept, CollapseGuard(answer=True)] if stage.objective == "metric" else [kept]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"patience": 2, "max_epochs": 12, "learning_rate": 0.1},
        {"objective": "metric", "stratified": True, "batch_size": 40},
        {"objective": "metric", "average_last": 0.5},
        {"objective": "metric", "batch_size": 16, "effective_batch": 40},
    ],
    ids=["cross-entropy", "patience", "metric", "averaged", "exact"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_they_take_the_steps_of_the_batched_graph(changes, weighted):
    weights = torch.linspace(0.5, 2, 120) if weighted else None
    rows, stage = small_rows(weights=weights), small_stage(**changes)
    stack = small_members(rows)
    runs = [small_run(stage, rows, members=members) for members in (stack, separate(stack))]
    for run in runs:
        run_stage(run, callbacks_of(stage))
    together, one_by_one = (run.members for run in runs)
    assert len(runs[0].history) == len(runs[1].history)
    inputs = rows.inputs
    torch.testing.assert_close(
        one_by_one.eval()(inputs), together.eval()(inputs), rtol=1e-3, atol=1e-4
    )


def test_one_of_them_is_a_solo_member():
    rows, stage = small_rows(folds=1), small_stage(patience=2)
    several = with_batch_norm(1)
    solo = SoloMember(copy.deepcopy(several.networks[0].module), 3)
    for members in (several, solo):
        torch.manual_seed(3)
        run_stage(small_run(stage, rows, members=members), callbacks_of(stage))
    assert same_state(several.member_state(0), solo.member_state(0))


def test_a_member_that_is_done_rests_and_nothing_else_changes(monkeypatch):
    """Dropout draws for it all the same, so that the others see the same numbers."""
    rows, stage = small_rows(), small_stage(patience=1, max_epochs=30, learning_rate=0.03)

    def trained():
        run = small_run(stage, rows, members=with_batch_norm(3))
        torch.manual_seed(4)
        kept = KeepBest(stage.patience)
        rested = []
        plain = run.members.rest
        run.members.rest = lambda members: (plain(members), rested.append(run.members.resting))
        run_stage(run, [kept])
        return run.members, rested

    resting, rested = trained()
    assert any(0 < len(members) < 3 for members in rested), "some were done before the others"
    assert resting.resting == frozenset()
    monkeypatch.setattr(SeparateMembers, "rest", lambda *_: None)
    restless, _ = trained()
    assert same_state(resting.state_dict(), restless.state_dict())


def test_a_resting_member_gets_no_gradient():
    members = with_batch_norm(3).train()
    members.rest([1])
    members(torch.randn(6, 4)).sum().backward()
    grads = [network.module[0].weight.grad is not None for network in members.networks]
    assert grads == [True, False, True]


def test_a_member_that_is_given_up_goes_back_alone():
    rows, stage = small_rows(), small_stage(objective="metric", max_epochs=2)
    run = small_run(stage, rows, members=with_batch_norm(3))
    start = run.members.member_state(1)
    guard = CollapseGuard(answer=True)
    run_stage(run, [AverageWeights(replace(stage, average_last=0.5)), guard])
    assert not same_state(run.members.member_state(1), start)
    others = [run.members.member_state(k) for k in (0, 2)]
    guard.given_up.append(1)
    guard.stage_end(run)
    assert same_state(run.members.member_state(1), start)
    assert same_state(run.members.member_state(0), others[0])
    assert same_state(run.members.member_state(2), others[1])


def test_offsets_go_into_the_output_bias_of_every_member():
    members = with_batch_norm(2).eval()
    inputs, offsets = torch.randn(6, 4), torch.tensor([0.5, -1.0, 2.0])
    before = members(inputs)
    assert members.add_to_output_bias(offsets)
    torch.testing.assert_close(members(inputs), before + offsets)
    without = SeparateMembers([nn.Linear(4, 3, bias=False) for _ in range(2)], 3)
    assert not without.add_to_output_bias(offsets)


def test_inputs_are_shared_unless_they_are_a_list():
    members = with_batch_norm(2).eval()
    first, second = torch.randn(5, 4), torch.randn(5, 4)
    own = members([first, second])
    torch.testing.assert_close(own[0], members(first)[0])
    torch.testing.assert_close(own[1], members(second)[1])
