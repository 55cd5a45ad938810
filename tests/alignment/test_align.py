"""`align`: every kind of network, what is kept, and what is left alone."""

from __future__ import annotations

import copy

import pytest
import torch
from small_networks import KINDS, clusters, loader, mlp, three_classes, trained
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

import eastward as ew
from eastward.alignment import network_stage, stages
from eastward.alignment.added_head import with_added_head
from eastward.alignment.batches import as_batch
from eastward.alignment.evidence import Gain
from eastward.metrics import get

QUICK = {"epochs": 2, "learning_rate": 1e-2}
NOTHING, EVERYTHING = 1e9, -1e9


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.values(), second.values(), strict=True))


def call(kind, **options):
    network, train, valid, own = KINDS[kind]()
    return network, train, valid, ew.align(network, train, valid, **{**QUICK, **own, **options})


# The others differ from these in how a batch is read alone.
EVERY_DAY = ("three classes", "cosines", "stream", "one logit", "labels", "dense", "mappings")


@pytest.mark.parametrize(
    "kind",
    [kind if kind in EVERY_DAY else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS],
)
def test_every_kind_of_network_goes_through_every_stage_and_is_left_as_it_was(kind):
    network, train, valid, own = KINDS[kind]()
    before, mode = copy.deepcopy(network.state_dict()), network.training
    random = torch.get_rng_state()
    result = ew.align(network, train, valid, evidence=EVERYTHING, **{**QUICK, **own})
    assert same(network.state_dict(), before)
    assert network.training is mode
    assert torch.equal(torch.get_rng_state(), random)
    names = [stage["stage"] for stage in result.report["stages"]]
    assert names == ["as given", "decision", "head", "network"]
    assert result.report["kept"] == "network"
    assert own.get("head") or not same(result.model.state_dict(), before)
    assert str(result).startswith(own.get("metric", "f1_macro"))


@pytest.mark.parametrize("kind", ["three classes", "one logit", "labels", "dense", "tokens"])
def test_decisions_have_the_shape_of_targets_and_are_those_of_the_largest_logit(kind):
    _, _, valid, result = call(kind, stages=("head",), evidence=EVERYTHING)
    inputs, targets = next(iter(valid))
    logits = result.model(inputs)
    decided = result.decide(logits)
    assert decided.shape == targets.shape
    plain = (logits > 0).long() if logits.shape == targets.shape else None
    if plain is None:
        plain = logits.argmax(-1 if kind == "tokens" else 1)
    assert torch.equal(decided, plain)


def test_what_validation_rows_speak_against_is_not_kept():
    network, _, valid, result = call("three classes", evidence=NOTHING)
    inputs, _ = next(iter(valid))
    torch.testing.assert_close(result.model(inputs), network(inputs))
    assert result.report["kept"] == "as given"
    assert "not kept" in str(result)
    assert torch.equal(result.decide(network(inputs)), network(inputs).argmax(1))


@pytest.mark.parametrize(
    "stages", [(), ("decision",), ("head",), ("network",), ("decision", "head")]
)
def test_stages_can_be_switched_off(stages):
    _, _, _, result = call("three classes", stages=stages, evidence=EVERYTHING)
    assert [stage["stage"] for stage in result.report["stages"]] == ["as given", *stages]


@pytest.mark.parametrize(("prior", "metric"), [(None, "f1_macro"), ("balanced", "accuracy")])
def test_fresh_rows_are_decided_better(prior, metric):
    X, y = clusters((800, 80, 40), spread=2.0)
    V, v = clusters((400, 40, 20), seed=1, spread=2.0)
    T, t = clusters((4000, 400, 200) if prior is None else (1000,) * 3, seed=2, spread=2.0)
    network = mlp(3)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(X), y).backward()
        optimizer.step()
    result = ew.align(network, loader(X, y), loader(V, v), metric, prior=prior, **QUICK)

    def value(decisions):
        return float(get(metric)(ew.soft_confusion(nn.functional.one_hot(decisions, 3).float(), t)))

    assert value(result.decide(result.model(T))) > value(network(T).argmax(1)) + 0.02


def test_a_balanced_prior_shifts_the_logits_of_a_plainly_trained_network():
    network, train, _, result = call(
        "three classes", stages=("decision",), prior="balanced", evidence=EVERYTHING
    )
    inputs, _ = next(iter(train))
    counts = torch.bincount(train.dataset.tensors[1]).double()
    ratio = result.model(inputs).double() - result.model(inputs).double()[:, :1]
    plain = network(inputs).double() - network(inputs).double()[:, :1]
    # One scale for all rows, and the shift of the frequencies.
    shift = -(counts / counts.sum()).log()
    scaled = ratio - (shift - shift[0])
    scale = scaled[:, 1:] / plain[:, 1:]
    torch.testing.assert_close(scale, scale[0, 0].expand_as(scale), rtol=1e-3, atol=1e-3)
    assert result.report["believed"] == "training"


@pytest.mark.slow
def test_a_network_trained_on_balanced_batches_is_known_as_one():
    X, y = clusters((400, 60, 20), spread=2.0)
    weight = (1 / torch.bincount(y).float())[y]
    network, optimizer = mlp(3), None
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(80):
        optimizer.zero_grad()
        each = nn.functional.cross_entropy(network(X), y, reduction="none")
        (each * weight).mean().backward()
        optimizer.step()
    V, v = clusters((400, 60, 20), seed=1, spread=2.0)
    result = ew.align(network, loader(X, y), loader(V, v), stages=("decision",))
    assert result.report["believed"] == "balanced"
    sampler = WeightedRandomSampler(weight.double(), len(y))
    drawn = DataLoader(TensorDataset(X, y), 32, sampler=sampler)
    again = ew.align(network, drawn, loader(V, v), stages=("decision",))
    assert again.report["prior"] == pytest.approx([400 / 480, 60 / 480, 20 / 480])


def test_in_place_changes_the_model_that_was_given():
    network, train, valid, _ = three_classes()
    result = ew.align(network, train, valid, inplace=True, evidence=EVERYTHING, **QUICK)
    assert result.model is network


def test_a_head_without_a_bias_receives_one():
    network, train, valid, _ = three_classes()
    bare = nn.Sequential(*network[:2], nn.Linear(16, 3, bias=False))
    result = ew.align(bare, train, valid, stages=("head",), inplace=True, evidence=EVERYTHING)
    assert bare[2].bias.abs().sum() > 0
    assert result.report["head"] == "2"


@pytest.mark.parametrize(
    "kind", ["one logit", "one logit in a column", "labels", "dense", "tokens"]
)
def test_an_added_head_begins_with_the_logits_as_they_are(kind):
    network, train, _, _ = KINDS[kind]()
    batch = as_batch(next(iter(train)))
    both = with_added_head(network, batch)
    assert torch.equal(both(batch.inputs), network(batch.inputs))


def test_constraints_are_kept_by_the_decision():
    _, train, _, result = call(
        "three classes",
        subject_to="recall[rare] >= 0.5",
        classes=["a", "b", "rare"],
        confidence=0.5,
    )
    assert "recall[rare]" in str(result.decision)
    X, y = train.dataset.tensors
    decided = result.decide(result.model(X))
    assert float((decided[y == 2] == 2).float().mean()) >= 0.5


def test_all_rows_are_trained_on_when_asked_for():
    _, _, _, result = call("three classes", refit=True, evidence=EVERYTHING)
    assert result.report["stages"][-1]["stage"] == "refit"
    assert result.report["stages"][-1]["value"] is None
    assert "not judged" in str(result)


def test_half_precision_is_a_way_to_compute():
    _, _, _, result = call("three classes", precision="bf16-mixed", evidence=EVERYTHING)
    assert all(value.dtype == torch.float32 for value in result.model.parameters())


def test_frozen_bodies_leave_the_network_stage_out():
    network, train, valid, _ = three_classes()
    network[0].requires_grad_(requires_grad=False)
    result = ew.align(network, train, valid, **QUICK)
    assert "frozen" in str(result)
    assert "network" not in [stage["stage"] for stage in result.report["stages"]]


def test_other_frequencies_in_validation_are_mentioned():
    network, train, _, _ = three_classes()
    V, v = clusters((40, 40, 40), seed=1)
    assert "prior=" in str(ew.align(network, train, loader(V, v), stages=("decision",)))


class Stopping(TensorDataset):
    """Rows that are interrupted when so many were asked for."""

    def __init__(self, *tensors, after, error):
        super().__init__(*tensors)
        self.left, self.error = after, error

    def __getitem__(self, index):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return super().__getitem__(index)


def rows_until_epoch(number, y):
    """Rows that the first batch, one pass, and so many epochs take."""
    return 32 + len(y) + number * len(y)


def test_ctrl_c_keeps_the_best_so_far():
    network, train, valid, _ = three_classes()
    X, y = train.dataset.tensors
    stopped = Stopping(X, y, after=rows_until_epoch(1, y), error=KeyboardInterrupt)
    result = ew.align(network, DataLoader(stopped, 32), valid, epochs=50)
    assert "Stopped by hand" in str(result)
    assert [stage["stage"] for stage in result.report["stages"]][:3] == [
        "as given",
        "decision",
        "head",
    ]


@pytest.mark.parametrize("kind", ["three classes", pytest.param("stream", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_killed_call_goes_on_to_the_same_bits(kind, tmp_path, monkeypatch):
    network, train, valid, _ = KINDS[kind]()
    options = {"epochs": 6, "learning_rate": 1e-2, "evidence": EVERYTHING, "stages": ("network",)}
    whole = ew.align(network, train, valid, **options)
    saved, save = [], network_stage._save

    def killed(*given):
        save(*given)
        saved.append(given)
        if len(saved) == 4:
            raise RuntimeError("killed")

    monkeypatch.setattr(network_stage, "_save", killed)
    with pytest.raises(RuntimeError, match="killed"):
        ew.align(network, train, valid, checkpoint=tmp_path, **options)
    resumed = ew.align(network, train, valid, checkpoint=tmp_path, **options)
    assert len(saved) == 6
    assert same(resumed.model.state_dict(), whole.model.state_dict())
    values = [[stage["value"] for stage in one.report["stages"]] for one in (whole, resumed)]
    assert values[0] == values[1]
    with pytest.raises(ValueError, match="from another run"):
        ew.align(network, train, valid, checkpoint=tmp_path, **{**options, "random_state": 1})


@pytest.mark.slow
def test_a_checkpoint_of_other_pixels_is_refused(tmp_path):
    network, train, valid, own = KINDS["dense"]()
    options = {"epochs": 1, "stages": ("network",), "checkpoint": tmp_path, **own}
    ew.align(network, train, valid, **options)
    X, y = train.dataset.tensors
    other = loader(X, torch.where(y == 2, 1, y), 8)
    with pytest.raises(ValueError, match="from another run"):
        ew.align(network, other, valid, **options)


def test_many_classes_and_rows_are_aligned_on_some_of_them(monkeypatch):
    sizes = [12] * 20
    X, y = clusters(sizes, spread=0.5)
    V, v = clusters(sizes, seed=1, spread=0.5)
    monkeypatch.setattr(stages, "NUMBERS_AT_ONCE", 4 * 20 * 200)
    network = mlp(20)
    data = loader(X, y), loader(V, v)
    result = ew.align(network, *data, stages=("head",), evidence=EVERYTHING)
    given = float((network(V).argmax(1) == v).float().mean())
    assert float((result.model(V).argmax(1) == v).float().mean()) > given + 0.2


def test_rare_classes_of_a_stream_are_met_in_steps_of_several_batches():
    network, train, valid, _ = KINDS["stream"]()
    layout = ew.align(network, train, valid, stages=()).layout
    targets = train.dataset.y
    mass = torch.bincount(targets).double()
    options = network_stage.NetworkOptions()
    steps = network_stage.Steps.of(train, layout, targets, mass, options, 0)
    assert steps.parts == 2
    assert steps.per_epoch == 3


@pytest.mark.slow
@pytest.mark.distributed
def test_two_processes_train_as_one_does():
    network, train, valid, _ = three_classes()
    options = {"evidence": EVERYTHING, "stages": ("network",), **QUICK}
    one = ew.align(network, train, valid, **options)
    two = ew.align(network, train, valid, devices=2, **options)
    for a, b in zip(one.model.state_dict().values(), two.model.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("gain", "error", "hurdle", "kept"),
    [
        (0.02, 0.01, 1.0, True),
        (0.005, 0.01, 1.0, False),
        (-0.005, 0.01, -1.0, True),
        (-0.02, 0.01, -1.0, False),
        (0.0, 0.0, -1.0, False),
        (0.0, 0.0, 1.0, False),
    ],
)
def test_a_gain_passes_by_standard_errors(gain, error, hurdle, kept):
    assert Gain(gain, error).passes(hurdle) is kept


class Recorded(TensorDataset):
    """Rows that remember which of them were read."""

    def __init__(self, *tensors):
        super().__init__(*tensors)
        self.read = set()

    def __getitem__(self, row):
        self.read.add(int(row))
        return super().__getitem__(row)


class EverySecond:
    """A sampler of batches that nobody knows, for half of the rows."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        for start in range(0, self.count, 40):
            yield list(range(start, min(start + 40, self.count), 2))

    def __len__(self):
        return len(range(0, self.count, 40))


SAMPLERS = {
    "a subset": lambda rows: {"batch_size": 16, "sampler": SubsetRandomSampler(range(100))},
    "weights of zero": lambda rows: {
        "batch_size": 16,
        "sampler": WeightedRandomSampler([float(row < 100) for row in range(len(rows))], 200),
    },
    "batches of its own": lambda rows: {"batch_sampler": EverySecond(100)},
}


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("refit", [False, True])
def test_rows_that_a_sampler_leaves_out_are_never_read(kind, refit):
    X, y = clusters((90, 50, 40))
    rows = Recorded(X, y)
    train = DataLoader(rows, **SAMPLERS[kind](rows))
    valid = DataLoader(rows, 16, sampler=SubsetRandomSampler(range(100, 150)))
    result = ew.align(mlp(3), train, valid, refit=refit, evidence=EVERYTHING, **QUICK)
    drawn = 50 if kind == "batches of its own" else 100
    assert (result.report["train_rows"], result.report["valid_rows"]) == (drawn, 50)
    assert max(rows.read) < 150
    if kind == "batches of its own":
        assert not {row for row in rows.read if row < 100 and row % 2}


def test_constraints_that_cannot_be_proven_lose_no_training():
    with pytest.warns(UserWarning, match="subject_to is not provable"):
        *_, result = call("three classes", subject_to="precision[2] >= 0.999")
    assert any("precision[2] >= 0.999" in note for note in result.report["notes"])
    assert "precision[2] >= 0.999" in str(result)
    assert not result.decision.constraints[0].holds


def test_with_many_classes_a_stage_has_to_beat_the_decision():
    X, y = clusters([12] * 20, features=8)
    network = trained(mlp(20, features=8), X, y, nn.functional.cross_entropy)
    loaders = loader(X[:160], y[:160]), loader(X[120:], y[120:])
    result = ew.align(network, *loaders, evidence=EVERYTHING, **QUICK)
    judged = {one["stage"]: (one["over"], one["counts"]) for one in result.report["stages"]}
    assert judged["head"] == ("decision", "hard")
    assert judged["network"] == ("head", "soft")
    *_, few = call("three classes", evidence=EVERYTHING)
    assert [one["over"] for one in few.report["stages"]] == [None, "as given", "as given", "head"]


def test_an_interrupted_refit_leaves_the_judged_network(monkeypatch):
    def stopped(*given, **options):
        return False

    network, train, valid, own = KINDS["three classes"]()
    judged = ew.align(network, train, valid, evidence=EVERYTHING, **{**QUICK, **own})
    trains, calls = stages.train_network, []

    def second_is_stopped(*given, **options):
        calls.append(1)
        return (trains if len(calls) == 1 else stopped)(*given, **options)

    monkeypatch.setattr(stages, "train_network", second_is_stopped)
    result = ew.align(network, train, valid, evidence=EVERYTHING, refit=True, **{**QUICK, **own})
    assert len(calls) == 2
    assert result.report["kept"] == "network"
    assert same(result.model.state_dict(), judged.model.state_dict())
    assert any("Stopped by hand" in note for note in result.report["notes"])


def test_one_logit_with_an_axis_decides_in_the_shape_of_its_targets():
    X, y = clusters((80, 60))
    result = ew.align(mlp(1), loader(X, y.float()), loader(X, y.float()), "f1", **QUICK)
    logits = result.model(X)
    assert logits.shape == (140, 1)
    assert result.decide(logits).shape == y.shape


def test_a_class_of_frequency_zero_is_never_predicted():
    network, train, valid, _ = three_classes()
    result = ew.align(network, train, valid, prior=[0.6, 0.4, 0.0], **QUICK)
    X = torch.cat([batch[0] for batch in train])
    assert not (result.decide(result.model(X)) == 2).any()
    assert any("classes [2] do not count" in note for note in result.report["notes"])


def test_a_network_that_is_all_head_is_not_called_frozen():
    X, y = clusters((90, 50, 40))
    result = ew.align(nn.Linear(6, 3), loader(X, y), loader(X, y), **QUICK)
    assert any("The head is all there is" in note for note in result.report["notes"])


def test_empty_batches_are_passed_over():
    X, y = clusters((90, 50, 40))
    batches = [(X[:90], y[:90]), (X[:0], y[:0]), (X[90:], y[90:])]
    result = ew.align(mlp(3), batches, batches, stages=("decision",), **QUICK)
    assert result.report["train_rows"] == 180
