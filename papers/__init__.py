"""The papers' tables and figures, run again: EAST, Bridging the Gap, and Lee's surrogate.

This folder is not part of the installed package: run ``python -m papers list`` in a checkout. See
``papers/README.md``.
"""
