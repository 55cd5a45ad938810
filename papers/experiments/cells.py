"""One cell: a method trained once on a data set. Finished cells are stored as lines of a file."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import eastward as ew
from eastward import baselines
from papers.experiments import networks
from papers.experiments.design import Panel
from papers.experiments.efforts import Effort
from papers.experiments.epochs import epoch_watch, scores_of_epochs
from papers.experiments.gradients import gradient_by_confidence
from papers.experiments.methods import METHODS, Method, Problem, tuned_threshold
from papers.experiments.scores import all_scores
from papers.experiments.splits import Part, Split, load_split
from papers.experiments.training import Plan, predict_logits, train_network

__all__ = ["CellBook", "cell_key", "describe_cell", "run_cell"]

Cell = dict[str, Any]
# Settings that matter only when the epochs of cross-entropy are over.
AFTER_WARM = ("method", "max_epochs", "patience", "rate_after_warm", "select")
# Rows of our own: what users of the library get.
OWN_ESTIMATORS = {"network": "EASTClassifier", "ensemble": "EASTEnsembleClassifier"}


def describe_cell(panel: Panel, method: str, effort: Effort, point: Mapping[str, Any]) -> Cell:
    """Describe everything that the result of a cell depends on, except the trial."""
    chosen = METHODS[method]
    cell: Cell = {
        "data": panel.data,
        "options": dict(panel.options),
        "split_by": panel.split,
        "samples": effort.samples,
        "method": method,
        "network": panel.network,
    }
    if panel.official_test:
        cell["official_test"] = True
    if chosen.classical:
        cell.pop("network")
        return cell | ({"trees": effort.trees} if chosen.classical == "forest" else {})
    cell |= {"width": effort.width, "max_epochs": effort.max_epochs, **point, **chosen.point}
    if panel.is_image:
        cell["precision"] = panel.precision
    if chosen.annealed:
        cell |= {"cooling_patience": effort.cooling_patience, "cold_steps": effort.cold_steps}
    else:
        cell |= {"patience": effort.patience}
        cell.pop("rate")
    if effort.max_steps is not None:
        cell |= {"max_steps": effort.max_steps, "max_valid": effort.max_valid}
    if panel.optimizer != "adamw":
        cell["optimizer"] = panel.optimizer
    if panel.augment:
        cell["augment"] = True
    return cell


def cell_key(cell: Cell) -> str:
    """A short name for a cell.

    Examples
    --------
    >>> cell_key({"method": "ce", "trial": 0}) == cell_key({"trial": 0, "method": "ce"})
    True
    """
    return hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()[:16]


def warm_key(cell: Cell) -> str | None:
    """Return a name for the epochs of cross-entropy that ``cell`` begins with; None if no other cell can share them.

    Examples
    --------
    >>> first, second = ({"method": name, "trial": 0} for name in ("f1_warm", "ce_longer"))
    >>> warm_key(first) == warm_key(second) != warm_key(first | {"trial": 1})
    True
    """
    method = METHODS[cell["method"]]
    if not method.plan.get("warm_epochs") or method.plan.get("select", "loss") == "loss":
        return None
    shared: Cell = {name: value for name, value in cell.items() if name not in AFTER_WARM}
    shared |= {name: value for name, value in method.plan.items() if name not in AFTER_WARM}
    shared |= {"one_logit": method.one_logit, "network_ending": method.network_ending}
    return f"warm-{cell_key(shared)}"


class CellBook:
    """Finished cells in a file of JSON lines; a run that was stopped goes on where it was.

    Parameters
    ----------
    path : Path
        The file; it is created when the first cell is finished.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._results: dict[str, dict[str, Any]] = {}
        for line in self._lines():
            self._results[line["key"]] = line

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        for text in self.path.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(text)
            except ValueError:  # the last line of a run that was killed while it wrote
                continue

    def find(self, cell: Cell) -> dict[str, Any] | None:
        """The result of ``cell``, if it is finished."""
        return self._results.get(cell_key(cell))

    def add(self, cell: Cell, result: Mapping[str, Any]) -> None:
        """Store a result at once and completely."""
        line = {"key": cell_key(cell), "cell": cell, **result}
        self._results[line["key"]] = line
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A line that a killed run left unfinished must not spoil this one.
        torn = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(
                ("\n" if torn and self.path.stat().st_size else "") + json.dumps(line) + "\n"
            )


def run_cell(
    cell: Cell, folder: Path | None, *, verify: bool, checkpoint: Path | None = None
) -> dict[str, Any]:
    """Train and score one cell; a trial has initial weights, an order of rows and a split of its own.

    Parameters
    ----------
    cell : dict
        The result of :func:`describe_cell`, with ``trial``.
    folder : Path or None
        The data folder.
    verify : bool
        Whether the data must have the published balance.
    checkpoint : Path, optional
        Where an unfinished network is stored, so that a long cell survives an interruption.

    Returns
    -------
    dict
        ``scores``, ``valid_loss`` (None for classical methods), ``epochs``, whether the limit of epochs ended it
        (``capped``), whether it predicts one class only (``collapsed``), ``seconds`` of this process and ``wall``.
    """
    started, wall = time.process_time(), time.perf_counter()
    split = _split(
        cell["data"],
        folder,
        verify,
        cell["samples"],
        bool(cell.get("official_test")),
        json.dumps(cell["options"], sort_keys=True),
        cell["split_by"],
        cell["trial"],
    )
    # Saturated networks make numbers so small that a processor multiplies them a hundred times more slowly.
    torch.set_flush_denormal(True)
    torch.manual_seed(cell["trial"])
    run = _classical if METHODS[cell["method"]].classical else _network
    result = run(cell, split, checkpoint)
    # A cell that was stopped and went on has been trained by more than this process.
    trained = 60 * result["scores"].get("train_minutes", 0.0)
    spent = max(trained, time.process_time() - started)
    seconds = {"seconds": spent, "wall": max(spent, time.perf_counter() - wall)}
    return result | {name: round(value, 2) for name, value in seconds.items()}


@lru_cache(maxsize=2)
def _split(
    data: str,
    folder: Path | None,
    verify: bool,
    samples: int | None,
    official: bool,
    options: str,
    how: str,
    seed: int,
) -> Split:
    return load_split(
        data,
        folder,
        verify=verify,
        samples=samples,
        official_test=official,
        options=json.loads(options),
        how=how,
        seed=seed,
    )


def _network(cell: Cell, split: Split, checkpoint: Path | None) -> dict[str, Any]:
    method = METHODS[cell["method"]]
    outputs = 1 if method.one_logit else split.num_classes
    make = networks.NETWORKS[cell["network"] + method.network_ending]
    network = make(split.train.inputs[0], outputs, cell["dropout"], cell["width"])
    if method.make is None:  # for the type checker: classical methods do not come here
        raise RuntimeError(cell["method"])
    criterion = method.make(Problem(split.classes, split.class_counts))
    watched = cell.get("optimizer") == "sgd"
    watch = epoch_watch(cell["method"], criterion, split) if watched else None
    plan = _plan(cell, watch)
    outcome = train_network(
        network,
        criterion,
        split,
        plan,
        seed=cell["trial"],
        checkpoint=checkpoint,
        warm_start=_warm_start(cell, checkpoint),
    )
    scores, collapsed = _network_scores(network, split, method, plan.precision)
    scores |= {
        "epochs": float(outcome.epochs),
        "epoch_seconds": outcome.seconds / outcome.epochs,
        "train_minutes": outcome.seconds / 60,
        "row_microseconds": 1e6 * outcome.seconds / (outcome.epochs * _rows_seen(plan, split)),
    }
    if watched:
        scores |= scores_of_epochs(outcome.history)
    kept = watched or "precision" in cell
    more: dict[str, Any] = {}
    if kept:
        more["history"] = [_rounded(row) for row in outcome.history]
    if split.num_classes > 2 and kept:
        logits = predict_logits(network, split.valid.inputs, plan.precision)
        more["pulls"] = gradient_by_confidence(criterion, logits, split.valid.targets)
    return {
        "valid_loss": outcome.valid_loss,
        "epochs": outcome.epochs,
        "capped": not outcome.finished and not watched,
        "collapsed": collapsed,
        "scores": scores,
        **more,
    }


def _warm_start(cell: Cell, checkpoint: Path | None) -> Path | None:
    """Beside the cell's own checkpoint, if other losses start from the same network."""
    key = warm_key(cell)
    return None if key is None or checkpoint is None else checkpoint.with_name(f"{key}.pt")


def _rows_seen(plan: Plan, split: Split) -> int:
    """Training rows of one epoch."""
    rows = len(split.train.inputs)
    return rows if plan.max_steps is None else min(rows, plan.max_steps * plan.batch_size)


def _rounded(row: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in row.items()}


def _plan(cell: Cell, watch: Any) -> Plan:
    method = METHODS[cell["method"]]
    known = ("max_epochs", "patience", "cooling_patience", "cold_steps", "max_steps", "max_valid")
    given = {name: cell[name] for name in known if name in cell}
    given |= {"rate": cell["rate"]} if "rate" in cell else {}
    return Plan(
        **{
            "patience": 0,
            **given,
            "batch_size": cell["batch_size"],
            "learning_rate": cell["learning_rate"],
            "optimizer": cell.get("optimizer", "adamw"),
            "annealed": method.annealed,
            "precision": cell.get("precision", "float32"),
            "augment": networks.moved_and_mirrored if cell.get("augment") else None,
            "watch": watch,
            **method.plan,
        }
    )


def _network_scores(
    network: torch.nn.Module, split: Split, method: Method, precision: str
) -> tuple[dict[str, float], bool]:
    """Scores of the test rows, and whether all of them were put into one class."""
    logits = predict_logits(network, split.test.inputs, precision)
    targets = split.test.targets.flatten().numpy()
    if split.num_classes > 2:
        decided = logits.argmax(1).numpy()
        return all_scores(targets, decided, None, split.classes), len(np.unique(decided)) == 1
    probability = positive_probability(logits)
    threshold = 0.5
    if method.tuned:
        valid = positive_probability(predict_logits(network, split.valid.inputs, precision))
        threshold = tuned_threshold(valid, split.valid.targets.flatten())
    decided = (probability >= threshold).long().numpy()
    scores = all_scores(targets, decided, probability.numpy(), split.classes)
    return scores, len(np.unique(decided)) == 1


def positive_probability(logits: Tensor) -> Tensor:
    """Probability of class 1 from one logit or from two.

    Examples
    --------
    >>> positive_probability(torch.zeros(2, 1)).tolist()
    [0.5, 0.5]
    """
    return logits[:, 0].sigmoid() if logits.shape[1] == 1 else logits.softmax(1)[:, 1]


def _classical(cell: Cell, split: Split, _: Path | None) -> dict[str, Any]:
    model = _classifier(cell, split, images=split.train.inputs.dim() == 4)
    if (
        "pca" in getattr(model, "named_steps", {})
        and len(split.train.inputs) < split.train.inputs[0].numel()
    ):
        # Fewer pictures than pixels: the pictures' own decomposition is the small one, not the covariance's.
        model.set_params(pca__svd_solver="full")
    train = split.train
    if METHODS[cell["method"]].classical in OWN_ESTIMATORS:
        # They keep validation rows of their own, as users get them.
        train = Part(
            torch.cat([train.inputs, split.valid.inputs]),
            torch.cat([train.targets, split.valid.targets]),
        )
    model.fit(train.inputs.numpy(), train.targets.numpy())
    decided = np.asarray(model.predict(split.test.inputs.numpy()))
    probability = None
    if split.num_classes == 2 and hasattr(model, "predict_proba"):
        probability = model.predict_proba(split.test.inputs.numpy())[:, 1]
    scores = all_scores(split.test.targets.numpy(), decided, probability, split.classes)
    collapsed = len(np.unique(decided)) == 1
    return {
        "valid_loss": None,
        "epochs": 0,
        "capped": False,
        "collapsed": collapsed,
        "scores": scores,
    }


def _classifier(cell: Cell, split: Split, *, images: bool) -> Any:
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415  # only one row needs it

    kind = METHODS[cell["method"]].classical
    if kind in OWN_ESTIMATORS:
        metric = Problem(split.classes, split.class_counts).f1_name()
        return getattr(ew, OWN_ESTIMATORS[kind])(metric, random_state=cell["trial"])
    if kind == "forest":
        if images:
            return baselines.image_forest(n_estimators=cell["trees"], random_state=cell["trial"])
        return RandomForestClassifier(cell["trees"], random_state=cell["trial"])
    linear = baselines.ConvexCalibratedFBeta()
    return baselines.on_principal_components(linear) if images else linear
