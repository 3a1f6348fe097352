"""Log lines on standard error: JSON, or plain text on a terminal.

Callers pass fields as ``extra``. Keys, tokens, signatures and bodies are never logged. Other
packages log warnings and errors only, since their lower levels may contain headers.
"""

import logging
import sys
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TextIO

import msgspec

OURS: Final = "clob_server"
"""Parent of all loggers of the server."""

_KNOWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        content = {
            "time": time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return _ENCODER.encode(content).decode()


class PlainFormatter(logging.Formatter):
    """Formats a record as text for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        words = [time_of(record)[11:23], f"{record.levelname.lower():7}", record.getMessage()]
        words += [f"{name}={plain(value)}" for name, value in fields_of(record).items()]
        line = " ".join(words)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def time_of(record: logging.LogRecord) -> str:
    """Return the time of a record in UTC, ISO 8601."""
    when = datetime.fromtimestamp(record.created, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields passed as ``extra``."""
    return {name: value for name, value in vars(record).items() if name not in _KNOWN}


def plain(value: object) -> str:
    """Return a value as one word without control characters."""
    text = str(value)
    simple = text.isprintable() and text and " " not in text
    return text if simple else _ENCODER.encode(text).decode()


def configure(level: str, stream: TextIO | None = None, *, node: str = "") -> None:
    """Configure logging of the process.

    Args:
        level: minimum level of the server's own records.
        stream: output; None for standard error.
        node: name of the node, a field of every line; empty without a cluster.
    """
    out = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(out)
    handler.setFormatter(PlainFormatter() if out.isatty() else JsonFormatter())
    handler.addFilter(is_not_startup_failure)
    if node:
        handler.addFilter(partial(name_node, node))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(OURS).setLevel(level.upper())
    # a closed terminal or pipe must not cause tracebacks
    logging.raiseExceptions = False


def name_node(node: str, record: logging.LogRecord) -> bool:
    """Add the name of the node to a record."""
    record.node = node
    return True


def is_not_startup_failure(record: logging.LogRecord) -> bool:
    """Drop uvicorn's message about a failed start, which the command reports itself."""
    return not (record.name == "uvicorn.error" and "startup failed" in record.getMessage())
