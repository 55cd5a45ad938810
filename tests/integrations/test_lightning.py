"""Lightning's gradients are those of plain PyTorch; the temperature survives a checkpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lightning_modules import (
    CLASSES,
    ROWS,
    Classifier,
    ExactClassifier,
    data,
    loader,
    network,
    trainer,
)
from sklearn.metrics import f1_score

import eastward as ew
from eastward.integrations.lightning import AnnealingCallback, TrueMetric, exact_training_step

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*fewer than the logging interval"),
    pytest.mark.filterwarnings("ignore:.*but have no `val_dataloader`"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
]


def plain_gradients(micro_batches: int, **options):
    model, loss = network(), ew.EASTLoss("f1_macro", **options)
    for features, targets in zip(*(t.chunk(micro_batches) for t in data()), strict=True):
        (loss(model(features), targets) / micro_batches).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_equal_gradients(found, expected):
    assert max(float(value.abs().max()) for value in expected.values()) > 1e-4
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-7)


def test_the_gradient_is_plain_pytorchs():
    module = Classifier()
    trainer().fit(module, loader(ROWS))
    assert_equal_gradients(module.gradients[0], plain_gradients(1))


@pytest.mark.parametrize("options", [{}, {"running": 0.9}])
def test_accumulated_gradients_are_plain_pytorchs(options):
    module = Classifier(**options)
    trainer(accumulate_grad_batches=4).fit(module, loader(ROWS // 4))
    assert len(module.gradients) == 1
    assert_equal_gradients(module.gradients[0], plain_gradients(4, **options))


def test_the_exact_step_has_the_gradient_of_the_full_batch():
    module = ExactClassifier()
    trainer().fit(module, loader(ROWS))
    assert_equal_gradients(module.gradients[0], plain_gradients(1))
    with pytest.raises(
        ValueError, match="module of exact_training_step must be optimised manually"
    ):
        exact_training_step(Classifier(), ew.EASTLoss(), [])


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What both kinds of steps find in two processes; one start of them serves both tests."""
    script = Path(__file__).parent / "lightning_modules.py"
    path = tmp_path_factory.mktemp("lightning") / "found.pt"
    done = subprocess.run(
        [sys.executable, str(script), str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return torch.load(path)


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("step", ["plain", "exact"])
def test_two_processes_give_the_gradient_and_the_metric_of_one(two_processes, step):
    gradients, value, logged, state = two_processes[step]
    assert_equal_gradients(gradients, plain_gradients(1))
    model = network()
    model.load_state_dict(state)
    features, targets = data()
    decisions = model(features).argmax(1)
    assert value == pytest.approx(f1_score(targets, decisions, average="macro"))
    assert logged == pytest.approx(value)


def test_annealing_follows_the_schedule():
    module = Classifier()
    callback = AnnealingCallback(ew.annealing.geometric_schedule(0.2, 0.5))
    run = trainer(max_epochs=3, callbacks=[callback])
    run.fit(module, loader(ROWS), loader(ROWS))
    assert module.seen_temperatures == pytest.approx([0.2, 0.1, 0.05])
    assert run.callback_metrics["temperature"].item() == pytest.approx(0.05)
    assert 0 < run.callback_metrics["val_f1_macro"].item() <= 1


@pytest.mark.slow
def test_a_checkpoint_remembers_the_temperature(tmp_path):
    def schedule():
        return ew.annealing.PlateauCooling(0.2, 0.5, patience=1, min_delta=10, max_cold_steps=9)

    first = Classifier()
    run = trainer(max_epochs=3, callbacks=[AnnealingCallback(schedule())])
    run.fit(first, loader(ROWS), loader(ROWS))
    assert first.seen_temperatures == pytest.approx([0.2, 0.2, 0.1])
    run.save_checkpoint(tmp_path / "last.ckpt")
    second, callback = Classifier(), AnnealingCallback(schedule())
    resumed = trainer(max_epochs=5, callbacks=[callback])
    resumed.fit(second, loader(ROWS), loader(ROWS), ckpt_path=tmp_path / "last.ckpt")
    whole = Classifier()
    trainer(max_epochs=5, callbacks=[AnnealingCallback(schedule())]).fit(
        whole, loader(ROWS), loader(ROWS)
    )
    assert second.seen_temperatures == pytest.approx(whole.seen_temperatures[3:])
    loaded = Classifier.load_from_checkpoint(tmp_path / "last.ckpt")
    assert loaded.loss.temperature.item() == pytest.approx(0.1)


def test_surrogate_and_true_metric_are_logged_for_every_stage():
    module = Classifier()
    schedule = ew.annealing.constant_schedule(0.1)
    run = trainer(max_epochs=2, callbacks=[AnnealingCallback(schedule)])
    run.fit(module, loader(ROWS // 4), loader(ROWS // 2))
    logged = {name: float(value) for name, value in run.callback_metrics.items()}
    features, targets = data()
    logits = module(features).detach()
    expected = f1_score(targets, logits.argmax(1), average="macro")
    assert logged["val_true_f1_macro"] == pytest.approx(expected)
    assert logged["val_true_f1_macro"] == pytest.approx(logged["val_f1_macro"])
    batches = zip(logits.chunk(2), targets.chunk(2), strict=True)
    soft = [1 - ew.EASTLoss("f1_macro", temperature=0.1)(*batch).item() for batch in batches]
    assert logged["val_soft_f1_macro"] == pytest.approx(sum(soft) / 2)
    assert 0 < logged["train_true_f1_macro"] <= 1
    assert logged["train_soft_f1_macro"] != pytest.approx(logged["val_soft_f1_macro"], abs=1e-7)
    assert not module.loss._forward_hooks  # nothing stays behind


def test_nothing_is_logged_of_epochs_with_another_loss_or_on_request():
    class Warm(Classifier):
        def training_step(self, batch, _index):
            features, targets = batch
            return torch.nn.functional.cross_entropy(self(features), targets)

    schedule = ew.annealing.constant_schedule(0.1)
    run = trainer(callbacks=[AnnealingCallback(schedule)])
    run.fit(Warm(), loader(ROWS))
    assert set(run.callback_metrics) == {"temperature"}
    silent = trainer(callbacks=[AnnealingCallback(schedule, log_metric=False)])
    silent.fit(Classifier(), loader(ROWS))
    assert set(silent.callback_metrics) == {"temperature"}


@pytest.mark.slow
def test_a_plateau_ends_training():
    cooling = ew.annealing.PlateauCooling(0.2, 0.5, patience=1, min_delta=10, max_cold_steps=2)
    run = trainer(max_epochs=50, callbacks=[AnnealingCallback(cooling)])
    run.fit(Classifier(), loader(ROWS), loader(ROWS))
    assert run.current_epoch < 10


def test_mistakes_are_named():
    other = AnnealingCallback(ew.annealing.constant_schedule(), loss="criterion")
    with pytest.raises(ValueError, match="loss of AnnealingCallback must be the name of a loss"):
        trainer(callbacks=[other]).fit(Classifier(), loader(ROWS))
    unknown = AnnealingCallback(ew.annealing.PlateauCooling(), monitor="loss_of_others")
    with pytest.raises(ValueError, match="monitor of AnnealingCallback must be a logged value"):
        trainer(callbacks=[unknown]).fit(Classifier(), loader(ROWS), loader(ROWS))
    with pytest.raises(ValueError, match=r"updates of TrueMetric\.compute must be at least one"):
        TrueMetric(ew.EASTLoss()).compute()


def test_the_true_metric_is_scikit_learns():
    features, targets = data()
    logits = network()(features)
    metric = TrueMetric(ew.EASTLoss("f1_macro"))
    for part in zip(logits.chunk(3), targets.chunk(3), strict=True):
        metric.update(*part)
    expected = f1_score(targets, logits.argmax(1), average="macro", labels=range(CLASSES))
    assert metric.compute() == pytest.approx(expected)
    binary = TrueMetric(ew.EASTLoss("f1"))
    binary.update(logits[:, 0], (targets == 0).long())
    assert binary.compute() == pytest.approx(f1_score(targets == 0, logits[:, 0] > 0))
    weighted, weight = TrueMetric(ew.EASTLoss("f1_macro")), torch.arange(ROWS).double()
    weighted.update(logits, targets, sample_weight=weight)
    expected = f1_score(targets, logits.argmax(1), average="macro", sample_weight=weight)
    assert weighted.compute() == pytest.approx(expected)
    several = TrueMetric(ew.EASTLoss("f1_macro", multilabel=True))
    indicators = torch.nn.functional.one_hot(targets, CLASSES)
    several.update(logits, indicators)
    hard = (logits > 0).int()
    assert several.compute() == pytest.approx(f1_score(indicators, hard, average="macro"))
