"""Classifiers with scikit-learn's interface: networks, boosted trees, an ensemble, and a wrapper for any classifier."""
