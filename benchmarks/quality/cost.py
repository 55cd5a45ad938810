"""What training costs, in processor time of one thread, beside one network of cross-entropy.

    EASTWARD_DATA=<data folder> python -m benchmarks.quality.cost

writes ``results/quality/cost.md``. Every network has the size and the limits of the quality benchmark. Medians of five
fits in turns, after one that does not count.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.quality import data
from benchmarks.quality.components import HIDDEN, TRAINING
from eastward import EASTClassifier, EASTEnsembleClassifier

SETS = ("haberman", "pima", "yeast4", "glass")
ROWS, REPETITIONS = 400, 5
TABLE = Path(__file__).parents[2] / "results" / "quality" / "cost.md"


def network(**options: Any) -> Callable[[str], Any]:
    return lambda metric: EASTClassifier(
        metric, hidden=HIDDEN, random_state=0, **TRAINING, **options
    )


def ensemble(**options: Any) -> Callable[[str], Any]:
    chosen = {"hidden": HIDDEN, **TRAINING}
    return lambda metric: EASTEnsembleClassifier(
        metric, network_options=chosen, random_state=0, **options
    )


BASE = "one network, cross-entropy"
MODELS = {
    BASE: network(recipe="cross_entropy", n_folds=1),
    "EASTClassifier, n_folds=1": network(n_folds=1),
    "five networks, cross-entropy": network(recipe="cross_entropy", n_folds=5),
    "EASTClassifier": network(),
    "EASTEnsembleClassifier": ensemble(),
    "... its parts without the decision": ensemble(tune_decision=False),
}


def seconds_of_fit(model: Any, split: data.Split) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.process_time()
        model.fit(split.train, split.train_codes)
    return time.process_time() - started


def main() -> None:
    torch.set_num_threads(1)
    tasks = data.tabular(data.data_folder() / "tabular")
    seconds: dict[str, list[float]] = {name: [] for name in MODELS}
    for name in SETS:
        split = data.make_split(tasks[name](), 0, 0, ROWS)
        metric = "f1" if split.num_classes == 2 else "f1_macro"
        taken: dict[str, list[float]] = {label: [] for label in MODELS}
        for _ in range(REPETITIONS + 1):
            for label, make in MODELS.items():
                taken[label].append(seconds_of_fit(make(metric), split))
        for label, times in taken.items():
            seconds[label].append(float(np.median(times[1:])))
        print(name, {label: round(times[-1], 2) for label, times in seconds.items()}, flush=True)
    lines = [f"| processor seconds of fit | {' | '.join(SETS)} | ratio, median |"]
    lines.append("|---" * (len(SETS) + 2) + "|")
    for label, times in seconds.items():
        ratio = np.median(np.array(times) / np.array(seconds[BASE]))
        shown = " | ".join(f"{value:.2f}" for value in times)
        lines.append(f"| {label} | {shown} | {ratio:.1f} |")
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
