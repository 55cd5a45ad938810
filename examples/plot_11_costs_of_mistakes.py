"""
Costs of mistakes
=================

If mistakes have prices, the metric is the mean cost. We compare three ways: arg max, a decision that is tuned for the
cost on held-out rows, and a network trained for the cost. On a table this small and this linear, the second is hard to
beat.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eastward as ew

# %%
# Breast cancer, with features blurred until mistakes happen. Class 0 is malignant. Missing it costs 20, and a false
# alarm costs 1.

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X) + np.random.default_rng(0).normal(0, 2.0, X.shape)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
cost = np.array([[0.0, 20.0], [1.0, 0.0]])  # rows: true class


def mean_cost(predicted):
    return cost[y_test, predicted].mean()


# %%
# A logistic regression by arg max, a logistic regression with a tuned decision, and a network for the cost.

plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
tuned = ew.TunedDecisionClassifierCV(
    plain, metric=ew.metrics.get("expected_cost", cost=cost), random_state=0
).fit(X, y)
network = ew.EASTClassifier(
    "expected_cost", metric_options={"cost": cost}, hidden=(32,), max_epochs=20, random_state=0
).fit(X, y)

costs = {
    "logistic regression,\narg max": mean_cost(plain.predict(X_test)),
    "logistic regression,\ntuned decision": mean_cost(tuned.predict(X_test)),
    "network,\ntrained for the cost": mean_cost(network.predict(X_test)),
}
for name, value in costs.items():
    print(f"{name.replace(chr(10), ' '):45} {value:.3f} per patient")

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.barh(list(costs), list(costs.values()), color=["0.6", "#56B4E9", "#0072B2"])
axes.invert_yaxis()
axes.set_xlabel("mean cost on test patients")
plt.show()

# %%
# The mistakes change places: false alarms, which cost 1, replace misses, which cost 20.

for name, model in (("arg max", plain), ("tuned", tuned), ("network", network)):
    predicted = model.predict(X_test)
    missed = int(((y_test == 0) & (predicted == 1)).sum())
    alarms = int(((y_test == 1) & (predicted == 0)).sum())
    print(f"{name:8} missed {missed:3}, false alarms {alarms:3}")
