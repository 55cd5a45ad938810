"""Turn options of the command line about networks into parameters of the classifier."""

from __future__ import annotations

import sys
from typing import Any

from eastward._names import METHODS, RECIPES
from eastward.cli.output import wants_json

__all__ = ["check_method", "network_options", "training_options", "with_prior"]

# Wider layers do not fit into memory, and torch's error would not be helpful.
WIDEST_LAYER = 100_000


def training_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of networks from the options of `eastward train`."""
    from eastward import _messages

    if given["recipe"] is not None:
        _messages.one_of("train", "--recipe", given["recipe"], RECIPES)
    folds, devices = given["folds"], given["devices"]
    parameters = network_options(given["hidden"], given["epochs"]) | {
        "recipe": given["recipe"],
        "n_folds": None if folds is None else fold_count(folds),
        "prior": given["prior"],
        "devices": None if devices == 1 else devices,
        "verbose": _shown(given["verbose"]),
    }
    return {name: value for name, value in parameters.items() if value is not None}


def network_options(
    hidden: str | None, epochs: int | None, *, command: str = "train"
) -> dict[str, Any]:
    """Return the given parameters of networks; the others keep the defaults of their method."""
    widths = {} if hidden is None else {"hidden": layer_widths(hidden, command)}
    return widths | ({} if epochs is None else {"max_epochs": epochs})


def layer_widths(text: str, command: str = "train") -> tuple[int, ...]:
    """Parse widths of layers such as "512,256,128"."""
    from eastward import _messages

    words = [word for word in text.replace("x", ",").split(",") if word.strip()]
    if not words or not all(word.strip().isdigit() for word in words):
        _messages.fail(command, "--hidden", "widths such as 512,256,128", repr(text))
    if not all(0 < int(word) <= WIDEST_LAYER for word in words):
        expected = f"widths from 1 to {WIDEST_LAYER:,}"
        _messages.fail(command, "--hidden", expected, repr(text))
    return tuple(int(word) for word in words)


def with_prior(parameters: dict[str, Any], classes: Any) -> dict[str, Any]:
    """Return the parameters with class frequencies as numbers in the order of the classes."""
    if parameters.get("prior") in (None, "balanced"):
        return parameters
    from eastward.cli.predict import prior_of
    from eastward.data import label_names

    names = label_names(classes)
    found = prior_of(parameters["prior"], names, caller="train", word="balanced")
    return {**parameters, "prior": found}


def fold_count(text: str) -> int | str:
    """Parse a number of folds, or "auto"."""
    from eastward import _messages

    if text == "auto":
        return text
    if not text.isdigit() or int(text) < 1:
        _messages.fail("train", "--folds", "auto or a number", repr(text))
    return int(text)


def check_method(method: str, parameters: dict[str, Any]) -> str:
    """Return the method's name in `compare`, or "auto"; options of a network select a network."""
    from eastward import _messages

    named = {"network": "eastward"}.get(method, method)
    own = {"recipe": "--recipe", "n_folds": "--folds", "prior": "--prior", "devices": "--devices"}
    given = [option for name, option in own.items() if name in parameters]
    if named in ("auto", "eastward"):
        return "eastward" if given else named
    if named not in ("ensemble", "boosting"):
        _messages.one_of("train", "--method", named, ("auto", "network", *METHODS))
    if given:
        advice = "It is an option of networks: leave it out, or use --method network."
        _messages.fail("train", given[0], f"left out for {method}", "a value", advice)
    return named


def _shown(verbose: bool | None) -> int:
    """Return the classifier's verbosity: 1 shows a bar in a terminal; lines also need a handler."""
    if verbose:
        import logging

        lines = logging.StreamHandler(sys.stderr)
        logger = logging.getLogger("eastward")
        logger.setLevel(logging.INFO)
        logger.handlers = [lines]
    return int(verbose is not False and not wants_json())
