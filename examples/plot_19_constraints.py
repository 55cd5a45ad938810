"""
Keep a promise: constraints
===========================

"The best F1, but find at least 80 per cent of the frauds." A decision keeps a constraint with a confidence that you
choose. It aims higher on the rows it was tuned on, so that the promise also holds on new ones.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import eastward as ew

# %%
# A tenth of the rows are fraud. Held-out rows tune the decision, test rows judge it.

X, y = make_classification(6000, 12, n_informative=5, weights=[0.9], flip_y=0.03, random_state=3)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
X, X_held, y, y_held = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
classifier = LogisticRegression(max_iter=500).fit(X, y)
held_out, test = classifier.predict_proba(X_held), classifier.predict_proba(X_test)

# %%
# One decision for each promise.

asked = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
recalls, precisions = [], []
for recall in asked:
    decision = ew.tune_decision(
        held_out, y_held, "f1", subject_to=f"recall[fraud] >= {recall}", classes=["fine", "fraud"]
    )
    decided = decision.decide(test)
    recalls.append((decided[y_test == 1] == 1).mean())
    precisions.append((y_test[decided == 1] == 1).mean())
print(decision)

# %%
# The recall on test rows lies above the diagonal: each promise holds. It is paid for in precision.

figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
axes.plot([0.45, 0.95], [0.45, 0.95], color="0.6", ls="--", label="promised")
axes.plot(asked, recalls, "o-", color="#0072B2", label="recall on test rows")
axes.plot(asked, precisions, "s-", color="#D55E00", label="precision on test rows")
axes.set(xlabel="promised recall of fraud", ylim=(0, 1))
axes.legend(frameon=False, loc="lower left")
plt.show()
