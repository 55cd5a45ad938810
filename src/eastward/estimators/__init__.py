"""Classifiers with scikit-learn's interface: networks, boosted trees, an ensemble, and any classifier redecided."""
