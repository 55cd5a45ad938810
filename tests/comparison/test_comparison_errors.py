"""What compare refuses, and in which words."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from comparison_problems import Majority, blobs
from sklearn.linear_model import LogisticRegression

from eastward import compare

X, Y = blobs(rows=30)
SENTENCE = re.compile(r"^.+ of compare must be .+; got .+\.", re.DOTALL)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_splits": 1}, ValueError, "n_splits of compare must be >= 2; got 1"),
        ({"n_splits": 2.5}, TypeError, "n_splits of compare must be an integer"),
        ({"test_size": 1.0}, ValueError, "test_size of compare must be strictly between 0 and 1"),
        ({"budget": 0}, ValueError, "budget of compare must be > 0"),
        ({"tie_margin": -0.1}, ValueError, "tie_margin of compare must be >= 0"),
        ({"random_state": -1}, ValueError, "random_state of compare must be >= 0"),
        ({"methods": "eastward"}, TypeError, r"methods=\['eastward'\]"),
        ({"methods": 5}, TypeError, "a sequence of names, or a mapping"),
        ({"methods": ["eastwart"]}, ValueError, "Did you mean 'eastward'"),
        ({"methods": ["focal", "focal"]}, ValueError, r"repeated names; got \['focal'\]"),
        ({"methods": ["cross_entropy_tuned"]}, ValueError, "at least one besides the baseline"),
        ({"methods": {"mine": Majority}}, TypeError, r"methods\['mine'\] of compare must be a sci"),
        ({"methods": {"mine": 3}}, TypeError, "a scikit-learn classifier; got int 3"),
        ({"baseline": "cross_entropi"}, ValueError, "Did you mean 'cross_entropy'"),
        ({"method_options": {"hiddne": 3}}, ValueError, "'hiddne'. Did you mean 'hidden'"),
        ({"method_options": {"recipe": "paper"}}, ValueError, "got 'recipe'"),
        ({"preprocess": 3}, TypeError, "preprocess of compare must be a scikit-learn transformer"),
        ({"sample_weight": np.full(30, -1.0)}, ValueError, "sample_weight of compare must be fin"),
        ({"y": np.zeros(30, int)}, ValueError, "y of compare must be of two or more classes"),
        (
            {"y": np.arange(30) // 29},
            ValueError,
            "of at least two classes with at least two rows each",
        ),
        ({"y": np.eye(2, dtype=int)[Y % 2]}, ValueError, "y of compare must be one label per"),
        (
            {"X": pd.DataFrame({"age": range(30), "town": ["Ulm"] * 30})},
            ValueError,
            r"columns \['town'\]. Give preprocess=",
        ),
    ],
)
def test_mistakes_are_explained(options, error, message):
    arguments = {"X": X, "y": Y, "methods": {"mine": LogisticRegression()}} | options
    with pytest.raises(error, match=message) as caught:
        compare(**arguments)
    assert SENTENCE.search(str(caught.value)), str(caught.value)


def test_an_unknown_metric_is_explained():
    with pytest.raises(ValueError, match="Did you mean"):
        compare(X, Y, "f1macro")


def test_what_cannot_be_named_cannot_be_stored(tmp_path):
    metric = lambda confusion: confusion.trace() / confusion.sum()  # noqa: E731  # not picklable
    options = {"methods": {"mine": Majority()}, "baseline": "mine", "store": tmp_path}
    options["methods"]["other"] = LogisticRegression()
    with pytest.raises(TypeError, match="metric of compare must be picklable when store is given"):
        compare(X, Y, metric, **options)
    assert compare(X, Y, metric, **(options | {"store": None}), n_splits=2).methods[0]["mean"] > 0
