"""A table of claims with every kind of column, small enough for many tests."""

from __future__ import annotations

import numpy as np
import pandas as pd


def claims(rows: int = 240, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    amount = rng.gamma(2, 200, rows).round(2)
    city = rng.choice(["Graz", "Linz", "Wien"], rows)
    age = rng.integers(18, 90, rows).astype(float)
    age[::13] = np.nan
    score = (amount > 500) * 2 + (city == "Wien") + rng.normal(size=rows)
    return pd.DataFrame(
        {
            "amount": amount,
            "city": pd.Series(city).where(np.arange(rows) % 17 != 0),
            "age": age,
            "insured": pd.array(rng.random(rows) > 0.2, dtype="boolean"),
            "seen": pd.date_range("2023-01-01", periods=rows, freq="h"),
            "words": [f"claim {k % 60} about a {k % 7}" for k in range(rows)],
            "fraud": np.where(score > 2, "yes", "no"),
        }
    )
