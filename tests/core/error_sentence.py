"""How every error of the library reads."""

from __future__ import annotations

import re

import pytest

SENTENCE = re.compile(r"^.+ of .+ must be .+; got .+\.", re.DOTALL)


def assert_error(provoke, error: type[Exception], message: str) -> None:
    """``provoke()`` raises exactly ``error``, in the common sentence, with ``message`` in it."""
    with pytest.raises(error, match=re.compile(message, re.DOTALL)) as caught:
        provoke()
    assert type(caught.value) is error
    assert SENTENCE.search(str(caught.value)), str(caught.value)
