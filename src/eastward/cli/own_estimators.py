"""A user's own estimators on the command line: NAME=MODULE:OBJECT."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from eastward import _messages

__all__ = ["own_estimators"]

SHAPE = "NAME=MODULE:OBJECT, such as svm=sklearn.svm:SVC or ours=my_models:pipeline"


def own_estimators(words: Sequence[str]) -> list[tuple[str, Any]]:
    """Return a name and an estimator for each word; modules may be in the working directory.

    The object is a scikit-learn estimator, or a class or function that makes one when called without arguments.

    Examples
    --------
    >>> own_estimators(["svm=sklearn.svm:SVC"])
    [('svm', SVC())]
    """
    return [_estimator(word) for word in words]


def _estimator(word: str) -> tuple[str, Any]:
    name, _, place = word.partition("=")
    module, _, attribute = place.partition(":")
    if not (name and module and attribute):
        _messages.fail("compare", "--estimator", SHAPE, repr(word))
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does; workers inherit the path
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        advice = f"Python looks in {here} and among installed packages."
        _messages.fail("compare", f"--estimator {name}", SHAPE, f"{word!r} ({error})", advice)
    is_made = hasattr(found, "fit") and not isinstance(found, type)
    return name, found if is_made else found()
