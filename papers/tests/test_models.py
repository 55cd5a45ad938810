"""The papers' networks: shapes, sizes that are published, and gradients everywhere."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import eastward as ew
from papers.networks import Darknet19, ResNet, btg_network, east_network, resnet18, resnet34


def parameters(network):
    return sum(p.numel() for p in network.parameters())


def assert_learns(network, inputs, targets, loss=None):
    """A few steps lower the loss, and every parameter has a part in it."""
    loss = loss or nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    values = []
    for step in range(8):
        optimizer.zero_grad()
        value = loss(network(inputs), targets)
        value.backward()
        if step == 0:
            idle = [name for name, p in network.named_parameters() if p.grad is None]
            assert not idle
            assert all(torch.isfinite(p.grad).all() for p in network.parameters())
        optimizer.step()
        values.append(value.item())
    assert values[-1] < values[0]


def test_the_networks_for_tables_have_the_papers_layers():
    wide = east_network(30, 3)
    shapes = [tuple(p.shape) for p in wide.parameters() if p.dim() == 2]
    assert shapes == [(512, 30), (256, 512), (128, 256), (3, 128)]
    small = btg_network(6)
    shapes = [tuple(p.shape) for p in small.parameters() if p.dim() == 2]
    assert shapes == [(32, 6), (16, 32), (1, 16)]


@pytest.mark.parametrize(("build", "rate"), [(east_network, 0.5), (btg_network, 0.25)])
def test_dropout_acts_in_training_only(build, rate):
    network, inputs = build(4, 2, dropout=rate), torch.randn(64, 4)
    assert not torch.equal(network(inputs), network(inputs))
    network.eval()
    torch.testing.assert_close(network(inputs), network(inputs), rtol=0, atol=0)
    assert parameters(build(4, 2, dropout=0.0)) == parameters(network)


def test_the_networks_for_tables_train_on_a_metric():
    torch.manual_seed(0)
    inputs = torch.randn(64, 5)
    targets = (inputs[:, 0] > 0.5).long()
    assert_learns(east_network(5, 2, dropout=0.0), inputs, targets, ew.EASTLoss("f1"))
    assert_learns(btg_network(5, dropout=0.0), inputs, targets, ew.EASTLoss("f1", threshold=0.5))


def test_darknet_has_nineteen_convolutions_and_the_published_channels():
    network = Darknet19(1000)
    layers = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    published = [32, 64, 128, 64, 128, 256, 128, 256, 512, 256, 512, 256, 512]
    published += [1024, 512, 1024, 512, 1024, 1000]
    assert [layer.out_channels for layer in layers] == published
    sizes = [3, 3, 3, 1, 3, 3, 1, 3, 3, 1, 3, 1, 3, 3, 1, 3, 1, 3, 1]
    assert [layer.kernel_size[0] for layer in layers] == sizes
    # weights by hand: convolutions, two numbers per channel of each normalisation, the biases of the last
    before, count = 3, 0
    for after, size in zip(published[:-1], sizes[:-1], strict=True):
        count += before * after * size**2 + 2 * after
        before = after
    assert parameters(network) == count + 1024 * 1000 + 1000


@pytest.mark.parametrize(
    ("small", "pixels", "positions"), [(True, 32, 2), (True, 16, 1), (False, 64, 2), (False, 96, 3)]
)
def test_darknet_leaves_a_few_positions_to_average(small, pixels, positions):
    network = Darknet19(7, small_images=small, width=0.0625)
    images = torch.randn(2, 3, pixels, pixels)
    assert network.features(images).shape[2:] == (positions, positions)
    assert network(images).shape == (2, 7)


def test_darknet_takes_grey_images_and_gives_one_logit():
    network = Darknet19(1, in_channels=1, small_images=True, width=0.0625)
    assert network(torch.randn(3, 1, 32, 32)).shape == (3, 1)


@pytest.mark.parametrize(("build", "published"), [(resnet18, 11_689_512), (resnet34, 21_797_672)])
def test_resnets_have_the_published_number_of_parameters(build, published):
    # of the ImageNet form, 1000 classes, as torchvision counts them
    assert parameters(build(1000, small_images=False)) == published


@pytest.mark.parametrize(("build", "depth"), [(resnet18, 18), (resnet34, 34)])
def test_resnets_have_the_depth_of_their_name(build, depth):
    network = build(10, width=0.0625)
    # shortcuts do not count
    layers = [
        name
        for name, m in network.named_modules()
        if isinstance(m, nn.Conv2d | nn.Linear) and "shortcut" not in name
    ]
    assert len(layers) == depth


@pytest.mark.parametrize(("small", "pixels", "positions"), [(True, 32, 4), (False, 64, 2)])
def test_resnet_halves_the_resolution_three_or_five_times(small, pixels, positions):
    network = resnet18(2, small_images=small, width=0.0625)
    images = torch.randn(2, 3, pixels, pixels)
    assert network.stages(network.stem(images)).shape[2:] == (positions, positions)
    assert network(images).shape == (2, 2)


@pytest.mark.parametrize(
    "network",
    [
        Darknet19(2, small_images=True, width=0.125),
        resnet18(2, width=0.125),
        ResNet((1, 1, 1, 1), 2, in_channels=3, width=0.125),
    ],
    ids=["darknet", "resnet18", "resnet of four blocks"],
)
def test_image_networks_learn(network):
    torch.manual_seed(0)
    targets = torch.arange(16) % 2
    images = torch.randn(16, 3, 32, 32) + targets.reshape(-1, 1, 1, 1)
    assert_learns(network, images, targets)


@pytest.mark.parametrize(
    ("provoke", "error", "message"),
    [
        (lambda: east_network(0, 2), ValueError, "num_features of east_network must be >= 1"),
        (lambda: btg_network(3, 1.5), TypeError, "num_outputs of btg_network must be an integer"),
        (lambda: btg_network(3, dropout=1), ValueError, r"dropout of btg_network must be in \[0"),
        (lambda: Darknet19(0), ValueError, "num_outputs of Darknet19 must be >= 1; got 0"),
        (lambda: Darknet19(2, width=0), ValueError, "width of Darknet19 must be > 0; got 0"),
        (lambda: Darknet19(2, in_channels="3"), TypeError, "in_channels of Darknet19"),
        (lambda: ResNet((2, 2), 2), ValueError, "blocks of ResNet must be four numbers"),
        (lambda: ResNet((2, 2, 0, 2), 2), ValueError, "blocks of ResNet must be >= 1; got 0"),
        (lambda: resnet18(-1), ValueError, "num_outputs of ResNet must be >= 1; got -1"),
    ],
)
def test_wrong_sizes(provoke, error, message):
    with pytest.raises(error, match=message):
        provoke()
