"""Whatever the batch looks like, value and gradient are finite, and errors still cost."""

from __future__ import annotations

import warnings

import pytest
import torch
from metric_table import METRICS, build, sizes_for
from torch.utils._python_dispatch import TorchDispatchMode

import eastward as ew

NAMES = sorted(METRICS)


def value_and_gradient(name, logits, targets, **options):
    """Loss and its gradient, both asserted finite and the value in the metric's range."""
    case = METRICS[name]
    size = logits.shape[1]
    logits = logits.clone().requires_grad_()
    loss = ew.metric_loss(logits, targets, build(name, size), **options)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(loss), loss
    assert torch.isfinite(gradient).all()
    assert -1e-3 <= loss.item() <= 1 - case.low + 1e-3
    return loss.detach(), gradient


EXTREMES = {
    "float32 at 1e4": (1e4, torch.float32),
    "float64 at 1e4": (1e4, torch.float64),
    "float32 near its largest number": (torch.finfo(torch.float32).max, torch.float32),
    "float64 near its largest number": (torch.finfo(torch.float64).max, torch.float64),
    "float16 near its largest number": (torch.finfo(torch.float16).max, torch.float16),
    "bfloat16 near its largest number": (torch.finfo(torch.bfloat16).max, torch.bfloat16),
}


@pytest.mark.parametrize("kind", EXTREMES)
@pytest.mark.parametrize("name", NAMES)
def test_extreme_logits_are_finite(name, kind):
    size_of_logit, dtype = EXTREMES[kind]
    (size,) = sizes_for(name, 3)
    signs = torch.where(torch.rand(12, size) < 0.5, -1.0, 1.0).to(dtype)
    value_and_gradient(name, size_of_logit * signs, torch.arange(12) % size)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_half_precision_images_are_finite_and_as_exact_as_their_type(name, dtype):
    (size,) = sizes_for(name, 3)
    logits = torch.randn(2, size, 256, 256).to(dtype)
    targets = torch.randint(size, (2, 256, 256))
    loss, gradient = value_and_gradient(name, logits, targets)
    assert loss.dtype == gradient.dtype == dtype
    exact = ew.metric_loss(logits.float(), targets, build(name, size))
    assert loss.item() == pytest.approx(exact.item(), abs=2 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("temperature", [1e-6, 1e-4, 0.01, 0.2, 0.4])
@pytest.mark.parametrize("name", NAMES)
def test_every_temperature_is_finite(name, temperature):
    (size,) = sizes_for(name, 4)
    targets = torch.arange(40) % size
    for scale in (0.0, 1.0, 30.0):
        value_and_gradient(name, scale * torch.randn(40, size), targets, temperature=temperature)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_one_class_is_finite(name, label):
    for size in sizes_for(name, 2, 5):
        targets = torch.full((16,), label)
        for scale in (0.0, 1.0, 50.0):
            value_and_gradient(name, scale * torch.randn(16, size), targets)


@pytest.mark.parametrize("absent", ["skip", "observed", "zero", "one"])
@pytest.mark.parametrize("name", NAMES)
def test_a_single_sample_is_finite_under_every_policy(name, absent):
    for size in sizes_for(name, 2, 5):
        for label in (0, 1):
            value_and_gradient(name, torch.randn(1, size), torch.tensor([label]), absent=absent)


# Recall of class 1 does not count false positives; every other metric does.
COUNT_FALSE_POSITIVES = [name for name in NAMES if not name.startswith("recall") or "_" in name]


@pytest.mark.parametrize("shape", ["two logits", "one logit"])
@pytest.mark.parametrize("name", COUNT_FALSE_POSITIVES)
def test_without_positives_false_positives_are_still_pushed_down(name, shape):
    # Every negative must feel that its positive logit is too high.
    logits = torch.randn(12, 2) if shape == "two logits" else torch.randn(12, 1)
    logits.requires_grad_()
    loss = ew.metric_loss(logits, torch.zeros(12, dtype=torch.long), build(name, 2))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert (gradient[:, -1] > 0).all()


def test_without_positives_training_still_removes_the_false_positives():
    logits = torch.randn(30, requires_grad=True)
    optimiser, loss = torch.optim.Adam([logits], lr=0.1), ew.EASTLoss("f1")
    for _ in range(100):
        optimiser.zero_grad()
        loss(logits, torch.zeros(30)).backward()
        optimiser.step()
    assert (logits < 0).all()


@pytest.mark.parametrize("size", [2, 3, 10, 100, 1000, 10_000])
@pytest.mark.parametrize("name", ["f1_macro", "accuracy", "matthews_corrcoef", "geometric_mean"])
def test_any_number_of_classes_is_finite(name, size):
    _, gradient = value_and_gradient(name, torch.randn(32, size), torch.randint(size, (32,)))
    assert gradient.abs().sum() > 0


ALL_IGNORED = {
    "classes": (torch.randn(4, 3), torch.full((4,), -100), {}),
    "single logit": (torch.randn(4), torch.full((4,), -100), {}),
    "labels": (torch.randn(4, 3), torch.full((4, 3), -100), {"multilabel": True}),
    "zero weights": (torch.randn(4, 3), torch.arange(4) % 3, {"sample_weight": torch.zeros(4)}),
    "no samples": (torch.randn(0, 3), torch.zeros(0, dtype=torch.long), {}),
}


@pytest.mark.parametrize("kind", ALL_IGNORED)
@pytest.mark.parametrize("metric", ["f1_macro", "accuracy", "matthews_corrcoef"])
def test_a_batch_of_ignored_samples_costs_nothing_and_warns_once(metric, kind):
    logits, targets, options = ALL_IGNORED[kind]
    logits = logits.clone().requires_grad_()
    with pytest.warns(UserWarning, match="every sample is ignored or has weight zero") as caught:
        loss = ew.metric_loss(logits, targets, metric, **options)
    assert len(caught) == 1
    assert loss.item() == 0
    (gradient,) = torch.autograd.grad(loss, logits)
    assert (gradient == 0).all()


def test_without_checks_a_batch_of_ignored_samples_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = ew.EASTLoss(check_inputs=False)(torch.randn(2, 3), torch.tensor([-100, -100]))
    assert loss.item() == 0


@pytest.mark.parametrize("loss", [ew.AUROCLoss, ew.AveragePrecisionLoss])
@pytest.mark.parametrize("label", [0, 1])
def test_ranking_losses_of_a_batch_without_both_classes_are_flat_and_finite(loss, label):
    logits = torch.randn(6, requires_grad=True)
    value = loss()(logits, torch.full((6,), label))
    (gradient,) = torch.autograd.grad(value, logits)
    assert torch.isfinite(value)
    assert (gradient == 0).all()


class LargestTensor(TorchDispatchMode):
    """Remembers how many elements the largest tensor had that any operation made."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // 4)
        return made


@pytest.mark.parametrize("name", [n for n in NAMES if not build(n, 2).needs_matrix])
def test_memory_grows_as_samples_times_classes(name):
    (size,) = sizes_for(name, 2000)
    rows = 16
    logits = torch.randn(rows, size, requires_grad=True)
    with LargestTensor() as largest:
        ew.metric_loss(logits, torch.arange(rows) % size, build(name, 2)).backward()
    # Twice: integer indices take eight bytes.
    assert largest.elements <= 2 * rows * size


def test_ten_thousand_classes_never_build_their_square():
    logits = torch.randn(1024, 10_000, requires_grad=True)
    with LargestTensor() as largest:
        ew.EASTLoss("f1_macro")(logits, torch.randint(10_000, (1024,))).backward()
    assert largest.elements < 10_000**2 / 4


def test_the_watcher_of_tensors_detects_a_square_matrix():
    with LargestTensor() as largest:
        ew.metric_loss(torch.randn(8, 300), torch.arange(8), "cohen_kappa_linear")
    assert largest.elements >= 300**2


MULTILABEL_METRICS = [
    "f1_macro",
    "f1_micro",
    "f1_weighted",
    "jaccard_macro",
    "precision_macro",
    "matthews_corrcoef",
    "cohen_kappa",
    "balanced_accuracy",
    "geometric_mean",
    "accuracy",
]


@pytest.mark.parametrize("metric", MULTILABEL_METRICS)
def test_false_positives_of_labels_without_positives_get_a_gradient(metric):
    torch.manual_seed(0)
    logits = torch.randn(8, 3, requires_grad=True)
    loss = ew.metric_loss(logits, torch.zeros(8, 3), metric, multilabel=True)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(gradient).all()
    assert (gradient > 0).all(), "every label that is wrongly predicted must be pushed down"


def test_a_micro_average_is_untouched_as_long_as_one_label_has_positives():
    torch.manual_seed(0)
    logits, targets = torch.randn(8, 3), torch.zeros(8, 3)
    targets[:4, 0] = 1
    degrees = ew.heaviside(torch.sigmoid(logits), 0.5, 0.2)
    expected = 1 - ew.metrics.f1(ew.multilabel_counts(degrees, targets), "micro")
    torch.testing.assert_close(
        ew.metric_loss(logits, targets, "f1_micro", multilabel=True), expected
    )


@pytest.mark.parametrize("loss", [ew.AUROCLoss(), ew.AveragePrecisionLoss()])
def test_ranking_losses_of_nothing_are_zero_with_a_warning(loss):
    logits = torch.randn(4, 3, requires_grad=True)
    with pytest.warns(UserWarning, match="every sample is ignored"):
        value = loss(logits, torch.full((4,), -100))
    value.backward()
    assert value.item() == 0
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("metric", ["f1_macro", "accuracy", "matthews_corrcoef", "geometric_mean"])
def test_nan_is_not_taken_for_a_zero(metric):
    """Unchecked NaN logits must not look like a loss of one: a zero is a count that vanished, NaN is a mishap."""
    logits = torch.tensor([[float("nan"), 0.0], [0.0, 1.0], [1.0, 0.0]], requires_grad=True)
    loss = ew.EASTLoss(metric, check_inputs=False)(logits, torch.tensor([0, 1, 1]))
    assert loss.detach().isnan()
