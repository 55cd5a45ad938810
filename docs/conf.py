"""Configuration of the documentation; `make docs` builds it."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

if TYPE_CHECKING:
    from sphinx.application import Sphinx

mpl.use("Agg")

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"

project = "eastward"
author = "The eastward developers"
copyright = f"2026, {author}"  # noqa: A001 - Sphinx chose the name
release = installed_version("eastward")
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
]
exclude_patterns = ["_build", "auto_examples/*.ipynb", "auto_examples/*.py"]

# Pages are Markdown, with $…$ for mathematics.
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

# Docstrings are numpydoc; they name the types, so signatures need not repeat them.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = project
html_show_sourcelink = False
html_theme_options = {"show_prev_next": True, "navigation_with_keys": False}

if any(EXAMPLES.glob("plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": [str(EXAMPLES)],
        "gallery_dirs": ["auto_examples"],
        "filename_pattern": r"/plot_",
        "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
        "abort_on_example_error": True,
        "download_all_examples": False,
        "show_memory": False,
    }


def make_figures(_app: Sphinx) -> None:
    """Let ``figures.py`` draw the pictures of the pages into ``_generated``."""
    source = HERE / "figures.py"
    if not source.exists():
        return
    spec = importlib.util.spec_from_file_location("figures", source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source.name} cannot be imported.")
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    output = HERE / "_generated"
    output.mkdir(exist_ok=True)
    figures.make_all(output)


def setup(app: Sphinx) -> None:
    """Draw the figures before Sphinx reads the first page."""
    app.connect("builder-inited", make_figures)
