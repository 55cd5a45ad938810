"""Decision matrices against offsets, and calibration, on the same held-out predictions.

    EASTWARD_DATA=<data folder> python -m benchmarks.quality.decisions fit
    EASTWARD_DATA=<data folder> python -m benchmarks.quality.decisions run
    python -m benchmarks.quality.decisions report

``fit`` fits the parts of the ensemble (five cross-fitted networks, LightGBM, a forest; at most 500 training rows) once
for every table and split, and keeps their predictions of held-out and test rows below ``build/quality``. ``run`` tunes
decisions and calibration on held-out predictions and judges them on test rows; it appends one line for each cell to
``build/quality/decisions.jsonl``: stop it at any time, and the same command goes on. ``report`` prints differences to
offsets (``smoothed_offsets`` with ``keep_classes``, the decision of before), means over tables, with tables better,
equal within 0.005 and worse, and Wilcoxon's p. The cells of the ten splits that judge are in
``results/quality/decisions.jsonl.gz``.

Random state 0 is for choosing, with ``--ablation`` for the alternatives; random state 1 judges.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import wilcoxon

from benchmarks.quality import data
from benchmarks.quality.components import Component, fitted
from benchmarks.quality.methods import metric_named
from eastward import decisions
from eastward.decisions.calibration import expected_calibration_error, log_loss
from eastward.decisions.tuning import DecisionOptions, HeldOut, decision_table, fit_decision
from eastward.estimators.ensemble.fitting import log_mean
from eastward.metrics import Metric

ROOT = Path(__file__).parents[2]
CELLS = ROOT / "build" / "quality" / "decisions.jsonl"
STORES = ROOT / "build" / "quality"
PARTS = {"networks": "ce", "lightgbm": "lgb", "random_forest": "forest"}
KINDS = ("ensemble", "networks", "lightgbm")
METRICS = ("f1", "geometric_mean", "matthews_corrcoef", "balanced_accuracy", "cost")
MAX_ROWS = 500
EQUAL = 0.005
# A probability of zero would be out of reach of every rule.
SMALLEST = 1e-12

# What ships, and what it was chosen among.
ESTIMATORS = "matrix, as estimators decide"
SHIPPED: dict[str, dict[str, Any]] = {"matrix": {}, ESTIMATORS: {}}
ABLATION: dict[str, dict[str, Any]] = {
    "not calibrated": {"calibrate": "none"},
    "no labels": {"label_share": 0.0},
    "a quarter of labels": {"label_share": 0.25},
    "half labels": {"label_share": 0.5},
    "labels alone": {"label_share": 1.0},
}


class Predictions(NamedTuple):
    """Log-probabilities of held-out and of test rows, with their classes, by one kind of model."""

    held: HeldOut
    test: Any
    truth: Any

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.test.shape[1])

    @property
    def test_probabilities(self) -> torch.Tensor:
        """Probabilities of test rows, before calibration."""
        return torch.from_numpy(self.test).softmax(1)


def tables() -> dict[str, Callable[[], Any]]:
    """The development tables."""
    return data.tabular(data.data_folder() / "tabular")


def split_of(name: str, load: Any, random_state: int, split: int) -> dict[str, Predictions] | None:
    """Predictions by every kind of model, if they were fitted."""
    folder = _folder(name, random_state, split)
    if not all((folder / f"{part}.npz").exists() for part in PARTS.values()):
        return None
    rows = data.make_split(load(), random_state, split, MAX_ROWS)
    found = fitted(tuple(PARTS.values()), rows, "f1_macro", folder)
    return {kind: _predictions(found, kind, rows) for kind in KINDS}


def _folder(name: str, random_state: int, split: int) -> Path:
    return STORES / str(random_state) / "components" / f"{name}-{split}"


def _predictions(found: dict[str, Component], kind: str, rows: Any) -> Predictions:
    if kind == "ensemble":
        held = log_mean({name: found[part].held_out for name, part in PARTS.items()})
        test = log_mean({name: found[part].test_mean for name, part in PARTS.items()})
    else:
        held, test = found[PARTS[kind]].held_out, found[PARTS[kind]].test_mean
    known = np.isfinite(held).all(1)
    return Predictions(HeldOut(held[known], rows.train_codes[known]), test, rows.test_codes)


def fit(options: argparse.Namespace) -> None:
    """Fit the models of every table and split that are missing."""
    for split in range(options.first, options.first + options.splits):
        for name, load in tables().items():
            if split_of(name, load, options.random_state, split) is None:
                rows = data.make_split(load(), options.random_state, split, MAX_ROWS)
                folder = _folder(name, options.random_state, split)
                fitted(tuple(PARTS.values()), rows, "f1_macro", folder)


def judged(
    own: Predictions, wanted: Sequence[str], rules: dict[str, Any], tables: tuple[Any, Any]
) -> dict[str, Any]:
    """Every metric of every rule on test rows, higher is better; ``tables`` are calibrated probabilities."""
    maps = {"auto": tables}
    if any(rule.get("calibrate") == "none" for rule in rules.values()):
        maps["none"] = (own.held.probabilities.clamp_min(SMALLEST), own.test_probabilities)
    values: dict[str, Any] = {}
    for name in wanted:
        metric = metric_named(name, own.held.codes, own.num_classes)
        found = {"offsets": _offsets(own, metric), "argmax": own.test.argmax(1)}
        for rule, changes in rules.items():
            if rule == ESTIMATORS:
                found[rule] = _estimated(own, metric, tables[1])
                continue
            options = dict(changes)
            held, new = maps[options.pop("calibrate", "auto")]
            decision = decisions.tune_decision(held, own.held.codes, metric, **options)
            found[rule] = decision.decide(new).numpy()
        values[name] = {rule: merit(metric, own, decided) for rule, decided in found.items()}
    return values


def _estimated(own: Predictions, metric: Metric, new: Any) -> Any:
    """Decide as estimators do: the most probable class stays where folds call the matrix clearly worse."""
    options = DecisionOptions(metric, averaged=True)
    fitted_ = fit_decision("decisions", own.held, list(range(own.num_classes)), options)
    return fitted_.decision.decide(new).numpy()


def calibrated(own: Predictions) -> tuple[Any, Any]:
    """Probabilities of held-out and test rows after the map that held-out rows choose, as estimators do it."""
    map_ = decisions.fit_calibration(own.held.probabilities, own.held.codes, averaged=True)
    held = map_.apply(own.held.probabilities).clamp_min(SMALLEST)
    return held, map_.apply(own.test_probabilities)


def merit(metric: Metric, own: Predictions, decided: Any) -> float:
    """A metric of decisions about test rows, higher is better."""
    sign = 1 if metric.higher_is_better else -1
    return sign * float(metric(decision_table(own.truth, decided, None, own.num_classes)))


def _offsets(own: Predictions, metric: Metric) -> Any:
    held, codes = own.held.scores, own.held.codes
    tuned = decisions.smoothed_offsets(held, codes, metric)
    return (own.test + decisions.keep_classes(tuned, held, codes, metric).numpy()).argmax(1)


def calibration(own: Predictions, after: Any) -> dict[str, float]:
    """Log-loss and calibration error on test rows, before and after the map that held-out rows choose."""
    ones, new = np.ones(len(own.truth)), own.test_probabilities
    values: dict[str, float] = {}
    for name, table in (("before", new), ("after", after)):
        values[f"log_loss_{name}"] = log_loss(table.numpy(), own.truth, ones)
        values[f"error_{name}"] = expected_calibration_error(table.numpy(), own.truth, ones)
    return values


def run(options: argparse.Namespace) -> None:
    """Judge whatever is missing, split by split."""
    CELLS.parent.mkdir(parents=True, exist_ok=True)
    rules = {**SHIPPED, **ABLATION} if options.ablation else SHIPPED
    done = {
        (cell["state"], cell["set"], cell["split"], cell["kind"], name)
        for cell in read_cells()
        for name in cell["values"]
    }
    deadline = time.monotonic() + 60 * options.minutes
    for split in range(options.first, options.first + options.splits):
        for name, load in tables().items():
            key = (options.random_state, name, split)
            missing = {
                kind: [m for m in options.metrics.split(",") if (*key, kind, m) not in done]
                for kind in KINDS
            }
            found = split_of(name, load, *key[::2]) if any(missing.values()) else None
            if found is None or time.monotonic() > deadline:
                continue
            for kind, wanted in missing.items():
                if wanted:
                    _append(key, kind, found[kind], wanted, rules)


def _append(
    key: tuple[int, str, int], kind: str, own: Predictions, wanted: list[str], rules: dict[str, Any]
) -> None:
    state, name, split = key
    both = calibrated(own)
    cell = {"state": state, "set": name, "split": split, "kind": kind, "classes": own.num_classes}
    cell |= {"calibration": calibration(own, both[1]), "values": judged(own, wanted, rules, both)}
    with CELLS.open("a") as file:
        file.write(json.dumps(cell) + "\n")


def read_cells() -> list[dict[str, Any]]:
    """Cells of the file; a line that a killed run left unfinished is dropped."""
    cells = []
    for line in CELLS.read_text().splitlines() if CELLS.exists() else ():
        try:
            cells.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return cells


def report(options: argparse.Namespace) -> None:
    """Print the tables of one random state."""
    cells = [cell for cell in read_cells() if cell["state"] == options.random_state]
    for few in (False, True):
        print(f"\n## {'two classes' if few else 'three classes and more'}")
        for wanted in METRICS:
            for kind in KINDS:
                chosen = [
                    {**c, "values": c["values"][wanted]}
                    for c in cells
                    if c["kind"] == kind and (c["classes"] == 2) == few and wanted in c["values"]
                ]
                if chosen:
                    _print_rules(wanted, kind, chosen)
    # A cell of each model and split, however many metrics it took to write.
    single = {(c["set"], c["split"], c["kind"]): {**c, **c["calibration"]} for c in cells}
    _print_calibration(list(single.values()))


def _print_rules(wanted: str, kind: str, cells: list[dict[str, Any]]) -> None:
    splits = len({cell["split"] for cell in cells})
    print(f"\n{wanted}, {kind}: {len({c['set'] for c in cells})} tables, up to {splits} splits")
    for rule in cells[0]["values"]:
        if rule == "offsets":
            level = np.mean([cell["values"]["offsets"] for cell in cells])
            print(f"  offsets (level {level:.3f})")
            continue
        means = by_table(
            cells, lambda cell, rule=rule: cell["values"][rule] - cell["values"]["offsets"]
        )
        better, worse = int((means > EQUAL).sum()), int((means < -EQUAL).sum())
        chance = wilcoxon(means).pvalue if len(means) > 5 and means.any() else float("nan")
        tally = f"{better}/{len(means) - better - worse}/{worse}"
        print(f"  {rule:32s} {means.mean():+.4f}  {tally:9s} p {chance:.3f}")


def by_table(cells: list[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> Any:
    """The mean over splits, for each table."""
    found: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        found[cell["set"]].append(value(cell))
    return np.array([np.mean(values) for values in found.values()])


def _print_calibration(cells: list[dict[str, Any]]) -> None:
    print("\n## calibration")
    for kind in KINDS:
        own = [cell for cell in cells if cell["kind"] == kind]
        if not own:
            continue
        change = np.array([cell["log_loss_after"] - cell["log_loss_before"] for cell in own])
        means = by_table(own, lambda cell: cell["log_loss_after"] - cell["log_loss_before"])
        errors = [by_table(own, lambda c, w=w: c[f"error_{w}"]).mean() for w in ("before", "after")]
        print(
            f"{kind:10s} {len(means)} tables, {len(own)} splits: log-loss {means.mean():+.4f}, "
            f"largest rise of a table {means.max():+.4f} ({(means > EQUAL).sum()} above {EQUAL}), "
            f"of a split {change.max():+.4f} ({(change > EQUAL).sum()} above); "
            f"calibration error {errors[0]:.3f} to {errors[1]:.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("action", choices=("fit", "run", "report"))
    parser.add_argument("--random-state", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--metrics", default=",".join(METRICS))
    parser.add_argument("--ablation", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"fit": fit, "run": run, "report": report}[options.action](options)


if __name__ == "__main__":
    main()
