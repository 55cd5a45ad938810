"""Peak memory of ``EASTClassifier.fit`` on a table of a million rows, in units of the table.

    python benchmarks/fit_memory.py [--rows 1000000] [--no-write]

Protocol. A process of its own imports everything, makes a float32 table X and labels, and fits one epoch of each
stage of a recipe with the default network, one thread. "During fit" is the largest resident memory while ``fit``
runs minus that just before it, so X and y themselves are not in it; "with X" adds X once. The network is what its
weights take. The bar: with X, at most three times the size of X plus the network.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "fit_memory"
COMMAND = "make bench-fit"
RECIPES = ("cross_entropy", "paper", "auto")
COLUMNS, BAR = 30, 3.0

CHILD = textwrap.dedent(
    """
    import json, sys
    from pathlib import Path
    import numpy as np, torch
    import eastward as ew

    def memory(field):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

    rows, columns, recipe = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    X = random.standard_normal((rows, columns), dtype=np.float32)
    y = (X[:, 0] + random.standard_normal(rows, dtype=np.float32) > 1).astype(np.int64)
    model = ew.EASTClassifier("f1_macro", recipe=recipe, max_epochs=1, random_state=0)
    model.fit(X[:2000], y[:2000])  # what is loaded on first use does not count
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = memory("VmRSS")
    model.fit(X, y)
    during = memory("VmHWM") - before
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    model.predict(X)
    predicting = memory("VmHWM") - before
    network = sum(p.nbytes for p in model.members_.parameters())
    print(json.dumps({"table": X.nbytes, "during": during, "predicting": predicting, "network": network}))
    """
)


def measure(rows: int, recipe: str) -> dict[str, Any]:
    command = [sys.executable, "-c", CHILD, str(rows), str(COLUMNS), recipe]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - ours
    found = json.loads(done.stdout.splitlines()[-1])
    with_table = (found["during"] + found["table"] - found["network"]) / found["table"]
    return {"recipe": recipe, **found, "with_table": with_table, "met": with_table <= BAR}


def table(cases: list[dict[str, Any]]) -> str:
    lines = [
        "| recipe | X, MB | network, MB | during fit, MB | with X, in units of X | at most 3 | predict, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        sizes = [case[key] / 1e6 for key in ("table", "network", "during", "predicting")]
        lines.append(
            "| {recipe} | {0:.0f} | {1:.1f} | {2:.0f} | {with_table:.2f} | {word} | {3:.0f} |".format(
                *sizes, **case, word="met" if case["met"] else "MISSED"
            )
        )
    return "\n".join(lines)


def write(cases: list[dict[str, Any]]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"command": COMMAND, "cases": cases}
    (RESULTS / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    protocol = (__doc__ or "").split("Protocol. ")[1].replace("``", "`").strip()
    text = f"""# Peak memory of fit

A table of {cases[0]["table"] // (4 * COLUMNS):,} x {COLUMNS} float32 numbers.

{table(cases)}

Protocol: {protocol}

Regenerate with `{COMMAND}`.
"""
    (RESULTS / "README.md").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    if not Path("/proc/self/clear_refs").exists():
        raise SystemExit("this benchmark reads /proc, which only Linux has")
    cases = [measure(options.rows, recipe) for recipe in RECIPES]
    print(table(cases))
    if options.write:
        write(cases)


if __name__ == "__main__":
    main()
