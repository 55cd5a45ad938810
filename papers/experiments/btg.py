"""Bridging the Gap (Tsoi et al. 2022), tables 1 to 4."""

from __future__ import annotations

from papers.experiments.design import Claim, Experiment, Panel
from papers.experiments.figures import parse_figures

__all__ = ["EXPERIMENTS"]

SOURCE = "Bridging the Gap (NeurIPS 2022)"
ROWS = ("f1_btg", "f1_adversarial", "accuracy_btg", "auroc_btg", "auroc_wmw", "bce")
SCORES = ("grid_f1", "grid_accuracy", "grid_auroc")
OVER_THRESHOLDS = (
    "Scores are means over the thresholds 0.1 … 0.9, in training and in evaluation, as in the paper.",
    (
        "The paper's AUROC is 0.50 for a network that predicts one class and follows F1 elsewhere, which an area under "
        "the ROC curve does not do; it is the AUROC of decisions, their balanced accuracy, and so is ours. The usual "
        "AUROC is in the JSON file."
    ),
)

TABLE1 = {
    "cocktail_party": """
        f1_btg         .75 .01  .85 .01  .82 .01
        f1_adversarial .30 .06  .76 .01  .60 .02
        accuracy_btg   .70 .02  .85 .01  .78 .01
        auroc_btg      .51 .01  .41 .01  .57 .00
        auroc_wmw      .01 .03  .70 .03  .50 .00
        bce            .70 .02  .85 .01  .78 .01""",
    "adult": """
        f1_btg         .63 .02  .78 .04  .78 .02
        f1_adversarial .16 .02  .78 .00  .55 .01
        accuracy_btg   .35 .04  .81 .01  .61 .02
        auroc_btg      .42 .01  .32 .02  .55 .01
        auroc_wmw      .00 .00  .76 .00  .50 .00
        bce            .26 .06  .80 .01  .58 .02""",
    "mammography": """
        f1_btg         .63 .04  .98 .00  .78 .03
        f1_adversarial .46 .08  .98 .00  .66 .04
        accuracy_btg   .00 .00  .97 .00  .50 .00
        auroc_btg      .11 .01  .18 .04  .57 .02
        auroc_wmw      .00 .01  .88 .12  .50 .00
        bce            .56 .11  .99 .00  .71 .06""",
    "credit_card": """
        f1_btg         .83 .02  1.0 .00  .90 .02
        f1_adversarial .76 .06  1.0 .00  .83 .04
        accuracy_btg   .62 .33  1.0 .00  .78 .15
        auroc_btg      .06 .01  .11 .00  .55 .00
        auroc_wmw      .00 .00  .93 .15  .50 .00
        bce            .50 .33  1.0 .00  .73 .16""",
}
FAULT = (
    "As published, **with the fault of the published loader** (ages of test rows are coded 73 to 145, of training "
    "rows 0 to 72); the clean columns are below."
)
PUBLISHED_SETTINGS = (
    "By the published code: Adam, learning rate 0.001, dropout 0.5, batches of 1024, patience 100, a new split each "
    "trial, nothing searched; one data set at a time, 64 % training rows, stratified (theirs: at random)."
)
TITLES = {
    "cocktail_party": "CocktailParty",
    "adult": "Adult",
    "mammography": "Mammography",
    "credit_card": "Kaggle credit-card fraud",
}
# Small sets first: a run that is stopped has most tables whole.
ORDER = ("mammography", "cocktail_party", "adult", "credit_card")


def _table1() -> Experiment:
    claims = (
        Claim("f1_btg", "bce", "grid_f1"),
        Claim("f1_btg", "f1_adversarial", "grid_f1"),
        Claim("f1_btg", "bce", "grid_accuracy", expected="not lower"),
        Claim("f1_btg", "bce", "grid_auroc", expected="not lower"),
        Claim("accuracy_btg", "bce", "grid_accuracy"),
        Claim("auroc_btg", "bce", "grid_auroc"),
    )
    panels = tuple(
        Panel(
            TITLES[data],
            data,
            "32-16",
            ROWS,
            SCORES,
            parse_figures(TABLE1[data], SCORES),
            claims=claims,
            note=FAULT if data == "adult" else "",
            optimizer="adam",
            key=data,
        )
        for data in ORDER
    )
    return Experiment(
        "btg-table1",
        "F1, accuracy and AUROC as losses on four binary tables",
        f"{SOURCE}, Table 1",
        (*panels, *_variants()),
        (*OVER_THRESHOLDS, PUBLISHED_SETTINGS),
        minutes=60,
    )


def _variants() -> tuple[Panel, ...]:
    """What stands beside the paper's four tables: Adult without its fault, other steps, and time."""
    sigmoid = Panel(
        "Mammography, sigmoid step",
        "mammography",
        "32-16",
        ("f1_btg", "f1_btg_sigmoid", "f1_btg_delta_0.1"),
        SCORES,
        claims=(Claim("f1_btg_sigmoid", "f1_btg", "grid_f1", expected="not lower"),),
        note="The paper says that the sigmoid step is comparable; its figures are in a supplement that we do not have. "
        "δ = 0.1 is ours: the paper's step with a flatter middle.",
        optimizer="adam",
        key="steps",
    )
    every = Panel(
        "Adult, clean",
        "adult",
        "32-16",
        ("f1_btg", "accuracy_btg", "bce"),
        SCORES,
        options={"features": "clean"},
        claims=(
            Claim("f1_btg", "bce", "grid_f1", expected="open"),
            Claim("accuracy_btg", "bce", "grid_accuracy", expected="open"),
        ),
        note="The thirteen columns without the fault of the published loader; the paper has no figures for it.",
        optimizer="adam",
        key="adult_clean",
    )
    cost = Panel(
        "Mammography, time",
        "mammography",
        "32-16",
        ("f1_btg", "f1_adversarial", "bce"),
        ("row_microseconds", "train_minutes", "epochs"),
        claims=(Claim("f1_adversarial", "f1_btg", "row_microseconds", expected="higher"),),
        note="CPU time of one core. The adversarial loss was timed on a loaded machine and has batches of 25; the "
        "other rows were timed on a quiet one and have batches of 1024, so the ratio is too large. Training with the "
        "adversarial loss is cut short at the scale `cpu` (20 batches of 25 in an epoch, ten epochs), so that only the "
        "time for one row can be compared. The paper: 70 minutes in all for the adversarial loss, 2.3 for ours.",
        optimizer="adam",
        key="time",
    )
    return every, sigmoid, cost


def _table2() -> Experiment:
    scores = ("grid_f1", "grid_accuracy")
    figures = {
        "cifar10_transportation": "f1_btg .91 .00 .93 .00\naccuracy_btg .92 .00 .93 .00\nbce .88 .01 .91 .00",
        "cifar10_frog": "f1_btg .73 .01 .95 .00\naccuracy_btg .74 .01 .95 .00\nbce .59 .04 .94 .00",
    }
    panels = tuple(
        Panel(
            f"CIFAR-10-{title}",
            data,
            "Darknet-19",
            ("f1_btg", "accuracy_btg", "bce"),
            scores,
            parse_figures(figures[data], scores),
            claims=(
                Claim("f1_btg", "bce", "grid_f1"),
                Claim("accuracy_btg", "bce", "grid_accuracy"),
            ),
            key=data,
        )
        for data, title in (("cifar10_transportation", "Transportation"), ("cifar10_frog", "Frog"))
    )
    return Experiment(
        "btg-table2",
        "F1 and accuracy as losses on two binary tasks of CIFAR-10",
        f"{SOURCE}, Table 2",
        panels,
        (
            OVER_THRESHOLDS[0],
            "The paper's network for pictures is in a supplement that we do not have: Darknet-19, as in EAST, serves.",
        ),
        minutes=220,
    )


def _table3() -> Experiment:
    scores = ("grid_f1", "grid_accuracy")
    figures = "f1_btg .83 .01 .77 .01\naccuracy_btg .77 .02 .72 .02\nbce .81 .03 .75 .03"
    panel = Panel(
        "CocktailParty as graphs",
        "cocktail_frames",
        "graph",
        ("f1_btg", "accuracy_btg", "bce"),
        scores,
        parse_figures(figures, scores),
        claims=(Claim("f1_btg", "bce", "grid_f1"),),
        note="Whole frames are split, so no pair of a test frame was seen. Positive: the two stand in one group, the "
        "more frequent class (an F1 above the accuracy allows nothing else).",
    )
    return Experiment(
        "btg-table3",
        "F1 and accuracy as losses of a graph network",
        f"{SOURCE}, Table 3",
        (panel,),
        (
            OVER_THRESHOLDS[0],
            "Thompson et al.'s hyper-parameters are not in the paper: width 64 and two rounds are ours.",
        ),
        minutes=30,
    )


def _table4() -> Experiment:
    scores = ("grid_f1", "grid_f2", "grid_f3", "grid_precision", "grid_recall")
    figures = """
        f1_btg .61 .06  .57 .06  .56 .06  .70 .06  .55 .07
        f2_btg .63 .04  .67 .04  .69 .04  .57 .05  .71 .04
        f3_btg .57 .03  .69 .02  .75 .02  .44 .04  .81 .03"""
    panel = Panel(
        "Mammography",
        "mammography",
        "32-16",
        ("f1_btg", "f2_btg", "f3_btg"),
        scores,
        parse_figures(figures, scores),
        claims=(
            Claim("f2_btg", "f1_btg", "grid_recall"),
            Claim("f3_btg", "f2_btg", "grid_recall"),
            Claim("f1_btg", "f2_btg", "grid_precision"),
            Claim("f3_btg", "f1_btg", "grid_f3"),
        ),
        optimizer="adam",
        key="mammography",
    )
    return Experiment(
        "btg-table4",
        "F-beta as a loss moves the balance of precision and recall",
        f"{SOURCE}, Table 4",
        (panel,),
        OVER_THRESHOLDS[:1],
        minutes=5,
    )


EXPERIMENTS = (_table1(), _table2(), _table3(), _table4())
