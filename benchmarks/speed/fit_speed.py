"""Epochs per second: EASTClassifier beside skorch and scikit-learn's MLPClassifier, on one thread.

    python -m benchmarks.speed.fit_speed [--rounds 5] [--epochs 20] [--no-write]

Protocol. 10 000 x 30 rows of ``make_classification`` with three classes, float32. All train the same network (ReLU,
no dropout, because MLPClassifier has none) for the same number of epochs with the same batch size and learning rate
on 8 000 rows, and look at the same share of 2 000 validation rows after every epoch: ``validation_fraction=0.2``
here and in MLPClassifier (``early_stopping=True`` with endless patience), ``ValidSplit(5)`` in skorch. AdamW here
and in skorch, Adam with the same penalty in MLPClassifier. skorch runs with its default callbacks, and once more
without any. Every fit is timed as a whole, set-up and final report included, in CPU seconds of one thread, which
other work on the machine stretches little. In each round every variant runs once, in random order; the tables show
medians over rounds, of ratios within a round. The last column is an epoch alone, without set-up and report.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from torch import nn

import eastward as ew
from eastward.training import Callback, Run, plain_mlp

try:
    from skorch import NeuralNetClassifier
    from skorch.dataset import ValidSplit
except ImportError as error:
    raise SystemExit("skorch is missing: `make` installs it with the developer tools") from error

RESULTS = Path(__file__).parents[2] / "results" / "fit_speed"
COMMAND = "make bench-fit"
NETWORKS = [(512, 256, 128), (32,)]
BATCH_SIZES = [128, 512]
CLASSES, LEARNING_RATE, PENALTY, ENDLESS = 3, 1e-3, 1e-4, 10**6
BARS = {
    "skorch": ("at least 3 times the epochs per second of skorch", 3.0),
    "MLPClassifier": ("at least on par with MLPClassifier", 1.0),
}
EAST_BAR = 1.25


def data() -> tuple[Any, Any]:
    X, y = make_classification(
        10_000, 30, n_informative=15, n_classes=CLASSES, class_sep=0.8, random_state=0
    )
    return StandardScaler().fit_transform(X).astype(np.float32), y


class EpochClock(Callback):
    """CPU seconds of every epoch, from its first batch to the end of its validation."""

    def __init__(self) -> None:
        self.started = 0.0
        self.seconds: list[float] = []

    def epoch_start(self, run: Run) -> None:  # noqa: ARG002 - the hook has it
        """Look at the clock."""
        self.started = time.process_time()

    def epoch_end(self, run: Run) -> None:  # noqa: ARG002 - the hook has it
        """Look again."""
        self.seconds.append(time.process_time() - self.started)


def eastward_model(recipe: str, hidden: tuple[int, ...], batch_size: int, epochs: int) -> Any:
    return ew.EASTClassifier(
        "f1_macro",
        recipe=recipe,
        n_folds=1,
        hidden=hidden,
        dropout=0.0,
        batch_size=batch_size,
        max_epochs=epochs,
        patience=ENDLESS,
        learning_rate=LEARNING_RATE,
        callbacks=[EpochClock()],
        random_state=0,
    )


def skorch_model(hidden: tuple[int, ...], batch_size: int, epochs: int, callbacks: Any) -> Any:
    return NeuralNetClassifier(
        plain_mlp([30, *hidden, CLASSES], dropout=0.0),
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.AdamW,
        optimizer__weight_decay=PENALTY,
        lr=LEARNING_RATE,
        batch_size=batch_size,
        max_epochs=epochs,
        train_split=ValidSplit(5, stratified=True),
        iterator_train__shuffle=True,
        callbacks=callbacks,
        verbose=0,
    )


def sklearn_model(hidden: tuple[int, ...], batch_size: int, epochs: int) -> Any:
    return MLPClassifier(
        hidden,
        batch_size=batch_size,
        max_iter=epochs,
        alpha=PENALTY,
        learning_rate_init=LEARNING_RATE,
        early_stopping=True,
        validation_fraction=0.2,
        n_iter_no_change=ENDLESS,
        random_state=0,
    )


def variants(hidden: tuple[int, ...], batch_size: int, epochs: int) -> dict[str, Callable[[], Any]]:
    return {
        "eastward": lambda: eastward_model("cross_entropy", hidden, batch_size, epochs),
        "eastward, F1 loss": lambda: eastward_model("paper", hidden, batch_size, epochs),
        "skorch": lambda: skorch_model(hidden, batch_size, epochs, None),
        "skorch, no callbacks": lambda: skorch_model(hidden, batch_size, epochs, "disable"),
        "MLPClassifier": lambda: sklearn_model(hidden, batch_size, epochs),
    }


def timed_fit(model: Any, X: Any, y: Any, epochs: int) -> dict[str, float]:
    started = time.process_time()
    model.fit(X, y)
    fit = time.process_time() - started
    if isinstance(model, ew.EASTClassifier):
        assert len(model.history_) == epochs, "the run was stopped early"
        return {"fit": fit, "epoch": statistics.median(model.callbacks[0].seconds)}
    done = model.n_iter_ if isinstance(model, MLPClassifier) else len(model.history)
    assert done == epochs, "the run was stopped early"
    return {"fit": fit, "epoch": float("nan")}


def measure(
    hidden: tuple[int, ...], batch_size: int, *, epochs: int, rounds: int
) -> list[dict[str, dict[str, float]]]:
    """Seconds of every variant in every round; the first round warms up and is not counted."""
    X, y = data()
    makers = variants(hidden, batch_size, epochs)
    kept = []
    for number in range(rounds + 1):
        order = list(makers)
        random.shuffle(order)
        taken = {name: timed_fit(makers[name](), X, y, epochs) for name in order}
        if number:
            kept.append(taken)
            print(".", end="", flush=True)
    print()
    return kept


def ratio(rounds: list[dict[str, dict[str, float]]], name: str, key: str = "fit") -> list[float]:
    """Low, median and high over rounds of a variant's time relative to ``eastward``."""
    values = sorted(taken[name][key] / taken["eastward"][key] for taken in rounds)
    return [values[0], statistics.median(values), values[-1]]


def table(cases: list[dict[str, Any]]) -> str:
    lines = [
        "| network | batch | variant | epochs per second | times slower than eastward (range) | epoch, ms |",
        "|---|---|---|---|---|---|",
    ]
    for case in cases:
        rounds = case["rounds"]
        for name in rounds[0]:
            speed = case["epochs"] / statistics.median(taken[name]["fit"] for taken in rounds)
            low, middle, high = ratio(rounds, name)
            epoch = 1000 * statistics.median(taken[name]["epoch"] for taken in rounds)
            lines.append(
                f"| {case['hidden']} | {case['batch_size']} | {name} | {speed:.2f} | {middle:.2f} "
                f"({low:.2f}–{high:.2f}) | {'' if math.isnan(epoch) else f'{epoch:.0f}'} |"
            )
    return "\n".join(lines)


def verdicts(cases: list[dict[str, Any]]) -> str:
    lines = []
    for name, (words, bar) in BARS.items():
        found = [(ratio(case["rounds"], name)[1], case) for case in cases]
        lines += [_verdict(words, value, value >= bar, case) for value, case in found]
    words = f"an EAST epoch takes at most {EAST_BAR} times a cross-entropy epoch"
    for case in cases:
        value = ratio(case["rounds"], "eastward, F1 loss", "epoch")[1]
        lines.append(_verdict(words, value, value <= EAST_BAR, case))
    return "\n".join(lines)


def _verdict(words: str, value: float, met: bool, case: dict[str, Any]) -> str:
    where = f"{case['hidden']}, batch {case['batch_size']}"
    return f"- {words}, {where}: {'met' if met else 'MISSED'} ({value:.2f})"


def write(cases: list[dict[str, Any]]) -> None:
    names = ("eastward", "numpy", "scikit-learn", "skorch", "torch")
    facts = {"command": COMMAND, "python": platform.python_version()}
    content = {**facts, "packages": {name: version(name) for name in names}, "cases": cases}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    protocol = (__doc__ or "").split("Protocol. ")[1].replace("``", "`").strip()
    packages = ", ".join(f"{name} {value}" for name, value in content["packages"].items())
    text = f"""# Speed of fit

{table(cases)}

What was asked for:

{verdicts(cases)}

Why not more: the large network spends most of a step in matrix products, which are the same for everybody, so no
trainer can be three times as fast as another there. The small network spends it in bookkeeping: the optimiser, the
choice of rows and the loss.

Protocol: {protocol}

Measured with {packages}. Regenerate with `{COMMAND}`; every round is in `results.json`.
"""
    (RESULTS / "README.md").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # a fixed number of epochs is the point
    random.seed(0)
    torch.set_num_threads(1)
    cases = []
    with threadpool_limits(1):
        for hidden in NETWORKS:
            for batch_size in BATCH_SIZES:
                rounds = measure(hidden, batch_size, epochs=options.epochs, rounds=options.rounds)
                case = {"hidden": hidden, "batch_size": batch_size, "epochs": options.epochs}
                cases.append({**case, "rounds": rounds})
                print(table(cases[-1:]))
    print(verdicts(cases))
    if options.write:
        write(cases)


if __name__ == "__main__":
    main()
