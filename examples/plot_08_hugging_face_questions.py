"""
Fine-tuning from saved weights: six kinds of questions
======================================================

Questions ask for a description, an entity, a person, a place, a number or, rarely, an abbreviation. The metric is the
mean F1 over these six classes. A small transformer is trained with cross-entropy and saved. We then load it from its
folder, as you would load any weights, and fine-tune it with the metric. Nothing is downloaded.
"""

import os
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.metrics import f1_score
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)
from transformers.utils.logging import disable_progress_bar

import eastward as ew
from eastward.integrations.transformers import AnnealingCallback, compute_metrics, metric_loss

disable_progress_bar()
torch.set_num_threads(1)
WORDS, LENGTH = 4000, 16
KINDS = ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]

# %%
# The questions are those of TREC (Li and Roth, 2002), if the folder ``EASTWARD_DATA`` has them as
# ``text/trec.parquet``. Otherwise they are made up: the first words hint at the kind, and are sometimes wrong.

OPENINGS = {
    "ABBR": ["what does", "what is the abbreviation of", "what is the full form of"],
    "DESC": ["what is", "how does", "why do", "what does"],
    "ENTY": ["what", "what kind of", "which", "name a"],
    "HUM": ["who", "what person", "who was the", "name the"],
    "LOC": ["where is", "what country", "what city", "which state"],
    "NUM": ["how many", "when did", "what year", "how much"],
}
SHARES = [0.02, 0.21, 0.23, 0.22, 0.15, 0.17]


def made_up_questions(count):
    random = np.random.default_rng(0)
    topics = {
        kind: [f"topic{k}" for k in range(25 * i, 25 * i + 60)] for i, kind in enumerate(KINDS)
    }
    texts, kinds = [], []
    for kind in random.choice(KINDS, count, p=SHARES):
        hint = kind if random.random() < 0.85 else random.choice(KINDS)
        words = random.choice(topics[kind], random.integers(2, 6))
        texts.append(" ".join([random.choice(OPENINGS[hint]), *words]))
        kinds.append(KINDS.index(kind))
    return texts, np.array(kinds)


def questions(count=3000):
    path = Path(os.environ.get("EASTWARD_DATA", "")) / "text" / "trec.parquet"
    if not path.is_file():
        print("made up questions; set EASTWARD_DATA to use TREC's")
        return made_up_questions(count)
    import pandas as pd  # noqa: PLC0415 - only for the real data

    print("questions of TREC")
    frame = pd.read_parquet(path).sample(count, random_state=0)
    return frame["text"].tolist(), frame["coarse"].map(KINDS.index).to_numpy()


texts, kinds = questions()
print(dict(sorted(Counter(KINDS[k] for k in kinds).items())))

# %%
# Words become numbers by their checksum: a tokenizer that needs no vocabulary. Zero is padding.


def encode(text):
    numbers = [1 + zlib.crc32(word.lower().encode()) % (WORDS - 1) for word in text.split()]
    padded = torch.tensor((numbers + [0] * LENGTH)[:LENGTH])
    return {"input_ids": padded, "attention_mask": padded.ne(0).long()}


rows = [{**encode(text), "labels": int(kind)} for text, kind in zip(texts, kinds, strict=True)]
train, test = rows[:2000], rows[2000:]


def trainer_of(model, folder, epochs, learning_rate, **more):
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
        **({"gradient_accumulation_steps": 2} if more else {}),
    )
    trainer = Trainer(
        model,
        options,
        train_dataset=train,
        eval_dataset=test,
        compute_metrics=compute_metrics("f1_macro"),
        **more,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def epoch_scores(trainer):
    return [e["eval_f1_macro"] for e in trainer.state.log_history if "eval_f1_macro" in e]


def class_scores(trainer):
    decisions = trainer.predict(test).predictions.argmax(1)
    return f1_score([row["labels"] for row in test], decisions, average=None)


# %%
# First we train with cross-entropy, the model's own loss, and save the weights. Then these weights are trained twice:
# with more cross-entropy, and with the metric as ``compute_loss_func``, for as many epochs at the same learning rate.
# The metric accumulates two micro-batches for each step, and ``running`` adds the confusion matrices of earlier ones.

torch.manual_seed(0)
config = BertConfig(
    vocab_size=WORDS,
    hidden_size=48,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=96,
    max_position_embeddings=LENGTH,
    num_labels=len(KINDS),
)
with tempfile.TemporaryDirectory() as folder:
    saved = Path(folder) / "cross-entropy"
    first = trainer_of(BertForSequenceClassification(config), folder, 5, 3e-3)
    first.train()
    first.save_model(str(saved))

    further = trainer_of(BertForSequenceClassification.from_pretrained(saved), folder, 4, 5e-4)
    further.train()

    loss = metric_loss("f1_macro", running=0.9)
    cooling = AnnealingCallback(loss, ew.annealing.geometric_schedule(0.2, 0.9))
    aligned = trainer_of(
        BertForSequenceClassification.from_pretrained(saved),
        folder,
        4,
        5e-4,
        compute_loss_func=loss,
        callbacks=[cooling],
    )
    aligned.train()
    by_class = {"cross-entropy": class_scores(further), "F1 (EAST)": class_scores(aligned)}

curves = [epoch_scores(trainer) for trainer in (first, further, aligned)]
print(
    f"macro-F1 of test questions: {curves[0][-1]:.3f} saved, "
    f"{curves[1][-1]:.3f} after more cross-entropy, {curves[2][-1]:.3f} after the metric"
)

# %%
# This is one split and one seed. It shows how it is done, and is no evidence of a gain. For that, ask ``compare``, or
# run several seeds.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
epochs = np.arange(1, 1 + len(curves[0]))
left.plot(epochs, curves[0], marker="o", color="0.5", label="cross-entropy, saved")
for name, curve in zip(by_class, curves[1:], strict=True):
    left.plot(
        epochs[-1] + np.arange(1 + len(curve)), [curves[0][-1], *curve], marker="o", label=name
    )
left.set_xlabel("epoch")
left.set_ylabel("macro-F1, test questions")
left.legend()
positions = np.arange(len(KINDS))
for shift, (name, scores) in zip((-0.2, 0.2), by_class.items(), strict=True):
    right.bar(positions + shift, scores, 0.4, label=name)
right.set_xticks(positions, KINDS)
right.set_ylabel("F1 of each kind")
plt.show()
