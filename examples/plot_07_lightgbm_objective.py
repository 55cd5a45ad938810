"""
LightGBM with a metric as its objective
=======================================

LightGBM trains with its own cross-entropy first. Further rounds of trees then minimise one minus the soft F1. Training
stops when the true F1 of held-out rows no longer rises.
"""

import lightgbm
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from eastward import EASTBoostingClassifier
from eastward.boosting import lightgbm_metric, lightgbm_objective

# %%
# One positive in twelve, and labels with noise.

X, y = make_classification(
    4000, 15, n_informative=6, weights=[0.92], class_sep=0.7, flip_y=0.04, random_state=3
)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
X_valid, X_test, y_valid, y_test = train_test_split(
    X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
)

# %%
# Cross-entropy, 60 rounds. With its own objective LightGBM returns probabilities, so we tell the evaluation.

common = {"verbosity": -1, "num_threads": 1, "num_leaves": 15, "metric": "none", "seed": 0}
first = {}
train = lightgbm.Dataset(X_train, y_train, free_raw_data=False)
valid = lightgbm.Dataset(X_valid, y_valid, reference=train, free_raw_data=False)
base = lightgbm.train(
    common | {"objective": "binary"},
    train,
    60,
    valid_sets=[valid],
    feval=lightgbm_metric("f1", probabilities=True),
    callbacks=[lightgbm.record_evaluation(first)],
)

# %%
# Aligned rounds start at the raw scores of that model, for training and for held-out rows. With a custom objective,
# LightGBM returns raw scores.

second = {}
train = lightgbm.Dataset(X_train, y_train, init_score=base.predict(X_train, raw_score=True))
valid = lightgbm.Dataset(
    X_valid, y_valid, init_score=base.predict(X_valid, raw_score=True), reference=train
)
aligned = lightgbm.train(
    common | {"objective": lightgbm_objective("f1"), "learning_rate": 0.05},
    train,
    60,
    valid_sets=[valid],
    feval=lightgbm_metric("f1"),
    callbacks=[
        lightgbm.record_evaluation(second),
        lightgbm.early_stopping(25, verbose=False),
    ],
)
print(f"best round of the metric: {aligned.best_iteration}")

# %%
# The true F1 of held-out rows, round by round.

before, after = first["valid_0"]["f1"], second["valid_0"]["f1"]
figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
axis.plot(np.arange(len(before)), before, label="cross-entropy")
axis.plot(len(before) + np.arange(len(after)), after, label="aligned with F1")
axis.axvline(len(before) + aligned.best_iteration - 1, color="0.6", linestyle=":")
axis.set_xlabel("round")
axis.set_ylabel("F1 of held-out rows")
axis.legend()
plt.show()

# %%
# ``EASTBoostingClassifier`` does this with cross-validation instead of one split, keeps aligned rounds only if they
# help there, and tunes the decision. No model has seen the test rows.


def f1_of(decisions):
    hits = (decisions & (y_test == 1)).sum()
    return 2 * hits / (decisions.sum() + y_test.sum())


raw = base.predict(X_test, raw_score=True)
print(f"cross-entropy         test F1 {f1_of(raw > 0):.3f}")
print(f"and aligned rounds    test F1 {f1_of(raw + aligned.predict(X_test) > 0):.3f}")
model = EASTBoostingClassifier(
    "f1", n_estimators=60, n_bags=5, backend_params={"num_leaves": 15}, random_state=0
).fit(np.concatenate([X_train, X_valid]), np.concatenate([y_train, y_valid]))
print(f"EASTBoostingClassifier test F1 {model.score(X_test, y_test):.3f}")
print(model.summary())
