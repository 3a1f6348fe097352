"""Lists in pages: how much is asked for, and where they go on."""

from collections.abc import Mapping
from typing import Final

from clob_server.instructions import wrong
from clob_server.problems import Headers

CURSOR_MAX: Final = 2**53
"""What a cursor is below."""
DIGITS_MAX: Final = 17
"""How many digits a number in a query may have."""


def read_number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """Read an integer in a query.

    Raises:
        ApiError: INVALID_FIELD, it is none or out of range.
    """
    given = query.get(name)
    if given is None:
        return default
    if given.isascii() and given.isdigit() and len(given) <= DIGITS_MAX:
        number = int(given)
        if least <= number <= most:
            return number
    raise wrong(name, f"must be an integer from {least} to {most}", given)


def next_page(path: str, query: Mapping[str, object], cursor: int) -> Headers:
    """Say where a list goes on.

    Args:
        path: the path of the list.
        query: what it was asked with, but for the cursor; None is what it was not asked with.
            Nothing in it needs to be quoted.
        cursor: where the next page begins.
    """
    asked = "&".join(f"{name}={value}" for name, value in query.items() if value is not None)
    link = f'<{path}?{asked}&cursor={cursor}>; rel="next"'
    return ((b"link", link.encode()), (b"x-next-cursor", b"%d" % cursor))
