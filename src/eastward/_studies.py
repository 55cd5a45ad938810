"""Studies of Optuna: where they are stored, and which process runs each trial."""

from __future__ import annotations

import json
import os
import socket
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eastward import _checks

try:
    import optuna
    from optuna.storages.journal import JournalFileBackend
    from sqlalchemy.exc import SQLAlchemyError
except ModuleNotFoundError as error:
    message = f"tune needs {error.name}: install it with  pip install 'eastward[search]'"
    raise ModuleNotFoundError(message, name=error.name) from error

__all__ = ["OWNER", "give_up_dead_trials", "open_study", "optuna", "this_process"]

# The attribute of a trial that names its process.
OWNER = "owner"


def give_up_dead_trials(study: Any) -> None:
    """Mark trials of dead processes on this machine as failed, so that they are run again."""
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,), deepcopy=False):
        owner = trial.user_attrs.get(OWNER)
        if owner is not None and owner["host"] == socket.gethostname() and not _is_alive(owner):
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)


def this_process() -> dict[str, Any]:
    """Describe this process, so that others can tell whether it still runs."""
    return {"host": socket.gethostname(), "process": os.getpid(), "born": _start_time(os.getpid())}


def _is_alive(owner: Mapping[str, Any]) -> bool:
    """Whether the process that began the trial still runs; process numbers are reused."""
    try:
        os.kill(int(owner["process"]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return bool(_start_time(int(owner["process"])) == owner["born"])


def _start_time(process: int) -> str:
    """Return when a process was started, in the system's own unit; empty if unknown."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    # The name in parentheses may contain spaces; the start time is the twentieth field after it.
    return text.rpartition(")")[2].split()[19]


def open_study(storage: Any, name: str, identity: str) -> Any:
    """Open the study, new or existing; an error if it has other data or settings."""
    # A warning of optuna's is the traceback of a trial that failed, whose error is raised anyway.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    opened = optuna.create_study(
        storage=_opened_storage(storage),
        study_name=name,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=3),
        direction="maximize",
        load_if_exists=True,
    )
    if opened.user_attrs.get("identity", identity) != identity:
        advice = "Choose another study= (--study) or storage."
        expected = "a study of the same data, metric, space and parameters"
        _checks.fail("tune", "study", expected, f"{name!r} of others", advice)
    opened.set_user_attr("identity", identity)
    return opened


def _opened_storage(storage: Any) -> Any:
    expected = "a journal file, the URL of a database, an optuna storage, or None"
    if storage is None or isinstance(storage, optuna.storages.BaseStorage):
        return storage
    if not isinstance(storage, str | Path):
        _checks.fail("tune", "storage", expected, _checks.describe(storage), error=TypeError)
    try:
        if "://" in str(storage):
            return _database(str(storage))
        return _journal(Path(storage))
    except (OSError, SQLAlchemyError, ValueError) as error:
        got = f"{str(storage)!r} ({error})"
        _checks.fail("tune", "storage", expected, got, "Name a file that does not exist yet.")


def _database(url: str) -> Any:
    with warnings.catch_warnings():
        # The heartbeat distinguishes trials of a dead machine from running ones.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.storages.RDBStorage(url, heartbeat_interval=60)


def _journal(path: Path) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise OSError("which is not an ordinary file")
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            json.loads(file.readline())
    return optuna.storages.JournalStorage(JournalFileBackend(str(path)))
