"""The choice of a kernel: the first row of a table that fits, or the kernel that EASTWARD_KERNEL names.

``auto`` takes numba on a CPU and Triton on a GPU if they are installed, and plain PyTorch otherwise.
``definition`` turns all of them off: tables are then computed by their definition and differentiated by autograd.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import os
from typing import TYPE_CHECKING, NamedTuple, cast

from eastward import _checks

if TYPE_CHECKING:
    from eastward.kernels.problems import Kernel

__all__ = ["KERNELS", "VARIABLE", "kernel_for"]

VARIABLE = "EASTWARD_KERNEL"
KERNELS = ("auto", "eager", "numba", "triton", "definition")


class _Row(NamedTuple):
    name: str
    devices: tuple[str, ...]
    kinds: tuple[str, ...]
    module: str
    package: str


# A row applies to tensors on one of its devices (none: on any) and to its kinds of problems (see kernels.problems),
# if its package is installed. If no row fits, the definition is used.
_TABLE = (
    _Row("numba", ("cpu",), ("top2", "fixed", "pair", "labels"), "compiled", "numba"),
    _Row("triton", ("cuda", "xpu"), ("top2",), "tiled", "triton"),
    _Row("eager", (), ("top2", "pair", "labels"), "plain", "torch"),
)
_logger = logging.getLogger("eastward")


def kernel_for(device_type: str, kind: str) -> Kernel | None:
    """Return the kernel for tensors on ``device_type`` and a kind of problem; None for the definition.

    Examples
    --------
    >>> kernel_for("mps", "labels").__name__
    'eastward.kernels.plain'
    """
    return _kernel(os.environ.get(VARIABLE, "auto"), device_type, kind)


@functools.cache
def _kernel(wanted: str, device_type: str, kind: str) -> Kernel | None:
    _checks.one_of("eastward", f"the environment variable {VARIABLE}", wanted, KERNELS)
    if wanted == "definition":
        return None
    for row in _TABLE:
        if _fits(row, wanted, device_type) and kind in row.kinds:
            if importlib.util.find_spec(row.package) is not None:
                return _loaded(row, wanted, device_type)
            if wanted == row.name:
                advice = "install it with  pip install 'eastward[tabular]'"
                message = f"{VARIABLE}={wanted} needs {row.package}: {advice}"
                raise ModuleNotFoundError(message, name=row.package)
    return None


def _fits(row: _Row, wanted: str, device_type: str) -> bool:
    if wanted == row.name == "triton":
        # If EASTWARD_KERNEL names it, it also runs on a CPU, through Triton's interpreter.
        return True
    asked = wanted in (row.name, "auto") or row.name == "eager"
    return asked and (not row.devices or device_type in row.devices)


def _loaded(row: _Row, wanted: str, device_type: str) -> Kernel:
    _logger.info(
        "EAST losses on %s use the %s kernel (%s=%s)", device_type, row.name, VARIABLE, wanted
    )
    return cast("Kernel", importlib.import_module(f"eastward.kernels.{row.module}"))
