r"""The dynamic threshold on a CPU without a compiler: NumPy, whose calls cost half of PyTorch's on small arrays.

The formulas are those of :mod:`eastward.kernels.eager`, with one change: the largest class of a row, and those that
tie with it, are zero in the arrays of :math:`u` and carried by one number for each row, whether or not they have passed
the upper bend. Nothing depends on their place, and nothing cancels.

Arrays are ``(C, n)`` for few classes and ``(n, C)`` for many: NumPy is quick where the last dimension is long. ``axis``
is that of the classes; what belongs to a row keeps its dimensions, so that one formula serves both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

__all__ = ["Bends", "Rows", "bends_of", "gradient_of_rows", "powers_of", "rows_of", "sums_of_rows"]

# Up to so many classes samples lie along the last dimension.
NARROW = 48
# Buffers of the size of a chunk that the functions below write on.
BUFFERS = 6
# Below this the first piece has no width left.
NO_FIRST_PIECE = 1e-6
# From here down the lower bend is measured from the threshold, where float32 is finer.
COLD = 0.05


class Bends(NamedTuple):
    """The step in u: temperature, lower bend, slopes of the first and middle piece, h of a class with u = 0."""

    temperature: float
    low: float
    first: float
    middle: float
    at_zero: float


class Rows(NamedTuple):
    """What is known of a chunk."""

    others: np.ndarray  # u, zero for the largest class and those that tie with it
    is_first: np.ndarray  # 1 for these
    step: np.ndarray  # h
    bent: np.ndarray  # positive where the slope is not that of ``slope``
    places: np.ndarray  # places of the true classes in the flat arrays
    first: np.ndarray  # u of the largest class
    second: np.ndarray  # u of the largest of the others
    ties: np.ndarray
    passed: np.ndarray  # 1 where the largest class has passed the upper bend
    beyond: np.ndarray  # by how much
    last: np.ndarray  # slope of the last piece
    total: np.ndarray  # sum of u
    inverse: np.ndarray  # 1 / sum of h


def bends_of(temperature: float) -> Bends:
    """The constants of the step."""
    low = 1 - 2.5 * temperature
    middle = (1 - 2 * temperature) / (5 * temperature)
    if low < NO_FIRST_PIECE:
        return Bends(temperature, low, middle, middle, 0.5 - middle)
    return Bends(temperature, low, temperature / low, middle, 0.0)


def powers_of(logits: np.ndarray, axis: int, out: np.ndarray) -> np.ndarray:
    """exp(z - largest z) of rows ``(n, C)``, in ``out``."""
    np.copyto(out, logits.T if axis == 0 else logits)
    out -= np.maximum.reduce(out, axis=axis, keepdims=True)
    np.exp(out, out=out)
    return out


def rows_of(
    powers: np.ndarray, labels: np.ndarray, axis: int, bends: Bends, buffers: np.ndarray
) -> Rows:
    """Everything that both passes need; on the first four buffers, and the last for work."""
    is_first, others, step, bent = buffers[:4]
    work = buffers[5]
    heat = bends.temperature
    np.floor(powers, out=is_first)
    ties = _over_classes(is_first, axis)
    np.subtract(powers, is_first, out=others)
    second = np.maximum.reduce(others, axis=axis, keepdims=True)
    runner_up = np.maximum(second, np.minimum(ties - 1, 1))
    first = 2 / (1 + runner_up)
    others *= first
    total = _over_classes(others, axis) + ties * first
    # u - 1 of the largest class, with all its digits.
    gap = (1 - runner_up) * (0.5 * first)
    beyond = gap - 2.5 * heat
    passed = (beyond > 0).astype(np.float32)
    beyond *= passed
    last = heat / np.maximum(total - (1 + 2.5 * heat), 1e-12)
    of_first = 0.5 + bends.middle * gap
    of_first += passed * (1 - heat + beyond * last - of_first)
    _bend(others, bends, step, bent, work)
    np.multiply(is_first, of_first - bends.at_zero, out=work)
    step += work
    inverse = 1 / _over_classes(step, axis)
    size, rows = (len(powers), powers.shape[1]) if axis == 0 else (powers.shape[1], len(powers))
    places = np.arange(rows)
    places = labels * rows + places if axis == 0 else places * size + labels
    return Rows(
        others,
        is_first,
        step,
        bent,
        places,
        first,
        second * first,
        ties,
        passed,
        beyond,
        last,
        total,
        inverse,
    )


def _over_classes(array: np.ndarray, axis: int) -> np.ndarray:
    # Of NumPy's ways to add up rows, einsum is the quickest.
    along_rows = axis == 1
    sums: np.ndarray = (
        np.einsum("nc->n", array)[:, None] if along_rows else array.sum(0, keepdims=True)
    )
    return sums


def _bend(
    others: np.ndarray, bends: Bends, step: np.ndarray, bent: np.ndarray, work: np.ndarray
) -> None:
    """The two lower pieces of the step, written so that only numbers of one sign are added."""
    _, low, first, middle, at_zero = bends
    if first > middle:
        np.minimum(others, np.float32(low), out=bent)
        np.multiply(others, np.float32(middle), out=step)
        np.multiply(bent, np.float32(first - middle), out=work)
        step += work
        np.subtract(np.float32(low), others, out=bent)
        return
    np.multiply(others, np.float32(first), out=step)
    if at_zero:
        step += np.float32(at_zero)
        bent[:] = 0
        return
    if bends.temperature < COLD:
        np.subtract(others, 1, out=bent)
        bent += np.float32(2.5 * bends.temperature)
    else:
        np.subtract(others, np.float32(low), out=bent)
    # NumPy's maximum with a number is four times as slow.
    torch.from_numpy(bent).relu_()
    bent *= np.float32(middle - first)
    step += bent


def sums_of_rows(
    rows: Rows, labels: np.ndarray, weights: np.ndarray | None, axis: int, size: int
) -> np.ndarray:
    """Right, predicted, true ``(3, C)`` of a chunk."""
    share = rows.inverse.reshape(-1) if weights is None else rows.inverse.reshape(-1) * weights
    sums = np.empty((3, size))
    sums[0] = np.bincount(labels, rows.step.take(rows.places) * share, size)
    sums[1] = rows.step @ share if axis == 0 else share @ rows.step
    sums[2] = np.bincount(labels, weights, size)
    return sums


def gradient_of_rows(
    rows: Rows,
    labels: np.ndarray,
    weights: np.ndarray | None,
    axis: int,
    bends: Bends,
    slopes: np.ndarray,
    detached: bool,
    buffers: np.ndarray,
) -> np.ndarray:
    """Gradient in the layout of the rows, given slopes ``(2, C)`` by right and predicted; on the last two buffers."""
    gradient: np.ndarray = buffers[4]
    pull = buffers[5]
    shape = rows.first.shape
    share = rows.inverse if weights is None else rows.inverse * weights.reshape(shape)
    by_predicted, pulled = slopes[1], slopes[0][labels].reshape(shape)
    at_label = rows.step.take(rows.places).reshape(shape)
    mean = _by_classes(by_predicted, rows.step, axis).reshape(shape)
    mean = (mean + pulled * at_label) * rows.inverse
    np.subtract(by_predicted[:, None] if axis == 0 else by_predicted, mean, out=pull)
    pull *= share
    steep = bends.middle + rows.passed * (rows.last - bends.middle)
    of_first = steep * rows.first
    _slope_times_u(rows, bends, gradient)
    # Where ``bent`` was, nothing is needed any more.
    np.multiply(rows.is_first, of_first, out=rows.bent)
    gradient += rows.bent
    extra = pulled * share
    of_label = gradient.take(rows.places) * extra.reshape(-1)
    gradient *= pull
    gradient.reshape(-1)[rows.places] += of_label
    spread = _over_classes(gradient, axis)
    if detached:
        # The threshold is a constant: only the softmax denominator is common.
        through, to_first = spread / rows.total, 0.0
    else:
        own = _by_classes(by_predicted, rows.is_first, axis).reshape(shape) - rows.ties * mean
        own = own * share + rows.is_first.take(rows.places).reshape(shape) * extra
        through = rows.passed * own * steep * rows.beyond * rows.last / bends.temperature
        theta = spread - through * rows.total
        to_first = theta * np.where(rows.ties > 1.5, 1 / rows.ties, 0.5 * rows.first)
        _send_to_second(rows, theta, axis, gradient, pull)
    np.multiply(rows.others, through, out=pull)
    gradient -= pull
    np.multiply(rows.is_first, through * rows.first + to_first, out=pull)
    gradient -= pull
    return gradient


def _by_classes(by_class: np.ndarray, array: np.ndarray, axis: int) -> np.ndarray:
    product: np.ndarray = by_class @ array if axis == 0 else array @ by_class
    return product


def _slope_times_u(rows: Rows, bends: Bends, out: np.ndarray) -> None:
    _, _, first, middle, at_zero = bends
    # ``bent`` is positive beyond the lower bend, or before it where the first piece is the steeper one.
    base, other = (middle, first) if first > middle else (first, middle)
    if at_zero:
        np.multiply(rows.others, np.float32(middle), out=out)
    else:
        np.greater(rows.bent, 0, out=out, casting="unsafe")
        out *= np.float32(other - base)
        out += np.float32(base)
        out *= rows.others


def _send_to_second(
    rows: Rows, theta: np.ndarray, axis: int, gradient: np.ndarray, work: np.ndarray
) -> None:
    np.equal(rows.others, rows.second, out=work, casting="unsafe")
    number = _over_classes(work, axis)
    alone = rows.ties < 1.5
    work *= theta * (0.5 * (2 - rows.first)) * alone / number
    gradient -= work
