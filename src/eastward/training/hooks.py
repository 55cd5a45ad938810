"""What the loop calls: everything optional about training is a callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eastward.training.loop import Run

__all__ = ["Callback"]


class Callback:
    """Hooks of the loop; each does nothing unless overridden."""

    def stage_start(self, run: Run) -> None:
        """Before the first epoch."""

    def epoch_start(self, run: Run) -> None:
        """Before the batches of an epoch."""

    def batch_end(self, run: Run) -> None:
        """After each optimiser step; ``run.step`` counts those of the epoch."""

    def epoch_end(self, run: Run) -> None:
        """After validation; ``run.record`` holds the numbers of the epoch."""

    def stage_end(self, run: Run) -> None:
        """After the last epoch, also of an interrupted stage."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to remember."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
