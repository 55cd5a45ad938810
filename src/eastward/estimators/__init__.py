"""Classifiers with scikit-learn's interface: networks, boosted trees, their ensemble, and any classifier re-decided."""
