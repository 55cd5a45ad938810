"""A table of claims, and a model trained on it through the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_runs import SMALL, claims, run


@pytest.fixture(scope="session")
def table(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "claims.csv"
    claims().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def trained(table, tmp_path_factory) -> Path:
    """A model folder; read it, never write it."""
    folder = tmp_path_factory.mktemp("models") / "fraud"
    done = run("train", table, "-t", "fraud", "-o", folder, "--ignore", "claim", *SMALL)
    assert done.code == 0, done.err
    return folder
