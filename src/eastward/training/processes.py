"""Communication between processes that train together; a single process needs none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from eastward.distributed import process_sum
from eastward.protocols import Reduce
from eastward.training.batches import take

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["STOP_REQUEST", "Processes"]

# Environment variable: the path of a file. When the file appears, a running job ends after the epoch.
STOP_REQUEST = "EASTWARD_STOP_REQUEST"


class Processes:
    """The processes of a run: their number, the rank of this one, and how they agree.

    Every process draws the same batches and takes its own rows of each, so W processes take the same steps as one
    process. Process zero provides every number on which a decision depends.

    Parameters
    ----------
    fabric : Fabric
        A launched Fabric.

    Examples
    --------
    >>> import torch
    >>> from lightning_fabric import Fabric
    >>> alone = Processes(Fabric(accelerator="cpu", devices=1))
    >>> alone.part(torch.arange(6).view(1, 6)).shape
    torch.Size([1, 6])
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.rank, self.world = fabric.global_rank, fabric.world_size

    @property
    def many(self) -> bool:
        """Whether there is more than one process."""
        return self.world > 1

    @property
    def first(self) -> bool:
        """Whether this is process zero, which writes files."""
        return self.rank == 0

    @property
    def reduce(self) -> Reduce | None:
        """Differentiable sum over processes; None for a single process."""
        return self.sum if self.many else None

    def sum(self, table: Tensor) -> Tensor:
        """Sum over processes, on the device of their communication."""
        if not self.many:
            return table
        return process_sum(table.to(self.fabric.device)).to(table.device)

    def part(self, index: Tensor) -> Tensor:
        """Return this process's columns of ``(K, B)`` rows: every W-th, so that no row is repeated or padded."""
        return index[:, self.rank :: self.world] if self.many else index

    def part_of_batch(
        self, batch: tuple[Any, Tensor, Tensor | None]
    ) -> tuple[Any, Tensor, Tensor | None]:
        """Return this process's rows of a loader's batch."""
        if not self.many:
            return batch
        inputs, targets, weights = batch
        mine = slice(self.rank, None, self.world)
        return (
            take(inputs, mine),
            targets[:, mine],
            None if weights is None else weights[:, mine],
        )

    def gathered(self, part: Tensor, size: int) -> Tensor:
        """Join the :meth:`part` of every process to one tensor ``(K, size, ...)``."""
        if not self.many:
            return part
        whole = part.new_zeros(part.shape[0], size, *part.shape[2:])
        whole[:, self.rank :: self.world] = part
        return self.sum(whole)

    def agreed(self, value: Any) -> Any:
        """Return the value of process zero."""
        return self.fabric.broadcast(value) if self.many else value

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process."""
        if not self.many:
            return flag
        return bool(self.sum(torch.tensor([float(flag)])).item() > 0)

    def share_buffers(self, module: nn.Module) -> None:
        """Give every process the buffers (batch-norm statistics) of process zero."""
        if self.many:
            for buffer in module.buffers():
                dist.broadcast(buffer, 0)

    def seed(self, generator: torch.Generator, *, own: bool) -> None:
        """Seed torch's global generator: alike in all processes (for shuffling), or differently (for dropout).

        The seed follows from the state of ``generator``, so a checkpoint need not hold the random states of all
        processes.
        """
        if self.many:
            probe = torch.Generator()
            probe.set_state(generator.get_state())
            seed = int(torch.randint(2**31 - 1, (1,), generator=probe))
            torch.manual_seed(seed + (self.rank + 1) * own)

    def asked_to_stop(self) -> bool:
        """Return whether the parent process asked the job to stop (see :mod:`eastward.training.launch`)."""
        request = os.environ.get(STOP_REQUEST)
        asked = self.many and self.first and request is not None and Path(request).exists()
        return self.any(asked)
