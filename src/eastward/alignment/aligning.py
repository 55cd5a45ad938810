"""`align`: adapt a trained network to a metric, in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward._random_numbers import seeded
from eastward.alignment.added_head import ADDED, with_added_head
from eastward.alignment.arguments import check_classes, check_names, check_options
from eastward.alignment.batches import (
    CALLER,
    Forward,
    as_batch,
    check_loader,
    of_drawn_rows,
    sampled_mass,
)
from eastward.alignment.decision_stage import (
    Decided,
    constrained_decision,
    decide_classes,
    decide_labels,
    plain_decision,
)
from eastward.alignment.evidence import Judge
from eastward.alignment.heads import Head, HeadWeights, check_precision, find_head
from eastward.alignment.placing import check_strategy, fabric_of, placed, unwrapped
from eastward.alignment.priors import judged_weight, target_prior
from eastward.alignment.result import Alignment
from eastward.alignment.rows import HeadRows
from eastward.alignment.sharding import gathered, settle, weights_of
from eastward.alignment.stages import STAGES, run_stage
from eastward.alignment.work import Candidate, Work, collected
from eastward.decisions.deciding import checked_metric
from eastward.metrics import Metric, as_metric
from eastward.training.launch import in_processes, processes_to_start

__all__ = ["align"]

# If validation and training frequencies differ by more than this, the report says so.
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
    evidence: float = 0.0,
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
    r"""Align a trained network with the metric that judges it.

    There are up to three stages. Each is kept only if validation rows prefer it:

    1. ``decision``: the logits are calibrated and shifted to the class frequencies that count,
       :math:`+\log \pi' - \log \pi`. Then the best decision for the metric is tuned on validation rows.
    2. ``head``: starting from that decision, only the last linear layer is trained for the metric. Its features are
       computed once.
    3. ``network``: the whole network is trained for the metric, and then its head again.

    Parameters
    ----------
    model : Module
        A trained network that ends in a linear layer (or a 1 × 1 convolution) and returns its output, the logits. It
        is not changed, unless ``inplace``.
    train_loader, valid_loader : DataLoader or iterable
        Loaders that can be iterated repeatedly. They may share a data set, if their samplers draw different rows. A
        batch is a tuple ``(inputs, targets)`` or
        ``(inputs, targets, sample_weight)``, a mapping with ``labels``, or an object with ``y``. The other entries of a
        mapping are keyword arguments of the model. Targets are class indices ``(N,)`` or ``(N, ...)``, zeros and ones
        for a single logit, or ``(N, L)`` indicators of labels.
    metric : str, Metric or callable, default="f1_macro"
        The metric that judges the network.
    prior : None, "balanced" or array-like, default=None
        The class frequencies that count. None means those of the training rows, and ``"balanced"`` equal ones, the
        usual test of long-tailed learning. Other frequencies are ``(C,)`` numbers that sum to one. Validation rows are
        weighted to these frequencies, so a validation set taken from the training data works in all cases.
    subject_to : str or sequence of str, optional
        Constraints on the decision, such as ``"recall[fraud] >= 0.9"``; see :func:`eastward.tune_decision`. If the
        validation rows cannot prove them, the decision comes closest to it, with a warning and a note in the report.
    confidence : float, default=0.95
        Confidence at which each constraint must hold.
    abstain_cost : float, optional
        The cost, in units of the metric, of leaving a row undecided. By default, every row is decided.
    classes : sequence, optional
        Names of the classes in the order of the outputs, for ``subject_to`` and for printing.
    stages : sequence of str, default=("decision", "head", "network")
        The stages to try.
    refit : bool, default=False
        If the network stage is kept, train it again on training and validation rows together. Then no rows are left to
        judge the result. The head always learns from both.
    evidence : float, default=0
        Keep a stage if its gain on validation rows exceeds this many standard errors. With 0, any gain is enough; 1
        requires a clear gain. The head and the network are judged by the metric of soft decisions, where rows near the
        boundary count in part. Hard counts of a few hundred rows cannot tell two networks apart.
    head : str, optional
        Path of the last linear layer, such as ``"classifier.fc"``. By default, it is the layer that outputs the logits.
        ``"added"`` puts a linear layer after the logits of a network that does not end in one, for example because its
        weights are normalised. ``result.model`` is then the network with that layer.
    forward : callable, optional
        A function ``(model, inputs) -> logits``, for a model that cannot be called as ``model(inputs)``.
    ignore_index : int, default=-100
        Targets with this value are left out.
    epochs : int, default=12
        Number of epochs in the network stage.
    learning_rate : float, default=1e-3
        The learning rate with which the network was trained; the network stage uses a fifth of it.
    weight_decay : float, default=1e-4
        Weight decay of AdamW in the network stage.
    batch_size : int, optional
        Number of rows in a stratified batch. By default, it is the batch size of the loader, but at least 256.
    max_rows : int, default=200000
        Keep the features of at most about this many rows (or pixels, or tokens). Rows of rare classes are kept first.
    devices : int, default=1
        Number of processes that train the network stage together, as in :class:`eastward.EASTClassifier`.
    precision : default="32-true"
        Precision of Lightning Fabric; ``"bf16-mixed"`` computes in bfloat16.
    fabric : Fabric, optional
        Your own launched Lightning Fabric, instead of ``devices`` and ``precision``. It can have one device, DDP, or
        ``ModelParallelStrategy`` with a function that calls ``fully_shard`` (FSDP 2).
    checkpoint : path, optional
        Folder for checkpoints. If a call is killed, repeat it: it continues after the last finished epoch and ends with
        identical weights. A checkpoint of another network, other labels or settings is refused; other inputs with equal
        labels are not noticed.
    inplace : bool, default=False
        Load the result into ``model`` as well. A model that is already sharded cannot be copied, so it needs True.
    verbose : int, default=0
        1 shows a progress bar in a terminal, and log lines elsewhere.
    random_state : int, default=0
        Seed of everything random; torch's own generator stays unchanged.

    Returns
    -------
    Alignment
        The aligned ``model``, its ``decision`` and a ``report``; ``print`` shows what each stage gained.

    Notes
    -----
    When a stage learns from validation rows, it leaves out the fold that judges it, so the report shows held-out
    values. Batch norm keeps its statistics in the network stage. Ctrl-C during the stages returns the best result so
    far; before them, while rows are read and the decision is tuned, there is no result yet, and it stops the call.

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
    with seeded():  # iterating over a shuffling loader draws random numbers
        _check_arguments(model, train_loader, valid_loader, options)
        loaders = of_drawn_rows(train_loader), of_drawn_rows(valid_loader)
    as_metric(metric, CALLER, classes)
    model = unwrapped(model)
    count = 1 if fabric is not None else processes_to_start(devices, "auto")
    work = partial(_aligned, model, *loaders, metric, options)
    alone = count == 1
    result: Alignment = work() if alone else in_processes(count, work, caller=CALLER)
    if inplace and result.model is not model:
        _load(model, result)
        result = replace(result, model=model)
    return result


def _load(model: nn.Module, result: Alignment) -> None:
    """Load the weights of the result into the user's model, and add a bias if the result has a new one."""
    own = Head(result.report["head"], result.layout)
    own.put(model, own.weights(result.model))
    settle(result.model)
    model.load_state_dict(gathered(result.model.state_dict()))


def _check_arguments(model: Any, train: Any, valid: Any, options: dict[str, Any]) -> None:
    if not isinstance(model, nn.Module):
        got = _checks.describe(model)
        _checks.fail(CALLER, "model", "a torch.nn.Module", got, error=TypeError)
    check_precision(model)
    check_loader("train_loader", train)
    check_loader("valid_loader", valid)
    check_options(options)
    for name in ("refit", "inplace"):
        _checks.boolean(CALLER, name, options[name])
    for name, least in (("epochs", 1), ("max_rows", 1000)):
        _checks.whole_number(CALLER, name, options[name], at_least=least)
    _checks.real(CALLER, "evidence", options["evidence"])
    _checks.positive(CALLER, "learning_rate", options["learning_rate"])
    check_strategy(options["fabric"])


def _aligned(
    model: nn.Module, train: Any, valid: Any, metric: Any, options: dict[str, Any]
) -> Alignment:
    """Run the whole alignment in this process."""
    fabric = options["fabric"] or fabric_of(model, options)
    cuda = [fabric.device] if fabric.device.type == "cuda" else []
    with seeded(options["random_state"], cuda=cuda):
        work = _prepared(model, train, valid, metric, fabric, options)
        try:
            for stage in STAGES:
                if stage in options["stages"]:
                    run_stage(work, stage)
        except KeyboardInterrupt:
            work.notes.append("Stopped by hand; the best result so far is kept")
        return _concluded(work)


def _prepared(
    model: nn.Module, train: Any, valid: Any, metric: Any, fabric: Any, options: dict[str, Any]
) -> Work:
    """Prepare what the stages share: the head, the features of all rows, frequencies, judge and start."""
    base = placed(model, fabric, options)
    first = as_batch(next(iter(train)))
    first = first._replace(inputs=fabric.to_device(first.inputs))
    name = options["head"]
    if name == ADDED:
        base, name = with_added_head(base, first), "head"
    head = find_head(base, first, name, options["forward"])
    size, labels = head.layout.size, head.layout.labels
    names = options["classes"]
    check_names(size, labels, options)
    found = (
        as_metric(metric, CALLER, names) if labels else checked_metric(CALLER, metric, size, names)
    )
    _check_labels(labels, options)
    began = time.perf_counter()
    seen = collected(base, head, "train_loader", train, fabric, options)
    held = collected(base, head, "valid_loader", valid, fabric, options).rows
    reading = time.perf_counter() - began
    mass = seen.rows.class_mass(size)
    check_classes(labels, mass)
    frequencies = mass / mass.sum().clamp_min(1e-300)
    target = frequencies if labels else target_prior(options["prior"], frequencies)
    judged = held if labels else replace(held, weight=_judged(held, target))
    seed = options["random_state"]
    judge = Judge.of(judged, found, size, grouped=head.layout.dense, seed=seed)
    weights = head.weights(base)
    head.put(base, weights)  # adds a missing bias
    logits = weights.logits(held.features)
    given = (logits > 0).long() if labels else logits.argmax(1)
    best = Candidate("as given", weights_of(base), weights, given, logits, logits)
    shown = None if labels else sampled_mass(train, seen.targets, size)
    began = time.perf_counter()
    start = _start(weights, judge, frequencies if shown is None else shown, target, options)
    deciding = time.perf_counter() - began
    parts = (head, found, judge, seen, held, frequencies, target, fabric, (train, valid), options)
    work = Work(base, *parts, best, best, start, deciding)
    work.note("as given", judge.value(given), reading)
    _note_frequencies(work, held)
    _note_labels(work)
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
        advice = (
            "Split it from the training data with stratification, so that every class has a row."
        )
        _checks.fail(CALLER, "valid_loader", "a loader with every class of training", got, advice)
    return judged_weight(held, target)


def _start(
    weights: HeadWeights, judge: Judge, believed: Tensor, target: Tensor, options: dict[str, Any]
) -> Decided:
    """Tune the decision on validation rows; all training starts from it."""
    if judge.rows.targets.dim() > 1:
        return decide_labels(weights, judge)
    return decide_classes(weights, judge, believed, target, options["classes"])


def _note_frequencies(work: Work, held: HeadRows) -> None:
    """Add a note if ``prior`` is None and the class frequencies of validation and training rows differ."""
    if work.head.layout.labels or work.options["prior"] is not None:
        return
    mass = held.class_mass(work.judge.size)
    distance = float((mass / mass.sum() - work.frequencies).abs().sum() / 2)
    if distance > FAR_FROM_TRAINING + 0.5 * (work.judge.size / len(held)) ** 0.5:
        work.notes.append(
            "Validation and training rows have different class frequencies, so validation rows are weighted to those "
            "of training; if the network is judged by other frequencies, pass them as prior="
        )


def _note_labels(work: Work) -> None:
    """Add a note if labels that do not exclude each other look like one-hot classes, or a class never counts."""
    targets = work.train.rows.targets
    if targets.dim() > 1:
        if targets.shape[1] > 2 and bool(((targets == 1).sum(1) == 1).all()):
            work.notes.append(
                "Every training row has exactly one label; if classes exclude each other, pass targets.argmax(1)"
            )
        return
    held = work.valid.class_mass(work.judge.size)
    never = torch.nonzero((work.target <= 0) & (held > 0)).flatten().tolist()
    if never:
        work.notes.append(
            f"Validation rows of classes {never} do not count, because their frequency is zero"
        )


def _concluded(work: Work) -> Alignment:
    """Return the best candidate as a separate network, with its decision."""
    best, options = work.best, work.options
    model = work.base.eval()
    model.load_state_dict(best.weights)
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
        work.notes += [
            f"Not proven on validation rows: {one.constraint.text}; the decision comes closest to it"
            for one in decision.constraints
            if not one.holds
        ]
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
