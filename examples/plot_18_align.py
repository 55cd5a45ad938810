"""
Align a network of your own
===========================

A small network is trained with cross-entropy on long-tailed digits. :func:`eastward.align` takes it, two loaders and
the metric. It returns a network whose largest logit is the best decision for the metric. ``prior="balanced"`` says
that all classes are equally frequent in the test, unlike in the training data.
"""

import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import eastward as ew

# %%
# Long-tailed training rows
# -------------------------
# There are 100 images of a zero, fewer of each next digit, and eight of a nine. Half of the data are the balanced test.

torch.manual_seed(0)
pictures, digits = load_digits(return_X_y=True)
X, y = torch.tensor(pictures, dtype=torch.float32) / 16, torch.tensor(digits)
order = torch.randperm(len(y))
train_part, test = order[: len(y) // 2], order[len(y) // 2 :]
sizes = torch.logspace(2, 0.9, 10).round().long().clamp_max(80)
kept = torch.cat([train_part[y[train_part] == c][: sizes[c]] for c in range(10)])
kept = kept[torch.randperm(len(kept))]
held = torch.zeros(len(kept), dtype=torch.bool)
for c in range(10):
    held[torch.nonzero(y[kept] == c).flatten()[::4]] = True


def loader(rows):
    return DataLoader(TensorDataset(X[rows], y[rows]), 32, shuffle=True)


train, valid = loader(kept[~held]), loader(kept[held])
print(torch.bincount(y[kept]).tolist())

# %%
# Cross-entropy, with and without class weights
# ---------------------------------------------


def fitted(weight=None):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(60):
        for inputs, targets in train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets, weight=weight).backward()
            optimizer.step()
    return model.eval()


def macro_f1(decisions):
    return f1_score(y[test], decisions, average="macro")


plain, weighted = fitted(), fitted(1 / torch.bincount(y[kept[~held]]).float())
print(f"cross-entropy  {macro_f1(plain(X[test]).argmax(1)):.3f}")
print(f"class weights  {macro_f1(weighted(X[test]).argmax(1)):.3f}")

# %%
# Aligned
# -------
# Your network is not changed; ``result.model`` is a new one.

result = ew.align(plain, train, valid, "f1_macro", prior="balanced", learning_rate=2e-3)
print(result)
print(f"aligned        {macro_f1(result.decide(result.model(X[test]))):.3f}")

# %%
# Who gains
# ---------
# Rare classes are found more often. Class weights achieve that, too; here the two are about level.


def recalls(decisions):
    return [float((decisions[y[test] == c] == c).float().mean()) for c in range(10)]


figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
places = torch.arange(10)
axes.bar(places - 0.2, recalls(plain(X[test]).argmax(1)), 0.4, label="as given")
axes.bar(places + 0.2, recalls(result.decide(result.model(X[test]))), 0.4, label="aligned")
axes.set(xlabel="class, from frequent to rare", ylabel="recall", xticks=places)
axes.legend(loc="lower left")
plt.show()
