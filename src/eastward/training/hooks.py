"""The hooks of the training loop: everything optional about training is a callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eastward.training.loop import Run

__all__ = ["Callback"]


class Callback:
    """Hooks of the loop; each does nothing unless overridden."""

    def stage_start(self, run: Run) -> None:
        """Run before the first epoch."""

    def epoch_start(self, run: Run) -> None:
        """Run before the batches of an epoch."""

    def batch_end(self, run: Run) -> None:
        """Run after each optimiser step; ``run.step`` counts the steps of the epoch."""

    def epoch_end(self, run: Run) -> None:
        """Run after validation; ``run.record`` holds the numbers of the epoch."""

    def stage_end(self, run: Run) -> None:
        """Run after the last epoch, even of an interrupted stage."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what ``state_dict`` returned."""
