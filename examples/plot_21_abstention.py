"""
Leave the unclear rows to a human: abstention
=============================================

Some rows are better left to an expert. Say what that costs, or what share of rows must be decided. The decision then
leaves out the rows for which a mistake is most likely.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import eastward as ew

# %%
# Digits with coarse and noisy pixels, so that some cannot be read.

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(scale=6.0, size=X.shape)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
X, X_held, y, y_held = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
classifier = LogisticRegression(C=0.001, max_iter=500).fit(X, y)
held_out, test = classifier.predict_proba(X_held), classifier.predict_proba(X_test)

# %%
# The less a human costs, the more rows are left undecided. Undecided rows are marked -1.

costs = np.array([0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6])
coverage, accuracy = [], []
for cost in costs:
    decision = ew.tune_decision(held_out, y_held, "accuracy", abstain_cost=cost)
    decided = decision.decide(test)
    known = decided != -1
    coverage.append(known.mean())
    accuracy.append((decided[known] == y_test[known]).mean())

# %%
# The fewer rows are decided, the more of the decisions are right.

figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
axes.plot(coverage, accuracy, "o-", color="#0072B2")
for cost, share, value in zip(costs, coverage, accuracy, strict=True):
    axes.annotate(f"{cost:g}", (share, value), xytext=(6, 4), textcoords="offset points")
axes.set(xlabel="share of rows that are decided", ylabel="accuracy of these")
axes.set_title("numbers: the cost of asking, in units of a mistake")
plt.show()
