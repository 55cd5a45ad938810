"""Peak memory of ``EASTClassifier.fit`` on a table of a million rows, in units of the table.

    python -m benchmarks.speed.fit_memory [--rows 1000000] [--no-write]

Protocol. A process of its own imports everything, makes a float32 table X and labels, and fits one epoch of each
stage of a recipe with the default network, one thread. "On top of X" is the largest resident memory while ``fit``
runs minus that just before it, so X and y themselves are not in it, minus the weights of the network. "With X"
counts X once more. "At most three times the size of X plus the network" can be read either way, so both are given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results" / "fit_memory"
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
    on_top = (found["during"] - found["network"]) / found["table"]
    return {"recipe": recipe, **found, "on_top": on_top, "with_table": on_top + 1}


def table(cases: list[dict[str, Any]]) -> str:
    lines = [
        "| recipe | X, MB | network, MB | during fit, MB | on top of X | with X | predict, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        cells = [f"{case[key] / 1e6:.1f}" for key in ("table", "network", "during")]
        cells += [_judged(case[key]) for key in ("on_top", "with_table")]
        cells.append(f"{case['predicting'] / 1e6:.1f}")
        lines.append(f"| {case['recipe']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _judged(ratio: float) -> str:
    return f"{ratio:.2f} X, {'met' if ratio <= BAR else 'MISSED'}"


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
