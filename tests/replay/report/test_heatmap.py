"""The heat map of the depth: the decoded image shows the resting sizes."""

import base64
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.records import LOTS_MAX
from clob.replay.modes.sampling import LEVEL, Depths
from clob.replay.report.heatmap import (
    OPACITIES,
    SHADES,
    SIGNATURE,
    heat,
    logarithm,
    palette,
    png,
    shade,
    size_of,
)
from clob.replay.report.lines import Span

sizes = st.integers(1, LOTS_MAX)


def decoded(image):
    """Decode an image to palette indices and the palette."""
    assert image.startswith(SIGNATURE)
    chunks, at = {}, len(SIGNATURE)
    while at < len(image):
        length, kind = struct.unpack(">I4s", image[at : at + 8])
        body = image[at + 8 : at + 8 + length]
        (sum_of,) = struct.unpack(">I", image[at + 8 + length : at + 12 + length])
        assert sum_of == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    colours = zip(*[iter(chunks[b"PLTE"])] * 3, strict=True)
    return rows[:, 1:], [(*one, clear) for one, clear in zip(colours, chunks[b"tRNS"], strict=True)]


@given(st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=5))
def test_image_is_read_back(rows):
    colours = [(1, 2, 3, 0), (4, 5, 6, 128), (7, 8, 9, 255)]
    pixels, known = decoded(png(np.array(rows, np.uint8), colours))
    assert (pixels.tolist(), known) == (rows, colours)


@given(sizes, sizes)
def test_logarithms_grow_with_the_size(one, other):
    if one < other:
        assert logarithm(one) <= logarithm(other)
    assert logarithm(2 * one) == logarithm(one) + logarithm(2)


@given(st.lists(sizes, min_size=3, max_size=3))
def test_shades_grow_with_the_size_and_are_reversible(made):
    least, size, most = sorted(made)
    strength = shade(size, least, most)
    assert 0 <= strength < SHADES
    assert shade(most, least, most) == SHADES - 1
    if least < most:
        assert abs(size_of(0, least, most) - least) <= least // 10_000 + 1
        assert size_of(strength, least, most) <= size + size // 1_000 + 1


def test_shades_are_distinct():
    assert sorted(set(OPACITIES)) == OPACITIES
    assert len(set(palette())) == 1 + 2 * SHADES


def levels_of(*rows):
    return np.array(list(rows), LEVEL)


def test_resting_size_is_drawn_at_its_price():
    depths = Depths(
        np.array([4, 9], np.int64),
        levels_of((0, 0, 0, 10, 5), (0, 0, 1, 12, 80), (1, 0, 0, 11, 80), (1, 2, 0, 12, 9)),
    )
    found = heat(depths, 0, Span(0, 9, 2), 10, 12)
    address = found.image.split('src="data:image/png;base64,')[1].split('"')[0]
    pixels, _ = decoded(base64.b64decode(address))
    faint, strong = 1, SHADES
    # The highest price is the first row; the two snapshots are the columns.
    assert pixels.tolist() == [[strong + SHADES, 0], [0, strong], [faint, 0]]
    assert (found.scale.low, found.scale.high) == (19, 25)
    assert found.more["heat"]["sizes"][0] == "5"
    assert found.more["heat"]["sizes"][-1] == "80"


def test_row_sums_do_not_overflow():
    rows = [(0, 0, 0, price, LOTS_MAX) for price in range(1, 1_001)]
    found = heat(Depths(np.array([9], np.int64), levels_of(*rows)), 0, Span(0, 9, 1), 1, 1_000)
    assert found.band == 5
    assert found.most == LOTS_MAX // 5 * 5
    assert heat(Depths(np.array([9], np.int64), levels_of()), 0, Span(0, 9, 1), 1, 9) is None


@pytest.mark.parametrize("instrument", [0])
def test_last_column_matches_the_book(plain, instrument):
    setting, depths = plain.setting, plain.depths
    span = Span(setting.start_ns, setting.last_ns, 50)
    found = heat(depths, instrument, span, setting.lo, setting.hi)
    pixels, _ = decoded(base64.b64decode(found.image.split("base64,")[1].split('"')[0]))
    book = plain.books[instrument].depth()
    painted = {setting.hi - row for row in np.flatnonzero(pixels[:, -1]).tolist()}
    assert painted == {level.price for level in (*book.bids, *book.asks)}
