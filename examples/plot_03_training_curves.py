"""
Training curves of EASTClassifier
=================================

A network is trained with cross-entropy first, then with macro-F1 as its loss, on digits of which some are rare. With
every step that the temperature falls, one minus the surrogate loss comes closer to the true macro-F1 of the same
held-out rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import eastward as ew

# %%
# Long-tailed digits: from 140 images of one digit down to 12 of another. Noise makes them hard to tell apart.

X, y = load_digits(return_X_y=True)
random = np.random.default_rng(0)
X = X + random.normal(0, 4, X.shape)
sizes = np.geomspace(140, 12, 10).round().astype(int)
train = np.concatenate(
    [
        random.permutation(np.flatnonzero(y == digit))[:size]
        for digit, size in zip(random.permutation(10), sizes, strict=True)
    ]
)
test = np.setdiff1d(np.arange(len(y)), train)

# %%
# A small network keeps the example quick. The curves are means over its five folds.

model = ew.EASTClassifier("f1_macro", hidden=(32,), max_epochs=60, batch_size=128, random_state=0)
model.fit(X[train], y[train])
print("\n".join(model.report_["sentences"]))
print(f"test macro-F1: {model.score(X[test], y[test]):.3f}")

# %%
# The aligned stage, epoch by epoch.

aligned = [record for record in model.history_ if record["stage"] == "aligned"]
epochs = [record["epoch"] for record in aligned]
figure, (top, bottom) = plt.subplots(
    2, 1, sharex=True, figsize=(7, 5), height_ratios=[3, 1], layout="constrained"
)
top.plot(epochs, [1 - record["valid_loss"] for record in aligned], label="surrogate, held-out rows")
top.plot(epochs, [record["valid_score"] for record in aligned], label="true macro-F1, same rows")
top.set_ylabel("macro-F1")
top.legend()
bottom.step(epochs, [record["temperature"] for record in aligned], where="mid", color="0.3")
bottom.set_ylabel("temperature")
bottom.set_xlabel("epoch of the aligned stage")
plt.show()

# %%
# Loss and metric approach each other. At temperature zero they would be equal, but there the loss has no slope, so the
# ladder ends at 0.05. (With half as many images of the rarest digit, the network stops predicting it. The collapse
# guard then raises the temperature again, and ``report_["notes"]`` says so.)

for record in (aligned[0], aligned[-1]):
    gap = record["valid_score"] - (1 - record["valid_loss"])
    print(f"temperature {record['temperature']:.2f}: surrogate {gap:.3f} below the metric")
