"""The protocol: splits, scales, search, early stopping, scores, verdicts and the papers' figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score
from torch import nn

import eastward as ew
from papers.data.generated import write_generated
from papers.experiments import EXPERIMENTS, Run, get
from papers.experiments.cells import CellBook, describe_cell, warm_key
from papers.experiments.design import Claim
from papers.experiments.efforts import SCALES, effort_for, grid_points
from papers.experiments.figures import Figure, parse_figures, pooled_distance, verdict
from papers.experiments.methods import METHODS, OneVersusRestLoss, Problem, tuned_threshold
from papers.experiments.networks import NETWORKS, FrameNetwork, moved_and_mirrored, padded
from papers.experiments.rendering import markdown
from papers.experiments.running import chosen_point
from papers.experiments.scores import TITLES, all_scores
from papers.experiments.splits import Part, Split, _Loaded, _stretches, load_split
from papers.experiments.summary import summarise
from papers.experiments.training import Plan, _batches, train_network


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made_up")
    write_generated(folder, ["mammography", "fashion_mnist", "cocktail_party", "adult"])
    return folder


def test_every_row_score_network_and_claim_is_known():
    for experiment in EXPERIMENTS.values():
        for panel in experiment.panels:
            assert panel.network in NETWORKS
            assert set(panel.methods) <= set(METHODS)
            assert set(panel.scores) <= set(TITLES)
            assert set(panel.published) <= set(panel.methods)
            for claim in panel.claims:
                assert {claim.method, claim.rival} - {""} <= set(panel.methods)
                assert claim.score in panel.scores
            for scale in SCALES:
                assert grid_points(effort_for(scale, panel, panel.methods[0]))


def test_all_names_of_the_papers_are_there():
    expected = {f"btg-table{k}" for k in range(1, 5)} | {f"east-table{k}" for k in range(1, 8)}
    expected |= {
        "east1-table1",
        "east1-table2",
        "ablation",
        "imbalance",
        "schedules",
        "many-classes",
    }
    expected |= {f"lee-figure{k}" for k in range(1, 8)}
    assert set(EXPERIMENTS) == expected


def test_the_papers_grid_and_trials():
    kaggle = next(p for p in get("east-table1").panels if p.data == "credit_card")
    effort = effort_for("paper", kaggle, "accuracy_east")
    assert effort.trials == 10
    assert effort.patience == 50
    # Larger batches belong to accuracy and MCC alone.
    assert effort.grid["batch_size"] == (128, 256, 512, 1024, 2048, 4096, 8192)
    assert effort.grid["rate"] == (0.8, 0.9)
    assert len(grid_points(effort_for("paper", kaggle, "ce"))) == 5 * 3 * 2
    lee = effort_for("paper", get("lee-figure2").panels[0], "mae")
    assert (lee.trials, lee.max_epochs, grid_points(lee)[0]["batch_size"]) == (5, 120, 100)


@pytest.mark.parametrize(
    ("name", "method", "epochs"),
    [
        ("east1-table1", "prefer_dog_5_fixed", 100),
        ("east1-table1", "ce", 100),
        ("east1-table2", "f1_east_fixed", 100),
        ("east1-table2", "ce", 100),
        ("east-table1", "ce", 50),
        ("east-table4", "ce", 50),
    ],
)
def test_the_first_version_waits_twice_as_long(name, method, epochs):
    for panel in get(name).panels:
        assert effort_for("paper", panel, method).patience == epochs


def test_full_data_and_five_trials_on_tables_at_cpu_scale():
    for name in ("btg-table1", "btg-table4", "east1-table2", "east-table3"):
        for panel in get(name).panels:
            effort = effort_for("cpu", panel, panel.methods[0])
            assert effort.samples is None
            assert effort.trials >= 5


@pytest.mark.parametrize("name", ["east-table1", "east1-table2", "east-table3"])
def test_tables_search_a_small_learning_rate_and_a_small_batch_at_cpu_scale(name):
    for panel in get(name).panels:
        if panel.network == "512-256-128":
            grid = effort_for("cpu", panel, "f1_east").grid
            assert 0.0001 in grid["learning_rate"]
            assert min(grid["batch_size"]) <= 512


def test_bridging_the_gap_runs_by_its_published_code():
    for panel in get("btg-table1").panels:
        for scale in ("cpu", "paper"):
            effort = effort_for(scale, panel, "bce")
            (point,) = grid_points(effort)
            assert (point["batch_size"], point["learning_rate"]) == (1024, 0.001)
            assert (point["dropout"], effort.patience, panel.optimizer) == (0.5, 100, "adam")


@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_no_two_points_of_a_grid_train_the_same_network(scale):
    """Batches larger than the training set are all one batch; a dropout must be in the network."""
    frames = get("btg-table3").panels[0]
    sizes = effort_for(scale, frames, "f1_btg").grid["batch_size"]
    assert max(sizes) <= 204
    assert effort_for(scale, frames, "f1_btg").grid["dropout"] == (0.0,)
    cifar = next(p for p in get("east-table1").panels if p.data == "cifar10")
    for dropout in effort_for(scale, cifar, "ce").grid["dropout"]:
        network = NETWORKS[cifar.network](torch.zeros(3, 32, 32), 10, dropout, 0.05)
        assert network.dropout.p == dropout


def test_all_rows_of_a_table_average_over_the_same_classes():
    """A batch without a class counts it as zero, in the papers' rows and in the ablation's."""
    problem = Problem(("cat", "dog", "frog"), [5, 5, 5])
    targets = torch.tensor([0, 0, 2, 2])
    logits = 50 * torch.eye(3)[targets]
    losses = [METHODS[name].make(problem) for name in ("f1_east", "prefer_dog_5", "parts_none")]
    for loss in losses:
        loss.temperature = 1e-6
        assert float(loss(logits, targets)) == pytest.approx(1 / 3, abs=1e-4)


def test_the_adversarial_loss_gets_batches_of_25():
    panel = get("btg-table1").panels[0]
    for scale in SCALES:
        assert effort_for(scale, panel, "f1_adversarial").grid["batch_size"] == (25,)


def test_splits_are_64_16_20_scaled_and_disjoint(made_up):
    split = load_split("mammography", made_up, verify=False)
    sizes = [len(part.targets) for part in (split.train, split.valid, split.test)]
    assert sizes == [192, 48, 60]
    assert torch.allclose(split.train.inputs.mean(0), torch.zeros(6), atol=1e-5)
    assert torch.allclose(split.train.inputs.std(0, correction=0), torch.ones(6), atol=1e-4)
    rows = torch.cat([part.inputs for part in (split.train, split.valid, split.test)])
    assert len(rows.unique(dim=0)) == 300
    again = load_split("mammography", made_up, verify=False)
    assert torch.equal(split.test.inputs, again.test.inputs)


def test_official_test_pictures_are_the_last_ones(made_up):
    split = load_split("fashion_tshirt", made_up, verify=False, official_test=True)
    assert [len(p.targets) for p in (split.train, split.valid, split.test)] == [144, 16, 40]


def test_thinning_keeps_all_negatives(made_up):
    options = {"features": "clean"}
    whole = load_split("adult", made_up, verify=False, options=options)
    thin = load_split("adult", made_up, verify=False, options={**options, "negatives_each": 10})
    for before, after in ((whole.train, thin.train), (whole.test, thin.test)):
        negatives = int((before.targets == 0).sum())
        assert int((after.targets == 0).sum()) == negatives
        assert int((after.targets == 1).sum()) == max(10, negatives // 10)


def test_of_very_many_classes_whole_ones_are_kept(monkeypatch):
    pixels = np.arange(400, dtype=np.float32).reshape(400, 1, 1, 1) + np.zeros((1, 1, 4, 4))
    loaded = _Loaded(pixels, np.arange(400) % 20, tuple(map(str, range(20))))
    monkeypatch.setattr("papers.experiments.splits._loaded", lambda *_: loaded)
    split = load_split("omniglot", None, samples=100)
    assert split.num_classes == 5
    assert torch.bincount(split.test.targets).tolist() == [4] * 5
    assert len(split.train.targets) + len(split.valid.targets) + len(split.test.targets) == 100


def test_another_trial_has_other_test_rows(made_up):
    first, second = (load_split("mammography", made_up, verify=False, seed=k) for k in (0, 1))
    assert not torch.equal(first.test.inputs, second.test.inputs)
    assert len(first.test.targets) == len(second.test.targets)


@pytest.mark.parametrize("seed", [0, 3, 9])
def test_a_stretch_of_time_shares_no_moment_with_the_rest(seed):
    groups = np.repeat(np.arange(50), 3)
    train, valid, test = (set(groups[rows].tolist()) for rows in _stretches(groups, seed))
    assert not train & test
    assert not valid & test
    assert not train & valid
    assert (len(train), len(valid), len(test)) == (32, 8, 10)
    # One stretch: its moments follow each other, around the end if need be.
    assert len({(moment + 1) % 50 for moment in test} - test) == 1


def test_lees_pictures_lose_their_mean_picture_and_keep_their_scale(made_up):
    split = load_split("fashion_tshirt", made_up, verify=False, official_test=True)
    assert split.train.inputs.mean(0).abs().max() < 1e-4
    assert split.train.inputs.abs().max() <= 1


def test_frames_are_split_whole(made_up):
    split = load_split("cocktail_frames", made_up, verify=False)
    assert split.train.inputs.shape[1:] == (6, 4)
    assert split.train.targets.shape[1] == 15


def blobs(rows: int = 300) -> Split:
    generator = torch.Generator().manual_seed(0)
    targets = (torch.arange(rows) % 5 == 0).long()
    inputs = torch.randn(rows, 4, generator=generator) + 2 * targets.unsqueeze(1)
    cut = [slice(0, rows // 2), slice(rows // 2, 3 * rows // 4), slice(3 * rows // 4, rows)]
    parts = [Part(inputs[s], targets[s]) for s in cut]
    return Split(*parts, ("no", "yes"))


def test_training_learns_and_keeps_the_lowest_validation_loss():
    torch.manual_seed(0)
    network, split = nn.Linear(4, 2), blobs()
    plan = Plan(batch_size=50, learning_rate=0.05, max_epochs=40, patience=5)
    loss = nn.CrossEntropyLoss()
    outcome = train_network(network, loss, split, plan, seed=0)
    kept = loss(network(split.valid.inputs), split.valid.targets).item()
    assert kept == pytest.approx(min(row["valid_loss"] for row in outcome.history), abs=1e-6)
    assert (network(split.test.inputs).argmax(1) == split.test.targets).float().mean() > 0.9


def test_early_stopping_waits_as_long_as_its_patience():
    network, split = nn.Linear(4, 2), blobs()
    plan = Plan(batch_size=50, learning_rate=0.0, max_epochs=40, patience=3)
    outcome = train_network(network, nn.CrossEntropyLoss(), split, plan, seed=0)
    assert outcome.epochs == 4


def test_annealing_cools_and_ends_when_cooling_brings_nothing():
    network, split = nn.Linear(4, 2), blobs()
    loss = ew.EASTLoss("f1")
    plan = Plan(50, 0.0, 100, 9, annealed=True, rate=0.5, cooling_patience=2, cold_steps=3)
    train_network(network, loss, split, plan, seed=0)
    assert float(loss.temperature) < 0.2


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_schedule_ends_cold_in_its_last_epoch(schedule):
    loss = ew.EASTLoss("f1")
    plan = Plan(50, 0.01, 5, 9, annealed=True, schedule=schedule, select="score")
    outcome = train_network(nn.Linear(4, 2), loss, blobs(), plan, seed=0)
    assert outcome.finished
    assert outcome.epochs == 5
    assert float(loss.temperature) == pytest.approx(0.01)


def test_a_warm_start_is_cross_entropy():
    """Epochs before the end of the warm start are those of cross-entropy alone."""
    histories = []
    for loss, warm in ((nn.CrossEntropyLoss(), 0), (ew.EASTLoss("f1"), 3)):
        torch.manual_seed(0)
        plan = Plan(50, 0.05, 3, 9, warm_epochs=warm)
        histories.append(train_network(nn.Linear(4, 2), loss, blobs(), plan, seed=0).history)
    assert [row["train_loss"] for row in histories[0]] == [
        row["train_loss"] for row in histories[1][:3]
    ]
    assert len(histories[1]) == 6


def test_balanced_batches_have_equally_many_rows_of_each_class():
    plan = Plan(batch_size=20, learning_rate=0.1, max_epochs=1, patience=1, stratified=True)
    part = blobs().train
    batches = list(_batches(part, plan, torch.Generator().manual_seed(0)))
    assert len(batches) == round(len(part.targets) / 20)
    assert all(torch.bincount(part.targets[rows]).tolist() == [10, 10] for rows in batches)


def test_exact_steps_have_the_gradient_of_all_their_batches():
    torch.manual_seed(0)
    networks = [nn.Linear(4, 2) for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    for network, exact in zip(networks, (1, 3), strict=True):
        plan = Plan(150 if exact == 1 else 50, 0.1, 1, 1, optimizer="sgd", exact_batches=exact)
        train_network(network, ew.EASTLoss("f1"), blobs(), plan, seed=0)
    torch.testing.assert_close(networks[0].weight, networks[1].weight)


@pytest.mark.parametrize("annealed", [False, True])
def test_a_network_that_was_stopped_goes_on_to_the_same_end(annealed, tmp_path, monkeypatch):
    monkeypatch.setattr("papers.experiments.checkpoints.SECONDS_BETWEEN", 0)
    plan = Plan(50, 0.05, 8, 9, annealed=annealed, rate=0.5, cooling_patience=1)

    def train(checkpoint, watch=None):
        torch.manual_seed(3)
        network = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        chosen = replace(plan, watch=watch)
        loss = ew.EASTLoss("f1", running=0.5)
        outcome = train_network(network, loss, blobs(), chosen, seed=3, checkpoint=checkpoint)
        return [
            {k: row[k] for k in ("train_loss", "valid_loss")} for row in outcome.history
        ], network

    epochs = iter(range(1, 9))

    def stop_in_epoch_five(_):
        if next(epochs) == 5:
            raise KeyboardInterrupt
        return {}

    whole, network = train(None)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cell.pt", stop_in_epoch_five)
    torch.rand(7)  # the next process has other random numbers behind it
    again, resumed = train(tmp_path / "cell.pt")
    assert again == whole
    assert all(
        torch.equal(a, b) for a, b in zip(network.parameters(), resumed.parameters(), strict=True)
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("select", ["score", "last"])
def test_losses_share_the_epochs_of_cross_entropy_they_start_with(select, tmp_path):
    """A loss that finds the network of another one's start ends as if it had trained that itself."""
    plan = Plan(50, 0.05, 3, 9, warm_epochs=2, rate_after_warm=0.2, select=select)

    def train(metric, warm_start):
        torch.manual_seed(3)
        network = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        outcome = train_network(
            network, ew.EASTLoss(metric), blobs(), plan, seed=3, warm_start=warm_start
        )
        return outcome.history, network.state_dict()

    shared = tmp_path / "warm.pt"
    train("accuracy", shared)
    for metric in ("f1", "matthews_corrcoef"):
        alone, started = train(metric, None), train(metric, shared)
        assert alone[0] == started[0]
        assert all(torch.equal(alone[1][name], started[1][name]) for name in alone[1])


def test_a_start_chosen_by_another_rule_does_not_stand_in_the_way(tmp_path):
    """Whoever keeps the best epoch may load the start of one who keeps the last, and the other way round."""
    shared = tmp_path / "warm.pt"
    for first, second in (("last", "score"), ("score", "last")):
        shared.unlink(missing_ok=True)
        networks = []
        for select in (first, second):
            plan = Plan(50, 0.05, 3, 9, warm_epochs=2, select=select)
            torch.manual_seed(3)
            network = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
            train_network(network, ew.EASTLoss("f1"), blobs(), plan, seed=3, warm_start=shared)
            networks.append(network)
        started = torch.load(shared, weights_only=True)["network"]
        for network in networks:
            assert not all(
                torch.equal(network.state_dict()[name], started[name]) for name in started
            )


def test_balanced_batches_are_no_more_than_the_limit():
    part = blobs().train
    plan = Plan(10, 0.05, 3, 9, stratified=True, max_steps=4)
    assert len(list(_batches(part, plan, torch.Generator()))) == 4


def test_the_start_by_cross_entropy_knows_everything_that_it_depends_on():
    panel = next(p for p in get("east-table1").panels if p.data == "cifar10")
    effort = effort_for("cpu", panel, "f1_warm")
    cell = describe_cell(panel, "f1_warm", effort, grid_points(effort)[0]) | {"trial": 0}
    assert warm_key(cell) == warm_key(cell | {"method": "after_dog_5"})
    assert warm_key(cell | {"method": "ce"}) is None
    for name in ("data", "width", "dropout", "batch_size", "learning_rate", "trial", "precision"):
        assert warm_key(cell | {name: "another"}) != warm_key(cell)


def test_same_seed_same_network():
    split, plan = blobs(), Plan(batch_size=50, learning_rate=0.05, max_epochs=3, patience=5)
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        network = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        results.append(train_network(network, nn.CrossEntropyLoss(), split, plan, seed=3).history)
    assert results[0] == results[1]


def test_a_search_takes_the_lowest_validation_loss(tmp_path):
    panel = next(p for p in get("east-table1").panels if p.data == "mammography")
    run = Run("cpu", tmp_path)
    book = CellBook(tmp_path / "cells.jsonl")
    points = grid_points(run.effort(panel, "f1_east"))
    assert len(points) > 1
    for loss, point in zip((0.5, 0.4), points, strict=True):
        book.add(run.cell(panel, "f1_east", point, 0), {"valid_loss": loss})
    assert chosen_point(panel, "f1_east", run, book) == points[1]


def test_cells_of_equal_meaning_are_shared_between_tables():
    first = next(p for p in get("east-table1").panels if p.data == "mammography")
    second = next(p for p in get("east1-table2").panels if p.data == "mammography")
    cells = []
    for panel in (first, second):
        effort = effort_for("cpu", panel, "ce")
        cells.append(describe_cell(panel, "ce", effort, grid_points(effort)[0]))
    assert cells[0] == cells[1]
    assert "rate" not in cells[0]


def test_scores_agree_with_scikit_learn(rng):
    targets = rng.integers(0, 2, 200)
    probability = np.clip(0.3 * targets + 0.6 * rng.random(200), 0, 1)
    decided = (probability >= 0.5).astype(int)
    scores = all_scores(targets, decided, probability, ("no", "yes"))
    grid = [(probability >= k / 10).astype(int) for k in range(1, 10)]
    assert scores["f1"] == pytest.approx(f1_score(targets, decided))
    expected = np.mean([f1_score(targets, d, zero_division=0) for d in grid])
    assert scores["grid_f1"] == pytest.approx(expected)
    expected = np.mean([balanced_accuracy_score(targets, d) for d in grid])
    assert scores["grid_auroc"] == pytest.approx(expected)


def test_scores_of_watched_classes_find_caltechs_names(rng):
    targets, decided = rng.integers(0, 3, 100), rng.integers(0, 3, 100)
    scores = all_scores(targets, decided, None, ("001.ak47", "056.dog", "080.frog"))
    expected = ((targets == 1) & (decided == 1)).sum() / (decided == 1).sum()
    assert scores["precision_dog"] == pytest.approx(expected)
    assert {"recall_dog", "precision_frog", "recall_frog"} <= set(scores)


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if m.make is not None])
def test_every_loss_has_a_gradient(name):
    method = METHODS[name]
    binary = method.one_logit or name.startswith(("surrogate", "soft", "mae"))
    classes = ("no", "yes") if binary else ("cat", "dog", "frog")
    targets = torch.arange(24) % len(classes)
    counts = torch.bincount(targets).tolist()
    loss = method.make(Problem(classes, counts))
    logits = torch.randn(24, 1 if method.one_logit else len(classes), requires_grad=True)
    value = loss(logits, targets)
    value.backward()
    assert value.dim() == 0
    assert torch.isfinite(logits.grad).all()
    assert logits.grad.abs().sum() > 0


def test_preferences_put_beta_on_the_named_class():
    targets = torch.tensor([0, 1, 1, 2, 2, 0])
    logits = torch.eye(3)[torch.tensor([0, 1, 0, 2, 2, 1])] * 50
    loss = METHODS["prefer_dog_5"].make(Problem(("cat", "dog", "frog"), [2, 2, 2]))
    loss.temperature = 1e-6
    matrix = torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 2]])
    expected = 1 - ew.metrics.f_beta(matrix, beta=[1.0, 5.0, 1.0], average="macro")
    assert float(loss(logits, targets)) == pytest.approx(float(expected), abs=1e-4)


def test_one_versus_rest_counts_each_class_alone():
    loss = OneVersusRestLoss(dynamic=True)
    loss.temperature = 1e-6
    targets = torch.tensor([0, 1, 1, 2])
    decided = torch.tensor([0, 1, 0, 2])
    value = 1 - float(loss(torch.eye(3)[decided] * 50, targets))
    assert value == pytest.approx(f1_score(targets, decided, average="macro"), abs=1e-4)


def test_a_tuned_threshold_is_the_best_of_all(rng):
    targets = torch.as_tensor(rng.integers(0, 2, 80))
    probability = torch.as_tensor(rng.random(80))
    best = max(f1_score(targets, probability >= t) for t in probability)
    chosen = f1_score(targets, probability >= tuned_threshold(probability, targets))
    assert chosen == pytest.approx(best)


def test_the_graph_network_sees_each_frame_alone():
    pytest.importorskip("torch_geometric")
    from papers.networks import frame_graph

    network = FrameNetwork(1, hidden=8)
    frames = torch.randn(3, 6, 4)
    frames[..., 2:] = nn.functional.normalize(frames[..., 2:], dim=2)
    together = network(frames)
    angles = torch.atan2(frames[1, :, 3], frames[1, :, 2])
    alone = network.affinities(frame_graph(frames[1, :, :2], angles))
    assert together.shape == (45, 1)
    torch.testing.assert_close(together[15:30], alone, atol=1e-4, rtol=1e-4)


def test_augmentation_crops_and_mirrors():
    images = torch.arange(28 * 28.0).reshape(1, 1, 28, 28).expand(8, 1, 28, 28)
    moved = moved_and_mirrored(images, torch.Generator().manual_seed(0))
    assert moved.shape == (8, 1, 32, 32)
    # A crop of its own for each picture: 5 x 5 places, mirrored or not, here of eight equal pictures.
    assert len(moved.unique(dim=0)) > 4
    wide = nn.functional.pad(images[0], [4] * 4)
    corners = [wide[:, i : i + 32, j : j + 32] for i in range(5) for j in range(5)]
    allowed = torch.stack([*corners, *(corner.flip(-1) for corner in corners)])
    assert all((picture == allowed).flatten(1).all(1).any() for picture in moved)
    assert padded(images, 32).shape == (8, 1, 32, 32)


def test_published_figures_are_parsed_as_printed():
    figures = {p.data: p.published for p in get("btg-table1").panels if p.published}
    assert figures["mammography"]["bce"]["grid_f1"] == Figure(0.56, 0.11)
    assert figures["credit_card"]["accuracy_btg"]["grid_auroc"] == Figure(0.78, 0.15)
    east = {p.data: p.published for p in get("east-table1").panels if p.published}
    assert east["cocktail_party"]["dice"]["mcc"] == Figure(-0.025, 0.05)
    with pytest.raises(ValueError, match="zip"):
        parse_figures("ce 0.5", ("f1",))


def test_figures_beyond_two_pooled_deviations_are_marked():
    assert verdict(pooled_distance(Figure(0.80, 0.02), Figure(0.81, 0.02))) == "reproduced"
    assert verdict(pooled_distance(Figure(0.90, 0.01), Figure(0.81, 0.01))) == "better"
    assert verdict(pooled_distance(Figure(0.70, 0.01), Figure(0.81, 0.01))) == "worse"
    # Two figures printed with no deviation still differ by their rounding.
    assert abs(pooled_distance(Figure(0.99, 0), Figure(0.995, 0))) < 2


@pytest.fixture
def three_trials(tmp_path):
    """Three trials of each row of a table, with scores that fall from row to row."""
    panel = get("btg-table4").panels[0]
    run = Run("cpu", tmp_path, trials=3)
    for place, method in enumerate(panel.methods):
        for trial in range(3):
            for point in grid_points(run.effort(panel, method)):
                result = {
                    "valid_loss": 0.5,
                    "epochs": 3,
                    "seconds": 1.0,
                    "wall": 1.0,
                    "capped": trial == 0,
                    "collapsed": method == "f2_btg",
                    "scores": dict.fromkeys(panel.scores, 0.3 - 0.1 * place + 0.01 * trial),
                }
                run.book.add(run.cell(panel, method, point, trial), result)
    return summarise(get("btg-table4"), run, command="python -m papers run btg-table4")


def test_summary_compares_with_the_paper(three_trials):
    row = three_trials["panels"][0]["rows"][0]
    entry = row["scores"]["grid_f1"]
    assert entry["ours"] == {"mean": 0.31, "spread": 0.01, "trials": 3}
    assert entry["theirs"] == {"mean": 0.61, "spread": 0.06}
    assert entry["verdict"] == "worse"
    assert (row["capped"], row["collapsed"]) == (1, 0)
    assert {"torch", "eastward", "python"} <= set(three_trials["versions"])


def test_claims_say_which_rows_predict_one_class(three_trials):
    claims = three_trials["panels"][0]["claims"]
    recall = next(c for c in claims if c["names"] == ["f2_btg", "f1_btg"])
    assert recall["verdict"] == "worse"
    assert recall["ours"]["pairs"] == 3
    assert recall["collapsed"] == ["F2* predicts one class in 3 of 3 trials"]
    text = markdown(three_trials)
    assert "F2* predicts one class in 3 of 3 trials: that is the finding." in text
    assert "| F1* | 0.310 ± 0.010 (paper 0.61 ± 0.06 ▼)" in text


@pytest.mark.parametrize(
    ("panel", "rival", "score", "word"),
    [(0, "f1_adversarial", "grid_f1", "unclear"), (-1, "f1_btg", "row_microseconds", "reproduced")],
)
def test_a_loss_that_was_cut_short_is_judged_by_its_time_alone(panel, rival, score, word, tmp_path):
    table = get("btg-table1")
    chosen = table.panels[panel]
    run = Run("cpu", tmp_path, trials=3)
    for method in ("f1_btg", "f1_adversarial"):
        for trial in range(3):
            value = 0.9 if (method == "f1_btg") == (score == "grid_f1") else 0.1
            (point,) = grid_points(run.effort(chosen, method))
            result = {
                "valid_loss": 0.5,
                "epochs": 10,
                "seconds": 1.0,
                "wall": 1.0,
                "capped": method == "f1_adversarial",
                "scores": dict.fromkeys((*chosen.scores, score), value + 0.01 * trial),
            }
            run.book.add(run.cell(chosen, method, point, trial), result)
    claims = summarise(table, run, command="")["panels"][panel]["claims"]
    found = next(c for c in claims if c["column"] == score and c["names"][1] == rival)
    assert found["verdict"] == word
    assert bool(found["cut_short"]) == (word == "unclear")


def test_nothing_run_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="Run it first"):
        summarise(get("btg-table4"), Run("cpu", tmp_path), command="")


def test_a_wrong_name_or_scale_is_explained():
    with pytest.raises(ValueError, match="Did you mean 'btg-table1'"):
        get("btg-tabel1")
    panel = replace(get("btg-table4").panels[0], claims=(Claim("f1_btg", "f2_btg", "grid_f1"),))
    with pytest.raises(ValueError, match="scale of effort_for must be one of"):
        effort_for("huge", panel, "f1_btg")
