"""Moved to ``eastward.estimators.tuned``; this path stays for one release."""

from eastward._moved import moved

moved(__name__, "eastward.estimators.tuned")
