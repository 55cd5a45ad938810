"""
Ranking: area under the curve
=============================

Some are judged by no decision at all but by the order of scores. ``AUROCLoss`` sums soft counts over a grid of
thresholds, as *Bridging the Gap* does; ``AveragePrecisionLoss`` looks at the top of the list.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_classification
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn

import eastward as ew

# %%
# Five per cent positives, and a small network that all losses start from.

X, y = make_classification(
    4000, 15, n_informative=5, weights=[0.95], class_sep=0.7, flip_y=0.02, random_state=1
)
X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
train, test = slice(0, 2000), slice(2000, 4000)


def trained(loss, epochs=60):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(15, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss(network(X[train]).squeeze(1), y[train]).backward()
        optimizer.step()
    return network(X[test]).squeeze(1).detach()


losses = {
    "cross-entropy": lambda z, t: nn.functional.binary_cross_entropy_with_logits(z, t.float()),
    "AUROCLoss": ew.AUROCLoss(),
    "AveragePrecisionLoss": ew.AveragePrecisionLoss(),
}
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for place, (name, loss) in enumerate(losses.items()):
    scores = trained(loss)
    values = (roc_auc_score(y[test], scores), average_precision_score(y[test], scores))
    print(f"{name:22} AUROC {values[0]:.3f}  average precision {values[1]:.3f}")
    axes.bar([place - 0.2, place + 0.2], values, 0.4, color=["#0072B2", "#E69F00"])
axes.set_xticks(range(len(losses)), list(losses))
axes.set(ylabel="test score", title="blue: AUROC, orange: average precision")
plt.show()
