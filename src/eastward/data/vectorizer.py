"""Turn raw columns into numbers: skrub's TableVectorizer, followed by what a network needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eastward.data.columns import CATEGORY_LIMIT

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

__all__ = ["feature_origins", "finite_float32", "make_vectorizer"]


def make_vectorizer() -> Pipeline:
    """Make an unfitted transformer from a raw table to a float32 array without missing values.

    Numbers are unchanged, and dates become their parts. Strings become one column for each value; from 40 values on,
    they become thirty numbers made of their letters. Constant columns are dropped. Missing and infinite numbers become
    the median, with an indicator column. Fit it on training rows only.

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
    # Imported here, so that reading a table, or a mistyped column, need not wait for skrub.
    from sklearn.impute import SimpleImputer  # noqa: PLC0415
    from sklearn.pipeline import Pipeline  # noqa: PLC0415
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder  # noqa: PLC0415
    from skrub import TableVectorizer  # noqa: PLC0415

    from eastward.data.strings import DistinctStringEncoder  # noqa: PLC0415

    encode = OneHotEncoder(handle_unknown="ignore", dtype=np.float32, sparse_output=False)
    table = TableVectorizer(
        cardinality_threshold=CATEGORY_LIMIT,
        # Two values get two columns, because otherwise an unknown value would look like the first.
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
    """Return the column of the table behind each output of a fitted :func:`make_vectorizer`.

    Parameters
    ----------
    vectorizer : Pipeline
        A fitted vectorizer. The names of its outputs are ``vectorizer.get_feature_names_out()``.

    Returns
    -------
    list of str
        One name of a column for each output.

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
    outputs = [str(table.output_to_input_[name]) for name in table.all_outputs_]
    # The imputer appends an indicator for each column with gaps.
    return outputs + [outputs[k] for k in fill.indicator_.features_]


def finite_float32(table: Any) -> NDArray[np.float32]:
    """Copy ``table`` to float32; infinite and too large values count as missing."""
    with np.errstate(over="ignore"):
        array = np.array(table, dtype=np.float32)
    array[np.isinf(array)] = np.nan
    return array
