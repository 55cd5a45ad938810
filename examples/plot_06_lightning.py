"""
A Lightning module that trains by its metric
============================================

The module holds an ``EASTLoss``. A callback cools it, keeps the temperature in checkpoints, and logs the surrogate and
the true metric of every batch on which the loss is called.
"""

import logging
import warnings

import matplotlib.pyplot as plt
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from sklearn.datasets import make_classification
from torch.utils.data import DataLoader, TensorDataset

import eastward as ew
from eastward.integrations.lightning import AnnealingCallback

torch.set_num_threads(1)
# Lightning recommends worker processes, which data in memory do not need, and talks about itself.
warnings.filterwarnings("ignore", ".*does not have many workers")
warnings.filterwarnings("ignore", ".*LeafSpec")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

# %%
# Three classes, 85 % of the rows in one of them.

X, y = make_classification(
    3000,
    20,
    n_informative=8,
    n_classes=3,
    weights=[0.85, 0.1, 0.05],
    class_sep=0.9,
    flip_y=0.02,
    random_state=0,
)
X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
train = DataLoader(TensorDataset(X[:2000], y[:2000]), batch_size=250, shuffle=True)
valid = DataLoader(TensorDataset(X[2000:], y[2000:]), batch_size=1000)

# %%
# The module: cross-entropy until it has converged, then the metric, with a lower learning rate.


class Classifier(LightningModule):
    def __init__(self, warm_epochs, *, aligned=True):
        super().__init__()
        self.network = torch.nn.Sequential(
            torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3)
        )
        self.warm_epochs, self.aligned = warm_epochs, aligned
        self.loss = ew.EASTLoss("f1_macro")
        self.curve = []

    def forward(self, features):
        return self.network(features)

    def training_step(self, batch, _index):
        features, targets = batch
        warm = self.current_epoch < self.warm_epochs
        loss = self.loss if self.aligned and not warm else torch.nn.functional.cross_entropy
        return loss(self(features), targets)

    def validation_step(self, batch, _index):
        features, targets = batch
        self.log("val_loss", self.loss(self(features), targets))

    def on_validation_end(self):
        seen = self.trainer.callback_metrics  # what loggers would receive
        self.curve.append((float(seen["val_soft_f1_macro"]), float(seen["val_true_f1_macro"])))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=3e-3)
        slower = torch.optim.lr_scheduler.MultiStepLR(optimizer, [self.warm_epochs], gamma=0.3)
        return [optimizer], [slower]


# %%
# Train as usual. Several devices need no change, because the loss sums its matrix over processes. With
# ``accumulate_grad_batches``, use ``EASTLoss(..., running=0.9)``. The schedule counts the Trainer's epochs, so cooling
# begins after those of cross-entropy. For comparison, the same module trains with cross-entropy to the end, for as many
# epochs and with the same learning rates.

WARM, EPOCHS = 50, 75
cooling = ew.annealing.geometric_schedule(0.2, 0.9)


def trained(*, aligned):
    seed_everything(0, verbose=False)
    module = Classifier(WARM, aligned=aligned)
    Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[AnnealingCallback(lambda epoch: cooling(max(0, epoch - WARM)))],
    ).fit(module, train, valid)
    return module


plain, aligned = trained(aligned=False), trained(aligned=True)
print(f"temperature at the end: {float(aligned.loss.temperature):.3f}")
print(
    f"macro-F1: after cross-entropy {aligned.curve[WARM - 1][1]:.3f}, "
    f"after more of it {plain.curve[-1][1]:.3f}, after the metric {aligned.curve[-1][1]:.3f}"
)

# %%
# Surrogate and metric approach each other while the loss cools. This is one seed, to show how it is done.

surrogate, metric = zip(*aligned.curve, strict=True)
figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
axis.plot(
    [value for _, value in plain.curve], color="0.6", label="macro-F1, cross-entropy throughout"
)
axis.plot(surrogate, label="one minus the surrogate loss")
axis.plot(metric, label="true macro-F1, same rows")
axis.axvline(WARM - 0.5, color="0.6", linestyle=":")
axis.set_xlabel("epoch (dotted: from here on the metric is the loss)")
axis.set_ylabel("macro-F1 of held-out rows")
axis.legend()
plt.show()
