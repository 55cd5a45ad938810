"""Choose a method when the user names none: the ensemble of networks and trees."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

__all__ = ["Choice", "choose_method"]


class Choice(NamedTuple):
    """A method and the reason for it.

    Attributes
    ----------
    name : str
        Name of the method in :func:`~eastward.compare`.
    reason : str
        A sentence without a full stop.
    """

    name: str
    reason: str


def choose_method(rows: int) -> Choice:
    """Choose the method to train on a table of this many rows.

    It is the ensemble of networks and trees, which did best on average on the tables of docs/quality.md. On a large
    table its parts each learn from a sample, and held-out rows decide how much each part counts (docs/scale.md).

    Parameters
    ----------
    rows : int
        Number of rows of the table.

    Returns
    -------
    Choice
        Name and reason.

    Examples
    --------
    >>> choose_method(100).name
    'ensemble'
    """
    if find_spec("lightgbm") is None:
        return Choice(
            "eastward", "the ensemble needs LightGBM, which is not installed (eastward[boost])"
        )
    # Imported here, because it needs LightGBM.
    from eastward.estimators.ensemble import EASTEnsembleClassifier  # noqa: PLC0415
    from eastward.estimators.ensemble.fitting import PARTS  # noqa: PLC0415

    reason = "an ensemble of networks and trees, the best method on average over 33 tables"
    limits = {name: PARTS[name].most_rows for name in EASTEnsembleClassifier().parts}
    thinned = [
        f"{name.replace('_', ' ')} from {most:,}" for name, most in limits.items() if rows > most
    ]
    if thinned:
        reason += f"; of {rows:,} rows, parts learn from a sample: {', '.join(thinned)}"
    return Choice("ensemble", reason)
