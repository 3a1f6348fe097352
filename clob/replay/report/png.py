"""Writes a picture of few colours as PNG, and as the address of an image inside a page."""

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

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
