"""``eth_getLogs``: logs by block, address and topics."""

from typing import Any, Final

import msgspec

from clob_server.chain.devchain.chain import TOPICS_MAX, DevelopmentChain
from clob_server.chain.devchain.errors import LIMIT_EXCEEDED, RequestError, invalid
from clob_server.chain.devchain.params import address, block_number, fields, shown, word

LOGS_MAX: Final = 10_000
"""Logs per response, at most."""
CHOICES_MAX: Final = 1000
"""Addresses or alternatives per topic in a filter, at most."""


def find_logs(chain: DevelopmentChain, given: object) -> list[msgspec.Raw]:
    """Return the logs of a filter, oldest first.

    A table with an index on address and first topic avoids scans and bloom filters.

    Raises:
        RequestError: the filter is invalid or matches too many logs.
    """
    wanted = fields(given, "filter")
    conditions, values = _blocks(chain, wanted)
    if "address" in wanted:
        _choose(conditions, values, "address", _alternatives(wanted["address"], address, "address"))
    topics = wanted.get("topics", [])
    if not isinstance(topics, list) or len(topics) > TOPICS_MAX:
        expected = f"a list of at most {TOPICS_MAX}"
        raise invalid(f"filter.topics: expected {expected}; got {shown(topics)}")
    for place, topic in enumerate(topics):
        if topic is not None:
            _choose(conditions, values, f"topic{place}", _alternatives(topic, word, "topics"))
    query = f"SELECT body FROM logs WHERE {' AND '.join(conditions)} ORDER BY block, place LIMIT ?"
    rows = chain.store.rows(query, *values, LOGS_MAX + 1)
    if len(rows) > LOGS_MAX:
        raise RequestError(f"query returned more than {LOGS_MAX} results", LIMIT_EXCEEDED)
    return [msgspec.Raw(row[0]) for row in rows]


def _blocks(chain: DevelopmentChain, wanted: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """Return the condition on blocks."""
    if "blockHash" not in wanted:
        bounds = (
            block_number(chain, wanted.get(name, "latest"), f"filter.{name}")
            for name in ("fromBlock", "toBlock")
        )
        return ["block BETWEEN ? AND ?"], list(bounds)
    if "fromBlock" in wanted or "toBlock" in wanted:
        raise invalid("filter: blockHash excludes fromBlock and toBlock")
    return ["block=?"], [chain.number_of(word(wanted["blockHash"], "filter.blockHash"))]


def _alternatives(given: object, read: Any, name: str) -> list[bytes]:
    """Parse one value or a list of alternatives; an empty list matches everything."""
    listed = given if isinstance(given, list) else [given]
    if len(listed) > CHOICES_MAX:
        raise invalid(f"filter.{name}: expected at most {CHOICES_MAX} values; got {len(listed)}")
    return [read(each, f"filter.{name}") for each in listed]


def _choose(
    conditions: list[str], values: list[Any], column: str, alternatives: list[bytes]
) -> None:
    """Add a condition that matches one of several values."""
    if alternatives:
        conditions.append(f"{column} IN ({', '.join('?' * len(alternatives))})")
        values += alternatives
