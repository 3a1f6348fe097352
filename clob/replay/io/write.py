"""Writes streams as recordings, CSV or Parquet, and tables of results, chunk by chunk."""

import gzip
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from clob.records import EVENT, FILL, Kind
from clob.replay.errors import ReplayFormatError, need
from clob.replay.io.chunk import whole
from clob.replay.io.files import FilePath
from clob.replay.io.npz import FORMAT, META_FIELDS, VERSION
from clob.replay.io.recording import Records, split_fills
from clob.replay.io.streams import Stream

WEI_DIGITS = 38
"""How many decimal digits an amount in wei may have in a table of Parquet."""

COPY_BYTES = 1 << 20
"""How much is copied at a time."""

SUFFIXES = (".npz", ".csv", ".csv.gz", ".parquet")
"""What the name of a file that is written may end with."""


def write_stream(path: FilePath, stream: Stream) -> int:
    """Write a stream in the format that the name of the file ends with, with bounded memory.

    ``.csv``, ``.csv.gz`` and ``.parquet`` have the fields of ``EVENT`` as columns. ``.npz`` is a
    recording, which is of one book; it needs room on the disk for its arrays, unpacked.

    Args:
        path: where to; a file that is there already is replaced.
        stream: what to write.

    Returns:
        How many events were written.

    Raises:
        OSError: it cannot be written.
        PackageMissingError: it is Parquet and pyarrow is not installed.
        ReplayFormatError: the input is broken and the policy is to raise; or it is of several
            books, and the file a recording.
        ValueError: the name ends with none of these.
    """
    ending = ending_of(path)
    if ending == ".npz":
        return _write_npz(path, stream)
    if ending == ".parquet":
        return _write_parquet(path, stream)
    with closing(_text_file(path)) as file:
        return _write_csv(file, stream)


def ending_of(path: FilePath) -> str:
    """Tell the format by the name of a file that is to be written.

    Args:
        path: the file, there or not.

    Returns:
        One of ``SUFFIXES``.

    Raises:
        ValueError: the name ends with none of them.
    """
    name = os.fspath(path).lower()
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return suffix
    raise ValueError(f"cannot tell the format of {Path(path).name!r}: {', '.join(SUFFIXES)}")


# ----- recordings ----------------------------------------------------------------------------


class _Spool:
    """An array that is put together on the disk."""

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        import tempfile  # noqa: PLC0415 - slow to import, and seldom needed

        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by its owner
        self.dtype = dtype
        self.count = 0

    def add(self, records: Records) -> None:
        """Put records at the end, the unused bytes between their fields zero."""
        plain = np.zeros(len(records), self.dtype)
        for field in self.dtype.names or ():
            plain[field] = records[field]
        # As plain bytes: what copies records copies their fields, and not what is between them.
        self.file.write(plain.view(np.uint8).data)
        self.count += len(records)

    def copy_to(self, member: IO[bytes]) -> None:
        """Write it as a file of NumPy."""
        _write_header(member, self.dtype, self.count)
        self.file.seek(0)
        shutil.copyfileobj(self.file, member, COPY_BYTES)


def _write_header(member: IO[bytes], dtype: np.dtype[Any], count: int) -> None:
    """Write what a file of NumPy begins with."""
    about = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": (count,),
    }
    np.lib.format.write_array_header_1_0(member, about)


def _write_npz(path: FilePath, stream: Stream) -> int:
    """Write a recording: what :func:`clob.replay.io.npz.write_npz` writes, but not out of memory."""
    with ExitStack() as stack:
        spools = {"events": _Spool(EVENT), "seed": _Spool(EVENT), "fills": _Spool(FILL)}
        for spool in spools.values():
            stack.enter_context(spool.file)
        _fill_spools(path, stream, spools)
        meta = {"format": FORMAT, "version": VERSION}
        meta |= {field: getattr(stream, field) for field in META_FIELDS}
        content = stack.enter_context(zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED))
        with content.open("meta.npy", "w") as member:
            text = np.frombuffer(json.dumps(meta).encode(), np.uint8)
            np.lib.format.write_array(member, text, allow_pickle=False)
        for name, spool in spools.items():
            if name != "fills" or stream.has_fills:
                with content.open(f"{name}.npy", "w", force_zip64=True) as member:
                    spool.copy_to(member)
        return sum(spool.count for spool in spools.values())


def _fill_spools(path: FilePath, stream: Stream, spools: dict[str, _Spool]) -> None:
    """Part a stream in the seed it begins with, events and fills."""
    begun = False
    for chunk in whole(stream.chunks()):
        if (chunk["instrument"] != 0).any():
            raise ReplayFormatError(
                f"{Path(path).name}: a recording is of one book, and the stream of several; "
                ".csv and .parquet can have them"
            )
        others = np.flatnonzero(chunk["kind"] != Kind.SEED)
        start = 0 if begun else int(others[0]) if len(others) else len(chunk)
        begun |= start < len(chunk)
        events, fills = split_fills(chunk[start:])
        fills["event"] += np.uint64(spools["events"].count)
        spools["seed"].add(chunk[:start])
        spools["events"].add(events)
        spools["fills"].add(fills)


# ----- tables --------------------------------------------------------------------------------


def write_tables(path: FilePath, tables: Mapping[str, Records]) -> dict[Path, int]:
    """Write tables of a result: one ``.npz`` for all, or a file of CSV or Parquet for each.

    The name of a table stands before the ending: ``res.parquet`` becomes ``res.fills.parquet``.
    Amounts in wei are digits in ``.csv`` and ``.npz``, and decimals of 38 digits in Parquet.

    Args:
        path: where to; files that are there already are replaced.
        tables: structured arrays by their names.

    Returns:
        How many rows each file has.

    Raises:
        OSError: it cannot be written.
        PackageMissingError: it is Parquet and pyarrow is not installed.
        ValueError: the name ends with none of the formats.
    """
    ending = ending_of(path)
    if ending == ".npz":
        _write_arrays(path, tables)
        return {Path(path): sum(map(len, tables.values()))}
    counts = {}
    for name, rows in tables.items():
        file = place_of(path, name)
        if ending == ".parquet":
            need("pyarrow.parquet", "Writing Parquet files", "clob[export]").write_table(
                to_arrow(rows), file, compression="zstd"
            )
        else:
            with closing(_text_file(file)) as text:
                text.write((",".join(rows.dtype.names or ()) + "\n").encode())
                text.writelines(_csv_lines(rows))
        counts[file] = len(rows)
    return counts


def place_of(path: FilePath, name: str) -> Path:
    """Tell into which file a table goes.

    Args:
        path: what :func:`write_tables` is given.
        name: the name of the table.

    Returns:
        The path of that file, which is the one given where it holds all of them.

    Raises:
        ValueError: the name of the path ends with none of the formats.
    """
    ending = ending_of(path)
    if ending == ".npz":
        return Path(path)
    return Path(f"{os.fspath(path)[: -len(ending)]}.{name}{ending}")


def _write_arrays(path: FilePath, tables: Mapping[str, Records]) -> None:
    """Write tables as the arrays of one file; the same tables give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, rows in tables.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _plain(rows), allow_pickle=False)


def _plain(rows: Records) -> Records:
    """Give rows in which Python integers are digits, and unused bytes zero."""
    columns: dict[str, npt.NDArray[Any]] = {}
    for name in rows.dtype.names or ():
        column = rows[name]
        is_text = column.dtype.kind == "O"
        columns[name] = np.array(list(map(str, column)), np.str_) if is_text else column
    dtype = np.dtype([(name, column.dtype) for name, column in columns.items()])
    plain = np.zeros(len(rows), dtype)
    for name, column in columns.items():
        plain[name] = column
    return plain


def to_arrow(rows: Records) -> Any:
    """Give a structured array to Arrow; Python integers become decimals of 38 digits.

    Args:
        rows: the array.

    Returns:
        A ``pyarrow.Table``.

    Raises:
        PackageMissingError: pyarrow is not installed.
    """
    arrow = need("pyarrow", "Writing Parquet files", "clob[export]")
    columns = {}
    for name in rows.dtype.names or ():
        if rows.dtype[name].kind == "O":
            columns[name] = arrow.array(rows[name].tolist(), arrow.decimal128(WEI_DIGITS, 0))
        else:
            columns[name] = arrow.array(np.ascontiguousarray(rows[name]))
    return arrow.table(columns)


def _csv_lines(rows: Records) -> Iterator[bytes]:
    """Write rows as lines, some at a time."""
    for start in range(0, len(rows), 1 << 14):
        part = rows[start : start + (1 << 14)].tolist()
        yield "".join(",".join(map(str, row)) + "\n" for row in part).encode()


# ----- events --------------------------------------------------------------------------------


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
        file.writelines(_csv_lines(chunk))
        count += len(chunk)
    return count


def _write_parquet(path: FilePath, stream: Stream) -> int:
    """Write a row for each event; grid, lot and scale are in the metadata of the schema."""
    parquet = need("pyarrow.parquet", "Writing Parquet files", "clob[export]")
    about = {name: getattr(stream, name) for name in ("lo", "hi", "lot_wei", "scale", "name")}
    schema = to_arrow(np.zeros(0, EVENT)).schema.with_metadata(
        {key: str(value) for key, value in about.items()}
    )
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for chunk in stream.chunks():
            writer.write_table(to_arrow(chunk).cast(schema))
            count += len(chunk)
    return count
