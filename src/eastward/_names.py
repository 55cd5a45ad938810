"""Names that commands check before they load torch; tests hold them to the modules that define what they mean."""

from __future__ import annotations

__all__ = ["METHODS", "RECIPES"]

# Methods of `compare`, those of the default comparison first.
METHODS = (
    "cross_entropy",
    "balanced_cross_entropy",
    "focal",
    "cross_entropy_tuned",
    "east_paper",
    "eastward",
    "random_forest",
    "random_forest_tuned",
    "gradient_boosting",
    "gradient_boosting_tuned",
    "ensemble",
    "boosting",
    "btg",
    "cross_entropy_ensemble",
    "cross_entropy_tuned_single",
    "eastward_single",
    "extra_trees",
    "extra_trees_tuned",
    "logistic_regression",
    "logistic_regression_tuned",
)
# Recipes of EASTClassifier.
RECIPES = ("auto", "paper", "btg", "cross_entropy", "focal")
