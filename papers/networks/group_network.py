"""A graph network that says, for all pairs of people in a scene, whether they belong together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from eastward import _checks

__all__ = ["GroupAffinityNetwork", "frame_graph"]

NODE_FEATURES = 4
"""Position relative to the centre of the scene, cosine and sine of the direction of view."""

EDGE_FEATURES = 1
"""The distance between two people."""


def frame_graph(positions: Tensor, angles: Tensor, targets: Tensor | None = None) -> Data:
    """The complete graph of the people in one frame.

    Parameters
    ----------
    positions : Tensor
        ``(n, 2)`` coordinates of n people, n at least 2.
    angles : Tensor
        ``(n,)`` directions of view, in radians.
    targets : Tensor, optional
        ``(n (n - 1) / 2,)`` zeros and ones, one for each pair: (0, 1), (0, 2) ... (1, 2) ...

    Returns
    -------
    Data
        ``x`` of shape ``(n, 4)``, ``edge_index`` of all ordered pairs, ``edge_attr`` of shape ``(n (n - 1), 1)`` and,
        if given, ``y``. A torch_geometric ``DataLoader`` puts several into one batch.

    References
    ----------
    Thompson et al., *Conversational group detection with graph neural networks*, ICMI 2021; Bridging the Gap, 5.3.

    Examples
    --------
    >>> import torch
    >>> frame_graph(torch.zeros(6, 2), torch.zeros(6)).edge_index.shape
    torch.Size([2, 30])
    """
    caller = "frame_graph"
    _checks.floating(caller, "positions", positions)
    _checks.floating(caller, "angles", angles)
    if positions.dim() != 2 or positions.shape[1] != 2 or len(positions) < 2:
        expected = "of shape (n, 2) with n >= 2"
        _checks.fail(caller, "positions", expected, _checks.describe(positions))
    count = len(positions)
    if angles.shape != (count,):
        _checks.fail(caller, "angles", f"of shape ({count},)", _checks.describe(angles))
    directions = torch.stack([angles.cos(), angles.sin()], dim=1)
    features = torch.cat([positions - positions.mean(0), directions], dim=1)
    sources, ends = torch.nonzero(~torch.eye(count, dtype=torch.bool), as_tuple=True)
    distances = (positions[sources] - positions[ends]).norm(dim=1, keepdim=True)
    graph = Data(x=features, edge_index=torch.stack([sources, ends]), edge_attr=distances)
    if targets is not None:
        pairs = count * (count - 1) // 2
        if targets.shape != (pairs,):
            expected = f"of shape ({pairs},), one for each pair"
            _checks.fail(caller, "targets", expected, _checks.describe(targets))
        graph.y = targets
    return graph


class _Round(MessagePassing):  # type: ignore[misc]
    """One round of message passing: edges are updated from their ends, then people from their edges."""

    def __init__(self, hidden: int) -> None:
        # The mean, not the sum: steps must not grow with the number of people, or a metric as loss runs into
        # «everybody belongs together» before it has seen a difference.
        super().__init__(aggr="mean")
        self.edge_update_rule = _perceptron(3 * hidden, hidden)
        self.node_update_rule = _perceptron(2 * hidden, hidden)

    def forward(self, nodes: Tensor, edge_index: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        sources, ends = edge_index
        looks = torch.cat([nodes[sources], nodes[ends], edges], dim=1)
        edges = edges + self.edge_update_rule(looks)
        heard = self.propagate(edge_index, edges=edges, size=(len(nodes), len(nodes)))
        return nodes + self.node_update_rule(torch.cat([nodes, heard], dim=1)), edges

    def message(self, edges: Tensor) -> Tensor:
        return edges


class GroupAffinityNetwork(nn.Module):
    """Affinities of all pairs of people in a frame at once, by message passing.

    Parameters
    ----------
    num_outputs : int, default=1
        Logits for each pair: 1, or 2 for two classes.
    node_features, edge_features : int, default=4, 1
        Columns of ``x`` and of ``edge_attr``; the defaults are those of :func:`frame_graph`.
    hidden : int, default=64
        Width of all layers.
    rounds : int, default=2
        How often messages are exchanged.

    Notes
    -----
    Edges are updated from their two ends, people from the mean of their edges, and a pair is judged from both of its
    directed edges in a way that does not depend on their order. The papers name message passing (Battaglia et al.)
    and refer for its sizes to Thompson et al., who are not among our sources: width, rounds and the normalisation of
    each layer's output are our choice.

    References
    ----------
    Thompson et al., *Conversational group detection with graph neural networks*, ICMI 2021; Battaglia et al.,
    *Relational inductive biases, deep learning, and graph networks*, 2018.

    Examples
    --------
    >>> import torch
    >>> graph = frame_graph(torch.randn(6, 2), torch.randn(6))
    >>> GroupAffinityNetwork()(graph).shape
    torch.Size([15, 1])
    """

    def __init__(
        self,
        num_outputs: int = 1,
        *,
        node_features: int = NODE_FEATURES,
        edge_features: int = EDGE_FEATURES,
        hidden: int = 64,
        rounds: int = 2,
    ) -> None:
        super().__init__()
        caller = "GroupAffinityNetwork"
        outputs = _checks.whole_number(caller, "num_outputs", num_outputs, at_least=1)
        width = _checks.whole_number(caller, "hidden", hidden, at_least=1)
        count = _checks.whole_number(caller, "rounds", rounds, at_least=1)
        self.nodes_in = _perceptron(node_features, width)
        self.edges_in = _perceptron(edge_features, width)
        self.rounds = nn.ModuleList(_Round(width) for _ in range(count))
        self.scores = nn.Sequential(_perceptron(2 * width, width), nn.Linear(width, outputs))

    def forward(self, graph: Any) -> Tensor:
        """Logits ``(pairs, num_outputs)`` of one graph or a batch, pairs in the order of :func:`frame_graph`."""
        edge_index = graph.edge_index
        nodes, edges = self.nodes_in(graph.x), self.edges_in(graph.edge_attr)
        for exchange in self.rounds:
            nodes, edges = exchange(nodes, edge_index, edges)
        forward, backward = _both_directions(edge_index, int(nodes.shape[0]))
        pair = torch.cat(
            [edges[forward] + edges[backward], _shared(nodes, edge_index[:, forward])], 1
        )
        logits: Tensor = self.scores(pair)
        return logits


def _both_directions(edge_index: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Positions of the edges (i, j) with i < j, in their order, and of their reverses (j, i)."""
    sources, ends = edge_index
    forward = torch.nonzero(sources < ends).squeeze(1)
    backward = torch.nonzero(sources > ends).squeeze(1)
    backward = backward[torch.argsort(ends[backward] * count + sources[backward])]
    places = torch.argsort(torch.argsort(sources[forward] * count + ends[forward]))
    return forward, backward[places]


def _shared(nodes: Tensor, pairs: Tensor) -> Tensor:
    """Combine the features of two people, independently of their order."""
    return nodes[pairs[0]] + nodes[pairs[1]]


def _perceptron(inputs: int, outputs: int) -> nn.Sequential:
    # Normalised: without it F1 as the loss finds «everybody belongs together» on CocktailParty, and stays there.
    layers = [nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs)]
    return nn.Sequential(*layers, nn.LayerNorm(outputs))
