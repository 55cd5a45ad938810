"""The figures of the documentation: ``make_all(folder)`` draws every one of them.

The documentation build calls it; ``python docs/figures.py folder`` does the same by hand. Everything is computed
here with the library itself, from fixed seeds. Nothing is read from a file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation
from torch import Tensor

import eastward as ew

# Okabe and Ito's palette: distinct for colour-blind readers and in print.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7c7c7c"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
# From light to dark: the cooler the temperature, the darker the line; the last one still shows on a dark page.
COOLING = ("#9ecae1", "#5aa5d6", "#2f7fc1", "#4b5fc4")

STYLE = {
    "savefig.transparent": True,
    "figure.constrained_layout.use": True,
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "svg.hashsalt": "eastward",
}
# The site has a dark mode: every figure is drawn twice, on no background of its own.
DARK = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), "#d8dde3"),
    **dict.fromkeys(("xtick.color", "ytick.color"), "#d8dde3"),
    "grid.color": "#3a4450",
}
VARIANTS = {"": {}, "-dark": DARK}


def make_all(output_dir: Path) -> list[Path]:
    """Draw all figures into ``output_dir`` and return their paths."""
    output_dir.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, colours in VARIANTS.items():
        with mpl.rc_context({**STYLE, **colours}):
            for name, draw in FIGURES.items():
                figure = draw()
                path = (output_dir / name).with_stem(f"{Path(name).stem}{suffix}")
                settings = {"Date": None} if path.suffix == ".svg" else {}
                figure.savefig(path, dpi=160, metadata=settings)
                plt.close(figure)
                paths.append(path)
    return paths


# --- what the library does ---------------------------------------------------------------------------


def the_idea() -> Figure:
    """One minus macro-F1 along one direction: a staircase, and the surrogate that has a slope."""
    logits, targets = _noisy_logits(n=60, classes=3, seed=3)
    shifts = torch.linspace(-3, 3, 601)
    direction = torch.tensor([1.0, 0.0, -1.0])
    figure, axes = plt.subplots(figsize=(7, 3.6))
    for temperature, colour in zip((0.2, 0.1, 0.02), COOLING[1:], strict=True):
        values = _losses_along(logits, targets, direction, shifts, temperature=temperature)
        axes.plot(shifts, values, color=colour, label=f"surrogate, T = {temperature}")
    hard = _losses_along(logits, targets, direction, shifts, step="hard")
    axes.plot(shifts, hard, color=ORANGE, lw=1.3, label="1 − macro-F1 itself")
    axes.set(
        xlabel="shift of the class biases (one direction in weight space)",
        ylabel="loss",
        xlim=(-3, 3),
    )
    axes.legend(loc="upper center", ncols=2)
    axes.set_ylim(top=1.12 * axes.get_ylim()[1])
    return figure


def _losses_along(
    logits: Tensor, targets: Tensor, direction: Tensor, shifts: Tensor, **options: float | str
) -> list[float]:
    return [
        ew.metric_loss(logits + shift * direction, targets, "f1_macro", **options).item()
        for shift in shifts
    ]


def the_step() -> Figure:
    """The piecewise-linear step at several temperatures, for two thresholds."""
    p = torch.linspace(0, 1, 1001, dtype=torch.float64)
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True)
    for axes, tau in zip(panels, (0.5, 0.3), strict=True):
        for temperature, colour in zip((0.35, 0.2, 0.1, 0.02), COOLING, strict=True):
            values = ew.heaviside(p, tau, temperature)
            axes.plot(p, values, color=colour, label=f"T = {temperature}")
        axes.plot(p, ew.hard_step(p, tau), color=ORANGE, lw=1.2, ls="--", label="hard step")
        axes.plot(tau, 0.5, "o", color=mpl.rcParams["text.color"])
        axes.set(title=f"threshold τ = {tau}", xlabel="probability p")
    panels[0].set_ylabel("step")
    panels[1].legend(loc="lower right")
    return figure


def the_simplex() -> Figure:
    """Membership of class 1 on the simplex of three probabilities, hot to cold."""
    points, plane = _simplex_grid(steps=160)
    figure, panels = plt.subplots(1, 3, figsize=(9, 3.3))
    image = None
    for axes, temperature in zip(panels, (0.3, 0.2, 0.02), strict=True):
        degrees = ew.soft_memberships(points, temperature)[:, 0]
        image = axes.tripcolor(plane, degrees, cmap="cividis", vmin=0, vmax=1, shading="gouraud")
        axes.tricontour(plane, degrees, levels=[0.25, 0.5, 0.75], colors="white", linewidths=0.8)
        axes.set(title=f"T = {temperature}", aspect="equal", xlim=(-0.2, 1.2), ylim=(-0.12, 1.0))
        axes.axis("off")
        for name, at in (("p₁ = 1", (0.5, 0.89)), ("p₂ = 1", (0, -0.04)), ("p₃ = 1", (1, -0.04))):
            above = at[1] > 0
            axes.text(*at, name, ha="center", va="bottom" if above else "top")
    figure.colorbar(image, ax=panels, label="membership of class 1", shrink=0.75, pad=0.01)
    return figure


def _simplex_grid(steps: int) -> tuple[Tensor, Triangulation]:
    pairs = np.array([(i, j) for i in range(steps + 1) for j in range(steps + 1 - i)])
    # Triangulated on whole numbers: rounded coordinates would leave slivers out along the edges.
    triangles = Triangulation(*pairs.T).triangles
    shares = np.column_stack([pairs, steps - pairs.sum(1)]) / steps
    corners = np.array([[0.5, math.sqrt(0.75)], [0.0, 0.0], [1.0, 0.0]])
    return torch.from_numpy(shares), Triangulation(*(shares @ corners).T, triangles)


# --- what the theorems say ---------------------------------------------------------------------------


def lipschitz_constant() -> Figure:
    """Largest slope of the step: the theorem's value as a line, the measured one as dots."""
    temperatures = torch.logspace(math.log10(0.005), math.log10(0.38), 200, dtype=torch.float64)
    measured_at = temperatures[::16]
    figure, axes = plt.subplots(figsize=(7, 3.6))
    for tau, colour in zip((0.5, 0.3, 0.1), COLOURS, strict=False):
        proven = [ew.theory.heaviside_lipschitz(tau, heat) for heat in temperatures.tolist()]
        axes.loglog(temperatures, proven, color=colour, label=f"τ = {tau}")
        measured = [_largest_secant(tau, float(heat)) for heat in measured_at]
        axes.loglog(measured_at, measured, "o", color=colour)
    axes.plot([], [], "o", color=GREY, label="largest measured slope")
    axes.axvline(2 / 9, color=GREY, lw=1, ls=":")
    axes.text(0.215, 150, "T = 2/9", ha="right", color=GREY)
    axes.set(xlabel="temperature T", ylabel="Lipschitz constant")
    axes.legend(loc="lower left")
    return figure


def _largest_secant(tau: float, temperature: float) -> float:
    p = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    values = ew.heaviside(p, tau, temperature)
    return float((values.diff() / p.diff()).max())


class Population(NamedTuple):
    """A finite population; samples are drawn from it with replacement, so its matrix is known exactly."""

    targets: Tensor
    tables: Tensor
    confusion: Tensor


def _population(
    shares: Sequence[float], temperature: float = 0.2, size: int = 20_000
) -> Population:
    classes = len(shares)
    logits, targets = _noisy_logits(size, classes, seed=0, shares=shares)
    memberships = ew.soft_memberships(logits.softmax(1), temperature)
    truth = torch.nn.functional.one_hot(targets, classes).to(memberships)
    tables = truth.unsqueeze(2) * memberships.unsqueeze(1)
    return Population(targets, tables.flatten(1), tables.mean(0))


def _sampled_confusions(population: Population, n: int, repetitions: int) -> Tensor:
    """Mean tables of ``repetitions`` samples of size ``n``, ``(repetitions, C, C)``."""
    generator = torch.Generator().manual_seed(n)
    size = len(population.targets)
    chosen = torch.randint(size, (repetitions, n), generator=generator)
    means = [population.tables[rows].mean(0) for rows in chosen]
    return torch.stack(means).unflatten(1, population.confusion.shape)


SAMPLE_SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)


def concentration() -> Figure:
    """Theorem 5.8: the bound on the largest error of the matrix, and what simulation finds."""
    population, failure = _population([0.25] * 4), 0.05
    n = np.array(SAMPLE_SIZES)
    errors = [
        (_sampled_confusions(population, size, 400) - population.confusion).abs().amax((1, 2))
        for size in SAMPLE_SIZES
    ]
    figure, axes = plt.subplots(figsize=(7, 3.6))
    bound = [ew.theory.confusion_error(size, 4, failure) for size in SAMPLE_SIZES]
    axes.loglog(n, bound, color=ORANGE, label="bound, δ = 0.05")
    worst = [error.quantile(1 - failure).item() for error in errors]
    axes.loglog(n, worst, "o-", color=BLUE, label="simulated 95 % quantile")
    axes.loglog(n, [error.median().item() for error in errors], "o--", color=BLUE, label="median")
    axes.set(xlabel="samples n", ylabel="largest error of an entry")
    axes.legend()
    return figure


def rate() -> Figure:
    """Theorem 5.9: the error of a metric falls like one over the root of n, from a height set by rarity."""
    figure, panels = plt.subplots(1, 2, figsize=(8.5, 3.7), sharey=True)
    even = _population([0.25] * 4)
    for name, colour in zip(("accuracy", "f1_macro", "matthews_corrcoef"), COLOURS, strict=False):
        _plot_rate(panels[0], even, name, colour, name)
    for rare, colour in zip((0.25, 0.05, 0.01), (ORANGE, PURPLE, GREEN), strict=True):
        skewed = _population([*[(1 - rare) / 3] * 3, rare])
        _plot_rate(panels[1], skewed, "f1_macro", colour, f"rarest class {rare:.0%}")
    for axes, title in zip(panels, ("four equal classes", "macro-F1, one rare class"), strict=True):
        guide = 0.8 / np.sqrt(np.array(SAMPLE_SIZES))
        axes.loglog(SAMPLE_SIZES, guide, color=GREY, ls=":", label="slope of 1/√n")
        axes.set(title=title, xlabel="samples n")
        axes.legend(loc="lower left")
    panels[0].set_ylabel("mean error of the metric")
    return figure


def _plot_rate(axes: Axes, population: Population, name: str, colour: str, label: str) -> None:
    metric = ew.metrics.get(name)
    if metric.per_class:
        metric = metric.with_options(absent="skip")
    true_value = metric(population.confusion)
    errors = [
        _values(metric, _sampled_confusions(population, n, 200)).sub(true_value).abs().mean().item()
        for n in SAMPLE_SIZES
    ]
    axes.loglog(SAMPLE_SIZES, errors, "o-", color=colour, label=label)


def _values(metric: Callable[[Tensor], Tensor], confusions: Tensor) -> Tensor:
    return torch.stack([metric(confusion) for confusion in confusions])


def dirichlet_consistency() -> Figure:
    """Hard and soft macro-F2 under the Dirichlet model: both meet at the closed-form limit."""
    beta, shares, chances = 2.0, np.array([0.6, 0.3, 0.1]), _model_chances()
    hits = shares * chances.diagonal()
    limit = np.mean((1 + beta**2) * hits / (beta**2 * shares + shares @ chances))
    figure, axes = plt.subplots(figsize=(7, 3.6))
    for kind, colour, label in (("hard", ORANGE, "hard"), ("soft", BLUE, "soft (Dirichlet)")):
        draws = [_model_scores(kind, n, shares, chances, beta) for n in MODEL_SIZES]
        low, middle, high = np.quantile(np.array(draws), [0.05, 0.5, 0.95], axis=1)
        axes.fill_between(MODEL_SIZES, low, high, color=colour, alpha=0.2, lw=0)
        axes.semilogx(MODEL_SIZES, middle, "o-", color=colour, label=f"{label}: median, 5–95 %")
    axes.axhline(
        limit, color=mpl.rcParams["text.color"], lw=1.2, ls="--", label="limit, equation 10"
    )
    axes.set(xlabel="samples n", ylabel="macro-F₂")
    axes.legend(loc="lower right")
    return figure


MODEL_SIZES = (50, 100, 200, 500, 1000, 2000, 5000, 10_000)


def _model_chances() -> np.ndarray:
    """Chance that the row's class is taken for the column's."""
    return np.array([[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.2, 0.2, 0.6]])


def _model_scores(
    kind: str, n: int, shares: np.ndarray, chances: np.ndarray, beta: float
) -> list[float]:
    random = np.random.default_rng(n)
    sizes = np.round(shares * n).astype(int)
    scores = []
    for _ in range(120):
        if kind == "hard":
            rows = [random.multinomial(k, row) for k, row in zip(sizes, chances, strict=True)]
        else:
            rows = [
                random.dirichlet(4 * row, k).sum(0) for k, row in zip(sizes, chances, strict=True)
            ]
        scores.append(ew.metrics.f_beta(torch.tensor(np.array(rows)), beta).item())
    return scores


def cooling() -> Figure:
    """Theorem 5.3: the largest gap between soft and hard metric over random networks, as T falls."""
    temperatures = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
    networks = [_network_probabilities(seed) for seed in range(20)]
    figure, axes = plt.subplots(figsize=(7, 3.6))
    for name, colour in zip(("accuracy", "f1_macro", "matthews_corrcoef"), COLOURS, strict=False):
        metric = ew.metrics.get(name)
        gaps = [max(_gap(metric, network, heat) for network in networks) for heat in temperatures]
        axes.loglog(temperatures, gaps, "o-", color=colour, label=name)
    axes.set(xlabel="temperature T (cooling to the right)", ylabel="largest gap to the hard metric")
    axes.invert_xaxis()
    axes.legend(loc="lower left")
    return figure


def _network_probabilities(seed: int) -> tuple[Tensor, Tensor]:
    """Output of an untrained random network on random input, and random labels."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(4000, 10, generator=generator, dtype=torch.float64)
    first = torch.randn(10, 32, generator=generator, dtype=torch.float64) / 10**0.5
    second = torch.randn(32, 5, generator=generator, dtype=torch.float64)
    targets = torch.randint(5, (4000,), generator=generator)
    return ((inputs @ first).relu() @ second).softmax(1), targets


def _gap(
    metric: Callable[[Tensor], Tensor], network: tuple[Tensor, Tensor], temperature: float
) -> float:
    probabilities, targets = network
    soft = ew.soft_confusion(ew.soft_memberships(probabilities, temperature), targets)
    hard = ew.soft_confusion(ew.soft_memberships(probabilities, step="hard"), targets)
    return (metric(soft) - metric(hard)).abs().item()


def _noisy_logits(
    n: int, classes: int, *, seed: int, shares: Sequence[float] | None = None
) -> tuple[Tensor, Tensor]:
    """Logits of a middling classifier: the true class is raised by 1.5, everything else is noise."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.tensor(shares or [1.0] * classes)
    targets = torch.multinomial(weights, n, replacement=True, generator=generator)
    noise = torch.randn(n, classes, generator=generator)
    return noise + 1.5 * torch.nn.functional.one_hot(targets, classes), targets


FIGURES: dict[str, Callable[[], Figure]] = {
    "idea.svg": the_idea,
    "step.svg": the_step,
    "simplex.png": the_simplex,
    "lipschitz.svg": lipschitz_constant,
    "concentration.svg": concentration,
    "rate.svg": rate,
    "dirichlet.svg": dirichlet_consistency,
    "cooling.svg": cooling,
}


if __name__ == "__main__":
    make_all(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/_generated"))
