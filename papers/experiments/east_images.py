"""EAST on pictures: tables 1, 2 and 4 to 7, and table 1 of the first version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from papers.experiments.design import Claim, Experiment, Panel
from papers.experiments.east import (
    BINARY_NOTES,
    FIRST,
    FIRST_PATIENCE,
    METRIC_ROWS,
    SECOND,
    binary_panels,
    table3,
    table_of_first_version,
)
from papers.experiments.figures import Figure, parse_figures
from papers.experiments.methods import BETAS

__all__ = ["EXPERIMENTS"]

CIFAR, CALTECH = ("CIFAR-10", "cifar10"), ("Caltech-256", "caltech256")
TABLE1 = {
    "cifar10": """
        f1_east       .765 .01  .765 .01  .738 .01
        accuracy_east .767 .01  .768 .01  .742 .01
        mcc_east      .760 .01  .761 .01  .735 .01
        dice          .137 .03  .154 .03  .062 .03
        ce            .755 .01  .755 .01  .728 .01""",
    "caltech256": """
        f1_east       .358 .01  .367 .01  .413 .01
        accuracy_east .299 .01  .315 .01  .370 .01
        mcc_east      .024 .01  .026 .00  .214 .01
        dice          .001 .00  .004 .00  .003 .01
        ce            .330 .01  .333 .01  .383 .01""",
}
TABLE2 = {
    "cifar10": """
        f1_east       .765 .01 .765 .01
        accuracy_east .767 .01 .768 .01
        forest        .456 .00 .460 .00
        ccs           .004 .00 .111 .00""",
    "caltech256": """
        f1_east       .358 .01 .367 .01
        accuracy_east .299 .01 .315 .01
        forest        .102 .00 .180 .00
        ccs           .000 .00 .005 .00""",
}
DOG = {
    "cifar10": """
        prefer_dog_0.25 .789 .04 .533 .04 .754 .01
        prefer_dog_5    .518 .05 .769 .03 .761 .01
        ce              .655 .07 .684 .06 .746 .01""",
    "caltech256": """
        prefer_dog_0.25 .040 .06 .038 .05 .329 .01
        prefer_dog_5    .048 .04 .177 .10 .362 .01
        ce              .059 .10 .054 .08 .326 .01""",
}
FROG = {
    "cifar10": """
        prefer_frog_0.25 .892 .02 .714 .03 .766 .00
        prefer_frog_5    .611 .04 .879 .02 .761 .00
        ce               .787 .05 .800 .06 .746 .01""",
    "caltech256": """
        prefer_frog_0.25 .124 .15 .120 .09 .370 .02
        prefer_frog_5    .036 .03 .120 .09 .363 .01
        ce               .022 .06 .020 .04 .326 .01""",
}
FIRST_TABLE1 = {
    "cifar10": """
        prefer_dog_0.25_fixed .831 .03 .503 .03 .763 .01
        prefer_dog_5_fixed    .469 .03 .810 .03 .755 .01
        ce              .655 .07 .684 .06 .746 .01""",
    "caltech256": """
        prefer_dog_0.25_fixed .078 .10 .046 .04 .364 .01
        prefer_dog_5_fixed    .049 .03 .185 .13 .370 .02
        ce                    .059 .10 .054 .08 .326 .01""",
}
TABLE5 = {
    "cifar10": """
        prefer_dog_0.25 .831 .03 .503 .03 .837 .03 .801 .03
        prefer_dog_5    .469 .03 .810 .03 .849 .03 .776 .03""",
    "caltech256": """
        prefer_dog_0.25 .078 .10 .046 .06 .043 .04 .080 .06
        prefer_dog_5    .049 .03 .185 .13 .046 .04 .090 .07""",
}
TABLE6 = """
    beta_0.1  .719 .03 .652 .03
    beta_0.25 .686 .04 .687 .03
    beta_0.5  .695 .03 .674 .04
    beta_1    .684 .03 .684 .04
    beta_2.5  .656 .04 .705 .03
    beta_5    .640 .03 .717 .03
    beta_10   .620 .04 .712 .04"""
TABLE7 = "ce .655 .07 .684 .06 .746 .01\nbeta_2.5 .656 .04 .705 .03 .768 .01"
STAND_IN = (
    "Omniglot stands in for Caltech-256 where that is missing: many classes, few samples of each. Its figures are not "
    "Caltech's and are compared with nothing."
)


PICTURES = (
    "All 60 000 pictures at a quarter of the network's width, bfloat16. F1*, Acc* and MCC* start from scratch, as in "
    "the paper, at its smallest learning rate with batches of 64. They cool after 20 epochs without a lower validation "
    "loss and end after 160 epochs; the paper waits for 50 epochs at each temperature."
)
AFTER = (
    "Rows that begin with «CE, then» are ours: eight epochs of cross-entropy, then three of F-beta as a loss, at T = "
    "0.2 and a fifth of the learning rate; the last epoch is kept. They are compared with as many epochs of "
    "cross-entropy."
)


def _panels(
    rows: Mapping[str, str], scores: tuple[str, ...], claims: tuple[Claim, ...]
) -> tuple[Panel, ...]:
    panels = []
    for title, data in (CIFAR, CALTECH):
        figures: Mapping[str, Mapping[str, Figure]] = parse_figures(rows[data], scores)
        panels.append(
            Panel(
                title, data, "Darknet-19", tuple(figures), scores, figures, claims=claims, key=data
            )
        )
    return tuple(panels)


def _preference_claims(name: str, ending: str = "") -> tuple[Claim, ...]:
    return (
        Claim(f"prefer_{name}_0.25{ending}", "ce", f"precision_{name}"),
        Claim(f"prefer_{name}_5{ending}", "ce", f"recall_{name}"),
        Claim(f"prefer_{name}_0.25{ending}", "ce", "f1_macro"),
        Claim(f"prefer_{name}_5{ending}", "ce", "f1_macro"),
    )


def _with_rows_of_ours(panel: Panel, methods: tuple[str, ...], claims: tuple[Claim, ...]) -> Panel:
    """A panel with further rows, and questions about them that no paper answers."""
    asked = tuple(replace(claim, expected="open") for claim in claims)
    return replace(
        panel, methods=(*panel.methods, *methods), claims=(*panel.claims, *asked), note=AFTER
    )


def _table1() -> Experiment:
    scores = ("f1_macro", "accuracy", "mcc")
    claims = (
        Claim("f1_east", "ce", "f1_macro"),
        Claim("accuracy_east", "ce", "accuracy"),
        Claim("mcc_east", "ce", "mcc"),
        Claim("f1_east", "dice", "f1_macro"),
    )
    cifar, caltech = _panels(TABLE1, scores, claims)
    cifar = replace(
        cifar,
        methods=(*cifar.methods, "f1_warm", "ce_longer"),
        claims=(*claims, Claim("f1_warm", "ce_longer", "f1_macro", expected="open")),
        note=PICTURES,
    )
    stand_in = Panel(
        "Omniglot, for Caltech-256",
        "omniglot",
        "Darknet-19",
        METRIC_ROWS,
        scores,
        note=STAND_IN,
    )
    return Experiment(
        "east-table1",
        "F1, accuracy and MCC as losses on six data sets",
        f"{SECOND}, Table 1",
        (*binary_panels(), cifar, caltech, stand_in),
        BINARY_NOTES,
        minutes=900,
    )


def _table2() -> Experiment:
    scores = ("f1_macro", "accuracy")
    claims = (Claim("f1_east", "forest", "f1_macro"), Claim("f1_east", "ccs", "f1_macro"))
    return Experiment(
        "east-table2",
        "A random forest and a linear classifier, on images",
        f"{SECOND}, Table 2",
        _panels(TABLE2, scores, claims),
        ("RF and CCS see the principal components that explain 80 % of the variance.",),
        minutes=30,
    )


def _table4() -> Experiment:
    dog = _panels(DOG, ("precision_dog", "recall_dog", "f1_macro"), _preference_claims("dog"))
    frog = _panels(FROG, ("precision_frog", "recall_frog", "f1_macro"), _preference_claims("frog"))
    panels = (
        *(replace(panel, title=f"{panel.title}, dog") for panel in _started_first(dog, "dog")),
        *(replace(panel, title=f"{panel.title}, frog") for panel in _started_first(frog, "frog")),
    )
    return Experiment(
        "east-table4",
        "A preference for precision (β = 0.25) or recall (β = 5) of one class",
        f"{SECOND}, Table 4",
        panels,
        minutes=460,
    )


def _started_first(panels: tuple[Panel, ...], name: str) -> tuple[Panel, ...]:
    """CIFAR-10's panel, which comes first, with the preferences that start from cross-entropy."""
    precise, complete = f"after_{name}_0.25", f"after_{name}_5"
    claims = (
        Claim(precise, "ce_longer", f"precision_{name}"),
        Claim(complete, "ce_longer", f"recall_{name}"),
        Claim(precise, "ce_longer", "f1_macro"),
        Claim(complete, "ce_longer", "f1_macro"),
    )
    cifar, *others = panels
    return (_with_rows_of_ours(cifar, (precise, complete, "ce_longer"), claims), *others)


def _first_table1() -> Experiment:
    scores = ("precision_dog", "recall_dog", "f1_macro")
    panels = _panels(FIRST_TABLE1, scores, _preference_claims("dog", "_fixed"))
    return Experiment(
        "east1-table1",
        "A preference for precision or recall of the class dog",
        f"{FIRST}, Table 1",
        tuple(replace(panel, patience=FIRST_PATIENCE) for panel in panels),
        (
            "The text of the paper swaps the values of β: below 1 favours precision. Its table is right.",
            "The first version has no annealing: T stays at 0.2.",
        ),
        minutes=230,
    )


def _table5() -> Experiment:
    scores = ("precision_dog", "recall_dog", "precision_frog", "recall_frog")
    claims = (
        Claim("prefer_dog_0.25", "prefer_dog_5", "precision_dog"),
        Claim("prefer_dog_5", "prefer_dog_0.25", "recall_dog"),
        Claim("prefer_dog_0.25", "prefer_dog_5", "precision_frog"),
        Claim("prefer_dog_0.25", "prefer_dog_5", "recall_frog"),
    )
    cifar, caltech = _panels(TABLE5, scores, claims)
    ours = ("after_dog_0.25", "after_dog_5")
    asked = tuple(
        replace(
            claim,
            method=claim.method.replace("prefer", "after"),
            rival=claim.rival.replace("prefer", "after"),
        )
        for claim in claims
    )
    return Experiment(
        "east-table5",
        "What a preference for dogs does to frogs",
        f"{SECOND}, Table 5",
        (_with_rows_of_ours(cifar, ours, asked), caltech),
        ("The paper says that the frogs' balance stays within a similar range.",),
        minutes=1,
    )


def _table6() -> Experiment:
    scores = ("precision_dog", "recall_dog")
    figures = parse_figures(TABLE6, scores)
    panel = Panel(
        "CIFAR-10",
        "cifar10",
        "Darknet-19",
        tuple(figures),
        scores,
        figures,
        claims=(
            Claim("beta_0.1", "beta_10", "precision_dog"),
            Claim("beta_10", "beta_0.1", "recall_dog"),
        ),
    )
    ours = tuple(f"after_dog_{beta:g}" for beta in BETAS)
    asked = (
        Claim("after_dog_0.1", "after_dog_10", "precision_dog"),
        Claim("after_dog_10", "after_dog_0.1", "recall_dog"),
    )
    panel = _with_rows_of_ours(panel, ours, asked)
    title = "The search for the β of dogs whose precision is that of cross-entropy"
    return Experiment("east-table6", title, f"{SECOND}, Table 6", (panel,), minutes=800)


def _table7() -> Experiment:
    scores = ("precision_dog", "recall_dog", "f1_macro")
    figures = parse_figures(TABLE7, scores)
    panel = Panel(
        "CIFAR-10",
        "cifar10",
        "Darknet-19",
        tuple(figures),
        scores,
        figures,
        claims=(
            Claim("beta_2.5", "ce", "precision_dog"),
            Claim("beta_2.5", "ce", "recall_dog"),
            Claim("beta_2.5", "ce", "f1_macro"),
        ),
    )
    asked = tuple(
        Claim("after_dog_2.5", "ce_longer", score)
        for score in ("precision_dog", "recall_dog", "f1_macro")
    )
    panel = _with_rows_of_ours(panel, ("after_dog_2.5", "ce_longer"), asked)
    title = "A neutral classifier (β = 2.5 for dogs) against cross-entropy"
    return Experiment("east-table7", title, f"{SECOND}, Table 7", (panel,), minutes=1)


EXPERIMENTS = (
    _first_table1(),
    table_of_first_version(),
    _table1(),
    _table2(),
    table3(),
    _table4(),
    _table5(),
    _table6(),
    _table7(),
)
