"""Small trained networks of every kind, and loaders for them."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


def clusters(counts, features=6, seed=0, spread=1.2):
    """Inputs around one centre for each class, in random order, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    y = y[torch.randperm(len(y), generator=generator)]
    centres = torch.randn(len(counts), features, generator=torch.Generator().manual_seed(99))
    return centres[y] + spread * torch.randn(len(y), features, generator=generator), y


def loader(X, y, batch=32):
    return DataLoader(TensorDataset(X, y), batch)


def trained(network, X, y, loss, steps=60):
    """The network after a few full-batch steps."""
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(network(X), y).backward()
        optimizer.step()
    return network.eval()


def mlp(outputs, features=6, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, outputs))


class Squeezed(nn.Module):
    """One logit without an axis of its own."""

    def __init__(self):
        super().__init__()
        self.body = mlp(1)

    def forward(self, x):
        return self.body(x).squeeze(1)


class ByName(nn.Module):
    """Called as Hugging Face's models are, and answering as they do."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 16)
        self.classifier = nn.Linear(16, 3)

    def forward(self, values, mask=None):
        hidden = torch.relu(self.encoder(values))
        return {"logits": self.classifier(hidden if mask is None else hidden * mask)}


class Cosines(nn.Module):
    """A head of normalised weights, as LDAM has it: no linear layer makes its logits."""

    def __init__(self):
        super().__init__()
        self.body, self.weight = mlp(8), nn.Parameter(torch.randn(3, 8))

    def forward(self, x):
        unit = nn.functional.normalize
        return 10 * unit(self.body(x)) @ unit(self.weight).T


class Tokens(nn.Module):
    """Logits ``(N, L, C)`` with the classes last."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


class Stream(IterableDataset):
    def __init__(self, X, y):
        self.X, self.y = X, y

    def __iter__(self):
        yield from zip(self.X, self.y, strict=True)


class Graph:
    """An object with ``y``, as PyTorch Geometric yields it."""

    def __init__(self, x, y):
        self.x, self.y = x, y


class OnGraphs(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp(3)

    def forward(self, graph):
        return self.body(graph.x)


cross_entropy = nn.functional.cross_entropy
COUNTS = (120, 50, 16)


def three_classes():
    X, y = clusters(COUNTS)
    V, v = clusters((60, 25, 8), seed=1)
    return trained(mlp(3), X, y, cross_entropy), loader(X, y), loader(V, v), {}


def cosines():
    _, train, valid, _ = three_classes()
    network = trained(Cosines(), *train.dataset.tensors, cross_entropy)
    return network, train, valid, {"head": "added"}


def stream():
    network, train, valid, _ = three_classes()
    X, y = train.dataset.tensors
    return network, DataLoader(Stream(X, y), 32), valid, {}


def batches_in_a_list():
    network, train, valid, _ = three_classes()
    return network, list(train), list(valid), {}


def weighted_rows():
    network, train, valid, _ = three_classes()
    X, y = train.dataset.tensors
    rows = TensorDataset(X, y, torch.rand(len(y), generator=torch.Generator().manual_seed(5)) + 0.5)
    return network, DataLoader(rows, 32), valid, {}


def binary(shape="squeezed"):
    X, y = clusters((150, 30))
    V, v = clusters((75, 15), seed=1)
    network = Squeezed() if shape == "squeezed" else mlp(1)
    kind = (lambda t: t.float()) if shape == "squeezed" else (lambda t: t.float().unsqueeze(1))
    loss = nn.functional.binary_cross_entropy_with_logits
    trained(network, X, kind(y), loss)
    return network, loader(X, kind(y)), loader(V, kind(v)), {"metric": "f1"}


def labels():
    X, y = clusters((100, 60, 30))
    V, v = clusters((60, 30, 20), seed=1)

    def several(t):
        return torch.stack([t > 0, t == 2, t < 2], 1).float()

    loss = nn.functional.binary_cross_entropy_with_logits
    network = trained(mlp(3), X, several(y), loss)
    return network, loader(X, several(y)), loader(V, several(v)), {}


def dense():
    """Pictures of 4 x 4 pixels; some pixels are unlabelled."""

    def pictures(seed):
        X, y = clusters((300, 120, 60), seed=seed)
        X, y = X[:480].view(30, 4, 4, 6).permute(0, 3, 1, 2).contiguous(), y[:480].view(30, 4, 4)
        return X, torch.where(torch.rand(y.shape) < 0.1, 255, y)

    torch.manual_seed(0)
    (X, y), (V, v) = pictures(0), pictures(1)
    network = nn.Sequential(nn.Conv2d(6, 8, 1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    trained(network, X, y, lambda z, t: cross_entropy(z, t, ignore_index=255))
    return network, loader(X, y, 8), loader(V, v, 8), {"ignore_index": 255}


def tokens():
    def sentences(seed):
        X, y = clusters((100, 50, 30), seed=seed)
        return X.view(36, 5, 6), y.view(36, 5)

    (X, y), (V, v) = sentences(0), sentences(1)
    network = trained(Tokens(), X, y, lambda z, t: cross_entropy(z.movedim(-1, 1), t))
    return network, loader(X, y, 8), loader(V, v, 8), {}


def mappings():
    X, y = clusters(COUNTS)
    V, v = clusters((60, 25, 8), seed=1)
    torch.manual_seed(0)
    network = trained(ByName(), X, y, lambda out, t: cross_entropy(out["logits"], t))

    def rows(X, y):
        return [{"values": x, "labels": t} for x, t in zip(X, y, strict=True)]

    return network, DataLoader(rows(X, y), 32), DataLoader(rows(V, v), 32), {}


def graphs():
    X, y = clusters(COUNTS)
    V, v = clusters((60, 25, 8), seed=1)
    torch.manual_seed(0)
    network = OnGraphs()
    trained(network, Graph(X, y), y, cross_entropy)
    cut = [Graph(x, t) for x, t in zip(X.split(32), y.split(32), strict=True)]
    return network, cut, [Graph(V, v)], {}


KINDS = {
    "three classes": three_classes,
    "cosines": cosines,
    "stream": stream,
    "batches in a list": batches_in_a_list,
    "weighted rows": weighted_rows,
    "one logit": binary,
    "one logit in a column": lambda: binary("column"),
    "labels": labels,
    "dense": dense,
    "tokens": tokens,
    "mappings": mappings,
    "graphs": graphs,
}
