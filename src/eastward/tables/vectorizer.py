"""Raw columns to numbers: skrub's TableVectorizer, with what a network needs after it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from skrub import StringEncoder, TableVectorizer

from eastward.tables.columns import CATEGORY_LIMIT

__all__ = ["make_vectorizer"]


def make_vectorizer() -> Pipeline:
    """An unfitted transformer from a raw table to a float32 array without missing values.

    Numbers pass; dates become their parts; strings become one column for each value, or, from 40 values on, thirty
    numbers made of their letters; constant columns disappear. Missing and infinite numbers become the median, with
    a column that says where. Fit it on training rows only.

    Returns
    -------
    Pipeline
        A scikit-learn transformer; ``fit_transform(frame)`` has shape ``(rows, features)``.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [31, None, 40], "city": ["Graz", "Linz", "Graz"]})
    >>> make_vectorizer().fit_transform(frame)
    array([[31. ,  1. ,  0. ,  0. ],
           [35.5,  0. ,  1. ,  1. ],
           [40. ,  1. ,  0. ,  0. ]], dtype=float32)
    """
    encode = OneHotEncoder(handle_unknown="ignore", dtype=np.float32, sparse_output=False)
    table = TableVectorizer(
        cardinality_threshold=CATEGORY_LIMIT,
        # No column is left out for two values: then an unknown value would look like the first one.
        low_cardinality=encode,
        high_cardinality=StringEncoder(random_state=0),
        drop_if_constant=True,
    )
    return Pipeline(
        [
            ("columns", table),
            ("finite", FunctionTransformer(np.nan_to_num, kw_args=_INFINITE_IS_MISSING)),
            (
                "fill",
                SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
            ),
        ]
    )


_INFINITE_IS_MISSING: dict[str, Any] = {"nan": np.nan, "posinf": np.nan, "neginf": np.nan}
