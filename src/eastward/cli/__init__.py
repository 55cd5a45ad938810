"""The command line: one file for each command, assembled here."""

from __future__ import annotations

import typer

from eastward.cli.compare import compare
from eastward.cli.datasets import datasets
from eastward.cli.demo import demo
from eastward.cli.errors import ExplainingGroup
from eastward.cli.evaluate import evaluate
from eastward.cli.metrics import metrics
from eastward.cli.predict import predict
from eastward.cli.report import report
from eastward.cli.reproduce import reproduce
from eastward.cli.train import train
from eastward.cli.tune import tune

__all__ = ["app", "main"]

EPILOG = (
    "Exit codes: 0 success, 1 unexpected error, 2 mistake in the command or in the data, 130 interrupted. "
    "With --json, a command prints one document to standard output and everything else to standard error."
)

app = typer.Typer(
    cls=ExplainingGroup,
    name="eastward",
    help="Train, decide and report with the one metric you are judged by.\n\n"
    "Start with `eastward demo`, then `eastward compare DATA --target COLUMN`: "
    "it says whether metric-aligned training helps on your data.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    # Plain help: two columns stay readable in a narrow terminal.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (demo, compare, train, tune, evaluate, predict, report, reproduce, metrics, datasets)
for command in COMMANDS:
    app.command()(command)


def main() -> None:
    """Run the command that the arguments name."""
    app()
