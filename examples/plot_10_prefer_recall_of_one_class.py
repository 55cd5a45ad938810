"""
Prefer the recall of one class
==============================

A β for one class moves that class along its precision-recall trade-off. The classes that it is confused with pay for
it, and the others hardly change.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import precision_score, recall_score
from sklearn.model_selection import train_test_split

import eastward as ew

# %%
# Digits with noise, so that there is something to trade. The digit 8 looks like many others.

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(0, 6, X.shape)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
EIGHT = 8

# %%
# One network for each β of the class 8; all other classes keep β = 1.

betas = [0.25, 1.0, 4.0]
precision, recall, others = [], [], []
for beta in betas:
    model = ew.EASTClassifier(
        "f_beta",
        metric_options={"beta": {EIGHT: beta}},
        hidden=(32,),
        n_folds=2,
        max_epochs=15,
        random_state=0,
    ).fit(X, y)
    predicted = model.predict(X_test)
    precision.append(precision_score(y_test, predicted, average=None, zero_division=0)[EIGHT])
    recalls = recall_score(y_test, predicted, average=None)
    recall.append(recalls[EIGHT])
    others.append(np.delete(recalls, EIGHT).mean())

figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
axes.plot(betas, recall, "o-", color="#0072B2", label="recall of 8")
axes.plot(betas, precision, "s-", color="#D55E00", label="precision of 8")
axes.plot(betas, others, "^--", color="0.5", label="mean recall of the other nine")
axes.set_xscale("log", base=2)
axes.set(xlabel="β of class 8", ylabel="test score", xticks=betas, xticklabels=betas)
axes.legend(frameon=False)
plt.show()

# %%
# β below one asks for precision: an 8 is only called an 8 when it is clear. β above one asks for recall.

for beta, found, right in zip(betas, recall, precision, strict=True):
    print(f"β = {beta:<5} recall {found:.2f}  precision {right:.2f}")
