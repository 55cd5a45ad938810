"""Models that earlier versions saved: they load, decide as before, and say what changed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eastward.estimators.boosting import EASTBoostingClassifier
from eastward.estimators.ensemble import EASTEnsembleClassifier
from eastward.estimators.network import EASTClassifier

# Written by release 0.1 on the rows in expected.json.
FOLDER = Path(__file__).parent / "saved_before"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
KINDS = {
    "network": EASTClassifier,
    "boosting": EASTBoostingClassifier,
    "ensemble": EASTEnsembleClassifier,
}


@pytest.fixture(params=KINDS)
def loaded(request):
    with pytest.warns(UserWarning, match="was saved by eastward .* Its labels are as before"):
        model = KINDS[request.param].load(FOLDER / request.param)
    return model, EXPECTED["models"][request.param], np.array(EXPECTED["rows"])


def test_old_models_predict_the_same_labels(loaded):
    model, expected, rows = loaded
    assert model.predict(rows).tolist() == expected["labels"]


def test_probabilities_no_longer_hold_the_decision(loaded):
    model, expected, rows = loaded
    np.testing.assert_allclose(model.predict_proba(rows), model.raw_predict_proba(rows))
    if getattr(model, "aligned_booster_", None) is None:
        np.testing.assert_allclose(model.predict_proba(rows[:5]), expected["raw"], atol=2e-6)
    assert "predict_proba now returns" in model.summary()


def test_methods_that_need_held_out_rows_say_so(loaded):
    model, _, rows = loaded
    with pytest.raises(ValueError, match=r"must be a model with held-out .* Fit it again"):
        model.predict_set(rows)
    with pytest.raises(ValueError, match="Fit it again"):
        model.decide_by("accuracy")


def test_old_models_can_be_saved_again(loaded, tmp_path):
    model, expected, rows = loaded
    model.save(tmp_path / "again")
    again = type(model).load(tmp_path / "again")
    assert again.predict(rows).tolist() == expected["labels"]
