"""skorch with the metric as its criterion: plain PyTorch's gradient, and probabilities again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier

import eastward as ew
from eastward.integrations.skorch import Annealing, metric_criterion

ROWS, FEATURES = 48, 4


@pytest.fixture
def table(rng):
    X = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    return X, (np.arange(ROWS) % 3).astype(np.int64)


def net(outputs=3, *, options=None, **more):
    torch.manual_seed(0)
    return NeuralNetClassifier(
        torch.nn.Linear,
        module__in_features=FEATURES,
        module__out_features=outputs,
        **metric_criterion("f1_macro" if outputs > 1 else "f1", **(options or {})),
        **{"train_split": None, "batch_size": -1, "verbose": 0, "max_epochs": 1, "lr": 1.0, **more},
    )


def test_the_step_is_plain_pytorchs(table):
    X, y = table
    model = net().initialize()
    before = {k: v.clone() for k, v in model.module_.state_dict().items()}
    plain = torch.nn.Linear(FEATURES, 3)
    plain.load_state_dict(before)
    ew.EASTLoss("f1_macro")(plain(torch.from_numpy(X)), torch.from_numpy(y)).backward()
    model.partial_fit(X, y)
    # With plain gradient descent and learning rate one, the step is minus the gradient.
    step = before["weight"] - model.module_.weight.detach()
    assert plain.weight.grad.abs().max() > 1e-3
    torch.testing.assert_close(step, plain.weight.grad, rtol=1e-4, atol=1e-6)


def test_probabilities_are_no_raw_logits(table):
    X, y = table
    model = net(max_epochs=3).fit(X, y)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    logits = model.forward(X)
    np.testing.assert_allclose(probabilities, logits.softmax(1).numpy(), rtol=1e-5)
    assert (model.predict(X) == logits.argmax(1).numpy()).all()


def test_a_single_logit_has_two_probabilities(table):
    X, y = table
    model = net(outputs=1, max_epochs=3).fit(X, (y == 0).astype(np.int64))
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (ROWS, 2)
    positive = torch.sigmoid(model.forward(X)).numpy()[:, 0]
    np.testing.assert_allclose(probabilities[:, 1], positive, rtol=1e-5)


def test_annealing_is_recorded_and_saved_with_the_criterion(table, tmp_path):
    X, y = table
    schedule = ew.annealing.geometric_schedule(0.2, 0.5)
    model = net(max_epochs=3, callbacks=[("anneal", Annealing(schedule))]).fit(X, y)
    assert model.history[:, "temperature"] == pytest.approx([0.2, 0.1, 0.05])
    model.save_params(f_criterion=tmp_path / "criterion.pt")
    other = net().initialize()
    other.load_params(f_criterion=tmp_path / "criterion.pt")
    assert other.criterion_.temperature.item() == pytest.approx(0.05)


def test_a_plateau_ends_training(table):
    X, y = table
    cooling = ew.annealing.PlateauCooling(patience=1, min_delta=10, max_cold_steps=2)
    callback = Annealing(cooling, monitor="train_loss")
    model = net(max_epochs=50, callbacks=[("anneal", callback)]).fit(X, y)
    assert len(model.history) < 10
    # Ended, not broken: the net is fitted and predicts.
    assert model.predict(X).shape == (ROWS,)


def test_mistakes_are_named(table):
    with pytest.raises(ValueError, match="Did you mean 'f1_macro'"):
        metric_criterion("f1_makro")
    X, y = table
    schedule = ew.annealing.constant_schedule()
    other = NeuralNetClassifier(
        torch.nn.Linear,
        module__in_features=FEATURES,
        module__out_features=3,
        callbacks=[("anneal", Annealing(schedule))],
        verbose=0,
    )
    with pytest.raises(ValueError, match="criterion of Annealing must be an EASTLoss"):
        other.fit(X, y)
