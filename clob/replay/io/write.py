"""Writes streams and tables of results as ``.npz``, CSV or Parquet, with bounded memory."""

import gzip
import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from clob.records import EVENT, FILL, Kind
from clob.replay.errors import ReplayFormatError, need
from clob.replay.io.chunk import align_to_commands
from clob.replay.io.files import FilePath
from clob.replay.io.npz import meta_array, without_gaps, write_arrays
from clob.replay.io.recording import Records, split_fills
from clob.replay.io.streams import Stream

WEI_DIGITS = 38
"""Precision of the decimals that hold amounts in wei in Parquet."""

COPY_BYTES = 1 << 20
"""Block size for copying files."""

SUFFIXES = (".npz", ".csv", ".csv.gz", ".parquet")
"""The supported suffixes of output files."""


def write_stream(path: FilePath, stream: Stream) -> int:
    """Write a stream in the format given by the suffix of the file, with bounded memory.

    ``.csv``, ``.csv.gz`` and ``.parquet`` have the fields of ``EVENT`` as columns. ``.npz`` is a
    recording of one book; writing it needs temporary disk space for its uncompressed arrays.
    ``.parquet`` and ``.npz`` keep the names of markets, the scale and the labels of prices; CSV
    has no place for them.

    Args:
        path: the file to write; an existing file is replaced.
        stream: the stream to read.

    Returns:
        The number of events written.

    Raises:
        OSError: the file cannot be written.
        PackageMissingError: the format is Parquet and pyarrow is not installed.
        ReplayFormatError: the input is malformed and the policy is ``"raise"``, or a stream of
            several books is written as a recording.
        ValueError: the suffix is not supported.
    """
    suffix = output_suffix(path)
    if suffix == ".npz":
        return _write_npz(path, stream)
    if suffix == ".parquet":
        return _write_parquet(path, stream)
    return _write_csv(path, EVENT, stream.chunks())


def output_suffix(path: FilePath) -> str:
    """Return the suffix of an output file, which is its format.

    Args:
        path: the file, which need not exist.

    Returns:
        One of ``SUFFIXES``.

    Raises:
        ValueError: the suffix is not supported.
    """
    name = os.fspath(path).lower()
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return suffix
    raise ValueError(f"output file must end in {', '.join(SUFFIXES)}; got {Path(path).name!r}")


# ----- recordings ----------------------------------------------------------------------------


class _Spool:
    """An array that is collected in a temporary file. Records have zeros as their padding."""

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        import tempfile  # noqa: PLC0415 - slow to import and rarely needed

        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by its owner
        self.dtype = dtype
        self.count = 0

    def add(self, records: Records) -> None:
        # As bytes: copying records copies only the fields and leaves the padding undefined.
        self.file.write(without_gaps(records).view(np.uint8).data)
        self.count += len(records)

    def copy_to(self, member: IO[bytes]) -> None:
        """Write the array as an ``.npy`` file."""
        descr = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self.count,)}
        np.lib.format.write_array_header_1_0(member, header)
        self.file.seek(0)
        shutil.copyfileobj(self.file, member, COPY_BYTES)


def _write_npz(path: FilePath, stream: Stream) -> int:
    """Write a recording like :func:`clob.replay.io.npz.write_npz`, but with bounded memory."""
    with ExitStack() as stack:
        spools = {"events": _Spool(EVENT), "seed": _Spool(EVENT), "fills": _Spool(FILL)}
        for spool in spools.values():
            stack.enter_context(spool.file)
        _fill_spools(path, stream, spools)
        content = stack.enter_context(zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED))
        with content.open("meta.npy", "w") as member:
            np.lib.format.write_array(member, meta_array(stream), allow_pickle=False)
        for name, spool in spools.items():
            if name != "fills" or stream.has_fills:
                with content.open(f"{name}.npy", "w", force_zip64=True) as member:
                    spool.copy_to(member)
        return sum(spool.count for spool in spools.values())


def _fill_spools(path: FilePath, stream: Stream, spools: dict[str, _Spool]) -> None:
    """Split a stream into its seed, events and fills."""
    begun = False
    for chunk in align_to_commands(stream.chunks()):
        if (chunk["instrument"] != 0).any():
            raise ReplayFormatError(
                f"{Path(path).name}: a recording holds one book; got a stream of several books. "
                "Write .csv or .parquet instead"
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
    """Write tables of a result: one ``.npz`` for all, or one CSV or Parquet file for each.

    The name of a table goes before the suffix: ``res.parquet`` becomes ``res.fills.parquet``.
    Amounts in wei are strings of digits in ``.csv`` and ``.npz``, ``decimal128(38, 0)`` in Parquet.

    Args:
        path: the file to write; existing files are replaced.
        tables: structured arrays by name.

    Returns:
        The number of rows of each file.

    Raises:
        OSError: a file cannot be written.
        PackageMissingError: the format is Parquet and pyarrow is not installed.
        ValueError: the suffix is not supported.
    """
    suffix = output_suffix(path)
    if suffix == ".npz":
        write_arrays(path, {name: _plain(rows) for name, rows in tables.items()})
        return {Path(path): sum(map(len, tables.values()))}
    counts = {}
    for name, rows in tables.items():
        file = table_path(path, name)
        if suffix == ".parquet":
            need("pyarrow.parquet", "Writing Parquet files", "clob[export]").write_table(
                to_arrow(rows), file, compression="zstd"
            )
        else:
            _write_csv(file, rows.dtype, [rows])
        counts[file] = len(rows)
    return counts


def table_path(path: FilePath, name: str) -> Path:
    """Return the path of the file that :func:`write_tables` uses for a table.

    Args:
        path: the argument of :func:`write_tables`.
        name: the name of the table.

    Returns:
        The path with the name before its suffix; ``path`` itself for ``.npz``.

    Raises:
        ValueError: the suffix is not supported.
    """
    suffix = output_suffix(path)
    if suffix == ".npz":
        return Path(path)
    return Path(f"{os.fspath(path)[: -len(suffix)]}.{name}{suffix}")


def _plain(rows: Records) -> Records:
    """Return rows with Python integers as strings of digits and zeros as padding."""
    columns = {name: rows[name] for name in rows.dtype.names or ()}
    for name, column in columns.items():
        if column.dtype.kind == "O":
            columns[name] = np.array(list(map(str, column)), np.str_)
    plain = np.zeros(len(rows), [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        plain[name] = column
    return plain


def to_arrow(rows: Records) -> Any:
    """Convert a structured array to a ``pyarrow.Table``, see :func:`arrow_table`."""
    columns = {name: rows[name] for name in rows.dtype.names or ()}
    return arrow_table(columns, "Writing Parquet files")


def arrow_table(columns: Mapping[str, npt.NDArray[Any]], purpose: str) -> Any:
    """Convert columns to a ``pyarrow.Table``.

    Python integers become ``decimal128(38, 0)``, and times timestamps in UTC. The purpose starts
    the text of the error.

    Raises:
        PackageMissingError: pyarrow is not installed.
    """
    arrow = need("pyarrow", purpose, "clob[export]")
    converted = {}
    for name, column in columns.items():
        if column.dtype.kind == "O":
            converted[name] = arrow.array(column.tolist(), arrow.decimal128(WEI_DIGITS, 0))
        elif column.dtype.kind == "M":
            converted[name] = arrow.array(column, arrow.timestamp("ns", "UTC"))
        else:
            converted[name] = arrow.array(np.ascontiguousarray(column))
    return arrow.table(converted)


def _csv_lines(rows: Records) -> Iterator[bytes]:
    """Yield rows as lines of CSV, in blocks."""
    for start in range(0, len(rows), 1 << 14):
        part = rows[start : start + (1 << 14)].tolist()
        yield "".join(",".join(map(str, row)) + "\n" for row in part).encode()


def _write_csv(path: FilePath, dtype: np.dtype[Any], chunks: Iterable[Records]) -> int:
    """Write a header and one line per record; compressed if the suffix is ``.gz``."""
    count, is_gzip = 0, os.fspath(path).lower().endswith(".gz")
    with gzip.open(path, "wb") if is_gzip else open(path, "wb") as file:
        file.write((",".join(dtype.names or ()) + "\n").encode())
        for chunk in chunks:
            file.writelines(_csv_lines(chunk))
            count += len(chunk)
    return count


def _write_parquet(path: FilePath, stream: Stream) -> int:
    """Write one row per event; grid, lot, scale and names go into the metadata of the schema."""
    parquet = need("pyarrow.parquet", "Writing Parquet files", "clob[export]")
    metadata = {name: getattr(stream, name) for name in ("lo", "hi", "lot_wei", "scale", "name")}
    metadata["instruments"] = json.dumps(stream.instruments)
    metadata["labels"] = json.dumps(stream.labels)
    metadata["inferred"] = int(stream.inferred)
    schema = to_arrow(np.zeros(0, EVENT)).schema.with_metadata(
        {key: str(value) for key, value in metadata.items()}
    )
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for chunk in stream.chunks():
            writer.write_table(to_arrow(chunk).cast(schema))
            count += len(chunk)
    return count
