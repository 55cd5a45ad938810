r"""Losses made of metrics.

A loss takes the road logits -> probabilities -> memberships -> table -> metric -> loss. Each step is a function of the
module of that name.
"""

from eastward.losses.exact import exact_backward
from eastward.losses.functional import metric_loss
from eastward.losses.modules import EASTLoss
from eastward.losses.ranking import AUROCLoss, AveragePrecisionLoss

__all__ = ["AUROCLoss", "AveragePrecisionLoss", "EASTLoss", "exact_backward", "metric_loss"]
