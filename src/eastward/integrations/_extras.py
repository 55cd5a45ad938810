"""The error message for a missing extra."""

from __future__ import annotations


def missing_extra(module: str, error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Make the error for a ``module`` that cannot be imported without ``extra``.

    Examples
    --------
    >>> cause = ModuleNotFoundError("No module named 'skorch'", name="skorch")
    >>> print(missing_extra("eastward.integrations.skorch", cause, "skorch"))
    eastward.integrations.skorch needs skorch: install it with  pip install 'eastward[skorch]'
    """
    message = f"{module} needs {error.name}: install it with  pip install 'eastward[{extra}]'"
    return ModuleNotFoundError(message, name=error.name)
