"""Our metrics as torchmetrics': scikit-learn's values over batches, collections and resets."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torchmetrics
from sklearn.metrics import f1_score, matthews_corrcoef

import eastward as ew
from eastward.integrations.torchmetrics import SoftMetric, TrueMetric


def batches(classes=4):
    logits = torch.randn(60, classes)
    targets = torch.randint(classes, (60,))
    return logits, targets, list(zip(logits.split(25), targets.split(25), strict=True))


def test_labels_that_do_not_exclude_each_other_have_scikit_learns_value():
    logits, targets = torch.randn(60, 4), torch.randint(2, (60, 4))
    metric = TrueMetric("f1_macro", num_classes=4, multilabel=True)
    for part in zip(logits.split(25), targets.split(25), strict=True):
        metric.update(*part)
    assert metric.compute().item() == pytest.approx(f1_score(targets, logits > 0, average="macro"))
    by_labels = TrueMetric("f1_macro", num_classes=4, multilabel=True)
    assert by_labels((logits > 0).long(), targets) == metric.compute()
    with pytest.raises(ValueError, match=r"preds of TrueMetric\.update must be of the shape"):
        metric.update(logits[:, :2], targets)


def test_absent_classes_are_left_out_as_torchmetrics_and_scikit_learn_do():
    preds, targets = torch.tensor([0, 2, 1, 1, 0]), torch.tensor([0, 0, 1, 1, 1])
    theirs = torchmetrics.F1Score("multiclass", num_classes=4, average="macro")(preds, targets)
    ours = TrueMetric("f1_macro", num_classes=4)(preds, targets)
    torch.testing.assert_close(ours, theirs)
    assert ours.item() == pytest.approx(f1_score(targets, preds, average="macro"))


@pytest.mark.slow
@pytest.mark.distributed
def test_two_processes_have_the_value_of_one_with_all_the_rows(tmp_path):
    script = Path(__file__).parent / "torchmetrics_job.py"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*launch, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    from torchmetrics_job import rows

    logits, targets = rows()
    expected = {
        "true": f1_score(targets, logits.argmax(1), average="macro"),
        "soft": 1 - ew.EASTLoss("f1_macro")(logits, targets).item(),
    }
    for rank in (0, 1):
        found = torch.load(tmp_path / f"{rank}.pt")
        assert found == pytest.approx(expected, abs=1e-6)


def test_batches_add_up_to_scikit_learns_value():
    logits, targets, parts = batches()
    metric = TrueMetric("f1_macro", num_classes=4)
    for part in parts:
        metric.update(*part)
    expected = f1_score(targets, logits.argmax(1), average="macro")
    assert metric.compute().item() == pytest.approx(expected)
    metric.reset()
    metric.update(targets, targets)
    assert metric.compute() == 1


def test_the_metric_agrees_with_torchmetrics_own():
    _, _, parts = batches()
    ours = TrueMetric("f1_macro", num_classes=4)
    theirs = torchmetrics.F1Score("multiclass", num_classes=4, average="macro")
    for part in parts:
        ours.update(*part)
        theirs.update(*part)
    torch.testing.assert_close(ours.compute(), theirs.compute())


def test_collections_and_copies_work():
    logits, targets, _ = batches()
    metrics = torchmetrics.MetricCollection(
        {name: TrueMetric(name, num_classes=4) for name in ("f1_macro", "matthews_corrcoef")}
    )
    found = metrics(logits, targets)
    assert found["matthews_corrcoef"].item() == pytest.approx(
        matthews_corrcoef(targets, logits.argmax(1))
    )
    again = pickle.loads(pickle.dumps(TrueMetric("f1_macro", num_classes=4)))
    assert again(logits, targets) == found["f1_macro"]
    assert metrics["f1_macro"].higher_is_better
    cost = ew.metrics.get("expected_cost", cost=1 - torch.eye(4))
    assert not TrueMetric(cost, num_classes=4).higher_is_better


def test_a_single_column_is_decided_at_the_threshold():
    logits, targets = torch.randn(40), torch.randint(2, (40,))
    by_logits = TrueMetric("f1", num_classes=2)(logits, targets)
    by_probabilities = TrueMetric("f1", num_classes=2, threshold=0.5)(logits.sigmoid(), targets)
    assert by_logits == by_probabilities
    assert by_logits.item() == pytest.approx(f1_score(targets, logits > 0))


def test_ignored_targets_and_further_dimensions():
    logits, targets = torch.randn(2, 3, 5, 5), torch.randint(3, (2, 5, 5))
    targets[0, 0] = -100
    found = TrueMetric("jaccard_macro", num_classes=3)(logits, targets)
    known = targets != -100
    expected = ew.metrics.get("jaccard_macro")(
        ew.soft_confusion(torch.eye(3)[logits.argmax(1)[known]], targets[known], num_classes=3)
    )
    assert found.item() == pytest.approx(expected.item())


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_the_soft_metric_of_batches_is_that_of_all_rows():
    logits, targets, parts = batches()
    loss = ew.EASTLoss("matthews_corrcoef")
    metric = SoftMetric(loss)
    for part in parts:
        metric.update(*part)
    assert metric.compute().item() == pytest.approx(1 - loss(logits, targets).item(), abs=1e-6)
    weighted, weight = SoftMetric(loss), torch.rand(60)
    for part in zip(logits.split(25), targets.split(25), weight.split(25), strict=True):
        weighted.update(*part)
    expected = 1 - loss(logits, targets, weight).item()
    assert weighted.compute().item() == pytest.approx(expected, abs=1e-6)
    metric.reset()
    with pytest.raises(ValueError, match=r"updates of SoftMetric\.compute must be at least one"):
        metric.compute()


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"preds of TrueMetric\.update must be labels, or scores"):
        TrueMetric("f1_macro", num_classes=3).update(torch.randn(4, 5), torch.zeros(4).long())
    with pytest.raises(TypeError, match="loss of SoftMetric must be an EASTLoss"):
        SoftMetric("f1_macro")
