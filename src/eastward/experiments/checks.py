"""Three checks that the papers leave open: parts of the method, extreme imbalance, and cooling schedules."""

from __future__ import annotations

from eastward.experiments.design import Claim, Experiment, Panel
from eastward.experiments.methods import METHODS

__all__ = ["EXPERIMENTS"]

SUGGESTED = "suggested in a summary of EAST"


def _question(method: str, rival: str, score: str) -> Claim:
    return Claim(method, rival, score, is_open=True)


def _ablation() -> Experiment:
    methods = tuple(name for name in METHODS if name.startswith("parts_"))
    panel = Panel(
        "Digits, long-tailed",
        "digits_long_tail",
        "512-256-128",
        (*methods, "ce"),
        ("f1_macro", "accuracy", "epochs"),
        claims=(
            _question("parts_threshold_matrix_annealing", "parts_matrix_annealing", "f1_macro"),
            _question("parts_threshold_matrix_annealing", "parts_threshold_annealing", "f1_macro"),
            _question("parts_threshold_matrix_annealing", "parts_threshold_matrix", "f1_macro"),
        ),
        note="Two classes would not do: there the dynamic threshold is always 1/2. Without the matrix, each class has "
        "soft counts against the rest; without the dynamic threshold it is 1/2; without annealing T stays at 0.2.",
    )
    title = "EAST's three parts, each alone and each removed"
    return Experiment("ablation", title, SUGGESTED, (panel,), minutes=1)


def _imbalance() -> Experiment:
    panels = tuple(
        Panel(
            f"Adult, one positive to {ratio} negatives",
            "adult",
            "512-256-128",
            ("f1_east", "f1_east_fixed", "ce", "ce_tuned", "ce_balanced"),
            ("f1", "mcc"),
            options={"features": "all", "negatives_each": ratio},
            claims=(_question("f1_east", "ce", "f1"), _question("f1_east", "ce_tuned", "f1")),
        )
        for ratio in (10, 30, 100, 300, 1000)
    )
    return Experiment(
        "imbalance",
        "F1 as a loss while positives become rare",
        SUGGESTED,
        panels,
        ("All negatives of Adult, and so many of its positives as the ratio allows.",),
        minutes=22,
    )


def _schedules() -> Experiment:
    methods = tuple(name for name in METHODS if name.startswith("schedule_"))
    panels = tuple(
        Panel(title, data, "512-256-128", methods, ("f1", "epochs"))
        for title, data in (("CocktailParty", "cocktail_party"), ("Mammography", "mammography"))
    )
    title = "Start, rate and patience of cooling: how long training takes and what it gains"
    return Experiment("schedules", title, SUGGESTED, panels, minutes=15)


EXPERIMENTS = (_ablation(), _imbalance(), _schedules())
