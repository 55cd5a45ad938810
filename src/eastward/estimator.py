"""Moved to ``eastward.estimators.network``; this path stays until 0.3."""

from eastward._moved import moved

moved(__name__, "eastward.estimators.network")
