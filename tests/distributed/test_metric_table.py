"""Every registered metric in every scenario: many processes have the loss and the gradient of one.

One job of two processes and one of four run all cells; the tests read what they left.
"""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from scenarios import (
    ROWS,
    SCENARIOS,
    batch,
    gradient,
    make_loss,
    network,
    num_classes,
    one_process,
    part,
    run_processes,
)
from torch.nn.parallel import DistributedDataParallel

import eastward as ew
from eastward.training.launch import end_process

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

WORLDS = (2, 4)
METRICS = ew.metrics.names()
# Double precision goes through the definition of the loss, single precision through kernels.
KINDS = [
    (metric, dtype)
    for metric in ("f1_macro", "cohen_kappa_linear")
    for dtype in (torch.float32, torch.float64)
]


def worker(rank: int, world: int, address: str, folder) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world)
    alone = [dist.new_group([other]) for other in range(world)]
    halves = [dist.new_group(list(range(k * world // 2, (k + 1) * world // 2))) for k in (0, 1)]
    found = table_of_cells(rank, world)
    found["without a group"] = bits(rank, world, None)
    found["a group of one"] = bits(rank, world, alone[rank])
    found["sub-group"] = in_half(rank, world, halves[rank // (world // 2)])
    for kind in KINDS:
        found[kind] = with_own_factor(rank, world, kind)
    torch.save(found, folder / f"{world}-{rank}.pt")
    end_process()


def table_of_cells(rank: int, world: int) -> dict:
    models = {classes: DistributedDataParallel(network(classes)) for classes in (2, 3)}
    return {
        (metric, scenario): cell(metric, scenario, models[num_classes(metric)], rank, world)
        for metric in METRICS
        for scenario in SCENARIOS
    }


def cell(metric: str, name: str, model, rank: int, world: int) -> tuple:
    scenario = SCENARIOS[name]
    loss = make_loss(metric, scenario)
    for step in range(scenario.steps):
        model.zero_grad()
        whole = batch(num_classes(metric), scenario, world, step)
        inputs, targets, weights = part(whole, scenario, world, rank)
        value = loss(model(inputs), targets, weights)
        value.backward()
    return value.item(), gradient(model)


def bits(rank: int, world: int, group) -> tuple:
    """Loss and gradient of this process's rows with ``process_group=group``, without any averaging."""
    scenario = SCENARIOS["sample weights"]
    model, loss = network(3), make_loss("f1_macro", scenario, process_group=group)
    inputs, targets, weights = part(batch(3, scenario, world, 0), scenario, world, rank)
    value = loss(model(inputs), targets, weights)
    value.backward()
    return value.detach(), gradient(model)


def in_half(rank: int, world: int, group) -> tuple:
    """The job's halves train apart: the group of the loss is the group of DistributedDataParallel."""
    scenario = SCENARIOS["even"]
    model = DistributedDataParallel(network(3), process_group=group)
    loss = make_loss("f1_macro", scenario, process_group=group)
    inputs, targets, _ = part(batch(3, scenario, world, 0), scenario, world, rank)
    value = loss(model(inputs), targets)
    value.backward()
    return value.item(), gradient(model)


def with_own_factor(rank: int, world: int, kind: tuple) -> tuple:
    """Each process multiplies its loss by a number of its own; and what travels meanwhile."""
    metric, dtype = kind
    scenario, sent = SCENARIOS["uneven last batch"], []
    model = network(3).to(dtype)
    inputs, targets, _ = part(batch(3, scenario, world, 0), scenario, world, rank)
    send = dist.all_reduce

    def noted(tensor, *arguments, **options):
        sent.append(tuple(tensor.shape))
        return send(tensor, *arguments, **options)

    dist.all_reduce = noted
    try:
        (make_loss(metric, scenario)(model(inputs.to(dtype)), targets) * (rank + 1)).backward()
    finally:
        dist.all_reduce = send
    slope = gradient(model)
    dist.all_reduce(slope)
    return slope, sent


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("cells")
    for world in WORLDS:
        run_processes(worker, world, folder)
    return {
        (world, rank): torch.load(folder / f"{world}-{rank}.pt")
        for world in WORLDS
        for rank in range(world)
    }


def assert_same_direction_and_length(ours: torch.Tensor, expected: torch.Tensor) -> None:
    if expected.norm() < 1e-12:
        assert ours.norm() < 1e-12
        return
    cosine = torch.dot(ours, expected) / (ours.norm() * expected.norm())
    assert cosine.item() == pytest.approx(1, abs=1e-6)
    assert (ours.norm() / expected.norm()).item() == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("world", WORLDS)
def test_many_processes_have_the_loss_and_the_gradient_of_one(results, world, scenario, metric):
    value, expected = one_process(metric, SCENARIOS[scenario], world)
    for rank in range(world):
        ours, averaged = results[world, rank][metric, scenario]
        assert ours == pytest.approx(value, abs=1e-6)
        assert_same_direction_and_length(averaged, expected)


def test_the_cells_have_gradients_to_compare():
    """Zero would equal zero: a handful of cells may be flat, not the table."""
    lengths = [
        one_process(metric, scenario, 2)[1].norm()
        for metric in METRICS
        for scenario in SCENARIOS.values()
    ]
    assert sum(bool(length > 1e-6) for length in lengths) > 0.98 * len(lengths)


@pytest.mark.parametrize("world", WORLDS)
def test_a_group_of_one_process_is_no_group_to_the_last_bit(results, world):
    for rank in range(world):
        value, grad = results[world, rank]["a group of one"]
        expected_value, expected_grad = results[world, rank]["without a group"]
        assert torch.equal(value, expected_value)
        assert torch.equal(grad, expected_grad)


def job_of_one(rank: int, world: int, address: str, folder) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world)
    torch.save(bits(rank, world, "auto"), folder / "bits.pt")
    end_process()


def test_a_job_of_one_process_is_no_job_to_the_last_bit(tmp_path):
    expected = bits(0, 1, None)
    run_processes(job_of_one, 1, tmp_path)
    value, grad = torch.load(tmp_path / "bits.pt")
    assert torch.equal(value, expected[0])
    assert torch.equal(grad, expected[1])


@pytest.mark.parametrize("world", WORLDS)
def test_none_leaves_each_process_on_its_own(results, world):
    scenario = SCENARIOS["sample weights"]
    for rank in range(world):
        inputs, targets, weights = part(batch(3, scenario, world, 0), scenario, world, rank)
        model = network(3)
        ew.EASTLoss("f1_macro")(model(inputs), targets, weights).backward()
        torch.testing.assert_close(results[world, rank]["without a group"][1], gradient(model))


@pytest.mark.parametrize("world", WORLDS)
def test_a_sub_group_has_the_gradient_of_its_own_rows(results, world):
    scenario = SCENARIOS["even"]
    inputs, targets, _ = batch(3, scenario, world, 0)
    for half in (0, 1):
        rows = slice(half * ROWS // 2, (half + 1) * ROWS // 2)
        model = network(3)
        value = ew.EASTLoss("f1_macro")(model(inputs[rows]), targets[rows])
        value.backward()
        ours, averaged = results[world, half * world // 2]["sub-group"]
        assert ours == pytest.approx(value.item(), abs=1e-9)
        assert_same_direction_and_length(averaged, gradient(model))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
def test_losses_with_factors_of_their_own_have_the_gradient_of_their_sum(results, world, kind):
    metric, dtype = kind
    scenario = SCENARIOS["uneven last batch"]
    inputs, targets, _ = batch(3, scenario, world, 0)
    model = network(3).to(dtype)
    make_loss(metric, scenario, process_group=None)(model(inputs.to(dtype)), targets).backward()
    factors = world * (world + 1) / 2
    rtol = 1e-4 if dtype == torch.float32 else 1e-9
    for rank in range(world):
        slope, _ = results[world, rank][kind]
        torch.testing.assert_close(slope, factors * gradient(model), rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_or_the_matrix_travel_once_and_one_number_comes_back(results, kind):
    rows = 4 if kind[0] == "f1_macro" else 3  # tp, fp, fn, tn; or the rows of a matrix
    _, sent = results[2, 0][kind]
    # In a loss's first batch, three numbers make sure that all have the same classes.
    assert [shape[-2:] for shape in sent] == [(3,), (rows, 3), ()]
