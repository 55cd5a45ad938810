"""Every experiment by its name on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from eastward import _checks
from papers.experiments import btg, checks, east_images, lee
from papers.experiments.design import Experiment

__all__ = ["EXPERIMENTS", "get"]

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        experiment.name: experiment
        for group in (btg, east_images, lee, checks)
        for experiment in group.EXPERIMENTS
    }
)


def get(name: str) -> Experiment:
    """The experiment ``name``.

    Examples
    --------
    >>> get("btg-table4").source
    'Bridging the Gap (NeurIPS 2022), Table 4'
    """
    _checks.one_of("reproduce", "NAME", name, tuple(EXPERIMENTS))
    return EXPERIMENTS[name]
