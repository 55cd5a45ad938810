"""Read files as a whole: JSON documents and Excel workbooks."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from eastward import _messages
from eastward.data.columns import normalized
from eastward.data.formats import chosen_part, file_and_part

__all__ = ["read_json", "read_workbook"]

CALLER = "read_table"
ROWS = "a JSON list of objects, one for each row, or an object with a list for each column"


def read_json(path: Path, encoding: str) -> pd.DataFrame:
    """Read the rows of a JSON document: a list of objects, an object of lists, or one object in each line."""
    text = path.read_text(encoding="utf-8-sig" if encoding == "utf-8" else encoding)
    try:
        return normalized(_frame(json.loads(text), path))
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


def _frame(content: Any, path: Path) -> pd.DataFrame:
    if isinstance(content, dict):
        tables = [name for name, value in content.items() if _is_rows(value)]
        if tables:
            content = content[chosen_part(tables, None, path, "list of rows")]
    if _is_rows(content):
        return pd.DataFrame(content)
    if isinstance(content, dict) and all(isinstance(column, list) for column in content.values()):
        lengths = {len(column) for column in content.values()}
        if len(lengths) == 1:
            return pd.DataFrame(content)
        got = f"{path.name}, whose lists have {min(lengths)} to {max(lengths)} values"
        _messages.fail(CALLER, "source", "made of lists of one length", got)
    return _messages.fail(CALLER, "source", ROWS, f"{path.name} with a {type(content).__name__}")


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
