"""Numbers as people write them: 1.234,5 €, (12.30), 7 %."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "MISSING_WORDS",
    "NumberFormat",
    "could_be_either",
    "groups_by_points",
    "number_formats",
    "percentages",
    "written_differently",
]

# What people write into a cell to mark a missing value.
MISSING_WORDS = (
    *("", "?", "-", "--", "–", "—", ".", "..", "...", "*", ":", "NULL", "null", "None", "none"),
    *("NaN", "nan", "NA", "na", "N/A", "n/a", "n.a.", "k.A.", "k. A.", "<NA>", "#N/A"),
    *("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"),
    *("00.00.0000", "0000-00-00", "0000-00-00 00:00:00"),
)
CODES = "EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|RON|AUD|CAD|NZD|BRL|ZAR|KRW|TRY|MXN"
CURRENCY = rf"(?:US|A|C|R)?\p{{Sc}}|{CODES}|kr\.?|zł|Kč|Ft|Fr\.?"
# Cells that are compared with one another to explain why a column has no single format.
MOST_PAIRED = 20
PLAIN = r"^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$"
# Unifies spaces of every width, minus signs, the Swiss signs for thousands, prices such as 5,- and $(3.10).
SPELLINGS = {
    r"[\x{00A0}\x{2007}\x{2009}\x{202F}]": " ",
    "[’ʼ]": "'",
    "[−‒–]": "-",
    r"(\d)[.,]--?(\D*)$": r"\1\2",
    rf"^\s*({CURRENCY})\s*\(": r"(\1",
}


@dataclass(frozen=True)
class NumberFormat:
    """How a column writes its numbers.

    Attributes
    ----------
    decimal : str
        A point or a comma.
    thousands : str
        The separator between groups of three digits.
    currency : str
        The currency in the cells, if any.

    Examples
    --------
    >>> NumberFormat(",", ".").parse(pd.Series(["1.234,5", "(7)", "8 %", "none"])).tolist()
    [1234.5, -7.0, 0.08, nan]
    """

    decimal: str
    thousands: str
    currency: str = ""

    @property
    def text(self) -> str:
        """An example number in this format, from which :meth:`from_text` restores the format."""
        return f"1{self.thousands}234{self.decimal}5 {self.currency}".strip()

    @classmethod
    def from_text(cls, text: str) -> NumberFormat:
        """Return the format of an example such as ``1.234,5 €``.

        Examples
        --------
        >>> NumberFormat.from_text("1.234,5 €")
        NumberFormat(decimal=',', thousands='.', currency='€')
        """
        return cls(text[5], text[1], text[7:].strip())

    @property
    def pattern(self) -> str:
        """A regular expression (RE2) with a group for each part of a cell."""
        group, point = rf"[{self.thousands}]", rf"[{self.decimal}]"
        whole = rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+|\d+"
        # In India, groups above the thousands have two digits.
        whole += r"|[1-9]\d?(?:,\d{2})+,\d{3}" if self.thousands == "," else ""
        number = rf"(?:{whole})(?:{point}\d*)?|{point}\d+"
        return (
            rf"^(?P<open>\()?\s*(?P<before>[-+]?)\s*(?P<prefix>{CURRENCY})?\s*(?P<after>[-+]?)\s*"
            rf"(?P<number>(?:{number})(?:[eE][-+]?\d+)?)"
            rf"\s*(?P<suffix>{CURRENCY})?\s*(?P<percent>%?)\s*(?P<end>-?)\s*(?P<close>\))?$"
        )

    def parts(self, cells: pa.Array) -> pa.StructArray:
        """Split the cells into parts; null where a cell is not a number of this format."""
        found = pc.extract_regex(cells, self.pattern)
        balanced = pc.equal(pc.equal(found.field("open"), "("), pc.equal(found.field("close"), ")"))
        return pc.if_else(pc.and_(pc.is_valid(found), balanced), found, None)

    def parse(self, series: pd.Series) -> pd.Series:
        """Parse the numbers in ``series``; other cells are missing.

        A percentage is a share: ``8 %`` is 0.08. Parentheses make a number negative, as in accounting.
        """
        parts = self.parts(_cells(series))
        field = {
            name: pc.if_else(pc.is_valid(parts), parts.field(name), None)
            for name in ("open", "before", "after", "end", "prefix", "suffix", "number", "percent")
        }
        digits = pc.replace_substring(field["number"], self.thousands, "")
        numbers = pc.cast(pc.replace_substring(digits, self.decimal, "."), pa.float64())
        signs = [pc.equal(field["open"], "(")]
        signs += [pc.equal(field[name], "-") for name in ("before", "after", "end")]
        negative = signs[0]
        for sign in signs[1:]:
            negative = pc.or_(negative, sign)
        numbers = pc.if_else(negative, pc.negate(numbers), numbers)
        numbers = pc.if_else(pc.equal(field["percent"], "%"), pc.divide(numbers, 100.0), numbers)
        if self.currency:
            named = pc.binary_join_element_wise(field["prefix"], field["suffix"], "")
            numbers = pc.if_else(pc.is_in(named, pa.array(["", self.currency])), numbers, None)
        values = numbers.to_numpy(zero_copy_only=False)
        return pd.Series(values, index=series.index, name=series.name, dtype=float)


STYLES = tuple(
    NumberFormat(decimal, thousands)
    for decimal, thousands in (
        (".", ","),
        (",", "."),
        (".", " "),
        (",", " "),
        (".", "'"),
        (",", "'"),
    )
)


def number_formats(
    frame: pd.DataFrame,
    columns: Sequence[str],
    *,
    decimal: str | None = None,
    otherwise: str = ".",
) -> dict[str, NumberFormat]:
    """Find text columns with formatted numbers, and their formats.

    Every cell of such a column is a number or a word for a missing value, and at least one is not a plain number.
    Plain numbers beside ``-`` or ``k.A.`` count, because a reader of CSV takes such a column for text. By itself,
    ``1,234`` may be about one or above a thousand. Then the other columns decide, or ``decimal``, or finally
    ``otherwise``.

    Parameters
    ----------
    frame : DataFrame
        A table.
    columns : sequence of str
        The text columns to check.
    decimal : {".", ","}, optional
        The decimal sign, if a column could be read both ways.
    otherwise : {".", ","}, default="."
        The decimal sign if nothing else decides.

    Returns
    -------
    dict
        A format for each column that has one.

    Examples
    --------
    >>> frame = pd.DataFrame(
    ...     {"rain": ["0,2", "12,8"], "fee": ["1.234 €", "5 €"], "city": ["Graz", "Linz"]}
    ... )
    >>> {name: style.text for name, style in number_formats(frame, list(frame.columns)).items()}
    {'rain': '1.234,5', 'fee': '1.234,5 €'}
    """
    possible = {name: possible_formats(frame[name]) for name in columns}
    possible = {name: styles for name, styles in possible.items() if styles}
    if decimal is None:
        certain = [{style.decimal for style in styles} for styles in possible.values()]
        found = set().union(*(signs for signs in certain if len(signs) == 1))
        decimal = found.pop() if len(found) == 1 else otherwise
    return {
        name: min(styles, key=lambda style: style.decimal != decimal)
        for name, styles in possible.items()
    }


def possible_formats(series: pd.Series) -> list[NumberFormat]:
    """Return every format that all cells of a text column follow; none for plain numbers or words."""
    written = _distinct_cells(series)
    cells = written.filter(pc.invert(pc.is_in(written, pa.array(MISSING_WORDS))))
    # Checking a few cells first rules out most columns.
    few = cells.slice(0, 50)
    if not len(cells) or not pc.all(pc.match_substring_regex(few, r"\d")).as_py():
        return []
    if len(cells) == len(written) and pc.all(pc.match_substring_regex(cells, PLAIN)).as_py():
        return []
    return _followed(cells, few)


def _followed(cells: pa.Array, few: pa.Array) -> list[NumberFormat]:
    """Return every format that all ``cells`` follow, of which ``few`` are checked first."""
    styles = [style for style in STYLES if not style.parts(few).null_count]
    found = [(style, style.parts(cells)) for style in styles]
    return [
        replace(style, currency=currencies[0] if currencies else "")
        for style, parts in found
        if not parts.null_count and len(currencies := _currencies(parts)) <= 1
    ]


def could_be_either(series: pd.Series) -> bool:
    """Whether the commas or points of a column could mean decimals as well as thousands.

    Examples
    --------
    >>> could_be_either(pd.Series(["1,234", "5"])), could_be_either(pd.Series(["0,234", "5"]))
    (True, False)
    """
    signs = {style.decimal for style in possible_formats(series)}
    return len(signs) == 2 and bool(series.str.contains("[.,]").any())


def groups_by_points(series: pd.Series) -> bool:
    """Whether every point of a text column may separate thousands, as in 12.500.

    Examples
    --------
    >>> groups_by_points(pd.Series(["999", "12.500"])), groups_by_points(pd.Series(["999", "12.5"]))
    (True, False)
    """
    cells = _distinct_cells(series)
    pointed = cells.filter(pc.match_substring(cells, "."))
    return bool(len(pointed)) and not NumberFormat(",", ".").parts(cells).null_count


def written_differently(series: pd.Series) -> tuple[str, str] | None:
    """Return two numbers of a column that no single format fits, such as 1.5 and 2,5; None if there are none.

    Examples
    --------
    >>> written_differently(pd.Series(["1.5", "7", "2,5"]))
    ('1.5', '2,5')
    >>> written_differently(pd.Series(["€5", "$3"]))
    ('€5', '$3')
    """
    cells = _distinct_cells(series)
    cells = cells.filter(pc.invert(pc.is_in(cells, pa.array(MISSING_WORDS)))).slice(0, MOST_PAIRED)
    for first, cell in enumerate(cells):
        for other in cells.slice(first + 1):
            pair = pa.array([cell.as_py(), other.as_py()])
            if not _followed(pair, pair):
                return cell.as_py(), other.as_py()
    return None


def percentages(series: pd.Series) -> tuple[int, int]:
    """Count the numbers of a text column with and without a percent sign.

    Examples
    --------
    >>> percentages(pd.Series(["5 %", "7", "-"]))
    (1, 1)
    """
    known = series.dropna().str.strip()
    signs = int(known.str.contains("%", regex=False).sum())
    return signs, int((~known.isin(MISSING_WORDS)).sum()) - signs


def _currencies(parts: pa.StructArray) -> list[str]:
    """Return the currencies in the cells, because amounts in several are not comparable."""
    named = {*parts.field("prefix").unique().to_pylist()}
    return sorted((named | {*parts.field("suffix").unique().to_pylist()}) - {"", None})


def _distinct_cells(series: pd.Series) -> pa.Array:
    return pc.unique(_cells(series)).drop_null()


def _cells(series: pd.Series) -> pa.Array:
    """Join the cells, with one kind of space, minus and apostrophe."""
    cells = pa.array(series, pa.string(), from_pandas=True)
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    for pattern, plain in SPELLINGS.items():
        cells = pc.replace_substring_regex(cells, pattern, plain)
    return pc.utf8_trim_whitespace(cells)
