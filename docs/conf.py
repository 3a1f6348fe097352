"""Sphinx configuration: docstrings through autodoc, pages through MyST, the theme furo."""

import os
from pathlib import Path
from typing import Any

# The Python source has the full docstrings; the compiled modules do not.
os.environ["CLOB_PURE_PYTHON"] = "1"

project = "clob"
author = "The clob authors"
copyright = "2026, The clob authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "clob"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# Not documented here, so that references cannot be resolved: other projects (the build uses no
# network), aliases of array types, type variables, and structs that /openapi.json describes.
nitpick_ignore_regex = [
    ("py:.*", r"(contextlib|enum|collections(\.abc)?|os|pathlib|typing|msgspec|numpy|npt?)\..*"),
    (
        "py:class",
        r"Records|Status|clob\.(signing\.wallet\.AnySigned|order\.OrderFields|replay\.(modes\..*|results\.Section))",
    ),
    ("py:.*", r"(httpx|ssl|clob\.wire)\..*|clob\.client\.(calls|steps)\..*"),
    ("py:.*", r"(hypothesis|clob\.testing)\..*|SearchStrategy|DrawFn|BookCommand"),
    ("py:.*", r"clob\.replay\.(samples\.synthetic|io\.digest|report\.run)\..*"),
    ("py:.*", r"(int|str|bool|bytes|object|None|list|tuple|dict|deque)"),
    ("py:.*", r"(Exception|ValueError|TypeError)"),
]


def keep_colons(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Insert a comment above the docstring of an attribute.

    Without it, Napoleon reads the text before a colon in the first line as a type.
    """
    if what in ("attribute", "data"):
        lines[:0] = ["..", ""]


BARRIERS = {
    'role="heading">': 'role="heading" aria-level="2">',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
}
"""Markup of the theme that a screen reader or a keyboard cannot use, and its replacement."""


def remove_barriers(app: Any, error: Exception | None) -> None:
    """Raise captions to the level of a heading, and make wide blocks scroll by keyboard."""
    for path in Path(app.outdir).rglob("*.html"):
        text = wanted = path.read_text("utf-8")
        for markup, replacement in BARRIERS.items():
            wanted = wanted.replace(markup, replacement)
        if wanted != text:
            path.write_text(wanted, "utf-8")


def setup(app: Any) -> None:
    """Run before Napoleon, which has priority 500."""
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    app.connect("build-finished", remove_barriers)
