"""Memberships and targets to tables: sums over samples, whatever the shape, weight or mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import multilabel_confusion_matrix

import eastward as ew
from eastward.confusion import Counts, counts_from_confusion


def random_memberships(rows: int, classes: int, dtype=torch.float64) -> torch.Tensor:
    return torch.softmax(2 * torch.randn(rows, classes, dtype=dtype), dim=1)


def looped_confusion(memberships, targets, weights) -> np.ndarray:
    """The definition, sample by sample."""
    table = np.zeros((memberships.shape[1],) * 2)
    for row, label, weight in zip(memberships, targets, weights, strict=True):
        table[label] += weight * row
    return table


@pytest.mark.parametrize("classes", [2, 3, 20])
def test_every_sample_adds_its_weighted_membership_to_the_row_of_its_class(classes):
    memberships, targets = random_memberships(60, classes), torch.randint(classes, (60,))
    weights = torch.rand(60, dtype=torch.float64)
    ours = ew.soft_confusion(memberships, targets, sample_weight=weights)
    expected = looped_confusion(memberships.numpy(), targets.numpy(), weights.numpy())
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_entries_sum_to_the_total_weight(weighted):
    memberships, targets = random_memberships(50, 4), torch.randint(4, (50,))
    weights = torch.rand(50, dtype=torch.float64) if weighted else None
    total = 50.0 if weights is None else weights.sum().item()
    confusion = ew.soft_confusion(memberships, targets, sample_weight=weights)
    assert confusion.sum().item() == pytest.approx(total)
    counts = ew.soft_counts(memberships, targets, sample_weight=weights)
    np.testing.assert_allclose(counts.stack().sum(0).numpy(), np.full(4, total))


def test_tables_of_parts_add_up_to_the_table_of_the_whole():
    memberships, targets = random_memberships(30, 3), torch.randint(3, (30,))
    for build in (ew.soft_confusion, lambda *given: ew.soft_counts(*given).stack()):
        parts = [build(memberships[cut], targets[cut]) for cut in (slice(0, 11), slice(11, 30))]
        torch.testing.assert_close(sum(parts), build(memberships, targets))


def test_the_order_of_samples_does_not_matter():
    memberships, targets, order = (
        random_memberships(30, 3),
        torch.randint(3, (30,)),
        torch.randperm(30),
    )
    torch.testing.assert_close(
        ew.soft_confusion(memberships[order], targets[order]),
        ew.soft_confusion(memberships, targets),
    )


def test_renaming_classes_permutes_rows_and_columns():
    memberships, targets, order = (
        random_memberships(30, 4),
        torch.randint(4, (30,)),
        torch.randperm(4),
    )
    renamed = ew.soft_confusion(memberships[:, order], order.argsort()[targets])
    torch.testing.assert_close(renamed, ew.soft_confusion(memberships, targets)[order][:, order])


def test_weight_two_equals_repetition():
    memberships, targets = random_memberships(20, 3), torch.randint(3, (20,))
    weights = torch.ones(20, dtype=torch.float64)
    weights[:7] = 2
    repeated = ew.soft_confusion(
        torch.cat([memberships, memberships[:7]]), torch.cat([targets, targets[:7]])
    )
    torch.testing.assert_close(
        ew.soft_confusion(memberships, targets, sample_weight=weights), repeated
    )


@pytest.mark.parametrize("label", [-100, 255, -1, 3, 1])
@pytest.mark.parametrize("build", [ew.soft_confusion, ew.soft_counts])
def test_ignored_samples_do_not_exist(build, label):
    memberships, targets = random_memberships(40, 3), torch.randint(3, (40,))
    targets[::4] = label
    kept = targets != label
    ours = build(memberships, targets, ignore_index=label)
    expected = build(memberships[kept], targets[kept], ignore_index=None)
    for got, wanted in zip(_rows(ours), _rows(expected), strict=True):
        torch.testing.assert_close(got, wanted)


def _rows(table) -> list[torch.Tensor]:
    return list(table.stack()) if isinstance(table, Counts) else list(table)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_targets_of_any_integer_type_are_welcome(dtype):
    memberships, targets = random_memberships(9, 3), torch.arange(9) % 3
    expected = ew.soft_confusion(memberships, targets)
    torch.testing.assert_close(ew.soft_confusion(memberships, targets.to(dtype)), expected)


def test_ignored_samples_get_no_gradient():
    memberships = random_memberships(4, 3).requires_grad_()
    targets = torch.tensor([0, -100, 2, -100])
    ew.soft_confusion(memberships, targets)[:, 0].sum().backward()
    assert memberships.grad[[1, 3]].abs().sum() == 0
    assert memberships.grad[[0, 2], 0].tolist() == [1.0, 1.0]


def test_spatial_input_equals_its_flattened_pixels():
    memberships = torch.softmax(torch.randn(2, 3, 4, 5), dim=1)
    targets, weights = torch.randint(3, (2, 4, 5)), torch.rand(2, 4, 5)
    flat = memberships.permute(0, 2, 3, 1).reshape(-1, 3)
    torch.testing.assert_close(
        ew.soft_confusion(memberships, targets, sample_weight=weights),
        ew.soft_confusion(flat, targets.flatten(), sample_weight=weights.flatten()),
    )


def test_a_weight_per_image_holds_for_all_its_pixels():
    memberships, targets = torch.softmax(torch.randn(2, 3, 4), dim=1), torch.randint(3, (2, 4))
    torch.testing.assert_close(
        ew.soft_confusion(memberships, targets, sample_weight=torch.tensor([1.0, 3.0])),
        ew.soft_confusion(memberships, targets, sample_weight=torch.tensor([[1.0] * 4, [3.0] * 4])),
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_are_those_of_the_matrix(weighted):
    memberships, targets = random_memberships(50, 6), torch.randint(4, (50,))
    options = {"sample_weight": torch.rand(50).double() if weighted else None}
    expected = counts_from_confusion(ew.soft_confusion(memberships, targets, **options))
    ours = ew.soft_counts(memberships, targets, **options)
    torch.testing.assert_close(ours.stack(), expected.stack())


def test_counts_of_a_matrix_are_the_one_vs_rest_tables():
    truth, predicted = np.random.default_rng(0).integers(4, size=(2, 80))
    table = np.zeros((4, 4))
    np.add.at(table, (truth, predicted), 1)
    counts = counts_from_confusion(torch.from_numpy(table))
    expected = multilabel_confusion_matrix(truth, predicted, labels=range(4))
    np.testing.assert_allclose(counts.tn, expected[:, 0, 0])
    np.testing.assert_allclose(counts.fp, expected[:, 0, 1])
    np.testing.assert_allclose(counts.fn, expected[:, 1, 0])
    np.testing.assert_allclose(counts.tp, expected[:, 1, 1])


def test_multilabel_counts_of_hard_memberships_are_scikit_learns():
    generator = np.random.default_rng(1)
    truth, predicted = generator.integers(2, size=(2, 70, 5))
    weights = generator.random(70)
    counts = ew.multilabel_counts(
        torch.from_numpy(predicted).double(),
        torch.from_numpy(truth),
        sample_weight=torch.from_numpy(weights),
    )
    expected = multilabel_confusion_matrix(truth, predicted, sample_weight=weights)
    np.testing.assert_allclose(counts.tn, expected[:, 0, 0])
    np.testing.assert_allclose(counts.fp, expected[:, 0, 1])
    np.testing.assert_allclose(counts.fn, expected[:, 1, 0])
    np.testing.assert_allclose(counts.tp, expected[:, 1, 1])
    assert not counts.exclusive


def test_ignored_multilabel_entries_do_not_exist():
    memberships, targets = torch.rand(20, 2).double(), torch.randint(2, (20, 2))
    targets[:5, 0] = 255
    ours = ew.multilabel_counts(memberships, targets, ignore_index=255)
    first = ew.multilabel_counts(memberships[5:, :1], targets[5:, :1])
    torch.testing.assert_close(ours.stack()[:, 0], first.stack()[:, 0])
    assert ours.stack().sum(0).tolist() == [15.0, 20.0]


def test_weights_of_single_multilabel_entries_are_used():
    memberships, targets = torch.rand(4, 2).double(), torch.randint(2, (4, 2))
    weights = torch.ones(4, 2)
    weights[0, 1] = 2
    extra = ew.multilabel_counts(memberships, targets, sample_weight=weights).stack()
    plain = ew.multilabel_counts(memberships, targets).stack()
    single = ew.multilabel_counts(memberships[:1], targets[:1]).stack()
    torch.testing.assert_close(extra[:, 0], plain[:, 0])
    torch.testing.assert_close(extra[:, 1], plain[:, 1] + single[:, 1])


def test_with_a_prior_rows_are_conditional_means_times_the_prior():
    memberships, targets = random_memberships(40, 3), torch.randint(3, (40,))
    prior = [0.7, 0.2, 0.1]
    ours = ew.soft_confusion(memberships, targets, prior=prior).numpy()
    for label in range(3):
        mean = memberships[targets == label].mean(0).numpy()
        np.testing.assert_allclose(ours[label], prior[label] * mean)


def test_a_stratified_batch_with_the_prior_is_a_reweighted_one():
    memberships, targets = random_memberships(30, 3), torch.arange(30) % 3
    prior = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    for build in (ew.soft_confusion, ew.soft_counts):
        ours = build(memberships, targets, prior=prior)
        reweighted = build(memberships, targets, sample_weight=prior[targets] / 10)
        for got, wanted in zip(_rows(ours), _rows(reweighted), strict=True):
            torch.testing.assert_close(got, wanted)


def test_with_a_prior_the_row_of_an_absent_class_stays_zero():
    confusion = ew.soft_confusion(
        random_memberships(4, 3), torch.tensor([0, 0, 1, 1]), prior=[0.5, 0.3, 0.2]
    )
    assert confusion[2].abs().sum() == 0
    assert torch.isfinite(confusion).all()


def test_a_multilabel_prior_sets_the_rate_of_positives():
    memberships, targets = torch.rand(20, 2).double(), torch.randint(2, (20, 2))
    counts = ew.multilabel_counts(memberships, targets, prior=[0.1, 0.6])
    torch.testing.assert_close(counts.true, torch.tensor([0.1, 0.6]).double(), atol=1e-7, rtol=0)
    torch.testing.assert_close(counts.stack().sum(0), torch.ones(2).double(), atol=1e-7, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_memberships_are_summed_in_single_precision(dtype):
    # A float16 sum of ones stops growing at 2048, a bfloat16 one at 256.
    memberships = torch.tensor([[1.0, 0.0]], dtype=dtype).expand(5000, 2)
    confusion = ew.soft_confusion(memberships, torch.zeros(5000, dtype=torch.long))
    assert confusion.dtype == torch.float32
    assert confusion[0, 0].item() == 5000


def test_double_precision_stays_double():
    assert ew.soft_confusion(random_memberships(3, 2), torch.zeros(3).long()).dtype == torch.float64
