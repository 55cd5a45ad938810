"""The loss under torch.compile, torch.func, autocast, pickling, copying and state_dict."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.func import grad, vmap

import eastward as ew

METRICS = ["f1_macro", "matthews_corrcoef", "cohen_kappa_quadratic", "geometric_mean"]


def batch(rows: int = 20, size: int = 3, dtype=torch.float32):
    return torch.randn(rows, size, dtype=dtype), torch.arange(rows) % size


@pytest.fixture
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


# --- torch.compile -------------------------------------------------------------------------------

MODULES = {
    "f1_macro": lambda: ew.EASTLoss("f1_macro"),
    "a matrix metric": lambda: ew.EASTLoss("cohen_kappa_quadratic"),
    "a grid and a prior": lambda: ew.EASTLoss(threshold=(0.3, 0.6), prior=[0.5, 0.3, 0.2]),
    "an own callable": lambda: ew.EASTLoss(lambda c: c.diagonal().sum() / c.sum()),
    "auroc": lambda: ew.AUROCLoss(thresholds=3),
    "a mapping of betas": lambda: ew.EASTLoss(ew.metrics.get("f_beta", beta={1: 2.0})),
    "a sequence of betas": lambda: ew.EASTLoss(ew.metrics.get("f_beta", beta=[1.0, 2.0, 0.5])),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODULES)
def test_a_compiled_loss_is_one_graph_that_survives_cooling(kind, fresh_compiler):
    loss = MODULES[kind]()
    # aot_eager traces forward and backward as the real backend does, and needs no C++ compiler.
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(loss, backend=counter, fullgraph=True)
    for temperature in (0.2, 0.1, 0.05, 0.01):
        loss.temperature = temperature
        logits, targets = batch()
        logits.requires_grad_()
        expected, ours = loss(logits, targets), compiled(logits, targets)
        torch.testing.assert_close(ours, expected)
        torch.testing.assert_close(
            torch.autograd.grad(ours, logits), torch.autograd.grad(expected, logits)
        )
    assert counter.frame_count == 1


@pytest.mark.slow
def test_a_compiled_running_loss_keeps_its_tables(fresh_compiler):
    eager = ew.EASTLoss(running=0.8)
    eager(*batch())
    compiled_loss = copy.deepcopy(eager)
    compiled = torch.compile(compiled_loss, backend="aot_eager", fullgraph=True)
    for _ in range(3):
        given = batch()
        torch.testing.assert_close(compiled(*given), eager(*given))
    torch.testing.assert_close(compiled_loss.running_tables, eager.running_tables)


@pytest.mark.slow
def test_a_network_and_its_loss_compile_together(fresh_compiler):
    network, loss = torch.nn.Linear(4, 3), ew.EASTLoss()

    def step(features, targets):
        return loss(network(features), targets)

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    features, targets = torch.randn(12, 4), torch.arange(12) % 3
    compiled(features, targets).backward()
    ours = network.weight.grad.clone()
    network.zero_grad()
    step(features, targets).backward()
    torch.testing.assert_close(ours, network.weight.grad)


# --- torch.func ----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_vmap_of_the_loss_and_of_its_gradient_equals_a_loop(metric):
    logits = torch.randn(5, 12, 3, dtype=torch.float64)
    targets = torch.stack([torch.randperm(12) % 3 for _ in range(5)])

    def loss(one_logits, one_targets):
        return ew.metric_loss(one_logits, one_targets, metric)

    expected = torch.stack([loss(*pair) for pair in zip(logits, targets, strict=True)])
    torch.testing.assert_close(vmap(loss)(logits, targets), expected)
    slopes = torch.stack([grad(loss)(*pair) for pair in zip(logits, targets, strict=True)])
    torch.testing.assert_close(vmap(grad(loss))(logits, targets), slopes)


def test_vmap_over_models_leaves_targets_shared():
    logits, targets = torch.randn(4, 10, 3), torch.arange(10) % 3
    loss = ew.EASTLoss("f1_macro")
    expected = torch.stack([loss(one, targets) for one in logits])
    torch.testing.assert_close(vmap(loss, in_dims=(0, None))(logits, targets), expected)


@pytest.mark.parametrize("loss", [ew.AUROCLoss(), ew.AveragePrecisionLoss()], ids=repr)
def test_vmap_of_a_ranking_loss_equals_a_loop(loss):
    logits, targets = torch.randn(4, 10), torch.arange(10) % 2
    expected = torch.stack([loss(one, targets) for one in logits])
    torch.testing.assert_close(vmap(loss, in_dims=(0, None))(logits, targets), expected)


def test_the_functional_gradient_is_the_usual_one():
    logits, targets = batch()
    ours = grad(lambda z: ew.metric_loss(z, targets))(logits)
    logits.requires_grad_()
    expected = torch.autograd.grad(ew.metric_loss(logits, targets), logits)[0]
    torch.testing.assert_close(ours, expected)


# --- autocast ------------------------------------------------------------------------------------

ALL_LOSSES = {
    "EASTLoss": lambda: ew.EASTLoss("f1_macro"),
    "AUROCLoss": ew.AUROCLoss,
    "AveragePrecisionLoss": ew.AveragePrecisionLoss,
}


@pytest.mark.parametrize("kind", ALL_LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_under_autocast_the_loss_is_float32_and_scaled_gradients_are_finite(kind, dtype):
    network, loss = torch.nn.Linear(4, 3), ALL_LOSSES[kind]()
    features, targets = torch.randn(64, 4), torch.arange(64) % 3
    with torch.autocast("cpu", dtype=dtype):
        logits = network(features)
        assert logits.dtype == dtype
        value = loss(logits, targets)
    assert value.dtype == torch.float32
    (65536.0 * value).backward()
    assert torch.isfinite(network.weight.grad).all()
    assert network.weight.grad.abs().sum() > 0
    torch.testing.assert_close(value, loss(network(features), targets), atol=0.02, rtol=0)


@pytest.mark.parametrize("kind", ALL_LOSSES)
def test_under_autocast_double_precision_stays_double(kind):
    logits, targets = batch(dtype=torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ALL_LOSSES[kind]()(logits, targets).dtype == torch.float64


# --- saving and copying --------------------------------------------------------------------------

STATEFUL = {
    **ALL_LOSSES,
    "running": lambda: ew.EASTLoss("f1_macro", running=0.9),
    "running on a grid": lambda: ew.EASTLoss("accuracy", running=0.5, threshold=(0.3, 0.6)),
    "with everything": lambda: ew.EASTLoss(
        ew.metrics.get("expected_cost", cost=[[0, 1, 2], [3, 0, 1], [1, 1, 0]]),
        prior=[0.5, 0.3, 0.2],
        threshold=0.4,
        step="sigmoid",
        running=0.7,
    ),
}


def through_pickle(loss):
    return pickle.loads(pickle.dumps(loss))


def through_torch_save(loss):
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle, through_torch_save])
@pytest.mark.parametrize("kind", STATEFUL)
def test_a_copy_goes_on_like_the_original(kind, copied):
    loss = STATEFUL[kind]()
    loss.temperature = 0.07
    loss(*batch())
    twin = copied(loss)
    for _ in range(2):
        given = batch()
        torch.testing.assert_close(twin(*given), loss(*given))
    assert repr(twin) == repr(loss)


@pytest.mark.parametrize("kind", STATEFUL)
def test_a_fresh_loss_with_the_saved_state_goes_on_like_the_original(kind):
    loss = STATEFUL[kind]()
    loss.temperature = 0.07
    loss(*batch())
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    file.seek(0)
    fresh = STATEFUL[kind]()
    fresh.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(2):
        given = batch()
        torch.testing.assert_close(fresh(*given), loss(*given))


def test_the_state_of_a_loss_inside_a_module_is_restored_too():
    def build():
        return torch.nn.ModuleDict(
            {"network": torch.nn.Linear(4, 3), "loss": ew.EASTLoss(running=0.9)}
        )

    first, second = build(), build()
    first["loss"](*batch())
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(second["loss"].running_tables, first["loss"].running_tables)


def test_an_unused_running_loss_can_be_saved_and_restored():
    loss = ew.EASTLoss(running=0.9)
    fresh = ew.EASTLoss(running=0.9)
    fresh(*batch())
    fresh.load_state_dict(loss.state_dict())
    given = batch()
    torch.testing.assert_close(fresh(*given), loss(*given))
