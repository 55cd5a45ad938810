"""Bad calls of `align`: each is refused in one sentence, before a row is read or anything is trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refused_calls import assert_refused
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import eastward as ew

# NET is a trained network, DL a loader of X and y.
CALLS = """
ew.align(NET, DL, DL, stages=3) ==> stages of align
ew.align(NET, DL, DL, stages="decision") ==> stages of align
ew.align(NET, DL, DL, classes=3) ==> classes of align
ew.align(NET, DL, DL, classes=["a"]) ==> classes of align
ew.align(NET, DL, DL, classes="no") ==> classes of align
ew.align(NET, DL, DL, subject_to="nonsense") ==> subject_to of align
ew.align(NET, DL, DL, subject_to="recall[7] >= 0.5") ==> subject_to of align
ew.align(NET, DL, DL, subject_to=3) ==> subject_to of align
ew.align(NET, DL, DL, confidence=2) ==> confidence of align
ew.align(NET, DL, DL, abstain_cost=-1) ==> abstain_cost of align
ew.align(NET, DL, DL, abstain_cost="x") ==> abstain_cost of align
ew.align(NET, DL, DL, batch_size=0) ==> batch_size of align
ew.align(NET, DL, DL, batch_size=1.5) ==> batch_size of align
ew.align(NET, DL, DL, weight_decay=-1) ==> weight_decay of align
ew.align(NET, DL, DL, learning_rate="x") ==> learning_rate of align
ew.align(NET, DL, DL, ignore_index="x") ==> ignore_index of align
ew.align(NET, DL, DL, checkpoint=3) ==> checkpoint of align
ew.align(NET, DL, DL, checkpoint="") ==> checkpoint of align
ew.align(NET, DL, DL, forward=3) ==> forward of align
ew.align(NET, DL, DL, head=3) ==> head of align
ew.align(NET, DL, DL, head="x") ==> head of align
ew.align(NET, DL, DL, devices=0) ==> devices of align
ew.align(NET, DL, DL, devices="x") ==> devices of align
ew.align(NET, DL, DL, devices=10**30) ==> devices of align
ew.align(NET, DL, DL, precision="7") ==> accelerator, devices, strategy, precision of align
ew.align(NET, DL, DL, fabric=3) ==> fabric of align
ew.align(NET, DL, DL, verbose="x") ==> verbose of align
ew.align(NET, DL, DL, random_state=10**30) ==> random_state of align
ew.align(NET, DL, DL, random_state=None) ==> random_state of align
ew.align(NET, DL, DL, prior="x") ==> prior of align
ew.align(NET, DL, DL, prior=[1]) ==> prior of align
ew.align(NET, DL, DL, prior=[0.9, 0.9]) ==> prior of align
ew.align(NET, DL, DL, metric="f7x") ==> metric of align
ew.align(NET, DL, DL, metric=3) ==> metric of align
ew.align(NET, DL, DL, evidence="x") ==> evidence of align
ew.align(NET, DL, DL, epochs=0) ==> epochs of align
ew.align(NET, DL, DL, max_rows=1) ==> max_rows of align
ew.align(NET, DL, DL, inplace="no") ==> inplace of align
ew.align(NET, b"x", DL) ==> train_loader of align
ew.align(NET, [1], DL) ==> train_loader of align
ew.align(NET, [[1]], DL) ==> train_loader of align
ew.align(NET, [(X, y[:3])], DL) ==> targets of align
ew.align(NET, [(X, y + 7)], DL) ==> targets of train_loader of align
ew.align(NET, DL, [(X, y * 0)]) ==> valid_loader of align
ew.align(NET, [(X, y * 0)], DL) ==> train_loader of align
ew.align(NET, DL, 3) ==> valid_loader of align
ew.align(NET, DL, np.zeros(3)) ==> valid_loader of align
ew.align(nn.ReLU(), DL, DL) ==> model of align
ew.align(3, DL, DL) ==> model of align
ew.align(NET, [(None, None)], DL) ==> targets of align
ew.align(NET, [(X[:, :3], y)], DL) ==> train_loader of align
ew.align(NET, [(X, y), (X[:, :3], y)], DL) ==> train_loader of align
ew.align(NET, [(X.long(), y)], DL) ==> train_loader of align
ew.align(NET, [(None, y)], DL) ==> train_loader of align
ew.align(NET, [({"a": X}, y)], DL) ==> train_loader of align
ew.align(NET, DL, [(X[:, :3], y)]) ==> valid_loader of align
ew.align(NET, DL, [(X, y), ("x", y)]) ==> valid_loader of align
ew.align(NET, [(X[:, :3], y)], DL, head="added") ==> train_loader of align
ew.align(NET, DL, DL, forward=lambda model, inputs: model(inputs[:, :3])) ==> train_loader of align
"""


@pytest.fixture(scope="module")
def names():
    pytest.importorskip("lightning_fabric")
    inputs = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    labels = (inputs[:, 0] > 0).long()
    loader = DataLoader(TensorDataset(inputs, labels), 20)
    network = nn.Linear(4, 2)
    return {"ew": ew, "np": np, "nn": nn, "NET": network, "DL": loader, "X": inputs, "y": labels}


@pytest.mark.parametrize("row", CALLS.strip().splitlines())
def test_a_bad_call_of_align_is_refused_in_one_sentence(names, row):
    assert_refused(row, names)


def test_a_batch_that_a_network_cannot_take_is_named_with_its_own_error(names):
    inputs, labels = names["X"], names["y"]
    with pytest.raises(
        ValueError, match=r"batch 2 of shape \(40, 3\), .* RuntimeError: "
    ) as refused:
        ew.align(names["NET"], names["DL"], [(inputs, labels), (inputs[:, :3], labels)])
    assert isinstance(refused.value.__context__, RuntimeError)
