"""Assigning ``loss.temperature = 0.1`` to a buffer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from eastward import _checks


def as_temperature(module: nn.Module, name: str, value: Any) -> Any:
    """``value`` as the new temperature buffer of ``module``, if ``name`` says that it is one.

    A new tensor rather than ``fill_``: graphs that were recorded at the old temperature keep it.
    """
    current = module.__dict__.get("_buffers", {}).get("temperature")
    if name != "temperature" or current is None:
        return value
    _checks.temperature(type(module).__name__, value)
    return torch.as_tensor(float(value), dtype=current.dtype, device=current.device)
