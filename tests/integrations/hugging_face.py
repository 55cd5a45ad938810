"""A tiny transformer, its data, and the gradient of one optimiser step by the real Trainer; a script for torchrun."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.data import Dataset, SequentialSampler

# Folders of tests are importable by name while pytest runs, and transformers would take one called "datasets" for the
# library; it asks once.
TESTS = Path(__file__).parents[1]
hidden, sys.path[:] = list(sys.path), [p for p in sys.path if Path(p).resolve() != TESTS]
from transformers import (  # noqa: E402
    BertConfig,
    BertForTokenClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.utils import is_datasets_available  # noqa: E402

is_datasets_available()
sys.path[:] = hidden

from eastward.integrations import transformers as adapter  # noqa: E402
from eastward.training.launch import end_process  # noqa: E402

ROWS, LENGTH, CLASSES = 16, 6, 3


class Tokens(Dataset):
    """Random tokens; how many labels of a row are -100 varies, so that micro-batches differ in items."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(20, (ROWS, LENGTH), generator=generator)
        self.labels = torch.randint(CLASSES, (ROWS, LENGTH), generator=generator)
        ends = torch.arange(ROWS).remainder(LENGTH - 1) + 1
        self.labels[torch.arange(LENGTH) >= ends.unsqueeze(1)] = -100

    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        return {"input_ids": self.tokens[row], "labels": self.labels[row]}


def tiny_model(kind=BertForTokenClassification):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=CLASSES,
    )
    return kind(config)


class KeepGradients(TrainerCallback):
    def __init__(self):
        self.gradients = None

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        model = getattr(model, "module", model)
        self.gradients = {k: p.grad.clone() for k, p in model.named_parameters()}


class OrderedTrainer(Trainer):
    def _get_train_sampler(self, *_):
        return SequentialSampler(self.train_dataset)


def arguments(folder, **more):
    quiet = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "use_cpu": True}
    return TrainingArguments(folder, max_grad_norm=0.0, **{**quiet, "max_steps": 1, **more})


def trainer_gradients(loss_function, accumulation: int, processes: int = 1):
    """Gradient of one step over all rows, in ``accumulation`` micro-batches on each process."""
    keep = KeepGradients()
    with tempfile.TemporaryDirectory() as folder:
        options = arguments(
            folder,
            per_device_train_batch_size=ROWS // accumulation // processes,
            gradient_accumulation_steps=accumulation,
            ddp_backend="gloo" if processes > 1 else None,
        )
        trainer = OrderedTrainer(
            tiny_model(),
            options,
            train_dataset=Tokens(),
            compute_loss_func=loss_function,
            callbacks=[keep],
        )
        trainer.train()
    return keep.gradients


if __name__ == "__main__":
    # torchrun: the gradient of K accumulation steps in every process, saved by the first one
    torch.set_num_threads(1)
    found = {
        steps: trainer_gradients(adapter.metric_loss("f1_macro"), steps, processes=2)
        for steps in (1, 4)
    }
    if torch.distributed.get_rank() == 0:
        torch.save(found, sys.argv[1])
    end_process()
