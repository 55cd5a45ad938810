"""Checks that the papers leave open: parts of the method, extreme imbalance, cooling schedules, many classes."""

from __future__ import annotations

from papers.experiments.design import Claim, Experiment, Panel
from papers.experiments.methods import METHODS

__all__ = ["EXPERIMENTS"]

SUGGESTED = "suggested in a summary of EAST"
NETWORK = "512-256-128"
# Ten multiclass tables whose smallest class has rows enough for three parts.
MULTICLASS = (
    *("car", "contraceptive", "dermatology", "flare", "page-blocks"),
    *("satimage", "segment", "vowel", "winequality-red", "yeast"),
)
# Four binary tables beside the papers' two, from balanced to one positive in thirty.
BINARY = ("german_credit", "pima", "vehicle1", "yeast4")
RATIOS = (10, 30, 100, 200)
WHOLE = "parts_threshold_matrix_annealing"
LIMITS = {"tables": 400, "rows": 60, "pictures": 30}
BY_SCORE = (
    "All rows share one batch size (256), learning rate (0.001) and dropout (0.25); each keeps the epoch with the "
    "highest validation F1, because losses at different temperatures cannot be compared."
)


def _question(method: str, rival: str, score: str) -> Claim:
    return Claim(method, rival, score, expected="open")


def _ablation() -> Experiment:
    methods = tuple(name for name in METHODS if name.startswith("parts_"))
    claims = tuple(
        _question(WHOLE, rival, "f1_macro")
        for rival in (
            "parts_matrix_annealing",
            "parts_threshold_annealing",
            "parts_threshold_matrix",
            "ce",
        )
    )
    panels = tuple(
        Panel(
            name,
            f"tabular/multiclass/{name}",
            NETWORK,
            (*methods, "ce"),
            ("f1_macro", "accuracy"),
            claims=claims,
            key=name,
            fixed_settings=LIMITS["tables"],
        )
        for name in MULTICLASS
    )
    notes = (
        (
            "Two classes would not do: there the dynamic threshold is always 1/2. Without the matrix, each class has "
            "soft counts against the rest; without the dynamic threshold it is 1/2; without annealing T stays at 0.2."
        ),
        "One batch size (256), learning rate (0.001) and dropout (0.25) for all rows; the lowest validation loss wins.",
    )
    return Experiment(
        "ablation",
        "EAST's three parts, each alone and each removed, on ten multiclass tables",
        SUGGESTED,
        panels,
        notes,
        minutes=40,
        pooled=True,
    )


def _imbalance() -> Experiment:
    methods = (
        *("f1_small_batch", "f1_large_batch", "f1_prior", "f1_running", "f1_exact"),
        *("ce_by_score", "ce_by_score_tuned", "ce_balanced_by_score"),
    )
    claims = tuple(
        _question(method, "ce_by_score_tuned", "f1")
        for method in methods
        if method.startswith("f1_")
    )
    adult = tuple(
        Panel(
            f"Adult, one positive to {ratio} negatives",
            "adult",
            NETWORK,
            methods,
            ("f1", "mcc"),
            options={"features": "clean", "negatives_each": ratio},
            claims=claims,
            key=f"adult_{ratio}",
            fixed_settings=LIMITS["rows"],
        )
        for ratio in RATIOS
    )
    frauds = Panel(
        "Credit cards, one fraud to 578 others",
        "credit_card",
        NETWORK,
        methods,
        ("f1", "mcc"),
        claims=claims,
        key="credit_card",
        fixed_settings=LIMITS["rows"] // 2,
    )
    cover = Panel(
        "Covertype, one row of class 4 to 1000 others",
        "covertype/class4",
        NETWORK,
        methods,
        ("f1", "mcc"),
        options={"negatives_each": 1000},
        claims=claims,
        key="covertype_1000",
        fixed_settings=LIMITS["rows"] // 2,
    )
    return Experiment(
        "imbalance",
        "F1 as a loss while positives become rare, and what helps",
        SUGGESTED,
        (*adult, frauds, cover),
        (
            (
                "All negatives, and as many positives as the ratio allows, in training, validation and test rows. "
                "At least 60 test positives each. An epoch of the credit cards and of Covertype has 200 batches."
            ),
            BY_SCORE,
        ),
        minutes=120,
        pooled=True,
    )


def _schedules() -> Experiment:
    methods = tuple(name for name in METHODS if name.startswith(("fixed_", "plateau_", "falling_")))
    claims = tuple(
        _question(method, "fixed_0.2", "f1") for method in methods if method != "fixed_0.2"
    )
    binary = tuple(
        Panel(
            title,
            data,
            NETWORK,
            methods,
            ("f1",),
            claims=claims,
            key=data.rpartition("/")[2],
            kind="two classes",
            fixed_settings=LIMITS["tables"] // 4,
        )
        for title, data in (
            ("CocktailParty", "cocktail_party"),
            ("Mammography", "mammography"),
            *((name, f"tabular/binary/{name}") for name in BINARY),
        )
    )
    macro = tuple(Claim(c.method, c.rival, "f1_macro", c.expected) for c in claims)
    several = tuple(
        Panel(
            name,
            f"tabular/multiclass/{name}",
            NETWORK,
            methods,
            ("f1_macro",),
            claims=macro,
            key=name,
            kind="several classes",
            fixed_settings=LIMITS["tables"] // 4,
        )
        for name in MULTICLASS
    )
    pictures = Panel(
        "Fashion-MNIST, 4 000 pictures",
        "fashion_mnist",
        "Darknet-19",
        methods,
        ("f1_macro",),
        claims=macro,
        key="fashion_mnist",
        kind="pictures",
        fixed_settings=LIMITS["pictures"],
        precision="float32",
    )
    return Experiment(
        "schedules",
        "What annealing is worth: fixed, geometric, linear and cosine temperatures",
        SUGGESTED,
        (*binary, *several, pictures),
        (
            BY_SCORE,
            "Linear and cosine schedules reach T = 0.01 in the last of a hundred epochs, of thirty for pictures.",
        ),
        minutes=60,
        pooled=True,
    )


def _many_classes() -> Experiment:
    methods = tuple(name for name in METHODS if name.startswith("many_"))
    claims = tuple(
        _question(method, "many_f1", "f1_macro")
        for method in methods
        if method not in {"many_f1", "many_ce"}
    )
    panel = Panel(
        "Omniglot, 200 classes",
        "omniglot",
        "Darknet-19",
        methods,
        ("f1_macro", "accuracy"),
        claims=(
            _question("many_f1", "many_ce", "f1_macro"),
            *claims,
            _question("many_f1_warm", "many_ce", "f1_macro"),
        ),
        note="4 000 pictures, twenty of each class: a batch of 128 has no row of half of the classes. All rows have "
        "twenty epochs.",
        key="omniglot",
        precision="float32",
    )
    return Experiment(
        "many-classes",
        "Why F1 as a loss fails with 200 classes, and what mends it",
        "a check of our own",
        (panel,),
        minutes=60,
    )


EXPERIMENTS = (_ablation(), _imbalance(), _schedules(), _many_classes())
