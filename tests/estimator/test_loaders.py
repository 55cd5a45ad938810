"""A user's own DataLoader is used as it comes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from small_models import clusters, same_model
from small_models import quick as quick_folds
from torch.utils.data import DataLoader, TensorDataset

from eastward.training import Callback

quick = partial(quick_folds, n_folds=1)  # rows of a loader are not dealt out


@pytest.fixture(scope="module")
def parts():
    """Training and validation rows as tensors."""
    X, y = clusters(spread=0.5)
    X, y = torch.from_numpy(X).float(), torch.from_numpy(y)
    return (X[:100], y[:100]), (X[100:], y[100:])


def as_table(pair):
    return pair[0].numpy(), pair[1].numpy()


class Watched(torch.utils.data.Dataset):
    """Rows that record the order in which they are read."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.order = inputs, targets, []

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, row):
        self.order.append(row)
        return self.inputs[row], self.targets[row]


def test_batches_come_in_the_order_of_the_loader(parts):
    train, valid = parts
    data = Watched(*train)
    order = list(range(99, -1, -1))
    loader = DataLoader(data, batch_size=30, sampler=order)
    model = quick(recipe="cross_entropy", max_epochs=2).fit(loader, validation_data=valid)
    passes = [data.order[start : start + 100] for start in range(0, len(data.order), 100)]
    assert passes == [order] * 3, "one pass to read the classes, two epochs"
    assert model.n_iter_ == 2


@pytest.mark.slow
def test_a_model_learns_from_a_loader(parts):
    train, valid = parts
    loader = DataLoader(TensorDataset(*train), batch_size=16, shuffle=True)
    model = quick(max_epochs=20).fit(loader, validation_data=valid)
    assert [stage["name"] for stage in model.report_["stages"]] == ["cross-entropy", "aligned"]
    assert model.report_["held_out_rows"] == 50
    assert model.score(*as_table(valid)) > 0.8
    again = quick(max_epochs=20).fit(loader, validation_data=valid)
    assert same_model(model, again), "the shuffling follows random_state too"


@pytest.mark.slow
def test_validation_data_may_be_a_loader_a_table_or_tensors(parts):
    train, valid = parts
    loader = DataLoader(TensorDataset(*train), batch_size=50)
    held = DataLoader(TensorDataset(*valid), batch_size=7)
    by_tensors, by_table = (
        quick().fit(loader, validation_data=v) for v in (valid, as_table(valid))
    )
    assert same_model(by_tensors, by_table)
    # Iterating a loader draws a random number, so that initial weights are others.
    by_loader = quick().fit(loader, validation_data=held)
    assert by_loader.report_["held_out_rows"] == 50
    raw = by_loader.members_(valid[0])[0].argmax(1)
    expected = f1_score(valid[1], raw, average="macro")
    shipped = {stage["name"]: stage for stage in by_loader.report_["stages"]}
    assert shipped[by_loader.report_["shipped"]]["argmax"] == pytest.approx(expected)


def test_weights_of_the_loader_reach_the_loss(parts):
    (X, y), valid = parts
    weights = torch.where(y == 2, 50.0, 1.0)
    heavy = DataLoader(TensorDataset(X, y, weights), batch_size=50)
    equal = DataLoader(TensorDataset(X, y, torch.ones(100)), batch_size=50)
    plain = DataLoader(TensorDataset(X, y), batch_size=50)
    models = [
        quick("accuracy", recipe="cross_entropy").fit(loader, validation_data=valid)
        for loader in (heavy, equal, plain)
    ]
    assert same_model(models[1], models[2])
    assert not same_model(models[0], models[2])


def test_a_module_takes_what_the_loader_yields(parts):
    (X, y), valid = parts

    class Doubled(torch.nn.Module):
        def __init__(self, _n_features, n_classes):
            super().__init__()
            self.output = torch.nn.Linear(8, n_classes)

        def forward(self, inputs):
            return self.output(torch.cat([inputs["first"], inputs["second"]], dim=1))

    rows = [({"first": x, "second": -x}, t) for x, t in zip(X, y, strict=True)]
    held = {"first": valid[0], "second": -valid[0]}, valid[1].numpy()
    model = quick(module=Doubled, max_epochs=20).fit(
        DataLoader(rows, batch_size=16), validation_data=held
    )
    assert model.score(*held) > 0.7


def test_labels_of_the_loader_need_not_be_indices(parts):
    (X, y), (held, held_y) = parts
    loader = DataLoader(TensorDataset(X, y * 10 - 5), batch_size=50)
    model = quick().fit(loader, validation_data=(held, held_y * 10 - 5))
    assert model.classes_.tolist() == [-5, 5, 15]
    assert set(np.unique(model.predict(held.numpy()))) <= {-5, 5, 15}


def test_an_interrupted_fit_from_a_loader_is_usable(parts):
    train, valid = parts

    class CtrlC(Callback):
        def epoch_end(self, run):
            if run.epoch == 2:
                raise KeyboardInterrupt

    loader = DataLoader(TensorDataset(*train), batch_size=50)
    model = quick(callbacks=[CtrlC()]).fit(loader, validation_data=valid)
    assert model.report_["interrupted"]
    assert model.predict(valid[0].numpy()).shape == (50,)


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        (
            {},
            {"y": [1]},
            "y and sample_weight of EASTClassifier.fit must be None with a DataLoader",
        ),
        ({}, {"validation_data": None}, "validation_data of EASTClassifier.fit must be given with"),
        (
            {"class_weight": "balanced"},
            {},
            "class_weight of EASTClassifier.* must be None with a DataLoader",
        ),
        ({"standardize": True}, {}, "standardize of EASTClassifier.* must be"),
        (
            {"n_folds": 3},
            {},
            "n_folds of EASTClassifier.* must be 'auto' or 1 with a DataLoader; got 3",
        ),
    ],
)
def test_what_a_loader_cannot_have_is_refused(parts, changes, arguments, message):
    train, valid = parts
    loader = DataLoader(TensorDataset(*train), batch_size=50)
    with pytest.raises(ValueError, match=message):
        quick(**changes).fit(loader, **{"validation_data": valid, **arguments})


def test_unknown_classes_in_validation_data_are_refused(parts):
    train, (held, _) = parts
    loader = DataLoader(TensorDataset(*train), batch_size=50)
    with pytest.raises(ValueError, match=r"validation_data of .* got unknown \[8\]"):
        quick().fit(loader, validation_data=(held, np.full(50, 8)))


def test_a_table_may_be_judged_by_a_loader(parts):
    train, valid = parts
    held = DataLoader(TensorDataset(*valid), batch_size=7)
    model = quick().fit(*as_table(train), validation_data=held)
    raw = model.members_(model.scaler_(valid[0]))[0].argmax(1)
    expected = f1_score(valid[1], raw, average="macro")
    assert model.report_["held_out_rows"] == 50
    shipped = {stage["name"]: stage for stage in model.report_["stages"]}[model.report_["shipped"]]
    assert shipped["argmax"] == pytest.approx(expected)
