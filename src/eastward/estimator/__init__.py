"""EASTClassifier: a network trained, selected and decided by one metric."""

from eastward.estimator.classifier import EASTClassifier

__all__ = ["EASTClassifier"]
