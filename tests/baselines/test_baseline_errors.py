"""A mistake has its own sentence: argument of function must be ...; got .... What to do."""

from __future__ import annotations

import re

import pytest
import torch
from baseline_table import BASELINES

from eastward import baselines

SENTENCE = re.compile(r"^.+ of .+ must be .+; got .+\.", re.DOTALL)
NAN = float("nan")


def assert_error(provoke, error, message):
    with pytest.raises(error, match=re.compile(message, re.DOTALL)) as caught:
        provoke()
    assert type(caught.value) is error
    assert SENTENCE.search(str(caught.value)), str(caught.value)


ADVERSARIAL = {"adversarial": baselines.AdversarialFBetaLoss}
BUILDERS = {name: row.build for name, row in BASELINES.items()} | ADVERSARIAL
INPUTS = [
    ((torch.zeros(4).long(), torch.zeros(4)), TypeError, "logits of .* floating point"),
    (([0.0], torch.zeros(1)), TypeError, "logits of .* a torch.Tensor"),
    ((torch.zeros(4), [0, 1, 0, 1]), TypeError, "targets of .* a torch.Tensor"),
    ((torch.tensor([NAN, 0.0]), torch.zeros(2)), ValueError, "logits of .* finite.*1 NaN"),
    ((torch.zeros(4), torch.zeros(3)), ValueError, r"targets of .* of shape \(4,\)"),
    ((torch.zeros(4), torch.full((4,), 2)), ValueError, "targets of .* 0 or 1.*example 2"),
    ((torch.zeros(4, 2), torch.full((4,), 2)), ValueError, r"targets of .* in \[0, 2\)"),
    ((torch.zeros(4, 2), torch.zeros(4)), TypeError, "targets of .* integer class indices"),
    ((torch.tensor(0.0), torch.tensor(0)), ValueError, r"logits of .* of shape \(N,\)"),
]


@pytest.mark.parametrize("name", sorted(BUILDERS))
@pytest.mark.parametrize(("given", "error", "message"), INPUTS)
def test_wrong_input(name, given, error, message):
    assert_error(lambda: BUILDERS[name]()(*given), error, message)


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_wrong_weights(name):
    loss, logits, targets = BASELINES[name].build(), torch.zeros(4), torch.tensor([0, 1, 0, 1])
    for weight, error, message in [
        (-torch.ones(4), ValueError, "sample_weight of .* finite and >= 0"),
        (torch.ones(3), ValueError, r"sample_weight of .* of shape \(4,\)"),
        ([1, 1, 1, 1], TypeError, "sample_weight of .* a torch.Tensor"),
    ]:
        assert_error(lambda: loss(logits, targets, weight), error, message)  # noqa: B023


@pytest.mark.parametrize("name", [name for name, row in BASELINES.items() if row.binary_only])
def test_three_classes_are_too_many_for_binary_losses(name):
    loss = BASELINES[name].build()
    assert_error(
        lambda: loss(torch.zeros(4, 3), torch.zeros(4).long()), ValueError, "the loss is binary"
    )


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_checks_can_be_switched_off(name):
    given = torch.tensor([NAN, 0.0, 1.0]), torch.tensor([0, 1, 1])
    assert_error(lambda: BASELINES[name].build()(*given), ValueError, "finite")
    assert BASELINES[name].build(check_inputs=False)(*given).shape == ()


OPTIONS = [
    (lambda: baselines.DiceLoss(smooth=-1), ValueError, "smooth of DiceLoss .*>= 0; got -1"),
    (lambda: baselines.DiceLoss(smooth="a"), TypeError, "smooth of DiceLoss .* a real number"),
    (lambda: baselines.DiceLoss(ignore_index=0.5), TypeError, "ignore_index of DiceLoss"),
    (lambda: baselines.SoftFBetaLoss(0), ValueError, "beta of SoftFBetaLoss .* > 0"),
    (lambda: baselines.SoftFBetaLoss([1, -1]), ValueError, "beta of SoftFBetaLoss .* > 0"),
    (lambda: baselines.SoftFBetaLoss("two"), TypeError, "beta of SoftFBetaLoss"),
    (
        lambda: baselines.SoftFBetaLoss([1, 2, 3])(torch.zeros(2, 2), torch.tensor([0, 1])),
        ValueError,
        "beta of SoftFBetaLoss .* 2 of them",
    ),
    (lambda: baselines.FocalLoss(-1), ValueError, "gamma of FocalLoss .*>= 0; got -1"),
    (lambda: baselines.FocalLoss(class_weight=[1]), ValueError, "class_weight of FocalLoss"),
    (lambda: baselines.FocalLoss(class_weight="a"), TypeError, "class_weight of FocalLoss"),
    (
        lambda: baselines.FocalLoss(class_weight=[1, -1]),
        ValueError,
        "class_weight of FocalLoss .* finite and >= 0",
    ),
    (
        lambda: baselines.MAELoss(class_weight=[1, 2, 3])(torch.zeros(2), torch.tensor([0, 1])),
        ValueError,
        "class_weight of MAELoss .* of length 2.* got 3 numbers",
    ),
    (lambda: baselines.BalancedCrossEntropyLoss([5, 0]), ValueError, "class_counts of .* > 0"),
    (lambda: baselines.BalancedCrossEntropyLoss(5), ValueError, "class_counts of .* two or more"),
    (lambda: baselines.BalancedCrossEntropyLoss(["a"]), TypeError, "class_counts of"),
    (
        lambda: baselines.class_weights([1, 2], scheme="inverse_freq"),
        ValueError,
        "scheme of class_weights .*Did you mean 'inverse_frequency'",
    ),
    (
        lambda: baselines.class_weights([1, 2], scheme="effective_number", effective_beta=1),
        ValueError,
        r"effective_beta of class_weights .* in \[0, 1\)",
    ),
    (lambda: baselines.SurrogateFBetaLoss(0, 0.5), ValueError, "beta of SurrogateFBetaLoss .* > 0"),
    (lambda: baselines.SurrogateFBetaLoss(1, 1), ValueError, "positive_rate of .* between 0 and 1"),
    (lambda: baselines.SurrogateFBetaLoss(1, 0.5, 0), ValueError, "q of SurrogateFBetaLoss .* > 0"),
    (lambda: baselines.SurrogateFBetaLoss(1, 0.5, 2), ValueError, r"q of .* in \(0, 1\]"),
    (lambda: baselines.WilcoxonMannWhitneyLoss(margin=0), ValueError, "margin of .* > 0"),
    (lambda: baselines.WilcoxonMannWhitneyLoss(margin=2), ValueError, r"margin of .* in \(0, 1\]"),
    (lambda: baselines.WilcoxonMannWhitneyLoss(power=0.5), ValueError, "power of .* >= 1"),
    (lambda: baselines.AdversarialFBetaLoss(-1), ValueError, "beta of AdversarialFBetaLoss .* > 0"),
    (lambda: baselines.AdversarialFBetaLoss(max_batch=0), ValueError, "max_batch of .* >= 1"),
    (lambda: baselines.AdversarialFBetaLoss(max_batch=2.5), TypeError, "max_batch of .* integer"),
    (
        lambda: baselines.AdversarialFBetaLoss(solver="lp"),
        ValueError,
        "solver of .* 'exact', 'admm'",
    ),
    (
        lambda: baselines.AdversarialFBetaLoss()(torch.zeros(26), torch.zeros(26)),
        ValueError,
        "logits of AdversarialFBetaLoss .* at most 25 samples; got 26 samples.*split=True",
    ),
    (
        lambda: baselines.AdversarialFBetaLoss()(torch.zeros(4, 3), torch.zeros(4).long()),
        ValueError,
        "the loss is binary",
    ),
]


@pytest.mark.whole
@pytest.mark.parametrize(("provoke", "error", "message"), OPTIONS)
def test_wrong_options(provoke, error, message):
    assert_error(provoke, error, message)


def test_a_missing_name_is_no_baseline():
    with pytest.raises(AttributeError, match="no attribute 'HingeLoss'"):
        _ = baselines.HingeLoss
