"""A table of claims, and ways to run commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from eastward.cli import app

SMALL = ["--hidden", "8", "--epochs", "4", "--folds", "2", "--quiet"]


def claims(rows: int = 240, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    amount = rng.gamma(2, 200, rows).round(2)
    city = rng.choice(["Graz", "Linz", "Wien"], rows)
    age = rng.integers(18, 90, rows).astype(float)
    age[::13] = np.nan
    score = (amount > 500) * 2 + (city == "Wien") + rng.normal(size=rows)
    return pd.DataFrame(
        {
            "claim": [f"C{k:04d}" for k in range(rows)],
            "amount": amount,
            "city": city,
            "age": age,
            "insured": rng.random(rows) > 0.2,
            "seen": pd.date_range("2023-01-01", periods=rows, freq="h"),
            "words": [f"about a {k % 60}" for k in range(rows)],
            "fraud": np.where(score > 2, "yes", "no"),
        }
    )


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def run(*words: object) -> Done:
    """A command in this process."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    return Done(result.exit_code, result.stdout, result.stderr)


def command(*words: object) -> list[str]:
    """A command for a process of its own."""
    start = "import sys; from eastward.cli import main; sys.argv[0] = 'eastward'; main()"
    return [sys.executable, "-c", start, *map(str, words)]


def fresh(*words: object, **options) -> Done:
    """A command in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    done = subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
        **options,
    )
    return Done(done.returncode, done.stdout, done.stderr)
