"""
Text with the Hugging Face Trainer
==================================

A small transformer tells spam from other messages and is judged by the F1 of spam. It starts with random weights, so
there is nothing to download. ``metric_loss`` is passed to the Trainer as its loss, and scales itself for accumulated
micro-batches. Annealing is a callback, and ``compute_metrics`` takes the same metric name as the loss.
"""

import os
import tempfile
import zlib
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)

import eastward as ew
from eastward.integrations.transformers import AnnealingCallback, compute_metrics, metric_loss

torch.set_num_threads(1)
WORDS, LENGTH = 2000, 24

# %%
# The messages are the SMS Spam Collection, if the folder ``EASTWARD_DATA`` has it as ``text/sms_spam.parquet``.
# Otherwise they are made up: one in ten is spam, no word is certain, and some labels are wrong.


def made_up_messages(count=2400):
    random = np.random.default_rng(0)
    spam = random.random(count) < 0.1
    everyday = [f"word{k}" for k in range(100)]
    lures = ["free", "prize", "call", "now", "win", "cash", "urgent", "offer"]
    texts = []
    for is_spam in spam:
        words = list(random.choice(everyday, random.integers(5, 14)))
        # A lure is no proof: other messages sometimes have one, too.
        extra = random.integers(2, 5) if is_spam else int(random.random() < 0.1)
        words += list(random.choice(lures, extra))
        random.shuffle(words)
        texts.append(" ".join(words))
    wrong = random.random(count) < 0.02
    return texts, (spam ^ wrong).astype(int)


def messages():
    path = Path(os.environ.get("EASTWARD_DATA", "")) / "text" / "sms_spam.parquet"
    if not path.is_file():
        return made_up_messages()
    import pandas as pd  # noqa: PLC0415 - only for the real data

    frame = pd.read_parquet(path).sample(2400, random_state=0)
    return frame["text"].tolist(), (frame["label"] == "spam").astype(int).to_numpy()


texts, labels = messages()
print(f"{len(texts)} messages, {labels.mean():.1%} spam")

# %%
# Words become numbers by their checksum: a tokenizer that needs no vocabulary. Zero is padding.


def encode(text):
    numbers = [1 + zlib.crc32(word.lower().encode()) % (WORDS - 1) for word in text.split()]
    padded = (numbers + [0] * LENGTH)[:LENGTH]
    return {"input_ids": torch.tensor(padded), "attention_mask": torch.tensor(padded).ne(0).long()}


rows = [{**encode(text), "labels": int(label)} for text, label in zip(texts, labels, strict=True)]
train, test = rows[:1800], rows[1800:]


def tiny_bert():
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=LENGTH,
            num_labels=2,
        )
    )


# %%
# First the Trainer uses cross-entropy, the model's own loss, then F1 from where cross-entropy ended. The metric needs
# large batches. So four micro-batches of 64 make one step, and ``running`` adds the confusion matrices of earlier ones.


def trained(model, epochs, learning_rate, **more):
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            num_train_epochs=epochs,
            learning_rate=learning_rate,
            per_device_train_batch_size=64,
            per_device_eval_batch_size=256,
            eval_strategy="epoch",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            use_cpu=True,
            seed=0,
            **({"gradient_accumulation_steps": 4} if more else {}),
        )
        trainer = Trainer(
            model,
            options,
            train_dataset=train,
            eval_dataset=test,
            compute_metrics=compute_metrics(["f1", "precision", "recall"]),
            **more,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return [entry["eval_f1"] for entry in trainer.state.log_history if "eval_f1" in entry]


model = tiny_bert()
first = trained(model, epochs=8, learning_rate=5e-3)
loss = metric_loss("f1", running=0.8)
cooling = AnnealingCallback(loss, ew.annealing.geometric_schedule(0.2, 0.9))
second = trained(model, 6, 5e-4, compute_loss_func=loss, callbacks=[cooling])
print(f"F1 of spam, test messages: cross-entropy {first[-1]:.3f}, then by F1 {second[-1]:.3f}")
print(f"temperature at the end: {float(loss.loss.temperature):.3f}")

# %%
# Epoch by epoch. This is one split and one seed, to show how it is done. Where cross-entropy has converged, as on the
# made-up messages, the metric may bring nothing more.

figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
axis.plot(range(1, len(first) + 1), first, marker="o", label="cross-entropy")
axis.plot(len(first) + np.arange(1, len(second) + 1), second, marker="o", label="F1 (EAST)")
axis.set_xlabel("epoch")
axis.set_ylabel("F1 of spam, test messages")
axis.legend()
plt.show()
