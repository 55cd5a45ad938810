"""Small Lightning modules with the metric as their loss, and their data; also a script for two processes."""

from __future__ import annotations

import sys
import tempfile

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

import eastward as ew
from eastward.integrations.lightning import AnnealingCallback, TrueMetric, exact_training_step

ROWS, FEATURES, CLASSES = 32, 5, 3


def data():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(ROWS, FEATURES, generator=generator)
    # The second half of each batch holds no sample of class 2.
    targets = torch.where(
        torch.arange(ROWS) % 4 < 2, torch.arange(ROWS) % 3, torch.arange(ROWS) % 2
    )
    return features, targets


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 8), torch.nn.Tanh(), torch.nn.Linear(8, CLASSES)
    )


class Classifier(LightningModule):
    def __init__(self, **options):
        super().__init__()
        self.network, self.loss = network(), ew.EASTLoss("f1_macro", **options)
        self.true_metric = TrueMetric(self.loss)
        self.gradients: list[dict] = []
        self.seen_temperatures: list[float] = []

    def forward(self, features):
        return self.network(features)

    def training_step(self, batch, _index):
        features, targets = batch
        self.seen_temperatures.append(float(self.loss.temperature))
        return self.loss(self(features), targets)

    def validation_step(self, batch, _index):
        features, targets = batch
        logits = self(features)
        self.true_metric.update(logits, targets)
        self.log("val_loss", self.loss(logits, targets))

    def on_validation_epoch_end(self):
        self.log("val_f1_macro", self.true_metric.compute())

    def on_before_optimizer_step(self, _optimizer):
        self.gradients.append({k: p.grad.clone() for k, p in self.network.named_parameters()})

    def configure_optimizers(self):
        return torch.optim.SGD(self.network.parameters(), lr=0.1)


class ExactClassifier(Classifier):
    """Four micro-batches for each step of a manual optimiser."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, _index):
        features, targets = batch
        return exact_training_step(
            self, self.loss, list(zip(features.chunk(4), targets.chunk(4), strict=True))
        )


def loader(batch_size):
    return DataLoader(TensorDataset(*data()), batch_size=batch_size)


def trainer(**options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    own = {"accelerator": "cpu", "devices": 1, "max_epochs": 1, "enable_checkpointing": False}
    return Trainer(**{**quiet, **own, **options})


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {}
    for name, kind in {"plain": Classifier, "exact": ExactClassifier}.items():
        module = kind()
        with tempfile.TemporaryDirectory() as folder:
            run = trainer(
                devices=2,
                strategy="ddp",
                default_root_dir=folder,
                limit_train_batches=1,
                callbacks=[AnnealingCallback(ew.annealing.constant_schedule())],
            )
            run.fit(module, loader(ROWS // 2), loader(ROWS // 2))
        metrics = ("val_f1_macro", "val_true_f1_macro")
        values = [run.callback_metrics[metric].item() for metric in metrics]
        found[name] = (module.gradients[0], *values, module.network.state_dict())
    if run.global_rank == 0:
        torch.save(found, sys.argv[1])
