"""Inputs at which a fast version of the loss once differed from its definition, crashed, or said nothing."""

from __future__ import annotations

import copy
import math
import pickle
import threading

import pytest
import torch

import eastward as ew
from eastward.losses._at_table import VIRTUAL_SHARE, with_virtual_labels

WAYS = ["numba", "eager", "definition"]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    if request.param == "numba":
        pytest.importorskip("numba", reason="numba is not installed")
    monkeypatch.setenv("EASTWARD_KERNEL", request.param)
    return request.param


def value_and_gradient(loss, logits, targets, weights=None):
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, targets, weights)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def assert_like_double(loss, logits, targets, weights=None, *, value=1e-4, gradient=1e-3):
    """The loss and its gradient in float32 are those in float64, which take the definition."""
    ours = value_and_gradient(loss, logits, targets, weights)
    exact = value_and_gradient(loss, logits.double(), targets, weights)
    torch.testing.assert_close(ours[0].double(), exact[0], atol=value, rtol=0)
    size = exact[1].abs().max() + 1e-12
    torch.testing.assert_close(ours[1].double() / size, exact[1] / size, atol=gradient, rtol=0)


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_precision_of_confident_logits_is_that_of_double_precision(way, average):
    """The precision of a class that is never predicted is a quotient of tiny numbers."""
    torch.manual_seed(178)
    logits, targets = torch.randn(6, 100) * 20, torch.randint(100, (6,))
    loss = ew.EASTLoss(f"precision_{average}", temperature=0.05)
    exact = value_and_gradient(loss, logits.double(), targets)
    ours = value_and_gradient(loss, logits, targets)
    torch.testing.assert_close(ours[0].double(), exact[0], atol=1e-4, rtol=0)
    assert ours[1].abs().max() < 2 * exact[1].abs().max() + 1e-3
    assert_like_double(loss, logits, targets)


@pytest.mark.parametrize("threshold", [0.9, 0.1, (0.1, 0.5, 0.9)], ids=str)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_warmest_step_is_right_at_every_threshold(way, size, threshold):
    torch.manual_seed(0)
    logits, targets = 2 * torch.randn(30, size), torch.arange(30) % max(size, 2)
    loss = ew.EASTLoss("f1_macro", temperature=0.4, threshold=threshold)
    value, gradient = value_and_gradient(loss, logits, targets)
    assert 0 <= value <= 1
    assert gradient.abs().max() > 0
    assert_like_double(loss, logits, targets)


@pytest.mark.parametrize("absent", ["zero", "one", "observed", "skip"])
@pytest.mark.parametrize("metric", ["specificity_macro", "matthews_corrcoef", "markedness"])
@pytest.mark.parametrize("size", [2, 4])
def test_a_batch_of_one_class_is_right_under_every_policy(way, metric, absent, size):
    torch.manual_seed(0)
    logits, targets = torch.randn(7, size), torch.ones(7, dtype=torch.long)
    assert_like_double(ew.EASTLoss(metric, absent=absent), logits, targets)


@pytest.mark.parametrize("own", [None, "zero", "one", "observed", "skip"])
@pytest.mark.parametrize("told", [None, "zero", "one", "observed", "skip"])
def test_the_loss_keeps_the_metrics_own_policy_unless_it_is_told_another(own, told):
    torch.manual_seed(0)
    logits, targets = torch.randn(9, 4), torch.arange(9) % 2
    metric = ew.metrics.get("f_beta", beta=2.0, **({} if own is None else {"absent": own}))
    expected = ew.EASTLoss(ew.metrics.get("f_beta", beta=2.0), absent=told or own or "skip")
    loss = ew.EASTLoss(metric, absent=told)
    assert loss.absent == expected.absent
    assert loss(logits, targets) == expected(logits, targets)
    assert ew.metric_loss(logits, targets, metric, absent=told) == expected(logits, targets)


def test_the_policies_differ_where_classes_are_absent():
    torch.manual_seed(0)
    logits, targets = torch.randn(9, 4), torch.arange(9) % 2
    metrics = [ew.metrics.get("f1_macro", absent=policy) for policy in ("zero", "one", "skip")]
    assert len({ew.EASTLoss(metric)(logits, targets).item() for metric in metrics}) == 3


@pytest.mark.parametrize("unit", [1e-37, 1e-30, 1e-12, 1e12, 1e30, 3e38])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prior": [0.5, 0.3, 0.2]},
        {"metric": "matthews_corrcoef"},
        {"metric": "cohen_kappa_quadratic"},
        {"metric": "precision_weighted"},
        {"threshold": 0.4},
        {"metric": lambda confusion: confusion.diagonal().sum() / confusion.sum()},
    ],
    ids=["f1", "prior", "mcc", "kappa", "precision", "fixed", "callable"],
)
def test_the_unit_of_the_weights_does_not_matter(way, options, unit):
    torch.manual_seed(0)
    logits, targets, weights = torch.randn(30, 3), torch.arange(30) % 3, torch.rand(30)
    weights[0] = 1.0
    loss = ew.EASTLoss(**{"metric": "f1_macro", **options})
    expected = value_and_gradient(loss, logits, targets, weights)
    ours = value_and_gradient(loss, logits, targets, weights * unit)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("metric", ["f1_macro", "accuracy", "matthews_corrcoef", "geometric_mean"])
@pytest.mark.parametrize("kind", ["matrix", "counts"])
def test_a_table_of_nan_has_a_value_of_nan(metric, kind):
    matrix = torch.full((3, 3), float("nan"))
    table = matrix if kind == "matrix" else ew.Counts(*torch.full((4, 3), float("nan")))
    assert ew.metrics.get(metric)(table).isnan()


@pytest.mark.parametrize("size", [2, 3])
def test_a_step_of_nan_has_a_loss_of_nan(size):
    loss = ew.EASTLoss(step=lambda p, tau, _: (p - tau) * float("nan"))
    assert loss(torch.randn(6, size), torch.arange(6) % size).isnan()


# --- memory --------------------------------------------------------------------------------------

PLACES = {
    "targets elsewhere": ({"targets": "meta"}, "targets of EASTLoss must be on the logits' device"),
    "weights elsewhere": (
        {"weights": "meta"},
        "sample_weight of EASTLoss must be on the logits' device",
    ),
    "logits without values": ({"logits": "meta", "targets": "meta"}, "logits of .* with values"),
}


@pytest.mark.parametrize("case", PLACES)
def test_tensors_in_another_place_are_refused(way, case):
    devices, message = PLACES[case]
    given = {"logits": torch.randn(6, 3), "targets": torch.arange(6) % 3, "weights": torch.ones(6)}
    if case == "logits without values":
        given["weights"] = None
    given |= {name: given[name].to(device) for name, device in devices.items()}
    with pytest.raises(ValueError, match=message):
        ew.EASTLoss()(*given.values())


@pytest.mark.parametrize("name", ["logits", "targets", "weights"])
def test_a_tensor_whose_storage_is_gone_is_refused(way, name):
    given = {"logits": torch.randn(6, 3), "targets": torch.arange(6) % 3, "weights": torch.ones(6)}
    given[name].untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="storage was freed"):
        ew.EASTLoss()(*given.values())


def test_a_view_that_is_negated_lazily_keeps_its_sign(way):
    torch.manual_seed(0)
    lazy = torch.complex(torch.randn(6, 3), torch.randn(6, 3)).conj().imag
    assert lazy.is_neg()
    loss = ew.EASTLoss()
    torch.testing.assert_close(
        loss(lazy, torch.arange(6) % 3), loss(lazy.resolve_neg(), torch.arange(6) % 3)
    )


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("changed", ["targets", "weights"])
def test_a_change_in_place_between_two_backward_passes_is_noticed_or_harmless(way, changed, size):
    logits = torch.randn(6, size, requires_grad=True)
    given = {"targets": torch.arange(6) % size, "weights": torch.rand(6)}
    loss = ew.EASTLoss()(logits, *given.values())
    (before,) = torch.autograd.grad(loss, logits, retain_graph=True)
    given[changed].zero_()
    if way == "definition":
        # It works on copies of its own.
        (after,) = torch.autograd.grad(loss, logits)
        torch.testing.assert_close(after, before)
        return
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, logits)


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("dtype", [torch.int32, torch.bool], ids=str)
def test_a_change_in_place_is_noticed_by_second_derivatives_too(way, dtype, size):
    if dtype != torch.int32 and size > 2:
        pytest.skip("a dtype of two classes")
    logits = torch.randn(6, size, requires_grad=True)
    targets = (torch.arange(6) % size).to(dtype)
    loss = ew.EASTLoss()(logits, targets)
    (before,) = torch.autograd.grad(loss, logits, retain_graph=True)
    targets.zero_()
    try:
        (after,) = torch.autograd.grad(loss, logits, create_graph=True)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)  # noqa: PT017 - or the same gradient
    else:
        torch.testing.assert_close(after, before, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("gone", ["targets", "weights"])
def test_memory_that_is_gone_at_the_backward_pass_is_an_error_or_harmless(way, gone, size):
    logits = torch.randn(6, size, requires_grad=True)
    given = {"targets": torch.arange(6) % size, "weights": torch.rand(6)}
    loss = ew.EASTLoss()(logits, *given.values())
    given[gone].untyped_storage().resize_(0)
    if way == "definition":
        pytest.skip("autograd's own nodes decide")
    with pytest.raises(RuntimeError, match="must keep their memory until the backward pass"):
        torch.autograd.grad(loss, logits)


@pytest.mark.parametrize("size", [2, 5])
def test_hooks_on_saved_tensors_may_return_another_layout(way, size):
    logits = torch.randn(6, size, requires_grad=True)
    given = (torch.arange(6) % size, torch.rand(6))
    (plain,) = torch.autograd.grad(ew.EASTLoss()(logits, *given), logits)

    def loosely(tensor):
        wide = torch.stack([tensor, tensor], -1)[..., 0]
        return wide if tensor.is_floating_point() else wide.int()

    with torch.autograd.graph.saved_tensors_hooks(loosely, lambda tensor: tensor):
        loss = ew.EASTLoss()(logits, *given)
    if way == "definition":
        pytest.skip("its nodes save tensors of their own")
    (hooked,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(hooked, plain)


@pytest.mark.parametrize("kind", [ew.AUROCLoss, ew.AveragePrecisionLoss])
@pytest.mark.parametrize("size", [1, 3])
def test_ranking_losses_keep_nan(kind, size):
    def nothing(p, tau, temperature):
        return (p - tau) * float("nan")

    assert math.isnan(kind(step=nothing)(torch.randn(6, size), torch.arange(6) % max(2, size)))


def test_a_loss_pickled_before_constraints_still_works():
    loss = ew.EASTLoss()
    state = loss.__getstate__()
    del state["asked"]
    old = ew.EASTLoss.__new__(ew.EASTLoss)
    old.__setstate__(state)
    logits, targets = torch.randn(6, 3), torch.arange(6) % 3
    assert old(logits, targets) == loss(logits, targets)


# --- the temperature -----------------------------------------------------------------------------

LOSSES = [ew.EASTLoss, ew.AUROCLoss, ew.AveragePrecisionLoss]


@pytest.mark.parametrize("kind", LOSSES)
def test_a_loss_that_is_built_and_cooled_in_inference_mode_trains_afterwards(way, kind):
    with torch.inference_mode():
        loss = kind()
        loss.temperature = 0.1
    logits, targets = torch.randn(6, 2, requires_grad=True), torch.arange(6) % 2
    loss(logits, targets).backward()
    assert logits.grad.abs().sum() > 0
    assert loss.load_state_dict(kind(temperature=0.3).state_dict())
    assert float(loss.temperature) == pytest.approx(0.3)


def test_a_running_loss_that_saw_a_batch_in_inference_mode_trains_afterwards(way):
    loss = ew.EASTLoss(running=0.9, prior=[0.5, 0.5])
    logits, targets = torch.randn(6, 2, requires_grad=True), torch.arange(6) % 2
    with torch.inference_mode():
        loss(logits, targets)
    loss(logits, targets).backward()
    loss.load_state_dict(copy.deepcopy(loss.state_dict()))
    assert logits.grad.abs().sum() > 0


@pytest.mark.parametrize("options", [{}, {"multilabel": True}, {"threshold": 0.4}])
@pytest.mark.parametrize("size", [2, 5])
def test_a_loss_that_judged_a_batch_in_inference_mode_trains_afterwards(way, size, options):
    loss, new = ew.EASTLoss(**options), ew.EASTLoss(**options)
    logits = torch.randn(9, size, requires_grad=True)
    shape = (9, size) if "multilabel" in options else (9,)
    targets = torch.arange(math.prod(shape)).reshape(shape) % 2
    with torch.inference_mode():
        loss(logits, targets)
    (found,) = torch.autograd.grad(loss(logits, targets), logits)
    (expected,) = torch.autograd.grad(new(logits, targets), logits)
    torch.testing.assert_close(found, expected)
    assert found.abs().sum() > 0


def test_a_temperature_that_is_changed_in_place_counts(way):
    logits, targets = torch.randn(20, 3), torch.arange(20) % 3
    loss = ew.EASTLoss()
    loss(logits, targets)
    loss.temperature.data.fill_(0.05)
    expected = ew.EASTLoss(temperature=0.05)(logits, targets)
    torch.testing.assert_close(loss(logits, targets), expected)


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("value", [0.0, -1.0, 0.7, float("nan")])
def test_a_temperature_out_of_range_is_refused_however_it_is_set(way, kind, value):
    logits, targets = torch.randn(6, 2), torch.arange(6) % 2
    loss = kind()
    state = {**loss.state_dict(), "temperature": torch.tensor(value)}
    with pytest.raises(RuntimeError, match=r"temperature of .* must be in \(0, 0.4\]"):
        loss.load_state_dict(state)
    assert float(loss.temperature) == pytest.approx(0.2)
    loss.temperature.fill_(value)
    with pytest.raises(ValueError, match=r"temperature of .* must be (in \(0, 0.4\]|finite)"):
        loss(logits, targets)


@pytest.mark.parametrize("value", [1e-320, torch.tensor(1e-320, dtype=torch.float64)], ids=str)
def test_a_temperature_that_float32_cannot_hold_is_refused(value):
    for build in (lambda: ew.EASTLoss(temperature=value), lambda: ew.AUROCLoss(temperature=value)):
        with pytest.raises(ValueError, match=r"temperature of .* must be at least 1e-30"):
            build()
    with pytest.raises(ValueError, match="temperature of metric_loss must be at least 1e-30"):
        ew.metric_loss(torch.randn(4, 2), torch.arange(4) % 2, temperature=value)


def test_two_temperatures_are_refused():
    two = torch.tensor([0.1, 0.2])
    with pytest.raises(ValueError, match="temperature of EASTLoss must be one number"):
        ew.EASTLoss(temperature=two)
    with pytest.raises(ValueError, match="temperature of metric_loss must be one number"):
        ew.metric_loss(torch.randn(4, 2), torch.arange(4) % 2, temperature=two)
    loss = ew.EASTLoss()
    with pytest.raises(ValueError, match="temperature of EASTLoss must be one number"):
        loss.temperature = two


# --- the object ----------------------------------------------------------------------------------


def test_a_loss_is_shared_by_threads_and_copied_at_any_time(way):
    loss, targets = ew.EASTLoss("f1_macro"), torch.arange(40) % 4
    logits = [torch.randn(40, 4) for _ in range(4)]
    expected = [value_and_gradient(ew.EASTLoss("f1_macro"), one, targets) for one in logits]
    found = [None] * 4

    def work(index):
        for _ in range(20):
            found[index] = value_and_gradient(loss, logits[index], targets)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.testing.assert_close(found, expected)
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        torch.testing.assert_close(value_and_gradient(twin, logits[0], targets), expected[0])


def test_options_that_are_set_later_count(way):
    logits, targets = torch.randn(20, 3), torch.arange(20) % 3
    loss = ew.EASTLoss("f1_macro")
    loss(logits, targets)
    loss.metric, loss.thresholds = ew.metrics.get("accuracy"), (0.4,)
    expected = ew.EASTLoss("accuracy", threshold=0.4)(logits, targets)
    torch.testing.assert_close(loss(logits, targets), expected)


def test_labels_that_are_all_positive_or_all_negative_get_a_little_of_the_other_side():
    # tp, fp, fn, tn of a label that is always there, one that never is, and one that is at times
    tables = torch.tensor([[[3.0, 0, 1], [0, 1, 1], [1, 0, 1], [0, 3, 1]]])
    added = with_virtual_labels(tables, pooled=False) - tables
    share = 4 * VIRTUAL_SHARE
    expected = torch.tensor([[[0, share, 0], [0, 0, 0], [0, 0, 0], [share, 0, 0]]])
    torch.testing.assert_close(added, expected, atol=1e-6, rtol=0)
