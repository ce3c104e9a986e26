"""How `make docs` builds the site: Sphinx reads Markdown by MyST; API pages come from docstrings and `__all__`."""

import sys
from importlib import metadata
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

sys.path.insert(0, str(Path(__file__).parent))

project = "tvwrl"
author = "the authors of tvwrl"
release = metadata.version("tvwrl")
extensions = ["myst_parser", "sphinx.ext.autodoc", "public_names", "numpydoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "tvwrl"
html_copy_source = False

myst_heading_anchors = 4  # a link to a heading is checked like one to a page
lexers["csv"] = TextLexer()  # Pygments has none for tables

default_role = "code"  # docstrings put names into single backticks
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
python_use_unqualified_type_names = True
