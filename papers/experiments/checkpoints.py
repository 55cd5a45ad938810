"""Checkpoints of an unfinished network, from which a long cell continues after an interruption."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch

__all__ = ["is_due", "load_checkpoint", "save_checkpoint"]

SECONDS_BETWEEN = 120.0


def is_due(path: Path) -> bool:
    """Whether it is time for another checkpoint: there is none, or it is two minutes old."""
    return not path.exists() or time.time() - path.stat().st_mtime >= SECONDS_BETWEEN


def save_checkpoint(path: Path, document: dict[str, Any], generator: torch.Generator) -> None:
    """Write ``document`` and the state of all random numbers, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = {"generator": generator.get_state(), "random": torch.get_rng_state()}
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        torch.save({**document, **numbers}, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def load_checkpoint(path: Path, generator: torch.Generator) -> dict[str, Any]:
    """Load the document of :func:`save_checkpoint`, and restore the state of random numbers."""
    document: dict[str, Any] = torch.load(path, weights_only=True)
    generator.set_state(document["generator"])
    torch.set_rng_state(document["random"])
    return document
