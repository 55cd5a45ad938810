"""Two real processes give the gradient of one process that holds all the data."""

from __future__ import annotations

import socket
from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

import eastward as ew
from eastward.distributed import resolve_reduce
from eastward.training.launch import end_process

pytestmark = pytest.mark.distributed

WORLD = 2
ROWS, FEATURES, CLASSES = 24, 5, 3


def data():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(ROWS, FEATURES, generator=generator, dtype=torch.float64)
    # The second half holds no sample of class 2: what one process sees is not what there is.
    targets = torch.cat([torch.arange(ROWS // 2) % CLASSES, torch.arange(ROWS // 2) % 2])
    weights = torch.rand(ROWS, generator=generator, dtype=torch.float64)
    return features, targets, weights


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Linear(FEATURES, CLASSES).double()


LOSSES = {
    "f1_macro": partial(ew.EASTLoss, "f1_macro"),
    "matthews_corrcoef": partial(ew.EASTLoss, "matthews_corrcoef"),
    "cohen_kappa_quadratic": partial(ew.EASTLoss, "cohen_kappa_quadratic"),
    "balanced_accuracy with a prior": partial(
        ew.EASTLoss, "balanced_accuracy", prior=[0.5, 0.3, 0.2]
    ),
    "precision_macro with a prior": partial(ew.EASTLoss, "precision_macro", prior=[0.5, 0.3, 0.2]),
    "f1_macro on a grid": partial(ew.EASTLoss, "f1_macro", threshold=(0.3, 0.5)),
    "running": partial(ew.EASTLoss, "f1_macro", running=0.9),
    "auroc": ew.AUROCLoss,
    "average precision": ew.AveragePrecisionLoss,
}


def one_process(kind: str):
    features, targets, weights = data()
    model, loss = network(), LOSSES[kind]()
    value = loss(model(features), targets, weights)
    value.backward()
    return value.item(), model.weight.grad


def worker(rank: int, port: int, results) -> None:
    torch.set_num_threads(1)
    store = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
    found = {kind: part_of_work(rank, build) for kind, build in LOSSES.items()}
    found["alone"] = part_of_work(rank, partial(ew.EASTLoss, "f1_macro", process_group=None))
    found["group"] = part_of_work(
        rank, partial(ew.EASTLoss, "f1_macro", process_group=dist.group.WORLD)
    )
    found["different classes"] = {
        called: said_of_different_classes(rank, called) for called in CALLED
    }
    results[rank] = found
    end_process()


CALLED = ("EASTLoss", "AUROCLoss", "exact_backward")


def said_of_different_classes(rank: int, called: str) -> str:
    logits, targets = torch.randn(6, 3 + rank), torch.arange(6) % 3
    try:
        if called == "exact_backward":
            model = torch.nn.Linear(3 + rank, 3 + rank)
            ew.exact_backward(ew.EASTLoss(), model, [(logits, targets)])
        else:
            getattr(ew, called)()(logits, targets)
    except ValueError as error:
        return str(error)
    return "nothing"


def part_of_work(rank: int, build):
    """Loss value and averaged gradient of this process's half of the data."""
    features, targets, weights = data()
    mine = slice(rank * ROWS // WORLD, (rank + 1) * ROWS // WORLD)
    model = DistributedDataParallel(network())
    value = build()(model(features[mine]), targets[mine], weights[mine])
    value.backward()
    # Plain numbers: tensors would travel through shared memory.
    return value.item(), model.module.weight.grad.tolist()


@pytest.fixture(scope="module")
def results() -> dict:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with torch.multiprocessing.get_context("spawn").Manager() as manager:
        shared = manager.dict()
        torch.multiprocessing.spawn(worker, args=(port, shared), nprocs=WORLD)
        return dict(shared)


@pytest.mark.parametrize("kind", LOSSES)
def test_two_processes_have_the_loss_and_the_gradient_of_one(results, kind):
    value, gradient = one_process(kind)
    for rank in range(WORLD):
        ours, averaged = results[rank][kind]
        assert ours == pytest.approx(value, abs=1e-7)
        torch.testing.assert_close(
            torch.tensor(averaged, dtype=torch.float64), gradient, atol=1e-8, rtol=1e-6
        )


@pytest.mark.parametrize("rank", range(WORLD))
@pytest.mark.parametrize("called", CALLED)
def test_processes_with_different_classes_get_an_error(results, rank, called):
    said = results[rank]["different classes"][called]
    expected = "must be equally many columns in every process"
    assert f"logits of {called} {expected}; got {3 + rank} in this process" in said


def test_an_explicit_group_is_used_like_the_automatic_one(results):
    assert results[0]["group"] == results[0]["f1_macro"]


def test_without_a_process_group_each_process_is_on_its_own(results):
    features, targets, weights = data()
    for rank in range(WORLD):
        half = slice(rank * ROWS // WORLD, (rank + 1) * ROWS // WORLD)
        expected = ew.EASTLoss("f1_macro")(network()(features[half]), targets[half], weights[half])
        assert results[rank]["alone"][0] == pytest.approx(expected.item(), abs=1e-12)
    # And the mean of such gradients is not the gradient of the whole: the reason for the reduction.
    _, gradient = one_process("f1_macro")
    averaged = torch.tensor(results[0]["alone"][1], dtype=torch.float64)
    assert not torch.allclose(averaged, gradient, atol=1e-4)


def test_without_an_initialised_job_nothing_is_reduced():
    assert resolve_reduce("auto") is None
    assert resolve_reduce(None) is None
