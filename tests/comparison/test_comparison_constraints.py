"""Constraints in a comparison: who breaks them is marked and not recommended."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from eastward.comparison import compare
from eastward.comparison.constraints import broken_constraints, verdict_of_keepers
from eastward.constraints import parse_constraints
from eastward.metrics import get

PAIR = ["logistic_regression", "logistic_regression_tuned"]


@pytest.mark.slow
def test_who_keeps_the_constraint_is_recommended_although_another_scores_higher():
    X, y = make_classification(400, weights=[0.8], flip_y=0.1, random_state=0)
    asked = {"subject_to": "recall[1] >= 0.8", "confidence": 0.8}
    result = compare(X, y, "f1", methods=PAIR, baseline=PAIR[0], n_splits=2, **asked)
    plain, tuned = result.methods
    assert plain["mean"] > tuned["mean"]
    assert len(plain["breaks"]) == 1
    assert plain["breaks"][0].startswith("recall[1] >= 0.8: 0.")
    assert tuned["breaks"] == []
    assert result.verdict["recommended"] == "logistic_regression_tuned"
    assert any(line.startswith("Logistic regression violates") for line in result.verdict["detail"])


@pytest.mark.parametrize(
    ("breaking", "recommended"),
    [((), "judged"), (("b",), "judged"), (("a",), "b"), (("a", "b", "c"), None)],
)
def test_the_verdict_is_among_those_that_keep_everything(breaking, recommended):
    means = {"a": 0.9, "b": 0.8, "c": 0.7}
    rows = [
        {"name": n, "label": n, "mean": m, "breaks": ["x"] if n in breaking else []}
        for n, m in means.items()
    ]

    def judged(kept):
        assert [row["name"] for row in kept] == [n for n in means if n not in breaking]
        return {"sentence": "", "detail": [], "recommended": "judged"}

    found = verdict_of_keepers(rows, judged, metric=get("f1"), baseline="a")
    assert found["recommended"] == recommended
    assert len(found["detail"]) == len(breaking)


def test_upper_bounds_are_broken_from_above():
    constraints = parse_constraints("test", "predicted_rate[1] <= 0.2", 2)
    cells = [{"method": "a", "error": None, "constraints": [value]} for value in (0.1, 0.4)]
    cells.append({"method": "b", "error": "failed"})
    assert broken_constraints(cells, constraints) == {
        "a": ["predicted_rate[1] <= 0.2: 0.250 on average"],
        "b": [],
    }


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"subject_to": "recall[7] >= 0.8"}, "subject_to of compare must be about known classes"),
        ({"coverage": 1.5}, "coverage of compare must be strictly between 0 and 1; got 1.5"),
        ({"abstain_cost": -1.0}, "abstain_cost of compare must be >= 0; got -1"),
    ],
)
def test_what_cannot_be_compared_is_refused(wish, message):
    X, y = make_classification(60, random_state=0)
    with pytest.raises(ValueError, match=message):
        compare(X, y, "f1", methods=PAIR, n_splits=2, **wish)


@pytest.mark.parametrize("wish", [{"abstain_cost": 0.3}, {"coverage": 0.8, "confidence": 0.8}])
@pytest.mark.slow
def test_rows_may_be_left_to_somebody_at_their_cost(wish):
    X, y = make_classification(400, weights=[0.6], flip_y=0.1, random_state=0)
    y = np.where(y, "yes", "no")
    result = compare(X, y, "accuracy", methods=PAIR, baseline=PAIR[0], n_splits=2, **wish)
    plain, tuned = result.methods
    assert plain["coverage"] == 1
    assert 0.5 < tuned["coverage"] < 1
    assert tuned["mean"] > plain["mean"]
    words = f"leaves {1 - tuned['coverage']:.1%} of the rows undecided."
    assert any(line.endswith(words) for line in result.verdict["detail"])
    # The score is that of the estimator itself: undecided rows are right, at their cost.
    model = result.fit_recommended()
    assert model.abstain_cost == wish.get("abstain_cost")
    decided = model.predict(X) != "abstain"
    right = (model.predict(X) == y)[decided].sum() + (~decided).sum()
    price = wish.get("abstain_cost", 0.0) * (~decided).mean()
    assert model.score(X, y) == pytest.approx(right / len(y) - price)
