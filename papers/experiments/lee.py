"""Lee et al.'s figures: convergence of losses, and how a loss goes with the score it stands for."""

from __future__ import annotations

from papers.experiments.design import Claim, Experiment, Panel

__all__ = ["EXPERIMENTS"]

SOURCE = "Lee et al., A surrogate loss for F-beta"
BETAS = ("0.5", "1", "2", "3")
LINE = -0.9
NOTES = (
    (
        "SGD with momentum 0.9, weight decay 1e-4, learning rate 0.01, batches of 100; the mean picture subtracted, a "
        "crop and a coin for the mirror of each picture, another tenth of the training pictures for validation in each "
        "repetition, as in the paper. No early stopping: figures are those of the last epoch."
    ),
)
SETS = {
    "fashion": ("Fashion-MNIST, T-shirt against the rest", "fashion_tshirt", "ResNet-18"),
    "cifar": ("CIFAR-10, airplane against the rest", "cifar10_airplane", "ResNet-34"),
}


def _panel(
    which: str, methods: tuple[str, ...], scores: tuple[str, ...], **options: object
) -> Panel:
    title, data, network = SETS[which]
    return Panel(
        title,
        data,
        network,
        methods,
        scores,
        optimizer="sgd",
        augment=True,
        official_test=True,
        **options,  # type: ignore[arg-type]  # claims only
    )


def _convergence(number: int, which: str) -> Experiment:
    methods = (*(f"surrogate_{beta}" for beta in BETAS), "soft_1", "mae", "ce_balanced")
    claims = tuple(Claim("surrogate_1", rival, "valid_f1", "higher") for rival in ("soft_1", "mae"))
    panel = _panel(which, methods, ("train_f1", "valid_f1", "accuracy"), claims=claims)
    notes = (*NOTES, "The paper prints curves, no figures; its claim is the order of the losses.")
    title = f"Convergence of the surrogate and of other losses: {SETS[which][0]}"
    return Experiment(
        f"lee-figure{number}",
        title,
        f"{SOURCE}, Figure {number}",
        (panel,),
        notes,
        minutes={"fashion": 45, "cifar": 26}[which],
        picture="curves",
    )


def _scatter(number: int, which: str, family: str) -> Experiment:
    methods = tuple(f"{family}_{beta}" for beta in BETAS)
    said = {
        "surrogate": "linearly correlated with the score for all β",
        "soft": "not linearly correlated with the score but for a few β",
    }[family]
    # The paper's words as a bound: a line is a correlation below -0.9.
    expected = {"surrogate": "lower", "soft": "higher"}[family]
    claims = tuple(Claim(method, "", "correlation", expected, bound=LINE) for method in methods)
    panel = _panel(which, methods, ("correlation", "train_f1"), claims=claims)
    loss = {"surrogate": "surrogate F-beta loss", "soft": "macro soft F-beta loss"}[family]
    return Experiment(
        f"lee-figure{number}",
        f"The {loss} against the F-beta score over epochs: {SETS[which][0]}",
        f"{SOURCE}, Figure {number}",
        (panel,),
        (
            *NOTES,
            f"The paper says that the loss is {said}; the correlation over epochs puts a number on it, and "
            f"we call a line what is below {LINE:g}.".replace("-", "−"),
        ),
        minutes={"fashion": 25, "cifar": 15}[which],
        picture="scatter",
    )


def _figure1() -> Experiment:
    """Three curves that need no training: how the losses grow with the share of mistakes of each class."""
    return Experiment(
        "lee-figure1",
        "The two terms of cross-entropy, mean absolute error and surrogate F-beta loss",
        f"{SOURCE}, Figure 1",
        (),
        (
            (
                "Drawn from the formulas (16), (18) and (21); a test compares each curve with `eastward`'s loss at "
                "constant predictions."
            ),
        ),
        minutes=0.1,
        picture="terms",
    )


EXPERIMENTS = (
    _figure1(),
    _convergence(2, "fashion"),
    _scatter(3, "fashion", "surrogate"),
    _scatter(4, "fashion", "soft"),
    _convergence(5, "cifar"),
    _scatter(6, "cifar", "surrogate"),
    _scatter(7, "cifar", "soft"),
)
