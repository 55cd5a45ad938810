"""Check the options of ``align`` before it reads rows and trains anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward import _checks
from eastward.alignment.added_head import ADDED
from eastward.alignment.batches import CALLER
from eastward.alignment.stages import STAGES
from eastward.constraints import parse_constraints

__all__ = ["check_classes", "check_names", "check_options"]


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options that need neither the network nor its data."""
    _check_sequences(options["stages"], options["classes"])
    _check_numbers(options)
    if options["checkpoint"] is not None:
        folder = _checks.path(CALLER, "checkpoint", options["checkpoint"])
        if folder.exists() and not folder.is_dir():
            _checks.fail(CALLER, "checkpoint", "a folder", f"the file {folder.name}")
    objects = (
        ("head", (str, type(None)), "the path of a layer, 'added', or None"),
        ("verbose", (int, np.integer, np.bool_), "True, False or a number"),
    )
    for name, kinds, expected in objects:
        if not isinstance(options[name], kinds):
            got = _checks.describe(options[name])
            _checks.fail(CALLER, name, expected, got, error=TypeError)
    if options["forward"] is not None and not callable(options["forward"]):
        got = _checks.describe(options["forward"])
        _checks.fail(CALLER, "forward", "a function of model and inputs", got, error=TypeError)
    if options["fabric"] is not None and not hasattr(options["fabric"], "to_device"):
        got = _checks.describe(options["fabric"])
        _checks.fail(CALLER, "fabric", "a Lightning Fabric, or None", got, error=TypeError)
    if options["head"] == ADDED:
        _check_added(options)


def check_names(size: int, labels: bool, options: Mapping[str, Any]) -> None:
    """Check the names of classes and the constraints on them, once the number of outputs is known."""
    names = options["classes"]
    if names is not None and len(tuple(names)) != size:
        got = f"{len(tuple(names))} names for {size} outputs"
        _checks.fail(CALLER, "classes", "one name for each output of the network", got)
    if not labels:
        parse_constraints(CALLER, options["subject_to"], size, names)


def check_classes(labels: bool, mass: Tensor) -> None:
    """Check that there are training rows of two classes, given the mass ``(C,)`` of each."""
    present = torch.nonzero(mass > 0).flatten().tolist()
    if not labels and len(present) < 2:
        expected = "a loader with rows of at least two classes"
        _checks.fail(CALLER, "train_loader", expected, f"rows of classes {present} alone")


def _check_sequences(stages: Any, classes: Any) -> None:
    if isinstance(stages, str) or not isinstance(stages, Iterable):
        expected = f"a sequence of {', '.join(repr(name) for name in STAGES)}"
        _checks.fail(CALLER, "stages", expected, _checks.describe(stages), error=TypeError)
    for name in stages:
        _checks.one_of(CALLER, "stages", name, STAGES)
    if classes is not None and (isinstance(classes, str) or not isinstance(classes, Iterable)):
        got = _checks.describe(classes)
        _checks.fail(CALLER, "classes", "one name for each class", got, error=TypeError)


def _check_numbers(options: Mapping[str, Any]) -> None:
    devices = options["devices"]
    _checks.whole_number(CALLER, "devices", devices, at_least=1, at_most=_checks.MOST_JOBS)
    _checks.seed(CALLER, options["random_state"])
    _checks.ignore_index(CALLER, options["ignore_index"])
    _checks.not_negative(CALLER, "weight_decay", options["weight_decay"])
    _checks.in_unit_interval(CALLER, "confidence", options["confidence"])
    if options["batch_size"] is not None:
        _checks.whole_number(CALLER, "batch_size", options["batch_size"], at_least=1)
    if options["abstain_cost"] is not None:
        _checks.not_negative(CALLER, "abstain_cost", options["abstain_cost"])


def _check_added(options: Mapping[str, Any]) -> None:
    """Refuse options that do not work with an added layer, which is not part of the user's model."""
    advice = "Use result.model, which has the layer."
    if options["inplace"]:
        _checks.fail(CALLER, "inplace", f"False with head={ADDED!r}", True, advice)
    if options["forward"] is not None:
        advice = "Wrap the model in a module whose forward takes the inputs and returns logits."
        _checks.fail(CALLER, "forward", f"None with head={ADDED!r}", "a function", advice)
