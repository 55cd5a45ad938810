"""The hooks of the training loop: everything optional about training is a callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eastward.training.loop import Run

__all__ = ["Callback"]


class Callback:
    """Base class of callbacks: override the hooks that you need; the others do nothing.

    Every hook takes the :class:`Run`, the stage in progress. A callback can read its numbers, and end the stage with
    ``run.stop = True``.

    Examples
    --------
    Stop a stage as soon as the validation score is good enough:

    >>> import torch
    >>> from lightning_fabric import Fabric
    >>> from eastward.metrics import get
    >>> from eastward.training import Callback, Rows, StackedMLP, Stage, run_stage
    >>> from eastward.training.loop import new_run
    >>> class GoodEnough(Callback):
    ...     def epoch_end(self, run):
    ...         run.stop = run.record["valid_score"] > 0.9
    >>> y = torch.arange(60) % 2
    >>> X = 4 * y.unsqueeze(1) + torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    >>> every = torch.arange(60)
    >>> rows = Rows(X, y, None, train=[every[:40]], valid=[every[40:]], num_outputs=2)
    >>> stage = Stage("long", "cross_entropy", max_epochs=200, learning_rate=1e-2, batch_size=20)
    >>> fabric = Fabric(accelerator="cpu", devices=1)
    >>> members = StackedMLP(1, [3, 8, 2])
    >>> run = new_run(stage, members, rows, get("f1_macro"), fabric, torch.Generator())
    >>> run_stage(run, [GoodEnough()])
    >>> run.epoch < stage.max_epochs
    True

    Pass your callbacks to a classifier with ``EASTClassifier(callbacks=[...])``.
    """

    def stage_start(self, run: Run) -> None:
        """Run before the first epoch."""

    def epoch_start(self, run: Run) -> None:
        """Run before the batches of an epoch."""

    def batch_end(self, run: Run) -> None:
        """Run after each optimiser step; ``run.step`` counts the steps of the epoch."""

    def epoch_end(self, run: Run) -> None:
        """Run after validation; ``run.record`` holds the numbers of the epoch."""

    def stage_end(self, run: Run) -> None:
        """Run after the last epoch, even if the stage was interrupted."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a checkpoint keeps."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that ``state_dict`` returned."""
