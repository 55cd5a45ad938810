"""Cross-fitted networks and trees, averaged, with one decision tuned for the metric."""

from eastward.estimators.ensemble.classifier import EASTEnsembleClassifier

__all__ = ["EASTEnsembleClassifier"]
