"""Old import paths, which keep working until 0.3."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings

__all__ = ["moved"]


def moved(old: str, new: str) -> None:
    """Make the module ``old`` and its submodules aliases of ``new``.

    Saved models name classes by their path, so the old paths must lead to the same classes, not to copies.
    """
    warnings.warn(
        f"{old} is now {new}; the old name is removed in 0.3",
        DeprecationWarning,
        stacklevel=3,
    )
    sys.modules[old] = package = importlib.import_module(new)
    for part in pkgutil.iter_modules(getattr(package, "__path__", [])):
        sys.modules[f"{old}.{part.name}"] = importlib.import_module(f"{new}.{part.name}")
