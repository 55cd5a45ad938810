"""Micro-batches in two passes give the gradient of the full batch."""

import pytest
import torch
from torch import nn

import eastward as ew


def problem(seed=0, classes=4, rows=60):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(rows, 6, generator=generator, dtype=torch.float64)
    y = torch.randint(classes, (rows,), generator=generator)
    weight = torch.rand(rows, generator=generator, dtype=torch.float64)
    return X, y, weight


def network(classes=4, dropout=0.0):
    torch.manual_seed(1)
    layers = (nn.Linear(6, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, classes))
    return nn.Sequential(*layers).double()


def gradients(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


SPLITS = {"equal": [15] * 4, "unequal": [1, 7, 50, 2], "one": [60], "single rows": [1] * 60}
OPTIONS = {
    "plain": {},
    "prior": {"prior": [0.7, 0.1, 0.1, 0.1]},
    "grid": {"threshold": [0.3, 0.5]},
    "ignored": {"ignore_index": 2},
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("metric", ["f1_macro", "matthews_corrcoef", "cohen_kappa_quadratic"])
def test_any_split_gives_the_full_batch_gradient(metric, split, option):
    X, y, weight = problem()
    loss = ew.EASTLoss(metric, **OPTIONS[option])
    whole, parts = network(), network()
    expected = loss(whole(X), y, weight)
    expected.backward()
    sizes = SPLITS[split]
    batches = zip(X.split(sizes), y.split(sizes), weight.split(sizes), strict=True)
    value = ew.exact_backward(loss, parts, batches)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradients(parts), gradients(whole), rtol=1e-7, atol=1e-10)


def test_the_mean_over_micro_batches_is_not_the_full_batch_gradient():
    X, y, _ = problem()
    loss, whole, parts = ew.EASTLoss("f1_macro"), network(), network()
    loss(whole(X), y).backward()
    for inputs, targets in zip(X.split(5), y.split(5), strict=True):
        (loss(parts(inputs), targets) / 12).backward()
    assert (gradients(parts) - gradients(whole)).norm() > 0.05 * gradients(whole).norm()


def test_both_passes_see_the_same_dropout():
    X, y, _ = problem()
    loss, model = ew.EASTLoss("f1_macro"), network(dropout=0.5)
    torch.manual_seed(3)
    value = ew.exact_backward(loss, model, zip(X.split(20), y.split(20), strict=True))
    twin = network(dropout=0.5)
    torch.manual_seed(3)
    logits = torch.cat([twin(part) for part in X.split(20)])
    expected = loss(logits, y)
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(gradients(model), gradients(twin))


def test_multilabel_micro_batches_with_a_prior_are_exact():
    X, _, _ = problem()
    y = (torch.rand(60, 4, generator=torch.Generator().manual_seed(5)) < 0.3).long()
    loss = ew.EASTLoss("f1_macro", multilabel=True, prior=[0.1, 0.2, 0.3, 0.4])
    whole, parts = network(), network()
    loss(whole(X), y).backward()
    ew.exact_backward(loss, parts, zip(X.split(7), y.split(7), strict=True))
    torch.testing.assert_close(gradients(parts), gradients(whole), rtol=1e-6, atol=1e-9)


def test_batch_norm_in_training_mode_is_warned_of():
    X, y, _ = problem()
    model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 4)).double()
    with pytest.warns(UserWarning, match="batch norm in training mode"):
        ew.exact_backward(ew.EASTLoss("accuracy"), model, [(X, y)])


@pytest.mark.parametrize("rows", [1, 9, 60, 100])
def test_large_batches_are_cut_into_chunks(rows):
    X, y, weight = problem()
    loss, whole, parts = ew.EASTLoss("f1_macro"), network(), network()
    loss(whole(X), y, weight).backward()
    batches = zip(X.split(40), y.split(40), weight.split(40), strict=True)
    ew.exact_backward(loss, parts, batches, chunk_rows=rows)
    torch.testing.assert_close(gradients(parts), gradients(whole), rtol=1e-7, atol=1e-10)


def test_the_backward_pass_may_be_a_frameworks_own():
    X, y, _ = problem()
    loss, plain, scaled = ew.EASTLoss("f1_macro"), network(), network()
    batches = list(zip(X.split(20), y.split(20), strict=True))
    ew.exact_backward(loss, plain, batches)
    value = ew.exact_backward(
        loss, scaled, batches, backward=lambda share: (1024 * share).backward()
    )
    torch.testing.assert_close(gradients(scaled), 1024 * gradients(plain))
    torch.testing.assert_close(value, loss(plain(X), y).detach())


def test_batch_norm_statistics_are_updated_once():
    X, y, _ = problem()
    once = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 4)).double()
    twice = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 4)).double()
    for part in X.split(30):
        once(part)
    batches = zip(X.split(30), y.split(30), strict=True)
    with pytest.warns(UserWarning, match="batch norm in training mode"):
        ew.exact_backward(ew.EASTLoss("accuracy"), twice, batches)
    assert int(twice[0].num_batches_tracked) == 2
    torch.testing.assert_close(twice[0].running_mean, once[0].running_mean)
    torch.testing.assert_close(twice[0].running_var, once[0].running_var)


@pytest.mark.parametrize(
    ("loss", "batches", "message"),
    [
        (nn.CrossEntropyLoss(), [], "loss of exact_backward must be an EASTLoss"),
        (ew.EASTLoss("f1_macro", running=0.9), [], "must be without running"),
        (ew.EASTLoss("f1_macro"), [], "micro_batches of exact_backward must be at least one"),
    ],
)
def test_bad_input_is_named(loss, batches, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ew.exact_backward(loss, network(), batches)
