"""Another split is another cell, with other rows; the default split keeps its name."""

from __future__ import annotations

import torch

from eastward.datasets.generated import write_generated
from eastward.experiments import Run, get
from eastward.experiments.efforts import grid_points
from eastward.experiments.splits import load_split


def test_another_split_has_other_test_rows(tmp_path):
    write_generated(tmp_path, ["mammography"])
    first, second = (load_split("mammography", tmp_path, verify=False, seed=k) for k in (0, 1))
    assert not torch.equal(first.test.inputs, second.test.inputs)
    assert len(first.test.targets) == len(second.test.targets)


def test_the_default_split_is_not_part_of_a_cells_name(tmp_path):
    panel = get("btg-table4").panels[0]
    cells = []
    for split in (0, 1):
        run = Run("cpu", tmp_path, split=split)
        point = grid_points(run.effort(panel, "f1_btg"))[0]
        cells.append(run.cell(panel, "f1_btg", point, 0))
    assert "split" not in cells[0]
    assert cells[1] == {**cells[0], "split": 1}
