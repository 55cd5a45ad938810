"""Give a verdict in plain sentences: what to use, and how certain that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eastward.comparison.belief import Prior
from eastward.comparison.recommending import MOSTLY, WORTH_EFFORT, Pairs, recommended
from eastward.metrics import Metric

__all__ = ["verdict"]

# Certainty in words: the first one whose probability is reached.
LIKELY = 0.75
SURE = (
    (0.975, "almost certainly"),
    (0.9, "very likely"),
    (LIKELY, "likely"),
    (0.0, "perhaps"),
)
_WORSE_PROBABILITIES = 1.05
_NOTABLY_SLOWER = 2.0

Row = dict[str, Any]


def verdict(
    rows: Sequence[Row],
    cells: Sequence[Row],
    *,
    metric: Metric,
    baseline: str,
    margin: float,
    efforts: Mapping[str, int],
    pairs: Pairs,
    prior: Prior | None = None,
) -> Row:
    """Recommend a method, with reasons.

    It is a decision under uncertainty: of the methods that never failed, it takes the one with the highest expected
    score, or a simpler one that is practically equal. The certainty is reported but does not decide.

    Parameters
    ----------
    rows : sequence of dict
        From :func:`~eastward.comparison.summary.method_rows`.
    cells : sequence of dict
        Cells, for notes on single fits.
    metric : Metric
        The metric that judges methods.
    baseline : str
        Name of the baseline.
    margin : float
        Differences up to this do not matter.
    efforts : mapping from str to int
        Effort of each method, by name.
    pairs : callable
        Returns the estimated gain of one method over another; None if they share too few splits.
    prior : Prior, optional
        Experience that was combined with the splits, to be mentioned.

    Returns
    -------
    dict
        ``sentence``, ``detail`` (list of sentences), ``recommended`` (a name, or None without any result).
    """
    reference = next(row for row in rows if row["name"] == baseline)
    others = [row for row in rows if row["name"] != baseline]
    chosen, sentences = _recommendation(reference, others, metric, margin, efforts, pairs)
    detail = [
        *sentences[1:],
        *_weighing_sentences(chosen, reference, others, metric, prior),
        *_aligned_sentences(reference, others, margin, metric),
        *_plain_sentences(reference, others, margin, metric),
        *_calibration_sentences(chosen, rows),
        *_time_sentences(chosen, reference),
        *_caveats(rows, cells),
    ]
    name = None if chosen is None else chosen["name"]
    return {"sentence": sentences[0], "detail": detail, "recommended": name}


def _recommendation(
    reference: Row,
    others: list[Row],
    metric: Metric,
    margin: float,
    efforts: Mapping[str, int],
    pairs: Pairs,
) -> tuple[Row | None, list[str]]:
    if reference["mean"] is None:
        sentence = f"No verdict: {reference['label']} failed on every split, so nothing can be compared with it."
        return None, [sentence]
    direction = 1.0 if metric.higher_is_better else -1.0
    sound = {row["name"]: row for row in others if _is_candidate(row)}
    expected = {name: direction * row["difference"]["expected"] for name, row in sound.items()}
    own = reference["name"]
    name = recommended({own: 0.0, **expected}, efforts, pairs, own, margin)
    if name != reference["name"]:
        simpler = efforts[name] < efforts[own]
        return sound[name], [_use_sentence(sound[name], reference, metric, margin, simpler=simpler)]
    if not expected:
        return reference, [f"Use {reference['label']}: no other method was judged on every split."]
    nearest = sound[max(expected, key=expected.__getitem__)]
    return reference, [_stay_sentence(reference, nearest, metric, margin)]


def _is_candidate(row: Row) -> bool:
    return row["difference"]["mean"] is not None and not row["failures"]


def _use_sentence(row: Row, reference: Row, metric: Metric, margin: float, *, simpler: bool) -> str:
    difference = row["difference"]
    values = f"On average {metric.name} {row['mean']:.3f} against {reference['mean']:.3f}"
    if difference["equal"] > MOSTLY:
        return (
            f"No gain: use {row['label']}, simpler than {reference['label']} and practically equal. "
            f"{values}; within {margin:.2g} with {_percent(difference['equal'])}."
        )
    if simpler and _gain(row, metric) < WORTH_EFFORT * margin:
        return (
            f"Use {row['label']}: simpler than {reference['label']}, and expected to be about as good. "
            f"{values}; {_how_sure(row, metric)}."
        )
    sure = _sureness(difference["probability"])
    return (
        f"Use {row['label']}, {sure} {abs(difference['expected']):.3f} better than {reference['label']}. "
        f"{values}; {_how_sure(row, metric)}."
    )


def _stay_sentence(reference: Row, nearest: Row, metric: Metric, margin: float) -> str:
    difference = nearest["difference"]
    if difference["equal"] > MOSTLY:
        return (
            f"No gain: use {reference['label']}. The best of the others, {nearest['label']}, is within "
            f"{margin:.2g} of it with a probability of {_percent(difference['equal'])}."
        )
    better = "to gain enough" if _gain(nearest, metric) > 0 else "to do better"
    return (
        f"Use {reference['label']}: no other method is expected {better}. The nearest is "
        f"{nearest['label']}; {_how_sure(nearest, metric)}."
    )


def _gain(row: Row, metric: Metric) -> float:
    """Return the expected gain, positive where the metric becomes better, which for a cost is lower."""
    expected: float = row["difference"]["expected"]
    return expected if metric.higher_is_better else -expected


def _how_sure(row: Row, metric: Metric) -> str:
    difference = row["difference"]
    return (
        f"expected gain {_signed(_gain(row, metric))}, better with a probability of "
        f"{_percent(difference['probability'])}, practically equal with {_percent(difference['equal'])}"
    )


def _weighing_sentences(
    chosen: Row | None, reference: Row, others: list[Row], metric: Metric, prior: Prior | None
) -> list[str]:
    """Describe what was measured, and the experience combined with it."""
    if chosen is None or prior is None:
        return []
    direction = 1.0 if metric.higher_is_better else -1.0
    known = [row for row in others if _is_candidate(row)]
    if chosen["name"] == reference["name"]:
        if not known:
            return []
        chosen = max(known, key=lambda row: direction * row["difference"]["expected"])
    words = prior.words(chosen["name"], reference["name"], metric)
    difference = chosen["difference"]
    lower = "" if metric.higher_is_better else "; lower is better"
    sentence = (
        f"Measured for {chosen['label']}: {_signed(difference['mean'])} ({_spread(difference)}{lower}). "
        f"The expected gain weighs that with experience: {words}."
    )
    return [sentence]


def _difference(row: Row) -> str:
    difference = row["difference"]
    return (
        f"{_signed(difference['mean'])} ({_spread(difference)}; "
        f"better with {_percent(difference['probability'])})"
    )


def _spread(difference: Mapping[str, Any]) -> str:
    """Describe the interval; one without width is a lack of spread, not certainty."""
    low, high = difference["interval"]
    if low is None:
        return "two splits give no interval"
    if low == high:
        return "the same on every split"
    return f"95 % interval {_signed(low)} to {_signed(high)}"


def _signed(value: float) -> str:
    """Write a difference with its sign; zero is never negative."""
    return f"{round(value, 3) + 0.0:+.3f}"


def _percent(probability: float) -> str:
    if probability > 0.995:
        return "over 99 %"
    return "under 1 %" if probability < 0.005 else f"{100 * probability:.0f} %"


def _aligned_sentences(
    reference: Row, others: list[Row], margin: float, metric: Metric
) -> list[str]:
    """Say whether training by the metric helps here; only against this baseline does nothing else differ."""
    found = [row for row in others if row["name"] == "eastward"]
    if (
        reference["name"] != "cross_entropy_tuned"
        or not found
        or found[0]["difference"]["mean"] is None
    ):
        return []
    low, high = found[0]["difference"]["interval"]
    if found[0]["difference"]["mean"] == 0 and low == high:
        # Usually its held-out rows preferred the cross-entropy networks, which are those of the tuned baseline.
        same = f"the scores are those of {reference['label']} on every split"
        return [f"Training by the metric itself changed nothing here: {same}."]
    effect = _effect(found[0], margin, metric)
    return [
        f"Training by the metric itself {effect}: {_difference(found[0])} to {reference['label']}."
    ]


def _effect(row: Row, margin: float, metric: Metric) -> str:
    direction = 1.0 if metric.higher_is_better else -1.0
    probability, gain = row["difference"]["probability"], direction * row["difference"]["mean"]
    if abs(gain) <= margin:
        return "makes no practical difference here"
    sure = max(probability, 1 - probability)
    if sure < LIKELY or (probability > 0.5) != (gain > 0):
        return "makes no clear difference here"
    return f"{_sureness(sure)} {'helps' if gain > 0 else 'does harm'} here"


def _sureness(probability: float) -> str:
    return next(words for reached, words in SURE if probability >= reached)


def _plain_sentences(reference: Row, others: list[Row], margin: float, metric: Metric) -> list[str]:
    """Say whether the tuned threshold itself was worth it."""
    found = [row for row in others if row["name"] == "cross_entropy"]
    if reference["name"] != "cross_entropy_tuned" or not found:
        return []
    row = found[0]
    direction = 1.0 if metric.higher_is_better else -1.0
    if row["difference"]["mean"] is None or direction * row["difference"]["mean"] < -margin:
        return []
    return ["Plain cross-entropy did as well: tuning the threshold brings nothing here."]


def _calibration_sentences(recommended: Row | None, rows: Sequence[Row]) -> list[str]:
    if recommended is None or recommended["log_loss"] is None:
        return []
    # Means over other splits say nothing.
    judged = [row for row in rows if row["log_loss"] is not None]
    judged = [row for row in judged if row["splits"] == recommended["splits"]]
    best = min(judged, key=lambda row: row["log_loss"])
    if recommended["log_loss"] <= _WORSE_PROBABILITIES * best["log_loss"]:
        return []
    sentence = (
        f"The probabilities of {recommended['label']} are not the best: log-loss "
        f"{recommended['log_loss']:.3f} and calibration error "
        f"{recommended['ece']:.3f}, against {best['log_loss']:.3f} and {best['ece']:.3f} of {best['label']}. "
        "Where probabilities are used as such, take the latter."
    )
    return [sentence]


def _time_sentences(recommended: Row | None, reference: Row) -> list[str]:
    if recommended is None or not recommended["seconds"] or not reference["seconds"]:
        return []
    factor = recommended["seconds"] / reference["seconds"]
    if factor < _NOTABLY_SLOWER:
        return []
    return [
        f"A fit takes {recommended['seconds']:.1f} s, {factor:.1f} times that of {reference['label']}."
    ]


def _caveats(rows: Sequence[Row], cells: Sequence[Row]) -> list[str]:
    failed = [
        f"{_capital(row)} failed on {_splits(row['failures'])}: {row['errors'][0]}"
        for row in rows
        if row["failures"]
    ]
    labels = {row["name"]: _capital(row) for row in rows}
    noted = [f"{labels[c['method']]} {note}." for c in cells for note in c["notes"]]
    splits = len({cell["split"] for cell in cells})
    dropped = [f"{row['name']} ({row['splits']})" for row in rows if 0 < row["splits"] < splits]
    told = "Left out before the end, because more splits would hardly change the verdict (splits they ran on)"
    left = f"{told}: {', '.join(dropped)}. Their means are over these splits alone."
    few = (
        [f"Only {_splits(splits)}: intervals are wide; 10 or more tell more."] if splits < 5 else []
    )
    return [*failed, *dict.fromkeys(noted), *([left] if dropped else []), *few]


def _capital(row: Row) -> str:
    label: str = row["label"]
    return label[:1].upper() + label[1:]


def _splits(count: int) -> str:
    return f"{count} split{'' if count == 1 else 's'}"
