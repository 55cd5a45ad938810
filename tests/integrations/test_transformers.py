"""The Trainer's gradients are those of plain PyTorch, whatever the accumulation and the processes."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

import eastward as ew

with warnings.catch_warnings():
    # what transformers imports warns about itself
    warnings.simplefilter("ignore")
    from hugging_face import (
        ROWS,
        OrderedTrainer,
        Tokens,
        arguments,
        tiny_model,
        trainer_gradients,
    )
    from transformers import BertForSequenceClassification

    from eastward.integrations import transformers as adapter

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def plain_gradients(accumulation: int):
    """Plain PyTorch: each micro-batch by its share of the items; for one micro-batch simply the loss."""
    model, data = tiny_model(), Tokens()
    model.train()
    loss = ew.EASTLoss("f1_macro")
    total = (data.labels != -100).sum()
    for tokens, labels in zip(
        data.tokens.chunk(accumulation), data.labels.chunk(accumulation), strict=True
    ):
        logits = model(input_ids=tokens).logits.movedim(-1, 1)
        share = 1.0 if accumulation == 1 else (labels != -100).sum() / total
        (loss(logits, labels) * share).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_equal_gradients(found, expected, factor=1.0):
    assert found.keys() == expected.keys()
    assert max(float(value.abs().max()) for value in expected.values()) > 1e-4
    for name, value in expected.items():
        torch.testing.assert_close(found[name], factor * value, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 4])
def test_the_gradient_is_plain_pytorchs(accumulation):
    found = trainer_gradients(adapter.metric_loss("f1_macro"), accumulation)
    assert_equal_gradients(found, plain_gradients(accumulation))


@pytest.mark.slow
def test_a_mean_loss_without_the_adapter_is_four_times_too_large():
    loss = ew.EASTLoss("accuracy")

    def naive(outputs, labels, num_items_in_batch=None):
        return loss(outputs.logits.movedim(-1, 1), labels)

    wrong = trainer_gradients(naive, 4)
    right = trainer_gradients(adapter.metric_loss("accuracy"), 4)
    sizes = [torch.cat([v.flatten() for v in grads.values()]).norm() for grads in (wrong, right)]
    assert float(sizes[0] / sizes[1]) == pytest.approx(4, rel=0.25)


@pytest.mark.slow
@pytest.mark.distributed
def test_two_processes_give_the_gradient_of_one_with_all_the_data(tmp_path):
    script = Path(__file__).parent / "hugging_face.py"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*launch, str(script), str(tmp_path / "gradients.pt")],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = torch.load(tmp_path / "gradients.pt")
    for accumulation in (1, 4):
        assert_equal_gradients(found[accumulation], plain_gradients(accumulation))


def test_evaluation_reports_the_metric_of_that_name(tmp_path):
    data = Tokens()
    trainer = OrderedTrainer(
        tiny_model(),
        arguments(tmp_path, per_device_eval_batch_size=ROWS),
        eval_dataset=data,
        compute_loss_func=adapter.metric_loss("f1_macro"),
        compute_metrics=adapter.compute_metrics(["f1_macro", "accuracy"]),
    )
    found = trainer.evaluate()
    with torch.no_grad():
        logits = tiny_model().eval()(input_ids=data.tokens).logits
    known = data.labels != -100
    expected = f1_score(data.labels[known], logits.argmax(-1)[known], average="macro")
    assert found["eval_f1_macro"] == pytest.approx(expected)
    loss = ew.EASTLoss("f1_macro")(logits.movedim(-1, 1), data.labels)
    assert found["eval_loss"] == pytest.approx(loss.item(), rel=1e-5)


@pytest.mark.slow
def test_annealing_follows_the_schedule_and_is_logged(tmp_path):
    loss = adapter.metric_loss("f1_macro")
    schedule = ew.annealing.geometric_schedule(0.2, 0.5)
    trainer = OrderedTrainer(
        tiny_model(),
        arguments(tmp_path, per_device_train_batch_size=8, max_steps=4, logging_steps=1),
        train_dataset=Tokens(),
        compute_loss_func=loss,
        callbacks=[adapter.AnnealingCallback(loss, schedule, every="step")],
    )
    trainer.train()
    logged = [entry["temperature"] for entry in trainer.state.log_history if "loss" in entry]
    assert logged == pytest.approx([0.2, 0.1, 0.05, 0.025])
    with pytest.raises(ValueError, match="every of AnnealingCallback must be one of"):
        adapter.AnnealingCallback(loss, schedule, every="month")


@pytest.mark.slow
def test_a_resumed_run_goes_on_at_its_temperature(tmp_path):
    def trained(steps, resume):
        loss = adapter.metric_loss("f1_macro")
        callback = adapter.AnnealingCallback(loss, ew.annealing.geometric_schedule(0.2, 0.5))
        options = arguments(
            tmp_path,
            per_device_train_batch_size=8,
            max_steps=steps,
            logging_steps=1,
            save_strategy="steps",
            save_steps=2,
        )
        trainer = OrderedTrainer(
            tiny_model(),
            options,
            train_dataset=Tokens(),
            compute_loss_func=loss,
            callbacks=[callback],
        )
        trainer.train(resume_from_checkpoint=resume)
        return [e["temperature"] for e in trainer.state.log_history if "loss" in e]

    assert trained(2, None) == pytest.approx([0.2, 0.2])
    assert trained(4, True) == pytest.approx([0.2, 0.2, 0.1, 0.1])


def plateau_trainer(folder, *, steps, monitor="eval_loss", **options):
    """Evaluates after every step; ``min_delta`` is so large that no loss ever improves on another."""
    loss = adapter.metric_loss("f1_macro")
    cooling = ew.annealing.PlateauCooling(0.2, 0.5, patience=1, min_delta=10, **options)
    return OrderedTrainer(
        tiny_model(),
        arguments(
            folder,
            per_device_train_batch_size=8,
            max_steps=steps,
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=1,
            save_strategy="steps",
            save_steps=2,
        ),
        train_dataset=Tokens(),
        eval_dataset=Tokens(),
        compute_loss_func=loss,
        callbacks=[adapter.AnnealingCallback(loss, cooling, monitor=monitor)],
    )


def logged_temperatures(trainer):
    return [entry["temperature"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.slow
def test_a_plateau_cools_and_ends_training(tmp_path):
    trainer = plateau_trainer(tmp_path, steps=50, max_cold_steps=2)
    trainer.train()
    assert trainer.state.global_step < 10
    seen = logged_temperatures(trainer)
    assert seen == sorted(seen, reverse=True)
    assert seen[0] == pytest.approx(0.2)
    assert seen[-1] < 0.2
    unknown = plateau_trainer(tmp_path, steps=2, monitor="loss_of_others", max_cold_steps=2)
    with pytest.raises(ValueError, match="monitor of AnnealingCallback must be a result"):
        unknown.train()


@pytest.mark.slow
def test_a_resumed_plateau_goes_on_where_it_was(tmp_path):
    plateau_trainer(tmp_path, steps=2, max_cold_steps=9).train()
    resumed = plateau_trainer(tmp_path, steps=5, max_cold_steps=9)
    resumed.train(resume_from_checkpoint=True)
    whole = plateau_trainer(tmp_path / "whole", steps=5, max_cold_steps=9)
    whole.train()
    assert logged_temperatures(resumed) == pytest.approx(logged_temperatures(whole))
    assert len(set(logged_temperatures(whole))) > 2


def test_sequences_and_tuples_of_outputs_are_understood():
    logits, labels = torch.randn(8, 3), torch.arange(8) % 3
    expected = ew.EASTLoss("f1_macro")(logits, labels)
    loss = adapter.metric_loss("f1_macro")
    assert loss({"logits": logits}, labels) == expected
    assert loss((logits,), labels) == expected
    assert loss({"logits": logits}, labels, num_items_in_batch=torch.tensor(32)) == expected / 4
    with pytest.raises(ValueError, match="outputs of metric_loss must be an output with logits"):
        loss({"hidden_states": logits}, labels)
    output = tiny_model(BertForSequenceClassification)(
        input_ids=torch.zeros(4, 5, dtype=torch.long)
    )
    assert loss(output, labels[:4]).requires_grad


def test_independent_labels_are_understood():
    logits, labels = torch.randn(8, 3), torch.randint(2, (8, 3)).float()
    loss = adapter.metric_loss("f1_macro", multilabel=True)
    expected = ew.EASTLoss("f1_macro", multilabel=True)(logits, labels)
    assert loss({"logits": logits}, labels, num_items_in_batch=24) == expected

    class Prediction:
        predictions, label_ids = (logits.numpy(),), labels.numpy()

    found = adapter.compute_metrics("f1_macro", multilabel=True)(Prediction())
    hard = (logits > 0).numpy().astype(int)
    expected = f1_score(labels.numpy(), hard, average="macro", zero_division=0)
    assert found == {"f1_macro": pytest.approx(expected)}
    assert np.isfinite(expected)
