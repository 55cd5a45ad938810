"""
Which columns matter for your metric
====================================

A column matters if the metric falls when its values are shuffled among held-out rows. The report shows this with
intervals, and this example shows the function behind it.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.model_selection import train_test_split

import eastward as ew
from eastward.datasets import load_embedded
from eastward.reporting import importance_summary

# %%
# A boosted classifier that decides by macro-F1.

frame, target = load_embedded("diabetes_progression")
X, y = frame.drop(columns=target), frame[target]
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
model = ew.EASTBoostingClassifier("f1_macro", random_state=0).fit(X.to_numpy(), y)
classes = list(model.classes_)

# %%
# Each column is shuffled ten times; the intervals come from a bootstrap of the rows.

summary = importance_summary(
    lambda rows: np.searchsorted(classes, model.predict(rows)),
    X_test.to_numpy(),
    list(X_test.columns),
    X_test,
    np.searchsorted(classes, y_test),
    classes,
    ew.metrics.get("f1_macro"),
)
columns = summary["columns"]
for column in columns[:3]:
    print(f"{column['name']:>4}  {column['mean']:.3f}  {np.round(column['interval'], 3)}")

# %%
# If the whole interval is above zero, the column matters.

figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
means = np.array([column["mean"] for column in columns])
ends = np.array([column["interval"] for column in columns])
colours = ["#0072B2" if column["matters"] else "0.6" for column in columns]
places = np.arange(len(columns))
axes.barh(places, means, color=colours)
axes.hlines(places, ends[:, 0], ends[:, 1], color="0.4")
axes.set_yticks(places, [column["name"] for column in columns])
axes.invert_yaxis()
axes.set(xlabel="loss of macro-F1 when the column is shuffled")
plt.show()
