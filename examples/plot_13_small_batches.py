"""
What small batches do to the gradient
=====================================

The F1 of a batch is an estimate. Its gradient points, on average, in a slightly wrong direction (bias), and in a
different one for every batch (noise). The cosine to the gradient of all the data shows both together, for the plain
batch, the decayed sum of past batches (``running``), and ``exact_backward`` over micro-batches.
"""

import matplotlib.pyplot as plt
import torch

import eastward as ew

# %%
# Two classes, three per cent positives, and a linear model that has already learnt something.

torch.manual_seed(0)
count, rate = 4096, 0.03
y = (torch.rand(count) < rate).long()
X = torch.randn(count, 5)
X[:, 0] += 1.5 * y
weight = torch.tensor([[0.0, 1.2, 0.1, 0.0, 0.0, 0.0]])


def gradient(rows, loss):
    slope = weight.clone().requires_grad_()
    logits = X[rows] @ slope[0, 1:] + slope[0, 0] - 1.0
    loss(logits, y[rows]).backward()
    return slope.grad[0]


whole = gradient(torch.arange(count), ew.EASTLoss("f1"))

# %%
# For each batch size: the mean cosine to the true direction, over one epoch of batches.

sizes = [16, 32, 64, 128, 256, 512, 1024]
options = {"plain batch": {}, "running=0.95": {"running": 0.95}}
curves = {}
for name, chosen in options.items():
    cosines = []
    for size in sizes:
        loss = ew.EASTLoss("f1", **chosen)
        slopes = torch.stack([gradient(rows, loss) for rows in torch.randperm(count).split(size)])
        used = slopes[slopes.norm(dim=1) > 0]
        cosines.append(torch.nn.functional.cosine_similarity(used, whole[None]).mean())
    curves[name] = cosines

# %%
# ``exact_backward`` sums the matrices of micro-batches first. So the gradient is that of all rows, whatever their size.

model = torch.nn.Linear(5, 1)
with torch.no_grad():
    model.weight.copy_(weight[:, 1:])
    model.bias.fill_(-1.0)
exact = []
for size in sizes:
    model.zero_grad()
    parts = [(X[rows], y[rows]) for rows in torch.arange(count).split(size)]
    ew.exact_backward(ew.EASTLoss("f1"), model, parts)
    found = torch.cat([model.bias.grad, model.weight.grad[0]])
    exact.append(torch.nn.functional.cosine_similarity(found, whole, dim=0))
curves["exact_backward, micro-batches of that size"] = exact
print("micro-batches of 16: cosine", round(float(exact[0]), 6))

# %%
# With ``running``, the gradient is taken at a decayed sum of past batches. But each batch still knows only its own
# rows, so a noisy batch stays noisy.

figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for (name, cosines), colour in zip(curves.items(), ("#0072B2", "#E69F00", "0.4"), strict=True):
    axes.plot(sizes, cosines, "o-", color=colour, label=name)
axes.set_xscale("log", base=2)
axes.set(xlabel="batch size", ylabel="cosine to the gradient of all rows", xticks=sizes)
axes.set_xticklabels(sizes)
axes.legend(frameon=False)
plt.show()
