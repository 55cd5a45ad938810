"""The metric as a loss, in one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from eastward import _checks
from eastward.losses._at_table import prepare_metric
from eastward.losses._definition import Terms
from eastward.losses._loss import Between, Steps
from eastward.metrics import Metric
from eastward.protocols import Logits, Reduce, Scalar, Step, Targets
from eastward.steps import resolve_step

__all__ = ["metric_loss"]


def metric_loss(
    logits: Logits,
    targets: Targets,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    temperature: Tensor | float = 0.2,
    threshold: str | float | Sequence[float] = "top2",
    step: str | Step = "linear",
    detach_threshold: bool = False,
    prior: Any = None,
    absent: str | None = None,
    multilabel: bool = False,
    ignore_index: int | None = -100,
    sample_weight: Tensor | None = None,
    reduce: Reduce | None = None,
    check_inputs: bool = True,
) -> Scalar:
    r"""Compute one minus a soft metric, differentiable in the logits.

    .. math:: \ell(z, y) = 1 - M\Big(\sum_n w_n\, e_{y_n} g_T(\mathrm{softmax}(z_n))^\top\Big)

    Parameters
    ----------
    logits : Tensor
        ``(N, C)`` or ``(N, C, ...)`` for classes that exclude each other; ``(N,)`` or ``(N, 1)`` (also
        ``(N, 1, ...)``) for one positive-class logit; ``(N, L)`` or ``(N, L, ...)`` with ``multilabel=True``. Always
        logits, never probabilities.
    targets : Tensor
        Integer class indices ``(N, ...)``; zeros and ones for a single logit (``(N,)`` or the logits' shape) and for
        multilabel problems (the logits' shape).
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or any callable from a confusion matrix to a 0-d tensor.
    temperature : Tensor or float, default=0.2
        In (0, 0.4]; smaller is closer to the hard metric and harder to train on.
    threshold : "top2", float or sequence of float, default="top2"
        Where the soft step lies. "top2" is halfway between the two largest probabilities of each sample (0.5 in binary
        and multilabel problems). A number in (0, 1) fixes it; over a sequence of numbers the metric is averaged.
    step : {"linear", "sigmoid", "hard"} or callable, default="linear"
        Shape of the soft step. "hard" gives the metric itself, without a gradient.
    detach_threshold : bool, default=False
        Send no gradient through the "top2" threshold.
    prior : sequence of float, optional
        Class frequencies that the metric is meant for, if your batches have others (stratified or resampled ones).
    absent : {"skip", "observed", "zero", "one"}, optional
        How macro averages treat classes without true samples. "skip" leaves them out; "observed" counts a class if it
        was predicted, as scikit-learn does; "zero" and "one" give it that value. None uses the metric's own setting,
        or "skip" if it has none.
    multilabel : bool, default=False
        Columns are independent labels.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    sample_weight : Tensor, optional
        ``(N,)`` or of the shape of the targets; weights the samples in the confusion matrix.
    reduce : callable, optional
        Function that sums tables over processes, differentiably. :class:`EASTLoss` passes one by itself.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    Returns
    -------
    Tensor
        0-d, on the device and in the dtype of ``logits`` (float32 under autocast, like PyTorch's own losses);
        computed in float32 at least. ``1 - metric``, or the value itself for a metric where lower is better.

    Notes
    -----
    If all samples are ignored, loss and gradient are zero, with a warning. In a batch of one class, metrics that need
    two classes are evaluated as if the batch held one per cent of each missing class, predicted correctly. False
    positives then still cost something. This holds for ``absent="skip"``.

    References
    ----------
    EAST, section 4; Bridging the Gap, section 3.

    Examples
    --------
    >>> import torch
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]], requires_grad=True)
    >>> loss = metric_loss(logits, torch.tensor([0, 1, 1]), "f1")
    >>> loss.backward()
    >>> round(loss.item(), 4)
    0.3539
    """
    caller = "metric_loss"
    _checks.one_temperature(caller, temperature)
    chosen, policy = prepare_metric(caller, metric, absent)
    terms = Terms(
        chosen,
        _checks.thresholds(caller, threshold),
        resolve_step(step, caller=caller),
        _checks.boolean(caller, "detach_threshold", detach_threshold),
        prior if prior is None else _checks.prior(caller, prior, None, sums_to_one=not multilabel),
        policy == "skip",
        _checks.boolean(caller, "multilabel", multilabel),
        _checks.ignore_index(caller, ignore_index),
    )
    _check_reduce(caller, reduce)
    given = (logits, targets, sample_weight)
    between = Between(reduce)
    checked = _checks.boolean(caller, "check_inputs", check_inputs)
    return Steps(terms).loss(caller, given, temperature, between, check_inputs=checked)


def _check_reduce(caller: str, reduce: object) -> None:
    if reduce is not None and not callable(reduce):
        expected = "a function from a table to its sum over processes, or None"
        _checks.fail(caller, "reduce", expected, _checks.describe(reduce), error=TypeError)
