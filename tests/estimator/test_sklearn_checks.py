"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import pytest
from sklearn.neural_network import MLPClassifier
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_CHECK_PARAMS
from sklearn.utils.estimator_checks import parametrize_with_checks

from eastward.estimators.network import EASTClassifier

# Rows of weight zero are removed before anything random happens, and weights reach every loss and table. But a
# row of weight two is one row of a shuffled batch, and two equal rows are two: what stochastic training makes
# of them differs, although both minimise the same function.
STOCHASTIC = "check_sample_weight_equivalence_on_dense_data"
EXPECTED = {STOCHASTIC: "batches of a weighted table are not batches of a repeated one"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:classes with a single row:UserWarning")
@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
# One check passes infinite labels, which scikit-learn casts on its way to refusing them.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks(
    [EASTClassifier(hidden=(16,), max_epochs=30, random_state=0)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learns_check(estimator, check):
    check(estimator)


def test_scikit_learn_spares_its_own_stochastic_network_the_same_check():
    # MLPClassifier is checked with the deterministic solver lbfgs there, and with no other.
    assert PER_ESTIMATOR_CHECK_PARAMS[MLPClassifier] == {STOCHASTIC: [{"solver": "lbfgs"}]}
