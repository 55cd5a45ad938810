"""The shape of every error message, and the checks that need no tensor.

*argument of function must be expectation; got value. What to do.* Nothing here loads torch, so that a command can
report bad input without waiting for it.
"""

from __future__ import annotations

import difflib
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import NoReturn

__all__ = [
    "boolean",
    "decay",
    "describe",
    "fail",
    "in_unit_interval",
    "jobs",
    "near_misses",
    "not_negative",
    "one_of",
    "path",
    "positive",
    "real",
    "seed",
    "whole_number",
]

# More than any machine has cores. Libraries reserve memory for so many threads, and a huge number ends the process.
MOST_JOBS = 1024


def fail(
    caller: str,
    argument: str,
    expected: str,
    got: object,
    advice: str = "",
    *,
    error: type[Exception] = ValueError,
) -> NoReturn:
    """Raise ``error`` with a message in the shape that the whole library uses.

    Examples
    --------
    >>> fail("f_beta", "beta", "positive", -1)
    Traceback (most recent call last):
        ...
    ValueError: beta of f_beta must be positive; got -1.
    """
    sentence = f"{argument} of {caller} must be {expected}; got {got}."
    raise error(f"{sentence} {advice}".strip())


def describe(value: object) -> str:
    """Describe ``value`` for a message: shape and dtype of a tensor, otherwise type and repr."""
    torch = sys.modules.get("torch")  # torch is loaded already if the value can be a tensor
    if torch is not None and isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} and dtype {value.dtype}"
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def one_of(
    caller: str, argument: str, value: object, allowed: Sequence[str], *, otherwise: str = ""
) -> None:
    """Check that ``value`` is one of the strings ``allowed``."""
    if isinstance(value, str) and value in allowed:
        return
    expected = (
        "one of "
        + ", ".join(repr(name) for name in allowed)
        + (f", {otherwise}" if otherwise else "")
    )
    error = ValueError if isinstance(value, str) else TypeError
    fail(caller, argument, expected, describe(value), near_misses(value, allowed), error=error)


def near_misses(value: object, known: Iterable[str], hints: Mapping[str, str] | None = None) -> str:
    """Return "Did you mean ...?" for a misspelt name, or an empty string."""
    if not isinstance(value, str):
        return ""
    close = [hints[value.lower()]] if hints and value.lower() in hints else []
    close += [
        name for name in difflib.get_close_matches(value, list(known), n=3) if name not in close
    ]
    return f"Did you mean {' or '.join(repr(name) for name in close)}?" if close else ""


def real(caller: str, argument: str, value: object) -> float:
    """Check that ``value`` is a finite real number, and return it as a float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        fail(caller, argument, "a real number", describe(value), error=TypeError)
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        fail(caller, argument, "finite", describe(value) if isinstance(value, Integral) else value)
    return number


def in_unit_interval(caller: str, argument: str, value: object) -> float:
    """Check that ``value`` lies strictly between 0 and 1."""
    number = real(caller, argument, value)
    if not 0 < number < 1:
        fail(caller, argument, "strictly between 0 and 1", value)
    return number


def decay(caller: str, argument: str, value: object) -> float:
    """Check a decay in [0, 1): the share of the past that is kept."""
    number = real(caller, argument, value)
    if not 0 <= number < 1:
        fail(caller, argument, "in [0, 1)", value, "Use for example 0.9, or None to switch it off.")
    return number


def boolean(caller: str, argument: str, value: object) -> bool:
    """Check that ``value`` is True or False; NumPy's booleans count."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    return fail(caller, argument, "True or False", describe(value), error=TypeError)


def positive(caller: str, argument: str, value: object) -> float:
    """Check that ``value`` is a finite real number > 0, and return it as a float."""
    number = real(caller, argument, value)
    if number <= 0:
        fail(caller, argument, "> 0", value)
    return number


def not_negative(caller: str, argument: str, value: object) -> float:
    """Check that ``value`` is a finite real number >= 0, and return it as a float."""
    number = real(caller, argument, value)
    if number < 0:
        fail(caller, argument, ">= 0", value)
    return number


def whole_number(
    caller: str, argument: str, value: object, *, at_least: int, at_most: int | None = None
) -> int:
    """Check that ``value`` is an integer from ``at_least`` to ``at_most``, and return it as an int."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        fail(caller, argument, "an integer", describe(value), error=TypeError)
    if value < at_least:
        fail(caller, argument, f">= {at_least}", value)
    if at_most is not None and int(value) > at_most:
        fail(caller, argument, f"<= {at_most}", value)
    return int(value)


def jobs(caller: str, value: object) -> None:
    """Check ``n_jobs``: None, a number of processes or threads, or -1 for all cores, as in joblib."""
    if value is None:
        return
    expected = "None, a number of cores, or -1 for all of them"
    if whole_number(caller, "n_jobs", value, at_least=-MOST_JOBS, at_most=MOST_JOBS) == 0:
        fail(caller, "n_jobs", expected, value)


def seed(caller: str, value: object) -> int:
    """Check that ``random_state`` can seed a generator, and return it as an int."""
    return whole_number(caller, "random_state", value, at_least=0, at_most=2**63 - 1)


def path(caller: str, argument: str, value: object) -> Path:
    """Check that ``value`` is a path that is not empty, and return it as a Path."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        fail(caller, argument, "a path", describe(value), error=TypeError)
    text = os.fspath(value)
    if not text or "\0" in text:
        fail(caller, argument, "a path", repr(text))
    return Path(text)
