"""CSV files with spaces beside their separators, as in ``age, city``: the spaces are not part of the cells."""

from __future__ import annotations

import io
import re
from typing import Any

import pyarrow as pa

__all__ = ["is_padded", "without_padding"]

CHUNK = 1 << 20


def is_padded(head: str, separator: str) -> bool:
    """Whether there are spaces beside a separator in the first two lines of a file, outside quotes.

    Examples
    --------
    >>> is_padded("age, city", ","), is_padded('age,"city, town"', ",")
    (True, False)
    """
    outside = "\n".join(head.split("\n")[:2]).split('"')[::2]
    sign, blank = re.escape(separator), f"[{_blanks(separator)}]"
    return any(re.search(f"{blank}{sign}|{sign}{blank}", part) for part in outside)


def without_padding(stream: Any, separator: str) -> pa.PythonFile:
    r"""Return a stream of UTF-8 text without the spaces around its cells; spaces inside quotes are kept.

    Arrow's reader keeps these spaces, and treats a quote after a space as an ordinary character.

    Examples
    --------
    >>> text = b'1, "Graz, west" , a \n 2, Linz, b '
    >>> without_padding(io.BytesIO(text), ",").read(100)
    b'1,"Graz, west",a\n2,Linz,b'
    """
    return pa.PythonFile(io.BufferedReader(_Unpadded(stream, separator)), mode="r")


class _Unpadded(io.RawIOBase):
    """The text of another stream, cleaned in pieces of whole rows."""

    def __init__(self, stream: Any, separator: str) -> None:
        self.stream, self.waiting, self.clean = stream, b"", memoryview(b"")
        self.blanks = _blanks(separator).encode()
        signs = (separator.encode(), b"\n", b"\r")
        # Replacing one space after the other is many times as fast as a regular expression.
        pairs = [(sign, bytes([blank])) for sign in signs for blank in self.blanks]
        self.borders = [(sign + blank, sign) for sign, blank in pairs]
        self.borders += [(blank + sign, sign) for sign, blank in pairs]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.clean and (chunk := self.stream.read(CHUNK)):
            self.waiting += chunk
            self._clean(_end_of_last_row(self.waiting))
        if not self.clean:
            self._clean(len(self.waiting))
        size = min(len(buffer), len(self.clean))
        buffer[:size], self.clean = self.clean[:size], self.clean[size:]
        return size

    def _clean(self, end: int) -> None:
        """Clean the first ``end`` waiting bytes, which are whole rows or the last ones."""
        parts = self.waiting[:end].strip(self.blanks).split(b'"')
        # Every second part is in quotes.
        parts[::2] = [self._bare(part) for part in parts[::2]]
        self.clean, self.waiting = memoryview(b'"'.join(parts)), self.waiting[end:]

    def _bare(self, part: bytes) -> bytes:
        for padded, sign in self.borders:
            while padded in part:
                part = part.replace(padded, sign)
        return part

    def close(self) -> None:
        self.stream.close()
        super().close()


def _blanks(separator: str) -> str:
    return " " if separator == "\t" else " \t"


def _end_of_last_row(text: bytes) -> int:
    """Return where the last complete row ends: after the last line break that is not in quotes."""
    end = text.rfind(b"\n") + 1
    while end and text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, end - 1) + 1
    return end
