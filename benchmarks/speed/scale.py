"""Time, memory and quality of EASTEnsembleClassifier against the number of rows, beside LightGBM.

    python benchmarks/speed/scale.py run --rows 2000 20000 200000 2000000
    python benchmarks/speed/scale.py run --rows 2000000 --methods "lightgbm, 250000 rows" "lightgbm, 500000 rows"
    python benchmarks/speed/scale.py report

Each fit is a process of its own, which loads the rows from a file, so that its peak of memory is that of loading,
fitting and predicting (imports included). The table is made up (scikit-learn's ``make_classification``: 20 columns, 10
of them informative, three classes of 80, 15 and 5 %, four clusters each, 1 % of the labels random); ``--set covertype``
takes the real table of 581 012 rows from ``EASTWARD_DATA``. A method such as "networks, 100000 rows" is one part of
the ensemble that learns from so many rows at most. Judged by macro-F1 on 50 000 further rows. ``run`` appends
to ``results/scale/cells.jsonl`` what is missing there; ``report`` writes the page and the picture.
"""

# ruff: noqa: PLC0415  # a process that fits LightGBM should not hold the memory of torch

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
RESULTS, PICTURE = ROOT / "results" / "scale", ROOT / "docs" / "_static" / "scale.svg"
TEST_ROWS = 50_000
METHODS = ("ensemble", "LightGBM, defaults", "LightGBM, large trees", "ensemble, streamed")


def made_up(rows: int, seed: int) -> tuple[Any, Any]:
    from sklearn.datasets import make_classification

    X, y = make_classification(
        rows,
        20,
        n_informative=10,
        n_redundant=4,
        n_classes=3,
        n_clusters_per_class=4,
        weights=[0.8, 0.15, 0.05],
        flip_y=0.01,
        random_state=seed,
    )
    return X.astype(np.float32), y


def covertype(rows: int, seed: int) -> tuple[Any, Any]:
    import pandas as pd

    frame = pd.read_parquet(Path(os.environ["EASTWARD_DATA"]) / "covertype" / "covertype.parquet")
    label = next(name for name in frame if name.lower() in {"target", "cover_type", "class"})
    y = np.unique(frame.pop(label), return_inverse=True)[1]
    chosen = np.random.default_rng(seed).permutation(len(y))[:rows]
    return frame.to_numpy(np.float32)[chosen], y[chosen]


SETS = {"made up": made_up, "covertype": covertype}


def peak_memory() -> float:
    """The peak of this process in GB; ``ru_maxrss`` would include the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e9


def told_memory(cell: dict[str, Any]) -> str:
    """The peak of a fit; an upper bound where the fit needed no more than what came before it."""
    return f"{'≤ ' if cell['peak_gb'] <= cell['base_gb'] else ''}{cell['peak_gb']:.2f}"


def fit(method: str, path: str, threads: int) -> dict[str, Any]:
    """Fit on all rows but the last of the file, and judge by those."""
    with np.load(path) as stored:
        X, y = stored["X"], stored["y"]
    from sklearn.metrics import f1_score

    model: Any
    ours = not method.startswith("LightGBM")
    if ours:
        import torch

        torch.set_num_threads(threads)
        from eastward import EASTEnsembleClassifier

        model = EASTEnsembleClassifier("f1_macro", n_jobs=threads, random_state=0)
        if method.endswith(" rows"):
            model.set_params(parts=(_limited(method),))
        if "streamed" in method:
            # Enough to see what trees add; more epochs take longer and not more memory.
            model = _Streamed(model.set_params(network_options={"max_epochs": 5}))
    else:
        from lightgbm import LGBMClassifier

        options = {"verbosity": -1, "n_jobs": threads, "random_state": 0}
        large = {"num_leaves": 255, "n_estimators": 300, "learning_rate": 0.1}
        model = LGBMClassifier(**options, **(large if "large" in method else {}))
    base = peak_memory()
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(X[:-TEST_ROWS], y[:-TEST_ROWS])
    spent = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    wall = time.perf_counter()
    predicted = model.predict(X[-TEST_ROWS:])
    found = {
        **spent,
        "predict_seconds": time.perf_counter() - wall,
        "base_gb": base,
        "peak_gb": peak_memory(),
        "f1": float(f1_score(y[-TEST_ROWS:], predicted, average="macro")),
    }
    if ours:
        found["parts"], found["votes"] = model.report_["parts"], model.votes_
    return found


def _limited(method: str) -> str:
    """Let a part of the ensemble learn from so many rows at most, and return its name."""
    from eastward.estimators.ensemble.fitting import PARTS

    part, most = method.removesuffix(" rows").split(", ")
    PARTS[part].most_rows = int(most)
    return part


class _Streamed:
    """An estimator that is fitted on Parquet files of the rows."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> None:
        import pandas as pd

        with tempfile.TemporaryDirectory() as folder:
            frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])]).assign(label=y)
            frame.to_parquet(Path(folder) / "rows.parquet", row_group_size=20_000)
            self.model.fit(folder, "label")

    def predict(self, X: Any) -> Any:
        import pandas as pd

        return self.model.predict(pd.DataFrame(X, columns=self.model.feature_names_in_))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def run(options: argparse.Namespace) -> None:
    """One process after the other, for whatever is missing."""
    cells = RESULTS / "cells.jsonl"
    RESULTS.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in cells.read_text().splitlines()] if cells.exists() else []
    done = {(cell["set"], cell["rows"], cell["method"], cell["seed"]) for cell in known}
    for rows in options.rows:
        wanted = [m for m in options.methods if (options.set, rows, m, options.seed) not in done]
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.npz"
            X, y = SETS[options.set](rows + TEST_ROWS, options.seed)
            np.savez(path, X=X, y=y)
            del X, y
            for method in wanted:
                command = [sys.executable, __file__, "fit", "--method", method, "--path", str(path)]
                command += ["--threads", str(options.threads)]
                done_ = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
                found = json.loads(done_.stdout.splitlines()[-1])
                facts = {"set": options.set, "rows": rows, "method": method, "seed": options.seed}
                facts |= {"threads": options.threads, **found}
                print(json.dumps(facts), flush=True)
                with cells.open("a") as file:
                    file.write(json.dumps(facts) + "\n")


def report() -> None:
    """Tables of whole fits and of single parts for each set, and a picture of time and memory."""
    cells = [json.loads(line) for line in (RESULTS / "cells.jsonl").read_text().splitlines()]
    lines = ["# Time, memory and quality against rows\n"]
    for name in dict.fromkeys(cell["set"] for cell in cells):
        own = [cell for cell in cells if cell["set"] == name]
        whole = [cell for cell in own if cell["method"] in METHODS]
        parts = [cell for cell in own if cell["method"] not in METHODS]
        lines += [f"<!-- {name} -->\n", *_table(whole), f"\n<!-- end {name} -->\n"]
        if parts:
            title = f"{name}, parts"
            lines += [f"<!-- {title} -->\n", *_parts_table(parts), f"\n<!-- end {title} -->\n"]
    (RESULTS / "README.md").write_text("\n".join(lines))
    print("\n".join(lines))
    _draw([cell for cell in cells if cell["set"] == "made up"])


def _table(cells: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| rows | method | CPU s | memory, GB | macro-F1 | votes and held-out F1 of the parts |",
        "|---" * 6 + "|",
    ]
    for cell in sorted(cells, key=lambda cell: (cell["rows"], METHODS.index(cell["method"]))):
        votes = ", ".join(
            f"{name.replace('_', ' ')} {share:.2f} ({cell['parts'][name]:.3f})"
            for name, share in cell.get("votes", {}).items()
        )
        lines.append(
            f"| {cell['rows']:,} | {cell['method']} | {cell['cpu']:.1f} "
            f"| {told_memory(cell)} | {cell['f1']:.4f} | {votes} |"
        )
    return lines


def _parts_table(cells: list[dict[str, Any]]) -> list[str]:
    lines = ["| part | learns from at most | CPU s | memory, GB | macro-F1 |", "|---" * 5 + "|"]
    named = [(*cell["method"].removesuffix(" rows").split(", "), cell) for cell in cells]
    lines += [
        f"| {part.replace('_', ' ')} | {int(most):,} | {cell['cpu']:.1f} | {told_memory(cell)} | {cell['f1']:.4f} |"
        for part, most, cell in sorted(named, key=lambda row: (row[0], int(row[1])))
    ]
    return lines


def _draw(cells: list[dict[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "eastward", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9, 2.8))
    titles = {"cpu": "fit, processor seconds", "peak_gb": "peak memory, GB", "f1": "macro-F1"}
    for axes, (key, title) in zip(panels, titles.items(), strict=True):
        for method in METHODS[:-1]:
            shown = [c for c in cells if key != "peak_gb" or c["peak_gb"] > c["base_gb"]]
            own = sorted((c["rows"], c[key]) for c in shown if c["method"] == method)
            if own:
                axes.plot(*zip(*own, strict=True), "o-", label=method)
        axes.set_xscale("log")
        if key == "cpu":
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0 if key == "peak_gb" else None)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("rows")
        axes.spines[["right", "top"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="upper center", ncols=3, frameon=False, bbox_to_anchor=(0.5, 1.08)
    )
    figure.tight_layout()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("action", choices=("run", "report", "fit"))
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 20_000, 200_000, 2_000_000])
    parser.add_argument("--set", choices=SETS, default="made up")
    parser.add_argument("--methods", nargs="+", default=METHODS[:-1], help=", ".join(METHODS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--method")
    parser.add_argument("--path")
    options = parser.parse_args()
    if options.action == "run":
        run(options)
    elif options.action == "report":
        report()
    else:
        print(json.dumps(fit(options.method, options.path, options.threads)))


if __name__ == "__main__":
    main()
