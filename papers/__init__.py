"""The papers' tables and figures, run again: EAST, Bridging the Gap, and Lee's surrogate.

Beside the package, not in it: ``python -m papers list`` from a checkout. ``papers/README.md`` says more.
"""
