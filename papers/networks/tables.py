"""The papers' networks for tables."""

from __future__ import annotations

from torch import nn

from eastward import _checks
from eastward.training.members import plain_mlp

__all__ = ["btg_network", "east_network"]


def east_network(num_features: int, num_outputs: int, *, dropout: float = 0.25) -> nn.Sequential:
    """EAST's network for tables: layers of 512, 256 and 128 units, ReLU and dropout after each.

    Parameters
    ----------
    num_features : int
        Columns of the table.
    num_outputs : int
        Logits: the number of classes, or 1 for a single positive-class logit.
    dropout : float, default=0.25
        In [0, 1); the papers search over 0.25 and 0.5.

    Returns
    -------
    Sequential
        ``(N, num_features)`` to ``(N, num_outputs)``.

    References
    ----------
    EAST, E.3.2 and E.4.

    Examples
    --------
    >>> import torch
    >>> east_network(30, 2)(torch.zeros(8, 30)).shape
    torch.Size([8, 2])
    """
    return _network("east_network", num_features, (512, 256, 128), num_outputs, dropout)


def btg_network(num_features: int, num_outputs: int = 1, *, dropout: float = 0.5) -> nn.Sequential:
    """The small network of *Bridging the Gap*: layers of 32 and 16 units, ReLU and dropout after each.

    Parameters
    ----------
    num_features : int
        Columns of the table.
    num_outputs : int, default=1
        Logits: 1 for a single positive-class logit, as in the paper, or the number of classes.
    dropout : float, default=0.5
        In [0, 1); the default is the paper's.

    Returns
    -------
    Sequential
        ``(N, num_features)`` to ``(N, num_outputs)``.

    References
    ----------
    EAST (first version), section 6.4, describes it.

    Examples
    --------
    >>> import torch
    >>> btg_network(6)(torch.zeros(8, 6)).shape
    torch.Size([8, 1])
    """
    return _network("btg_network", num_features, (32, 16), num_outputs, dropout)


def _network(
    caller: str, num_features: int, hidden: tuple[int, ...], num_outputs: int, dropout: float
) -> nn.Sequential:
    inputs = _checks.whole_number(caller, "num_features", num_features, at_least=1)
    outputs = _checks.whole_number(caller, "num_outputs", num_outputs, at_least=1)
    rate = _checks.real(caller, "dropout", dropout)
    if not 0 <= rate < 1:
        _checks.fail(caller, "dropout", "in [0, 1)", dropout)
    return plain_mlp([inputs, *hidden, outputs], rate)
