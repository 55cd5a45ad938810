"""compare on the back ends of joblib: the same scores, and a killed worker costs its own cell only."""

from __future__ import annotations

import joblib
import pytest
from comparison_problems import SMALL, KillsItsProcess, blobs, overlapping
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from eastward import TunedDecisionClassifierCV, compare

pytestmark = [pytest.mark.slow, pytest.mark.distributed]
METHODS = {
    "naive_bayes": GaussianNB(),
    # Dask would run folds on the cluster as well, unless they are kept in the process of their cell.
    "tuned_naive_bayes": TunedDecisionClassifierCV(GaussianNB(), "f1_macro", cv=3, random_state=0),
    "logistic": LogisticRegression(),
}


@pytest.fixture(scope="module")
def cluster():
    """A Dask cluster of two workers on this machine."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", **options) as local, Client(local) as client:
        yield client


def scores(result):
    return [(c["method"], c["split"], c["score"], c["log_loss"], c["error"]) for c in result.cells]


def run(X, y, methods=METHODS, **options):
    common = {"baseline": "logistic", "n_splits": 2, "thorough": True, "random_state": 0}
    return compare(X, y, methods=methods, **common | options)


@pytest.mark.parametrize("backend", ["dask", "threading"])
def test_every_back_end_gives_the_same_scores(backend, cluster):
    X, y = overlapping(rows=240)
    options = {"methods": [*METHODS.items(), "cross_entropy"], "method_options": SMALL}
    alone = run(X, y, **options)
    with joblib.parallel_config(backend, n_jobs=2):
        shared = run(X, y, **options)
    assert scores(shared) == scores(alone)


def test_cells_are_run_by_the_workers_of_a_cluster(cluster):
    X, y = blobs()
    before = cluster.run(lambda dask_worker: dask_worker.state.executed_count)
    with joblib.parallel_config("dask"):
        run(X, y)
    after = cluster.run(lambda dask_worker: dask_worker.state.executed_count)
    assert sum(after.values()) - sum(before.values()) == 2 * len(METHODS)


@pytest.mark.parametrize("backend", ["dask", "loky"])
def test_a_killed_worker_costs_its_cell_only(backend, cluster, tmp_path):
    X, y = blobs()
    expected = scores(run(X, y))
    victim = KillsItsProcess(str(tmp_path / "killed"))
    with joblib.parallel_config(backend, n_jobs=2):
        result = run(X, y, methods={**METHODS, "victim": victim})
    assert (tmp_path / "killed").exists()
    others = [cell for cell in scores(result) if cell[0] != "victim"]
    assert others == expected
    # Run again, it was finished.
    assert [cell["error"] for cell in result.cells] == [None] * 8


def test_a_method_that_kills_every_worker_fails_alone(tmp_path):
    X, y = blobs()
    victim = KillsItsProcess(str(tmp_path / "killed"), always=True)
    with joblib.parallel_config("loky", n_jobs=2):
        result = run(X, y, methods={**METHODS, "victim": victim})
    failed = {cell["method"] for cell in result.cells if cell["error"] is not None}
    assert failed == {"victim"}
    assert {cell["error"] for cell in result.cells if cell["method"] == "victim"} == {
        "RuntimeError: its process was killed, perhaps for lack of memory"
    }
    assert result.verdict["recommended"] != "victim"


def test_the_folds_of_a_tuned_classifier_run_on_a_cluster_as_well(cluster):
    X, y = overlapping(rows=240)
    alone = METHODS["tuned_naive_bayes"].fit(X, y).decision_.matrix
    with joblib.parallel_config("dask"):
        shared = TunedDecisionClassifierCV(GaussianNB(), "f1_macro", cv=3, random_state=0).fit(X, y)
    assert shared.decision_.matrix.tolist() == alone.tolist()
