"""Which kind of file this is, how it is compressed, and what separates its fields."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from eastward import _checks

__all__ = ["FileFormat", "bytes_of", "check_encoding", "file_format", "separator_of"]

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
TEXT = ("csv", "tsv", "jsonl")
SUPPORTED = ".csv, .tsv, .jsonl (each also .gz or .zst), .parquet, .arrow or .feather"
SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True)
class FileFormat:
    """What the name of a file says about its content."""

    kind: str
    compression: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether it is made of lines that people can read."""
        return self.kind in TEXT


def file_format(path: Path, caller: str, argument: str = "source") -> FileFormat:
    """The format that the suffixes of ``path`` name.

    Examples
    --------
    >>> file_format(Path("claims.csv.gz"), "read_table")
    FileFormat(kind='csv', compression='gzip')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if compression is not None:
        suffixes.pop()
    kind = SUFFIXES.get(suffixes[-1]) if suffixes else None
    if kind is None:
        advice = "Give the file one of these endings, or pass a pandas or polars frame."
        _checks.fail(caller, argument, f"a file that ends in {SUPPORTED}", f"{path.name!r}", advice)
    if compression is not None and kind not in TEXT:
        advice = "Such files are compressed inside; decompress the outer layer first."
        expected = "a .parquet or .arrow file without outer compression"
        _checks.fail(caller, argument, expected, f"{path.name!r}", advice)
    return FileFormat(kind, compression)


def check_encoding(encoding: str, caller: str) -> None:
    """Refuse a name that Python knows no encoding by."""
    try:
        codecs.lookup(encoding)
    except LookupError:
        advice = "Common ones are utf-8, cp1252, latin-1 and utf-16."
        _checks.fail(caller, "encoding", "a text encoding", repr(encoding), advice)


def bytes_of(path: Path, form: FileFormat) -> Any:
    """The decompressed bytes of ``path``, as a stream."""
    return pa.input_stream(str(path), compression=form.compression)


def separator_of(path: Path, form: FileFormat, encoding: str) -> str:
    """What separates the fields: a tab in TSV; in CSV what the first line has most of, a comma in doubt."""
    if form.kind == "tsv":
        return "\t"
    with bytes_of(path, form) as stream:
        head = stream.read(65_536).decode(encoding, errors="replace")
    first, quoted = head.partition("\n")[0], False
    counts = dict.fromkeys(SEPARATORS, 0)
    for letter in first:
        quoted ^= letter == '"'
        if letter in counts and not quoted:
            counts[letter] += 1
    return max(SEPARATORS, key=lambda separator: counts[separator])
