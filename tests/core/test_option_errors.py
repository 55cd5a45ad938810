"""Every mistake in an option has its own sentence: argument of function must be ...; got .... What to do."""

from __future__ import annotations

import pytest
import torch
from error_sentence import assert_error

import eastward as ew
from eastward.annealing import (
    PlateauCooling,
    constant_schedule,
    cosine_schedule,
    geometric_schedule,
    linear_schedule,
)
from eastward.ranking import grid_counts, threshold_grid

LOGITS = torch.zeros(4, 3)
TARGETS = torch.tensor([0, 1, 2, 0])
MATRIX = torch.tensor([[3.0, 1.0], [2.0, 4.0]])
THREE = torch.eye(3)
NAN, INF = float("nan"), float("inf")


def with_entry(tensor, value):
    changed = tensor.clone()
    changed.view(-1)[0] = value
    return changed


def loss(**options):
    return lambda: ew.metric_loss(LOGITS, TARGETS, **options)


def call(*given, **options):
    return lambda: ew.metric_loss(*given, **options)


PAIRS = [(torch.randn(4, 2), TARGETS)]


def exact(model=None, batches=PAIRS, **options):
    return lambda: ew.exact_backward(ew.EASTLoss(**options), model, batches)


def frozen():
    return torch.nn.Linear(2, 3).requires_grad_(requires_grad=False)


ERRORS = {
    # what cannot be computed with
    "a process group that is none": (
        lambda: ew.EASTLoss(process_group=3),
        TypeError,
        r"process_group of EASTLoss must be 'auto', None, or a .*ProcessGroup; got int 3",
    ),
    "an ignored label beyond all integers": (
        lambda: ew.EASTLoss(ignore_index=10**30),
        ValueError,
        r"ignore_index of EASTLoss must be a 64-bit integer; got 1000",
    ),
    "logits without columns": (
        call(torch.zeros(4, 0), TARGETS),
        ValueError,
        r"logits of metric_loss must be of shape \(N, C\) with at least one column; got",
    ),
    "sparse logits": (
        call(LOGITS.to_sparse(), TARGETS),
        TypeError,
        r"logits of metric_loss must be a dense tensor; got a tensor of layout torch\.sparse_coo",
    ),
    "nested logits": (
        call(torch.nested.nested_tensor([LOGITS], layout=torch.jagged), TARGETS),
        TypeError,
        r"logits of metric_loss must be a dense tensor; got a nested tensor",
    ),
    "logits without values": (
        call(LOGITS.to("meta"), TARGETS.to("meta")),
        ValueError,
        r"logits of metric_loss must be a tensor with values; got one on the meta device",
    ),
    "complex targets": (
        call(LOGITS, TARGETS.to(torch.complex64)),
        TypeError,
        r"targets of metric_loss must be real numbers; got .*complex64",
    ),
    "complex indicators": (
        call(LOGITS, torch.zeros(4, 3, dtype=torch.complex64), multilabel=True),
        TypeError,
        r"targets of metric_loss must be real numbers; got .*complex64",
    ),
    "a word for a truth value": (
        lambda: ew.EASTLoss(multilabel="no"),
        TypeError,
        r"multilabel of EASTLoss must be True or False; got str 'no'",
    ),
    "a word for a truth value in the function": (
        loss(multilabel="no"),
        TypeError,
        r"multilabel of metric_loss must be True or False; got str 'no'",
    ),
    "a word for a truth value in a ranking loss": (
        lambda: ew.AUROCLoss(multilabel="no"),
        TypeError,
        r"multilabel of AUROCLoss must be True or False; got str 'no'",
    ),
    "a falling sigmoid": (
        lambda: ew.sigmoid_step(torch.rand(3), 0.5, k=-1),
        ValueError,
        r"k of sigmoid_step must be > 0; got -1",
    ),
    "a threshold that is no probability": (
        lambda: ew.heaviside(torch.rand(3), 1.5),
        ValueError,
        r"tau of heaviside must be in \[0, 1\]; got 1\.5",
    ),
    "thresholds of which one is no probability": (
        lambda: ew.heaviside(torch.rand(3), torch.tensor([0.1, 0.2, -0.5])),
        ValueError,
        r"tau of heaviside must be in \[0, 1\]; got \[0\.1",
    ),
    "no model": (
        exact(),
        TypeError,
        r"model of exact_backward must be a module or a function .*; got NoneType None",
    ),
    "a frozen model": (
        exact(frozen()),
        ValueError,
        r"model of exact_backward must be trainable; got one without trainable parameters",
    ),
    "a function of frozen logits": (
        exact(lambda inputs: frozen()(2 * inputs)),
        ValueError,
        r"model of exact_backward must be trainable; got one whose logits have no gradient",
    ),
    "a step without a gradient": (
        exact(torch.nn.Linear(2, 3), step="hard"),
        ValueError,
        r"loss of exact_backward must be differentiable; got one with step='hard'",
    ),
    "batches that are no pairs": (
        exact(torch.nn.Linear(2, 3), [torch.randn(4, 2)]),
        TypeError,
        r"micro_batches of exact_backward must be pairs .*; got Tensor|got a tensor",
    ),
    "a tensor for batches": (
        exact(torch.nn.Linear(2, 3), torch.randn(4, 2)),
        TypeError,
        r"micro_batches of exact_backward must be pairs .*; got a tensor",
    ),
    # prior
    "a prior of another length": (
        loss(prior=[0.5, 0.5]),
        ValueError,
        r"prior of .* must be of length 3, one entry per class; got",
    ),
    "a prior of another length in the module": (
        lambda: ew.EASTLoss(prior=[0.5, 0.5])(LOGITS, TARGETS),
        ValueError,
        r"prior of .* must be of length 3, one entry per class; got",
    ),
    "a prior that sums to something else": (
        lambda: ew.EASTLoss(prior=[0.5, 0.2, 0.2]),
        ValueError,
        r"prior of EASTLoss must be a distribution that sums to 1; got sum 0\.9\. Divide",
    ),
    "a negative prior": (
        lambda: ew.EASTLoss(prior=[1.5, -0.5, 0.0]),
        ValueError,
        r"prior of EASTLoss must be made of numbers in \[0, 1\]; got",
    ),
    "a prior of words": (
        lambda: ew.EASTLoss(prior=["a", "b"]),
        TypeError,
        r"prior of EASTLoss must be one number per class; got list",
    ),
    "a prior that is one number": (
        lambda: ew.EASTLoss(prior=0.5),
        TypeError,
        r"prior of EASTLoss must be one number per class; got float 0\.5",
    ),
    # temperature and threshold
    "temperature zero": (
        loss(temperature=0),
        ValueError,
        r"temperature of metric_loss must be in \(0, 0\.4\]; got 0\.",
    ),
    "temperature above 0.4": (
        lambda: ew.EASTLoss(temperature=0.5),
        ValueError,
        r"temperature of EASTLoss must be in \(0, 0\.4\]; got 0\.5\. Start at 0\.2",
    ),
    "temperature below zero": (
        lambda: ew.heaviside(torch.rand(3), 0.5, -0.1),
        ValueError,
        r"temperature of heaviside must be in \(0, 0\.4\]; got -0\.1",
    ),
    "temperature tensor out of range": (
        lambda: ew.heaviside(torch.rand(2), 0.5, torch.tensor([0.1, 0.6])),
        ValueError,
        r"temperature of heaviside must be in \(0, 0\.4\]; got \[0\.1",
    ),
    "NaN temperature": (
        loss(temperature=NAN),
        ValueError,
        r"temperature of metric_loss must be finite; got nan",
    ),
    "temperature in words": (
        loss(temperature="hot"),
        TypeError,
        r"temperature of metric_loss must be a real number; got str 'hot'",
    ),
    "temperature of soft_memberships": (
        lambda: ew.soft_memberships(torch.rand(2, 2), 0.41),
        ValueError,
        r"temperature of soft_memberships must be in \(0, 0\.4\]; got 0\.41",
    ),
    "threshold zero": (
        loss(threshold=0.0),
        ValueError,
        r"threshold of metric_loss must be strictly between 0 and 1; got 0\.0",
    ),
    "threshold one": (
        lambda: ew.EASTLoss(threshold=1),
        ValueError,
        r"threshold of EASTLoss must be strictly between 0 and 1; got 1\.",
    ),
    "a grid that leaves (0, 1)": (
        loss(threshold=[0.1, 1.2]),
        ValueError,
        r"threshold of metric_loss must be strictly between 0 and 1; got 1\.2",
    ),
    "an empty grid": (
        loss(threshold=[]),
        ValueError,
        r"threshold of metric_loss must be a non-empty sequence; got an empty one",
    ),
    "an unknown threshold": (
        loss(threshold="top3"),
        ValueError,
        r"threshold of metric_loss must be one of 'top2', .*; got str 'top3'.*Did you mean 'top2'\?",
    ),
    "a threshold of no kind": (
        loss(threshold=None),
        TypeError,
        r"threshold of metric_loss must be 'top2', a number in \(0, 1\), or a sequence.*; got NoneType None",
    ),
    # beta and cost
    "beta zero": (
        lambda: ew.metrics.f_beta(MATRIX, 0),
        ValueError,
        r"beta of f_beta must be .*> 0.*; got",
    ),
    "beta below zero for one class": (
        lambda: ew.metrics.f_beta(MATRIX, {1: -2.0}),
        ValueError,
        r"beta of f_beta must be .*> 0.*; got",
    ),
    "beta in a name": (
        lambda: ew.metrics.get("f0_macro"),
        ValueError,
        r"beta of metrics\.get must be .*> 0.*; got",
    ),
    "too few betas": (
        lambda: ew.metrics.f_beta(THREE, [1.0, 2.0]),
        ValueError,
        r"beta of f_beta must be .*3.*; got",
    ),
    "beta for an unknown class": (
        lambda: ew.metrics.f_beta(MATRIX, {5: 2.0}),
        ValueError,
        r"beta of f_beta must be a mapping whose keys are class indices in \[0, 2\); got key 5",
    ),
    "betas for a micro average": (
        lambda: ew.metrics.f_beta(MATRIX, [1.0, 2.0], "micro"),
        ValueError,
        r"beta of f_beta must be one number when average='micro'; got 2 numbers",
    ),
    "a cost that is not d x d": (
        lambda: ew.metrics.expected_cost(THREE, [[0, 1], [1, 0]]),
        ValueError,
        r"cost of expected_cost must be of shape \(3, 3\): rows true, columns predicted; got .*\(2, 2\)",
    ),
    "a cost of another size in a loss": (
        loss(metric=ew.metrics.get("expected_cost", cost=[[0, 1], [1, 0]])),
        ValueError,
        r"cost of expected_cost must be of shape \(3, 3\)",
    ),
    "an infinite cost": (
        lambda: ew.metrics.expected_cost(MATRIX, [[0, INF], [1, 0]]),
        ValueError,
        r"cost of expected_cost must be finite; got NaN or infinite entries",
    ),
    "a cost of words": (
        lambda: ew.metrics.expected_cost(MATRIX, "cheap"),
        TypeError,
        r"cost of expected_cost must be a square table of numbers; got str 'cheap'",
    ),
    "no cost at all": (
        lambda: ew.EASTLoss("expected_cost"),
        ValueError,
        r"cost of metrics\.get must be given for 'expected_cost'; got nothing.*cost=\[\[0, 1\], \[5, 0\]\]",
    ),
    # metrics
    "a misspelt metric": (
        lambda: ew.EASTLoss("f1_makro"),
        ValueError,
        r"metric of EASTLoss must be a known name.*; got str 'f1_makro'\. Did you mean 'f1_macro'",
    ),
    "a metric by its other name": (
        lambda: ew.metrics.get("mcc"),
        ValueError,
        r"Did you mean 'matthews_corrcoef'\?",
    ),
    "a ranking metric": (
        lambda: ew.metrics.get("roc_auc"),
        ValueError,
        r"got str 'roc_auc'\. It judges an order of rows.*Choose balanced_accuracy.*eastward\.AUROCLoss in Python",
    ),
    "the area under precision and recall": (
        lambda: ew.metrics.get("average_precision"),
        ValueError,
        r"eastward\.AveragePrecisionLoss in Python",
    ),
    "a metric of probabilities": (
        lambda: ew.metrics.get("neg_log_loss"),
        ValueError,
        r"It judges probabilities.*`eastward compare` shows the log-loss",
    ),
    "a metric of labels": (
        lambda: ew.EASTLoss(lambda y_true, y_pred: y_true),
        TypeError,
        r"takes a confusion matrix .*; got <lambda>, which takes 2 arguments",
    ),
    "a metric of no kind": (
        lambda: ew.EASTLoss(3),
        TypeError,
        r"metric of EASTLoss must be a name, or a callable .*; got int 3",
    ),
    "an unknown option of a metric": (
        lambda: ew.metrics.get("f1_macro", betta=2),
        TypeError,
        r"'f1_macro' of metrics\.get must be without the option 'betta'",
    ),
    "a callable that returns a vector": (
        loss(metric=lambda confusion: confusion.sum(0)),
        TypeError,
        r"the result of <lambda> must be a 0-d tensor; got a tensor of shape \(3,\).*\.mean\(\)",
    ),
    "a callable that returns a number": (
        loss(metric=lambda confusion: 0.5),
        TypeError,
        r"the result of <lambda> must be a 0-d tensor; got float 0\.5",
    ),
    "a callable that breaks the graph": (
        lambda: ew.metric_loss(
            LOGITS.clone().requires_grad_(), TARGETS, lambda c: torch.tensor(c.sum().item())
        ),
        ValueError,
        r"the result of <lambda> must be differentiable; got a tensor cut off from the graph.*no \.item\(\)",
    ),
    "a callable that detaches": (
        lambda: ew.metric_loss(
            LOGITS.clone().requires_grad_(), TARGETS, lambda c: c.detach().mean()
        ),
        ValueError,
        r"the result of <lambda> must be differentiable",
    ),
    "a positive class among three": (
        loss(metric="f1"),
        ValueError,
        r"average of .* must be other than 'binary' here; got 3 classes\. Use 'macro'",
    ),
    "a positive class among labels": (
        lambda: ew.EASTLoss("precision", multilabel=True)(LOGITS, torch.zeros(4, 3)),
        ValueError,
        r"average of precision must be other than 'binary' here; got 3 independent labels",
    ),
    "a matrix metric of labels": (
        lambda: ew.EASTLoss("cohen_kappa_linear", multilabel=True)(LOGITS, torch.zeros(4, 3)),
        ValueError,
        r"confusion of cohen_kappa must be a \(C, C\) matrix; got one-vs-rest Counts",
    ),
    "an unknown average": (
        lambda: ew.metrics.f1(MATRIX, "makro"),
        ValueError,
        r"average of .* must be one of 'binary', 'macro'.*; got str 'makro'.*Did you mean 'macro'",
    ),
    "an unknown policy": (
        lambda: ew.EASTLoss(absent="skipp"),
        ValueError,
        r"absent of EASTLoss must be one of .*; got str 'skipp'.*Did you mean 'skip'",
    ),
    "unknown weights of kappa": (
        lambda: ew.metrics.cohen_kappa(MATRIX, "cubic"),
        ValueError,
        r"weights of cohen_kappa must be one of 'linear', 'quadratic', or None; got str 'cubic'",
    ),
    # other arguments
    "an unknown step": (
        loss(step="lineer"),
        ValueError,
        r"step of metric_loss must be one of .*; got str 'lineer'.*Did you mean 'linear'",
    ),
    "a step of no kind": (
        lambda: ew.EASTLoss(step=3),
        TypeError,
        r"step of EASTLoss must be one of .*callable.*; got int 3",
    ),
    "a running decay of one": (
        lambda: ew.EASTLoss(running=1.0),
        ValueError,
        r"running of EASTLoss must be in \[0, 1\); got 1\.0.*0\.9",
    ),
    "an ignore_index in words": (
        lambda: ew.EASTLoss(ignore_index="void"),
        TypeError,
        r"ignore_index of EASTLoss must be an integer or None; got str 'void'",
    ),
    "an unknown process group": (
        lambda: ew.EASTLoss(process_group="all"),
        ValueError,
        r"process_group of EASTLoss must be one of 'auto'.*; got str 'all'",
    ),
    "no thresholds": (
        lambda: threshold_grid(0),
        ValueError,
        r"thresholds of .* must be a number from 1 to 10,000; got 0",
    ),
    "a ranking grid of top2": (
        lambda: ew.AUROCLoss(thresholds="top2"),
        TypeError,
        r"thresholds of AUROCLoss must be a count or numbers in \(0, 1\); got str 'top2'",
    ),
    "a temperature of grid_counts": (
        lambda: grid_counts(torch.rand(2, 1), torch.zeros(2, 1), temperature=1.0),
        ValueError,
        r"temperature of grid_counts must be in \(0, 0\.4\]; got 1\.0",
    ),
    # schedules
    "a hot start": (
        lambda: geometric_schedule(0.5),
        ValueError,
        r"start of geometric_schedule must be in \(0, 0\.4\]; got 0\.5",
    ),
    "a rate of one": (
        lambda: geometric_schedule(0.2, 1.0),
        ValueError,
        r"rate of geometric_schedule must be strictly between 0 and 1; got 1\.0",
    ),
    "a hot end": (
        lambda: linear_schedule(0.2, 0.5, steps=3),
        ValueError,
        r"end of linear_schedule must be in \(0, 0\.4\]; got 0\.5",
    ),
    "no steps": (
        lambda: cosine_schedule(steps=0),
        ValueError,
        r"steps of cosine_schedule must be at least 1; got 0",
    ),
    "a hot constant": (
        lambda: constant_schedule(1),
        ValueError,
        r"value of constant_schedule must be in \(0, 0\.4\]; got 1",
    ),
    "no patience": (
        lambda: PlateauCooling(patience=0),
        ValueError,
        r"patience of PlateauCooling must be >= 1; got 0",
    ),
    "a state of something else": (
        lambda: PlateauCooling().load_state_dict({"best": 1.0}),
        ValueError,
        r"state of .*load_state_dict must be a dict with .*; got",
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("mistake", ERRORS)
def test_a_mistake_is_named_with_what_was_expected_and_what_came(mistake):
    assert_error(*ERRORS[mistake])


def test_assigning_a_temperature_is_checked_like_constructing_with_one():
    loss = ew.EASTLoss()
    with pytest.raises(
        ValueError, match=r"temperature of EASTLoss must be in \(0, 0\.4\]; got 0\.9"
    ):
        loss.temperature = 0.9
    with pytest.raises(ValueError, match=r"temperature of AUROCLoss must be in \(0, 0\.4\]; got 0"):
        ew.AUROCLoss().temperature = 0
    assert loss.temperature.item() == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("name", "advice"),
    [("matthews_corrcoef", "It takes none."), ("f_beta", "It takes beta, ")],
)
def test_an_option_that_a_metric_lacks_is_answered_with_those_it_has(name, advice):
    with pytest.raises(TypeError, match=advice):
        ew.metrics.get(name, zzz=1)
