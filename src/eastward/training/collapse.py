"""The collapse guard, which notices when training for a metric makes a network predict too few classes.

When training starts from scratch, or at a low temperature, the gradient of a rare class may vanish. Then the class is
never predicted again. The guard checks every epoch and describes what it found in one sentence. First it raises the
temperature and mixes cross-entropy back in. If that does not help, it returns the member to the start of the stage,
while the others continue.

The guard compares with the classes that the network predicted before its decision was tuned. Tuned offsets predict the
rarest classes at any price, and a network that does so a little less has not collapsed.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from eastward.confusion import Counts
from eastward.training.hooks import Callback
from eastward.training.loop import Run
from eastward.training.objectives import MetricObjective
from eastward.training.validation import validate_once

__all__ = ["CollapseGuard", "unpredicted"]

logger = logging.getLogger("eastward")

WARM_AGAIN = 0.2
BLEND = 0.5
ANSWER_AFTER, RESTORE_AFTER = 2, 8
VANISHED = 1e-12


def unpredicted(table: Tensor | Counts) -> Tensor:
    """Find the classes that occur but are never predicted, as ``(C,)`` booleans.

    Examples
    --------
    >>> import torch
    >>> unpredicted(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    tensor([False, False,  True])
    """
    true, predicted = _margins(table)
    return (true > 0) & (predicted <= 0)


def _margins(table: Tensor | Counts) -> tuple[Tensor, Tensor]:
    """Count how often each class occurs, and how often it is predicted."""
    if isinstance(table, Counts):
        return table.true, table.predicted
    return table.sum(1), table.sum(0)


class CollapseGuard(Callback):
    """A callback that watches for lost classes, constant predictions and vanished gradients.

    Parameters
    ----------
    answer : bool
        Whether to act. Otherwise the guard only warns, so that the procedure of the papers stays unchanged.
    """

    def __init__(self, *, answer: bool) -> None:
        self.answer = answer
        self.reference: list[Tensor] = []
        self.starts: list[dict[str, Tensor]] = []
        self.streaks: list[int] = []
        self.given_up: list[int] = []
        self.warned = False

    def stage_start(self, run: Run) -> None:
        """Keep the initial weights, and note which classes the network predicts."""
        validate_once(run)
        self.reference = [unpredicted(table) for table in run.tables_before or run.valid_tables]
        self.streaks = [0] * run.members.size
        self.starts = [run.members.member_state(k) for k in range(run.members.size)]

    def epoch_end(self, run: Run) -> None:
        """Check every member, and act on those that have been collapsed for several epochs."""
        vanished = _gradient(run) < VANISHED
        for k, table in enumerate(run.valid_tables):
            if k in self.given_up:
                continue
            complaint = self._complaint(table, self.reference[k], vanished=vanished)
            self.streaks[k] = self.streaks[k] + 1 if complaint else 0
            if complaint and self.streaks[k] == ANSWER_AFTER:
                self._warm_again(run, complaint)
            elif complaint and self.streaks[k] >= RESTORE_AFTER and self.answer:
                self._restore(run, k, complaint)
        if self.answer and isinstance(run.objective, MetricObjective) and not any(self.streaks):
            run.objective.blend = run.temperature_floor = 0.0

    def _complaint(self, table: Tensor | Counts, reference: Tensor, *, vanished: bool) -> str:
        """Describe what is wrong with a member, or return an empty string."""
        fresh = torch.nonzero(unpredicted(table) & ~reference).flatten().tolist()
        if (fresh or not self.answer) and _is_constant(table):
            return "all predictions fall into one class"
        if fresh and self.answer:
            return f"classes {fresh[:5]} are no longer predicted"
        return "the gradient has vanished" if vanished else ""

    def _warm_again(self, run: Run, complaint: str) -> None:
        temperature = run.objective.temperature
        if not self.answer:
            if not self.warned:
                self._say(
                    run,
                    f"{complaint} at temperature {temperature:.3g}; recipe='auto' starts from cross-entropy",
                )
            self.warned = True
            return
        run.temperature_floor = WARM_AGAIN
        answers = []
        if temperature is not None and temperature < WARM_AGAIN:
            answers.append(f"the temperature goes back up from {temperature:.3g} to {WARM_AGAIN}")
        if isinstance(run.objective, MetricObjective):
            run.objective.blend = BLEND
            answers.append(f"cross-entropy is mixed in with weight {BLEND}")
        self._say(run, f"{complaint}: {' and '.join(answers) or 'training goes on'}")

    def _restore(self, run: Run, k: int, complaint: str) -> None:
        run.members.load_member(k, self.starts[k])
        epochs, self.streaks[k] = self.streaks[k], 0
        self.given_up.append(k)
        nobody_left = len(self.given_up) == run.members.size
        run.stop = run.stop or nobody_left
        rest = "and the stage ends" if nobody_left else "and the others go on"
        answer = f"member {k} goes back to the start {rest}"
        self._say(run, f"{complaint}, for {epochs} epochs now: {answer}")

    def stage_end(self, run: Run) -> None:
        """Load the initial weights of members that were given up, whatever other callbacks kept for them."""
        for k in self.given_up:
            run.members.load_member(k, self.starts[k])

    def _say(self, run: Run, sentence: str) -> None:
        note = f"stage {run.stage.name!r}, epoch {run.epoch}: {sentence}"
        run.notes.append(note)
        logger.warning(note)

    def state_dict(self) -> dict[str, Any]:
        """Return the initial weights, the classes predicted at the start, and the streaks."""
        names = ("reference", "starts", "streaks", "given_up", "warned")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that ``state_dict`` returned."""
        for name, value in state.items():
            setattr(self, name, value)


def _is_constant(table: Tensor | Counts) -> bool:
    """Return whether all predictions fall into one of several classes; always False for independent labels."""
    if isinstance(table, Counts):
        return False
    true, predicted = _margins(table)
    return int((predicted > 0).sum()) == 1 and int((true > 0).sum()) > 1


def _gradient(run: Run) -> float:
    """Compute the norm of the last batch's gradient."""
    # The optimiser may hold the parameters as one flat vector.
    parameters = [p for group in run.optimizer.param_groups for p in group["params"]]
    grads = [p.grad for p in parameters if p.grad is not None]
    return float(sum(g.detach().square().sum() for g in grads)) ** 0.5 if grads else 1.0
