"""How often, and by how much, `eastward.align` is worse than the network that it was given.

    EASTWARD_DATA=<folder> python -m benchmarks.quality.align_tables
    python -m benchmarks.quality.align_tables --table       # the page and the picture from the finished runs

A run is one table, one split and one metric; finished ones are kept in ``results/align/tables.jsonl``, or where
``--runs`` says; the page and the picture stand beside them.

Protocol. Up to 600 training rows of each table, a quarter of the data to test; a fifth of the training rows is held
out. A network 128-64 is trained by cross-entropy and kept at its lowest held-out loss. `align` gets the network and
both parts. *Given* and *aligned* are values on the test rows. The noise of validation is the bootstrap standard error
of the difference between the two sets of decisions on the held-out rows, which is all that `align` can see. Where no
decision changes there, it is zero; *one row* is what the metric of the given network changes by if it decides one
held-out row of the rarest class otherwise, the least that held-out rows can show.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import eastward as ew
from benchmarks.quality.data import Split, data_folder, further, make_split, tabular
from benchmarks.quality.images import read
from eastward.confusion import hard_confusion
from eastward.decisions import decision_gain, tune_decision
from eastward.metrics import get
from eastward.training import assign_folds, plain_mlp

FOLDER = Path(__file__).parents[2] / "results" / "align"
RUNS = FOLDER / "tables.jsonl"
METRICS = ("f1_macro", "balanced_accuracy", "matthews_corrcoef")
MAX_ROWS, EPOCHS, PATIENCE, LEARNING_RATE = 600, 150, 15, 2e-3


def trained(split: Split) -> tuple[nn.Module, Any, Any, float]:
    """A network at its lowest held-out cross-entropy, the loaders, and the seconds of training."""
    X, y = torch.from_numpy(split.train), torch.from_numpy(split.train_codes)
    scale = X.std(0).clamp_min(1e-6)
    X = ((X - X.mean(0)) / scale).clamp(-10, 10)
    held = assign_folds(y, 5, torch.Generator().manual_seed(split.seed % 2**31)) == 0
    torch.manual_seed(split.seed % 2**31)
    model = plain_mlp([X.shape[1], 128, 64, split.num_classes])
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=1e-4)
    best, waited, kept, began = float("inf"), 0, None, time.perf_counter()
    for _ in range(EPOCHS):
        model.train()
        for rows in torch.randperm(int((~held).sum())).split(64):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(X[~held][rows]), y[~held][rows])
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            value = float(nn.functional.cross_entropy(model(X[held]), y[held]))
        waited += 1
        if value < best:
            best, waited, kept = value, 0, copy.deepcopy(model.state_dict())
        if waited >= PATIENCE:
            break
    model.load_state_dict(kept or model.state_dict())
    seconds = time.perf_counter() - began
    loaders = [
        DataLoader(TensorDataset(X[part], y[part]), 64, shuffle=True) for part in (~held, held)
    ]
    return model.eval(), *loaders, seconds


def logits_of(model: nn.Module, X: Tensor) -> Tensor:
    with torch.no_grad():
        return model(X)


def run_split(name: str, split: Split, number: int) -> list[dict[str, Any]]:
    """One run for each metric."""
    model, train, valid, seconds = trained(split)
    X, y = torch.from_numpy(split.train), torch.from_numpy(split.test_codes)
    scale = X.std(0).clamp_min(1e-6)
    test = ((torch.from_numpy(split.test) - X.mean(0)) / scale).clamp(-10, 10)
    V, v = valid.dataset.tensors
    found = []
    for metric in METRICS:
        result = ew.align(model, train, valid, metric, learning_rate=LEARNING_RATE)
        tuned = tune_decision(logits_of(model, V).softmax(1), v, metric)
        before, after = logits_of(model, V).argmax(1), result.decide(logits_of(result.model, V))
        judged = decision_gain(before, after, v, metric, num_classes=split.num_classes)
        decided = {
            "given": logits_of(model, test).argmax(1),
            "tuned": tuned.decide(logits_of(model, test).softmax(1)),
            "aligned": result.decide(logits_of(result.model, test)),
        }
        values = {
            who: float(get(metric)(hard_confusion(chosen, y, num_classes=split.num_classes)))
            for who, chosen in decided.items()
        }
        found.append(
            {
                "table": name,
                "split": number,
                "metric": metric,
                **values,
                "noise": (judged.high - judged.low) / 3.92,
                "one_row": worth_of_one_row(before, v, metric, split.num_classes),
                "kept": result.report["kept"],
                "stages": result.report["stages"],
                "training_seconds": seconds,
            }
        )
    return found


def worth_of_one_row(decided: Tensor, truth: Tensor, metric: str, size: int) -> float:
    """Change of the metric if one row of the rarest class is decided otherwise."""
    rarest = torch.bincount(truth, minlength=size).argmin()
    row = int(torch.nonzero(truth == rarest).flatten()[0])
    other = decided.clone()
    other[row] = (rarest + 1) % size if decided[row] == rarest else rarest
    first, second = (
        float(get(metric)(hard_confusion(one, truth, num_classes=size))) for one in (decided, other)
    )
    return abs(second - first)


def page(runs: list[dict[str, Any]], picture: str = "tables.svg") -> str:
    """What all runs say together."""
    protocol = __doc__.split("Protocol. ")[1].replace("``", "`").strip()
    tables = sorted({run["table"] for run in runs})
    text = ["# Aligned networks on tables", protocol]
    text.append(f"{len(runs)} runs: {len(tables)} tables, metrics {', '.join(METRICS)}.")
    change = np.array([run["aligned"] - run["given"] for run in runs])
    noise = np.array([run["noise"] for run in runs])
    lines = [
        "| worse than the given network by more than | runs | share | of these, no decision changed in validation |",
        "|---|---|---|---|",
    ]
    floor = np.maximum(noise, [run["one_row"] for run in runs])
    for label, limit in (
        ("nothing", 0 * noise),
        ("one standard error of validation", noise),
        ("one standard error, or one row", floor),
        ("two", 2 * noise),
        ("three", 3 * noise),
    ):
        worse = change < -limit - 1e-12
        share = 100 * worse.mean()
        lines.append(
            f"| {label} | {worse.sum()} | {share:.1f} % | {(worse & (noise == 0)).sum()} |"
        )
    worst = runs[int(change.argmin())]
    where = f"{worst['table']}, {worst['metric']}, noise {worst['noise']:.3f}"
    text += [
        "\n".join(lines),
        f"Largest loss: {change.min():+.3f} ({where}); mean change {change.mean():+.4f}.",
        f"![Change of the test value against the noise of validation]({picture})",
        gains(runs),
        kept(runs),
    ]
    return "\n\n".join(text) + "\n"


def gains(runs: list[dict[str, Any]]) -> str:
    """Means over tables of what `align` gains over the given network and over a tuned decision."""
    lines = [
        "| metric | given | tuned decision | aligned | over given | over the tuned decision |",
        "|---|---|---|---|---|---|",
    ]
    for metric in METRICS:
        own = [run for run in runs if run["metric"] == metric]
        if not own:
            continue
        names = sorted({run["table"] for run in own})
        means = {
            who: np.array([np.mean([r[who] for r in own if r["table"] == n]) for n in names])
            for who in ("given", "tuned", "aligned")
        }
        shown = [f"{means[who].mean():.4f}" for who in ("given", "tuned", "aligned")]
        for who in ("given", "tuned"):
            gain = means["aligned"] - means[who]
            error = stats.sem(gain) if len(gain) > 1 else float("nan")
            shown.append(
                f"{gain.mean():+.4f} ± {error:.4f} ({(gain > 0).sum()}–{(gain < 0).sum()})"
            )
        lines.append(f"| {metric} | " + " | ".join(shown) + " |")
    note = "Means over tables, with the standard error over tables and the tables won and lost."
    return note + "\n\n" + "\n".join(lines)


def kept(runs: list[dict[str, Any]]) -> str:
    """How often each stage was the last one kept, and what the stages cost."""
    counts: dict[str, int] = {}
    for run in runs:
        counts[run["kept"]] = counts.get(run["kept"], 0) + 1
    words = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    head = [
        sum(s["seconds"] for s in run["stages"] if s["stage"] == "head") / run["training_seconds"]
        for run in runs
    ]
    return (
        f"Last stage kept: {words}. The head stage takes {100 * np.median(head):.0f} % of training."
    )


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """Change of the test value of every run, in units of the noise of validation and as it is."""
    import matplotlib as mpl  # noqa: PLC0415 - the picture alone needs it

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "eastward", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    change = np.array([run["aligned"] - run["given"] for run in runs])
    noise = np.array([run["noise"] for run in runs])
    left.hist(change, bins=40, color="#4477aa")
    left.axvline(0, color="black", linewidth=0.8)
    left.set(
        xlabel="aligned minus given, on test rows", ylabel="runs", title="Change of the metric"
    )
    right.scatter(noise, change, s=9, color="#4477aa", alpha=0.6)
    reach = np.array([0, noise.max() * 1.05])
    for factor, style in ((1, ":"), (2, "--")):
        right.plot(reach, -factor * reach, style, color="#aa3377", label=f"−{factor} × noise")
    right.axhline(0, color="black", linewidth=0.8)
    right.set_ylim(bottom=-noise.max())
    right.set(
        xlabel="noise of validation (standard error)",
        ylabel="aligned minus given, on test rows",
        title="Losses against what validation can see",
    )
    right.legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--seed", type=int, default=11, help="of the splits")
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--table", action="store_true", help="write the page, run nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.runs.parent.mkdir(parents=True, exist_ok=True)
    if not options.table:
        tasks = {**tabular(data_folder() / "tabular"), **further()}
        for number in range(options.splits):
            for name, load in tasks.items():
                if (name, number) in {(r["table"], r["split"]) for r in read(options.runs)}:
                    continue
                split = make_split(load(), options.seed, number, MAX_ROWS)
                try:
                    found = run_split(name, split, number)
                except ValueError as error:
                    print(name, number, "left out:", error, flush=True)
                    continue
                with options.runs.open("a") as handle:
                    handle.writelines(json.dumps(run) + "\n" for run in found)
                print(
                    name, number, [round(r["aligned"] - r["given"], 3) for r in found], flush=True
                )
    runs = read(options.runs)
    picture = options.runs.with_suffix(".svg")
    options.runs.with_suffix(".md").write_text(page(runs, picture.name))
    draw(runs, picture)


if __name__ == "__main__":
    main()
