"""The recorded stock: twenty minutes of messages of fifty levels, and a book file of ten."""

import numpy as np

from clob.replay.io.problems import Problems
from clob.replay.io.streams import INVENTED_ID
from clob.replay.readers.lobster import read_lobster
from clob.replay.readers.lobster.lines import read_levels
from tests.real.data import data_file

PAIR = "lobster_AAPL_2012-06-21_{}_10_first999.csv"
DEEP = "lobster_AAPL_2012-06-21_0930_0950_message_50.csv"
NAMELESS = INVENTED_ID
"""Ids from here on belong to orders known only from the first line of the book file."""


def read_stream(**options):
    """Read the messages, with the book of their first seconds."""
    return read_lobster(
        data_file(DEEP),
        data_file(PAIR.format("orderbook")),
        orderbook_message=data_file(PAIR.format("message")),
        **options,
    )


def read_books():
    """Return bids and asks of each line of the book file, as price and size."""
    blocks = read_levels(data_file(PAIR.format("orderbook")), Problems(), 100)
    rows = np.concatenate([levels for _, levels in blocks]).reshape(-1, 10, 4)
    return [[row[:, 2:].tolist(), row[:, :2].tolist()] for row in rows]


def read_places():
    """Return for each line of the book file the line of the message before it."""
    lines = data_file(DEEP).read_text().splitlines()
    rows, start = [], 0
    for line in data_file(PAIR.format("message")).read_text().splitlines():
        start = lines.index(line, start) + 1
        rows.append(start)
    return rows


def read_executions():
    """Return the lines of execution messages."""
    lines = data_file(DEEP).read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if line.split(",")[1] == "4"]
