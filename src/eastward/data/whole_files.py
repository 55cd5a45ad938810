"""Read files as a whole: JSON documents and Excel workbooks."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from eastward import _messages
from eastward.data.columns import normalized
from eastward.data.formats import FileFormat, bytes_of, chosen_part, file_and_part

__all__ = ["read_json", "read_workbook"]

CALLER = "read_table"
ROWS = "a JSON list of objects, one for each row, or an object with a list for each column"
# The parts of a table as pandas writes it with orient="split".
SPLIT = {"columns", "data"}


def read_json(path: Path, form: FileFormat, encoding: str) -> pd.DataFrame:
    """Read the rows of a JSON document: a list of objects, an object of lists, or one object in each line."""
    file, part = (path, None) if form.member else file_and_part(path)
    with bytes_of(file, form) as stream:
        text = stream.read().decode("utf-8-sig" if encoding == "utf-8" else encoding)
    try:
        return normalized(_frame(json.loads(text), file, part))
    except json.JSONDecodeError as error:
        rows = _lines(text)
        if rows is not None:
            return normalized(pd.DataFrame(rows))
        got = f"{path.name}, which is not complete JSON ({error.msg} in line {error.lineno:,})"
        return _messages.fail(CALLER, "source", ROWS, got)


def _lines(text: str) -> list[dict[str, Any]] | None:
    """Read one object for each line, or return None if the file has another form."""
    try:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError:
        return None
    return rows if rows and all(isinstance(row, dict) for row in rows) else None


def _frame(content: Any, path: Path, part: str | None) -> pd.DataFrame:
    if isinstance(content, dict):
        tables = [name for name, value in content.items() if _is_rows(value)]
        if tables:
            content = content[chosen_part(tables, part, path, "list of rows")]
    if content in ([], {}):
        _messages.fail(CALLER, "source", "a table with rows", f"{path.name}, which has none")
    if _is_rows(content):
        return pd.DataFrame(content)
    written = _frame_of_pandas(content)
    if written is not None:
        return written
    if isinstance(content, dict) and all(isinstance(column, list) for column in content.values()):
        lengths = {len(column) for column in content.values()}
        if len(lengths) == 1:
            return pd.DataFrame(content)
        got = f"{path.name}, whose lists have {min(lengths)} to {max(lengths)} values"
        _messages.fail(CALLER, "source", "made of lists of one length", got)
    return _messages.fail(CALLER, "source", ROWS, f"{path.name} with a {type(content).__name__}")


def _frame_of_pandas(content: Any) -> pd.DataFrame | None:
    """Read what ``DataFrame.to_json`` writes by default, or with ``orient="split"`` or ``"index"``; else None."""
    if not isinstance(content, dict):
        return None
    if SPLIT <= set(content) <= {*SPLIT, "index"}:
        names, rows = content["columns"], content["data"]
        if all(isinstance(row, list) and len(row) == len(names) for row in rows):
            return pd.DataFrame(rows, columns=names)
    if not all(isinstance(value, dict) for value in content.values()):
        return None
    by_column = all(key.isdecimal() for value in content.values() for key in value)
    return pd.DataFrame(content) if by_column else pd.DataFrame(list(content.values()))


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def read_workbook(path: Path) -> pd.DataFrame:
    """Read the cells of an Excel workbook: its only sheet with cells, or the one named after a #."""
    if find_spec("openpyxl") is None:
        message = (
            f"{path.name} is an Excel file, which needs openpyxl: pip install 'eastward[excel]'"
        )
        raise ModuleNotFoundError(message, name="openpyxl")
    file, part = file_and_part(path)
    try:
        sheets = pd.read_excel(file, sheet_name=None, engine="openpyxl")
    except Exception as error:
        advice = "Open it in a spreadsheet and save it again."
        got = f"{path.name} ({error})"
        message = f"source of {CALLER} must be a complete Excel file; got {got}. {advice}"
        raise ValueError(message) from error
    filled = [name for name, sheet in sheets.items() if not sheet.columns.empty]
    sheet = sheets[chosen_part(filled, part, file, "sheet")]
    return normalized(sheet.dropna(how="all"))
