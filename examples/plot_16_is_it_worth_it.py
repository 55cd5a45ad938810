"""
Is it worth it?
===============

``compare`` runs methods on the same splits and says what the differences are worth. It ends with the answer: what to
use, how sure that is, and what it costs elsewhere.
"""

import matplotlib.pyplot as plt
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

# %%
# The picture shows what each method gains over the baseline, with intervals that account for overlapping splits.
# All intervals contain zero. Four splits of these data cannot tell the methods apart, and the verdict says so.

rows = [row for row in result.to_dict()["methods"] if row["name"] != "cross_entropy_tuned"]
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for place, row in enumerate(rows):
    low, high = row["difference"]["interval"]
    axes.plot([low, high], [place, place], color="#0072B2", lw=2)
    axes.plot(row["difference"]["mean"], place, "o", color="#0072B2")
axes.axvline(0, color="0.5", linestyle=":")
axes.set_yticks(range(len(rows)), [row["label"] for row in rows])
axes.invert_yaxis()
axes.set_xlabel("gain of F1 over a tuned decision (95 % interval)")
plt.show()
