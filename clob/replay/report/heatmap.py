"""Paints the depth of a book over time: a picture of time by price, darker where more rests.

Bids and asks have one colour each; how strong it is goes by the logarithm of the size, so that one
picture fits light and dark pages.
"""

import base64
import itertools
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clob.records import LOTS_MAX
from clob.replay.io.recording import Records
from clob.replay.modes.sampling import Depths
from clob.replay.report.lines import Scale, Span
from clob.replay.report.tables import number
from clob.replay.report.tags import Markup, tag

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(pixels: npt.NDArray[np.uint8], palette: list[tuple[int, int, int, int]]) -> bytes:
    """Write a picture.

    Args:
        pixels: the number of the colour of each pixel, by row from the top and column.
        palette: red, green, blue and opacity of each colour, 0 to 255; at most 256.

    Returns:
        The file.
    """
    height, width = pixels.shape
    # Each row begins with the number of its filter; 0 leaves it as it is.
    rows = np.zeros((height, width + 1), np.uint8)
    rows[:, 1:] = pixels
    return b"".join(
        [
            SIGNATURE,
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(part for colour in palette for part in colour[:3])),
            _chunk(b"tRNS", bytes(colour[3] for colour in palette)),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    """Write one part of a file, with its length and its sum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def address(image: bytes) -> str:
    """Write an image as an address that holds all of it."""
    return "data:image/png;base64," + base64.b64encode(image).decode()


ROWS_MAX = 200
"""How many rows of prices a picture has at most."""

SHADES = 32
"""How many strengths each colour has."""

FAINT, STRONG = 26, 255
"""The opacity of the least size and of the largest."""

FAINT_SHARE = 20
"""One in so many cells is painted as faintly as can be."""

BID_COLOUR, ASK_COLOUR = (43, 108, 214), (214, 88, 24)

OPACITIES = [
    FAINT + (STRONG - FAINT) * step * (SHADES - 1 + 3 * step) // (4 * (SHADES - 1) ** 2)
    for step in range(SHADES)
]
"""The opacity of each strength: large sizes stand out, and no two are equal."""

POINT = 1 << 16
"""One, in the logarithms below."""


class Heat(NamedTuple):
    """A picture of the depth of one book."""

    image: Markup
    """The picture, to lie behind a drawing."""
    scale: Scale
    """What its height stands for, in **half** ticks, so that a price is the middle of its row."""
    more: dict[str, Any]
    """What the page needs where one points at it."""
    least: int
    """The size up to which all is painted as faintly, in lots."""
    most: int
    """The largest."""
    band: int
    """How many prices a row stands for."""


def logarithm(size: int) -> int:
    """Give the logarithm of a size to the base 2, straight between its powers.

    Args:
        size: 1 or more.

    Returns:
        It, in units of 1 / 65,536.

    >>> logarithm(1), logarithm(8) == 3 * POINT, logarithm(12) - logarithm(8) == POINT // 2
    (0, True, True)
    """
    power = size.bit_length() - 1
    return power * POINT + (size * POINT >> power) - POINT


def shade(size: int, least: int, most: int) -> int:
    """Give the strength of a size between the least and the largest, from 0 on."""
    width = logarithm(most) - logarithm(least)
    return (logarithm(size) - logarithm(least)) * (SHADES - 1) // width if width else SHADES - 1


def size_of(strength: int, least: int, most: int) -> int:
    """Give a size of that strength: the smallest one, about."""
    width = logarithm(most) - logarithm(least)
    height = logarithm(least) - (-width * strength // (SHADES - 1))
    power, rest = divmod(height, POINT)
    return ((POINT + rest) << power) // POINT


def palette() -> list[tuple[int, int, int, int]]:
    """List the colours: nothing, then the bids from weak to strong, then the asks."""
    return [
        (0, 0, 0, 0),
        *((*colour, opacity) for colour in (BID_COLOUR, ASK_COLOUR) for opacity in OPACITIES),
    ]


def heat(depths: Depths, instrument: int, span: Span, low: int, high: int) -> Heat | None:
    """Paint a book.

    Args:
        depths: the pictures of the books.
        instrument: which book.
        span: the time axis, of which each column shows the latest picture.
        low: the lowest price to show, in ticks.
        high: the highest.

    Returns:
        The picture; None where nothing rests at those prices.
    """
    levels = depths.levels
    mine = (levels["instrument"] == instrument) & (levels["price"] >= low)
    rows = levels[mine & (levels["price"] <= high) & (levels["size"] > 0)]
    if not len(rows):
        return None
    band = -(-(high - low + 1) // ROWS_MAX)
    height = -(-(high - low + 1) // band)
    cells = _cells(rows, len(depths.times), low, band, height)
    taken = {size for size in np.unique(cells).tolist() if size}
    ordered = np.sort(np.abs(cells[cells != 0]))
    # The smallest are few and far below all others.
    least, most = int(ordered[len(ordered) // FAINT_SHARE]), int(ordered[-1])
    strengths = {size: _colour(size, least, most) for size in taken} | {0: 0}
    known = np.array(sorted(strengths))
    colours = np.array([strengths[size] for size in known.tolist()], np.uint8)
    painted = colours[np.searchsorted(known, cells)][_pictures(depths, span)].T[::-1]
    image = address(png(np.ascontiguousarray(painted), palette()))
    about = {"low": low, "band": band, "rows": height}
    texts = [number(size_of(step, least, most)) for step in range(SHADES)]
    return Heat(
        tag("img", src=image, alt="", class_="heat"),
        Scale(2 * low - 1, 2 * (low + height * band) - 1),
        {"heat": {**about, "sizes": texts, "opacities": OPACITIES}},
        least,
        most,
        band,
    )


def _colour(size: int, least: int, most: int) -> int:
    """Give the number of the colour of a size; those of asks are below 0."""
    return 1 + shade(max(abs(size), least), least, most) + (SHADES if size < 0 else 0)


def _cells(rows: Records, pictures: int, low: int, band: int, height: int) -> npt.NDArray[np.int64]:
    """Add up the sizes of each row of each picture; asks below 0, the larger side where both."""
    sides = []
    for side in (0, 1):
        some = rows[rows["side"] == side]
        cells = np.zeros((pictures, height), np.int64)
        # No sum of a row may be too large for its cell.
        sizes = np.minimum(some["size"], LOTS_MAX // band)
        np.add.at(cells, (some["picture"], (some["price"] - low) // band), sizes)
        sides.append(cells)
    bids, asks = sides
    return np.where(bids >= asks, bids, -asks)


def _pictures(depths: Depths, span: Span) -> list[int]:
    """Choose the picture for each column: the last one before it ends, or else the first."""
    begins = span.begins()
    ends = np.array([end - 1 for _, end in itertools.pairwise(begins)], np.int64)
    places = np.searchsorted(depths.times, ends, side="right") - 1
    chosen: list[int] = np.maximum(places, 0).tolist()
    return chosen


# MERGED clob.replay.report.heatmap: Writes a picture of few colours as PNG, and as the address of an image inside a page.
