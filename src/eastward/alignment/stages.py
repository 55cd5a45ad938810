"""The three stages of `align`, each judged by validation rows, and the refit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eastward.alignment.batches import joined_loaders
from eastward.alignment.head_stage import HeadOptions, aligned_heads
from eastward.alignment.heads import HeadWeights
from eastward.alignment.network_stage import NetworkOptions, Steps, train_network
from eastward.alignment.rows import HeadRows, concatenated, thinned
from eastward.alignment.sharding import gathered, weights_of
from eastward.alignment.work import Candidate, Work
from eastward.training.checkpoint import fingerprint

__all__ = ["STAGES", "run_stage"]

# The most logits of heads that train side by side (200 MB in float32). With more rows, a sample is used.
NUMBERS_AT_ONCE = 50_000_000


def run_stage(work: Work, name: str) -> None:
    """Try one stage, and keep it if validation rows prefer it."""
    _STAGE[name](work)


def _decision_stage(work: Work) -> None:
    """Try the decision stage."""
    start, held = work.start, work.valid
    labels = work.head.layout.labels
    # Thresholds of labels go into the bias, so that labels are decided at a logit of zero.
    head = start.head.changed(1.0, start.offsets) if labels else start.head
    decision = None if labels else start.decision
    judged = _by_fold(_starts(work)[:-1], held.features, work.judge.folds)
    logits = start.head.logits(held.features)
    candidate = Candidate(
        "decision", work.given.weights, head, start.chosen, judged, logits, decision
    )
    work.consider(candidate, work.given, work.deciding)


def _starts(work: Work) -> list[HeadWeights]:
    """Return the heads where training starts, with the decision found without each fold and that of all rows."""
    shifts = [*work.start.by_fold, work.start.offsets]
    return [work.start.head.changed(1.0, shift) for shift in shifts]


def _head_stage(work: Work) -> None:
    """Try the head stage; if it starts from the decision, both are compared with the given network."""
    started = time.perf_counter()
    weights, starts = work.given.weights, _starts(work)
    candidate = _head_candidate(work, "head", weights, starts, work.train.rows, work.valid)
    before = work.given if work.starts_at_decision else work.best
    work.consider(candidate, before, time.perf_counter() - started)


def _head_candidate(
    work: Work,
    name: str,
    weights: dict[str, Any],
    starts: list[HeadWeights],
    train: HeadRows,
    valid: HeadRows,
) -> Candidate:
    """Train a head on all rows, and one without each fold, which decides that fold."""
    folds, room = work.judge.folds, NUMBERS_AT_ONCE // (len(starts) * work.judge.size)
    generator = torch.Generator().manual_seed(work.judge.seed)
    # Groups are not needed here, so they hold the numbers of the rows, from which their folds follow after thinning.
    own = replace(valid, groups=torch.arange(len(valid)))
    own = thinned(own, work.judge.size, max(1, room // 2), generator)
    train = thinned(train, work.judge.size, max(1, room - len(own)), generator)
    rows = concatenated(train, own)
    used = torch.ones(len(starts), len(rows), dtype=torch.bool)
    for fold in range(len(starts) - 1):
        used[fold, len(train) :] = folds[own.groups] != fold
    options = HeadOptions.for_rows(len(rows))
    heads = aligned_heads(starts, rows, used, work.metric, work.prior, options)
    logits = _by_fold(heads[:-1], valid.features, folds)
    return Candidate(name, weights, heads[-1], work.decided(logits), logits, logits)


def _by_fold(heads: Sequence[HeadWeights], features: Tensor, folds: Tensor) -> Tensor:
    """Compute the logits of each row with the head of its fold."""
    logits = heads[0].logits(features)
    for fold, head in enumerate(heads[1:], start=1):
        logits[folds == fold] = head.logits(features[folds == fold])
    return logits


def _network_stage(work: Work) -> None:
    """Try the network stage, followed by the head stage if that is one of the stages."""
    started = time.perf_counter()
    if not _can_learn(work):
        return
    network = work.fresh_network()
    work.head.put(network, _starts(work)[-1])
    finished = _train(work, network, work.loaders[0], work.train.targets, "network")
    valid = work.valid_again(network)
    own, weights = work.head.weights(network), weights_of(network)
    # The start used the labels of every fold, so its effect on the fold that judges is removed.
    shifted = [own.changed(1.0, shift - work.start.offsets) for shift in work.start.by_fold]
    if "head" in work.options["stages"]:
        train = work.features(network, "train_loader", work.loaders[0]).rows
        candidate = _head_candidate(work, "network", weights, [*shifted, own], train, valid)
    else:
        logits = _by_fold(shifted, valid.features, work.judge.folds)
        candidate = Candidate("network", weights, own, work.decided(logits), logits, logits)
    kept = work.consider(candidate, work.best, time.perf_counter() - started)
    if not finished:
        raise KeyboardInterrupt
    if kept and work.options["refit"]:
        _refit(work)


def _can_learn(work: Work) -> bool:
    """Return whether any parameter outside the head can be trained."""
    layer = work.base.get_submodule(work.head.name)
    own = {id(value) for value in layer.parameters()}
    if any(value.requires_grad and id(value) not in own for value in work.base.parameters()):
        return True
    others = any(id(value) not in own for value in work.base.parameters())
    why = (
        "All parameters except those of the head are frozen"
        if others
        else "The head is all there is"
    )
    work.notes.append(f"{why}: the network stage is left out")
    return False


def _train(work: Work, network: nn.Module, loader: Any, targets: Tensor, name: str) -> bool:
    """Train a network for the metric, and return False if the user stopped it."""
    options = work.options
    settings = NetworkOptions(
        options["epochs"], options["learning_rate"], options["weight_decay"], options["batch_size"]
    )
    mass = work.train.rows.class_mass(work.judge.size)
    steps = Steps.of(loader, work.head.layout, targets, mass, settings, options["random_state"])
    folder = options["checkpoint"]
    path = None if folder is None else Path(folder) / f"{name}.ckpt"
    return train_network(
        network,
        steps,
        work.metric,
        work.prior,
        settings,
        fabric=work.fabric,
        forward=options["forward"],
        ignore_index=options["ignore_index"],
        checkpoint=path,
        identity="" if path is None else _identity(work, settings, name),
        verbose=options["verbose"],
    )


def _identity(work: Work, settings: NetworkOptions, name: str) -> str:
    """Compute a digest of the settings, targets and weights that determine training."""
    chosen = (
        name,
        settings,
        work.metric.name,
        dict(work.metric.options),
        work.options["random_state"],
    )
    state = gathered(work.given.weights).values()
    # Samples of many rows have their labels in the rows alone.
    targets = (work.train.targets, work.train.rows.targets, work.valid.targets)
    return fingerprint(chosen, work.target, *targets, work.start.offsets, *state)


def _refit(work: Work) -> None:
    """Repeat the network stage on training and validation rows together; no rows are left to judge it."""
    started = time.perf_counter()
    network = work.fresh_network()
    work.head.put(network, _starts(work)[-1])
    both = joined_loaders(*work.loaders)
    everything = work.features(network, "train_loader", both)
    if not _train(work, network, both, everything.targets, "refit"):
        raise KeyboardInterrupt  # the network of the stage before stays; a refit is complete or left out
    head = work.head.weights(network)
    if "head" in work.options["stages"]:
        rows = work.features(network, "train_loader", both).rows
        used = torch.ones(1, len(rows), dtype=torch.bool)
        options = HeadOptions.for_rows(len(rows))
        (head,) = aligned_heads([head], rows, used, work.metric, work.prior, options)
    work.best = replace(work.best, name="refit", weights=weights_of(network), head=head)
    work.note("refit", None, time.perf_counter() - started)


_STAGE = {"decision": _decision_stage, "head": _head_stage, "network": _network_stage}
STAGES = tuple(_STAGE)
