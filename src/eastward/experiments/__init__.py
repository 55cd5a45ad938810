"""The papers' tables and figures, run again."""

from eastward.experiments.catalogue import EXPERIMENTS, get
from eastward.experiments.running import Run, run_experiment

__all__ = ["EXPERIMENTS", "Run", "get", "run_experiment"]
