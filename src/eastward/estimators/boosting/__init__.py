"""EASTBoostingClassifier: boosted trees that are weighted, grown and decided for one metric."""

from eastward.estimators.boosting.classifier import EASTBoostingClassifier

__all__ = ["EASTBoostingClassifier"]
