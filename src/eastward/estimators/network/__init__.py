"""EASTClassifier: a network trained, selected and decided by one metric."""

from eastward.estimators.network.classifier import EASTClassifier

__all__ = ["EASTClassifier"]
