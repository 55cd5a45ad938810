"""scikit-learn's own checks of the ensemble."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from eastward.estimators.ensemble import EASTEnsembleClassifier

REASON = "bootstraps and batches of a weighted table are not those of a repeated one"
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": REASON}
NETWORK = {"hidden": (16,), "max_epochs": 20, "learning_rate": 1e-2}


@pytest.mark.filterwarnings("ignore:classes with a single row:UserWarning")
@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
# One check passes infinite labels, which scikit-learn casts on its way to refusing them.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks(
    [EASTEnsembleClassifier(network_options=NETWORK, n_bags=3, random_state=0)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learns_check(estimator, check):
    check(estimator)
