"""Which kernel runs: by capability, or as the environment variable EASTWARD_KERNEL says.

``auto`` takes numba on a CPU and Triton on a GPU where they are installed, and plain PyTorch elsewhere. ``definition``
turns all kernels off: the loss is then the composition of its parts, differentiated by autograd.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import os
from typing import TYPE_CHECKING, cast

from eastward import _checks

if TYPE_CHECKING:
    from eastward.kernels.problems import Backend

__all__ = ["KERNELS", "KEY", "VARIABLE", "VARIABLES", "backend_for", "wanted_kernel"]

VARIABLE = "EASTWARD_KERNEL"
KERNELS = ("auto", "eager", "numba", "triton", "definition")

_MODULES = {"eager": "eager", "numba": "compiled", "triton": "tiled"}
_EXTRAS = {"numba": "fast", "triton": "fast"}
_DEVICES = {"numba": ("cpu",), "triton": ("cuda", "xpu")}
# What is behind ``os.environ``: bytes on POSIX, words on Windows.
VARIABLES: dict[str | bytes, str | bytes] = os.environ._data  # type: ignore[attr-defined]  # noqa: SLF001
KEY = os.environ.encodekey(VARIABLE)
_logger = logging.getLogger("eastward")


def backend_for(device_type: str) -> Backend | None:
    """The kernels for tensors on ``device_type``; None for the definition.

    Examples
    --------
    >>> backend_for("meta").__name__
    'eastward.kernels.eager'
    """
    return _backend(wanted_kernel(), device_type)


def wanted_kernel() -> str:
    """What the environment asks for.

    Examples
    --------
    >>> wanted_kernel() in KERNELS
    True
    """
    # ``os.environ.get`` is four functions in Python, each time a loss is computed.
    value: str | bytes | None = VARIABLES.get(KEY)
    if value is None:
        return "auto"
    return value if isinstance(value, str) else os.fsdecode(value)


@functools.cache
def _backend(wanted: str, device_type: str) -> Backend | None:
    _checks.one_of("eastward", f"the environment variable {VARIABLE}", wanted, KERNELS)
    name = _best(device_type) if wanted == "auto" else wanted
    if name == "definition":
        return None
    _logger.info("EAST losses on %s use the %s kernel (%s=%s)", device_type, name, VARIABLE, wanted)
    try:
        module = importlib.import_module(f"eastward.kernels.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        advice = f"install it with  pip install 'eastward[{_EXTRAS[name]}]'"
        message = f"{VARIABLE}={wanted} needs {error.name}: {advice}"
        raise ModuleNotFoundError(message, name=error.name) from error
    return cast("Backend", module)


def _best(device_type: str) -> str:
    for name, devices in _DEVICES.items():
        if device_type in devices and importlib.util.find_spec(name) is not None:
            return name
    return "eager"
