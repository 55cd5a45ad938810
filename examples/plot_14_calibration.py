"""
What happens to calibration
===========================

Cross-entropy asks for true probabilities, and a metric asks for good decisions. A network trained for macro-F1 decides
better, but its own probabilities are worse. So ``compare`` prints both numbers, and this example draws them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import train_test_split

import eastward as ew

# %%
# Ten per cent positives, overlapping classes, labels with a little noise.

X, y = make_classification(
    3000, 12, n_informative=6, weights=[0.9], class_sep=0.7, flip_y=0.03, random_state=3
)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
settings = {"hidden": (32,), "max_epochs": 40, "learning_rate": 5e-3, "random_state": 0}
models = {
    "cross-entropy": ew.EASTClassifier("f1", recipe="cross_entropy", n_folds=5, **settings),
    "trained for F1": ew.EASTClassifier("f1", **settings),
}

figure, axes = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
axes.plot([0, 1], [0, 1], color="0.7", lw=1, label="calibrated")
for (name, model), colour in zip(models.items(), ("#D55E00", "#0072B2"), strict=True):
    model.fit(X, y)
    probability = model.predict_proba(X_test)[:, 1]
    observed, stated = calibration_curve(y_test, probability, n_bins=8, strategy="quantile")
    axes.plot(stated, observed, "o-", color=colour, label=name)
    print(
        f"{name:15} F1 {f1_score(y_test, model.predict(X_test)):.3f}   "
        f"log-loss {log_loss(y_test, probability):.3f}"
    )
axes.set(xlabel="stated probability of the positive class", ylabel="share of positives")
axes.legend(frameon=False)
plt.show()

# %%
# Both give roughly true probabilities, because they are calibrated on held-out rows. The best decision for F1 is
# different: it says "positive" long before one half, and ``decision_`` says from where on.

print(models["trained for F1"].decision_)

# %%
# So more rows are called positive than are positive.

share = np.mean(y_test)
for name, model in models.items():
    print(f"{name:15} calls {model.predict(X_test).mean():.1%} positive; {share:.1%} are")
