"""The logs of the chain, found by block, address and topics."""

from typing import Any, Final

import msgspec

from clob_server.chain.devchain.chain import TOPICS_MAX, DevelopmentChain
from clob_server.chain.devchain.errors import LIMIT_EXCEEDED, RefusedError, invalid
from clob_server.chain.devchain.params import address, block_named, fields, shown, word

LOGS_MAX: Final = 10_000
"""How many logs one answer has at most."""
CHOICES_MAX: Final = 1000
"""How many addresses, or alternatives for a topic, may be asked for at once."""


def find_logs(chain: DevelopmentChain, given: object) -> list[msgspec.Raw]:
    """Give the logs that a filter asks for, the oldest first.

    They are kept in a table with an index of their address and first topic, so that nothing is
    scanned, and no bloom filter is needed.

    Args:
        chain: the chain.
        given: the filter of ``eth_getLogs``.

    Raises:
        RefusedError: the filter is none, or it finds too many.
    """
    wanted = fields(given, "filter")
    conditions, values = _blocks(chain, wanted)
    if "address" in wanted:
        _choose(conditions, values, "address", _alternatives(wanted["address"], address, "address"))
    topics = wanted.get("topics", [])
    if not isinstance(topics, list) or len(topics) > TOPICS_MAX:
        raise invalid(f"filter.topics: a list of at most {TOPICS_MAX}, not {shown(topics)}")
    for place, topic in enumerate(topics):
        if topic is not None:
            _choose(conditions, values, f"topic{place}", _alternatives(topic, word, "topics"))
    query = f"SELECT body FROM logs WHERE {' AND '.join(conditions)} ORDER BY block, place LIMIT ?"
    rows = chain.store.rows(query, *values, LOGS_MAX + 1)
    if len(rows) > LOGS_MAX:
        raise RefusedError(f"query returned more than {LOGS_MAX} results", LIMIT_EXCEEDED)
    return [msgspec.Raw(row[0]) for row in rows]


def _blocks(chain: DevelopmentChain, wanted: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """Say of which blocks."""
    if "blockHash" not in wanted:
        bounds = [_number(chain, wanted, "fromBlock"), _number(chain, wanted, "toBlock")]
        return ["block BETWEEN ? AND ?"], bounds
    if "fromBlock" in wanted or "toBlock" in wanted:
        raise invalid("filter: blockHash stands alone, without fromBlock and toBlock")
    block_hash = word(wanted["blockHash"], "filter.blockHash")
    row = chain.store.row("SELECT number FROM blocks WHERE hash=?", block_hash)
    if row is None:
        raise RefusedError("unknown block")
    return ["block=?"], [row[0]]


def _number(chain: DevelopmentChain, wanted: dict[str, Any], name: str) -> int:
    """Read a bound; the newest block where there is none."""
    number = block_named(wanted.get(name, "latest"), f"filter.{name}")
    newest = chain.head.block_number
    return newest if isinstance(number, str) else min(number, newest + 1)


def _alternatives(given: object, read: Any, name: str) -> list[bytes]:
    """Read one value, or a list of values of which one must fit; an empty list asks for nothing."""
    listed = given if isinstance(given, list) else [given]
    if len(listed) > CHOICES_MAX:
        raise invalid(f"filter.{name}: at most {CHOICES_MAX}, not {len(listed)}")
    return [read(each, f"filter.{name}") for each in listed]


def _choose(
    conditions: list[str], values: list[Any], column: str, alternatives: list[bytes]
) -> None:
    """Ask for one of several values."""
    if alternatives:
        conditions.append(f"{column} IN ({', '.join('?' * len(alternatives))})")
        values += alternatives
