"""The trainer behind `EASTClassifier`: one loop, its stages, and callbacks for everything optional."""

from eastward.training.batches import (
    LoaderBatches,
    Rows,
    ShuffledBatches,
    StratifiedBatches,
    assign_folds,
)
from eastward.training.hooks import Callback
from eastward.training.loop import Run, run_stage
from eastward.training.members import SeparateMembers, SoloMember, StackedMLP, plain_mlp
from eastward.training.runner import TrainingResult, train_members
from eastward.training.stages import RECIPES, Stage, recipe_stages

__all__ = [
    "RECIPES",
    "Callback",
    "LoaderBatches",
    "Rows",
    "Run",
    "SeparateMembers",
    "ShuffledBatches",
    "SoloMember",
    "StackedMLP",
    "Stage",
    "StratifiedBatches",
    "TrainingResult",
    "assign_folds",
    "plain_mlp",
    "recipe_stages",
    "run_stage",
    "train_members",
]
