"""The documentation as pages that open offline: `sphinx-build -W -b html docs docs/_build`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import matplotlib as mpl
from docutils import nodes
from latex2mathml.converter import convert
from sphinx_gallery.sorting import ExplicitOrder

import dalembert as da

mpl.use("Agg")
HERE = Path(__file__).parent
(HERE / "_generated").mkdir(exist_ok=True)

project = "dalembert"
author = "The dalembert developers"
copyright = "2026, the dalembert developers"
version = release = da.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_gallery.gen_gallery"]
html_theme = "pydata_sphinx_theme"
html_title = "dalembert"
html_theme_options = {
    "logo": {"text": "dalembert"},
    "navbar_align": "left",
    "navbar_center": [],  # all pages are in the list at the side
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "pygments_light_style": "friendly",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"**": ["globaltoc.html"]}
html_show_sourcelink = False
html_static_path = ["style"]
html_css_files = ["pages.css"]
html_extra_path = ["_generated"]
exclude_patterns = ["_build", "_generated", "gallery/*.py.md5", "gallery/*.ipynb"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types of arrays fill pages; docstrings say what is meant
napoleon_attr_annotations = False  # the same
default_role = "literal"  # single backquotes in docstrings are code
html_math_renderer = "mathml"

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "within_subsection_order": "FileNameSortKey",
    "subsection_order": ExplicitOrder(["*"]),
    "download_all_examples": False,
    "show_memory": False,
    "capture_repr": ("_repr_html_",),
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
    "write_computation_times": False,
}


def _inline(self: Any, node: nodes.Element) -> None:
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.Element) -> None:
    self.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def _generate(app: Any) -> None:
    """A report to play with, made by the library itself."""
    folder = HERE / "_generated"
    da.simulate(da.catalog.double_pendulum(), "rattle", t_end=20.0, step=0.01).report(folder / "double_pendulum.html")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)


def setup(app: Any) -> None:
    """Formulas as MathML, which browsers show without a script; a report for the first page."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("builder-inited", _generate)
