"""What the server says of itself, on standard error: lines of JSON, or plain ones for people.

Whoever logs gives what belongs to it as ``extra``, by name. Keys, tokens, signatures and bodies are
never given. Of other packages only warnings are let through: what they say beneath that may hold
headers.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import msgspec

OURS: Final = "clob_server"
"""The logger above all of the server's."""

_KNOWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)


class JsonLines(logging.Formatter):
    """Writes a record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
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


class PlainLines(logging.Formatter):
    """Writes a record for people who look at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        told = [time_of(record)[11:23], f"{record.levelname.lower():7}", record.getMessage()]
        told += [f"{name}={plain(value)}" for name, value in fields_of(record).items()]
        line = " ".join(told)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def time_of(record: logging.LogRecord) -> str:
    """Say when it was, in UTC."""
    when = datetime.fromtimestamp(record.created, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Give what came with a record besides its message."""
    return {name: value for name, value in vars(record).items() if name not in _KNOWN}


def plain(value: object) -> str:
    """Write a value so that it stays one word, and cannot move the cursor."""
    text = str(value)
    simple = text.isprintable() and text and " " not in text
    return text if simple else _ENCODER.encode(text).decode()


def begin(level: str, stream: TextIO | None = None) -> None:
    """Have all that is logged written from now on.

    Args:
        level: the least that is written of the server's own.
        stream: where to; None is standard error.
    """
    out = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(out)
    handler.setFormatter(PlainLines() if out.isatty() else JsonLines())
    handler.addFilter(is_news)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(OURS).setLevel(level.upper())
    # A terminal or a pipe that has gone is no reason to say so on it.
    logging.raiseExceptions = False


def is_news(record: logging.LogRecord) -> bool:
    """Say whether nobody else has said it: why the start failed is said as the process ends."""
    return not (record.name == "uvicorn.error" and "startup failed" in record.getMessage())
