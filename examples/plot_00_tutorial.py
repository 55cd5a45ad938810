"""
Tutorial: from a table to a decision
====================================

You predict which patients will get worse, and you are judged by F1 of the rare class. In ten minutes you will train a
classifier, let it decide by your metric, promise a recall, leave unclear patients to a doctor, and train a network
with the metric as its loss. Download the page as a notebook with the link at its end.
"""

# %%
# The data
# --------
# 442 diabetes patients with ten measurements each. A fifth of them got much worse within a year: the class "strong".

from matplotlib import pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, recall_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eastward as ew
from eastward.datasets import load_embedded

frame, target = load_embedded("diabetes_progression")
X, y = frame.drop(columns=target).astype("float32"), frame[target]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
print(y.value_counts().to_string())


scores = {}  # F1 of the rare class, for the picture at the end


def show(name, labels):
    scores[name] = f1_score(y_test, labels, pos_label="strong")
    recall = recall_score(y_test, labels, pos_label="strong")
    print(f"{name}: F1 {scores[name]:.3f}, recall {recall:.3f}")


# %%
# A classifier that you trust
# ---------------------------
# Logistic regression picks the more probable class. A patient with a probability of 40 per cent counts as healthy, so
# it finds few of those who matter.

classifier = make_pipeline(StandardScaler(), LogisticRegression())
show("more probable class", classifier.fit(X_train, y_train).predict(X_test))

# %%
# Decide by the metric
# --------------------
# The classifier stays as it is. :class:`eastward.TunedDecisionClassifierCV` predicts each training row by a copy that
# was fitted without it, and looks for the best threshold for F1.

tuned = ew.TunedDecisionClassifierCV(classifier, "f1_macro", random_state=0).fit(X_train, y_train)
print(tuned.summary())
show("decided by the metric", tuned.predict(X_test))

# %%
# Promise a recall
# ----------------
# The clinic must find seven of ten patients who will get worse. Say it as a constraint. The decision keeps it with 95
# per cent confidence, so it aims a little higher. Nothing is fitted again.

tuned.decide_by("f1_macro", subject_to="recall[strong] >= 0.7")
print(tuned.decision_)
show("recall promised", tuned.predict(X_test))

# %%
# Leave unclear patients to a doctor
# ----------------------------------
# The classifier decides at least 80 per cent of the patients. It leaves the others to a doctor: those for whom a
# mistake is most likely.

tuned.decide_by("f1_macro", subject_to="coverage >= 0.8")
labels = tuned.predict(X_test)
decided = labels != "abstain"
print(f"decided {decided.mean():.0%} of the patients")
print(f"F1 of these {f1_score(y_test[decided], labels[decided], pos_label='strong'):.3f}")

# %%
# Train with the metric
# ---------------------
# :class:`eastward.EASTClassifier` trains networks with cross-entropy, then with the metric as the loss. It keeps the
# second stage only if held-out rows prefer it. The sizes here are small, so that this page builds in seconds.

network = ew.EASTClassifier("f1_macro", hidden=(32,), max_epochs=40, random_state=0)
network.fit(X_train, y_train)
print(network.summary())
show("networks", network.predict(X_test))

# %%
# What you have seen
# ------------------
# One metric, named once, decided everything. On this table most of the gain comes from the decision, as on most small
# tables. :func:`eastward.compare` finds out what suits yours.

figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
bars = axes.barh(list(scores), list(scores.values()), color=["#888888", *["#0072B2"] * 3])
axes.bar_label(bars, fmt="%.2f", padding=4)
axes.invert_yaxis()
axes.set(xlabel="F1 of the rare class on 177 test patients", xlim=(0, 0.8))
plt.show()
