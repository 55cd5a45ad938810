"""The trainer's numbers arrive in TensorBoard and MLflow."""

from __future__ import annotations

import numpy as np
import pytest
from lightning.pytorch.loggers import MLFlowLogger
from lightning_fabric.loggers import TensorBoardLogger

import eastward as ew

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def fitted(logger):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4)), np.arange(120) % 3
    model = ew.EASTClassifier(
        hidden=(8,), max_epochs=4, n_folds=2, loggers=logger, random_state=0
    ).fit(X + y[:, None], y)
    return model.history_


@pytest.mark.slow
def test_tensorboard_holds_every_epoch(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = TensorBoardLogger(tmp_path, name="run", version="0")
    history = fitted(logger)
    logger.experiment.flush()
    events = EventAccumulator(logger.log_dir).Reload()
    tags = events.Tags()["scalars"]
    losses = [tag for tag in tags if tag.endswith("valid_loss")]
    assert losses
    logged = [event.value for tag in losses for event in events.Scalars(tag)]
    assert sorted(logged) == pytest.approx(sorted(r["valid_loss"] for r in history), rel=1e-5)
    assert any(tag.endswith("temperature") for tag in tags)


@pytest.mark.slow
def test_mlflow_holds_every_epoch(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    logger = MLFlowLogger("eastward", tracking_uri=(tmp_path / "runs").as_uri())
    history = fitted(logger)
    run = logger.experiment.get_run(logger.run_id)
    losses = [name for name in run.data.metrics if name.endswith("valid_loss")]
    assert losses
    entries = [
        entry.value
        for name in losses
        for entry in logger.experiment.get_metric_history(logger.run_id, name)
    ]
    assert sorted(entries) == pytest.approx(sorted(r["valid_loss"] for r in history), rel=1e-6)
