"""`align`: a trained network of a user's own and a metric, in one call."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.alignment.batches import (
    CALLER,
    Forward,
    as_batch,
    check_loader,
    in_order,
    joined_loaders,
    sampled_mass,
)
from eastward.alignment.decision_stage import (
    Decided,
    constrained_decision,
    decide_classes,
    decide_labels,
    plain_decision,
)
from eastward.alignment.evidence import Gain, Judge
from eastward.alignment.head_stage import HeadOptions, aligned_heads
from eastward.alignment.heads import Head, HeadWeights, check_precision, find_head
from eastward.alignment.network_stage import NetworkOptions, Steps, train_network
from eastward.alignment.priors import judged_weight, target_prior
from eastward.alignment.result import Alignment
from eastward.alignment.rows import Collected, HeadRows, collect_rows, concatenated, thinned
from eastward.decisions.deciding import checked_metric
from eastward.metrics import Metric, as_metric
from eastward.training.checkpoint import fingerprint
from eastward.training.launch import in_processes, make_fabric, processes_to_start

__all__ = ["STAGES", "align"]

STAGES = ("decision", "head", "network")
# Standard errors by which a stage has to gain over the best so far: the head gains on most data sets, by less than a
# few hundred validation rows can show; the whole network gains on some (docs/align.md).
EVIDENCE = {"decision": -1.0, "head": -2.0, "network": 1.0}
# And over the network as it was given, whatever came between.
EVIDENCE_OVER_GIVEN = -1.0
# Logits of all heads that train side by side, 200 MB in float32; of more rows, some stand for all.
NUMBERS_AT_ONCE = 50_000_000
# Validation frequencies further than this from those of training are worth a sentence.
FAR_FROM_TRAINING = 0.1


def align(
    model: nn.Module,
    train_loader: Any,
    valid_loader: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    prior: Any = None,
    subject_to: str | Sequence[str] | None = None,
    confidence: float = 0.95,
    abstain_cost: float | None = None,
    classes: Sequence[Any] | None = None,
    stages: Sequence[str] = STAGES,
    refit: bool = False,
    evidence: float | None = None,
    head: str | None = None,
    forward: Forward | None = None,
    ignore_index: int = -100,
    epochs: int = 12,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    batch_size: int | None = None,
    max_rows: int = 200_000,
    devices: int = 1,
    precision: Any = "32-true",
    fabric: Any = None,
    checkpoint: str | Path | None = None,
    inplace: bool = False,
    verbose: int = 0,
    random_state: int = 0,
) -> Alignment:
    r"""Align a trained network with the metric that it is judged by.

    Up to three stages, each judged on validation rows and kept unless they speak against it:

    1. ``decision``: logits are calibrated and shifted to the class frequencies that count,
       :math:`+\log \pi' - \log \pi`, and the decision that the metric wants is tuned for them;
    2. ``head``: the last linear layer alone is trained by the metric, on features computed once, from that decision;
    3. ``network``: the whole network is trained by the metric, and its head once more.

    Parameters
    ----------
    model : Module
        Trained, and ending in a linear layer (or a convolution of one pixel) whose output it returns: logits. It is
        not changed, unless ``inplace``.
    train_loader, valid_loader : DataLoader or iterable
        Repeatable. Batches are ``(inputs, targets)``, ``(inputs, targets, sample_weight)``, mappings with ``labels``
        (the model is called with the rest as keyword arguments), or objects with ``y``. Targets: class indices
        ``(N,)`` or ``(N, ...)``, zeros and ones for a single logit, or ``(N, L)`` indicators of labels.
    metric : str, Metric or callable, default="f1_macro"
        What the network is judged by.
    prior : None, "balanced" or array-like, default=None
        The class frequencies that it is judged by: None: those of the training rows; ``"balanced"``: all classes alike,
        the usual test of long-tailed learning; or ``(C,)`` numbers that sum to one. Validation rows are weighted to
        them, so a validation set cut from the training data serves for all.
    subject_to : str or sequence of str, optional
        Constraints that the decision keeps, as in :func:`eastward.tune_decision`.
    confidence, abstain_cost, classes
        As in :func:`eastward.tune_decision`.
    stages : sequence of str, default=("decision", "head", "network")
        Which stages are tried.
    refit : bool, default=False
        Train the network stage again, if it is kept, on training and validation rows together. Nothing judges the
        result; the head always learns from both.
    evidence : float, optional
        A stage is kept if its gain on validation rows is more than so many standard errors: 0 asks for a better value,
        1 for a clear gain. None: minus one for the decision, minus two for the head, one for the network, because the
        first two gain on most data sets, by less than a small validation set can show, and the third does not always;
        and none may seem worse than the given network by more than one. A stage that changes no decision is not kept.
    head : str, optional
        Path of the last linear layer, such as ``"classifier.fc"``; by default the layer that makes the logits.
    forward : callable, optional
        ``(model, inputs) -> logits``, for a model that is called in its own way.
    ignore_index : int, default=-100
        Targets with this value do not exist.
    epochs : int, default=12
        Of the network stage.
    learning_rate : float, default=1e-3
        The one that the network was trained with; the network stage takes a fifth of it.
    weight_decay : float, default=1e-4
        Of AdamW in the network stage.
    batch_size : int, optional
        Rows of a stratified batch; by default that of the loader, but at least 256.
    max_rows : int, default=200000
        So many rows (pixels, tokens) of features are kept at most; rare classes stay.
    devices : int, default=1
        Processes that train the network stage together, as in :class:`eastward.EASTClassifier`.
    precision : default="32-true"
        Of Lightning Fabric; ``"bf16-mixed"`` computes in bfloat16.
    fabric : Fabric, optional
        A launched Lightning Fabric of your own, instead of ``devices`` and ``precision``.
    checkpoint : path, optional
        A folder. A killed call, made again, goes on after the last finished epoch, to the same bits.
    inplace : bool, default=False
        Load the result into ``model`` as well.
    verbose : int, default=0
        1 shows a progress bar (log lines outside a terminal).
    random_state : int, default=0
        Seed of everything random; torch's own generator is left as it was.

    Returns
    -------
    Alignment
        ``model``, ``decision`` and ``report``; ``print`` says in words what each stage brought.

    Notes
    -----
    What a stage learns from validation rows, it learns without the fold of the rows that judge it, so that the values
    in the report are held-out values. Batch norm keeps its statistics in the network stage. Ctrl-C ends the current
    stage and returns the best so far.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> generator = torch.Generator().manual_seed(0)
    >>> y = (torch.rand(600, generator=generator) < 0.15).long()
    >>> X = torch.randn(600, 5, generator=generator) + y.unsqueeze(1)
    >>> model = torch.nn.Linear(5, 2)  # as if it were trained
    >>> train, valid = TensorDataset(X[:400], y[:400]), TensorDataset(X[400:], y[400:])
    >>> result = align(model, DataLoader(train, 64), DataLoader(valid, 64), "f1", epochs=2)
    >>> [stage["stage"] for stage in result.report["stages"]][:3]
    ['as given', 'decision', 'head']
    """
    options = dict(locals())
    for name in ("model", "train_loader", "valid_loader", "metric"):
        options.pop(name)
    with torch.random.fork_rng(
        devices=[]
    ):  # a shuffling loader draws numbers when it is looked into
        _check_arguments(model, train_loader, valid_loader, options)
    as_metric(metric)
    count = 1 if fabric is not None else processes_to_start(devices, "auto")
    work = partial(_aligned, model, train_loader, valid_loader, metric, options)
    result: Alignment = work() if count == 1 else in_processes(count, work)
    if inplace:
        _load(model, result)
        result = replace(result, model=model)
    return result


def _load(model: nn.Module, result: Alignment) -> None:
    """Put the weights of the result into the user's model; a bias that was made is made there, too."""
    own = Head(result.report["head"], result.layout)
    own.put(model, own.weights(result.model))
    model.load_state_dict(result.model.state_dict())


def _check_arguments(model: Any, train: Any, valid: Any, options: dict[str, Any]) -> None:
    if not isinstance(model, nn.Module):
        got = _checks.describe(model)
        _checks.fail(CALLER, "model", "a torch.nn.Module", got, error=TypeError)
    check_precision(model)
    check_loader("train_loader", train)
    check_loader("valid_loader", valid)
    for name in options["stages"]:
        _checks.one_of(CALLER, "stages", name, STAGES)
    for name in ("refit", "inplace"):
        _checks.boolean(CALLER, name, options[name])
    for name, least in (("epochs", 1), ("max_rows", 1000), ("random_state", 0)):
        _checks.whole_number(CALLER, name, options[name], at_least=least)
    if options["evidence"] is not None:
        _checks.real(CALLER, "evidence", options["evidence"])
    _checks.positive(CALLER, "learning_rate", options["learning_rate"])


@dataclass(frozen=True)
class Candidate:
    """A network with its head, what it decides for validation rows that it did not learn from, and with which logits.

    ``decision`` is None where the largest logit decides.
    """

    name: str
    network: nn.Module
    head: HeadWeights
    chosen: Tensor
    logits: Tensor
    decision: Any = None


@dataclass
class Work:
    """An alignment on its way: what all stages share, and the best so far."""

    base: nn.Module
    head: Head
    metric: Metric
    judge: Judge
    train: Collected
    valid: HeadRows
    frequencies: Tensor
    target: Tensor
    fabric: Any
    loaders: tuple[Any, Any]
    options: dict[str, Any]
    given: Candidate
    best: Candidate
    start: Decided
    deciding: float
    stages: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def prior(self) -> Tensor | None:
        """Frequencies for the loss; labels have none."""
        return None if self.head.layout.labels else self.target

    def features(self, network: nn.Module, argument: str, loader: Any) -> Collected:
        """One pass over a loader."""
        return _collected(network, self.head, argument, loader, self.fabric, self.options)

    def decided(self, logits: Tensor) -> Tensor:
        """Classes, or indicators of labels, that the logits alone decide for."""
        return (logits > 0).long() if self.head.layout.labels else logits.argmax(1)

    def consider(self, stage: str, candidate: Candidate, seconds: float) -> bool:
        """Judge a stage against the best so far, note it, and keep it unless the validation rows speak against it."""
        found = self.judge.gain(self.best.chosen, candidate.chosen)
        asked = self.options["evidence"]
        first = EVIDENCE_OVER_GIVEN if asked is None else asked
        kept = _passes(found, EVIDENCE[stage] if asked is None else asked) and _passes(
            self.judge.gain(self.given.chosen, candidate.chosen), first
        )
        self.note(candidate.name, found.after, seconds, (found.gain, found.error), kept=kept)
        if kept:
            self.best = candidate
        return kept

    def note(
        self,
        stage: str,
        value: float | None,
        seconds: float,
        gain: tuple[float | None, float | None] = (None, None),
        *,
        kept: bool = True,
    ) -> None:
        """Put a stage into the report."""
        entry = {"stage": stage, "value": value, "gain": gain[0], "error": gain[1]}
        self.stages.append({**entry, "kept": kept, "seconds": seconds})


def _passes(found: Gain, hurdle: float) -> bool:
    """Whether a gain is more than so many standard errors; decisions that are all equal gain nothing."""
    return found.gain > hurdle * found.error


def _aligned(
    model: nn.Module, train: Any, valid: Any, metric: Any, options: dict[str, Any]
) -> Alignment:
    """All of it, in this process."""
    fabric = options["fabric"] or _fabric_of(model, options)
    cuda = [fabric.device] if fabric.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(options["random_state"])
        work = _prepared(model, train, valid, metric, fabric, options)
        try:
            for stage in ("decision", "head", "network"):
                if stage in options["stages"]:
                    _STAGE[stage](work)
        except KeyboardInterrupt:
            work.notes.append("Stopped by hand; the best so far is kept")
        return _concluded(work)


def _fabric_of(model: nn.Module, options: dict[str, Any]) -> Any:
    """Where the model is."""
    device = next((value.device for value in model.parameters()), torch.device("cpu"))
    devices: Any = options["devices"]
    if device.type != "cpu" and devices == 1:
        devices = [device.index or 0]
    return make_fabric(
        {
            "accelerator": device.type,
            "devices": devices,
            "strategy": "auto",
            "precision": options["precision"],
        }
    )


def _collected(
    network: nn.Module, head: Head, argument: str, loader: Any, fabric: Any, options: dict[str, Any]
) -> Collected:
    return collect_rows(
        network,
        head,
        in_order(loader),
        argument=argument,
        fabric=fabric,
        forward=options["forward"],
        ignore_index=options["ignore_index"],
        max_rows=options["max_rows"],
        generator=torch.Generator().manual_seed(options["random_state"]),
    )


def _prepared(
    model: nn.Module, train: Any, valid: Any, metric: Any, fabric: Any, options: dict[str, Any]
) -> Work:
    """Everything that the stages share: the head, features of all rows, frequencies, the judge, and the start."""
    base = copy.deepcopy(model).to(fabric.device).eval()
    first = as_batch(next(iter(train)))
    first = first._replace(inputs=fabric.to_device(first.inputs))
    head = find_head(base, first, options["head"], options["forward"])
    size, labels = head.layout.size, head.layout.labels
    found = as_metric(metric) if labels else checked_metric(CALLER, metric, size)
    _check_labels(labels, options)
    began = time.perf_counter()
    seen = _collected(base, head, "train_loader", train, fabric, options)
    held = _collected(base, head, "valid_loader", valid, fabric, options).rows
    reading = time.perf_counter() - began
    mass = seen.rows.class_mass(size)
    frequencies = mass / mass.sum().clamp_min(1e-300)
    target = frequencies if labels else target_prior(options["prior"], frequencies)
    judged = held if labels else replace(held, weight=_judged(held, target))
    seed = options["random_state"]
    judge = Judge.of(judged, found, size, grouped=head.layout.dense, seed=seed)
    weights = head.weights(base)
    logits = weights.logits(held.features)
    given = (logits > 0).long() if labels else logits.argmax(1)
    best = Candidate("as given", base, weights, given, logits)
    shown = None if labels else sampled_mass(train, seen.targets, size)
    began = time.perf_counter()
    start = _start(weights, judge, frequencies if shown is None else shown, target, options)
    deciding = time.perf_counter() - began
    parts = (head, found, judge, seen, held, frequencies, target, fabric, (train, valid), options)
    work = Work(base, *parts, best, best, start, deciding)
    work.note("as given", judge.gain(given, given).after, reading)
    _note_frequencies(work, held)
    return work


def _check_labels(labels: bool, options: dict[str, Any]) -> None:
    if not labels:
        return
    for name in ("prior", "subject_to", "abstain_cost"):
        if options[name] is not None:
            expected = "None for labels that do not exclude each other"
            _checks.fail(CALLER, name, expected, _checks.describe(options[name]))


def _judged(held: HeadRows, target: Tensor) -> Tensor:
    missing = torch.nonzero((target > 0) & (held.class_mass(len(target)) <= 0)).flatten().tolist()
    if missing:
        got = f"no row of {'class' if len(missing) == 1 else 'classes'} {missing[:10]}"
        advice = "Cut it from the training data by class (stratified), so that each has a row."
        _checks.fail(CALLER, "valid_loader", "a loader with every class of training", got, advice)
    return judged_weight(held, target)


def _start(
    weights: HeadWeights, judge: Judge, believed: Tensor, target: Tensor, options: dict[str, Any]
) -> Decided:
    """The decision on validation rows, from which all training starts."""
    if judge.rows.targets.dim() > 1:
        return decide_labels(weights, judge)
    return decide_classes(weights, judge, believed, target, options["classes"])


def _note_frequencies(work: Work, held: HeadRows) -> None:
    """Say so, where validation rows have other frequencies than training rows and nobody said which count."""
    if work.head.layout.labels or work.options["prior"] is not None:
        return
    mass = held.class_mass(work.judge.size)
    distance = float((mass / mass.sum() - work.frequencies).abs().sum() / 2)
    if distance > FAR_FROM_TRAINING + 0.5 * (work.judge.size / len(held)) ** 0.5:
        work.notes.append(
            "Validation rows have other class frequencies than training rows and are weighted to those; "
            "pass prior= the frequencies that the network is judged by"
        )


def _decision_stage(work: Work) -> None:
    start, held = work.start, work.valid
    logits = start.head.logits(held.features)
    labels = work.head.layout.labels
    # Thresholds of labels go into the bias, so that a logit above zero is the decision.
    head = start.head.changed(1.0, start.offsets) if labels else start.head
    decision = None if labels else start.decision
    candidate = Candidate("decision", work.base, head, start.chosen, logits, decision)
    work.consider("decision", candidate, work.deciding)


def _head_stage(work: Work) -> None:
    started = time.perf_counter()
    begin = [work.start.head.changed(1.0, shift) for shift in work.start.by_fold]
    begin.append(work.start.head.changed(1.0, work.start.offsets))
    candidate = _head_candidate(work, "head", work.base, begin, work.train.rows, work.valid)
    work.consider("head", candidate, time.perf_counter() - started)


def _head_candidate(
    work: Work,
    name: str,
    network: nn.Module,
    starts: list[HeadWeights],
    train: HeadRows,
    valid: HeadRows,
) -> Candidate:
    """A head for all rows, and for each fold one that did without it, which decides it."""
    folds, room = work.judge.folds, NUMBERS_AT_ONCE // (len(starts) * work.judge.size)
    generator = torch.Generator().manual_seed(work.judge.seed)
    # Rows that are left out of a large set are found again by their group, which is not used here.
    own = replace(valid, groups=torch.arange(len(valid)))
    own = thinned(own, work.judge.size, max(1, room // 2), generator)
    train = thinned(train, work.judge.size, max(1, room - len(own)), generator)
    rows = concatenated(train, own)
    used = torch.ones(len(starts), len(rows), dtype=torch.bool)
    for fold in range(len(starts) - 1):
        used[fold, len(train) :] = folds[own.groups] != fold
    heads = aligned_heads(starts, rows, used, work.metric, work.prior, HeadOptions())
    logits = _by_fold(heads[:-1], valid.features, folds)
    return Candidate(name, network, heads[-1], work.decided(logits), logits)


def _by_fold(heads: Sequence[HeadWeights], features: Tensor, folds: Tensor) -> Tensor:
    """Logits of each row by the head of its fold."""
    logits = heads[0].logits(features)
    for fold, head in enumerate(heads[1:], start=1):
        logits[folds == fold] = head.logits(features[folds == fold])
    return logits


def _network_stage(work: Work) -> None:
    started = time.perf_counter()
    if not _can_learn(work):
        return
    network = copy.deepcopy(work.base)
    work.head.put(network, work.start.head.changed(1.0, work.start.offsets))
    finished = _train(work, network, work.loaders[0], work.train.targets, "network")
    valid = work.features(network, "valid_loader", work.loaders[1]).rows
    own = work.head.weights(network)
    # What the start took from a fold is taken back where the fold judges.
    shifted = [own.changed(1.0, shift - work.start.offsets) for shift in work.start.by_fold]
    logits = _by_fold(shifted, valid.features, work.judge.folds)
    candidate = Candidate("network", network, own, work.decided(logits), logits)
    kept = work.consider("network", candidate, time.perf_counter() - started)
    if not finished:
        raise KeyboardInterrupt
    if kept and "head" in work.options["stages"]:
        started = time.perf_counter()
        train = work.features(network, "train_loader", work.loaders[0]).rows
        again = _head_candidate(work, "network, head again", network, [*shifted, own], train, valid)
        work.consider("head", again, time.perf_counter() - started)
    if work.options["refit"] and work.best.network is network:
        _refit(work)


def _can_learn(work: Work) -> bool:
    """Whether anything but the head is free to learn."""
    layer = work.base.get_submodule(work.head.name)
    own = {id(value) for value in layer.parameters()}
    if any(value.requires_grad and id(value) not in own for value in work.base.parameters()):
        return True
    work.notes.append("Every parameter but the head's is frozen: the network stage is left out")
    return False


def _train(work: Work, network: nn.Module, loader: Any, targets: Tensor, name: str) -> bool:
    """Train a network by the metric; False if it was stopped by hand."""
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
    """A digest of all that decides how training goes."""
    chosen = (
        name,
        settings,
        work.metric.name,
        dict(work.metric.options),
        work.options["random_state"],
    )
    state = work.base.state_dict().values()
    tensors = (work.target, work.train.targets, work.valid.targets, work.start.offsets)
    return fingerprint(chosen, *tensors, *state)


def _refit(work: Work) -> None:
    """The network stage once more, with the validation rows; nothing is left to judge it."""
    started = time.perf_counter()
    network = copy.deepcopy(work.base)
    work.head.put(network, work.start.head.changed(1.0, work.start.offsets))
    both = joined_loaders(*work.loaders)
    everything = work.features(network, "train_loader", both)
    _train(work, network, both, everything.targets, "refit")
    head = work.head.weights(network)
    if work.best.name != "network":
        rows = work.features(network, "train_loader", both).rows
        used = torch.ones(1, len(rows), dtype=torch.bool)
        (head,) = aligned_heads([head], rows, used, work.metric, work.prior, HeadOptions())
    work.best = replace(work.best, name="refit", network=network, head=head)
    work.note("refit", None, time.perf_counter() - started)


_STAGE = {"decision": _decision_stage, "head": _head_stage, "network": _network_stage}


def _concluded(work: Work) -> Alignment:
    """The best candidate as a network of its own, with its decision."""
    best, options = work.best, work.options
    model = copy.deepcopy(best.network).eval()
    work.head.put(model, best.head)
    decision = best.decision or plain_decision(work.judge, options["classes"], work.target)
    if options["subject_to"] is not None or options["abstain_cost"] is not None:
        decision = constrained_decision(
            best.logits,
            work.judge,
            options["classes"],
            subject_to=options["subject_to"],
            confidence=options["confidence"],
            abstain_cost=options["abstain_cost"],
        )
    report = {
        "metric": work.metric.name,
        "judged": _judged_words(work),
        "prior": work.target.tolist(),
        "believed": work.start.believed,
        "head": work.head.name,
        "train_rows": len(work.train.rows),
        "valid_rows": len(work.valid),
        "kept": best.name,
        "stages": work.stages,
        "notes": work.notes,
    }
    return Alignment(model, decision, report, work.head.layout)


def _judged_words(work: Work) -> str:
    prior = work.options["prior"]
    if work.head.layout.labels:
        return "label by label"
    if prior is None:
        return "by the class frequencies of training"
    return "by equal class frequencies" if isinstance(prior, str) else "by the given frequencies"
