"""What the numbers say, in plain sentences: what to use, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eastward.metrics import Metric

__all__ = ["verdict"]

# One-sided, so that a single method is called better exactly when its 95 % interval excludes zero; after the
# adjustment for the number of methods, so that the best of ten by chance is not called a gain.
SIGNIFICANCE = 0.025
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
) -> Row:
    """The recommendation and its reasons.

    A method is recommended over the baseline if it is better with confidence (corrected for shared rows and for the
    number of methods), by more than ``margin``, and never failed. Among several such methods within ``margin`` of the
    best one, the one of least effort is taken. Otherwise the baseline stays.

    Parameters
    ----------
    rows : sequence of dict
        From :func:`~eastward.comparison.summary.method_rows`.
    cells : sequence of dict
        For what single fits have to say.
    metric : Metric
        What they were judged by.
    baseline : str
        Name of the baseline.
    margin : float
        Differences up to it do not matter.
    efforts : mapping from str to int
        Effort of each method, by name.

    Returns
    -------
    dict
        ``sentence``, ``detail`` (list of sentences), ``recommended`` (a name, or None without any result).
    """
    reference = next(row for row in rows if row["name"] == baseline)
    others = [row for row in rows if row["name"] != baseline]
    recommended, sentence = _recommendation(reference, others, metric, margin, efforts)
    detail = [
        *_aligned_sentences(reference, others, margin, metric),
        *_plain_sentences(reference, others, margin, metric),
        *_calibration_sentences(recommended, rows),
        *_time_sentences(recommended, reference),
        *_caveats(rows, cells),
    ]
    name = None if recommended is None else recommended["name"]
    return {"sentence": sentence, "detail": detail, "recommended": name}


def _recommendation(
    reference: Row, others: list[Row], metric: Metric, margin: float, efforts: Mapping[str, int]
) -> tuple[Row | None, str]:
    if reference["mean"] is None:
        return (
            None,
            f"No verdict: {reference['label']} failed on every split, so nothing can be compared with it.",
        )
    direction = 1.0 if metric.higher_is_better else -1.0
    known = [row for row in others if row["difference"]["mean"] is not None]
    by_gain = sorted(known, key=lambda row: -direction * row["difference"]["mean"])
    winners = [row for row in by_gain if _is_better(row, direction, margin)]
    if winners:
        best = direction * winners[0]["difference"]["mean"]
        close = [row for row in winners if best - direction * row["difference"]["mean"] <= margin]
        chosen = min(close, key=lambda row: efforts[row["name"]])
        return chosen, _gain_sentence(chosen, reference, metric, len(others))
    return reference, _no_gain_sentence(reference, by_gain, direction, margin)


def _is_better(row: Row, direction: float, margin: float) -> bool:
    difference = row["difference"]
    sure = difference["adjusted_p"] is not None and difference["adjusted_p"] < SIGNIFICANCE
    return sure and direction * difference["mean"] > margin and not row["failures"]


def _gain_sentence(row: Row, reference: Row, metric: Metric, tried: int) -> str:
    among = f", allowing for {tried} methods tried" if tried > 1 else ""
    return (
        f"Use {row['label']}: {metric.name} {row['mean']:.3f} against {reference['mean']:.3f} of "
        f"{reference['label']}, {_difference(row)}{among}."
    )


def _no_gain_sentence(reference: Row, by_gain: list[Row], direction: float, margin: float) -> str:
    sentence = f"No gain: use {reference['label']}."
    ahead = [row for row in by_gain if direction * row["difference"]["mean"] > margin]
    if not ahead:
        return f"{sentence} No other method did better by more than {margin:.2g}."
    best = ahead[0]
    if best["failures"]:
        return f"{sentence} {_capital(best)} failed on {_splits(best['failures'])}."
    allowing = f", allowing for {len(by_gain)} methods tried" if len(by_gain) > 1 else ""
    return (
        f"{sentence} No other method is better with confidence{allowing}; the nearest is "
        f"{best['label']}, {_difference(best)}. More splits or more data would tell."
    )


def _difference(row: Row) -> str:
    difference = row["difference"]
    low, high = difference["interval"]
    return (
        f"{difference['mean']:+.3f} (95 % interval {low:+.3f} to {high:+.3f}; "
        f"better with probability {_percent(difference['probability'])})"
    )


def _percent(probability: float) -> str:
    if probability > 0.999:
        return "over 99.9 %"
    return "under 0.1 %" if probability < 0.001 else f"{100 * probability:.1f} %"


def _aligned_sentences(
    reference: Row, others: list[Row], margin: float, metric: Metric
) -> list[str]:
    """Whether training by the metric helps here, which is what people come to ask."""
    found = [row for row in others if row["name"] == "eastward"]
    if not found or found[0]["difference"]["mean"] is None:
        return []
    effect = _effect(found[0], margin, metric)
    return [
        f"Training by the metric itself {effect}: {_difference(found[0])} to {reference['label']}."
    ]


def _effect(row: Row, margin: float, metric: Metric) -> str:
    direction = 1.0 if metric.higher_is_better else -1.0
    probability, gain = row["difference"]["probability"], direction * row["difference"]["mean"]
    if probability > 0.975 and gain > margin:
        return "helps here"
    if probability < 0.025 and gain < -margin:
        return "does harm here"
    return "makes no clear difference here"


def _plain_sentences(reference: Row, others: list[Row], margin: float, metric: Metric) -> list[str]:
    """Whether the tuned threshold itself was worth it."""
    found = [row for row in others if row["name"] == "cross_entropy"]
    if reference["name"] != "cross_entropy_tuned" or not found:
        return []
    row = found[0]
    direction = 1.0 if metric.higher_is_better else -1.0
    if row["difference"]["mean"] is None or direction * row["difference"]["mean"] < -margin:
        return []
    return ["Plain cross-entropy did as well: tuning the threshold brings nothing here either."]


def _calibration_sentences(recommended: Row | None, rows: Sequence[Row]) -> list[str]:
    if recommended is None or recommended["log_loss"] is None:
        return []
    best = min(
        (row for row in rows if row["log_loss"] is not None), key=lambda row: row["log_loss"]
    )
    if recommended["log_loss"] <= _WORSE_PROBABILITIES * best["log_loss"]:
        return []
    sentence = (
        f"Its probabilities are not the best: log-loss {recommended['log_loss']:.3f} and calibration error "
        f"{recommended['ece']:.3f}, against {best['log_loss']:.3f} and {best['ece']:.3f} of {best['label']}. "
        "Where probabilities are used as such, look at raw_predict_proba or at that one."
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
    few = (
        [f"Only {_splits(splits)}: intervals are wide; 10 or more tell more."] if splits < 5 else []
    )
    return [*failed, *dict.fromkeys(noted), *few]


def _capital(row: Row) -> str:
    label: str = row["label"]
    return label[:1].upper() + label[1:]


def _splits(count: int) -> str:
    return f"{count} split{'' if count == 1 else 's'}"
