"""
Tags of tokens, with padding that does not count
================================================

Every word of a sentence gets a tag: name, place, date, or none. Sentences differ in length, so they are padded, and
padding is labelled -100. The metric is the mean F1 of the four tags, in which the many words without a tag count no
more than the few dates.
"""

import copy

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

import eastward as ew

torch.set_num_threads(1)
TAGS = ["nothing", "name", "place", "date"]

# %%
# The sentences are made up. Words of a kind often follow their cue ("met", "in", "on"), but cues also stand alone. Half
# of the words belong to two kinds, so the network has to look at their neighbours.

CUES = {"name": "met", "place": "in", "date": "on"}
SHARES = {"name": 0.08, "place": 0.05, "date": 0.015}
everyday = [f"word{k}" for k in range(60)]
kinds = {
    "name": [f"alpha{k}" for k in range(20)],
    "place": [f"alpha{k}" for k in range(10, 30)],
    "date": [f"alpha{k}" for k in range(20, 35)],
}
vocabulary = {*everyday, *CUES.values()}.union(*kinds.values())
numbers = {word: k for k, word in enumerate(sorted(vocabulary))}


def sentences(count, seed):
    random = np.random.default_rng(seed)
    texts, tags = [], []
    for _ in range(count):
        words, labels = [], []
        for _ in range(random.integers(5, 20)):
            kind = random.choice([*SHARES, None], p=[*SHARES.values(), 1 - sum(SHARES.values())])
            if kind is None:
                cue = random.random() < 0.1
                words.append(random.choice(list(CUES.values()) if cue else everyday))
                labels.append(0)
                continue
            if random.random() < 0.8:
                words.append(CUES[kind])
                labels.append(0)
            words.append(random.choice(kinds[kind]))
            labels.append(TAGS.index(kind))
        texts.append(torch.tensor([numbers[word] for word in words]))
        tags.append(torch.tensor(labels))
    return pad_sequence(texts, True, len(numbers)), pad_sequence(tags, True, -100)


train, test = sentences(600, seed=0), sentences(600, seed=1)
known = test[1] != -100
print(f"{known.sum()} words, {(~known).sum()} of padding")
print({tag: int((test[1] == k).sum()) for k, tag in enumerate(TAGS)})

# %%
# A small network over the words gives ``(N, C, L)`` logits for ``(N, L)`` labels, the shapes of
# ``torch.nn.CrossEntropyLoss``. The logits at padded places change nothing:


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(len(numbers) + 1, 12)
        self.layers = nn.Sequential(
            nn.Conv1d(12, 24, 3, padding=1), nn.ReLU(), nn.Conv1d(24, len(TAGS), 1)
        )

    def forward(self, words):
        return self.layers(self.words(words).movedim(-1, 1))


torch.manual_seed(0)
model, loss = Tagger(), ew.EASTLoss("f1_macro")
logits = model(test[0])
print(f"logits {tuple(logits.shape)}, labels {tuple(test[1].shape)}")
noise = 10 * torch.randn_like(logits) * ~known.unsqueeze(1)
print(
    f"same loss with noise in the padding: {bool(loss(logits, test[1]) == loss(logits + noise, test[1]))}"
)

# %%
# Both runs start with cross-entropy. Then one goes on with it, and the other takes the metric.


def train_more(model, loss, epochs, learning_rate):
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for epoch in range(epochs):
        if isinstance(loss, ew.EASTLoss):
            loss.temperature = 0.2 * 0.9**epoch
        for rows in torch.randperm(len(train[0])).split(100):
            optimizer.zero_grad()
            loss(model(train[0][rows]), train[1][rows]).backward()
            optimizer.step()
    return model


def f1_of_tags(model):
    with torch.no_grad():
        decisions = model(test[0]).argmax(1)
    hard = nn.functional.one_hot(decisions[known], len(TAGS)).double()
    table = ew.soft_confusion(hard, test[1][known], num_classes=len(TAGS))
    return ew.metrics.get("f1_macro", average="none")(table)


start = train_more(model, nn.CrossEntropyLoss(), epochs=25, learning_rate=1e-2)
found = {
    name: f1_of_tags(train_more(copy.deepcopy(start), each, epochs=15, learning_rate=3e-3))
    for name, each in {"cross-entropy": nn.CrossEntropyLoss(), "F1 (EAST)": loss}.items()
}
for name, values in found.items():
    print(f"{name:<14} macro-F1 {values.mean():.3f}")

# %%
# F1 of each tag. This is one seed on made-up sentences, to show how it is done.

figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
for position, (name, values) in enumerate(found.items()):
    axis.bar(np.arange(len(TAGS)) + 0.4 * (position - 0.5), values, 0.38, label=name)
axis.set_xticks(range(len(TAGS)), TAGS)
axis.set_ylabel("F1, test words")
axis.legend()
plt.show()
