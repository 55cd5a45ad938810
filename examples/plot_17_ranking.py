"""
Ranking: area under the curve
=============================

Some models are judged by the order of their scores, not by decisions. ``AUROCLoss`` sums soft counts over a grid of
thresholds, as *Bridging the Gap* does. ``AveragePrecisionLoss`` looks at the top of the list. Cross-entropy that has
converged ranks well already, so we compare them with that.
"""

import copy

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn

import eastward as ew

# %%
# Five per cent positives, and a small network.

X, y = make_classification(
    4000, 15, n_informative=5, weights=[0.95], class_sep=0.7, flip_y=0.02, random_state=1
)
X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
train, test = slice(0, 2000), slice(2000, 4000)


def train_more(network, loss, epochs, learning_rate):
    optimizer = torch.optim.AdamW(network.parameters(), lr=learning_rate)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss(network(X[train]).squeeze(1), y[train]).backward()
        optimizer.step()
    return network


def areas(network):
    with torch.no_grad():
        scores = network(X[test]).squeeze(1)
    return roc_auc_score(y[test], scores), average_precision_score(y[test], scores)


# %%
# All losses start from the same network, trained with cross-entropy, and then train for equally many epochs. Five seeds
# show how much is chance.

losses = {
    "cross-entropy": lambda z, t: nn.functional.binary_cross_entropy_with_logits(z, t.float()),
    "AUROCLoss": ew.AUROCLoss(),
    "AveragePrecisionLoss": ew.AveragePrecisionLoss(),
}
found = {name: [] for name in losses}
for seed in range(5):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(15, 16), nn.ReLU(), nn.Linear(16, 1))
    start = train_more(network, losses["cross-entropy"], epochs=150, learning_rate=1e-2)
    for name, loss in losses.items():
        model = train_more(copy.deepcopy(start), loss, epochs=50, learning_rate=3e-3)
        found[name].append(areas(model))
for name, values in found.items():
    auroc, precision = np.mean(values, axis=0)
    print(f"{name:22} AUROC {auroc:.3f}  average precision {precision:.3f}")

# %%
# The losses are level here, within the spread of the seeds. ``AUROCLoss`` counts all thresholds alike and loses a
# little average precision. Try a ranking loss where cross-entropy has a reason to rank badly.

figure, panels = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for column, (axes, title) in enumerate(zip(panels, ("AUROC", "average precision"), strict=True)):
    for place, values in enumerate(found.values()):
        each = np.array(values)[:, column]
        axes.plot(np.full(len(each), place), each, "o", color="0.7")
        axes.plot(place, each.mean(), "D", color="#0072B2", label="mean" if place == 0 else None)
    axes.set_xticks(range(len(losses)), [name.removesuffix("Loss") for name in losses])
    axes.set_title(title)
panels[0].set_ylabel("test rows")
panels[0].legend(frameon=False)
plt.show()
