"""scikit-learn's own checks of an estimator, with both libraries."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from eastward.estimators.boosting import EASTBoostingClassifier

# Leaves have a least number of rows and bins are quantiles of rows: a row of weight two is one of them. LightGBM's own
# classifier is excused from the same check.
WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
EXPECTED = {WEIGHTS: "rows, not weights, decide on bins and on the size of leaves"}


@pytest.mark.filterwarnings("ignore:only one sample each of class:UserWarning")
@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks(
    [
        EASTBoostingClassifier(
            backend=backend, n_estimators=10, aligned_rounds=2, cv=2, n_bags=1, random_state=0
        )
        for backend in ("lightgbm", "xgboost")
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learns_check(estimator, check):
    check(estimator)
