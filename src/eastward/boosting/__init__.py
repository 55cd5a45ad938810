"""Metrics as objectives of LightGBM and XGBoost."""

from __future__ import annotations

import importlib
from typing import Any

from eastward.boosting.gradients import metric_gradients
from eastward.boosting.objectives import (
    lightgbm_metric,
    lightgbm_objective,
    sklearn_loss,
    sklearn_metric,
    sklearn_objective,
    true_score,
    xgboost_metric,
    xgboost_objective,
)

__all__ = [
    "lightgbm_metric",
    "lightgbm_objective",
    "metric_gradients",
    "sklearn_loss",
    "sklearn_metric",
    "sklearn_objective",
    "true_score",
    "xgboost_metric",
    "xgboost_objective",
]


def __getattr__(name: str) -> Any:
    # The classifier has moved to eastward.estimators.boosting; the old path works until 0.3.
    if name == "EASTBoostingClassifier":
        return getattr(importlib.import_module("eastward.estimators.boosting"), name)
    raise AttributeError(f"module 'eastward.boosting' has no attribute {name!r}")
