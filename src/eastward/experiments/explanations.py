"""Why a figure of ours is lower than a paper's by more than two pooled deviations: one checked line each."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from types import MappingProxyType

__all__ = ["explanation"]

# "experiment/data/method/score", with wildcards; the first that fits is used.
_STAYS = "It stays at the majority class, whose share the accuracy is, in every trial and at both learning rates"
_EXPLANATIONS: Mapping[str, str] = MappingProxyType(
    {
        "btg-table2/cifar10_transportation/f1_btg/*": (
            "Ten epochs: with thirty the first trial has F1 0.868 and accuracy 0.886; three times the pictures (0.846) "
            "or twice the width (0.837) at ten epochs change nothing."
        ),
        "btg-table2/cifar10_transportation/accuracy_btg/*": (
            "Ten epochs: with thirty the first trial has F1 0.855 and accuracy 0.884."
        ),
        "btg-table2/cifar10_frog/bce/*": "Ten epochs: with thirty the first trial has accuracy 0.921.",
        "btg-table2/cifar10_frog/accuracy_btg/*": (
            "One of the two trials stays at the majority class; the first does with 12 000 pictures as well."
        ),
        "east-table2/cifar10/forest/*": (
            "4 000 of 60 000 pictures: with 20 000 the first trial has macro F1 0.408 and accuracy 0.413."
        ),
        "east-table3/credit_card/forest/*": (
            "The luck of one split: splits 1 and 2 have macro F1 0.946 and 0.932 (50 trees, `--split`)."
        ),
        "btg-table4/mammography/f3_btg/*": (
            "The luck of one split: on splits 1, 2 and 3 the first trial of a shorter run had F3 0.756, 0.687, 0.708 "
            "and recall 0.808, 0.765, 0.763 (`--split`), which trials on one split do not show."
        ),
        "btg-table1/mammography/f1_adversarial/*": (
            "200 batches of 25 in all, 0.7 of one epoch: every trial ended at the limit of ten short epochs and none "
            "by early stopping. The paper trained for 70 minutes."
        ),
        "btg-table1/credit_card/f1_adversarial/*": (
            "2 500 rows in all, of which four are frauds on average, and none among its 125 validation rows: the "
            "validation loss is 0 from the first epoch, so training ends after five."
        ),
        "btg-table1/*/f1_adversarial/*": (
            "200 batches of 25 in all: every trial ended at the limit of ten short epochs and none by early stopping. "
            "The paper trained for 70 minutes."
        ),
        "btg-table1/*/auroc_wmw/grid_accuracy": (
            "The loss ranks rows and does not place them, so how many lie above a threshold is arbitrary; the usual "
            "AUROC of the same networks (`auroc` in the JSON file) is what it ranks by."
        ),
        "btg-table1/adult/f1_btg/*": (
            "The features: with the categories as well the first trial has F1 0.693 and 0.814 in the other score, "
            "above the paper's; on the numbers alone other splits (1 and 2) have 0.607 and 0.604."
        ),
        "btg-table1/adult/bce/*": (
            "The features: with the categories as well the first trial has a mean accuracy of 0.813; on the numbers "
            "alone it is 0.827 at the threshold 1/2 and falls at the outer ones."
        ),
        "btg-table1/credit_card/f1_btg/*": (
            "The luck of one split: the first trial of a shorter run had 0.850 and 0.821 on splits 1 and 2."
        ),
        "btg-table1/credit_card/accuracy_btg/*": (
            "Trials stay at the majority class; the paper's deviation of 0.33 says that some of its trials did, too."
        ),
        "east-table*/cocktail_party/accuracy_east/*": (
            f"{_STAYS}; with a patience of 50 the first trial still does after 200 epochs, with batches of 512 and of "
            "128. The small network of Bridging the Gap does leave it."
        ),
        "east-table*/mammography/accuracy_east/*": (
            f"{_STAYS}; so does the first trial after 80 epochs at four corners of the paper's grid (batches of 128 "
            "and 2048, learning rates 0.01 and 0.0001). Bridging the Gap prints an F1 of 0.00 for accuracy as a loss."
        ),
        "east-table*/adult/accuracy_east/*": f"{_STAYS}. The paper's F1 of 0.159 says that its networks nearly did.",
        "east-table*/mammography/f1_east/*": (
            "Not the split alone: the first trial has F1 0.673 and 0.483 on splits 1 and 2, and five splits have 0.637 "
            "± 0.042 with up to 500 epochs (an earlier run of `benchmarks/paper_sets.py`). The paper's grid of 60 "
            "points was not run."
        ),
        "east1-table2/mammography/f1_east_fixed/*": (
            "As with cooling, which has 0.664 on this split and 0.673 on split 1: the paper's grid was not run."
        ),
        "east-table*/adult/f1_east/accuracy": (
            "The other side of a higher F1 (0.596, the paper's 0.364): it finds 67 % of the positives, at a precision "
            "of 54 %."
        ),
        "east-table3/mammography/ccs/*": (
            "The luck of one split: the macro F1 is 0.767, 0.746 and 0.750 on splits 1, 2 and 3; the classifier has no "
            "randomness, so the pooled deviation is that of rounding alone."
        ),
        "east-table3/cocktail_party/ccs/*": (
            "A linear classifier has no more in these features: logistic regression has macro F1 0.631 and accuracy "
            "0.743 on the same rows, this one 0.630 and 0.742. The paper's features are not known in full."
        ),
        "east-table3/adult/forest/*": (
            "The features: on the numbers alone a forest has accuracy 0.812, with the categories as well 0.855 (50 "
            "trees); the paper's 0.836 lies between."
        ),
        "east-table1/mammography/mcc_east/*": (
            "Neither the learning rate nor the split: 0.01 has F1 0.598 in the first trial; splits 1 and 2 have 0.604, "
            "0.611. The paper's grid of 60 points was not run."
        ),
        "east*/cifar10/*": (
            "4 000 of 60 000 pictures, ten epochs and a quarter of the width: cross-entropy itself is as far behind "
            "the paper's."
        ),
        "east-table*/credit_card/accuracy_east/*": f"{_STAYS}.",
        "east-table*/credit_card/*_east/*": (
            "Not the width: at full width and with ten epochs the first trial has F1 0.794 (F1*) and 0.793 (MCC*). "
            "Splits differ by more: the network of Bridging the Gap had 0.850 and 0.821 on splits 1 and 2 in a shorter "
            "run."
        ),
        "east-table1/*/dice/accuracy": (
            "It predicts the positive class everywhere (accuracy is the share of positives), as negatives have no "
            "gradient; the paper's large deviations say that some of its trials chose the other class."
        ),
        "east*/mammography/ce/*": (
            "Neither the learning rate nor the split: both rates have 0.70, splits 1 and 2 F1 0.681 and 0.696, and "
            "five splits with up to 500 epochs 0.656 ± 0.027 (an earlier run of `benchmarks/paper_sets.py`). The "
            "paper's grid of 30 points was not run."
        ),
    }
)


def explanation(experiment: str, data: str, method: str, score: str) -> str | None:
    """The line for a cell; None where nothing has been checked yet.

    Examples
    --------
    >>> explanation("no-table", "no-data", "ce", "f1") is None
    True
    """
    place = f"{experiment}/{data}/{method}/{score}"
    return next((text for pattern, text in _EXPLANATIONS.items() if fnmatch(place, pattern)), None)
