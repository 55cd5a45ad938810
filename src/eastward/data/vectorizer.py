"""Raw columns to numbers: skrub's TableVectorizer, with what a network needs after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eastward.data.columns import CATEGORY_LIMIT

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

__all__ = ["feature_origins", "finite_float32", "make_vectorizer"]


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
    # Loaded here: whoever reads a table, or mistypes the name of a column, need not wait for skrub.
    from sklearn.impute import SimpleImputer  # noqa: PLC0415
    from sklearn.pipeline import Pipeline  # noqa: PLC0415
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder  # noqa: PLC0415
    from skrub import TableVectorizer  # noqa: PLC0415

    from eastward.data.strings import DistinctStringEncoder  # noqa: PLC0415

    encode = OneHotEncoder(handle_unknown="ignore", dtype=np.float32, sparse_output=False)
    table = TableVectorizer(
        cardinality_threshold=CATEGORY_LIMIT,
        # No column is left out for two values: then an unknown value would look like the first one.
        low_cardinality=encode,
        high_cardinality=DistinctStringEncoder(random_state=0),
        drop_if_constant=True,
    )
    return Pipeline(
        [
            ("columns", table),
            ("finite", FunctionTransformer(finite_float32, feature_names_out="one-to-one")),
            (
                "fill",
                SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
            ),
        ]
    )


def feature_origins(vectorizer: Pipeline) -> list[str]:
    """The column of the table that each output of a fitted :func:`make_vectorizer` was made of.

    Their own names are ``vectorizer.get_feature_names_out()``.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [31, None, 40], "city": ["Graz", "Linz", "Graz"]})
    >>> vectorizer = make_vectorizer().fit(frame)
    >>> feature_origins(vectorizer)
    ['age', 'city', 'city', 'age']
    >>> vectorizer.get_feature_names_out().tolist()
    ['age', 'city_Graz', 'city_Linz', 'missingindicator_age']
    """
    table, fill = vectorizer.named_steps["columns"], vectorizer.named_steps["fill"]
    outputs = [str(table.output_to_input_[name]) for name in table.get_feature_names_out()]
    # The imputer adds a column after the others for each that had gaps.
    return outputs + [outputs[k] for k in fill.indicator_.features_]


def finite_float32(table: Any) -> NDArray[np.float32]:
    """``table`` as a new float32 array; what is infinite or too large for it counts as missing."""
    with np.errstate(over="ignore"):
        array = np.array(table, dtype=np.float32)
    array[np.isinf(array)] = np.nan
    return array
