"""Writes a stream once to an uncompressed file that several processes map into memory."""

import dataclasses
import hashlib
import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from clob.records import EVENT
from clob.replay.io.npz import without_gaps
from clob.replay.io.recording import Records
from clob.replay.io.streams import CHUNK, Instrument, Stream

EVENTS_FILE = "events.bin"
"""Name of the file of events: ``EVENT`` records without a header."""

SHAPE = ("lo", "hi", "lot_wei", "has_fills", "scale", "inferred")
"""Attributes of a stream that affect its runs, besides its events and instruments."""

TITLES = ("name", "note", "labels")
"""Attributes of a stream for people."""


@dataclasses.dataclass(frozen=True)
class MappedStream:
    """A stream in an uncompressed file. It can be pickled; each process maps the file itself."""

    path: str
    """The file of events."""
    events: int
    """Number of events."""
    digest: str
    """Hash of the events, the grid and the instruments; names and notes do not count."""
    fields: dict[str, Any]
    """The keyword arguments of the stream."""

    def open(self) -> Stream:
        """Return a stream over the mapped file. Its pages are shared between processes.

        Raises:
            OSError: the file cannot be read.
        """
        events = self._map()

        def blocks() -> Iterator[Records]:
            for start in range(0, len(events), CHUNK):
                yield events[start : start + CHUNK]

        instruments = [Instrument(*one) for one in self.fields["instruments"]]
        return Stream(blocks, **self.fields | {"instruments": instruments})

    def _map(self) -> Records:
        if not self.events:
            return np.zeros(0, EVENT)
        with open(self.path, "rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(pages, EVENT)


def map_stream(stream: Stream, folder: str | os.PathLike[str]) -> MappedStream:
    """Write a stream to an uncompressed file in a folder: 56 bytes for each event.

    Args:
        stream: the stream, read once.
        folder: an existing folder; a file ``events.bin`` in it is replaced.

    Returns:
        The mapped stream; the file belongs to the caller.

    Raises:
        OSError: the file cannot be written.
        ReplayFormatError: the input is malformed and the policy is ``"raise"``.
    """
    path, count = Path(folder, EVENTS_FILE), 0
    content = hashlib.blake2b(digest_size=32)
    with open(path, "wb") as file:
        for chunk in stream.borrowed():
            packed = without_gaps(chunk).view(np.uint8).data
            content.update(packed)
            file.write(packed)
            count += len(chunk)
    instruments = [list(one) for one in stream.instruments]
    fields = {name: getattr(stream, name) for name in (*SHAPE, *TITLES)}
    numbers = [one.number for one in stream.instruments]
    shape = json.dumps([fields[name] for name in SHAPE] + [numbers])
    content.update(shape.encode())
    fields["instruments"] = instruments
    return MappedStream(os.fspath(path), count, content.hexdigest(), fields)
