"""Compare cross-entropy, class weights and an aligned stage, with the same network, batches and number of epochs.

The data ship with scikit-learn: 442 diabetes patients with ten measurements each. The positive class is the fifth whose
disease progressed most, and the metric is its F1. The classes overlap, so cross-entropy seldom predicts the rare one,
although the metric rewards finding it. The aligned network spends its first epochs on class weights, which find the
rare class too often, and the rest on the metric. `AlignmentSchedule` says what to minimise, at which temperature, and
which weights to average.
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
WARM_UP, EPOCHS, BATCH_SIZE, SPLITS = 60, 70, 128, 10
LEARNING_RATE = 2e-3


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


def batches(y, epochs):
    for _ in range(epochs):
        yield from torch.randperm(len(y)).split(BATCH_SIZE)


def train(model, loss, X, y, epochs):
    """A plain PyTorch loop."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=1e-2)
    model.train()
    for rows in batches(y, epochs):
        optimizer.zero_grad()
        loss(model(X[rows]), y[rows]).backward()
        optimizer.step()


def train_aligned(model, X, y, epochs):
    """Train with the metric as the loss; the schedule sets the temperature."""
    schedule = ew.AlignmentSchedule(METRIC, steps=epochs * -(-len(y) // BATCH_SIZE))
    rate = schedule.learning_rate(LEARNING_RATE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-2)
    loss = schedule.loss()
    run = schedule.follow(model, loss)
    model.train()
    for step, rows in enumerate(batches(y, epochs)):
        run.before(step)
        optimizer.zero_grad()
        loss(model(X[rows]), y[rows]).backward()
        optimizer.step()
        run.after(step)
    run.finish()


def score(model, X, y):
    with torch.no_grad():
        predicted = model.eval()(X).argmax(1)
    return f1_score(y, predicted, zero_division=0)


def scores_of_split(seed):
    """Test F1 of cross-entropy, class weights, and the aligned network."""
    torch.manual_seed(seed)
    X, y, X_test, y_test = patients(seed)
    balanced = nn.CrossEntropyLoss(weight=1 / torch.bincount(y))
    plain, weighted = (network() for _ in range(2))
    train(plain, nn.CrossEntropyLoss(), X, y, WARM_UP + EPOCHS)
    train(weighted, balanced, X, y, WARM_UP)
    aligned = copy.deepcopy(weighted)
    train(weighted, balanced, X, y, EPOCHS)
    train_aligned(aligned, X, y, EPOCHS)
    return [score(model, X_test, y_test) for model in (plain, weighted, aligned)]


def main():
    started = time.perf_counter()
    print(f"diabetes progression, 20 % positive; test {METRIC} of the same network")
    print(f"{'split':>5}  {'cross-entropy':>13}  {'class weights':>13}  {'aligned':>7}")
    scores = []
    for seed in range(SPLITS):
        scores.append(scores_of_split(seed))
        print(f"{seed:>5}  {scores[-1][0]:>13.3f}  {scores[-1][1]:>13.3f}  {scores[-1][2]:>7.3f}")
    plain, weighted, aligned = np.mean(scores, axis=0)
    print(f"{'mean':>5}  {plain:>13.3f}  {weighted:>13.3f}  {aligned:>7.3f}")
    print(f"{time.perf_counter() - started:.0f} s. Read on in README.md.")


if __name__ == "__main__":
    main()
