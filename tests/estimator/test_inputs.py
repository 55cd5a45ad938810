"""What fit takes: modules, inputs of any rank, several labels, weights, and metrics of every form."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn import metrics as reference
from small_models import clusters, quick, same_model
from torch import nn

from eastward.metrics import Metric, get


@pytest.fixture(scope="module")
def table():
    return clusters()


def small_network(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, n_classes))


class Network(nn.Module):
    """A class of a module, made from the numbers of features and classes."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.layers = small_network(n_features, n_classes)

    def forward(self, inputs):
        return self.layers(inputs)


@pytest.mark.parametrize(
    "module", [Network, small_network, nn.Linear], ids=["class", "factory", "Linear"]
)
def test_a_class_or_a_factory_is_a_module(table, module):
    X, y = table
    model = quick(module=module, max_epochs=15).fit(X, y)
    assert model.n_folds_ == 1
    assert model.scaler_ is None, "a user's module gets the numbers as they are"
    assert model.score(X, y) > 0.5
    assert model.predict_proba(X).shape == (len(y), 3)


def test_a_module_given_as_such_is_copied_and_its_weights_are_the_start(table):
    X, y = table
    module = small_network(4, 3)
    before = copy.deepcopy(module.state_dict())
    model = quick(module=module, max_epochs=1).fit(X, y)
    assert all(module.state_dict()[name].equal(before[name]) for name in before)
    assert all(parameter.requires_grad for parameter in module.parameters())
    slow = quick(module=module, max_epochs=1, learning_rate=1e-9, recipe="cross_entropy").fit(X, y)
    for name, value in slow.members_.module.state_dict().items():
        torch.testing.assert_close(value, before[name], atol=1e-6, rtol=0)
    assert model.module is module


def test_a_module_may_give_one_logit_for_two_classes(table):
    X, y = table
    model = quick("f1", module=lambda n_features, n_classes: nn.Linear(n_features, 1))
    model.fit(X, y > 0)
    assert model.predict_proba(X).shape == (len(y), 2)
    # its one bias takes up the difference of the two offsets, so there is nothing to tell
    assert model.report_["notes"] == []


def test_standardize_reaches_a_module_when_asked_to(table):
    X, y = table
    model = quick(module=small_network, standardize=True).fit(X, y)
    np.testing.assert_allclose(model.scaler_.mean, X.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.scaler_.scale, X.std(0), rtol=1e-4)
    assert quick(standardize=False).fit(X, y).scaler_ is None


@pytest.mark.slow
def test_shift_and_scale_of_features_do_not_matter_to_the_default_network(table):
    X, y = table
    first, second = quick().fit(X, y), quick().fit(X * 1000 + 5e4, y)
    np.testing.assert_allclose(
        first.predict_proba(X), second.predict_proba(X * 1000 + 5e4), atol=1e-2
    )


def test_a_constant_feature_does_no_harm(table):
    X, y = table
    X = np.hstack([X, np.full((len(X), 1), 1e8)])
    model = quick().fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.scaler_.scale[-1] == 1


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = 0.3 * rng.normal(size=(120, 1, 6, 6))
    X[np.arange(120), 0, 2 * y, 2 * y] += 3
    return X, y


class Convolution(nn.Module):
    def __init__(self, n_channels, n_classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(n_channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.output = nn.Linear(4 * 16, n_classes)

    def forward(self, images):
        return self.output(self.features(images).flatten(1))


@pytest.mark.parametrize("as_tensor", [False, True])
def test_images_go_through_a_module(images, as_tensor):
    X, y = images
    X = torch.as_tensor(X) if as_tensor else X
    model = quick(module=Convolution, max_epochs=10).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.n_features_in_ == 1


def test_images_without_a_module_are_refused(images):
    with pytest.raises(ValueError, match="dim 4"):
        quick().fit(*images)


class TwoInputs(nn.Module):
    def __init__(self, _n_features, n_classes):
        super().__init__()
        self.words = nn.EmbeddingBag(10, 4)
        self.output = nn.Linear(6, n_classes)

    def forward(self, inputs):
        return self.output(torch.cat([self.words(inputs["words"]), inputs["numbers"]], dim=1))


def test_a_dictionary_of_tensors_goes_through_a_module():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(90) % 3
    X = {
        "words": torch.randint(10, (90, 5), generator=generator),
        "numbers": torch.randn(90, 2, generator=generator).double() + 2 * y[:, None],
    }
    weights = np.ones(90)
    weights[:10] = 0
    model = quick(module=TwoInputs, max_epochs=40).fit(X, y.numpy(), sample_weight=weights)
    assert model.score(X, y.numpy()) > 0.7
    some = {name: value[:4] for name, value in X.items()}
    assert model.predict(some).shape == (4,)


def test_several_labels_at_once():
    X, _ = clusters(features=6)
    Y = (X[:, :3] + 0.3 * X[:, 3:] > 0.5).astype(int)
    model = quick(max_epochs=25, n_folds=3).fit(X, Y)
    assert model.multilabel_
    probabilities = model.predict_proba(X)
    assert probabilities.shape == Y.shape
    predicted = model.predict(X)
    odds = np.log(probabilities) - np.log1p(-probabilities)
    assert np.array_equal(predicted, odds + model.offsets_ > 0)
    assert np.array_equal(predicted, model.decision_function(X) > 0)
    expected = reference.f1_score(Y, predicted, average="macro")
    assert model.score(X, Y) == pytest.approx(expected)
    assert expected > 0.7
    names = [stage["name"] for stage in model.report_["stages"]]
    assert names == ["cross-entropy", "aligned"]


@pytest.mark.slow
def test_weights_change_the_model_and_a_weight_of_zero_removes_the_row(table):
    X, y = table
    plain = quick().fit(X, y)
    weights = np.ones(len(y))
    weights[::7] = 0
    removed = quick().fit(X[weights > 0], y[weights > 0])
    assert same_model(quick().fit(X, y, sample_weight=weights), removed)
    assert not same_model(plain, removed)
    heavy = quick("accuracy").fit(X, y, sample_weight=np.where(y == 2, 50.0, 1.0))
    light = quick("accuracy").fit(X, y)
    assert (heavy.predict(X) == 2).sum() > (light.predict(X) == 2).sum()


@pytest.mark.slow
def test_the_scale_of_weights_does_not_matter(table):
    X, y = table
    weights = np.random.default_rng(0).random(len(y)) + 0.1
    first = quick().fit(X, y, sample_weight=weights)
    second = quick().fit(X, y, sample_weight=weights * 1024)
    assert same_model(first, second)
    assert same_model(quick().fit(X, y), quick().fit(X, y, sample_weight=np.full(len(y), 8.0)))


@pytest.mark.slow
def test_class_weights_are_sample_weights(table):
    X, y = table
    names = np.array(["ant", "bee", "cat"])[y]
    by_class = quick().fit(X, names, sample_weight=None)
    weighted = quick(class_weight={"cat": 9.0}).fit(X, names)
    by_row = quick().fit(X, names, sample_weight=np.where(names == "cat", 9.0, 1.0))
    assert same_model(weighted, by_row)
    assert not same_model(weighted, by_class)
    balanced = quick(class_weight="balanced").fit(X, y)
    counts = np.bincount(y)
    assert same_model(balanced, quick().fit(X, y, sample_weight=(len(y) / (3 * counts))[y]))


def test_validation_data_is_what_training_is_judged_by(table):
    X, y = table
    model = quick().fit(X[:100], y[:100], validation_data=(X[100:], y[100:]))
    assert model.n_folds_ == 1
    assert model.report_["held_out_rows"] == 50
    logits = model.members_(model.scaler_(torch.from_numpy(X[100:].astype(np.float32))))[0]
    expected = reference.f1_score(y[100:], logits.argmax(1), average="macro")
    shipped = {stage["name"]: stage for stage in model.report_["stages"]}[model.report_["shipped"]]
    assert shipped["argmax"] == pytest.approx(expected)


def test_the_scaler_ignores_validation_data(table):
    X, y = table
    model = quick().fit(X[:100], y[:100], validation_data=(1000 * X[100:], y[100:]))
    np.testing.assert_allclose(model.scaler_.mean, X[:100].mean(0), rtol=1e-4, atol=1e-5)


def test_class_weights_hold_for_validation_data_too(table):
    X, y = table
    held = {"validation_data": (X[100:], y[100:])}
    model = quick(class_weight={2: 50.0}).fit(X[:100], y[:100], **held)
    logits = model.members_(model.scaler_(torch.from_numpy(X[100:].astype(np.float32))))[0]
    expected = reference.f1_score(
        y[100:], logits.argmax(1), average="macro", sample_weight=np.where(y[100:] == 2, 50.0, 1.0)
    )
    shipped = {stage["name"]: stage for stage in model.report_["stages"]}[model.report_["shipped"]]
    assert shipped["argmax"] == pytest.approx(expected, rel=1e-5)


def test_a_beta_for_each_class_by_name(table):
    X, y = table
    names = np.array(["ant", "bee", "cat"])[y]
    model = quick("f_beta", metric_options={"beta": {"cat": 4.0, "ant": 0.5}}).fit(X, names)
    assert model.metric_.options["beta"] == {2: 4.0, 0: 0.5}
    f_of_class = reference.fbeta_score
    predicted = model.predict(X)
    expected = [
        f_of_class(names, predicted, beta=beta, labels=[name], average="macro")
        for name, beta in (("ant", 0.5), ("bee", 1.0), ("cat", 4.0))
    ]
    assert model.score(X, names) == pytest.approx(np.mean(expected))


def test_a_beta_for_an_unknown_class_is_refused(table):
    message = (
        r"metric_options\['beta'\] of EASTClassifier must be keyed by classes.*; got \['dog'\]"
    )
    with pytest.raises(ValueError, match=message):
        quick("f_beta", metric_options={"beta": {"dog": 2}}).fit(*table)


def mean_recall_of_two(confusion):
    recalls = confusion.diagonal() / confusion.sum(1).clamp_min(1e-6)
    return recalls[1:].mean()


@pytest.mark.slow
def test_a_metric_is_a_name_an_object_or_any_callable(table):
    X, y = table
    named, given = quick("f1_macro").fit(X, y), quick(get("f1_macro")).fit(X, y)
    assert same_model(named, given)
    own = quick(mean_recall_of_two).fit(X, y)
    recalls = reference.recall_score(y, own.predict(X), average=None)
    assert own.score(X, y) == pytest.approx(recalls[1:].mean())
    assert own.report_["metric"] == "mean_recall_of_two"


def test_a_callable_metric_of_errors_is_minimised(table):
    X, y = table
    error = Metric("error", lambda c: 1 - c.diagonal().sum() / c.sum(), higher_is_better=False)
    model = quick(error, max_epochs=15).fit(X, y)
    assert model.score(X, y) == pytest.approx(reference.accuracy_score(y, model.predict(X)) - 1)
    assert model.score(X, y) > -0.4


def test_an_aligned_stage_and_two_classes_for_every_registered_metric(table):
    X, y = table
    for metric in ("f1", "precision", "informedness", "geometric_mean", "jaccard_macro"):
        model = quick(metric, max_epochs=2).fit(X, y > 0)
        assert np.isfinite(model.score(X, y > 0)), metric


def test_btg_trains_two_classes(table):
    X, y = table
    model = quick("f1", recipe="btg", n_folds=1, max_epochs=20, batch_size=16).fit(X, y > 0)
    assert {record["temperature"] for record in model.history_} == {0.2}
    assert model.score(X, y > 0) > 0.7


def test_the_paper_recipe_takes_its_annealing_from_the_parameters(table):
    X, y = table
    model = quick(
        recipe="paper",
        batch_size=16,
        temperature=0.3,
        cooling_rate=0.5,
        patience=1,
        max_cold_steps=1,
        max_epochs=60,
    ).fit(X, y)
    seen = list(dict.fromkeys(record["temperature"] for record in model.history_))
    assert seen == pytest.approx([0.3 * 0.5**k for k in range(len(seen))])
    assert len(seen) > 1
    assert len(model.history_) < 60
