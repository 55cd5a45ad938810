"""Compare methods on the same splits, with paired intervals and a verdict."""

from eastward.comparison.methods import DEFAULT_METHODS, Method, method_names
from eastward.comparison.result import Comparison, Progress
from eastward.comparison.runner import compare

__all__ = ["DEFAULT_METHODS", "Comparison", "Method", "Progress", "compare", "method_names"]
