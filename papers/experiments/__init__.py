"""The papers' tables and figures, run again."""

from papers.experiments.catalogue import EXPERIMENTS, get
from papers.experiments.running import Run, run_experiment

__all__ = ["EXPERIMENTS", "Run", "get", "run_experiment"]
