"""Two classifiers from one training: with the metric stage, and without it."""

from __future__ import annotations

import copy
import time

from eastward.estimators.network.classifier import EASTClassifier
from eastward.training import Callback, Rows, Run, TrainingResult
from eastward.training.runner import HeldOut, copied_weights
from eastward.training.validation import held_out_logits

__all__ = ["FirstStage", "after_first_stage"]


class FirstStage(Callback):
    """A callback that stores the result of the first stage of training.

    Attributes
    ----------
    result : TrainingResult or None
        Epochs, notes, weights and held-out logits of the stage; None before it has ended.
    rows : Rows or None
        The rows that the stage was trained on.
    seconds : float
        Duration of the stage.
    """

    def __init__(self) -> None:
        self.result: TrainingResult | None = None
        self.rows: Rows | None = None
        self.seconds = 0.0

    def stage_start(self, run: Run) -> None:  # noqa: ARG002  # a hook of the loop
        """Start the clock."""
        if self.result is None:
            self.seconds = -time.perf_counter()

    def stage_end(self, run: Run) -> None:
        """Copy the result, because later stages continue with the same networks."""
        if self.result is not None:
            return
        name = run.stage.name
        self.result = TrainingResult(
            history=list(run.history),
            notes=list(run.notes),
            held_out={name: HeldOut(*held_out_logits(run))},
            weights={name: copied_weights(run.members)},
            interrupted=run.interrupted,
        )
        self.rows = run.rows
        self.seconds += time.perf_counter()


def after_first_stage(model: EASTClassifier, kept: FirstStage) -> EASTClassifier:
    """Return the classifier that ``aligned=False`` would train, taken from the first stage of a longer training.

    Parameters
    ----------
    model : EASTClassifier
        Fitted with ``recipe="auto"`` and ``callbacks=[kept]``.
    kept : FirstStage
        The callback that was passed to that fit.

    Returns
    -------
    EASTClassifier
        A fitted classifier, with a decision tuned on the rows that its networks held out.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> kept = FirstStage()
    >>> model = EASTClassifier(
    ...     hidden=(8,), max_epochs=5, n_folds=2, random_state=0, callbacks=[kept]
    ... )
    >>> first = after_first_stage(model.fit(X, y), kept)
    >>> first.aligned, first.report_["shipped"]
    (False, 'cross-entropy')
    """
    if kept.result is None or kept.rows is None:
        raise ValueError("kept must be a callback of the fit of model")
    first = copy.copy(model)
    first.set_params(aligned=False, callbacks=None)
    first.members_ = copy.deepcopy(model.members_)
    first.keep_preferred(kept.result, kept.rows, notes=[])
    return first
