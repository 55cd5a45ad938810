"""
Several labels at once
======================

In a multilabel problem each label has its own decision, and macro-F1 is the mean over labels. Rare labels suffer most
from a threshold of one half.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

import eastward as ew

# %%
# Eight labels; the last ones are made rare.

X, Y = make_multilabel_classification(2000, 20, n_classes=8, n_labels=2, random_state=0)
random = np.random.default_rng(0)
for label, kept in enumerate(np.geomspace(1, 0.15, 8)):
    Y[:, label] &= random.random(len(Y)) < kept
X, X_test, Y, Y_test = train_test_split(X, Y, test_size=0.5, random_state=0)

# %%
# One network in three ways: with binary cross-entropy, with a threshold tuned for each label, and trained for macro-F1
# before its thresholds are tuned.

settings = {
    "hidden": (32,),
    "max_epochs": 40,
    "n_folds": 3,
    "learning_rate": 5e-3,
    "random_state": 0,
}
models = {
    "cross-entropy": ew.EASTClassifier("f1_macro", recipe="cross_entropy", **settings),
    "tuned thresholds": ew.EASTClassifier("f1_macro", aligned=False, **settings),
    "macro-F1": ew.EASTClassifier("f1_macro", **settings),
}
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for shift, (name, model), colour in zip(
    (-0.27, 0, 0.27), models.items(), ("0.6", "#56B4E9", "#0072B2"), strict=True
):
    each = f1_score(Y_test, model.fit(X, Y).predict(X_test), average=None, zero_division=0)
    label = f"{name}: mean {each.mean():.3f}"
    axes.bar(np.arange(8) + shift, each, 0.25, color=colour, label=label)
    print(label)
axes.set(xlabel="label (share of positive rows)", ylabel="F1 on test rows")
axes.set_xticks(np.arange(8), [f"{share:.0%}" for share in Y.mean(0)])
axes.legend(frameon=False)
plt.show()

# %%
# Nearly all of the gain comes from the decision, because a rare label is seldom more likely than not.
