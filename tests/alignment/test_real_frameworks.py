"""Networks and loaders of Hugging Face and PyTorch Geometric, as they are."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader

import eastward as ew

pytestmark = pytest.mark.slow


def sentences(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(torch.tensor([0.6, 0.3, 0.1]), count, True, generator=generator)
    noise = torch.randint(6, 30, (count, 5), generator=generator)
    tokens = torch.cat([(labels + 3).unsqueeze(1), noise], 1)
    return [{"input_ids": t, "labels": y} for t, y in zip(tokens, labels, strict=True)]


def test_a_transformer_is_aligned_by_its_classifier():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(num_hidden_layers=1, vocab_size=30, num_labels=3, **sizes)
    model = transformers.BertForSequenceClassification(config)
    train, valid = DataLoader(sentences(200, 0), 16), DataLoader(sentences(100, 1), 16)
    result = ew.align(model, train, valid, epochs=1)
    assert result.report["head"] == "classifier"
    values = [stage["value"] for stage in result.report["stages"]]
    assert max(values) > values[0] + 0.1


def test_a_network_of_graphs_is_aligned():
    data = pytest.importorskip("torch_geometric.data")
    loaders, layers = (
        pytest.importorskip("torch_geometric.loader"),
        pytest.importorskip("torch_geometric.nn"),
    )

    class Graphs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.classifier = layers.GCNConv(4, 8), torch.nn.Linear(8, 2)

        def forward(self, graph):
            hidden = torch.relu(self.convolution(graph.x, graph.edge_index))
            return self.classifier(layers.global_mean_pool(hidden, graph.batch))

    torch.manual_seed(0)
    path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    graphs = [
        data.Data(
            x=torch.randn(5, 4) + (k % 4 == 0), edge_index=path, y=torch.tensor([int(k % 4 == 0)])
        )
        for k in range(160)
    ]
    train, valid = loaders.DataLoader(graphs[:100], 16), loaders.DataLoader(graphs[100:], 16)
    result = ew.align(Graphs(), train, valid, "f1", epochs=1)
    assert result.report["head"] == "classifier"
    assert result.report["stages"][1]["value"] > result.report["stages"][0]["value"]
