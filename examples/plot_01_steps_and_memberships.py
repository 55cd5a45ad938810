"""
The step and the memberships
============================

Two functions turn a probability vector into a soft decision. Everything else is built on them.
"""

import matplotlib.pyplot as plt
import torch

import eastward as ew

# %%
# The step
# --------
# How far does a probability lie above a threshold? At temperature 0.2 the step is almost a straight line. Towards zero
# it becomes the jump of a hard decision. The sigmoid is the alternative. It reaches 0 and 1 at the ends only if the
# temperature is low.

p = torch.linspace(0, 1, 501)
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for temperature, colour in ((0.2, "#9ecae1"), (0.1, "#4292c6"), (0.02, "#08306b")):
    axes.plot(
        p, ew.heaviside(p, 0.4, temperature), color=colour, label=f"linear, T = {temperature}"
    )
axes.plot(p, ew.sigmoid_step(p, 0.4, k=10.0), color="#009E73", ls="--", label="sigmoid, k = 10")
axes.plot(p, ew.hard_step(p, 0.4), color="#D55E00", lw=1, label="hard")
axes.set(xlabel="probability p", ylabel="step", title="threshold τ = 0.4")
axes.legend(loc="lower right", frameon=False)
plt.show()

# %%
# Memberships
# -----------
# If a sample has several classes, the threshold is the mean of its two largest probabilities, and the steps of all
# classes are divided by their sum. Cooling turns a soft decision into the arg max.

probabilities = torch.tensor([[0.45, 0.35, 0.15, 0.05]])
for temperature in (0.2, 0.1, 0.02, 0.002):
    degrees = ew.soft_memberships(probabilities, temperature)[0]
    print(f"T = {temperature:<6}", "  ".join(f"{degree:.3f}" for degree in degrees))

# %%
# From memberships to a metric
# ----------------------------
# Each sample puts its memberships into the row of its true class. The metric of this soft matrix has a gradient, which
# says which logits to move. A confident mistake and a close call both get one.

logits = torch.tensor([[3.0, 0.0, 0.0], [1.0, 0.9, 0.0], [2.5, 0.0, 0.5]], requires_grad=True)
targets = torch.tensor([0, 1, 2])
confusion = ew.soft_confusion(ew.soft_memberships(logits.softmax(1)), targets)
value = ew.metrics.get("f1_macro")(confusion)
value.backward()
print("soft confusion matrix\n", confusion.detach().numpy().round(3))
print("soft macro-F1", round(value.item(), 3))
print("gradient\n", logits.grad.numpy().round(3))
