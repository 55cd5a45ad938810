"""What compare recommends: nothing where there is nothing to gain, the better method where there is one."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from comparison_problems import SMALL, blobs, overlapping
from rich.console import Console

from eastward import compare, metrics
from eastward.cli.tables_shown import comparison_table
from eastward.comparison.belief import shipped_prior
from eastward.comparison.methods import Method
from eastward.comparison.result import Comparison
from eastward.reporting.wording import sentences

NETWORKS = ["cross_entropy", "balanced_cross_entropy", "cross_entropy_tuned", "eastward"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_labels_without_any_signal_give_no_confidence(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(200, 4)), rng.integers(2, size=200)
    methods = [*NETWORKS, "random_forest"]
    result = compare(X, y, methods=methods, n_splits=4, method_options=SMALL, random_state=seed)
    sentence = result.verdict["sentence"]
    assert not re.search("almost certainly|very likely", sentence), sentence


@pytest.mark.slow
def test_well_separated_balanced_classes_give_no_gain():
    X, y = blobs(rows=240, distance=8.0)
    result = compare(X, y, methods=NETWORKS, n_splits=3, method_options=SMALL)
    assert result.verdict["sentence"].startswith("No gain: use ")
    assert any("Plain cross-entropy did as well" in line for line in result.verdict["detail"])
    assert all(row["mean"] > 0.97 for row in result.methods)


@pytest.mark.slow
def test_a_threshold_that_helps_on_a_rare_class_is_recommended():
    X, y = overlapping(seed=1)
    result = compare(
        X,
        y,
        "f1",
        methods=["cross_entropy", "cross_entropy_tuned"],
        baseline="cross_entropy",
        n_splits=6,
        method_options=SMALL,
    )
    plain, tuned = result.methods
    assert result.verdict["recommended"] == "cross_entropy_tuned"
    assert re.match(
        r"Use cross-entropy with a tuned threshold, (almost certainly|very likely) 0\.\d+ better than "
        r"cross-entropy. On average f1 ",
        result.verdict["sentence"],
    )
    assert tuned["difference"]["interval"][0] > 0
    assert tuned["mean"] - plain["mean"] == pytest.approx(tuned["difference"]["mean"])
    # The decision has no price: probabilities stay probabilities.
    assert tuned["log_loss"] < plain["log_loss"] + 0.01


def method(name: str, effort: int = 1) -> Method:
    return Method(name, name, effort, lambda settings: None)


def comparison(scores: dict[str, list], efforts=None, metric="f1_macro", **facts) -> Comparison:
    """A comparison with given scores; None is a failure, and the first method is the baseline."""
    efforts = efforts or {}
    cells = [
        {"method": name, "split": split, "score": score, "log_loss": None, "brier": None}
        | {"ece": None, "seconds": None if score is None else 1.0, "notes": [], "warnings": []}
        | {"error": "ValueError: no" if score is None else None}
        for name, values in scores.items()
        for split, score in enumerate(values)
    ]
    compared = [method(name, efforts.get(name, 1)) for name in scores]
    options = {"test_ratio": 0.25, "tie_margin": 0.005} | facts
    return Comparison(metrics.as_metric(metric), next(iter(scores)), compared, cells, **options)


BASE = [0.50, 0.51, 0.49, 0.50, 0.52, 0.48]


def shifted(by: float) -> list[float]:
    return [score + by + wobble for score, wobble in zip(BASE, [0, 1e-3, -1e-3] * 2, strict=True)]


def test_between_equals_the_one_of_less_effort_is_recommended():
    scores = {"base": BASE, "heavy": shifted(0.052), "light": shifted(0.05)}
    result = comparison(scores, {"heavy": 5, "light": 1})
    assert result.verdict["recommended"] == "light"
    assert comparison(scores, {"heavy": 1, "light": 5}).verdict["recommended"] == "heavy"
    far = scores | {"heavy": shifted(0.08)}
    assert comparison(far, {"heavy": 5, "light": 1}).verdict["recommended"] == "heavy"


# Uncertain by ±0.05, so that hardly any probability lies within the margin.
NOISE = [0.05, -0.05, 0.05, -0.05, 0.05, -0.05]


@pytest.mark.parametrize(
    ("gain", "effort", "recommended", "words"),
    [
        (0.001, 5, "base", "Use base: no other method is expected to gain enough. The nearest is"),
        (0.02, 5, "other", "Use other, perhaps 0.020 better than base."),
        (-0.001, 0, "other", "Use other: simpler than base, and expected to be about as good."),
        (-0.02, 0, "base", "Use base: no other method is expected to do better."),
    ],
)
def test_more_effort_has_to_be_expected_to_pay(gain, effort, recommended, words):
    """A gain that is uncertain is no tie, but one that is tiny on average does not justify more effort."""
    other = [score + gain + noise for score, noise in zip(BASE, NOISE, strict=True)]
    result = comparison({"base": BASE, "other": other}, {"base": 2, "other": effort})
    assert result.methods[1]["difference"]["equal"] < 0.5
    assert result.verdict["recommended"] == recommended
    assert result.verdict["sentence"].startswith(words)


def test_lack_of_proof_is_no_proof_of_lack():
    """Ahead on most splits but not significantly: the better bet is recommended, and the doubt is expressed."""
    wobbly = [0.09, 0.005, 0.06, 0.02, 0.095, 0.04]
    result = comparison({"base": BASE, "maybe": [b + w for b, w in zip(BASE, wobbly, strict=True)]})
    row = result.methods[1]["difference"]
    assert row["interval"][0] < 0
    assert 0.95 < row["probability"] < 0.975
    assert result.verdict["recommended"] == "maybe"
    assert result.verdict["sentence"] == (
        "Use maybe, very likely 0.052 better than base. On average f1_macro 0.552 against 0.500; expected gain +0.052, "
        "better with a probability of 96 %, practically equal with 2 %."
    )


def test_splits_that_agree_are_no_certainty_and_zero_has_no_minus():
    """Scores that agree on every split get no interval, in the verdict and in every table."""
    hair = [b + (0.0039 if k % 2 else -0.0041) for k, b in enumerate(BASE)]
    result = comparison({"base": BASE, "same": BASE, "hair": hair})
    told = [
        *result.verdict["detail"],
        result.verdict["sentence"],
        str(result),
        result.to_markdown(),
    ]
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(comparison_table(result.to_dict(), width=140))
    for text in [*told, console.export_text()]:
        assert "+0.000 to +0.000" not in text
        assert "(+0.000, +0.000)" not in text
        assert "-0.000" not in text


def test_a_baseline_that_does_badly_does_not_favour_what_experience_says_little_about():
    """Forests vary more from table to table, so experience shrinks their gain less than that of the ensemble."""
    scores = {
        "cross_entropy_tuned": [0.45, 0.46, 0.44],
        "random_forest_tuned": [0.60, 0.57, 0.62],
        "ensemble": [0.70, 0.61, 0.66],
    }
    result = comparison(scores, prior=shipped_prior())
    gains = {row["name"]: row["difference"]["expected"] for row in result.methods}
    assert gains["random_forest_tuned"] > gains["ensemble"]
    assert result.gain("ensemble", "random_forest_tuned").expected > 0
    assert result.verdict["recommended"] == "ensemble"


def test_experience_makes_large_gains_smaller_and_is_said_in_words():
    wobbly = [0.09, 0.005, 0.06, 0.02, 0.095, 0.04]
    scores = {"base": BASE, "maybe": [b + w for b, w in zip(BASE, wobbly, strict=True)]}
    alone, weighed = comparison(scores), comparison(scores, prior=shipped_prior())
    expected = weighed.methods[1]["difference"]["expected"]
    assert 0.01 < expected < alone.methods[1]["difference"]["expected"]
    assert "nothing is known about these two in advance" in weighed.verdict["detail"][0]
    assert not any("experience" in line for line in alone.verdict["detail"])


def test_what_many_tables_have_shown_decides_where_splits_do_not():
    scores = {
        "cross_entropy_tuned": BASE,
        "ensemble": shifted(0.006),
        "random_forest": shifted(0.0),
    }
    noisy = {
        name: (np.array(values) + 0.05 * np.random.default_rng(k).normal(size=6)).tolist()
        for k, (name, values) in enumerate(scores.items())
    }
    result = comparison(noisy, {"ensemble": 6, "cross_entropy_tuned": 3}, prior=shipped_prior())
    ensemble, forest = (row["difference"] for row in result.methods[1:])
    assert ensemble["expected"] - ensemble["mean"] > forest["expected"] - forest["mean"]
    assert any("on 33 tables the gain was +0.0" in line for line in result.verdict["detail"])


def test_a_sure_but_tiny_gain_is_no_gain():
    result = comparison({"base": BASE, "tiny": shifted(0.002)})
    assert result.verdict["recommended"] == "base"
    assert result.verdict["sentence"].startswith("No gain: use base. The best of the others, tiny,")


def test_methods_that_are_behind_leave_the_baseline_without_calling_it_no_gain():
    result = comparison({"base": BASE, "worse": shifted(-0.05)})
    assert result.verdict["recommended"] == "base"
    assert result.verdict["sentence"].startswith(
        "Use base: no other method is expected to do better. The nearest is worse; expected gain -0.050"
    )


def test_a_method_that_failed_once_is_reported_and_not_recommended():
    gained = shifted(0.2)
    gained[2] = None
    result = comparison({"base": BASE, "fragile": gained})
    assert result.verdict["recommended"] == "base"
    assert "Fragile failed on 1 split: ValueError: no" in result.verdict["detail"]
    row = result.methods[1]
    assert (row["failures"], row["wins"], row["ties"], row["losses"]) == (1, 5, 0, 0)


def test_without_a_baseline_there_is_no_verdict():
    result = comparison({"base": [None] * 3, "other": [0.5, 0.6, 0.7]})
    assert result.verdict["sentence"].startswith("No verdict: base failed on every split")
    assert result.verdict["recommended"] is None
    assert result.methods[1]["difference"]["mean"] is None


def test_costs_are_better_when_they_are_lower():
    cost = metrics.get("expected_cost", cost=[[0, 1], [5, 0]])
    result = comparison({"base": BASE, "cheap": shifted(-0.1), "dear": shifted(0.1)}, metric=cost)
    base, cheap, dear = result.methods
    assert result.verdict["recommended"] == "cheap"
    assert cheap["difference"]["mean"] == pytest.approx(-0.1)
    assert cheap["difference"]["interval"][0] < -0.1 < cheap["difference"]["interval"][1] < 0
    assert cheap["difference"]["probability"] > 0.99
    assert dear["difference"]["probability"] < 0.01
    assert (cheap["wins"], dear["losses"]) == (6, 6)
    assert cheap["rank"] < base["rank"] < dear["rank"]
    assert "expected gain +0.1" in result.verdict["sentence"]


def test_the_margin_of_a_metric_without_a_range_is_relative():
    def unbounded(confusion):
        return confusion.sum()

    large = [1000 * score for score in BASE]
    close = [1000 * score for score in shifted(0.001)]
    result = comparison({"base": large, "close": close}, metric=unbounded)
    assert (result.methods[1]["ties"], result.verdict["recommended"]) == (6, "base")


@pytest.mark.parametrize(
    ("gain", "noise", "words"),
    [
        (-0.1, 0.0, "almost certainly does harm here"),
        (0.1, 0.0, "almost certainly helps here"),
        (0.02, 0.4, "likely helps here"),
        (0.01, 1.0, "makes no clear difference here"),
        (0.001, 0.0, "makes no practical difference here"),
    ],
)
def test_harm_and_help_of_the_metric_stage_are_said(gain, noise, words):
    aligned = [a + noise * b for a, b in zip(shifted(gain), NOISE, strict=True)]
    result = comparison({"cross_entropy_tuned": BASE, "eastward": aligned})
    assert f"Training by the metric itself {words}: " in "\n".join(result.verdict["detail"])


def test_another_baseline_says_nothing_about_training_by_the_metric():
    result = comparison({"logistic_regression_tuned": BASE, "eastward": shifted(0.1)})
    assert "Training by the metric" not in "\n".join(result.verdict["detail"])


def test_two_splits_give_no_interval_of_a_mean():
    result = comparison({"base": BASE, "dropped": [0.6, 0.7]})
    dropped = result.methods[1]
    assert dropped["interval"] == dropped["difference"]["interval"] == [None, None]
    assert (dropped["mean"], dropped["difference"]["mean"]) == pytest.approx((0.65, 0.145))
    assert "+0.145 |" in result.to_markdown()


def test_probabilities_are_compared_on_the_same_splits():
    """A method that was dropped early is judged by fewer splits, which may be the easy ones."""
    result = comparison({"base": BASE, "dropped": [0.1, 0.2], "other": shifted(-0.1)})
    losses = {"base": 0.5, "dropped": 0.1, "other": 0.3}
    cells = [cell | {"log_loss": losses[cell["method"]], "ece": 0.1} for cell in result.cells]
    said = "\n".join(replace(result, cells=cells).verdict["detail"])
    assert "of other" in said
    assert "of dropped" not in said


@pytest.mark.parametrize("gain", [0.05, 0.02, 0.0, -0.05])
def test_the_first_sentence_has_at_most_twenty_words(gain):
    result = comparison({"base": BASE, "other": [b + gain for b in BASE]})
    for label in ("gradient boosting with a tuned threshold", "EASTClassifier"):
        text = result.verdict["sentence"].replace("base", label).replace("other", label)
        assert len(sentences(text)[0].split()) <= 20, text
