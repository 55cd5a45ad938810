"""One step for many micro-batches has the gradient of all rows together."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_runs import same_state, small_members, small_rows, small_run, small_stage
from torch import nn

from eastward.training import SoloMember, run_stage


def trained(stage, **changes):
    rows = small_rows(folds=changes.pop("folds", 2))
    members = changes.pop("members", None) or small_members(rows, **changes)
    run = small_run(stage, rows, members=members)
    torch.manual_seed(5)
    run_stage(run, [])
    return run


@pytest.mark.parametrize("objective", ["metric", "cross_entropy"])
@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("micro", [7, 16, 33])
def test_micro_batches_take_the_steps_of_the_whole_batch(objective, stratified, micro):
    whole = small_stage(objective=objective, stratified=stratified, batch_size=40, max_epochs=3)
    exact = replace(whole, batch_size=micro, effective_batch=40)
    expected, ours = trained(whole), trained(exact)
    assert ours.source.steps == expected.source.steps
    for name, value in expected.members.state_dict().items():
        torch.testing.assert_close(ours.members.state_dict()[name], value, rtol=1e-4, atol=1e-5)
    assert ours.history[-1]["train_loss"] == pytest.approx(expected.history[-1]["train_loss"])


def test_the_mean_over_micro_batches_would_take_other_steps():
    exact = small_stage(objective="metric", batch_size=8, effective_batch=40, max_epochs=3)
    small = replace(exact, effective_batch=None)
    assert not same_state(trained(exact).members.state_dict(), trained(small).members.state_dict())


def test_dropout_is_the_same_in_both_passes():
    """Were it not, the second pass would carry the slope of other logits: this one is checked by hand."""
    stage = small_stage(objective="metric", batch_size=20, effective_batch=40, max_epochs=1)
    stage = replace(stage, max_steps=1, learning_rate=1e-12)
    rows = small_rows(folds=1)
    run = small_run(stage, rows, members=small_members(rows, dropout=0.5))
    torch.manual_seed(5)
    run_stage(run, [])
    ours = [p.grad.clone() for p in run.members.parameters()]
    twin = small_run(stage, rows, members=small_members(rows, dropout=0.5))
    (chosen,) = twin.source.epoch(torch.Generator().manual_seed(1), 0)
    torch.manual_seed(5)
    twin.members.train()
    parts = [twin.members(rows.inputs[part]) for part in chosen.split(20, dim=1)]
    losses = twin.objective(torch.cat(parts, dim=1), rows.targets[chosen], None)
    expected = torch.autograd.grad(losses.sum(), list(twin.members.parameters()))
    for gradient, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(gradient, other)


def test_batch_norm_is_warned_of_and_counts_each_row_once():
    stage = small_stage(
        objective="metric", batch_size=24, effective_batch=96, max_epochs=1, max_steps=1
    )
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    with pytest.warns(UserWarning, match="batch norm normalises each micro-batch separately"):
        trained(stage, folds=1, members=SoloMember(module, 3))
    assert int(module[1].num_batches_tracked) == 4
