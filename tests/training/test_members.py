"""Networks side by side are networks one by one."""

from __future__ import annotations

import pytest
import torch
from small_runs import same_state, small_members, small_rows, small_run, small_stage

from eastward.training import Rows, SoloMember, StackedMLP, plain_mlp, run_stage
from eastward.training.members import ByteDropout


def test_a_stack_gives_the_logits_of_its_members():
    stack = StackedMLP(4, [5, 7, 6, 3]).eval()
    inputs = torch.randn(4, 9, 5)
    for k in range(4):
        torch.testing.assert_close(stack(inputs)[k], stack.member(k)(inputs[k]))


def test_inputs_without_a_member_dimension_are_shared():
    stack = StackedMLP(3, [5, 7, 2]).eval()
    inputs = torch.randn(6, 5)
    assert stack(inputs).equal(stack(inputs.expand(3, 6, 5)))


def test_the_gradient_of_the_sum_is_that_of_each_member_alone():
    stack = StackedMLP(3, [5, 7, 2], dropout=0.0)
    inputs, targets = torch.randn(3, 8, 5), torch.randint(2, (3, 8))
    logits = stack(inputs)
    loss = torch.nn.functional.cross_entropy
    sum(loss(logits[k], targets[k]) for k in range(3)).backward()
    for k in range(3):
        alone = stack.member(k)
        loss(alone(inputs[k]), targets[k]).backward()
        first, last = alone[0], alone[-1]
        torch.testing.assert_close(stack.weights[0].grad[k], first.weight.grad.T)
        torch.testing.assert_close(stack.biases[-1].grad[k, 0], last.bias.grad)


@pytest.mark.parametrize("objective", ["cross_entropy", "metric"])
def test_members_trained_together_are_members_trained_alone(objective):
    rows = small_rows(folds=2)
    stage = small_stage(objective=objective)
    together = small_members(rows)
    run = small_run(stage, rows, members=together)
    orders = []
    plain = run.source.epoch

    def recorded(generator, start):
        epoch = list(plain(generator, start))
        orders.append(epoch)
        return iter(epoch)

    run.source.epoch = recorded
    run_stage(run, [])

    for k in range(2):
        alone = StackedMLP(1, [4, 8, 3], 0.0)
        alone.load_member(0, small_members(rows).member_state(k))
        own = Rows(rows.inputs, rows.targets, None, [rows.train[k]], [rows.valid[k]], 3)
        single = small_run(stage, own, members=alone)
        replay = iter(orders)
        single.source.epoch = lambda _, __, k=k, replay=replay: [b[k : k + 1] for b in next(replay)]
        run_stage(single, [])
        for name, value in alone.member_state(0).items():
            torch.testing.assert_close(value, together.member_state(k)[name], msg=name)


def test_a_member_can_be_taken_out_and_put_back():
    stack = StackedMLP(3, [5, 4, 2])
    before = [stack.member_state(k) for k in range(3)]
    other = StackedMLP(1, [5, 4, 2]).member_state(0)
    stack.load_member(1, other)
    assert same_state(stack.member_state(1), other)
    assert same_state(stack.member_state(0), before[0])
    assert same_state(stack.member_state(2), before[2])
    assert not same_state(before[1], other), "a state is a copy, not a view"


def test_offsets_go_into_the_output_bias_of_every_member():
    stack = StackedMLP(2, [5, 4, 3]).eval()
    inputs, offsets = torch.randn(6, 5), torch.tensor([0.5, -1.0, 2.0])
    before = stack(inputs)
    assert stack.add_to_output_bias(offsets)
    torch.testing.assert_close(stack(inputs), before + offsets)


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.1])
def test_dropout_drops_at_its_rate_and_keeps_the_mean(rate):
    dropped = ByteDropout(rate)(torch.ones(1000, 1000))
    rounded = round(rate * 256) / 256
    share = (dropped == 0).double().mean().item()
    assert share == pytest.approx(rounded, abs=5 * (rounded * (1 - rounded) / 1e6) ** 0.5)
    assert dropped.unique().tolist() == pytest.approx([0, 1 / (1 - rounded)])


def test_dropout_masks_the_gradient_as_it_masks_the_value():
    hidden = torch.ones(3, 50, requires_grad=True)
    dropped = ByteDropout(0.5)(hidden)
    dropped.sum().backward()
    assert hidden.grad.equal(dropped.detach())


def test_dropout_does_nothing_in_evaluation_or_at_rate_zero():
    hidden = torch.randn(4, 33)
    assert ByteDropout(0.5).eval()(hidden) is hidden
    assert ByteDropout(0.0)(hidden) is hidden


def test_dropout_of_nearly_everything_stays_finite():
    dropped = ByteDropout(0.9999)(torch.ones(64, 64))
    assert torch.isfinite(dropped).all()


def test_a_plain_network_has_the_widths_asked_for():
    linear = [layer for layer in plain_mlp([5, 7, 6, 3]) if isinstance(layer, torch.nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(5, 7), (7, 6), (6, 3)]


@pytest.mark.parametrize("shape", ["column", "vector"])
def test_one_logit_is_widened_to_two_classes(shape):
    network = torch.nn.Sequential(torch.nn.Linear(4, 1))
    if shape == "vector":
        network.append(torch.nn.Flatten(0))
    inputs = torch.randn(6, 4)
    logits = SoloMember(network, 2)(inputs)
    assert logits.shape == (1, 6, 2)
    positive = logits[0].softmax(1)[:, 1]
    torch.testing.assert_close(positive, network(inputs).flatten().sigmoid())


def test_one_logit_of_a_single_label_stays_one():
    assert SoloMember(torch.nn.Linear(4, 1), 1, multilabel=True)(torch.zeros(6, 4)).shape == (
        1,
        6,
        1,
    )


@pytest.mark.parametrize(
    ("network", "inputs"),
    [
        (torch.nn.Linear(4, 5), torch.zeros(6, 4)),
        (torch.nn.Linear(4, 1), torch.zeros(6, 4)),
        (torch.nn.Identity(), torch.zeros(6, 3, 2)),
    ],
)
def test_a_module_of_the_wrong_width_is_refused(network, inputs):
    with pytest.raises(ValueError, match=r"module of EASTClassifier must be .* 3 outputs.*; got"):
        SoloMember(network, 3)(inputs)


def test_a_module_takes_offsets_only_where_they_fit():
    offsets = torch.tensor([1.0, 2.0])
    fitting = SoloMember(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Identity()), 2)
    before = fitting(torch.zeros(1, 4))
    assert fitting.add_to_output_bias(offsets)
    torch.testing.assert_close(fitting(torch.zeros(1, 4)), before + offsets)
    single = SoloMember(torch.nn.Linear(4, 1), 2)
    before = single(torch.zeros(1, 4))
    assert single.add_to_output_bias(offsets)
    after = single(torch.zeros(1, 4))
    torch.testing.assert_close(after[..., 1] - before[..., 1], torch.ones(1, 1))
    assert not SoloMember(torch.nn.Linear(4, 2, bias=False), 2).add_to_output_bias(offsets)
