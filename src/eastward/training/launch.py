"""Start and watch processes on one machine that train together.

Inside a running job (``torchrun``, SLURM), no process is started, because the job already has its processes.
"""

from __future__ import annotations

import copy
import logging
import os
import pickle
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor
from torch.distributed.rendezvous import rendezvous
from torch.multiprocessing.spawn import ProcessException

from eastward import _checks
from eastward.training.batches import Rows
from eastward.training.members import Members
from eastward.training.processes import STOP_REQUEST
from eastward.training.runner import TrainingResult, train_members
from eastward.training.stages import Stage

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = [
    "end_process",
    "in_processes",
    "make_fabric",
    "processes_to_start",
    "train_with_devices",
]

CALLER = "EASTClassifier"
# Environment variable: the seconds that a process waits for the others.
TIMEOUT = "EASTWARD_PROCESS_SECONDS"


def train_with_devices(
    fabric_options: Mapping[str, Any],
    members: Members,
    rows: Rows,
    stages: Sequence[Stage],
    *,
    generator: torch.Generator,
    **settings: Any,
) -> TrainingResult:
    """Run the stages on several devices: in this process, in the job it belongs to, or in new processes.

    Parameters
    ----------
    fabric_options : mapping
        ``accelerator``, ``devices``, ``strategy``, ``precision`` and ``loggers`` of Lightning Fabric.
    members, rows, stages, generator, **settings
        Arguments of :func:`~eastward.training.runner.train_members`.

    Returns
    -------
    TrainingResult
        The result of process zero.
    """
    count = processes_to_start(fabric_options["devices"], fabric_options["strategy"])
    if count == 1:
        fabric = make_fabric(fabric_options)
        return train_members(members, rows, stages, fabric=fabric, generator=generator, **settings)
    state = generator.get_state()
    work = partial(_trained, dict(fabric_options), members, rows, stages, state, settings)
    result, weights = in_processes(count, work)
    members.load_state_dict(weights)
    trained: TrainingResult = result
    return trained


def _trained(
    fabric_options: Mapping[str, Any],
    members: Members,
    rows: Rows,
    stages: Sequence[Stage],
    state: Tensor,
    settings: Mapping[str, Any],
) -> tuple[TrainingResult, dict[str, Tensor]]:
    """Train in one process, and return the result and the weights."""
    # Tensors arrive in memory that all processes share, which is right for rows and wrong for weights.
    members = copy.deepcopy(members)
    generator = torch.Generator()
    generator.set_state(state)
    fabric = make_fabric(fabric_options)
    result = train_members(members, rows, stages, fabric=fabric, generator=generator, **settings)
    weights = {name: value.detach().cpu() for name, value in members.state_dict().items()}
    return result, weights


def processes_to_start(devices: Any, strategy: Any) -> int:
    """Return the number of processes to start: 1 if this process is enough, or already belongs to a job.

    Examples
    --------
    >>> processes_to_start(2, "ddp"), processes_to_start(1, "auto")
    (2, 1)
    """
    wanted = devices if isinstance(devices, int) else 1
    if wanted > _checks.MOST_JOBS:
        expected = f"at most {_checks.MOST_JOBS} processes"
        _checks.fail(CALLER, "devices", expected, devices)
    if wanted > 1 and strategy not in ("auto", "ddp"):
        expected = "'auto' or 'ddp' with more than one device"
        advice = "Start other strategies with torchrun or Fabric's own launcher."
        _checks.fail(CALLER, "strategy", expected, repr(strategy), advice)
    return 1 if wanted < 2 or in_a_job() else wanted


def in_a_job() -> bool:
    """Return whether ``torchrun`` or a similar launcher started this process together with others."""
    return "LOCAL_RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def make_fabric(options: Mapping[str, Any], *, caller: str = CALLER) -> Fabric:
    """Make a Lightning Fabric from its options, and launch it if this process belongs to a job."""
    # Imported here, because the import takes seconds and prediction does not need it.
    from lightning_fabric import Fabric  # noqa: PLC0415
    from lightning_fabric.plugins.environments.torchelastic import (  # noqa: PLC0415
        TorchElasticEnvironment,
    )
    from lightning_fabric.strategies.ddp import DDPStrategy  # noqa: PLC0415

    if not (in_a_job() and _is_shared(options)):
        try:
            return Fabric(**options)
        except (TypeError, ValueError) as error:
            _refuse(caller, options, error)
    seconds = float(os.environ.get(TIMEOUT, "1800"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    settings = {
        **options,
        "devices": local,
        "num_nodes": int(os.environ["WORLD_SIZE"]) // local,
        "strategy": DDPStrategy(timeout=timedelta(seconds=seconds)),
        "plugins": [TorchElasticEnvironment()],
    }
    fabric = Fabric(**settings)
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0:
        _meet_again(fabric.device.type, seconds)
    fabric.launch()
    return fabric


def _is_shared(options: Mapping[str, Any]) -> bool:
    alone = isinstance(options["devices"], int) and options["devices"] == 1
    return not alone or (isinstance(options["strategy"], str) and options["strategy"] == "ddp")


def _refuse(caller: str, options: Mapping[str, Any], error: Exception) -> NoReturn:
    """Report options that Lightning Fabric refuses, with its reason."""
    names = ("accelerator", "devices", "strategy", "precision")
    got = ", ".join(f"{name}={_checks.describe(options.get(name))}" for name in names)
    reason = " ".join(str(error).split())
    expected = "values that Lightning Fabric accepts"
    _checks.fail(caller, ", ".join(names), expected, f"{got} ({reason})")


def _meet_again(device: str, seconds: float) -> None:
    """Connect the processes of a restarted job under new names.

    torchrun keeps its store when it restarts a job, including the addresses of dead processes. Under the old names, the
    new processes would try to reach the dead ones.
    """
    store, rank, world = next(rendezvous("env://"))
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo",
        store=dist.PrefixStore(f"eastward/{attempt}", store),  # type: ignore[attr-defined]
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=seconds),
    )


def in_processes(count: int, work: Callable[[], Any], *, caller: str = CALLER) -> Any:
    """Call ``work`` in ``count`` new processes of one job, and return the result of process zero.

    Parameters
    ----------
    count : int
        Number of processes.
    work : callable
        A function without arguments that can be pickled, such as a ``functools.partial`` of a function in a module.
    caller : str
        The name in error messages.

    Returns
    -------
    object
        What ``work`` returned in process zero.
    """
    with tempfile.TemporaryDirectory(prefix="eastward-") as name:
        folder = Path(name)
        packed = _packed(work, caller)
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        context: Any = torch.multiprocessing.spawn(  # type: ignore[attr-defined,no-untyped-call]
            _worker,
            args=(count, address, _shown_level(), packed, str(folder)),
            nprocs=count,
            join=False,
        )
        _watch(context, folder, caller)
        return torch.load(folder / "result.pt", weights_only=False)


def _packed(work: Callable[[], Any], caller: str) -> Any:
    """Check that ``work`` can be pickled before any process starts, and raise a clear error if it cannot."""
    try:
        torch.multiprocessing.reductions.init_reductions()
        pickle.dumps(work)
    except Exception as error:
        message = (
            f"parameters of {caller} must be picklable with devices > 1; got {error}. "
            "Define modules, metrics and callbacks at the top level of a file, not inside a function."
        )
        raise TypeError(message) from error
    return work


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _watch(context: Any, folder: Path, caller: str) -> None:
    """Wait for the processes; Ctrl-C stops them after the epoch, and if one dies, all end."""
    while True:
        try:
            if context.join():
                return
        except KeyboardInterrupt:
            (folder / "stop").touch()
        except ProcessException as error:
            _explain(error, folder, caller)


def _explain(error: Any, folder: Path, caller: str) -> None:
    """Raise the error of a process, or report that it was killed."""
    for path in sorted(folder.glob("error-*.pickle")):
        cause: BaseException = pickle.loads(path.read_bytes())  # noqa: S301 - written by our own child process
        if isinstance(cause, ValueError | TypeError | KeyboardInterrupt):
            raise cause
    died = getattr(error, "signal_name", None)
    how = f"was ended by {died}" if died else "failed"
    message = (
        f"processes of {caller} must run until training ends; process {error.error_index} {how}. "
        "With checkpoint=, the last checkpoint is complete: call it again to continue from there."
    )
    raise RuntimeError(message) from error


def _set_up_logging(rank: int, level: int | None) -> None:
    """Let process zero log like its parent, and the others only errors."""
    logger = logging.getLogger("eastward")
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    if rank:
        logger.setLevel(logging.ERROR)
    elif level is not None:
        logger.setLevel(level)
        logger.addHandler(logging.StreamHandler(sys.stderr))


def _shown_level() -> int | None:
    """Return the lowest level of messages that this process shows, or None if it shows none."""
    logger = logging.getLogger("eastward")
    shows = any(isinstance(handler, logging.StreamHandler) for handler in logger.handlers)
    return logger.getEffectiveLevel() if shows else None


def _worker(
    rank: int, count: int, address: dict[str, str], level: int | None, work: Any, folder: str
) -> None:
    """Run one process of the job."""
    # The parent handles Ctrl-C, and asks this process to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(max(1, torch.get_num_threads() // count))
    os.environ.update(address)
    os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"})
    os.environ.update({"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)})
    os.environ[STOP_REQUEST] = str(Path(folder) / "stop")
    _set_up_logging(rank, level)
    try:
        result = work()
    except BaseException as error:
        # If another process has died, this one may be killed while it writes, so the file is renamed when complete.
        part = Path(folder) / f"error-{rank}.part"
        part.write_bytes(_pickled_error(error))
        part.rename(part.with_suffix(".pickle"))
        raise
    if rank == 0:
        torch.save(result, Path(folder) / "result.pt")
    if dist.is_initialized():
        end_process()


def end_process() -> NoReturn:
    """End a process of a job whose work is done, without taking its process group apart.

    ``destroy_process_group`` may wait for ever: it holds Python's lock while it waits for gloo's threads, and such a
    thread needs the lock to release the last tensor that it has sent (pytorch/pytorch#75097). The operating system
    closes the connections of a process that ends.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _pickled_error(error: BaseException) -> bytes:
    try:
        return pickle.dumps(error)
    except (pickle.PicklingError, TypeError, AttributeError):
        return pickle.dumps(RuntimeError(str(error)))
