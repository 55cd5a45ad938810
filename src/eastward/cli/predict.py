"""`eastward predict`: labels and probabilities for a file of any size."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eastward.cli import options
from eastward.cli.output import emit_json, note, say, status_console, wants_json
from eastward.cli.stages import stage
from eastward.model_task import read_task

if TYPE_CHECKING:
    import pandas as pd

    from eastward.model_folder import TableModel

__all__ = ["predict", "predicted_parts"]

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        parser=options.named_path,
        metavar="OUT",
        help="File to write; its suffix sets the format (.csv, .parquet …).",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="COLUMN", help="Copy a column, such as an id. May be repeated."),
]
Spreadsheet = Annotated[
    bool,
    typer.Option(
        "--for-spreadsheet",
        help="Put an apostrophe before texts that a spreadsheet would run as a formula, such as =1+1.",
    ),
]
Prior = Annotated[
    str | None,
    typer.Option(
        "--prior",
        metavar="auto|LABEL=SHARE,…",
        help="Class frequencies of these rows, if they differ from training; auto estimates them.",
    ),
]
# A spreadsheet runs a text that starts with one of these as a formula when it opens the file.
FORMULA = r"^[=+\-@\t\r]"


def predict(
    model: options.Model,
    data: options.Data,
    output: Output,
    keep: Keep = None,
    for_spreadsheet: Spreadsheet = False,
    prior: Prior = None,
    encoding: options.Encoding = "utf-8",
    json: options.Json = False,
) -> None:
    """Predict the label of every row, with the probability of each class.

    The label is the model's decision for its metric, which need not be the most probable class. The file is read and
    written part by part, so it may be larger than memory. Its columns may come in any order; those that the model does
    not know are ignored, and a missing one is an error.

    \b
    Examples:
      eastward predict fraud-model new-claims.parquet -o predictions.csv --keep claim_id
      eastward predict fraud-model new-claims.csv -o for-excel.csv --for-spreadsheet
      eastward predict fraud-model new-claims.csv -o predictions.csv --prior no=0.99,yes=0.01
      eastward predict fraud-model new-claims.csv -o predictions.csv --prior auto
    """
    started = time.perf_counter()
    check_not_input(output, data)
    # Loading the model takes seconds, so what is wrong with folder and columns is said first.
    wanted = checked_columns(read_task(model), data, keep or [], encoding)
    from eastward.data import TableWriter, count_rows
    from eastward.model_folder import load_model

    loaded = load_model(model)
    if prior is not None:
        loaded = _for_prior(loaded, prior, data, wanted, encoding)
    rows = 0
    writer = TableWriter(output)
    if writer.form.is_delimited and not for_spreadsheet:
        _warn_of_formulas(loaded.classes.tolist())
    total = count_rows(data)
    words = "predicting" if total is None else f"predicting {total:,} rows"
    with writer, stage(words, quiet=sys.stderr.isatty()), _progress(total) as advance:
        for part in predicted_parts(loaded, data, wanted, keep or [], encoding):
            writer.write(harmless(part) if for_spreadsheet else part)
            rows += len(part)
            advance(len(part))
    seconds = time.perf_counter() - started
    if wants_json():
        emit_json({"output": str(output), "rows": rows, "seconds": round(seconds, 3)})
    say(f"{rows:,} rows in {seconds:.1f} s, written to {output}")


def _for_prior(
    model: TableModel, prior: str, data: Path, columns: list[str], encoding: str
) -> TableModel:
    """Adapt the model to other class frequencies, given or estimated from the rows, and print them."""
    import warnings

    import numpy as np

    from eastward.data import iter_tables, label_names

    names = label_names(model.classes)
    probabilities = None
    if prior == "auto":
        parts = iter_tables(
            data, model.batch_rows, columns=columns, kinds=model.columns, encoding=encoding
        )
        probabilities = np.concatenate([model.predict_proba(part) for part in parts])
        given: Any = "auto"
    else:
        given = prior_of(prior, names)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        moved = model.with_prior(given, probabilities)
    for warning in heard:
        note(f"warning: {warning.message}")
    before, after = model.classifier.decision_.prior, moved.classifier.decision_.prior
    told = ", ".join(
        f"{name} {new:.3g} (training {old:.3g})"
        for name, new, old in zip(names, after, before, strict=True)
    )
    note(f"class frequencies{' found in these rows' if prior == 'auto' else ''}: {told}")
    return moved


def prior_of(
    text: str, names: list[str], *, caller: str = "predict", word: str = "auto"
) -> list[float]:
    """Parse class frequencies such as ``no=0.9,yes=0.1``, in the order of the classes.

    ``word`` is the alternative value that messages mention.

    Examples
    --------
    >>> prior_of("yes=0.1, no=0.9", ["no", "yes"])
    [0.9, 0.1]
    """
    from eastward import _checks

    example = "Write for example --prior " + ",".join(f"{name}=…" for name in names[:3])
    found: dict[str, float] = {}
    for part in text.split(","):
        name, sign, share = part.rpartition("=")
        try:
            found[name.strip()] = float(share)
        except ValueError:
            sign = ""
        if not sign:
            expected = f"{word}, or a share for each class"
            _checks.fail(caller, "--prior", expected, repr(text), example)
    if set(found) != set(names):
        expected = "a share for each class, " + ", ".join(names[:10])
        _checks.fail(caller, "--prior", expected, ", ".join(found), example)
    return [found[name] for name in names]


def check_not_input(output: Path, data: Path) -> None:
    """Refuse to write predictions over the table that they are made from."""
    from eastward import _messages
    from eastward.data.formats import file_and_part

    file = file_and_part(data)[0]
    if output.exists() and file.exists() and output.samefile(file):
        advice = "Choose another name: the table would be replaced by its predictions."
        _messages.fail("predict", "--output", "another file than the input", output, advice)


def _warn_of_formulas(labels: list[Any]) -> None:
    formulas = [label for label in labels if isinstance(label, str) and re.match(FORMULA, label)]
    if formulas:
        note(
            f"note: a spreadsheet would run the label {formulas[0][:40]!r} as a formula: "
            "add --for-spreadsheet, or import the column as text"
        )


def harmless(frame: pd.DataFrame) -> pd.DataFrame:
    """Return ``frame`` with an apostrophe before every text that a spreadsheet would run as a formula.

    Examples
    --------
    >>> import pandas as pd
    >>> harmless(pd.DataFrame({"label": ["=1+1", "yes"], "n": [-1, 1]}))["label"].tolist()
    ["'=1+1", 'yes']
    """
    texts = frame.select_dtypes(include=["object", "str"])
    changed = {
        name: column.where(
            ~column.astype("str").str.match(FORMULA, na=False), "'" + column.astype("str")
        )
        for name, column in texts.items()
    }
    return frame.assign(**changed) if changed else frame


def checked_columns(task: dict[str, Any], data: Any, keep: list[str], encoding: str) -> list[str]:
    """Return the columns to read; an error names missing ones, and a note those that are not used."""
    import pandas as pd

    from eastward.data import Column, conform, table_columns

    present = table_columns(data, encoding=encoding)
    columns = [Column(**entry) for entry in task["columns"]]
    needed = [column.name for column in columns]
    empty = pd.DataFrame(columns=present)
    conform(empty, columns)
    for name in keep:
        if name not in present:
            from eastward.data.reading import fail_no_column, source_name

            fail_no_column("predict", "--keep", name, empty, source_name(data))
    unused = [n for n in present if n not in {*needed, *keep, task["target"]}]
    if unused:
        shown = ", ".join(unused[:8]) + (f" and {len(unused) - 8} more" if len(unused) > 8 else "")
        note(f"note: columns that the model does not know are ignored: {shown}")
    return [*needed, *(name for name in keep if name not in needed)]


def predicted_parts(
    model: TableModel, data: Any, columns: list[str], keep: list[str], encoding: str = "utf-8"
) -> Iterator[pd.DataFrame]:
    """Predict ``data`` part by part: copied columns, ``prediction``, and a probability for each class."""
    import numpy as np
    import pandas as pd

    from eastward.data import iter_tables, label_names

    first_row = 0
    for part in iter_tables(
        data, model.batch_rows, columns=columns, kinds=model.columns, encoding=encoding
    ):
        found = model.predictions(part, first_row=first_row)
        kept = {name: part[name].reset_index(drop=True) for name in keep}
        yield pd.DataFrame({**kept, **found})
        first_row += len(part)
    if not first_row:  # a header without rows yields an empty part
        names = [f"probability_{name}" for name in label_names(model.classes)]
        empty = {**dict.fromkeys(keep, model.classes[:0]), "prediction": model.classes[:0]}
        yield pd.DataFrame({**empty, **dict.fromkeys(names, np.zeros(0))})


def _ignored(_: object) -> None:
    """Show no progress."""


class _progress:  # noqa: N801 - used as a with-word
    """A context with a progress bar in a terminal; it yields the function that moves the bar."""

    def __init__(self, total: int | None) -> None:
        self.bar: Any = None
        self.total = total

    def __enter__(self) -> Any:
        if not sys.stderr.isatty() or wants_json():
            return _ignored
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("{task.completed:,.0f} rows"),
            BarColumn(bar_width=24),
            TextColumn("{task.speed:,.0f} rows/s"),
            TimeRemainingColumn(),
            console=status_console(),
            transient=True,
        )
        self.bar.start()
        task = self.bar.add_task("", total=self.total)
        return lambda rows: self.bar.advance(task, rows)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
