"""Classical classifiers on the principal components of images."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from eastward import _checks

__all__ = ["image_forest", "on_principal_components"]


def on_principal_components(
    estimator: Any, *, variance: float = 0.8, random_state: int | None = None
) -> Pipeline:
    """Put a classifier on the principal components that explain a share of the images' variance.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``fit`` and ``predict``.
    variance : float, default=0.8
        Share of the variance, strictly between 0 and 1; the default is the papers'.
    random_state : int, optional
        Seed of the decomposition.

    Returns
    -------
    Pipeline
        An unfitted pipeline for images ``(N, ...)`` of any shape and of integer or floating type.

    References
    ----------
    EAST, caption of Table 2.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> [name for name, _ in on_principal_components(DummyClassifier()).steps]
    ['functiontransformer', 'pca', 'dummyclassifier']
    """
    share = _checks.in_unit_interval("on_principal_components", "variance", variance)
    # Using the covariance of the pixels is much faster than decomposing all images, and accurate enough for a share.
    components = PCA(share, svd_solver="covariance_eigh", random_state=random_state)
    return make_pipeline(FunctionTransformer(flattened), components, estimator)


def flattened(images: Any) -> np.ndarray[Any, Any]:
    """Flatten images ``(N, ...)`` to rows of float32 numbers.

    Examples
    --------
    >>> import numpy as np
    >>> flattened(np.zeros((5, 3, 8, 8), dtype=np.uint8)).shape
    (5, 192)
    """
    rows = np.asarray(images)
    return rows.reshape(len(rows), -1).astype(np.float32)


def image_forest(
    *,
    variance: float = 0.8,
    n_estimators: int = 100,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> Pipeline:
    """Make a random forest on the principal components of images.

    Parameters
    ----------
    variance : float, default=0.8
        Share of the images' variance that the components explain, strictly between 0 and 1.
    n_estimators : int, default=100
        Number of trees.
    n_jobs : int, optional
        Processes that grow trees.
    random_state : int, optional
        Seed of the forest and of the decomposition.

    Returns
    -------
    Pipeline
        An unfitted pipeline for images ``(N, ...)`` of any shape and of integer or floating type.

    References
    ----------
    EAST, Table 2.

    Examples
    --------
    >>> image_forest(n_estimators=10).steps[-1][0]
    'randomforestclassifier'
    """
    count = _checks.whole_number("image_forest", "n_estimators", n_estimators, at_least=1)
    forest = RandomForestClassifier(count, n_jobs=n_jobs, random_state=random_state)
    return on_principal_components(forest, variance=variance, random_state=random_state)
