"""The graph network: people have no order, frames do not see each other, and groups can be learned."""

from __future__ import annotations

import math
import re
import sys

import pytest
import torch

import eastward as ew

pytest.importorskip("torch_geometric")

from torch_geometric.data import Batch

from papers import networks
from papers.networks import GroupAffinityNetwork, frame_graph


def frame(count=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    positions = torch.randn(count, 2, generator=generator)
    return positions, torch.randn(count, generator=generator)


def pairs(count):
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


def test_a_frame_is_the_complete_graph_of_its_people():
    positions, angles = frame(4)
    targets = torch.tensor([1, 0, 0, 0, 0, 1])
    graph = frame_graph(positions, angles, targets)
    assert sorted(map(tuple, graph.edge_index.T.tolist())) == [
        (i, j) for i in range(4) for j in range(4) if i != j
    ]
    for (i, j), distance in zip(graph.edge_index.T.tolist(), graph.edge_attr, strict=True):
        assert distance.item() == pytest.approx(math.dist(positions[i], positions[j]), rel=1e-5)
    torch.testing.assert_close(graph.x[:, :2].mean(0), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(graph.x[:, 2], angles.cos())
    torch.testing.assert_close(graph.x[:, 3], angles.sin())
    assert torch.equal(graph.y, targets)


def test_where_the_scene_lies_does_not_matter():
    positions, angles = frame()
    network = GroupAffinityNetwork()
    moved = network(frame_graph(positions + torch.tensor([5.0, -3.0]), angles))
    torch.testing.assert_close(moved, network(frame_graph(positions, angles)), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("outputs", [1, 2])
def test_people_have_no_order(outputs):
    positions, angles = frame()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    network = GroupAffinityNetwork(outputs)
    plain = network(frame_graph(positions, angles))
    permuted = network(frame_graph(positions[order], angles[order]))
    assert plain.shape == (15, outputs)
    by_pair = dict(zip(pairs(6), plain, strict=True))
    for (i, j), logit in zip(pairs(6), permuted, strict=True):
        people = tuple(sorted((order[i].item(), order[j].item())))
        torch.testing.assert_close(logit, by_pair[people], atol=1e-5, rtol=1e-4)


def test_frames_of_a_batch_do_not_see_each_other():
    graphs = [frame_graph(*frame(count, seed)) for seed, count in enumerate((6, 4, 2))]
    network = GroupAffinityNetwork()
    together = network(Batch.from_data_list(graphs))
    apart = torch.cat([network(graph) for graph in graphs])
    assert together.shape == (15 + 6 + 1, 1)
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-4)


def test_the_pairs_see_the_other_people():
    # The third person moves; what is said of the first two changes. A network for pairs alone could not do that.
    positions, angles = frame(3)
    network = GroupAffinityNetwork()
    before = network(frame_graph(positions, angles))[0]
    positions[2] += 2.0
    assert not torch.allclose(before, network(frame_graph(positions, angles))[0])


def scene(generator):
    """Two circles of three people who look at their centres; same group is target 1."""
    centres = torch.tensor([[0.0, 0.0], [3.0, 0.0]])
    group = torch.randperm(6, generator=generator) % 2
    start = 6.28 * torch.rand(1, generator=generator)
    around = start + torch.arange(6) * 2.09 + 0.2 * torch.randn(6, generator=generator)
    positions = centres[group] + torch.stack([around.cos(), around.sin()], 1)
    first, second = torch.tensor(pairs(6)).T
    return frame_graph(positions, around + math.pi, (group[first] == group[second]).long())


@pytest.mark.slow
def test_groups_are_learned_with_the_metric_as_loss():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    train = Batch.from_data_list([scene(generator) for _ in range(32)])
    fresh = Batch.from_data_list([scene(generator) for _ in range(32)])
    network = GroupAffinityNetwork(hidden=32)
    loss = ew.EASTLoss("f1", threshold=0.5)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(80):
        optimizer.zero_grad()
        loss(network(train), train.y).backward()
        assert all(p.grad is not None for p in network.parameters())
        optimizer.step()
    with torch.no_grad():
        predicted = (network(fresh)[:, 0] > 0).long()
    right = (predicted == fresh.y).float().mean().item()
    assert right > 0.8
    assert right > max(fresh.y.float().mean().item(), 1 - fresh.y.float().mean().item()) + 0.1


@pytest.mark.parametrize(
    ("provoke", "message"),
    [
        (lambda: frame_graph(torch.zeros(1, 2), torch.zeros(1)), "positions of .* n >= 2"),
        (lambda: frame_graph(torch.zeros(3, 3), torch.zeros(3)), "positions of frame_graph"),
        (lambda: frame_graph(torch.zeros(3, 2), torch.zeros(2)), r"angles of .* \(3,\)"),
        (
            lambda: frame_graph(torch.zeros(3, 2), torch.zeros(3), torch.zeros(2)),
            r"targets of frame_graph must be of shape \(3,\), one for each pair",
        ),
        (lambda: GroupAffinityNetwork(rounds=0), "rounds of GroupAffinityNetwork must be >= 1"),
        (lambda: GroupAffinityNetwork(hidden=0), "hidden of GroupAffinityNetwork must be >= 1"),
    ],
)
def test_wrong_frames_and_sizes(provoke, message):
    with pytest.raises(ValueError, match=re.compile(message)):
        provoke()


def test_without_torch_geometric_one_line_names_the_extra(monkeypatch):
    ours = "papers.networks.group_network"
    for module in [m for m in sys.modules if m.startswith("torch_geometric") or m == ours]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs torch_geometric.*'eastward\[graph\]'"):
        _ = networks.GroupAffinityNetwork
    with pytest.raises(AttributeError, match="no attribute 'AlexNet'"):
        _ = networks.AlexNet
