"""EASTClassifier: a network that is trained, selected and decided by one metric."""

from eastward.estimators.network.classifier import EASTClassifier

__all__ = ["EASTClassifier"]
