"""Configuration of the documentation; `make docs` builds it."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

from eastward import __version__, metrics

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

mpl.use("Agg")

HERE = Path(__file__).parent
GENERATED = HERE / "_generated"
EXAMPLES = HERE.parent / "examples"
# Sphinx-Gallery imports functions by name, because Sphinx cannot store functions in its cache.
sys.path.insert(0, str(HERE))

project = "eastward"
author = "The eastward developers"
copyright = f"2026, {author}"  # noqa: A001 - Sphinx chose the name
release = __version__
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
]
exclude_patterns = ["_build", "_generated", "auto_examples/*.ipynb", "auto_examples/*.py"]
templates_path = ["_templates"]

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
html_static_path = ["_static"]
html_css_files = ["eastward.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "logo": {"text": project, "alt_text": "eastward: home"},
    "header_links_before_dropdown": 6,
}
html_math_renderer = "mathml"
# A page without pages of its own below it needs no list of them; the room is better used for code.
html_sidebars = {"*": [], "auto_examples/*": []}

if any(EXAMPLES.glob("plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": [str(EXAMPLES)],
        "gallery_dirs": ["auto_examples"],
        "filename_pattern": r"/plot_",
        "within_subsection_order": "FileNameSortKey",
        "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
        "abort_on_example_error": True,
        "download_all_examples": False,
        "show_memory": False,
        "thumbnail_size": (640, 440),
        "reset_modules": ("matplotlib", "gallery.larger_letters"),
    }


def make_figures(_app: Sphinx) -> None:
    """Let ``figures.py`` draw the pictures of the pages into ``_generated``."""
    source = HERE / "figures.py"
    spec = importlib.util.spec_from_file_location("figures", source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source.name} cannot be imported.")
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    figures.make_all(GENERATED)


def add_dark_figures(_app: Sphinx, doctree: nodes.document) -> None:
    """Give every generated figure its dark variant; the theme shows one of the two."""
    for image in list(doctree.findall(nodes.image)):
        path = Path(image["uri"])
        if path.parent.name != GENERATED.name:
            continue
        dark = image.deepcopy()
        dark["uri"] = str(path.with_stem(f"{path.stem}-dark"))
        image["classes"].append("only-light")
        dark["classes"].append("only-dark")
        image.parent.insert(image.parent.index(image) + 1, dark)


def make_metrics_table(_app: Sphinx) -> None:
    """Write the table of names of ``metrics.md`` from the registry, so that the two cannot differ."""
    lines = [
        "| name | formula | range | better | needs two classes | table |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_metric_row(name) for name in metrics.names()]
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "metrics_table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _metric_row(name: str) -> str:
    # The cost decides nothing that the table shows, but the metric cannot be had without one.
    options = {"cost": [[0, 1], [1, 0]]} if name == "expected_cost" else {}
    metric = metrics.get(name, **options)
    bounded = math.isfinite(metric.low) and math.isfinite(metric.high)
    cells = (
        f"`{name}`",
        f"`{metric.formula}`".replace("|", r"\|"),
        f"{metric.low:g} … {metric.high:g}".replace("-", "−") if bounded else "that of the cost",
        "higher" if metric.higher_is_better else "lower",
        "yes" if metric.needs_two_classes else "",
        "matrix" if metric.needs_matrix else "counts",
    )
    return f"| {' | '.join(cells)} |"


# TeX that the converter reads wrongly or not at all, and what it stands for: \tfrac12, \Big( without a side, \dots.
TEX_SHORTHANDS = (
    (r"\\([td]?frac)(\w)(\w)", r"\\\1{\2}{\3}"),
    (r"\\([bB]igg?)(?=[(\[])", r"\\\1l"),
    (r"\\([bB]igg?)(?=[)\]])", r"\\\1r"),
    (r"\\[bB]igg?\|", r"|"),
    (r"\\dots\b", r"\\ldots"),
)


def show_formula(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers draw themselves: pages work offline, without scripts."""
    block = isinstance(node, nodes.math_block)
    source = node.astext()
    for pattern, replacement in TEX_SHORTHANDS:
        source = re.sub(pattern, replacement, source)
    try:
        formula = tex2mathml(source, as_block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s in %s", error, source, location=node)
        formula = translator.encode(source)
    tag = "div" if block else "span"
    translator.body.append(f'<{tag} class="math notranslate nohighlight">{formula}</{tag}>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Draw the figures and write the table before Sphinx reads the first page."""
    app.add_html_math_renderer("mathml", (show_formula, None), (show_formula, None))
    app.connect("builder-inited", make_figures)
    app.connect("builder-inited", make_metrics_table)
    # before Sphinx collects the images of a page, which happens at 500
    app.connect("doctree-read", add_dark_figures, priority=400)
