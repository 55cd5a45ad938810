"""
Other class frequencies: priors
===============================

A decision is tuned on data where a fifth of the rows are positive, and used where one in fifty is. ``with_prior`` tunes
it for the new frequencies without any new label, and ``estimate_prior`` finds them on unlabelled rows.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt
from sklearn.metrics import f1_score

import eastward as ew
from eastward import decisions

# %%
# Scores of a good classifier that was trained where a fifth of the rows are positive.

generator = np.random.default_rng(0)


def rows(count, positive, trained_at=0.2):
    truth = (generator.random(count) < positive).astype(int)
    evidence = generator.normal(2.0 * truth) * 2.0 - 2.0
    odds = np.exp(evidence) * trained_at / (1 - trained_at)
    probability = odds / (1 + odds)
    return np.stack([1 - probability, probability], axis=1), truth


held_out, truth = rows(4000, 0.2)
decision = ew.tune_decision(held_out, truth, "f1", classes=["no", "yes"])
print(decision)

# %%
# New rows have other frequencies. We compare the old decision, one adjusted to estimated frequencies, and one adjusted
# to the true ones.

shares = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.4])
scores = {"as tuned": [], "frequencies estimated": [], "frequencies known": []}
for share in shares:
    new, labels = rows(20_000, share)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that these frequencies are far from the old ones
        estimated = decisions.estimate_prior(new, decision.prior)
    rules = (decision, decision.with_prior(estimated), decision.with_prior([1 - share, share]))
    for name, rule in zip(scores, rules, strict=True):
        scores[name].append(f1_score(labels, rule.decide(new)))

# %%
# Where positives are rarer than in training, the adjusted decision asks for more evidence.

figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for (name, values), style in zip(scores.items(), ("o--", "s-", "^:"), strict=True):
    axes.semilogx(shares, values, style, label=name)
axes.axvline(0.2, color="0.6", lw=1)
axes.text(0.19, 0.35, "tuned here", ha="right")
axes.set(xlabel="share of positives in the new rows", ylabel="F1")
axes.legend(frameon=False)
plt.show()
