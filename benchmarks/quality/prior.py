"""What many tables say about methods: fit the prior of `compare` to the quality harness's cells.

python -m benchmarks.quality.prior            # prints it
python -m benchmarks.quality.prior --write    # and writes src/eastward/comparison/prior.json
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import digamma, polygamma

from eastward.comparison.belief import TAIL, Expected, Noise, Prior

ROOT = Path(__file__).parents[2]
DEVELOPMENT = "results/quality/cells.jsonl.gz"
SHIPPED = ROOT / "src/eastward/comparison/prior.json"
REFERENCE = "cross_entropy_tuned"
# What the harness calls the methods of `compare`.
NAMES = {
    "cross-entropy, pieces": "cross_entropy",
    "balanced": "balanced_cross_entropy",
    "focal": "focal",
    "cross-entropy, pieces x5 + smoothed": "cross_entropy_tuned",
    "cross-entropy, pieces x5": "cross_entropy_ensemble",
    "cross-entropy, pieces + tuned": "cross_entropy_tuned_single",
    "EAST paper": "east_paper",
    "EASTClassifier": "eastward",
    "random forest": "random_forest",
    "random forest + tuned": "random_forest_tuned",
    "extra trees": "extra_trees",
    "extra trees + tuned": "extra_trees_tuned",
    "LightGBM": "gradient_boosting",
    "LightGBM + tuned": "gradient_boosting_tuned",
    "EASTEnsembleClassifier": "ensemble",
}
METRICS = ("f1", "balanced_accuracy", "matthews_corrcoef")
# A method that did alike on all tables may still differ on the next one, by what makes a practical difference.
SMALLEST_SCALE = 0.005
STEPS = np.sinh(np.linspace(-1, 1, 401) * np.arcsinh(1000.0)) / 25
# table -> metric -> method -> score of each split
Tables = Mapping[str, Mapping[str, Mapping[str, Mapping[int, float]]]]


def read_tables(paths: Iterable[str] = (DEVELOPMENT,)) -> Tables:
    """Scores of the harness under the names of `compare`."""
    tables: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for path in paths:
        with gzip.open(ROOT / path, "rt", encoding="utf-8") as lines:
            for cell in map(json.loads, lines):
                if cell["method"] in NAMES and cell["metric"] in METRICS:
                    name = NAMES[cell["method"]]
                    tables[cell["set"]][cell["metric"]][name][cell["split"]] = cell["score"]
    return tables


def paired_gains(
    tables: Tables, metric: str, method: str, among: Sequence[str]
) -> list[NDArray[Any]]:
    """Gains of ``method`` over the reference on the splits of each table that has two at least."""
    found = []
    for table in among:
        scores = tables[table][metric]
        own, other = scores.get(method, {}), scores.get(REFERENCE, {})
        splits = sorted(own.keys() & other.keys())
        if len(splits) >= 2:
            found.append(np.array([own[k] - other[k] for k in splits]))
    return found


def fitted_noise(samples: Sequence[NDArray[Any]]) -> Noise:
    """Scaled inverse chi-squared distribution of the variance between splits, by moments of its logarithm."""
    varying = [gains for gains in samples if np.var(gains) > 1e-10]
    logs = np.array([np.log(np.var(gains, ddof=1)) for gains in varying])
    degrees = np.array([len(gains) - 1 for gains in varying])
    spread = max(float(np.var(logs) - np.mean(polygamma(1, degrees / 2))), 1e-3)
    own = float(optimize.brentq(lambda v: polygamma(1, v / 2) - spread, 1e-2, 1e4))
    centre = np.mean(logs - digamma(degrees / 2) + np.log(degrees / 2))
    variance = float(np.exp(centre + digamma(own / 2) - np.log(own / 2)))
    return Noise(variance, own)


def fitted_gain(
    samples: Sequence[NDArray[Any]], noise: Noise, *, centred: bool = False
) -> Expected:
    """The t distribution of true gains over tables under which the measured ones are most likely."""
    means = np.array([gains.mean() for gains in samples])
    counts = np.array([len(gains) for gains in samples])
    degrees = noise.degrees + counts - 1
    sums = np.array([np.sum((gains - gains.mean()) ** 2) for gains in samples])
    spread = (noise.degrees * noise.variance + sums) / degrees
    # Splits of the harness draw at most 500 training rows, so they share few; those of `compare` share most.
    errors = np.sqrt(spread / counts)

    def loss(free: NDArray[Any]) -> float:
        location, scale = (0.0 if centred else free[0]), float(np.exp(free[1]))
        points = location + scale * STEPS
        mass = np.exp(stats.t.logpdf(STEPS, TAIL)) * np.gradient(STEPS)
        density = stats.t.pdf(points[:, None], degrees, means, errors)
        return -float(np.log(np.maximum(mass @ density, 1e-300)).sum())

    start = np.array([float(np.median(means)), np.log(np.std(means) / 2 + 1e-3)])
    best = optimize.minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-4})
    scale = max(SMALLEST_SCALE, float(np.exp(best.x[1])))
    return Expected(0.0 if centred else float(best.x[0]), scale)


def fitted_prior(tables: Tables, among: Sequence[str] | None = None) -> Prior:
    """The prior that the tables in ``among`` (all of them) speak for."""
    chosen = sorted(tables) if among is None else list(among)
    methods = [name for name in NAMES.values() if name != REFERENCE]
    samples = {
        (metric, method): paired_gains(tables, metric, method, chosen)
        for metric in METRICS
        for method in methods
    }
    noise = fitted_noise([gains for group in samples.values() for gains in group])
    gains = {
        metric: {
            method: fitted_gain(samples[metric, method], noise)
            for method in methods
            if samples[metric, method]
        }
        for metric in METRICS
    }
    # A method that nobody has tried is as likely to be better as to be worse, by as much as tuned ones are.
    tuned = [name for name in methods if name.endswith("_tuned") or name == "ensemble"]
    others = [gain for metric in METRICS for name in tuned for gain in samples[metric, name]]
    return Prior(REFERENCE, gains, fitted_gain(others, noise, centred=True), noise, len(chosen))


def document(prior: Prior) -> dict[str, Any]:
    """The prior as plain data, in four digits."""
    rounded = {
        metric: {name: [float(f"{value:.4g}") for value in pair] for name, pair in methods.items()}
        for metric, methods in prior.gains.items()
    }
    return {
        "made_by": "python -m benchmarks.quality.prior --write",
        "reference": prior.reference,
        "tables": prior.tables,
        "unknown": [float(f"{value:.4g}") for value in prior.unknown],
        "noise": [float(f"{value:.4g}") for value in prior.noise],
        "gains": rounded,
    }


def main() -> None:
    """Fit, print and perhaps write the prior."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    written = json.dumps(document(fitted_prior(read_tables())), indent=1) + "\n"
    if parser.parse_args().write:
        SHIPPED.write_text(written, encoding="utf-8")
    print(written)


if __name__ == "__main__":
    main()
