"""
Is it worth it?
===============

``compare`` runs methods on the same splits and says what the differences are worth. Its last sentences are the answer:
what to use, how sure that is, and what it costs elsewhere.
"""

from sklearn.datasets import make_classification

import eastward as ew

# %%
# Two overlapping clouds, one in ten rows positive.

X, y = make_classification(
    600, 8, n_informative=4, weights=[0.9], class_sep=0.8, flip_y=0.02, random_state=0
)

# %%
# Four methods, four splits, small networks: a few seconds.

result = ew.compare(
    X,
    y,
    metric="f1",
    methods=["cross_entropy", "cross_entropy_tuned", "eastward", "random_forest"],
    n_splits=4,
    random_state=0,
    method_options={"hidden": (32,), "max_epochs": 20, "learning_rate": 5e-3},
)
print(result)
