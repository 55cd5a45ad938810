"""`eastward train` on a table that is larger than memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eastward.cli.network_options import with_prior
from eastward.cli.output import say
from eastward.cli.train_shown import conclude, introduce

__all__ = ["check_streamable", "is_streamed", "train_on_stream"]

# Decoded columns beyond this size are streamed even if they come from a single file.
MEMORY_BYTES = 2 << 30
# Options that need all rows at once.
WHOLE_TABLE = ("group", "time", "min_class_rows", "merge_rare", "merge_labels")
STREAMED_METHODS = ("auto", "ensemble", "eastward")


def is_streamed(data: Path) -> bool:
    """Whether ``data`` is a folder, or a Parquet file too large to be held in memory."""
    if not data.is_file() or data.suffix.lower() not in (".parquet", ".pq"):
        return data.is_dir()
    import pyarrow.parquet

    try:
        footer = pyarrow.parquet.read_metadata(data)
    except (pyarrow.ArrowInvalid, OSError):
        return False  # reading the file will report what is wrong with it
    sizes = (footer.row_group(k).total_byte_size for k in range(footer.num_row_groups))
    return bool(sum(sizes) > MEMORY_BYTES)


def check_streamable(given: dict[str, Any], method: str) -> None:
    """Refuse options that need all rows at once."""
    from eastward import _messages

    whole = {"--" + name.replace("_", "-"): given[name] for name in WHOLE_TABLE}
    if method not in STREAMED_METHODS:
        whole["--method"] = given["method"]
    for name, value in whole.items():
        if value:
            advice = "Give a single file that fits into memory."
            expected = "left out for a table that is streamed"
            _messages.fail("train", name, expected, value, advice)


def train_on_stream(
    given: dict[str, Any],
    method: str,
    parameters: dict[str, Any],
    decision: dict[str, Any],
    commands: dict[str, str],
) -> None:
    """Train on a table that is larger than memory, reading it block by block.

    ``given`` are the options of the command; ``parameters`` and ``decision`` are those of networks and of the
    decision.
    """
    from eastward.cli.fit_model import FitPlan
    from eastward.cli.preferences import metric_choice
    from eastward.cli.stream_model import chosen_for_stream, fit_stream_model, open_stream

    opened: dict[str, Any] = {
        name: given[name] for name in ("weight", "holdout", "seed", "decimal")
    }
    opened |= {name: given[name] or () for name in ("ignore", "text")}
    task = open_stream(given["data"], given["target"], **opened)
    name, bound = metric_choice(given["metric"], given["prefer"], given["cost"], task.classes)
    introduce(task.facts, given["target"])
    parameters = with_prior(parameters, task.classes)
    plan = FitPlan(name, bound, parameters, given["holdout"], given["seed"], decision=decision)
    plan = chosen_for_stream(plan, method)
    say(f"method   {plan.label}: {plan.reason}")
    conclude(fit_stream_model(task, plan, given["out"], commands=commands), given["out"])
