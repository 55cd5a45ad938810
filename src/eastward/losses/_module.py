"""What all loss modules share: a temperature that is checked on assignment and loading, and sums over processes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.distributed import agree_on_classes, resolve_reduce
from eastward.protocols import Reduce

__all__ = ["LossModule", "new_buffer"]


class LossModule(nn.Module):
    """A loss with a 0-d buffer ``temperature``; assign a number to cool it.

    Parameters
    ----------
    temperature : float
        In (0, 0.4].
    """

    temperature: Any
    process_group: Any

    def __init__(self, temperature: float) -> None:
        super().__init__()
        _checks.one_temperature(type(self).__name__, temperature)
        self.register_buffer("temperature", new_buffer(torch.tensor(float(temperature))))

    def __setattr__(self, name: str, value: Any) -> None:
        current = getattr(self, "temperature", None) if name == "temperature" else None
        if current is not None:
            _checks.one_temperature(type(self).__name__, value)
            # A new tensor instead of fill_, so that graphs recorded at the old temperature keep it.
            value = torch.as_tensor(float(value), dtype=current.dtype, device=current.device)
            value = new_buffer(value)
        super().__setattr__(name, value)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        rest = (local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        saved = state_dict.get(prefix + "temperature")
        if saved is not None:
            try:
                _checks.one_temperature(type(self).__name__, saved)
            except (TypeError, ValueError) as error:
                error_msgs.append(str(error))
                return
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def __getstate__(self) -> dict[str, Any]:
        # Rebuilt after loading: the steps from the options, and the agreement with the processes of another job.
        own = ("_known_steps", "_agreed")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def sum_over_processes(self, logits: Any) -> Reduce | None:
        """Return the sum over processes; in the first batch, check that all have the same number of classes."""
        reduce = resolve_reduce(self.process_group)
        if reduce is None:
            return None
        asks = not (self.__dict__.get("_agreed") or torch.compiler.is_compiling())
        if asks and isinstance(logits, Tensor):
            agree_on_classes(type(self).__name__, logits, reduce)
            self.__dict__["_agreed"] = True
        return reduce


def new_buffer(value: Tensor | None) -> Any:
    """Return a buffer that autograd can use later, even if made in ``torch.inference_mode``."""
    if value is None or torch.compiler.is_compiling() or not value.is_inference():
        return value
    with _ordinary_mode():
        return value.clone()


def _ordinary_mode() -> AbstractContextManager[Any]:
    return torch.inference_mode(mode=False) if torch.is_inference_mode_enabled() else nullcontext()
