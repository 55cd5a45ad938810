"""The losses of the package, each beside a formula in NumPy that shares no code with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from eastward import baselines


class Baseline(NamedTuple):
    build: Callable[..., Any]
    oracle: Callable[[np.ndarray, np.ndarray, np.ndarray], float]  # probabilities, labels, weights
    binary_only: bool = False
    smooth: bool = True  # twice differentiable at generic points


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def truth(p, y):
    return p[np.arange(len(y)), y]


def mean(values, w):
    return float((values * w).sum() / w.sum())


def over_classes(p, y, w, score):
    """The value of class 1 of two, or the mean over classes that occur."""
    if p.shape[1] == 2:
        return score(p[:, 1], (y == 1) * 1.0, w)
    occurring = [c for c in range(p.shape[1]) if (w * (y == c)).sum() > 0]
    return np.mean([score(p[:, c], (y == c) * 1.0, w) for c in occurring])


def dice(p, y, w):
    return 2 * (w * p * y).sum() / ((w * p * p).sum() + (w * y * y).sum())


def linear_dice(p, y, w):
    return (2 * (w * p * y).sum() + 0.5) / ((w * p).sum() + (w * y).sum() + 0.5)


def dice_per_sample(p, y, w):
    hot = np.eye(p.shape[1])[y]
    if p.shape[1] == 2:
        p, hot = p[:, 1:], hot[:, 1:]
    return mean(1 - 2 * (p * hot).sum(1) / ((p**2).sum(1) + hot.sum(1)), w)


def smoothed_f_beta(p, y, w, beta):
    """Lee's equation 24, in his symbols."""
    share = (w * y).sum() / w.sum()
    q0, q1 = mean(1 - p, w * y), mean(p, w * (1 - y))
    return (1 + beta**2) * share * (1 - q0) / (share * (beta**2 + 1 - q0 - q1) + q1)


def lee(p, y, w, beta, share, q=None):
    """Lee's equations 20 and 25, weighted by w_y = n / n_y."""
    kappa = beta**2 * share / (1 - share)
    f = p[:, 1]
    if q is None:
        terms = np.where(y == 1, -np.log(f), np.log(kappa + f))
    else:
        terms = np.where(y == 1, (1 - f**q) / q, ((kappa + f) ** q - 1) / q)
    return mean(terms * np.where(y == 1, 1 / share, 1 / (1 - share)), w)


def pairs(p, y, w, margin, power):
    total, mass = 0.0, 0.0
    for i in np.flatnonzero(y == 1):
        for j in np.flatnonzero(y == 0):
            lead = p[i, 1] - p[j, 1]
            total += w[i] * w[j] * ((margin - lead) ** power if lead < margin else 0)
            mass += w[i] * w[j]
    return total / mass


def effective_weights(counts, beta):
    raw = np.array([(1 - beta) / (1 - beta**n) for n in counts])
    return raw / raw.sum() * len(counts)


COUNTS = {2: [70, 30], 3: [60, 30, 10], 5: [10, 20, 30, 40, 50]}


def build_balanced(size=2, **options):
    return baselines.BalancedCrossEntropyLoss(COUNTS[size], **options)


def inverse_weights(size):
    return sum(COUNTS[size]) / np.array(COUNTS[size])


BASELINES = {
    "dice": Baseline(
        lambda size=2, **o: baselines.DiceLoss(**o),
        lambda p, y, w: 1 - over_classes(p, y, w, dice),
    ),
    "dice smooth": Baseline(
        lambda size=2, **o: baselines.DiceLoss(squared=False, smooth=0.5, **o),
        lambda p, y, w: 1 - over_classes(p, y, w, linear_dice),
    ),
    "dice per sample": Baseline(
        lambda size=2, **o: baselines.DiceLoss(per_sample=True, **o), dice_per_sample
    ),
    "soft F1": Baseline(
        lambda size=2, **o: baselines.SoftFBetaLoss(**o),
        lambda p, y, w: 1 - over_classes(p, y, w, lambda a, b, c: smoothed_f_beta(a, b, c, 1.0)),
    ),
    "soft F2": Baseline(
        lambda size=2, **o: baselines.SoftFBetaLoss(2, **o),
        lambda p, y, w: 1 - over_classes(p, y, w, lambda a, b, c: smoothed_f_beta(a, b, c, 2.0)),
    ),
    "surrogate F1": Baseline(
        lambda size=2, **o: baselines.SurrogateFBetaLoss(1.0, 0.3, **o),
        lambda p, y, w: lee(p, y, w, 1.0, 0.3),
        binary_only=True,
    ),
    "surrogate F2 noisy": Baseline(
        lambda size=2, **o: baselines.SurrogateFBetaLoss(2.0, 0.1, 0.7, **o),
        lambda p, y, w: lee(p, y, w, 2.0, 0.1, 0.7),
        binary_only=True,
    ),
    "mae": Baseline(
        lambda size=2, **o: baselines.MAELoss(**o),
        lambda p, y, w: mean(np.abs(np.eye(p.shape[1])[y] - p).sum(1), w),
    ),
    "mae balanced": Baseline(
        lambda size=2, **o: baselines.MAELoss(class_weight=inverse_weights(size), **o),
        lambda p, y, w: mean(2 * (1 - truth(p, y)) * inverse_weights(p.shape[1])[y], w),
    ),
    "focal": Baseline(
        lambda size=2, **o: baselines.FocalLoss(**o),
        lambda p, y, w: mean(-((1 - truth(p, y)) ** 2) * np.log(truth(p, y)), w),
    ),
    "focal 0.5": Baseline(
        lambda size=2, **o: baselines.FocalLoss(0.5, **o),
        lambda p, y, w: mean(-((1 - truth(p, y)) ** 0.5) * np.log(truth(p, y)), w),
    ),
    "balanced cross-entropy": Baseline(
        build_balanced,
        lambda p, y, w: mean(-np.log(truth(p, y)) * inverse_weights(p.shape[1])[y], w),
    ),
    "effective cross-entropy": Baseline(
        lambda size=2, **o: build_balanced(
            size, scheme="effective_number", effective_beta=0.99, **o
        ),
        lambda p, y, w: mean(
            -np.log(truth(p, y)) * effective_weights(COUNTS[p.shape[1]], 0.99)[y], w
        ),
    ),
    "wilcoxon": Baseline(
        lambda size=2, **o: baselines.WilcoxonMannWhitneyLoss(**o),
        lambda p, y, w: pairs(p, y, w, 0.2, 3),
        binary_only=True,
    ),
    "wilcoxon 0.6": Baseline(
        lambda size=2, **o: baselines.WilcoxonMannWhitneyLoss(margin=0.6, power=2, **o),
        lambda p, y, w: pairs(p, y, w, 0.6, 2),
        binary_only=True,
    ),
}
