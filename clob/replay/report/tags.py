"""Writes HTML and SVG: whatever is not markup already is escaped."""

import html
from collections.abc import Iterable


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Escape what is not markup.

    >>> text("<b>"), text(Markup("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def together(parts: Iterable[object]) -> Markup:
    """Write parts behind one another, escaping those that are no markup."""
    return Markup("".join(map(text, parts)))


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """Write an element.

    Args:
        name: of the element; with nothing inside it must be one that SVG or HTML lets be empty.
        inside: what stands in it.
        attributes: ``aria_label`` is written ``aria-label``, ``class_`` is ``class``; None and
            False are left out, True has no value.

    >>> tag("p", "a < b", class_="faint", hidden=True)
    '<p class="faint" hidden>a &lt; b</p>'
    """
    told = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _EMPTY:
        return Markup(f"<{name}{told}>")
    return Markup(f"<{name}{told}>{together(inside)}</{name}>")


_EMPTY = frozenset({"img", "meta", "br"})


def _attribute(key: str, value: object) -> str:
    """Write an attribute, or nothing."""
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
