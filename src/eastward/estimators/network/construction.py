"""Build the parts of training from the parameters of EASTClassifier."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import validate_data
from torch import Tensor, nn

from eastward import _checks
from eastward.estimators.frames import Encoder, checked_table, refuse_infinity
from eastward.estimators.network.scaling import Scaler
from eastward.training import RECIPES, SeparateMembers, SoloMember, StackedMLP
from eastward.training.batches import take
from eastward.training.members import Members

if TYPE_CHECKING:
    from eastward.estimators.network.classifier import EASTClassifier

# Above this many rows, one validation split is as informative as five folds, at a fifth of the cost.
ROWS_FOR_FOLDS = 50_000
# Pieces of each feature, the most rows for which they are worth their cost, and the most pieces in total.
BINS, ROWS_FOR_PIECES, LARGEST_WIDTH = 8, 5_000, 2_000
# With five rows of a class in a batch, the gradient of F1 is practically unbiased; with one it points elsewhere
# (results/batch_size).
ROWS_OF_EACH_CLASS, LARGEST_STEP = 8, 65_536
# The most columns that become inputs of the network.
MOST_BINS = 1024


def check_parameters(model: EASTClassifier) -> None:
    """Check the constructor's parameters before anything is trained."""
    caller = "EASTClassifier"
    _checks.one_of(caller, "recipe", model.recipe, tuple(RECIPES))
    _check_counts(caller, model)
    _check_objects(caller, model)
    if _checks.real(caller, "learning_rate", model.learning_rate) <= 0:
        _checks.fail(caller, "learning_rate", "positive", model.learning_rate)
    if not 0 <= _checks.real(caller, "dropout", model.dropout) < 1:
        _checks.fail(caller, "dropout", "in [0, 1)", model.dropout)
    _checks.in_unit_interval(caller, "validation_fraction", model.validation_fraction)
    _checks.in_unit_interval(caller, "cooling_rate", model.cooling_rate)
    _checks.temperature(caller, model.temperature)
    _check_accumulation(caller, model)
    _check_flags(caller, model)
    _check_refit(caller, model)
    _check_widths(caller, model.hidden)


def _check_counts(caller: str, model: EASTClassifier) -> None:
    for name in ("max_epochs", "patience", "max_cold_steps"):
        _checks.whole_number(caller, name, getattr(model, name), at_least=1)
    for name in ("n_folds", "batch_size"):
        value = getattr(model, name)
        if not _is_auto(value) and (not isinstance(value, Integral) or value < 1):
            got = _checks.describe(value) if isinstance(value, str) else value
            error = ValueError if isinstance(value, Real) else TypeError
            _checks.fail(caller, name, "'auto' or at least 1, a whole number", got, error=error)
    if not _is_auto(model.bins):
        _checks.whole_number(caller, "bins", model.bins, at_least=0, at_most=MOST_BINS)


def _check_objects(caller: str, model: EASTClassifier) -> None:
    _check_hooks(caller, "callbacks", model.callbacks, "stage_start", "a sequence of Callback")
    several = isinstance(model.loggers, Sequence) and not isinstance(model.loggers, str)
    loggers = model.loggers if several or model.loggers is None else [model.loggers]
    expected = "a Fabric logger, or a sequence of them"
    _check_hooks(caller, "loggers", loggers, "log_metrics", expected)
    if model.checkpoint is not None:
        _checks.path(caller, "checkpoint", model.checkpoint)
    verbose: object = model.verbose
    if not isinstance(verbose, int | np.integer | np.bool_):
        got = _checks.describe(verbose)
        _checks.fail(caller, "verbose", "True, False or a number", got, error=TypeError)


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"


def _check_hooks(caller: str, argument: str, hooks: Any, method: str, expected: str) -> None:
    """Check that callbacks and loggers have the methods that the loop calls."""
    known = hooks is None or isinstance(hooks, Sequence)
    if not known or not all(callable(getattr(hook, method, None)) for hook in hooks or ()):
        _checks.fail(caller, argument, expected, _checks.describe(hooks), error=TypeError)


def _check_accumulation(caller: str, model: EASTClassifier) -> None:
    if model.accumulate is not None:
        _checks.one_of(caller, "accumulate", model.accumulate, ("exact",), otherwise="None")
    if model.effective_batch is None:
        return
    _checks.whole_number(caller, "effective_batch", model.effective_batch, at_least=1)
    if model.accumulate is None:
        advice = "Add accumulate='exact'."
        _checks.fail(
            caller, "effective_batch", "None without accumulate", model.effective_batch, advice
        )


def _check_flags(caller: str, model: EASTClassifier) -> None:
    """Check that flags are True or False, because any other string would count as True."""
    either = ("auto",)
    flags = {"aligned": (), "refit": (), "tune_decision": either, "standardize": either}
    for name, words in flags.items():
        value = getattr(model, name)
        known = isinstance(value, bool | np.bool_) or (isinstance(value, str) and value in words)
        if not known:
            expected = ", ".join(["True", "False", *map(repr, words)])
            _checks.fail(caller, name, f"one of {expected}", _checks.describe(value))


def _check_refit(caller: str, model: EASTClassifier) -> None:
    """Check the options that ``refit`` needs: one network, its recipe, and a decision tuned before."""
    if not model.refit:
        return
    if model.recipe != "auto" or not model.aligned:
        got = f"recipe={model.recipe!r}, aligned={model.aligned}"
        _checks.fail(caller, "refit", "False without the aligned stage of recipe='auto'", got)
    if model.tune_decision is True:
        advice = "refit=True tunes the decision before it trains on all rows."
        _checks.fail(caller, "tune_decision", "'auto' or False with refit=True", True, advice)


def check_one_network(model: EASTClassifier, folds: int, reason: str = "") -> None:
    """Check that ``refit`` has a network with held-out rows; ``reason`` says why there is none."""
    if not model.refit or (folds == 1 and not reason):
        return
    if reason:
        expected, got = "False where rows to judge by are given or streamed", reason
        advice = "Leave refit alone, or pass all rows as X and y."
    else:
        expected = "False for anything but one network"
        got = f"n_folds={folds}: cross-fitted networks have used all rows"
        advice = "Set n_folds=1, or leave refit alone."
    _checks.fail("EASTClassifier", "refit", expected, got, advice)


def _check_widths(caller: str, hidden: Any) -> None:
    if isinstance(hidden, str | bytes) or not isinstance(hidden, Iterable):
        got = _checks.describe(hidden)
        _checks.fail(caller, "hidden", "a sequence of layer widths", got, error=TypeError)
    for width in hidden:
        _checks.whole_number(caller, "hidden", width, at_least=1)


def stage_options(model: EASTClassifier, count: int, rarest: float | None = None) -> dict[str, Any]:
    """Return the options of the recipes; an automatic batch size grows with the rows.

    ``rarest`` is the share of the rarest class, if batches cannot be stratified.
    """
    sizes = ((512, 32), (3_000, 128), (30_000, 256), (300_000, 1024))
    automatic = next((size for limit, size in sizes if count <= limit), 4096)
    batch_size = automatic if model.batch_size == "auto" else int(model.batch_size)
    return {
        "max_epochs": model.max_epochs,
        "learning_rate": model.learning_rate,
        "batch_size": batch_size,
        "effective_batch": _effective_batch(model, batch_size, rarest),
        "patience": model.patience,
        "aligned": model.aligned,
        "refit": model.refit,
        "temperature": model.temperature,
        "cooling_rate": model.cooling_rate,
        "max_cold_steps": model.max_cold_steps,
    }


def _effective_batch(model: EASTClassifier, batch_size: int, rarest: float | None) -> int | None:
    """Return the rows of one exact step: as given, or enough for the rarest class."""
    if model.accumulate == "exact":
        return int(model.effective_batch or 8 * batch_size)
    if rarest is None or batch_size * rarest >= ROWS_OF_EACH_CLASS:
        return None
    return min(LARGEST_STEP, math.ceil(ROWS_OF_EACH_CLASS / rarest))


def num_bins(model: EASTClassifier, count: int, features: int) -> int:
    """Return the number of pieces of a feature; "auto" cuts features if there are few rows."""
    if model.module is not None:
        return 0
    if model.bins != "auto":
        return int(model.bins)
    return BINS if count <= ROWS_FOR_PIECES and features * BINS <= LARGEST_WIDTH else 0


def num_folds(model: EASTClassifier, count: int) -> int:
    """Return the number of cross-fitted networks, at most as many as the rows allow."""
    if model.n_folds != "auto":
        wanted = int(model.n_folds)
    else:
        tables = model.module is None and model.recipe == "auto" and count <= ROWS_FOR_FOLDS
        wanted = 5 if tables else 1
    return max(1, min(wanted, count // 2))


def fabric_options(model: EASTClassifier) -> dict[str, Any]:
    """Return the options of Lightning Fabric."""
    names = ("accelerator", "devices", "strategy", "precision", "loggers")
    return {name: getattr(model, name) for name in names}


def new_members(model: EASTClassifier, num_inputs: Any, num_outputs: int) -> Members:
    """Make ``n_folds_`` untrained networks, of the default kind or the user's."""
    if model.module is None:
        return StackedMLP(model.n_folds_, [num_inputs, *model.hidden, num_outputs], model.dropout)
    modules = [
        build_module(model.module, model.n_features_in_, num_outputs) for _ in range(model.n_folds_)
    ]
    if len(modules) == 1:
        return SoloMember(modules[0], num_outputs, multilabel=model.multilabel_)
    return SeparateMembers(modules, num_outputs, multilabel=model.multilabel_)


def build_module(module: Any, num_features: Any, num_outputs: int) -> nn.Module:
    """Build the network that ``module`` describes; a module itself is copied, so that fitting does not change it."""
    if isinstance(module, nn.Module):
        return copy.deepcopy(module)
    factory: Callable[..., Any] | None = module if callable(module) else None
    built = None if factory is None else factory(num_features, num_outputs)
    if not isinstance(built, nn.Module):
        expected = "a torch module, or a class or factory (n_features, n_classes) -> module"
        _checks.fail(
            "EASTClassifier", "module", expected, _checks.describe(built or module), error=TypeError
        )
    return built


def as_tensors(X: Any) -> Any:
    """Convert arrays, or a dictionary of them, to tensors; float64 becomes float32."""
    if isinstance(X, dict):
        return {name: as_tensors(value) for name, value in X.items()}
    tensor = X if isinstance(X, Tensor) else torch.as_tensor(np.asarray(X))
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def concatenated(first: Any, second: Any) -> Any:
    """Concatenate the rows of two inputs."""
    if isinstance(first, dict):
        return {name: torch.cat([first[name], second[name]]) for name in first}
    if isinstance(first, np.ndarray):
        return np.concatenate([first, second])
    return torch.cat([first, second])


def checked_features(model: EASTClassifier, X: Any, *, reset: bool) -> Any:
    """Check features: a NumPy table, a frame with text, or tensors for a user's module."""
    if model.module is not None and (isinstance(X, dict) or getattr(X, "ndim", 2) != 2):
        if reset:
            model.n_features_in_ = None if isinstance(X, dict) else X.shape[1]
        return as_tensors(X)
    if model.module is None:
        return checked_table(model, X, reset=reset)
    table = validate_data(model, X, reset=reset, dtype=np.float32, ensure_all_finite=False)
    _refuse_gaps(model, table)
    return table


def fitted_encoder(model: EASTClassifier, features: Any) -> Encoder | None:
    """Fit the encoder of text, dates and gaps; None if there are none, or for a user's module."""
    if model.module is not None:
        return None
    if _is_frame(features) or any(np.isnan(column).any() for column in features.T):
        return Encoder.of(features)
    return None


def encoded(model: EASTClassifier, features: Any, encoder: Encoder | None) -> Any:
    """Encode features as finite numbers for the network."""
    if encoder is not None:
        return encoder.filled(encoder.raw(features))
    if isinstance(features, np.ndarray):
        _refuse_gaps(model, features)
    elif _is_frame(features):
        expected = "made of numbers, as in fit"
        _checks.fail(type(model).__name__, "X", expected, "columns of words or dates")
    return features


def _refuse_gaps(model: EASTClassifier, table: Any) -> None:
    refuse_infinity(table, getattr(model, "feature_names_in_", None), "EASTClassifier", gaps=False)


def taken(features: Any, rows: Tensor) -> Any:
    """Select rows of features of any kind."""
    return features.iloc[rows.numpy()] if _is_frame(features) else take(features, rows)


def _is_frame(features: Any) -> bool:
    return hasattr(features, "iloc")


def network_inputs(features: Any, scaler: Scaler | None) -> Any:
    """Convert features to tensors, scaled if there is a scaler."""
    if isinstance(features, np.ndarray):
        with warnings.catch_warnings():
            # A read-only table is safe, because nothing here writes to its inputs.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            tensor = torch.from_numpy(np.ascontiguousarray(features))
        return tensor if scaler is None else scaler(tensor)
    return features
