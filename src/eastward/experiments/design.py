"""What an experiment is: panels of one data set each, with methods as rows and scores as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eastward.experiments.figures import Figure

__all__ = ["Claim", "Experiment", "Panel"]


@dataclass(frozen=True)
class Claim:
    """That one method has a higher score than another.

    Attributes
    ----------
    method, rival : str
        Rows of the panel.
    score : str
        Column of the panel.
    is_open : bool
        Whether nobody has claimed it: then what was found is called higher, level or lower.
    """

    method: str
    rival: str
    score: str
    is_open: bool = False


@dataclass(frozen=True)
class Panel:
    """One data set of a table.

    Attributes
    ----------
    title : str
        As the paper calls it.
    data : str
        A name that :func:`eastward.datasets.load` knows, ``"cocktail_frames"``, or an embedded set.
    network : str
        A name of ``networks.NETWORKS``.
    methods : tuple of str
        Rows: names of ``methods.METHODS``.
    scores : tuple of str
        Columns: names of scores.
    published : mapping
        ``published[method][score]`` is the paper's figure.
    options : mapping
        For the loader (``features``), and ``positives`` to thin the positive class out.
    claims : tuple of Claim
        What the paper says about these rows.
    note : str
        What a reader has to know about this panel.
    optimizer, augment, official_test
        Lee's protocol: SGD with momentum, moved and mirrored pictures, the owners' test pictures.
    """

    title: str
    data: str
    network: str
    methods: tuple[str, ...]
    scores: tuple[str, ...]
    published: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    note: str = ""
    optimizer: str = "adamw"
    augment: bool = False
    official_test: bool = False


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper, or a check of our own.

    Attributes
    ----------
    name : str
        On the command line.
    title, source : str
        What it is, and of which paper.
    panels : tuple of Panel
        In the paper's order.
    notes : tuple of str
        What differs from the paper whatever the scale.
    minutes : float
        Measured or estimated time at the scale ``cpu`` on one core.
    picture : {"dots", "scatter", "curves"}
        How results are drawn.
    """

    name: str
    title: str
    source: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    minutes: float = 0.0
    picture: str = "dots"
