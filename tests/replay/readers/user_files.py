"""Files as users have them: packed, renamed, converted, joined, and with spoiled lines."""

import bz2
import gzip
import importlib.util
import io
import json
import zipfile

LINE_ENDS = {"CR LF": b"\r\n", "CR": b"\r", "CR CR LF": b"\r\r\n"}
"""Ends of lines that other systems and programs write."""


def zipped(**files):
    """Return a zip archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


def packed(content):
    """Return the compressed forms of a file, by name."""
    half = len(content) // 2
    forms = {
        "gzip": gzip.compress(content),
        "two gzip members": gzip.compress(content[:half]) + gzip.compress(content[half:]),
        "padded gzip": gzip.compress(content) + bytes(100),
        "bzip2": bz2.compress(content),
        "zip": zipped(day=content),
        "zip of macOS": zipped(
            day=content, **{"__MACOSX/._day": b"\0\5\x16\7", ".DS_Store": b"\0"}
        ),
    }
    if importlib.util.find_spec("zstandard"):
        zstandard = importlib.import_module("zstandard")
        forms["Zstandard"] = zstandard.compress(content)
    return forms


def converted(text):
    """Return the same text as other programs save it, by name."""
    ends = {name: text.replace(b"\n", end) for name, end in LINE_ENDS.items()}
    return ends | {
        "UTF-8 with a mark": b"\xef\xbb\xbf" + text,
        "UTF-16": text.decode().encode("utf-16"),
        "UTF-16 of the other order": b"\xfe\xff" + text.decode().encode("utf-16-be"),
        "no last end": text.rstrip(b"\n"),
        "blank lines at the end": text + b"\n \t\n\n",
    }


def rearranged(text):
    """Return JSON lines in the other layouts that programs write, by name."""
    objects = [json.loads(line) for line in text.splitlines()]
    rows = [json.dumps(each).encode() for each in objects]
    return {
        "array": json.dumps(objects).encode(),
        "array of lines": b"[\n" + b",\n".join(rows) + b"\n]\n",
        "indented array": json.dumps(objects, indent=2).encode(),
        "indented objects": b"\n".join(json.dumps(each, indent=1).encode() for each in objects),
    }


def spoiled(text, draw, count):
    """Spoil some lines after the first, each so that no reader can read it.

    Returns:
        The text, the text with blank lines in their place, and their numbers from 1.
    """
    rows = text.rstrip(b"\n").split(b"\n")
    full = [place for place in range(1, len(rows)) if rows[place].strip()]
    places = sorted(draw.sample(full, min(count, len(full))))
    bad, blank = list(rows), list(rows)
    for place in places:
        bad[place] = draw.choice(WAYS)(rows[place])
        blank[place] = b""
    return b"\n".join(bad) + b"\n", b"\n".join(blank) + b"\n", [place + 1 for place in places]


WAYS = (
    lambda row: b"oops",
    lambda row: row[: len(row) // 2],
    lambda row: b"\xff\xfe\x80",
    lambda row: bytes(20),
    lambda row: b"<html>" + row,
    lambda row: b"42",
    lambda row: row.replace(b",", b"", 1) + b"'",
)
"""Ways to spoil a line."""
