"""Rows of bad calls, ``CALL ==> ARGUMENT of FUNCTION``, and how each is refused."""

from __future__ import annotations

from typing import Any

import pytest


def assert_refused(row: str, names: dict[str, Any], *others: type[Exception]) -> None:
    """The call raises a TypeError, a ValueError or one of ``others``, with one sentence of our own."""
    call, beginning = row.split(" ==> ")
    with pytest.raises((TypeError, ValueError, *others)) as refused:
        eval(call, names)
    sentence = str(refused.value)
    assert sentence.startswith(f"{beginning} must be ")
    assert "; got " in sentence
    assert "\n" not in sentence
