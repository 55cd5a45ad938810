"""Value and slope in closed form, against autograd of the formula itself."""

from __future__ import annotations

import pytest
import torch

from eastward.confusion import Counts
from eastward.metrics import as_metric, get, names, quotients
from eastward.metrics.averaged_quotients import in_arrays, in_loops
from eastward.metrics.closed_forms import closed_form_of

MATRIX_METRICS = ("expected_cost", "cohen_kappa_linear", "cohen_kappa_quadratic")
ONE_CLASS = ("f1", "precision", "recall", "specificity", "jaccard", "fowlkes_mallows")
BY_AUTOGRAD_FOR_LABELS = ("matthews_corrcoef", "cohen_kappa", "geometric_mean")


def matrices(size):
    """Soft matrices: ordinary, with an absent class, a class never found, one class alone."""
    generator = torch.Generator().manual_seed(size)
    matrix = torch.rand(4, size, size, generator=generator, dtype=torch.float64)
    matrix[1, 1] = 0.0
    matrix[2, :, 0] = 0.0
    matrix[3, 1:] = 0.0
    return matrix


def tables(size):
    """Counts of these matrices."""
    matrix = matrices(size)
    tp = matrix.diagonal(dim1=1, dim2=2)
    fp, fn = matrix.sum(1) - tp, matrix.sum(2) - tp
    return torch.stack([tp, fp, fn, matrix.sum((1, 2)).unsqueeze(1) - tp - fp - fn], 1)


def cases():
    for name in names():
        if name not in MATRIX_METRICS and form_of(get(name)) is not None:
            policies = ("skip", "observed", "zero", "one") if get(name).per_class else ("",)
            yield from ((name, policy) for policy in policies)


def form_of(metric):
    return closed_form_of(metric, size_for(metric.name), exclusive=True)


def size_for(name):
    return 2 if name in ONE_CLASS else 4


@pytest.fixture(params=["compiled", "arrays", "loops"])
def evaluation(request, monkeypatch):
    """Compiled loops, arrays as without numba, and the loops as Python runs them."""
    ways = {"arrays": lambda: in_arrays, "loops": lambda: in_loops, "compiled": quotients.fastest}
    monkeypatch.setattr(quotients, "fastest", ways[request.param])


@pytest.mark.usefixtures("evaluation")
@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
@pytest.mark.parametrize(("name", "policy"), list(cases()))
def test_value_and_slope_are_those_of_autograd(name, policy, unit):
    metric = get(name, absent=policy) if policy else get(name)
    form = form_of(metric)
    leaf = (unit * tables(size_for(name))).requires_grad_()
    expected = torch.stack([metric(Counts.unstack(table)) for table in leaf])
    (by_counts,) = torch.autograd.grad(expected.sum(), leaf)
    values, slopes, mean, empty = form(leaf.detach().numpy(), 2.0)
    torch.testing.assert_close(torch.from_numpy(values), expected.detach())
    assert mean == pytest.approx(expected.mean().item())
    assert not empty
    # Masses of true classes are fixed: only what moves between tp and fn, and between fp and tn, counts.
    moved = (2 * by_counts)[:, :2] - (2 * by_counts)[:, 2:]
    found = torch.from_numpy(slopes[:, :2] - slopes[:, 2:])
    torch.testing.assert_close(unit * found, unit * moved, atol=1e-7, rtol=1e-6)


def test_no_metric_of_counts_has_lost_its_closed_form():
    assert len({name for name, _ in cases()}) >= 32


COST = [[0.0, 1.0, 2.0, -1.0], [5.0, 0.0, 1.0, 1.0], [0.5, 3.0, -2.0, 1.0], [1.0, 1.0, 1.0, 0.0]]


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
@pytest.mark.parametrize(
    "metric",
    [
        get("cohen_kappa_linear"),
        get("cohen_kappa_quadratic"),
        get("expected_cost", cost=COST),
        # Its weights lie in memory column by column.
        get("expected_cost", cost=torch.tensor(COST).T),
    ],
    ids=lambda metric: metric.name,
)
def test_value_and_slope_of_weighted_cells_are_those_of_autograd(metric, unit):
    form = closed_form_of(metric, 4, exclusive=True)
    # The last has one class, always predicted right: no disagreement by chance.
    corner = torch.diag(torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)).unsqueeze(0)
    leaf = (unit * torch.cat([matrices(4), corner])).requires_grad_()
    expected = torch.stack([metric(table) for table in leaf])
    (by_cells,) = torch.autograd.grad(expected.sum(), leaf)
    values, slopes, mean, empty = form(leaf.detach().numpy(), 2.0)
    torch.testing.assert_close(torch.from_numpy(values), expected.detach())
    assert mean == pytest.approx(expected.mean().item())
    assert not empty
    assert slopes.flags.c_contiguous
    # Masses of true classes are fixed: only what moves along a row counts.
    found = torch.from_numpy(slopes)
    moved, by_cells = found - found.mean(2, keepdim=True), 2 * by_cells
    torch.testing.assert_close(
        unit * moved, unit * (by_cells - by_cells.mean(2, keepdim=True)), atol=1e-9, rtol=1e-6
    )


def test_a_cost_that_learns_is_left_to_autograd():
    cost = torch.rand(3, 3, requires_grad=True)
    assert closed_form_of(get("expected_cost", cost=cost), 3, exclusive=True) is None


def test_a_counted_metric_that_gets_the_matrix_is_left_to_autograd():
    assert closed_form_of(as_metric(get("accuracy").function), 3, exclusive=True) is None


@pytest.mark.parametrize("name", [*BY_AUTOGRAD_FOR_LABELS, "cohen_kappa_quadratic"])
def test_metrics_without_a_closed_form_are_left_to_autograd(name):
    assert closed_form_of(get(name), 3, exclusive=False) is None


def test_an_empty_table_is_reported():
    values, slopes, _, empty = closed_form_of(get("matthews_corrcoef"), 3, exclusive=True)(
        torch.zeros(2, 4, 3, dtype=torch.float64).numpy()
    )
    assert empty
    assert values.tolist() == [0.0, 0.0]
    assert not slopes.any()
