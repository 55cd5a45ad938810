"""Boosted trees that grow towards a metric: objectives for LightGBM and XGBoost, and a classifier."""

from eastward.boosting.classifier import EASTBoostingClassifier
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
    "EASTBoostingClassifier",
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
