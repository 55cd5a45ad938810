"""Moved to ``eastward.data``; this path stays for one release."""

from eastward._moved import moved

moved(__name__, "eastward.data")
