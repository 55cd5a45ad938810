"""Find the columns of a table that the score of a trained model depends on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eastward.data import feature_origins
from eastward.decisions import ABSTAIN
from eastward.model_folder import TableModel
from eastward.reporting.importance import MAX_ROWS, importance_summary

__all__ = ["RowSample", "model_importance"]


def model_importance(
    model: TableModel,
    frame: pd.DataFrame,
    targets: NDArray[Any],
    *,
    sample_weight: NDArray[Any] | None = None,
    random_state: int = 0,
) -> dict[str, Any]:
    """Compute :func:`importance_summary` of a model with its preprocessing, for its metric.

    Parameters
    ----------
    model : TableModel
        A trained model.
    frame : DataFrame
        ``(N, K)`` rows that the model was not trained on.
    targets : ndarray
        ``(N,)`` class indices.
    sample_weight : ndarray, optional
        Weights of the rows, ``(N,)``.
    random_state : int, default=0
        Seed of sample, shuffles and bootstrap.

    Returns
    -------
    dict
        The result of :func:`importance_summary`.
    """
    # Sampled before vectorising, because a stream may have many held-out rows.
    drawn = np.random.default_rng(random_state).permutation(len(frame))
    chosen = np.sort(drawn[:MAX_ROWS])
    frame, targets = frame.iloc[chosen].reset_index(drop=True), targets[chosen]
    weight = None if sample_weight is None else sample_weight[chosen]

    def decide(vectors: NDArray[Any]) -> NDArray[Any]:
        if model.decision is None:
            codes: NDArray[Any] = np.searchsorted(model.classes, model.classifier.predict(vectors))
            return codes
        probabilities = model.classifier.predict_proba(vectors)
        chosen: NDArray[Any] = model.decision.decide(probabilities)
        # An undecided row counts as its most probable class here.
        return np.where(chosen == ABSTAIN, probabilities.argmax(axis=1), chosen)

    return importance_summary(
        decide,
        model.vectors(frame),
        feature_origins(model.vectorizer),
        frame,
        targets,
        model.classes.tolist(),
        model.metric,
        sample_weight=weight,
        random_state=random_state,
    )


class RowSample:
    """A uniform sample of the rows of a table that arrives in parts.

    Every row draws a random number, and the rows with the smallest numbers are kept.

    Examples
    --------
    >>> sample = RowSample(size=3)
    >>> for part in (range(4), range(4, 10)):
    ...     sample.add(pd.DataFrame({"n": part}), np.array(part))
    >>> frame, targets = sample.rows()
    >>> len(frame), (frame["n"] == targets).all()
    (3, np.True_)
    """

    def __init__(self, size: int = MAX_ROWS, random_state: int = 0) -> None:
        self.size, self.random = size, np.random.default_rng(random_state)
        self.parts: list[tuple[pd.DataFrame, NDArray[Any], NDArray[Any]]] = []

    def add(self, frame: pd.DataFrame, targets: NDArray[Any]) -> None:
        """Add the rows of the next part."""
        drawn = self.random.random(len(targets))
        kept = np.argsort(drawn)[: self.size]
        self.parts.append((frame.iloc[kept], targets[kept], drawn[kept]))
        if sum(len(part[1]) for part in self.parts) > 10 * self.size:
            self.parts = [self._chosen()]

    def rows(self) -> tuple[pd.DataFrame, NDArray[Any]]:
        """Return the sampled rows and their class indices."""
        frame, targets, _ = self._chosen()
        return frame.reset_index(drop=True), targets

    def _chosen(self) -> tuple[pd.DataFrame, NDArray[Any], NDArray[Any]]:
        drawn = np.concatenate([part[2] for part in self.parts])
        kept = np.argsort(drawn)[: self.size]
        frame = pd.concat([part[0] for part in self.parts], ignore_index=True).iloc[kept]
        return frame, np.concatenate([part[1] for part in self.parts])[kept], drawn[kept]
