"""Files of rows, written as they come: JSON lines, or Parquet a group of rows at a time."""

import importlib
from pathlib import Path
from typing import Any, Final, Protocol, get_args

import msgspec

from clob_server.wire import Wire

GROUP_ROWS: Final = 50_000
"""How many rows of a table are held until they are written as a group of Parquet."""

_encode: Final = msgspec.json.Encoder().encode


class Sink(Protocol):
    """Takes the rows of a table."""

    def write(self, row: Wire) -> None:
        """Take one."""

    def close(self) -> None:
        """Write what is left, durably."""


class Lines:
    """A file of JSON lines.

    Args:
        path: the file, which must not be there.
    """

    def __init__(self, path: Path, _: type[Wire]) -> None:
        self._file = path.open("xb")

    def write(self, row: Wire) -> None:
        """Write a line."""
        self._file.write(_encode(row) + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Parquet:
    """A file of Parquet.

    Args:
        path: the file, which must not be there.
        kind: what the rows are.
    """

    def __init__(self, path: Path, kind: type[Wire]) -> None:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
        self._table = arrow.Table.from_pylist
        self._schema = arrow.schema(
            [
                (field.encode_name, column(arrow, field.type))
                for field in msgspec.structs.fields(kind)
            ]
        )
        self._rows: list[dict[str, Any]] = []
        self._file = path.open("xb")
        self._writer = parquet.ParquetWriter(self._file, self._schema)

    def write(self, row: Wire) -> None:
        """Take a row; groups of them are written."""
        self._rows.append(msgspec.to_builtins(row))
        if len(self._rows) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Write a group."""
        self._writer.write_table(self._table(self._rows, schema=self._schema))
        self._rows.clear()

    def close(self) -> None:
        """Write the last group, and close the file."""
        if self._rows:
            self._flush()
        self._writer.close()
        self._file.close()


def column(arrow: Any, annotation: Any) -> Any:
    """Give the type of a column."""
    kinds = set(get_args(annotation) or (annotation,))
    if int in kinds:
        return arrow.int64()
    return arrow.bool_() if bool in kinds else arrow.string()
