"""The design of an experiment: panels of one data set each, with methods as rows and scores as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from papers.experiments.figures import Figure

__all__ = ["IMAGE_NETWORKS", "Claim", "Experiment", "Panel"]

IMAGE_NETWORKS = ("Darknet-19", "ResNet-18", "ResNet-34")


@dataclass(frozen=True)
class Claim:
    """The claim that one method has a higher score than another.

    Attributes
    ----------
    method, rival : str
        Rows of the panel; without a rival, the method's own score is compared with ``bound``.
    score : str
        Column of the panel.
    expected : {"as printed", "higher", "not lower", "lower", "open"}
        What the paper says. ``"as printed"``: the side on which its two printed figures lie; ``"open"``: nobody has
        claimed anything, and what was found is called higher, level or lower.
    bound : float
        The value that the score is compared with if there is no rival.
    """

    method: str
    rival: str
    score: str
    expected: str = "as printed"
    bound: float = 0.0


@dataclass(frozen=True)
class Panel:
    """One data set of a table.

    Attributes
    ----------
    title : str
        Name of the data set in the paper.
    data : str
        A name that :func:`papers.data.load` knows, ``"cocktail_frames"``, or an embedded set.
    network : str
        A name of ``networks.NETWORKS``.
    methods : tuple of str
        Rows: names of ``methods.METHODS``.
    scores : tuple of str
        Columns: names of scores.
    published : mapping
        ``published[method][score]`` is the paper's figure.
    options : mapping
        For the loader (``features``); ``negatives_each`` thins the positive class out.
    split : {"random", "time"}
        How test rows are taken: at random, or a stretch of time with the validation rows before it.
    key : str
        Name of the panel for ``--only``; ``data`` if empty.
    patience : int
        Epochs without a lower validation loss that the paper waits for; EAST's second version 50, its first 100.
    kind : str
        Kind of problem: questions are also answered over all panels of a kind.
    fixed_settings : int
        Limit of epochs of a check in which all rows share one batch size and learning rate; 0: both are searched.
    claims : tuple of Claim
        What the paper says about these rows.
    note : str
        A remark on this panel for readers.
    precision : {"bfloat16", "float32"}
        Precision of networks for pictures; bfloat16 is fast only on processors that know it.
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
    split: str = "random"
    key: str = ""
    patience: int = 50
    kind: str = ""
    fixed_settings: int = 0
    precision: str = "bfloat16"

    @property
    def is_image(self) -> bool:
        """Whether inputs are pictures."""
        return self.network in IMAGE_NETWORKS


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper, or a check of our own.

    Attributes
    ----------
    name : str
        Name on the command line.
    title, source : str
        Description, and the paper it is from.
    panels : tuple of Panel
        In the paper's order.
    notes : tuple of str
        Differences from the paper at every scale.
    minutes : float
        Measured or estimated time at the scale ``cpu`` on one core.
    picture : {"dots", "scatter", "curves"}
        How results are drawn.
    pooled : bool
        Whether claims are also judged over all panels of a kind together, each panel one case.
    """

    name: str
    title: str
    source: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    minutes: float = 0.0
    picture: str = "dots"
    pooled: bool = False
