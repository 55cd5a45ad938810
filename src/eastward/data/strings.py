"""Encode text columns of large tables, each distinct text once."""

from __future__ import annotations

from typing import Any

import pandas as pd
from skrub import StringEncoder

__all__ = ["DistinctStringEncoder"]


class DistinctStringEncoder(StringEncoder):  # type: ignore[misc]
    """A ``StringEncoder`` of skrub that encodes each distinct text of a column once.

    Cutting texts into pieces of three and four letters takes most of the time of preprocessing, and a column of
    millions of rows seldom has millions of different texts. A row depends only on its own text, so the results are
    identical. Fitting uses all rows, because it needs to know how often texts occur.

    Examples
    --------
    >>> texts = pd.Series([f"shop {k % 50}" for k in range(100)], name="shop")
    >>> encoder = DistinctStringEncoder(random_state=0).fit(texts)
    >>> encoder.transform(texts).equals(StringEncoder.transform(encoder, texts))
    True
    """

    def transform(self, column: Any) -> Any:
        """Encode the texts in ``column``, a pandas series, as numbers ``(rows, components)``."""
        codes, distinct = pd.factorize(column, use_na_sentinel=False)
        if len(distinct) == len(column):
            return super().transform(column)
        texts = pd.Series(distinct, name=column.name, dtype=column.dtype)
        encoded = super().transform(texts).take(codes)
        return encoded.set_axis(column.index, axis=0)
