"""Bad calls of the public functions: each is refused by one sentence that names the argument and the function.

A row is a call and how its message begins; the rest of the sentence is "must be ...; got ...".
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refused_calls import assert_refused

import eastward as ew
from eastward import boosting, decisions

CALLS = """
ew.heaviside(torch.rand(3), 1.5, 0.2) ==> tau of heaviside
ew.heaviside(torch.rand(3), -0.1, 0.2) ==> tau of heaviside
ew.heaviside(torch.rand(3), 0.5, 0.0) ==> temperature of heaviside
ew.heaviside(torch.rand(3), 0.5, 0.5) ==> temperature of heaviside
ew.heaviside(torch.rand(3), 0.5, float("nan")) ==> temperature of heaviside
ew.heaviside(torch.rand(3), 0.5, "warm") ==> temperature of heaviside
ew.heaviside(torch.rand(3), None, 0.2) ==> tau of heaviside
ew.heaviside(None, 0.5, 0.2) ==> p of heaviside
ew.sigmoid_step(torch.rand(3), 0.5, k=-1) ==> k of sigmoid_step
ew.sigmoid_step(torch.rand(3), 0.5, k=0) ==> k of sigmoid_step
ew.sigmoid_step(torch.rand(3), 0.5, k=float("inf")) ==> k of sigmoid_step
ew.sigmoid_step(torch.rand(3), 0.5, k="ten") ==> k of sigmoid_step
ew.sigmoid_step(torch.rand(3), 2.0) ==> tau of sigmoid_step
ew.btg_step(torch.rand(3), 0.5, delta=0.9) ==> delta of btg_step
ew.btg_step(torch.rand(3), 0.5, delta=-0.1) ==> delta of btg_step
ew.btg_step(torch.rand(3), 1.5) ==> tau of btg_step
ew.hard_step(None, 0.5) ==> p of hard_step
ew.soft_memberships(P, 0.5) ==> temperature of soft_memberships
ew.soft_memberships(P, 0.0) ==> temperature of soft_memberships
ew.soft_memberships(P, -1) ==> temperature of soft_memberships
ew.soft_memberships(P, None) ==> temperature of soft_memberships
ew.soft_memberships(P, threshold="top3") ==> threshold of soft_memberships
ew.soft_memberships(P, threshold=1.5) ==> threshold of soft_memberships
ew.soft_memberships(P, threshold=[]) ==> threshold of soft_memberships
ew.soft_memberships(P, step="cubic") ==> step of soft_memberships
ew.soft_memberships(P, step=3) ==> step of soft_memberships
ew.soft_memberships(P * 2) ==> probabilities of soft_memberships
ew.soft_memberships(-P) ==> probabilities of soft_memberships
ew.soft_memberships(P * float("nan")) ==> probabilities of soft_memberships
ew.soft_memberships(P[0]) ==> probabilities of soft_memberships
ew.soft_memberships(None) ==> probabilities of soft_memberships
ew.soft_memberships([[0.5, 0.5]]) ==> probabilities of soft_memberships
ew.soft_memberships(torch.ones(4, 3, dtype=torch.long)) ==> probabilities of soft_memberships
ew.soft_confusion(P, None) ==> targets of soft_confusion
ew.soft_confusion(P, torch.tensor([0, 1])) ==> targets of soft_confusion
ew.soft_confusion(P, torch.tensor([0, 1, 2, 9])) ==> targets of soft_confusion
ew.soft_confusion(P, torch.tensor([0, 1, 2, -5])) ==> targets of soft_confusion
ew.soft_confusion(P, torch.tensor([0.5, 1, 2, 0])) ==> targets of soft_confusion
ew.soft_confusion(P, Y3, num_classes=7) ==> num_classes of soft_confusion
ew.soft_confusion(P, Y3, sample_weight=torch.ones(3)) ==> sample_weight of soft_confusion
ew.soft_confusion(P, Y3, sample_weight=-torch.ones(4)) ==> sample_weight of soft_confusion
ew.soft_confusion(P, Y3, sample_weight=torch.full((4,), float("nan"))) ==> sample_weight of soft_confusion
ew.soft_confusion(P, Y3, prior=[0.5, 0.5]) ==> prior of soft_confusion
ew.soft_confusion(P, Y3, prior=[0.5, 0.5, 0.5]) ==> prior of soft_confusion
ew.soft_confusion(P, Y3, prior=[-0.5, 1.0, 0.5]) ==> prior of soft_confusion
ew.soft_confusion(P, Y3, prior="uniform") ==> prior of soft_confusion
ew.soft_confusion(P, Y3, ignore_index=1.5) ==> ignore_index of soft_confusion
ew.soft_confusion(P, Y3, ignore_index="none") ==> ignore_index of soft_confusion
ew.soft_counts(P, torch.tensor([0, 1, 2, 9])) ==> targets of soft_counts
ew.soft_counts(None, Y3) ==> memberships of soft_counts
ew.multilabel_counts(torch.rand(4, 3), torch.zeros(4, 2)) ==> targets of multilabel_counts
ew.multilabel_counts(torch.rand(4), torch.zeros(4)) ==> targets of multilabel_counts
ew.multilabel_counts(torch.rand(4, 3), torch.full((4, 3), 2.0)) ==> targets of multilabel_counts
ew.multilabel_counts(torch.rand(4, 3), None) ==> targets of multilabel_counts
ew.multilabel_counts(P, torch.zeros(4, 3), sample_weight=torch.ones(2)) ==> sample_weight of multilabel_counts
ew.EASTLoss("f7_makro") ==> metric of EASTLoss
ew.EASTLoss("roc_auc") ==> metric of EASTLoss
ew.EASTLoss("neg_log_loss") ==> metric of EASTLoss
ew.EASTLoss(None) ==> metric of EASTLoss
ew.EASTLoss(3) ==> metric of EASTLoss
ew.EASTLoss(temperature=0) ==> temperature of EASTLoss
ew.EASTLoss(temperature=0.5) ==> temperature of EASTLoss
ew.EASTLoss(temperature=-0.1) ==> temperature of EASTLoss
ew.EASTLoss(temperature=float("nan")) ==> temperature of EASTLoss
ew.EASTLoss(temperature="cold") ==> temperature of EASTLoss
ew.EASTLoss(temperature=None) ==> temperature of EASTLoss
ew.EASTLoss(temperature=torch.tensor([0.1, 0.2])) ==> temperature of EASTLoss
ew.EASTLoss(temperature=1e-320) ==> temperature of EASTLoss
ew.EASTLoss(threshold="top3") ==> threshold of EASTLoss
ew.EASTLoss(threshold=0.0) ==> threshold of EASTLoss
ew.EASTLoss(threshold=1.0) ==> threshold of EASTLoss
ew.EASTLoss(threshold=[0.5, 2.0]) ==> threshold of EASTLoss
ew.EASTLoss(threshold=[]) ==> threshold of EASTLoss
ew.EASTLoss(threshold=None) ==> threshold of EASTLoss
ew.EASTLoss(step="cubic") ==> step of EASTLoss
ew.EASTLoss(step=None) ==> step of EASTLoss
ew.EASTLoss(detach_threshold="yes") ==> detach_threshold of EASTLoss
ew.EASTLoss(prior=[0.5, 0.6]) ==> prior of EASTLoss
ew.EASTLoss(prior=[0.0, 0.0]) ==> prior of EASTLoss
ew.EASTLoss(prior=[-1.0, 2.0]) ==> prior of EASTLoss
ew.EASTLoss(prior="uniform") ==> prior of EASTLoss
ew.EASTLoss(prior=[[0.5, 0.5]]) ==> prior of EASTLoss
ew.EASTLoss(running=1.0) ==> running of EASTLoss
ew.EASTLoss(running=-0.1) ==> running of EASTLoss
ew.EASTLoss(running="yes") ==> running of EASTLoss
ew.EASTLoss(absent="ignore") ==> absent of EASTLoss
ew.EASTLoss(absent=3) ==> absent of EASTLoss
ew.EASTLoss(ew.metrics.get("f1_macro", absent="x")) ==> absent of EASTLoss
ew.EASTLoss(multilabel="no") ==> multilabel of EASTLoss
ew.EASTLoss(multilabel=1) ==> multilabel of EASTLoss
ew.EASTLoss(ignore_index=1.5) ==> ignore_index of EASTLoss
ew.EASTLoss(ignore_index=10**30) ==> ignore_index of EASTLoss
ew.EASTLoss(ignore_index="255") ==> ignore_index of EASTLoss
ew.EASTLoss(process_group=3) ==> process_group of EASTLoss
ew.EASTLoss(process_group="all") ==> process_group of EASTLoss
ew.EASTLoss(check_inputs=None) ==> check_inputs of EASTLoss
ew.EASTLoss()(None, Y3) ==> logits of EASTLoss
ew.EASTLoss()(Z, None) ==> targets of EASTLoss
ew.EASTLoss()(Z.numpy(), Y3) ==> logits of EASTLoss
ew.EASTLoss()(Z, Y3.numpy()) ==> targets of EASTLoss
ew.EASTLoss()(Z.long(), Y3) ==> logits of EASTLoss
ew.EASTLoss()(Z, Y3[:2]) ==> targets of EASTLoss
ew.EASTLoss()(Z, torch.tensor([0, 1, 2, 3])) ==> targets of EASTLoss
ew.EASTLoss()(Z, torch.tensor([0, 1, 2, -1])) ==> targets of EASTLoss
ew.EASTLoss()(Z, Y3.float() + 0.5) ==> targets of EASTLoss
ew.EASTLoss()(Z * float("nan"), Y3) ==> logits of EASTLoss
ew.EASTLoss()(Z * float("inf"), Y3) ==> logits of EASTLoss
ew.EASTLoss()(Z[:, :0], Y3) ==> logits of EASTLoss
ew.EASTLoss()(torch.tensor(1.0), torch.tensor(1)) ==> logits of EASTLoss
ew.EASTLoss()(Z.to_sparse(), Y3) ==> logits of EASTLoss
ew.EASTLoss()(Z.to("meta"), Y3.to("meta")) ==> logits of EASTLoss
ew.EASTLoss()(Z, Y3.to("meta")) ==> targets of EASTLoss
ew.EASTLoss()(Z, Y3.to(torch.complex64)) ==> targets of EASTLoss
ew.EASTLoss()(Z.to(torch.complex64), Y3) ==> logits of EASTLoss
ew.EASTLoss()(Z, Y3, torch.ones(3)) ==> sample_weight of EASTLoss
ew.EASTLoss()(Z, Y3, -torch.ones(4)) ==> sample_weight of EASTLoss
ew.EASTLoss()(Z, Y3, torch.full((4,), float("inf"))) ==> sample_weight of EASTLoss
ew.EASTLoss()(Z, Y3, [1, 1, 1, 1]) ==> sample_weight of EASTLoss
ew.EASTLoss()(Z, Y3, "heavy") ==> sample_weight of EASTLoss
ew.EASTLoss("f1")(Z, Y3) ==> average of f_beta
ew.EASTLoss("precision")(Z, Y3) ==> average of precision
ew.EASTLoss(multilabel=True)(Z, Y3) ==> targets of EASTLoss
ew.EASTLoss(multilabel=True)(Z, torch.full((4, 3), 2)) ==> targets of EASTLoss
ew.EASTLoss("cohen_kappa_quadratic", multilabel=True)(Z, torch.ones(4, 3)) ==> confusion of cohen_kappa
ew.EASTLoss(prior=[0.5, 0.5])(Z, Y3) ==> prior of EASTLoss
ew.EASTLoss(prior=[0.5, 0.5], step="sigmoid")(Z, Y3) ==> prior of EASTLoss
ew.EASTLoss(prior=[0.5, 0.5], subject_to="recall[1] >= 0.5")(Z, Y3) ==> prior of EASTLoss
ew.EASTLoss(prior=[0.5, 0.5], multilabel=True)(Z, torch.ones(4, 3)) ==> prior of EASTLoss
ew.EASTLoss(prior=[0.2, 0.3, 0.5])(Z[:, :1], Y3 % 2) ==> prior of EASTLoss
ew.metric_loss(Z, Y3, prior=[0.5, 0.5]) ==> prior of metric_loss
ew.EASTLoss(lambda c: None)(Z, Y3) ==> the result of <lambda>
ew.EASTLoss(lambda c: 0.5)(Z, Y3) ==> the result of <lambda>
ew.EASTLoss(lambda c: c)(Z, Y3) ==> the result of <lambda>
ew.EASTLoss(lambda c: c.sum().item())(Z, Y3) ==> the result of <lambda>
ew.EASTLoss(lambda c: torch.tensor(0.5))(Z.requires_grad_(), Y3) ==> the result of <lambda>
setattr(ew.EASTLoss(), "temperature", 0) ==> temperature of EASTLoss
setattr(ew.EASTLoss(), "temperature", "cold") ==> temperature of EASTLoss
ew.metric_loss(Z, Y3, "f7") ==> average of f_beta
ew.metric_loss(Z, Y3, temperature=0.9) ==> temperature of metric_loss
ew.metric_loss(Z, Y3, temperature=torch.tensor(0.0)) ==> temperature of metric_loss
ew.metric_loss(Z, Y3, threshold="x") ==> threshold of metric_loss
ew.metric_loss(Z, Y3, multilabel=None) ==> multilabel of metric_loss
ew.metric_loss(Z, Y3, reduce=3) ==> reduce of metric_loss
ew.metric_loss(Z, Y3, absent="maybe") ==> absent of metric_loss
ew.metric_loss(Z, Y3, prior=[1, 2, 3]) ==> prior of metric_loss
ew.AUROCLoss(thresholds=0) ==> thresholds of AUROCLoss
ew.AUROCLoss(thresholds="many") ==> thresholds of AUROCLoss
ew.AUROCLoss(thresholds=None) ==> thresholds of AUROCLoss
ew.AUROCLoss(thresholds=True) ==> thresholds of AUROCLoss
ew.AUROCLoss(temperature=0.9) ==> temperature of AUROCLoss
ew.AUROCLoss(multilabel="x") ==> multilabel of AUROCLoss
ew.AUROCLoss()(None, Y3) ==> logits of AUROCLoss
ew.AUROCLoss()(Z, torch.tensor([0, 1, 2, 9])) ==> targets of AUROCLoss
ew.AveragePrecisionLoss(thresholds=-1) ==> thresholds of AveragePrecisionLoss
ew.AveragePrecisionLoss(thresholds=[]) ==> thresholds of AveragePrecisionLoss
ew.AveragePrecisionLoss(thresholds=[2.0]) ==> thresholds of AveragePrecisionLoss
ew.AveragePrecisionLoss()(Z, None) ==> targets of AveragePrecisionLoss
ew.exact_backward(None, LIN, [(X4, Y3)]) ==> loss of exact_backward
ew.exact_backward(ew.EASTLoss(), None, [(X4, Y3)]) ==> model of exact_backward
ew.exact_backward(ew.EASTLoss(), "net", [(X4, Y3)]) ==> model of exact_backward
ew.exact_backward(ew.EASTLoss(), LIN, None) ==> micro_batches of exact_backward
ew.exact_backward(ew.EASTLoss(), LIN, "ab") ==> micro_batches of exact_backward
ew.exact_backward(ew.EASTLoss(), LIN, []) ==> micro_batches of exact_backward
ew.exact_backward(ew.EASTLoss(), LIN, [X4]) ==> micro_batches of exact_backward
ew.exact_backward(ew.EASTLoss(), LIN, [3]) ==> micro_batches of exact_backward
ew.exact_backward(ew.EASTLoss(), FROZEN, [(X4, Y3)]) ==> model of exact_backward
ew.metrics.get(None) ==> name of metrics.get
ew.metrics.get(3) ==> name of metrics.get
ew.metrics.get("f_beta", beta=-1)(C3) ==> beta of f_beta
ew.metrics.get("f_beta", beta="two")(C3) ==> beta of f_beta
ew.metrics.get("f_beta", beta=[1, 2])(C3) ==> beta of f_beta
ew.metrics.get("f_beta", beta={9: 1.0})(C3) ==> beta of f_beta
ew.metrics.get("f_beta", gamma=2)(C3) ==> 'f_beta' of metrics.get
ew.metrics.get("expected_cost")(C3) ==> cost of metrics.get
ew.metrics.get("expected_cost", cost=[[0, 1]])(C3) ==> cost of expected_cost
ew.metrics.get("expected_cost", cost="high")(C3) ==> cost of expected_cost
ew.metrics.get("expected_cost", cost=[[0, float("nan"), 1]] * 3)(C3) ==> cost of expected_cost
ew.metrics.f_beta(C3, beta=0) ==> beta of f_beta
ew.metrics.f_beta(C3, average="mean") ==> average of f_beta
ew.metrics.f_beta(C3, absent="x") ==> absent of f_beta
ew.metrics.f_beta(C3, average="binary") ==> average of f_beta
ew.metrics.f1(torch.ones(2, 3)) ==> confusion of f_beta
ew.metrics.f1(torch.ones(3)) ==> confusion of f_beta
ew.metrics.f1("matrix") ==> confusion of f_beta
ew.metrics.f1(None) ==> confusion of f_beta
ew.metrics.accuracy(torch.ones(1, 1)) ==> confusion of accuracy
ew.metrics.cohen_kappa(C3, weights="cubic") ==> weights of cohen_kappa
ew.metrics.geometric_mean(C3, absent="x") ==> absent of geometric_mean
ew.metrics.balanced_accuracy(C3, absent=3) ==> absent of balanced_accuracy
ew.annealing.PlateauCooling(None) ==> start of PlateauCooling
ew.annealing.PlateauCooling("warm") ==> start of PlateauCooling
ew.annealing.PlateauCooling(0.9) ==> start of PlateauCooling
ew.annealing.PlateauCooling(rate=1.5) ==> rate of PlateauCooling
ew.annealing.PlateauCooling(patience=-1) ==> patience of PlateauCooling
ew.annealing.PlateauCooling(patience=1.5) ==> patience of PlateauCooling
ew.annealing.PlateauCooling(min_delta=float("nan")) ==> min_delta of PlateauCooling
ew.annealing.PlateauCooling(floor=-1.0) ==> floor of PlateauCooling
ew.annealing.PlateauCooling().step(None) ==> value of PlateauCooling.step
ew.annealing.PlateauCooling().step("low") ==> value of PlateauCooling.step
ew.annealing.geometric_schedule(None) ==> start of geometric_schedule
ew.annealing.geometric_schedule("warm") ==> start of geometric_schedule
ew.annealing.geometric_schedule(0.2, 1.5) ==> rate of geometric_schedule
ew.annealing.geometric_schedule(0.2, 0.0) ==> rate of geometric_schedule
ew.annealing.geometric_schedule(0.2, 0.9)(None) ==> step of a schedule
ew.annealing.geometric_schedule(0.2, 0.9)("k") ==> step of a schedule
ew.annealing.geometric_schedule(0.2, 0.9)(-1) ==> step of a schedule
ew.annealing.linear_schedule(None, steps=3) ==> start of linear_schedule
ew.annealing.linear_schedule("x", steps=3) ==> start of linear_schedule
ew.annealing.linear_schedule(0.2, steps=0) ==> steps of linear_schedule
ew.annealing.linear_schedule(0.2, steps="x") ==> steps of linear_schedule
ew.annealing.cosine_schedule(None, steps=3) ==> start of cosine_schedule
ew.annealing.cosine_schedule(0.2, steps=-3) ==> steps of cosine_schedule
ew.annealing.constant_schedule(None) ==> value of constant_schedule
ew.annealing.constant_schedule(0.9) ==> value of constant_schedule
ew.baselines.FocalLoss(gamma=-1) ==> gamma of FocalLoss
ew.baselines.FocalLoss(gamma="x") ==> gamma of FocalLoss
ew.baselines.FocalLoss()(None, Y3) ==> logits of FocalLoss
ew.baselines.FocalLoss()(Z, torch.tensor([0, 1, 2, 9])) ==> targets of FocalLoss
ew.baselines.DiceLoss()(Z, None) ==> targets of DiceLoss
ew.baselines.DiceLoss(smooth=-1) ==> smooth of DiceLoss
ew.baselines.MAELoss()(Z, Y3[:2]) ==> targets of MAELoss
ew.baselines.SoftFBetaLoss(beta=-1) ==> beta of SoftFBetaLoss
ew.baselines.SoftFBetaLoss(beta="x") ==> beta of SoftFBetaLoss
ew.baselines.SurrogateFBetaLoss(1.0, positive_rate=1.5) ==> positive_rate of SurrogateFBetaLoss
ew.baselines.SurrogateFBetaLoss(-1.0, positive_rate=0.5) ==> beta of SurrogateFBetaLoss
ew.baselines.SurrogateFBetaLoss(1.0, positive_rate=None) ==> positive_rate of SurrogateFBetaLoss
ew.baselines.WilcoxonMannWhitneyLoss(margin=-1) ==> margin of WilcoxonMannWhitneyLoss
ew.baselines.AdversarialFBetaLoss(beta=-1) ==> beta of AdversarialFBetaLoss
ew.tune_decision(None, Y4N) ==> probabilities of tune_decision
ew.tune_decision(P4N, None) ==> targets of tune_decision
ew.tune_decision(P4N, Y4N[:2]) ==> targets of tune_decision
ew.tune_decision(P4N * 3, Y4N) ==> probabilities of tune_decision
ew.tune_decision(-P4N, Y4N) ==> probabilities of tune_decision
ew.tune_decision(P4N[:, :1], Y4N) ==> probabilities of tune_decision
ew.tune_decision(P4N, Y4N + 7) ==> targets of tune_decision
ew.tune_decision(P4N, ["a", "b", "c", "a"], classes=["a", "b"]) ==> targets of tune_decision
ew.tune_decision(P4N, Y4N, metric=3) ==> metric of tune_decision
ew.tune_decision(P4N, Y4N, subject_to="recall[fraud] >= 0.9") ==> subject_to of tune_decision
ew.tune_decision(P4N, Y4N, subject_to="recall[9] >= 0.9") ==> subject_to of tune_decision
ew.tune_decision(P4N, Y4N, subject_to="recall[1] >= 1.9") ==> subject_to of tune_decision
ew.tune_decision(P4N, Y4N, subject_to="recall[1] > 0.9") ==> subject_to of tune_decision
ew.tune_decision(P4N, Y4N, subject_to="recall >= 0.9") ==> subject_to of tune_decision
ew.tune_decision(P4N, Y4N, subject_to="nonsense") ==> subject_to of tune_decision
ew.tune_decision(P4N, Y4N, subject_to=3) ==> subject_to of tune_decision
ew.tune_decision(P4N, Y4N, confidence=1.5) ==> confidence of tune_decision
ew.tune_decision(P4N, Y4N, confidence=0) ==> confidence of tune_decision
ew.tune_decision(P4N, Y4N, abstain_cost=-1) ==> abstain_cost of tune_decision
ew.tune_decision(P4N, Y4N, abstain_cost="x") ==> abstain_cost of tune_decision
ew.tune_decision(P4N, Y4N, sample_weight=[1]) ==> sample_weight of tune_decision
ew.tune_decision(P4N, Y4N, sample_weight=-np.ones(8)) ==> sample_weight of tune_decision
ew.tune_decision(P4N, Y4N, random_state="x") ==> random_state of tune_decision
ew.Decision.from_dict({}) ==> data of Decision.from_dict
ew.Decision.from_dict(None) ==> data of Decision.from_dict
ew.Decision.from_dict({"matrix": "x"}) ==> data of Decision.from_dict
ew.tune_decision(P4N, Y4N).decide(None) ==> probabilities of Decision.decide
ew.tune_decision(P4N, Y4N).decide(P4N[:, :1]) ==> probabilities of Decision.decide
ew.tune_decision(P4N, Y4N).with_prior([0.5]) ==> prior of Decision.with_prior
ew.tune_decision(P4N, Y4N).with_prior([0.9, 0.9]) ==> prior of Decision.with_prior
ew.tune_decision(P4N, Y4N).with_prior("auto") ==> prior of Decision.with_prior
ew.AUROCLoss(thresholds=10**9) ==> thresholds of AUROCLoss
ew.heaviside(torch.rand(3), torch.zeros(0), 0.2) ==> tau of heaviside
ew.heaviside(torch.rand(3), 0.5, torch.full((2, 2), 0.1)) ==> temperature of heaviside
ew.heaviside(P.to_sparse(), 0.5, 0.2) ==> p of heaviside
ew.heaviside(P, 0.5, torch.tensor(0.1j)) ==> temperature of heaviside
ew.heaviside(P, torch.tensor(0.5, device="meta"), 0.2) ==> tau of heaviside
ew.sigmoid_step(P, 0.5, k=torch.ones(7)) ==> k of sigmoid_step
ew.btg_step(P, 0.5, delta=torch.zeros(0)) ==> delta of btg_step
ew.hard_step(P, None) ==> tau of hard_step
ew.hard_step(P, 10**30) ==> tau of hard_step
ew.hard_step(P, [0.5]) ==> tau of hard_step
ew.soft_memberships(P.to_sparse()) ==> probabilities of soft_memberships
ew.soft_memberships(P, torch.full((7,), 0.1)) ==> temperature of soft_memberships
ew.soft_memberships(P, detach_threshold=np.zeros(3)) ==> detach_threshold of soft_memberships
ew.soft_memberships(P, threshold=torch.zeros(2, device="meta")) ==> threshold of soft_memberships
ew.soft_confusion(P, Y3, num_classes=np.zeros(3)) ==> num_classes of soft_confusion
ew.soft_confusion(P, Y3, num_classes="three") ==> num_classes of soft_confusion
ew.soft_confusion(P.to_sparse(), Y3) ==> memberships of soft_confusion
ew.soft_confusion(P.to("meta"), Y3) ==> targets of soft_confusion
ew.soft_confusion(P, Y3, sample_weight=torch.ones(4) * 1j) ==> sample_weight of soft_confusion
ew.soft_counts(P, Y3, ignore_index="none") ==> ignore_index of soft_counts
ew.soft_counts(P, Y3, ignore_index=10**30) ==> ignore_index of soft_counts
ew.multilabel_counts(P, torch.zeros(4, 3).to_sparse()) ==> targets of multilabel_counts
ew.multilabel_counts(P, torch.zeros(4, 3, device="meta")) ==> targets of multilabel_counts
ew.multilabel_counts(P, torch.zeros(4, 3), sample_weight=P[:, 0].to("meta")) ==> sample_weight of multilabel_counts
ew.metric_loss(Z, Y3, detach_threshold="no") ==> detach_threshold of metric_loss
ew.metric_loss(Z, Y3, check_inputs=np.zeros(3)) ==> check_inputs of metric_loss
ew.EASTLoss(subject_to="") ==> subject_to of EASTLoss
ew.EASTLoss(threshold=torch.zeros(2).to_sparse()) ==> threshold of EASTLoss
ew.annealing.constant_schedule(torch.full((3,), 0.1)) ==> value of constant_schedule
ew.annealing.PlateauCooling(torch.tensor(0.1j)) ==> start of PlateauCooling
ew.annealing.PlateauCooling(floor=torch.zeros(0)) ==> floor of PlateauCooling
ew.metrics.get([]) ==> name of metrics.get
ew.metrics.get({}) ==> name of metrics.get
ew.metrics.get("f1", average=np.zeros(3))(C3) ==> average of f_beta
ew.metrics.f1(C3, average=np.zeros(3)) ==> average of f_beta
ew.theory.rows_of_class(10**30, 0.1) ==> batch_size of rows_of_class
ew.theory.batch_for_class(0.1, rows=10**30) ==> rows of batch_for_class
ew.theory.heaviside_lipschitz(0.5, torch.zeros(0)) ==> temperature of heaviside_lipschitz
ew.theory.btg_lipschitz(0.5, torch.zeros(0)) ==> delta of btg_lipschitz
ew.baselines.FocalLoss(check_inputs=np.zeros(3)) ==> check_inputs of FocalLoss
ew.baselines.DiceLoss(squared="yes") ==> squared of DiceLoss
ew.baselines.DiceLoss(per_sample=None) ==> per_sample of DiceLoss
ew.baselines.SurrogateFBetaLoss(balanced="yes") ==> balanced of SurrogateFBetaLoss
ew.baselines.AdversarialFBetaLoss(split="yes") ==> split of AdversarialFBetaLoss
ew.baselines.WilcoxonMannWhitneyLoss(check_inputs=3) ==> check_inputs of WilcoxonMannWhitneyLoss
ew.tune_decision(P4N, Y4N, guard=-1) ==> guard of tune_decision
ew.tune_decision(P4N, Y4N, classes=3) ==> classes of tune_decision
ew.tune_decision(P4N, Y4N, classes=[[1], [2]]) ==> classes of tune_decision
ew.tune_decision(P4N, Y4N, sample_weight="abc") ==> sample_weight of tune_decision
ew.tune_decision(P4N, Y4N, sample_weight=[None]) ==> sample_weight of tune_decision
ew.tune_decision(P4N, Y4N, random_state=10**30) ==> random_state of tune_decision
ew.Decision("abc") ==> matrix of Decision
decisions.decide(None) ==> scores of decide
decisions.decide("x") ==> scores of decide
decisions.decide({}) ==> scores of decide
decisions.decide(10**30) ==> scores of decide
decisions.decide(P4N, "x") ==> offsets of decide
decisions.decide(P4N, [None]) ==> offsets of decide
decisions.decide(P4N, 1j) ==> offsets of decide
decisions.decide(P4N, [1.0]) ==> offsets of decide
decisions.cheapest(None, np.eye(2)) ==> probabilities of cheapest
decisions.cheapest("x", np.eye(2)) ==> probabilities of cheapest
decisions.cheapest(P4N, "x") ==> cost of cheapest
decisions.cheapest(P4N, np.eye(2), "x") ==> abstain_cost of cheapest
decisions.decision_gain(None, Y4N, Y4N, num_classes=2) ==> before of decision_gain
decisions.decision_gain(Y4N[:2], Y4N, Y4N, num_classes=2) ==> before of decision_gain
decisions.decision_gain(Y4N, "x", Y4N, num_classes=2) ==> after of decision_gain
decisions.decision_gain(Y4N, [], Y4N, num_classes=2) ==> after of decision_gain
decisions.decision_gain(Y4N, Y4N, None, num_classes=2) ==> targets of decision_gain
decisions.decision_gain(Y4N, Y4N, Y4N, num_classes=None) ==> num_classes of decision_gain
decisions.decision_gain(Y4N, Y4N, Y4N, num_classes=-1) ==> num_classes of decision_gain
decisions.decision_gain(Y4N, Y4N, Y4N, num_classes=1.5) ==> num_classes of decision_gain
decisions.decision_gain(Y4N, Y4N, Y4N, num_classes=2, n_bootstraps=0) ==> n_bootstraps of decision_gain
decisions.decision_gain(Y4N, Y4N, Y4N, num_classes=2, n_bootstraps=10**30) ==> n_bootstraps of decision_gain
decisions.decision_gain(Y4N, Y4N, Y4N, num_classes=2, sample_weight=[1]) ==> sample_weight of decision_gain
decisions.decision_gain(Y4N, Y4N, Y4N, num_classes=2, sample_weight="x") ==> sample_weight of decision_gain
decisions.decision_gain(Y4N, Y4N, Y4N, num_classes=2, groups=[1]) ==> groups of decision_gain
decisions.decision_gain(Y4N, Y4N, Y4N, num_classes=2, groups="x") ==> groups of decision_gain
decisions.multilabel_thresholds(P4N, None) ==> targets of multilabel_thresholds
decisions.multilabel_thresholds(P4N, "x") ==> targets of multilabel_thresholds
ew.Decision(None) ==> matrix of Decision
ew.Decision(np.eye(2), metric=3) ==> metric of Decision
ew.Decision(np.eye(2), metric="f1") ==> metric of Decision
ew.Decision(np.eye(2), abstain_cost="x") ==> abstain_cost of Decision
ew.Decision(np.eye(2), abstain_cost=-1) ==> abstain_cost of Decision
ew.Decision(np.eye(2), abstain_cost=10**400) ==> abstain_cost of Decision
ew.Decision(np.eye(2), constraints=3) ==> constraints of Decision
ew.Decision(np.eye(2), constraints="recall[1] >= 0.9") ==> constraints of Decision
ew.Decision(np.eye(2), constraints=["recall[1] >= 0.9"]) ==> constraints of Decision
ew.Decision(np.eye(2), reference=3) ==> reference of Decision
ew.Decision(np.eye(2), note=3) ==> note of Decision
ew.Decision(np.eye(2), note=None) ==> note of Decision
decisions.LabelThresholds(None) ==> thresholds of LabelThresholds
decisions.LabelThresholds("x") ==> thresholds of LabelThresholds
decisions.LabelThresholds(0.5) ==> thresholds of LabelThresholds
decisions.LabelThresholds([[0.5]]) ==> thresholds of LabelThresholds
decisions.LabelThresholds([2.0]) ==> thresholds of LabelThresholds
decisions.LabelThresholds([float("nan")]) ==> thresholds of LabelThresholds
decisions.prediction_sets(P4N, Y4N, by_class="x") ==> by_class of prediction_sets
decisions.prediction_sets(P4N, Y4N, by_class=None) ==> by_class of prediction_sets
decisions.estimate_prior(P4N, [0.5, 0.5], 3) ==> classes of estimate_prior
decisions.estimate_prior(P4N, [0.5, 0.5], ["a"]) ==> classes of estimate_prior
decisions.estimate_prior(P4N, [0.5, 0.5], "no, yes") ==> classes of estimate_prior
decisions.rate_bound("x", 3) ==> successes of rate_bound
decisions.rate_bound(None, 3) ==> successes of rate_bound
decisions.rate_bound(-1, 3) ==> successes of rate_bound
decisions.rate_bound(4, 3) ==> successes of rate_bound
decisions.rate_bound(float("nan"), 3) ==> successes of rate_bound
decisions.rate_bound(3, "x") ==> rows of rate_bound
decisions.rate_bound(3, None) ==> rows of rate_bound
decisions.rate_bound(0, -1) ==> rows of rate_bound
decisions.rate_bound(3, 10**400) ==> rows of rate_bound
decisions.rate_bound(1, 3, upper="x") ==> upper of rate_bound
decisions.cheapest(P4N, np.eye(2), -1) ==> abstain_cost of cheapest
decisions.bagged_offsets(np.log(P4N), Y4N, n_bags=10**30) ==> n_bags of bagged_offsets
decisions.smoothed_offsets(np.log(P4N), Y4N, n_bags=10**30) ==> n_bags of smoothed_offsets
boosting.true_score(None, Y4N) ==> predictions of true_score
boosting.true_score("x", Y4N) ==> predictions of true_score
boosting.true_score([[1, 2], [3]], Y4N) ==> predictions of true_score
boosting.true_score(P4N[:, :1], Y4N) ==> predictions of true_score
boosting.true_score(P4N * float("nan"), Y4N) ==> predictions of true_score
boosting.true_score(P4N, None) ==> targets of true_score
boosting.true_score(P4N, "x") ==> targets of true_score
boosting.true_score(P4N, Y4N[:2]) ==> targets of true_score
boosting.true_score(P4N, Y4N + 7) ==> targets of true_score
boosting.true_score(P4N, Y4N + 0.5) ==> targets of true_score
boosting.true_score(P4N, Y4N, 3) ==> metric of true_score
boosting.true_score(P4N, Y4N, probabilities="x") ==> probabilities of true_score
boosting.true_score(P4N, Y4N, sample_weight=[1]) ==> sample_weight of true_score
boosting.true_score(P4N, Y4N, sample_weight="x") ==> sample_weight of true_score
boosting.true_score(P4N, Y4N, sample_weight=-np.ones(8)) ==> sample_weight of true_score
boosting.metric_gradients(None, Y4N) ==> raw_scores of metric_gradients
boosting.metric_gradients("x", Y4N) ==> raw_scores of metric_gradients
boosting.metric_gradients(P4N * float("nan"), Y4N) ==> raw_scores of metric_gradients
boosting.metric_gradients(P4N, None) ==> targets of metric_gradients
boosting.metric_gradients(P4N, "x") ==> targets of metric_gradients
boosting.metric_gradients(P4N, Y4N[:2]) ==> targets of metric_gradients
boosting.metric_gradients(P4N, Y4N - 1) ==> targets of metric_gradients
boosting.metric_gradients(P4N, Y4N, 3) ==> metric of metric_gradients
boosting.metric_gradients(P4N, Y4N, temperature=0.9) ==> temperature of metric_gradients
boosting.metric_gradients(P4N, Y4N, temperature="x") ==> temperature of metric_gradients
boosting.metric_gradients(P4N, Y4N, sample_weight=[1]) ==> sample_weight of metric_gradients
boosting.metric_gradients(P4N, Y4N, sample_weight="x") ==> sample_weight of metric_gradients
boosting.metric_gradients(P4N, Y4N, nope=3) ==> a further option of metric_gradients
ew.Decision.from_dict({**ew.Decision(np.eye(2)).to_dict(), "metric": "abc"}) ==> data of Decision.from_dict
ew.Decision.from_dict({**ew.Decision(np.eye(2)).to_dict(), "constraints": None}) ==> data of Decision.from_dict
ew.Decision.from_dict({**ew.Decision(np.eye(2)).to_dict(), "reference": []}) ==> data of Decision.from_dict
ew.Decision.from_dict({**ew.Decision(np.eye(2)).to_dict(), "format": np.zeros(3)}) ==> data of Decision.from_dict
"""


@pytest.fixture(scope="module")
def names():
    torch.manual_seed(0)
    logits = torch.randn(4, 3)
    return {
        "ew": ew,
        "boosting": boosting,
        "decisions": decisions,
        "np": np,
        "torch": torch,
        "Z": logits,
        "P": logits.softmax(1),
        "Y3": torch.tensor([0, 1, 2, 0]),
        "C3": torch.ones(3, 3),
        "X4": torch.randn(4, 5),
        "LIN": torch.nn.Linear(5, 3),
        "FROZEN": torch.nn.Linear(5, 3).requires_grad_(False),
        "P4N": np.random.default_rng(0).dirichlet([1, 1], 8),
        "Y4N": np.array([0, 1] * 4),
    }


@pytest.mark.parametrize("row", CALLS.strip().splitlines())
def test_a_bad_call_is_refused_in_one_sentence(names, row):
    assert_refused(row, names)


ROWS = np.random.default_rng(0).normal(size=(40, 3))
CODES = np.arange(40) % 2

TUNE = """
storage=3 ==> storage
storage="/dev/null" ==> storage
storage="nonsense://x" ==> storage
storage="/dev/null/x" ==> storage
parameters=3 ==> parameters
parameters="hidden" ==> parameters
seconds=float("nan") ==> seconds
seconds=-1 ==> seconds
seconds="long" ==> seconds
trials=0 ==> trials
trials=1.5 ==> trials
trials=None ==> trials
space="everything" ==> space
space=3 ==> space
y=None ==> y
y=3 ==> y
random_state="x" ==> random_state
random_state=-1 ==> random_state
study=3 ==> study
study="" ==> study
parameters={"nope": 1} ==> parameters
parameters={3: 1} ==> parameters
"""


@pytest.mark.parametrize("row", TUNE.strip().splitlines())
def test_a_bad_search_is_refused_before_it_starts(row):
    pytest.importorskip("optuna")
    options, argument = row.split(" ==> ")
    given = eval(f"dict({options})")
    with pytest.raises((TypeError, ValueError), match=f"^{argument} of tune must be .*; got "):
        ew.tune(ROWS, given.pop("y", CODES), **given)


def test_columns_of_one_name_are_refused_before_the_first_trial(capfd):
    pytest.importorskip("optuna")
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"^X of tune must be a frame with unique column names"):
        ew.tune(pd.DataFrame(ROWS, columns=["a", "a", "b"]), CODES)
    with pytest.raises(ValueError, match="must be"):
        ew.tune(ROWS, CODES, parameters={"hidden": (0,)})
    assert "Traceback" not in capfd.readouterr().err, (
        "optuna logs a failed trial with its traceback"
    )


def test_a_table_is_no_storage_of_a_search(tmp_path):
    pytest.importorskip("optuna")
    (tmp_path / "g.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="storage of tune must be a journal file"):
        ew.tune(ROWS, CODES, storage=tmp_path / "g.csv")


TABLES = """
ew.compare(None, CODES) ==> X of compare
ew.compare(ROWS, None) ==> y of compare
ew.compare(ROWS, CODES, metric="f7x") ==> metric of compare
ew.compare(ROWS, CODES, methods=["nope"]) ==> methods of compare
ew.compare(ROWS, CODES, n_splits=0) ==> n_splits of compare
ew.compare(ROWS, CODES, n_splits="many") ==> n_splits of compare
ew.compare(ROWS, CODES, methods=[]) ==> methods of compare
ew.compare(ROWS, CODES, methods=3) ==> methods of compare
ew.compare(ROWS, CODES, test_size=0) ==> test_size of compare
ew.compare(ROWS, CODES, tie_margin=-1) ==> tie_margin of compare
ew.compare(ROWS, CODES, budget=-1) ==> budget of compare
ew.compare(ROWS, CODES, prior="x") ==> prior of compare
ew.compare(ROWS, CODES, times=[None] * 40) ==> times of compare
ew.compare(ROWS, CODES, groups=[None, "a"] * 20) ==> groups of compare
ew.compare(ROWS, CODES, method_options=3) ==> method_options of compare
ew.compare(ROWS, CODES, method_options={"nope": 3}) ==> method_options of compare
ew.compare(ROWS, CODES, store=3) ==> store of compare
ew.compare(ROWS, CODES, store="/dev/null/x") ==> store of compare
ew.compare(ROWS, CODES, progress=3) ==> progress of compare
ew.compare(ROWS, CODES, thorough="x") ==> thorough of compare
ew.compare(ROWS, CODES, preprocess=3) ==> preprocess of compare
ew.compare(ROWS, CODES, random_state="x") ==> random_state of compare
ew.compare(ROWS, CODES, random_state=-1) ==> random_state of compare
ew.compare(ROWS, CODES, subject_to="nonsense") ==> subject_to of compare
ew.compare(ROWS, CODES, coverage=2) ==> coverage of compare
data.read_table("/nope.csv") ==> source of read_table
data.read_table(FILE, encoding="base64") ==> encoding of read_table
data.read_table(FILE, encoding="nope") ==> encoding of read_table
data.read_table(None) ==> source of read_table
data.read_table(FILE, "a") ==> columns of read_table
data.read_table(FILE, 3) ==> columns of read_table
data.read_table(FILE, [["a"]]) ==> columns of read_table
data.read_table(FILE, ["z"]) ==> columns of read_table
data.read_table(FILE, as_text="a") ==> as_text of read_table
data.read_table(FILE, as_text=None) ==> as_text of read_table
data.read_table(FILE, as_text=[{}]) ==> as_text of read_table
data.iter_tables(FILE, columns="a") ==> columns of iter_tables
data.iter_tables(FILE, columns=3) ==> columns of iter_tables
next(data.iter_tables(FRAME, columns=["z"])) ==> columns of iter_tables
data.iter_tables(FILE, kinds=3) ==> kinds of iter_tables
data.iter_tables(FILE, kinds="number") ==> kinds of iter_tables
data.iter_tables(FILE, kinds=["number"]) ==> kinds of iter_tables
data.iter_tables(FILE, 0) ==> rows_per_batch of iter_tables
data.count_rows(None) ==> source of count_rows
data.count_rows(3) ==> source of count_rows
data.count_rows([1, 2]) ==> source of count_rows
data.count_rows("/nope.csv") ==> source of count_rows
datasets.find_tables("/nope") ==> folder of find_tables
datasets.find_tables(None) ==> folder of find_tables
datasets.find_tables("") ==> folder of find_tables
datasets.find_tables(3) ==> folder of find_tables
datasets.load_embedded(None) ==> name of load_embedded
datasets.load_embedded("nope") ==> name of load_embedded
data.TableWriter(None) ==> path of TableWriter
data.TableWriter("") ==> path of TableWriter
data.TableWriter(b"x") ==> path of TableWriter
data.load_task(FILE, "b", ignore=None) ==> ignore of load_task
data.load_task(FILE, "b", ignore="a") ==> ignore of load_task
data.load_task(FILE, "b", ignore=3) ==> ignore of load_task
data.load_task(FILE, "b", text=None) ==> text of load_task
data.load_task(FILE, "b", text=1.5) ==> text of load_task
data.load_task(FILE, []) ==> target of load_task
data.load_task(FILE, "b", weight=[]) ==> weight of load_task
data.load_task(FILE, "b", group={}) ==> group of load_task
data.load_task(FILE, "b", time=["a"]) ==> time of load_task
data.load_task(FILE, "b", merge_rare=-1) ==> merge_rare of load_task
data.load_task(FILE, "b", merge_rare=b"x") ==> merge_rare of load_task
data.load_task(FILE, "b", merge_labels="no") ==> merge_labels of load_task
data.load_task(FILE, "b", drop_missing_target=None) ==> drop_missing_target of load_task
data.load_task(FILE, "b", drop_rare_classes=3) ==> drop_rare_classes of load_task
model_folder.load_model(None) ==> folder of load_model
model_folder.load_model("") ==> folder of load_model
reporting.render_html(None) ==> summary of render_html
reporting.render_html("x") ==> summary of render_html
reporting.render_html({}) ==> summary of render_html
reporting.render_html({"title": "x", "metric": "f1"}) ==> summary of render_html
reporting.render_html({**SUMMARY, "evaluation": 3}) ==> summary of render_html
reporting.render_markdown(3) ==> summary of render_markdown
reporting.render_markdown({**SUMMARY, "evaluation": 3}) ==> summary of render_markdown
reporting.write_report(None, FILE.with_suffix(".html")) ==> summary of write_report
reporting.write_report({}, FILE.with_suffix(".md")) ==> summary of write_report
reporting.write_report({**SUMMARY, "data": float("nan")}, FILE.with_suffix(".json")) ==> summary of write_report
reporting.write_report({**SUMMARY, "data": {1, 2}}, FILE.with_suffix(".json")) ==> summary of write_report
reporting.write_figures({}, FILE) ==> summary of write_figures
reporting.write_figures(SUMMARY, None) ==> folder of write_figures
reporting.evaluation_summary(None, LOGS, "ab", "f1") ==> classes of evaluation_summary
reporting.evaluation_summary(None, LOGS, 3, "f1") ==> classes of evaluation_summary
reporting.evaluation_summary(None, LOGS, [0, 1], "f1") ==> targets of evaluation_summary
reporting.evaluation_summary("x", LOGS, [0, 1], "f1") ==> targets of evaluation_summary
reporting.evaluation_summary(CODES, None, [0, 1], "f1") ==> log_probabilities of evaluation_summary
reporting.evaluation_summary(CODES, "x", [0, 1], "f1") ==> log_probabilities of evaluation_summary
reporting.evaluation_summary(CODES, LOGS, [0, 1], 3) ==> metric of evaluation_summary
reporting.evaluation_summary(CODES, LOGS, [0, 1], "f1", offsets="x") ==> offsets of evaluation_summary
reporting.evaluation_summary(CODES, LOGS, [0, 1], "f1", decision=3) ==> decision of evaluation_summary
reporting.evaluation_summary(CODES, LOGS, [0, 1], "f1", sample_weight="x") ==> sample_weight of evaluation_summary
reporting.evaluation_summary(CODES, LOGS, [0, 1], "f1", max_scores="x") ==> max_scores of evaluation_summary
reporting.evaluation_summary(CODES, LOGS, [0, 1], "f1", n_bootstrap=1.5) ==> n_bootstrap of evaluation_summary
reporting.evaluation_summary(CODES, LOGS, [0, 1], "f1", n_bootstrap=10**30) ==> n_bootstrap of evaluation_summary
reporting.evaluation_summary(CODES, LOGS, [0, 1], "f1", random_state="x") ==> random_state of evaluation_summary
reporting.write_report({}, None) ==> path of write_report
reporting.write_report({}, "") ==> path of write_report
balance.check_balance("x", [0, 1]) ==> name of check_balance
balance.shannon_equitability([]) ==> targets of shannon_equitability
balance.shannon_equitability([[0, 1]]) ==> targets of shannon_equitability
"""


@pytest.mark.parametrize("row", TABLES.strip().splitlines())
def test_a_bad_table_is_refused_in_one_sentence(tmp_path, row):
    import pandas as pd

    from eastward import data, datasets, model_folder, reporting
    from papers.data import balance

    names = {"ew": ew, "data": data, "datasets": datasets, "balance": balance}
    names |= {"model_folder": model_folder, "reporting": reporting}
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    names |= {"FILE": tmp_path / "a.csv", "FRAME": pd.DataFrame({"a": [1], "b": [2]})}
    names |= {
        "SUMMARY": reporting.report_summary("Claims", "f1"),
        "LOGS": np.log([[0.5, 0.5]] * 40),
    }
    names |= {"np": np, "ROWS": ROWS, "CODES": CODES}
    assert_refused(row, names, FileNotFoundError)


# Estimators: S is a small network, D a frame with two columns of one name, M a fitted network.
ESTIMATORS = """
ew.EASTClassifier(metric=lambda c: None, **S).fit(X, y) ==> the result of <lambda>
ew.EASTClassifier(metric="f7x", **S).fit(X, y) ==> metric of EASTClassifier
ew.EASTClassifier(callbacks=[3], **S).fit(X, y) ==> callbacks of EASTClassifier
ew.EASTClassifier(callbacks=3, **S).fit(X, y) ==> callbacks of EASTClassifier
ew.EASTClassifier(loggers=3, **S).fit(X, y) ==> loggers of EASTClassifier
ew.EASTClassifier(loggers=[3], **S).fit(X, y) ==> loggers of EASTClassifier
ew.EASTClassifier(class_weight={0: 1, 7: 3}, **S).fit(X, y) ==> class_weight of EASTClassifier.fit
ew.EASTClassifier(class_weight="heavy", **S).fit(X, y) ==> class_weight of EASTClassifier.fit
ew.EASTClassifier(**{**S, "max_epochs": 1.5}).fit(X, y) ==> max_epochs of EASTClassifier
ew.EASTClassifier(**{**S, "max_epochs": 0}).fit(X, y) ==> max_epochs of EASTClassifier
ew.EASTClassifier(**{**S, "n_folds": 1.5}).fit(X, y) ==> n_folds of EASTClassifier
ew.EASTClassifier(**{**S, "hidden": (0,)}).fit(X, y) ==> hidden of EASTClassifier
ew.EASTClassifier(learning_rate=-1, **S).fit(X, y) ==> learning_rate of EASTClassifier
ew.EASTClassifier(batch_size=0, **S).fit(X, y) ==> batch_size of EASTClassifier
ew.EASTClassifier(dropout=1.5, **S).fit(X, y) ==> dropout of EASTClassifier
ew.EASTClassifier(temperature=0.9, **S).fit(X, y) ==> temperature of EASTClassifier
ew.EASTClassifier(recipe="x", **S).fit(X, y) ==> recipe of EASTClassifier
ew.EASTClassifier(subject_to="nonsense", **S).fit(X, y) ==> subject_to of EASTClassifier
ew.EASTClassifier(subject_to="recall[7] >= 0.5", **S).fit(X, y) ==> subject_to of EASTClassifier
ew.EASTClassifier(**S).fit(D, y) ==> X of EASTClassifier
ew.EASTEnsembleClassifier().fit(D, y) ==> X of EASTEnsembleClassifier
ew.EASTBoostingClassifier().fit(D, y) ==> X of EASTBoostingClassifier.fit
ew.TunedDecisionClassifierCV(LR).fit(D, y) ==> X of TunedDecisionClassifierCV.fit
M.decide_by("f7x") ==> metric of EASTClassifier
M.predict(X, prior=[0.5]) ==> prior of predict
M.predict(X, prior="x") ==> prior of predict
M.predict_set(X, coverage=2) ==> coverage of prediction_sets
M.save("/dev/null/x") ==> path of save
M.save(None) ==> path of save
M.save("") ==> path of save
M.save(b"x") ==> path of save
ew.EASTClassifier.load(3) ==> path of load
ew.EASTClassifier.load([]) ==> path of load
ew.TunedDecisionClassifierCV.load(None) ==> path of load
ew.EASTBoostingClassifier.load(None) ==> path of load
ew.EASTEnsembleClassifier.load(None) ==> path of load
M.predict(D) ==> X of EASTClassifier
M.score(X, np.zeros((40, 2))) ==> y of EASTClassifier.score
M.score(X, y[:5]) ==> y of EASTClassifier.score
M.score(X, None) ==> y of EASTClassifier.score
M.score(X, y, sample_weight=[1]) ==> sample_weight of EASTClassifier.score
M.score(X, y, sample_weight=-np.ones(40)) ==> sample_weight of EASTClassifier.score
M.score(X, ["a", None] * 20) ==> y of EASTClassifier.score
M.score(X, ["0", "1"] * 20) ==> y of EASTClassifier.score
ew.EASTClassifier(**S).fit(X, ["a", None] * 20) ==> y of EASTClassifier.fit
ew.EASTClassifier(**S).fit(X, np.array([1, "a"] * 20, dtype=object)) ==> y of EASTClassifier.fit
ew.EASTClassifier(bins=10**6, **S).fit(X, y) ==> bins of EASTClassifier
ew.EASTClassifier(bins=np.zeros(3), **S).fit(X, y) ==> bins of EASTClassifier
ew.EASTClassifier(batch_size=np.zeros(3), **S).fit(X, y) ==> batch_size of EASTClassifier
ew.EASTClassifier(checkpoint=3, **S).fit(X, y) ==> checkpoint of EASTClassifier
ew.EASTClassifier(checkpoint="", **S).fit(X, y) ==> checkpoint of EASTClassifier
ew.EASTClassifier(loggers="", **S).fit(X, y) ==> loggers of EASTClassifier
ew.EASTClassifier(verbose=np.zeros(3), **S).fit(X, y) ==> verbose of EASTClassifier
ew.EASTClassifier(standardize=np.zeros(3), **S).fit(X, y) ==> standardize of EASTClassifier
ew.EASTClassifier(metric_options=3, **S).fit(X, y) ==> metric_options of EASTClassifier
ew.EASTClassifier(recipe=np.zeros(3), **S).fit(X, y) ==> recipe of EASTClassifier
ew.EASTClassifier(accelerator=[], **S).fit(X, y) ==> accelerator, devices, strategy, precision of EASTClassifier
ew.EASTClassifier(precision="7", **S).fit(X, y) ==> accelerator, devices, strategy, precision of EASTClassifier
ew.TunedDecisionClassifierCV(LR, guard=-1).fit(X, y) ==> guard of TunedDecisionClassifierCV
ew.TunedDecisionClassifierCV(LR, n_bags=10**30).fit(X, y) ==> n_bags of TunedDecisionClassifierCV
ew.TunedDecisionClassifierCV(LR, cv=[]).fit(X, y) ==> cv of fit
ew.TunedDecisionClassifierCV(LR, cv="abc").fit(X, y) ==> cv of fit
ew.TunedDecisionClassifierCV(LR, cv=-1).fit(X, y) ==> cv of fit
ew.TunedDecisionClassifierCV(LR).fit(X, pd.Series(["a", None] * 20)) ==> y of TunedDecisionClassifierCV.fit
ew.TunedDecisionClassifierCV(LR).fit(X, y).predict(D) ==> X of TunedDecisionClassifierCV
ew.TunedDecisionClassifierCV(LR, n_jobs=0).fit(X, y) ==> n_jobs of TunedDecisionClassifierCV
ew.TunedDecisionClassifierCV(LR, n_jobs=1.5).fit(X, y) ==> n_jobs of TunedDecisionClassifierCV
ew.TunedDecisionClassifierCV(LR, n_jobs="x").fit(X, y) ==> n_jobs of TunedDecisionClassifierCV
ew.TunedDecisionClassifierCV(LR, n_jobs=10**30).fit(X, y) ==> n_jobs of TunedDecisionClassifierCV
ew.compare(X, y, n_jobs=0) ==> n_jobs of compare
ew.compare(X, y, n_jobs=10**30) ==> n_jobs of compare
ew.compare(X, y, n_jobs="x") ==> n_jobs of compare
ew.EASTBoostingClassifier(guard=-1).fit(X, y) ==> guard of EASTBoostingClassifier
ew.EASTBoostingClassifier(guard="x").fit(X, y) ==> guard of EASTBoostingClassifier
ew.EASTBoostingClassifier(guard=float("nan")).fit(X, y) ==> guard of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_estimators=0).fit(X, y) ==> n_estimators of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_estimators=1.5).fit(X, y) ==> n_estimators of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_estimators=10**30).fit(X, y) ==> n_estimators of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_estimators=None).fit(X, y) ==> n_estimators of EASTBoostingClassifier
ew.EASTBoostingClassifier(aligned_rounds=-1).fit(X, y) ==> aligned_rounds of EASTBoostingClassifier
ew.EASTBoostingClassifier(aligned_rounds=10**30).fit(X, y) ==> aligned_rounds of EASTBoostingClassifier
ew.EASTBoostingClassifier(aligned_rounds="x").fit(X, y) ==> aligned_rounds of EASTBoostingClassifier
ew.EASTBoostingClassifier(learning_rate=0).fit(X, y) ==> learning_rate of EASTBoostingClassifier
ew.EASTBoostingClassifier(learning_rate=float("inf")).fit(X, y) ==> learning_rate of EASTBoostingClassifier
ew.EASTBoostingClassifier(learning_rate="x").fit(X, y) ==> learning_rate of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_bags=0).fit(X, y) ==> n_bags of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_bags=10**30).fit(X, y) ==> n_bags of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_bags=None).fit(X, y) ==> n_bags of EASTBoostingClassifier
ew.EASTBoostingClassifier(tune_decision=None).fit(X, y) ==> tune_decision of EASTBoostingClassifier
ew.EASTBoostingClassifier(tune_decision="no").fit(X, y) ==> tune_decision of EASTBoostingClassifier
ew.EASTBoostingClassifier(tune_decision=3).fit(X, y) ==> tune_decision of EASTBoostingClassifier
ew.EASTBoostingClassifier(tune_decision=np.zeros(3)).fit(X, y) ==> tune_decision of EASTBoostingClassifier
ew.EASTBoostingClassifier(balanced=None).fit(X, y) ==> balanced of EASTBoostingClassifier
ew.EASTBoostingClassifier(balanced="x").fit(X, y) ==> balanced of EASTBoostingClassifier
ew.EASTBoostingClassifier(aligned=3).fit(X, y) ==> aligned of EASTBoostingClassifier
ew.EASTBoostingClassifier(aligned="x").fit(X, y) ==> aligned of EASTBoostingClassifier
ew.EASTBoostingClassifier(temperature=0.9).fit(X, y) ==> temperature of EASTBoostingClassifier
ew.EASTBoostingClassifier(temperature=None).fit(X, y) ==> temperature of EASTBoostingClassifier
ew.EASTBoostingClassifier(backend=3).fit(X, y) ==> backend of EASTBoostingClassifier
ew.EASTBoostingClassifier(backend="catboost").fit(X, y) ==> backend of EASTBoostingClassifier
ew.EASTBoostingClassifier(backend=None).fit(X, y) ==> backend of EASTBoostingClassifier
ew.EASTBoostingClassifier(backend_params=3).fit(X, y) ==> backend_params of EASTBoostingClassifier
ew.EASTBoostingClassifier(backend_params="x").fit(X, y) ==> backend_params of EASTBoostingClassifier
ew.EASTBoostingClassifier(backend_params=np.zeros(3)).fit(X, y) ==> backend_params of EASTBoostingClassifier
ew.EASTBoostingClassifier(categorical_features=3).fit(X, y) ==> categorical_features of EASTBoostingClassifier
ew.EASTBoostingClassifier(categorical_features=-1).fit(X, y) ==> categorical_features of EASTBoostingClassifier
ew.EASTBoostingClassifier(categorical_features=[7]).fit(X, y) ==> categorical_features of EASTBoostingClassifier
ew.EASTBoostingClassifier(categorical_features=["z"]).fit(X, y) ==> categorical_features of EASTBoostingClassifier
ew.EASTBoostingClassifier(categorical_features=True).fit(X, y) ==> categorical_features of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_jobs=0).fit(X, y) ==> n_jobs of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_jobs=1.5).fit(X, y) ==> n_jobs of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_jobs="x").fit(X, y) ==> n_jobs of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_jobs=10**30).fit(X, y) ==> n_jobs of EASTBoostingClassifier
ew.EASTBoostingClassifier(n_jobs=float("nan")).fit(X, y) ==> n_jobs of EASTBoostingClassifier
ew.EASTBoostingClassifier(confidence=2).fit(X, y) ==> confidence of EASTBoostingClassifier
ew.EASTBoostingClassifier(confidence="x").fit(X, y) ==> confidence of EASTBoostingClassifier
ew.EASTBoostingClassifier(coverage=0).fit(X, y) ==> coverage of EASTBoostingClassifier
ew.EASTBoostingClassifier(coverage="x").fit(X, y) ==> coverage of EASTBoostingClassifier
ew.EASTBoostingClassifier(abstain_cost=-1).fit(X, y) ==> abstain_cost of EASTBoostingClassifier
ew.EASTBoostingClassifier(abstain_cost="x").fit(X, y) ==> abstain_cost of EASTBoostingClassifier
ew.EASTBoostingClassifier(on_infeasible="x").fit(X, y) ==> on_infeasible of EASTBoostingClassifier
ew.EASTBoostingClassifier(calibrate="x").fit(X, y) ==> calibrate of EASTBoostingClassifier
ew.EASTBoostingClassifier(calibrate=3).fit(X, y) ==> calibrate of EASTBoostingClassifier
ew.EASTBoostingClassifier(subject_to="nonsense").fit(X, y) ==> subject_to of EASTBoostingClassifier
ew.EASTBoostingClassifier(subject_to=3).fit(X, y) ==> subject_to of EASTBoostingClassifier
ew.EASTEnsembleClassifier(parts=3).fit(X, y) ==> parts of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(parts="network").fit(X, y) ==> parts of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(parts=[]).fit(X, y) ==> parts of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(parts=["x"]).fit(X, y) ==> parts of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(parts=["boosting", "boosting"]).fit(X, y) ==> parts of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(parts=None).fit(X, y) ==> parts of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_folds=1).fit(X, y) ==> n_folds of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_folds=1.5).fit(X, y) ==> n_folds of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_folds="x").fit(X, y) ==> n_folds of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_folds=None).fit(X, y) ==> n_folds of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_bags=0).fit(X, y) ==> n_bags of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_bags=10**30).fit(X, y) ==> n_bags of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_bags="x").fit(X, y) ==> n_bags of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(tune_decision=None).fit(X, y) ==> tune_decision of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(tune_decision="no").fit(X, y) ==> tune_decision of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(tune_decision=3).fit(X, y) ==> tune_decision of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(aligned=None).fit(X, y) ==> aligned of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(aligned="x").fit(X, y) ==> aligned of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(label_share=-1).fit(X, y) ==> label_share of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(label_share=2).fit(X, y) ==> label_share of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(label_share="x").fit(X, y) ==> label_share of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(network_options=3).fit(X, y) ==> network_options of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(network_options={"nope": 1}).fit(X, y) ==> network_options of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_jobs=0).fit(X, y) ==> n_jobs of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_jobs=1.5).fit(X, y) ==> n_jobs of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_jobs=10**30).fit(X, y) ==> n_jobs of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(n_jobs="x").fit(X, y) ==> n_jobs of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(confidence=0).fit(X, y) ==> confidence of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(coverage=2).fit(X, y) ==> coverage of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(abstain_cost=-1).fit(X, y) ==> abstain_cost of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(on_infeasible=None).fit(X, y) ==> on_infeasible of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(calibrate=None).fit(X, y) ==> calibrate of EASTEnsembleClassifier
ew.EASTEnsembleClassifier(subject_to=3).fit(X, y) ==> subject_to of EASTEnsembleClassifier
"""


@pytest.fixture(scope="module")
def estimators():
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    small = {"hidden": (4,), "max_epochs": 2, "n_folds": 1, "random_state": 0}
    model = ew.EASTClassifier(**small).fit(ROWS, CODES)
    frame = pd.DataFrame(ROWS, columns=["a", "a", "b"])
    names = {"ew": ew, "S": small, "X": ROWS, "y": CODES, "D": frame, "M": model}
    return {**names, "LR": LogisticRegression(), "np": np, "pd": pd}


@pytest.mark.parametrize("row", ESTIMATORS.strip().splitlines())
def test_a_bad_estimator_is_refused_in_one_sentence(estimators, row):
    assert_refused(row, estimators)
