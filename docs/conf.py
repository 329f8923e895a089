"""The documentation as pages: `sphinx-build -W -b html docs docs/_build`."""

project = "dalembert"
author = "The dalembert developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "alabaster"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
default_role = "literal"  # single backquotes in docstrings are code
html_theme_options = {"page_width": "1100px", "description": "Write the energy and the constraints. Get motion that keeps them."}
