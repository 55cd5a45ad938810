"""Cross-entropy and EASTLoss side by side: same network, start, batches and number of epochs.

The data ship inside scikit-learn: 442 diabetes patients, ten measurements each; the
positive class is the fifth whose disease progressed most, and the metric is its F1. The classes overlap, so
cross-entropy seldom dares to predict the rare one, while the metric rewards finding it. Both networks start
from the same short cross-entropy warm-up, the way we advise to use the loss.
"""

import copy
import time

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from torch import nn

import eastward as ew

METRIC = "f1"
WARM_UP, EPOCHS, BATCH_SIZE, SPLITS = 30, 100, 128, 10


def patients(seed):
    """Standardised features; label 1 for the highest fifth of disease progression."""
    X, progression = load_diabetes(return_X_y=True)
    y = (progression > np.quantile(progression, 0.8)).astype(int)
    X = X / X.std(axis=0)
    parts = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    X, X_test = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    y, y_test = (torch.tensor(part) for part in parts[2:])
    return X, y, X_test, y_test


def network():
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.25), nn.Linear(32, 2))


def train(model, loss, X, y, epochs, schedule=None):
    """A plain PyTorch loop; the only thing EAST adds is one line that cools the loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    model.train()
    for epoch in range(epochs):
        if schedule is not None:
            loss.temperature = schedule(epoch)
        for batch in torch.randperm(len(y)).split(BATCH_SIZE):
            optimizer.zero_grad()
            loss(model(X[batch]), y[batch]).backward()
            optimizer.step()


def score(model, X, y):
    with torch.no_grad():
        predicted = model.eval()(X).argmax(1)
    return f1_score(y, predicted, zero_division=0)


def main():
    started = time.perf_counter()
    print(f"diabetes progression, 20 % positive; test {METRIC} of the same network")
    print(f"{'split':>5}  {'cross-entropy':>13}  {'EASTLoss':>8}  {'gain':>6}")
    scores = []
    for seed in range(SPLITS):
        torch.manual_seed(seed)
        X, y, X_test, y_test = patients(seed)
        start = network()
        train(start, nn.CrossEntropyLoss(), X, y, WARM_UP)
        with_cross_entropy, with_east = copy.deepcopy(start), copy.deepcopy(start)
        train(with_cross_entropy, nn.CrossEntropyLoss(), X, y, EPOCHS)
        cooling = ew.annealing.cosine_schedule(0.2, 0.05, steps=EPOCHS)
        train(with_east, ew.EASTLoss(METRIC), X, y, EPOCHS, cooling)
        pair = score(with_cross_entropy, X_test, y_test), score(with_east, X_test, y_test)
        scores.append(pair)
        print(f"{seed:>5}  {pair[0]:>13.3f}  {pair[1]:>8.3f}  {pair[1] - pair[0]:>+6.3f}")
    plain, east = np.mean(scores, axis=0)
    print(f"{'mean':>5}  {plain:>13.3f}  {east:>8.3f}  {east - plain:>+6.3f}")
    print(f"{time.perf_counter() - started:.0f} s. Read on in README.md.")


if __name__ == "__main__":
    main()
