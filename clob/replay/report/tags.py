"""Writes HTML and SVG elements; text that is not markup is escaped."""

import html
from collections.abc import Iterable


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Escape text that is not markup.

    >>> text("<b>"), text(Markup("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def together(parts: Iterable[object]) -> Markup:
    """Concatenate parts, escaping those that are not markup."""
    return Markup("".join(map(text, parts)))


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """Write an element.

    Args:
        name: the name of the element.
        inside: the content; ignored for elements that HTML does not close.
        attributes: ``aria_label`` becomes ``aria-label`` and ``class_`` becomes ``class``; None and
            False are left out, True has no value.

    >>> tag("p", "a < b", class_="faint", hidden=True)
    '<p class="faint" hidden>a &lt; b</p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{together(inside)}</{name}>")


_EMPTY = frozenset({"img", "meta", "br"})


def _attribute(key: str, value: object) -> str:
    """Write an attribute, or nothing for None and False."""
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
