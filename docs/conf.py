"""Settings of the documentation: Sphinx reads the docstrings, MyST the pages, furo draws them."""

import os
from typing import Any

# The plain-Python Book carries the full docstrings, so it is the one to describe.
os.environ["CLOB_PURE_PYTHON"] = "1"

import clob.replay.sim.orders
import clob.replay.sim.market_view

# Named there for type checkers only, since each of the two modules needs the other.
clob.replay.sim.orders.Leg = clob.replay.sim.market_view.OutcomeView

project = "clob"
author = "The clob authors"
copyright = "2026, The clob authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 2
html_theme = "furo"
html_title = "clob"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# The documentation builds without a network, so names of others lead nowhere; nor do the aliases
# of array types, the type variables, which exist for type checkers only, and what `lend` gives.
nitpick_ignore_regex = [
    ("py:.*", r"(enum|collections|collections\.abc|os|pathlib|typing|msgspec|numpy|npt?)\..*"),
    (
        "py:class",
        r"(.*\.AnyState)|Records|Status|clob\._run_py\.Lent|clob\.signing\.wallet\.AnySigned",
    ),
    ("py:.*", r"clob\.replay\.(synthetic|digest|replay)\..*"),
    ("py:.*", r"(int|str|bool|bytes|object|None|list|tuple|dict|Exception|ValueError|TypeError)"),
]


def keep_colons(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put a comment above what is said of an attribute.

    Napoleon takes what stands before a colon in the first line for a type.
    """
    if what in ("attribute", "data"):
        lines[:0] = ["..", ""]


def setup(app: Any) -> None:
    """Run before napoleon, whose priority is 500."""
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
