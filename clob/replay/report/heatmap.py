"""Draws the depth of a book over time as an image of time by price.

Bids and asks have one colour each; the opacity follows the logarithm of the size, so that one image
fits light and dark pages.
"""

import base64
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clob.records import LOTS_MAX
from clob.replay.io.recording import Records
from clob.replay.modes.sampling import Depths
from clob.replay.report.formats import number
from clob.replay.report.lines import Scale, Span
from clob.replay.report.tags import Markup, tag

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(pixels: npt.NDArray[np.uint8], palette: list[tuple[int, int, int, int]]) -> bytes:
    """Write a PNG file.

    Args:
        pixels: the palette index of each pixel, by row from the top and column.
        palette: red, green, blue and opacity of each colour, 0 to 255; at most 256 colours.
    """
    height, width = pixels.shape
    # Each row starts with the number of its filter; 0 means unfiltered.
    rows = np.zeros((height, width + 1), np.uint8)
    rows[:, 1:] = pixels
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),
        b"PLTE": bytes(part for colour in palette for part in colour[:3]),
        b"tRNS": bytes(colour[3] for colour in palette),
        b"IDAT": zlib.compress(rows.tobytes(), 9),
        b"IEND": b"",
    }
    return SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks.items()
    )


ROWS_MAX = 200
"""Maximum number of price rows of an image."""

SHADES = 32
"""The number of opacities of each colour."""

FAINT, STRONG = 26, 255
"""The opacity of the smallest and of the largest size."""

FAINT_SHARE = 20
"""One in this many cells has the lowest opacity."""

BID_COLOUR, ASK_COLOUR = (43, 108, 214), (214, 88, 24)

OPACITIES = [
    FAINT + (STRONG - FAINT) * step * (SHADES - 1 + 3 * step) // (4 * (SHADES - 1) ** 2)
    for step in range(SHADES)
]
"""The opacities: they grow faster for large sizes, and no two are equal."""

POINT = 1 << 16
"""The fixed-point unit of the logarithms below."""


class Heat(NamedTuple):
    """A heat map of the depth of one book."""

    image: Markup
    """The image, to go behind a drawing."""
    scale: Scale
    """The vertical scale in **half** ticks, so that a price is the middle of its row."""
    more: dict[str, Any]
    """Data for the tooltip script."""
    least: int
    """The largest size with the lowest opacity, in lots."""
    most: int
    """The largest size, in lots."""
    band: int
    """The number of prices per row."""


def logarithm(size: int) -> int:
    """Return the logarithm of a size to the base 2, linear between powers of two, in 1 / 65,536.

    >>> logarithm(1), logarithm(8) == 3 * POINT, logarithm(12) - logarithm(8) == POINT // 2
    (0, True, True)
    """
    power = size.bit_length() - 1
    return power * POINT + (size * POINT >> power) - POINT


def shade(size: int, least: int, most: int) -> int:
    """Return the opacity index of a size between the smallest and the largest, from 0."""
    width = logarithm(most) - logarithm(least)
    return (logarithm(size) - logarithm(least)) * (SHADES - 1) // width if width else SHADES - 1


def size_of(strength: int, least: int, most: int) -> int:
    """Return approximately the smallest size of an opacity index."""
    width = logarithm(most) - logarithm(least)
    height = logarithm(least) - (-width * strength // (SHADES - 1))
    power, rest = divmod(height, POINT)
    return ((POINT + rest) << power) // POINT


def palette() -> list[tuple[int, int, int, int]]:
    """Return the colours: transparent, then bids by opacity, then asks."""
    return [
        (0, 0, 0, 0),
        *((*colour, opacity) for colour in (BID_COLOUR, ASK_COLOUR) for opacity in OPACITIES),
    ]


def heat(depths: Depths, instrument: int, span: Span, low: int, high: int) -> Heat | None:
    """Draw the heat map of a book; each column of time shows its latest snapshot.

    Returns:
        The heat map, or None if no order rests at prices from ``low`` to ``high``, in ticks.
    """
    levels = depths.levels
    mine = (levels["instrument"] == instrument) & (levels["price"] >= low)
    rows = levels[mine & (levels["price"] <= high) & (levels["size"] > 0)]
    if not len(rows):
        return None
    band = -(-(high - low + 1) // ROWS_MAX)
    height = -(-(high - low + 1) // band)
    cells = _cells(rows, len(depths.times), low, band, height)
    sizes = {size for size in np.unique(cells).tolist() if size}
    ordered = np.sort(np.abs(cells[cells != 0]))
    # A few sizes are far below all others.
    least, most = int(ordered[len(ordered) // FAINT_SHARE]), int(ordered[-1])
    indices = {size: _colour(size, least, most) for size in sizes} | {0: 0}
    known = np.array(sorted(indices))
    colours = np.array([indices[size] for size in known.tolist()], np.uint8)
    pixels = colours[np.searchsorted(known, cells)][_snapshots(depths, span)].T[::-1]
    image = base64.b64encode(png(np.ascontiguousarray(pixels), palette())).decode()
    rows_data = {"low": low, "band": band, "rows": height}
    texts = [number(size_of(step, least, most)) for step in range(SHADES)]
    return Heat(
        image=tag("img", src=f"data:image/png;base64,{image}", alt="", class_="heat"),
        scale=Scale(2 * low - 1, 2 * (low + height * band) - 1),
        more={"heat": {**rows_data, "sizes": texts, "opacities": OPACITIES}},
        least=least,
        most=most,
        band=band,
    )


def _colour(size: int, least: int, most: int) -> int:
    """Return the palette index of a size; sizes of asks are negative."""
    return 1 + shade(max(abs(size), least), least, most) + (SHADES if size < 0 else 0)


def _cells(
    rows: Records, snapshots: int, low: int, band: int, height: int
) -> npt.NDArray[np.int64]:
    """Add up sizes by snapshot and row; asks are negative, the larger side wins."""
    sides = []
    for side in (0, 1):
        some = rows[rows["side"] == side]
        cells = np.zeros((snapshots, height), np.int64)
        # Limits each size so that the sum of a row cannot overflow.
        sizes = np.minimum(some["size"], LOTS_MAX // band)
        np.add.at(cells, (some["snapshot"], (some["price"] - low) // band), sizes)
        sides.append(cells)
    bids, asks = sides
    return np.where(bids >= asks, bids, -asks)


def _snapshots(depths: Depths, span: Span) -> list[int]:
    """Return the snapshot of each column: the last one before its end, or else the first."""
    ends = np.array([end - 1 for end in span.begins()[1:]], np.int64)
    places = np.searchsorted(depths.times, ends, side="right") - 1
    chosen: list[int] = np.maximum(places, 0).tolist()
    return chosen
