"""Detect the kind of a file, its compression, and the separator of its fields."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from eastward import _messages

__all__ = [
    "FileFormat",
    "bytes_of",
    "check_encoding",
    "chosen_part",
    "file_and_part",
    "file_format",
    "first_lines",
    "lines_above_header",
    "separator_of",
]

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
    ".json": "json",
    ".txt": "csv",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
# Files with several tables, of which one can be named after a #; and formats that are read but not written.
PARTED = (".zip", ".xlsx", ".xlsm", ".json")
READ_ONLY = ("json", "xlsx")
DELIMITED = ("csv", "tsv")
TEXT = ("csv", "tsv", "jsonl")
COMPRESSIBLE = (*TEXT, "json")
SUPPORTED = (
    ".csv, .tsv, .jsonl, .json (each also .gz, .zst or .zip), .xlsx, .parquet, .arrow or .feather"
)
WRITABLE = ".csv, .tsv, .jsonl (each also .gz or .zst), .parquet, .arrow or .feather"
SEPARATORS = (",", ";", "\t", "|")
# The line that spreadsheets put above the names of the columns.
NAMED_SEPARATOR = re.compile(r'\ufeff?"?sep=([,;\t|])"?\s*$', re.IGNORECASE)


@dataclass(frozen=True)
class FileFormat:
    """The format of a file, according to its name."""

    kind: str
    compression: str | None = None
    member: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the file consists of lines of text."""
        return self.kind in TEXT

    @property
    def is_delimited(self) -> bool:
        """Whether the cells are text between separators."""
        return self.kind in DELIMITED


def file_format(path: Path, caller: str, argument: str = "source") -> FileFormat:
    """Return the format that the suffixes of ``path`` name.

    Examples
    --------
    >>> file_format(Path("claims.csv.gz"), "read_table")
    FileFormat(kind='csv', compression='gzip', member=None)
    """
    path, part = file_and_part(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if argument == "source" and suffixes[-1:] == [".zip"]:
        return _zipped_format(path, part, caller)
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if compression is not None:
        suffixes.pop()
    kind = SUFFIXES.get(suffixes[-1]) if suffixes else None
    if kind is None or (argument != "source" and kind in READ_ONLY):
        endings = SUPPORTED if argument == "source" else WRITABLE
        advice = "Give the file one of these endings, or pass a pandas or polars frame."
        _messages.fail(caller, argument, f"a file that ends in {endings}", f"{path.name!r}", advice)
    if compression is not None and kind not in COMPRESSIBLE:
        advice = "Such files are compressed inside; decompress the outer layer first."
        expected = "a file without outer compression"
        _messages.fail(caller, argument, expected, f"{path.name!r}", advice)
    return FileFormat(kind, compression)


def file_and_part(path: Path) -> tuple[Path, str | None]:
    """Split a path such as ``book.xlsx#Claims`` into the file and its sheet or member.

    Examples
    --------
    >>> file_and_part(Path("book.xlsx#Claims"))[1]
    'Claims'
    """
    before, sign, part = str(path).rpartition("#")
    if not sign or path.exists() or Path(before).suffix.lower() not in PARTED:
        return path, None
    return Path(before), part


def chosen_part(names: Sequence[str], part: str | None, path: Path, kind: str) -> str:
    """Return the sheet or member to read: the named one, or the only one."""
    if part in names:
        return str(part)
    shown = ", ".join(repr(name) for name in names[:8])
    shown += f" and {len(names) - 8} more" if len(names) > 8 else ""
    if part is not None:
        expected = f"the name of a {kind} of {path.name} ({shown})"
        _messages.fail("read_table", "source", expected, repr(part))
    if len(names) != 1:
        got = f"{path.name}, which has {shown or 'none'}"
        advice = f"Name one: '{path.name}#{names[0]}'." if names else ""
        _messages.fail("read_table", "source", f"a file with one {kind}", got, advice)
    return names[0]


def _zipped_format(path: Path, part: str | None, caller: str) -> FileFormat:
    """Return the format of the only table in a ZIP archive, or of the named one."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if _is_a_table(name)]
    except zipfile.BadZipFile:
        advice = "It may have been cut off while it was copied."
        _messages.fail(caller, "source", "a complete zip file", path.name, advice)
    member = chosen_part(members, part, path, "table of text (.csv, .tsv, .jsonl or .json)")
    return FileFormat(SUFFIXES[Path(member).suffix.lower()], "zip", member)


def _is_a_table(name: str) -> bool:
    """Whether a member may contain a table; operating systems add folders and hidden files."""
    path = Path(name)
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return SUFFIXES.get(path.suffix.lower()) in COMPRESSIBLE and not hidden


def check_encoding(encoding: str, caller: str) -> None:
    """Refuse a name that is not a text encoding of Python."""
    try:
        # Python also has encodings from bytes to bytes, such as base64.
        "".encode(encoding)
    except (LookupError, TypeError):
        advice = "Common ones are utf-8, cp1252, latin-1 and utf-16."
        _messages.fail(caller, "encoding", "a text encoding", repr(encoding), advice)


def bytes_of(path: Path, form: FileFormat) -> Any:
    """Open ``path`` as a stream of decompressed bytes."""
    if form.member is not None:
        return pa.PythonFile(zipfile.ZipFile(file_and_part(path)[0]).open(form.member), mode="r")
    return pa.input_stream(str(path), compression=form.compression)


def first_lines(path: Path, form: FileFormat, encoding: str) -> str:
    """Return the beginning of a text file."""
    with bytes_of(path, form) as stream:
        return str(stream.read(65_536).decode(encoding, errors="replace"))


def lines_above_header(path: Path, form: FileFormat, encoding: str) -> int:
    """Return 1 if the first line of a CSV only names the separator, as in ``sep=;``, and 0 otherwise."""
    first = first_lines(path, form, encoding).partition("\n")[0]
    return int(form.kind == "csv" and NAMED_SEPARATOR.match(first) is not None)


def separator_of(path: Path, form: FileFormat, encoding: str) -> str:
    """Return the separator: a tab in TSV; in CSV the most frequent one in the first line, or a comma."""
    if form.kind == "tsv":
        return "\t"
    first, quoted = first_lines(path, form, encoding).partition("\n")[0], False
    if named := NAMED_SEPARATOR.match(first):
        return named[1]
    counts = dict.fromkeys(SEPARATORS, 0)
    for letter in first:
        quoted ^= letter == '"'
        if letter in counts and not quoted:
            counts[letter] += 1
    return max(SEPARATORS, key=lambda separator: counts[separator])
