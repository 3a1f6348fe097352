"""Writes streams as recordings, CSV or Parquet, chunk by chunk where the format allows it."""

import gzip
import os
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import numpy as np

from clob.records import EVENT
from clob.replay.files import FilePath
from clob.replay.npz import write_npz
from clob.replay.optional import need
from clob.replay.recording import Records
from clob.replay.streams import Stream


def write_stream(path: FilePath, stream: Stream) -> int:
    """Write a stream in the format that the name of the file ends with.

    ``.csv``, ``.csv.gz`` and ``.parquet`` have the fields of ``EVENT`` as columns and are written
    with bounded memory; ``.npz`` is a recording, and all of it is held.

    Args:
        path: where to; a file that is there already is replaced.
        stream: what to write.

    Returns:
        How many events were written.

    Raises:
        OSError: it cannot be written.
        PackageMissingError: it is Parquet and pyarrow is not installed.
        ReplayFormatError: the input is broken and the policy is to raise.
        ValueError: the name ends with none of these.
    """
    name = os.fspath(path).lower()
    if name.endswith(".npz"):
        recording = stream.collect()
        write_npz(path, recording)
        fills = 0 if recording.fills is None else len(recording.fills)
        return len(recording.seed) + len(recording.events) + fills
    if name.endswith((".csv", ".csv.gz")):
        with closing(_text_file(path)) as file:
            return _write_csv(file, stream)
    if name.endswith(".parquet"):
        return _write_parquet(path, stream)
    raise ValueError(f"cannot tell the format of {Path(path).name!r}: .npz, .csv or .parquet")


def _text_file(path: FilePath) -> IO[bytes]:
    """Open a file for writing, packed if its name says so."""
    if os.fspath(path).lower().endswith(".gz"):
        return gzip.open(path, "wb")  # type: ignore[return-value]
    return open(path, "wb")


def _write_csv(file: IO[bytes], stream: Stream) -> int:
    """Write a header and a line for each event."""
    count = 0
    file.write((",".join(EVENT.names or ()) + "\n").encode())
    for chunk in stream.chunks():
        file.write("".join(",".join(map(str, row)) + "\n" for row in chunk.tolist()).encode())
        count += len(chunk)
    return count


def _write_parquet(path: FilePath, stream: Stream) -> int:
    """Write a row for each event; the grid and the lot are in the metadata of the schema."""
    arrow = need("pyarrow", "Writing Parquet files", "clob[export]")
    parquet = need("pyarrow.parquet", "Writing Parquet files", "clob[export]")
    about = {"lo": stream.lo, "hi": stream.hi, "lot_wei": stream.lot_wei, "name": stream.name}
    empty = _table(arrow, np.zeros(0, EVENT))
    schema = empty.schema.with_metadata({key: str(value) for key, value in about.items()})
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for chunk in stream.chunks():
            writer.write_table(_table(arrow, chunk).cast(schema))
            count += len(chunk)
    return count


def _table(arrow: Any, events: Records) -> Any:
    """Give events as a table of Arrow."""
    names = list(EVENT.names or ())
    return arrow.table([arrow.array(events[name].copy()) for name in names], names=names)
