"""Bad input to `align`: one clear sentence each."""

from __future__ import annotations

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies import FSDPStrategy
from small_networks import clusters, loader, mlp, three_classes
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, IterableDataset

import eastward as ew


class SharedHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 6), nn.Linear(6, 6)
        self.head.weight = self.body.weight

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


class HeadTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 6)

    def forward(self, x):
        return self.head(torch.relu(self.head(x)))


def frozen_head():
    network = mlp(3)
    network[2].requires_grad_(requires_grad=False)
    return network


def remembering():
    """A network that keeps its last output, with its history."""
    network = mlp(3)
    network.last = network(torch.zeros(1, 6))
    return network


def rows(**changes):
    network, train, valid, _ = three_classes()
    return {"model": network, "train_loader": train, "valid_loader": valid, **changes}


def with_labels(value):
    X, y = clusters((60, 30, 10))
    y[0] = value
    return loader(X, y)


def unlabelled():
    X, y = clusters((60, 30, 10))
    return loader(X, torch.full_like(y, -100))


def soft_labels():
    X, y = clusters((60, 30, 10))
    return loader(X, y.clamp(max=1) + 0.5)


def without_class():
    X, y = clusters((60, 30, 10))
    return loader(X[y != 2], y[y != 2])


def sharded():
    """A Fabric that cuts networks into pieces, as FSDP 1 does; it is only looked at."""
    fabric = Fabric.__new__(Fabric)
    fabric._strategy = FSDPStrategy()
    return fabric


class Once(IterableDataset):
    """Rows of an open file: a second pass finds nothing."""

    def __init__(self, X, y):
        self.rows = iter(list(zip(X, y, strict=True)))

    def __iter__(self):
        return self.rows


class Shuffled:
    """Batches in another order each time."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        self.batches = self.batches[1:] + self.batches[:1]
        return iter(self.batches)


class UsedUp:
    """Batches of so many passes, and then none."""

    def __init__(self, batches, passes):
        self.batches, self.passes = batches, passes

    def __iter__(self):
        self.passes -= 1
        return iter(self.batches if self.passes >= 0 else [])


def of_one_pass():
    return DataLoader(Once(*clusters((60, 30, 10))), 32)


def shuffled():
    return Shuffled(list(with_labels(0)))


def used_up():
    return UsedUp(list(with_labels(0)), passes=3)


def with_gap():
    X, y = clusters((60, 30, 10))
    X[70, 2] = torch.nan
    return loader(X, y)


def of_words():
    X, y = clusters((60, 30, 10))
    return [{"pixels": X, "labels": y}]


CASES = {
    "a gap in a later batch": (
        lambda: rows(valid_loader=with_gap()),
        ValueError,
        r"valid_loader .* returns numbers; got a batch for which it returns 3 NaN\. Look for missing",
    ),
    "names that the model does not know": (
        lambda: rows(train_loader=of_words()),
        ValueError,
        r"train_loader .* the model accepts; got .*'pixels'\. Pass forward=",
    ),
    "sharded": (
        lambda: rows(fabric=sharded()),
        ValueError,
        r"fabric .* DDP or ModelParallelStrategy; got one with FSDPStrategy\. Use .* fully_shard",
    ),
    "no module": (lambda: rows(model=lambda x: x), TypeError, r"model .* torch.nn.Module; got"),
    "probabilities": (
        lambda: rows(model=nn.Sequential(mlp(3), nn.Softmax(1))),
        ValueError,
        r"model .* ends in a linear layer; got one whose output comes from none of its 2 .* no softmax.* head='added'",
    ),
    "probabilities with a head added": (
        lambda: rows(model=nn.Sequential(mlp(3), nn.Softmax(1)), head="added"),
        ValueError,
        r"model .* returns logits; got probabilities\. Leave out the softmax",
    ),
    "a head whose weights are computed": (
        lambda: rows(model=nn.Sequential(*mlp(3)[:2], weight_norm(nn.Linear(16, 3)))),
        ValueError,
        r"comes from none of its 1 linear layers\..* head='added'",
    ),
    "a head added in place": (
        lambda: rows(head="added", inplace=True),
        ValueError,
        r"inplace of align must be False with head='added'; got True\. Use result\.model",
    ),
    "a head added to another call": (
        lambda: rows(head="added", forward=lambda model, x: model(x)),
        ValueError,
        r"forward of align must be None with head='added'",
    ),
    "no linear layer": (
        lambda: rows(
            model=nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 6), nn.Flatten())
        ),
        ValueError,
        r"none of its 0 linear layers",
    ),
    "head of another name": (
        lambda: rows(head="fc"),
        ValueError,
        r"head .* path of a linear layer.*; got 'fc'\. There are \['0', '2'\]",
    ),
    "head that is no linear layer": (lambda: rows(head="1"), ValueError, r"got '1', a ReLU"),
    "head in the middle": (
        lambda: rows(head="0"),
        ValueError,
        r"head .* the model returns; got '0'",
    ),
    "shared head": (lambda: rows(model=SharedHead()), ValueError, r"weights shared by \['body"),
    "head used twice": (lambda: rows(model=HeadTwice()), ValueError, r"used 2 times in a pass"),
    "a network that cannot be copied": (
        lambda: rows(model=remembering()),
        ValueError,
        r"model .* can be copied; got .* copy\.deepcopy refuses: Only Tensors created .*\. Detach",
    ),
    "frozen head": (
        lambda: rows(model=frozen_head()),
        ValueError,
        r"head of align must be trainable; got '2' with a frozen weight and bias.*requires_grad_",
    ),
    "half precision": (
        lambda: rows(model=mlp(3).bfloat16()),
        ValueError,
        r"float32; got parameters in torch.bfloat16\. Pass model.float\(\)",
    ),
    "empty loader": (
        lambda: rows(train_loader=[]),
        ValueError,
        r"train_loader .* got an empty one",
    ),
    "loader of one pass": (
        lambda: rows(valid_loader=iter([])),
        TypeError,
        r"valid_loader .* repeatable; got a list_iterator",
    ),
    "data set of one pass": (
        lambda: rows(train_loader=of_one_pass()),
        TypeError,
        r"train_loader .* repeatable; got a loader of a Once whose rows are used up .* start over",
    ),
    "loader that is used up": (
        lambda: rows(train_loader=used_up()),
        ValueError,
        r"train_loader .* a repeatable loader .*; got one whose rows are used up",
    ),
    "validation in another order": (
        lambda: rows(valid_loader=shuffled(), epochs=1),
        ValueError,
        r"valid_loader .* the same rows in every pass; got other rows, or another order",
    ),
    "nothing labelled": (
        lambda: rows(train_loader=unlabelled()),
        ValueError,
        r"train_loader .* at least one labelled row; got one without labels",
    ),
    "soft labels": (
        lambda: rows(train_loader=soft_labels()),
        ValueError,
        r"targets of train_loader of align must be class indices, or zeros and ones; got values such as 0\.5\. Choose",
    ),
    "no loader": (
        lambda: rows(valid_loader=3),
        TypeError,
        r"valid_loader .* DataLoader.*; got int 3",
    ),
    "batches of one thing": (
        lambda: rows(train_loader=[torch.zeros(2, 6)]),
        TypeError,
        r"yields \(inputs, targets\)",
    ),
    "mapping without labels": (lambda: rows(train_loader=[{"x": 1}]), ValueError, r"\['x'\]"),
    "label out of range": (
        lambda: rows(train_loader=with_labels(3)),
        ValueError,
        r"targets of train_loader of align must be in \[0, 3\); got 1 outside, for example 3",
    ),
    "negative label": (lambda: rows(valid_loader=with_labels(-1)), ValueError, r"for example -1"),
    "validation without a class": (
        lambda: rows(valid_loader=without_class()),
        ValueError,
        r"valid_loader .* every class of training; got no row of class \[2\]\. Split it",
    ),
    "targets of another shape": (
        lambda: rows(train_loader=[(torch.zeros(4, 6), torch.zeros(4, 2).long())]),
        ValueError,
        r"targets of align must be of shape \(4,\)",
    ),
    "metric of another name": (lambda: rows(metric="f1_makro"), ValueError, r"f1_macro"),
    "metric of two classes": (lambda: rows(metric="f1"), ValueError, r"two classes|binary"),
    "prior of another name": (lambda: rows(prior="equal"), ValueError, r"prior .* 'balanced'"),
    "prior of another length": (lambda: rows(prior=[0.5, 0.5]), ValueError, r"length 3"),
    "prior that does not sum to one": (lambda: rows(prior=[1, 1, 1]), ValueError, r"sums to 1"),
    "stage of another name": (lambda: rows(stages=("heads",)), ValueError, r"Did you mean 'head'"),
    "no epochs": (lambda: rows(epochs=0), ValueError, r"epochs of align must be >= 1"),
    "evidence that is no number": (lambda: rows(evidence="much"), TypeError, r"evidence"),
}


@pytest.mark.parametrize("case", list(CASES))
def test_one_clear_sentence(case):
    arguments, error, sentence = CASES[case]
    with pytest.raises(error, match=sentence):
        ew.align(**arguments())


@pytest.mark.parametrize("name", ["prior", "subject_to"])
def test_labels_know_neither_prior_nor_constraints(name):
    X, y = clusters((60, 30, 10))
    data = loader(X, nn.functional.one_hot(y).float())
    value = {"prior": "balanced", "subject_to": "recall[0] >= 0.5"}[name]
    with pytest.raises(ValueError, match=f"{name} of align must be None for labels"):
        ew.align(mlp(3), data, data, **{name: value})
