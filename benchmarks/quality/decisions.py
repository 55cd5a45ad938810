"""Decision matrices against offsets, and calibration, on the same held-out predictions.

    EASTWARD_DATA=<data folder> python -m benchmarks.quality.decisions run
    python -m benchmarks.quality.decisions report

``run`` takes the components that ``benchmarks.quality`` fits (five cross-fitted networks, LightGBM, a forest; at most
500 training rows) on development splits, tunes decisions on their held-out predictions and judges them on test rows. It
appends one line for each cell to ``build/quality/decisions.jsonl``: stop it at any time, and the same command goes on.
``report`` prints differences to offsets (``smoothed_offsets`` with ``keep_classes``, the decision of before), means
over tables, with tables better, equal within 0.005 and worse, and Wilcoxon's p.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import wilcoxon

from benchmarks.quality import data
from benchmarks.quality.components import Component, fitted
from benchmarks.quality.methods import metric_named
from eastward import decisions
from eastward.decisions._inputs import probability_sample
from eastward.decisions.calibration import expected_calibration_error, log_loss
from eastward.decisions.deciding import tuned_decision
from eastward.decisions.estimating import Tuner
from eastward.decisions.solving import Objective
from eastward.decisions.tuning import decision_table
from eastward.estimators.ensemble.fitting import log_mean
from eastward.metrics import Metric

ROOT = Path(__file__).parents[2]
CELLS = ROOT / "build" / "quality" / "decisions.jsonl"
STORES = ROOT / "build" / "quality"
PARTS = {"networks": "ce", "lightgbm": "lgb", "random_forest": "forest"}
KINDS = ("ensemble", "networks", "lightgbm")
METRICS = ("f1", "geometric_mean", "matthews_corrcoef", "balanced_accuracy", "cost")
GUARDS = {"no guard": None, "guard -1": -1.0, "guard 0": 0.0, "guard 0.5": 0.5}
SMALLEST, EQUAL = 1e-12, 0.005


def predictions(found: dict[str, Component], kind: str) -> tuple[Any, Any]:
    """Held-out and test log-probabilities of a part, or of the ensemble's mean."""
    if kind != "ensemble":
        part = found[PARTS[kind]]
        return part.held_out, part.test_mean
    tables = [
        log_mean({name: table(found[part]) for name, part in PARTS.items()})
        for table in (lambda part: part.held_out, lambda part: part.test_mean)
    ]
    return tables[0], tables[1]


def judged(held: Any, codes: Any, test: Any, truth: Any, metric: Metric) -> dict[str, float]:
    """The metric of every rule on test rows, higher is better."""
    size = held.shape[1]
    raw, new_raw = (torch.from_numpy(table).softmax(1) for table in (held, test))
    found = {"offsets": _offsets(held, codes, test, metric), "argmax": test.argmax(1)}
    for name, calibrate in (("matrix", "none"), ("calibrated matrix", "auto")):
        map_ = decisions.fit_calibration(raw, codes, calibrate)
        probabilities, new = map_.apply(raw).clamp_min(SMALLEST), map_.apply(new_raw)
        sample = probability_sample("benchmark", probabilities, codes)
        tuned = tuned_decision(
            sample,
            Tuner(Objective(metric), decisions.LABEL_SHARE, 0),
            None,
            level=0.95,
            on_infeasible="raise",
            guard=None,
            judged=True,
        )
        chosen = tuned.decision.decide(new).numpy()
        for guard, hurdle in GUARDS.items():
            kept = hurdle is None or not np.isfinite(tuned.error)
            kept = kept or tuned.gain > hurdle * tuned.error
            found[f"{name}, {guard}"] = chosen if kept else new.argmax(1).numpy()
    sign = 1 if metric.higher_is_better else -1
    return {
        name: sign * float(metric(decision_table(truth, decided, None, size)))
        for name, decided in found.items()
    }


def _offsets(held: Any, codes: Any, test: Any, metric: Metric) -> Any:
    tuned = decisions.smoothed_offsets(held, codes, metric)
    return (test + decisions.keep_classes(tuned, held, codes, metric).numpy()).argmax(1)


def calibration(held: Any, codes: Any, test: Any, truth: Any) -> dict[str, float]:
    """Log-loss and calibration error on test rows, before and after the map that held-out rows choose."""
    raw, new = (torch.from_numpy(table).softmax(1) for table in (held, test))
    found = decisions.fit_calibration(raw, codes)
    ones = np.ones(len(truth))
    values: dict[str, float] = {}
    for name, table in (("before", new), ("after", found.apply(new))):
        values[f"log_loss_{name}"] = log_loss(table.numpy(), truth, ones)
        values[f"error_{name}"] = expected_calibration_error(table.numpy(), truth, ones)
    return values


def _order(splits: int) -> Iterator[tuple[int, str]]:
    """F1 first: it is what most people ask for."""
    for split in range(splits):
        yield split, "calibration"
        yield split, "f1"
        for kind in METRICS[1:]:
            yield split, kind


def fit(options: argparse.Namespace) -> None:
    """Fit the models of every table and split that are missing, and keep their predictions."""
    torch.set_num_threads(1)
    tasks = data.tabular(data.data_folder() / "tabular")
    for split in range(options.first, options.first + options.splits):
        for name, load in tasks.items():
            parts_of(name, load, options.random_state, split)


def parts_of(name: str, load: Any, random_state: int, split: int) -> tuple[Any, Any]:
    """Rows of a split, and predictions of the parts on them."""
    rows = data.make_split(load(), random_state, split, 500)
    folder = STORES / str(random_state) / "components" / f"{name}-{split}"
    return rows, fitted(tuple(PARTS.values()), rows, "f1_macro", folder)


def run(options: argparse.Namespace) -> None:
    """Judge whatever is missing."""
    torch.set_num_threads(1)
    CELLS.parent.mkdir(parents=True, exist_ok=True)
    done = {(c["set"], c["split"], c["kind"], c["metric"]) for c in read_cells()}
    tasks = data.tabular(data.data_folder() / "tabular")
    deadline = time.monotonic() + 60 * options.minutes
    for split, wanted in _order(options.splits):
        for name, load in tasks.items():
            missing = [kind for kind in KINDS if (name, split, kind, wanted) not in done]
            if not missing or time.monotonic() > deadline:
                continue
            with CELLS.open("a") as file:
                for cell in _cells(name, load, split, wanted, missing):
                    file.write(json.dumps(cell) + "\n")


def _cells(
    name: str, load: Any, split: int, wanted: str, kinds: list[str]
) -> Iterator[dict[str, Any]]:
    rows, found = parts_of(name, load, 0, split)
    for kind in kinds:
        held, test = predictions(found, kind)
        known = np.isfinite(held).all(1)
        codes = rows.train_codes[known]
        cell = {"set": name, "split": split, "kind": kind, "metric": wanted}
        cell["classes"] = rows.num_classes
        pair = held[known], codes, test, rows.test_codes
        if wanted == "calibration":
            yield {**cell, **calibration(*pair)}
        else:
            metric = metric_named(wanted, rows.train_codes, rows.num_classes)
            yield {**cell, "values": judged(*pair, metric)}


def read_cells() -> list[dict[str, Any]]:
    """Cells of the file; a line that a killed run left unfinished is dropped."""
    cells = []
    for line in CELLS.read_text().splitlines() if CELLS.exists() else ():
        try:
            cells.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return cells


def report() -> None:
    """Print the tables."""
    cells = read_cells()
    for few in (False, True):
        print(f"\n## {'two classes' if few else 'three classes and more'}")
        for wanted in METRICS:
            for kind in KINDS:
                chosen = [
                    c
                    for c in cells
                    if c["metric"] == wanted and c["kind"] == kind and (c["classes"] == 2) == few
                ]
                if chosen:
                    _print_rules(wanted, kind, chosen)
    _print_calibration([c for c in cells if c["metric"] == "calibration"])


def _print_rules(wanted: str, kind: str, cells: list[dict[str, Any]]) -> None:
    splits = len({cell["split"] for cell in cells})
    print(f"\n{wanted}, {kind}: {len({c['set'] for c in cells})} tables, up to {splits} splits")
    for rule in cells[0]["values"]:
        by_set: dict[str, list[float]] = defaultdict(list)
        for cell in cells:
            by_set[cell["set"]].append(cell["values"][rule] - cell["values"]["offsets"])
        means = np.array([np.mean(values) for values in by_set.values()])
        if rule == "offsets":
            level = np.mean([cell["values"]["offsets"] for cell in cells])
            print(f"  offsets (level {level:.3f})")
            continue
        better, worse = int((means > EQUAL).sum()), int((means < -EQUAL).sum())
        chance = wilcoxon(means).pvalue if len(means) > 5 and means.any() else float("nan")
        tally = f"{better}/{len(means) - better - worse}/{worse}"
        print(f"  {rule:32s} {means.mean():+.4f}  {tally:9s} p {chance:.3f}")


def _print_calibration(cells: list[dict[str, Any]]) -> None:
    print("\n## calibration")
    for kind in KINDS:
        own = [cell for cell in cells if cell["kind"] == kind]
        if not own:
            continue
        change = np.array([cell["log_loss_after"] - cell["log_loss_before"] for cell in own])
        by_set: dict[str, list[float]] = defaultdict(list)
        for cell, value in zip(own, change, strict=True):
            by_set[cell["set"]].append(value)
        means = np.array([np.mean(values) for values in by_set.values()])
        errors = [np.mean([cell[f"error_{when}"] for cell in own]) for when in ("before", "after")]
        print(
            f"{kind:10s} {len(own)} splits: log-loss {change.mean():+.4f}, largest rise of a table "
            f"{means.max():+.4f}, of a split {change.max():+.4f} ({(change > EQUAL).sum()} above {EQUAL}); "
            f"calibration error {errors[0]:.3f} to {errors[1]:.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("action", choices=("fit", "run", "report"))
    parser.add_argument("--random-state", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=600.0)
    options = parser.parse_args()
    if options.action == "fit":
        fit(options)
    elif options.action == "run":
        run(options)
    else:
        report()


if __name__ == "__main__":
    main()
