"""Every loss against its formula, and the laws that they share."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from baseline_table import BASELINES, softmax
from torch.nn import functional

from eastward import baselines

NAMES = sorted(BASELINES)
MULTICLASS = [name for name in NAMES if not BASELINES[name].binary_only]
CASES = [(name, 2) for name in NAMES] + [(name, size) for name in MULTICLASS for size in (3, 5)]


def batch(size, rows=24, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, size, generator=generator, dtype=torch.float64)
    return logits, torch.arange(rows) * 7 % size


def expected(name, logits, targets, weight=None):
    weight = np.ones(len(targets)) if weight is None else weight.numpy()
    return BASELINES[name].oracle(softmax(logits.numpy()), targets.numpy(), weight)


@pytest.mark.parametrize(("name", "size"), CASES)
def test_the_value_is_that_of_the_formula(name, size):
    logits, targets = batch(size)
    value = BASELINES[name].build(size)(logits, targets)
    assert value.shape == ()
    assert value.dtype == torch.float64
    assert value.item() == pytest.approx(expected(name, logits, targets), rel=1e-6)


@pytest.mark.parametrize(("name", "size"), CASES)
def test_weights_enter_the_formula(name, size):
    logits, targets = batch(size)
    weight = torch.linspace(0.1, 2, len(targets), dtype=torch.float64)
    value = BASELINES[name].build(size)(logits, targets, sample_weight=weight)
    assert value.item() == pytest.approx(expected(name, logits, targets, weight), rel=1e-6)
    assert value.item() != pytest.approx(expected(name, logits, targets), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(24,), (24, 1)])
def test_a_single_logit_is_the_lead_of_class_one(name, shape):
    logits, targets = batch(2)
    lead = (logits[:, 1] - logits[:, 0]).reshape(shape)
    loss = BASELINES[name].build()
    assert loss(lead, targets).item() == pytest.approx(loss(logits, targets).item(), rel=1e-9)
    indicators = targets.double().reshape(shape)
    assert loss(lead, indicators).item() == pytest.approx(loss(logits, targets).item(), rel=1e-9)


@pytest.mark.parametrize("name", MULTICLASS)
def test_pixels_are_samples(name):
    logits, targets = batch(3, rows=24)
    image = logits.reshape(2, 3, 4, 3).movedim(-1, 1)
    loss = BASELINES[name].build(3)
    assert loss(image, targets.reshape(2, 3, 4)).item() == pytest.approx(
        loss(logits, targets).item(), rel=1e-9
    )


@pytest.mark.parametrize(("name", "size"), CASES)
def test_the_gradient_is_that_of_the_value(name, size):
    logits, targets = batch(size, rows=12)
    loss = BASELINES[name].build(size)
    assert torch.autograd.gradcheck(lambda z: loss(z, targets), (logits.requires_grad_(),))


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_of_a_single_logit_is_that_of_the_value(name):
    logits = torch.randn(12, dtype=torch.float64, requires_grad=True)
    loss = BASELINES[name].build()
    assert torch.autograd.gradcheck(lambda z: loss(z, torch.arange(12) % 2), (logits,))


@pytest.mark.parametrize("name", NAMES)
def test_an_ignored_sample_does_not_exist(name):
    logits, targets = batch(2)
    loss = BASELINES[name].build()
    marked = torch.where(torch.arange(24) < 5, -100, targets)
    assert loss(logits, marked).item() == pytest.approx(
        loss(logits[5:], targets[5:]).item(), rel=1e-9
    )
    other = BASELINES[name].build(ignore_index=7)
    marked = torch.where(torch.arange(24) < 5, 7, targets).float()
    lead = logits[:, 1] - logits[:, 0]
    assert other(lead, marked).item() == pytest.approx(
        loss(logits[5:], targets[5:]).item(), rel=1e-9
    )


@pytest.mark.parametrize("name", NAMES)
def test_weight_two_is_two_samples(name):
    logits, targets = batch(2)
    loss = BASELINES[name].build()
    weight = torch.where(torch.arange(24) < 6, 2.0, 1.0)
    twice = torch.cat([logits, logits[:6]]), torch.cat([targets, targets[:6]])
    assert loss(logits, targets, weight).item() == pytest.approx(loss(*twice).item(), rel=1e-7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("labels", [0, 1])
@pytest.mark.parametrize("size", [0.0, 5.0, -5.0, 200.0, -200.0])
def test_batches_of_one_class_and_huge_logits_stay_finite(name, labels, size):
    logits = torch.full((6,), size, requires_grad=True)
    loss = BASELINES[name].build()(logits, torch.full((6,), labels))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_left_is_zero_and_flat(name):
    logits = torch.randn(4, requires_grad=True)
    loss = BASELINES[name].build()(logits, torch.full((4,), -100))
    loss.backward()
    assert loss.item() == 0
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_computed_wider(name):
    logits, targets = batch(2, rows=24)
    short = logits.to(torch.bfloat16)
    loss = BASELINES[name].build()
    value = loss(short, targets)
    assert value.dtype == torch.bfloat16
    assert value.float().item() == pytest.approx(loss(short.float(), targets).item(), rel=0.01)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(short, targets).dtype == torch.float32


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_can_be_pickled_and_moved(name):
    logits, targets = batch(2)
    loss = BASELINES[name].build()
    copy = pickle.loads(pickle.dumps(loss)).double()
    assert copy(logits, targets).item() == pytest.approx(loss(logits, targets).item(), rel=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_descent_separates_what_can_be_separated(name):
    # One feature separates the classes, and the share of positives is the one the losses expect: every baseline must
    # learn it.
    features = torch.linspace(-1, 1, 40).unsqueeze(1)
    targets = (features[:, 0] > 0.35).long()
    weight = torch.zeros(2, requires_grad=True)
    loss = BASELINES[name].build()
    optimizer = torch.optim.Adam([weight], lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        loss(features[:, 0] * weight[0] + weight[1], targets).backward()
        optimizer.step()
    scores = (features[:, 0] * weight[0] + weight[1]).detach()
    if name == "dice per sample":  # negatives have no gradient: everything becomes positive
        assert (scores > 0).all()
    else:
        assert scores[targets == 1].min() > scores[targets == 0].max()
        assert weight[0].item() > 0.5


def test_focal_loss_without_focus_is_cross_entropy():
    logits, targets = batch(5)
    assert baselines.FocalLoss(0)(logits, targets).item() == pytest.approx(
        functional.cross_entropy(logits, targets).item()
    )


def test_effective_numbers_lie_between_equal_weights_and_inverse_frequency():
    counts = [1000, 100, 10]
    inverse = baselines.class_weights(counts)
    assert inverse.tolist() == pytest.approx([1.11, 11.1, 111.0])
    inverse = inverse / inverse.sum() * 3
    nearly = baselines.class_weights(counts, scheme="effective_number", effective_beta=1 - 1e-9)
    torch.testing.assert_close(nearly, inverse, rtol=1e-5, atol=0)
    middle = baselines.class_weights(counts, scheme="effective_number", effective_beta=0.99)
    assert middle.sum().item() == pytest.approx(3)
    assert 1 < middle[2].item() < inverse[2].item()
    by_hand = np.array([(1 - 0.99) / (1 - 0.99**n) for n in counts])
    np.testing.assert_allclose(middle.numpy(), by_hand / by_hand.sum() * 3, rtol=1e-12)


def test_every_class_may_have_its_own_beta():
    logits, targets = batch(3)
    mixed = baselines.SoftFBetaLoss({2: 3.0})(logits, targets)
    assert mixed.item() == pytest.approx(
        baselines.SoftFBetaLoss([1, 1, 3.0])(logits, targets).item()
    )
    betas = torch.tensor([1.0, 1.0, 3.0])
    assert mixed.item() == pytest.approx(baselines.SoftFBetaLoss(betas)(logits, targets).item())
    assert mixed.item() != pytest.approx(baselines.SoftFBetaLoss()(logits, targets).item())


def test_dice_without_squares_is_the_soft_f1():
    logits, targets = batch(3)
    assert baselines.DiceLoss(squared=False)(logits, targets).item() == pytest.approx(
        baselines.SoftFBetaLoss()(logits, targets).item()
    )


def test_the_soft_f_beta_is_the_metric_of_the_probabilities():
    import eastward as ew

    logits, targets = batch(4)
    confusion = ew.soft_confusion(torch.softmax(logits, 1), targets)
    metric = ew.metrics.f_beta(confusion, beta=2.0, average="macro")
    assert baselines.SoftFBetaLoss(2.0)(logits, targets).item() == pytest.approx(1 - metric.item())


def test_smoothing_gives_a_batch_without_positives_a_gradient():
    logits = torch.zeros(4, requires_grad=True)
    baselines.DiceLoss()(logits, torch.zeros(4)).backward()
    assert (logits.grad == 0).all()
    baselines.DiceLoss(smooth=1.0)(logits, torch.zeros(4)).backward()
    assert (logits.grad > 0).all()
