"""One schedule, four loops: a plain one, Lightning's, Hugging Face's and skorch's end at the same weights."""

from __future__ import annotations

import hugging_face  # noqa: F401 - hides folders of tests from transformers
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from skorch import NeuralNetClassifier
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from transformers import Trainer as HuggingFaceTrainer
from transformers import TrainingArguments

import eastward as ew
from eastward.integrations import lightning, skorch, transformers

STEPS, ROWS, RATE = 9, 24, 0.5
SCHEDULE = ew.AlignmentSchedule("f1_macro", steps=STEPS, prior=[0.5, 0.3, 0.2])


def rows():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, 4, generator=generator), torch.arange(ROWS) % 3


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.body, self.norm, self.head = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.body(x))))


class Answering(Network):
    """An output like those of Hugging Face's models."""

    def forward(self, x, labels=None):
        return {"logits": super().forward(x)}


class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.network, self.loss = Network(), SCHEDULE.loss()

    def training_step(self, batch, _index):
        return self.loss(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=RATE)


class Named(Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        X, y = rows()
        return {"x": X[row], "labels": y[row]}


def plain():
    X, y = rows()
    network, loss = Network(), SCHEDULE.loss()
    optimizer, run = torch.optim.SGD(network.parameters(), lr=RATE), SCHEDULE.follow(network, loss)
    states = []
    for step in range(STEPS):
        network.train()
        run.before(step)
        optimizer.zero_grad()
        loss(network(X), y).backward()
        optimizer.step()
        run.after(step)
        states.append({name: value.clone() for name, value in network.state_dict().items()})
    run.finish()
    return network, states


def by_lightning(tmp_path):
    module = Module()
    trainer = Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
        callbacks=[lightning.AlignmentCallback(SCHEDULE)],
    )
    # Two micro-batches would be another loss: the mean of two metrics.
    trainer.fit(module, DataLoader(TensorDataset(*rows()), ROWS))
    return module.network


def by_hugging_face(tmp_path):
    network, loss = Answering(), transformers.metric_loss(SCHEDULE.metric, prior=SCHEDULE.prior)
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    still = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    arguments = TrainingArguments(
        str(tmp_path),
        max_steps=STEPS,
        per_device_train_batch_size=ROWS,
        max_grad_norm=0.0,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        label_names=["labels"],
    )
    HuggingFaceTrainer(
        network,
        arguments,
        train_dataset=Named(),
        compute_loss_func=loss,
        optimizers=(optimizer, still),
        callbacks=[transformers.AlignmentCallback(loss, SCHEDULE)],
    ).train()
    return network


def by_skorch(_tmp_path):
    X, y = rows()
    net = NeuralNetClassifier(
        Network,
        **skorch.metric_criterion(SCHEDULE.metric, prior=SCHEDULE.prior),
        max_epochs=STEPS,
        batch_size=-1,
        lr=RATE,
        train_split=None,
        verbose=0,
        callbacks=[("aligning", skorch.Aligning(SCHEDULE))],
    )
    net.fit(X.numpy(), y.numpy())
    return net.module_


def test_a_plain_loop_ends_at_the_mean_of_the_last_third():
    network, states = plain()
    # The weights after steps 7, 8 and 9.
    for name, value in network.state_dict().items():
        if value.is_floating_point():
            mean = torch.stack([state[name] for state in states[6:]]).mean(0)
            torch.testing.assert_close(value, mean)
    fresh = Network()
    assert torch.equal(network.norm.running_mean, fresh.norm.running_mean)
    assert not torch.equal(network.body.weight, fresh.body.weight)


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:.*fewer than the logging interval")
@pytest.mark.filterwarnings("ignore:.*LeafSpec")
@pytest.mark.filterwarnings("ignore:.*pin_memory")
@pytest.mark.parametrize("loop", [by_lightning, by_hugging_face, by_skorch])
def test_other_loops_end_at_the_same_weights(loop, tmp_path):
    expected, _ = plain()
    found = loop(tmp_path)
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], value, rtol=1e-4, atol=1e-6)


def test_a_net_without_the_loss_is_refused():
    net = NeuralNetClassifier(Network, callbacks=[("a", skorch.Aligning(SCHEDULE))], verbose=0)
    with pytest.raises(ValueError, match="criterion of Aligning must be an EASTLoss"):
        net.fit(rows()[0].numpy(), rows()[1].numpy())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": 0}, "steps of AlignmentSchedule must be >= 1"),
        ({"temperatures": ()}, "temperatures of AlignmentSchedule must be at least one"),
        ({"temperatures": (0.9,)}, "temperatures of AlignmentSchedule must be in"),
        ({"average_last": 0}, "average_last of AlignmentSchedule must be in"),
        ({"prior": [0.5, 0.6]}, "prior of AlignmentSchedule must be a distribution"),
        ({"metric": "f1_makro"}, "f1_macro"),
    ],
)
def test_bad_options_get_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        ew.AlignmentSchedule(**{"steps": 10, **options})
