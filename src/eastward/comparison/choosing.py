"""Which method to train when nobody says: the ensemble of networks and trees, at any number of rows."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

__all__ = ["Choice", "choose_method"]


class Choice(NamedTuple):
    """A method and the reason for it.

    Attributes
    ----------
    name : str
        As :func:`~eastward.compare` calls it.
    reason : str
        A sentence without a full stop.
    """

    name: str
    reason: str


def choose_method(rows: int) -> Choice:
    """The method to train on a table of so many rows.

    That is the ensemble of networks and trees, which did best on average on the tables of docs/quality.md. Of a large
    table its parts learn from a sample each, and held-out rows say how much each of them counts (docs/scale.md).

    Parameters
    ----------
    rows : int
        Rows of the table.

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
    # Not without LightGBM.
    from eastward.estimators.ensemble import EASTEnsembleClassifier  # noqa: PLC0415
    from eastward.estimators.ensemble.fitting import PARTS  # noqa: PLC0415

    reason = "the ensemble of networks and trees is the default"
    limits = {name: PARTS[name].most_rows for name in EASTEnsembleClassifier().parts}
    thinned = [
        f"{name.replace('_', ' ')} from {most:,}" for name, most in limits.items() if rows > most
    ]
    if thinned:
        reason += f"; of {rows:,} rows, parts learn from a sample: {', '.join(thinned)}"
    return Choice("ensemble", reason)
