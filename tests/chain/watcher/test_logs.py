"""Logs of the exchange contract, and read blocks after a reorganisation."""

import asyncio

import pytest

from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import WALLETS
from clob_server.chain.eth.rpc import NodeInvalidResponseError
from clob_server.chain.events import Permission
from clob_server.chain.operations.calls import APPROVED, TOKEN_TRANSFERRED, TRANSFERRED
from clob_server.chain.watcher.logs import (
    APPROVED_ALL,
    CANCELLED,
    DELEGATE_SET,
    GASLESS_SET,
    PAYEE_SET,
    RAISED,
    WALLETS_MAX,
    RelevantLogs,
    log_requests,
    topic_address,
    topic_of,
)
from clob_server.chain.watcher.watcher import BLOCKS_PER_BATCH, KEPT_BLOCKS, Block, ReadBlocks

ONE, TWO, THREE = (wallet.address for wallet in WALLETS[:3])
EXCHANGE, COLLATERAL = DEVELOPMENT.exchange, DEVELOPMENT.collateral
TOKENS = DEVELOPMENT.conditional_tokens
HASH = f"0x{'ab' * 32}"


def log(address, event, *topics, data=0, block=1, place=0):
    """Return a log as a node reports it."""
    return {
        "address": address.lower(),
        "topics": [
            event.topic,
            *(topic if len(topic) == 66 else topic_of(topic) for topic in topics),
        ],
        "data": data if isinstance(data, str) else f"0x{data:064x}",
        "blockNumber": hex(block),
        "logIndex": hex(place),
        "transactionHash": HASH,
    }


def read_events(*logs, wallets=(ONE,)):
    """Return the events of logs for a server that knows some wallets."""
    events = RelevantLogs(DEVELOPMENT, wallets)
    events.process(logs)
    return events


def test_address_round_trips_through_a_topic():
    assert len(topic_of(ONE)) == 66
    assert topic_address(topic_of(ONE)) == ONE


def test_logs_are_deduplicated_and_ordered():
    later = log(EXCHANGE, DELEGATE_SET, ONE, TWO, data=0, block=16, place=2)
    first = log(EXCHANGE, DELEGATE_SET, ONE, TWO, data=1, block=16, place=1)
    events = read_events(later, first, later).permissions
    expected = [
        Permission(kind="delegate", owner=ONE, other=TWO, allowed=is_so) for is_so in (True, False)
    ]
    assert events == [(16, each) for each in expected]


def test_owners_and_payees_become_known_wallets():
    events = read_events(
        log(EXCHANGE, GASLESS_SET, ONE, data=1, place=1),
        log(EXCHANGE, PAYEE_SET, TWO, THREE, data=1, place=2),
        log(COLLATERAL, APPROVED, TWO, EXCHANGE, place=3),
    )
    assert list(events.wallets) == [TWO, THREE]
    assert events.allowing == {TWO}
    assert [each.other for _, each in events.permissions] == [ONE, THREE]


@pytest.mark.parametrize(
    "foreign",
    [
        log(COLLATERAL, APPROVED, TWO, THREE),
        log(TOKENS, APPROVED_ALL, TWO, THREE, data=1),
        log(TWO, APPROVED, TWO, EXCHANGE),
        log(TWO, TRANSFERRED, ONE, TWO),
        log(COLLATERAL, TRANSFERRED, TWO, THREE),
        log(COLLATERAL, RAISED, TWO, data=f"0x{5:064x}{6:064x}"),
        {**log(COLLATERAL, TRANSFERRED), "topics": []},
    ],
)
def test_logs_of_others_are_ignored(foreign):
    events = read_events(foreign)
    assert not events.wallets
    assert not (events.allowing | events.approving | events.paying | events.paid)
    assert not [*events.raised, *events.permissions, *events.results]


def test_transfers_of_known_wallets_are_recorded():
    events = read_events(
        log(COLLATERAL, TRANSFERRED, ONE, TWO, data=5),
        log(COLLATERAL, TRANSFERRED, TWO, ONE, place=1),
    )
    assert (events.paying, events.paid) == ({ONE}, {ONE})
    moved = log(TOKENS, TOKEN_TRANSFERRED, THREE, TWO, ONE, data=f"0x{7:064x}{9:064x}")
    assert read_events(moved).tokens == {(ONE, 7)}


def test_raised_nonces_and_cancelled_orders_are_recorded():
    raised = log(EXCHANGE, RAISED, ONE, data=f"0x{5:064x}{600:064x}")
    cancelled = log(EXCHANGE, CANCELLED, HASH, ONE, data=600, place=1)
    events = read_events(raised, cancelled)
    assert [(each.maker, each.nonce) for each in events.raised] == [(ONE, "5")]
    assert events.cancelled == [HASH]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {
            "address": EXCHANGE,
            "topics": [GASLESS_SET.topic],
            "blockNumber": "0x1",
            "logIndex": "0x0",
        },
        {**log(EXCHANGE, RAISED, ONE), "data": "0x"},
        {**log(EXCHANGE, GASLESS_SET, ONE), "blockNumber": None},
        {**log(EXCHANGE, GASLESS_SET, ONE), "topics": 5},
    ],
)
def test_malformed_log_raises_an_error(wrong):
    with pytest.raises(NodeInvalidResponseError):
        read_events(wrong)


def test_many_wallets_are_split_across_requests():
    wallets = [f"0x{number:040x}" for number in range(WALLETS_MAX + 1)]
    filters = [params[0] for _, params in log_requests(DEVELOPMENT, wallets, 5, 9)]
    assert {(each["fromBlock"], each["toBlock"]) for each in filters} == {("0x5", "0x9")}
    named = [len(topics[-1]) for each in filters if len(topics := each["topics"]) > 1]
    assert sorted(named[1:]) == [1, 1, 1, WALLETS_MAX, WALLETS_MAX, WALLETS_MAX]
    assert len(log_requests(DEVELOPMENT, [], 5, 9)) == 2


# ----- read blocks after a reorganisation ----------------------------------------------------


class Chain:
    """A node that knows the hashes of its blocks."""

    def __init__(self, *hashes):
        self.hashes = hashes
        self.num_requests = 0

    async def batch(self, requests):
        """Answer requests for blocks."""
        self.num_requests += len(requests)
        numbers = [int(params[0], 16) for _, params in requests]
        return [
            {"number": hex(number), "hash": self.hashes[number]}
            if number < len(self.hashes)
            else None
            for number in numbers
        ]


def blocks_of(*hashes):
    """Return read blocks with these hashes."""
    blocks = ReadBlocks()
    for number, each in enumerate(hashes):
        blocks.add(Block(number, each))
    return blocks


@pytest.mark.parametrize(
    ("now", "last"),
    [
        ("abcd", 3),
        ("abcx", 2),
        ("abxxxx", 1),
        ("ab", 1),
        ("xbcd", 3),
        ("xxxx", None),
        ("", None),
    ],
)
def test_read_blocks_return_to_the_newest_block_on_the_chain(now, last):
    blocks = blocks_of(*"abcd")
    asyncio.run(blocks.drop_removed(Chain(*now)))
    assert (None if blocks.last is None else blocks.last.number) == last


def test_deep_reorganisation_checks_blocks_in_batches():
    hashes = [f"block {number}" for number in range(KEPT_BLOCKS + 500)]
    blocks = blocks_of(*hashes)
    chain = Chain(*hashes[: KEPT_BLOCKS + 500 - BLOCKS_PER_BATCH - 10])
    asyncio.run(blocks.drop_removed(chain))
    number = KEPT_BLOCKS + 500 - BLOCKS_PER_BATCH - 11
    assert blocks.last == Block(number, hashes[number])
    assert chain.num_requests == 2 * BLOCKS_PER_BATCH
    asyncio.run(blocks.drop_removed(Chain(*hashes[:10])))
    assert blocks.last is None


@pytest.mark.parametrize(
    ("first", "lost"), [(None, 0), (Block(5, "a"), 0), (Block(KEPT_BLOCKS + 7, "a"), 7)]
)
def test_unknown_history_restarts_below_the_first_block(first, lost):
    blocks = ReadBlocks(first)
    assert blocks.next == (0 if first is None else first.number + 1)
    blocks.add(Block(KEPT_BLOCKS + 8, "b"))
    asyncio.run(blocks.drop_removed(Chain()))
    assert blocks.next == lost


def test_reading_starts_at_the_lowest_block():
    blocks = ReadBlocks(lowest=7)
    assert blocks.next == 7
    blocks.add(Block(9, "a"))
    assert blocks.next == 10
    asyncio.run(blocks.drop_removed(Chain()))
    assert blocks.next == 7


def test_repeated_block_is_stored_once():
    blocks = ReadBlocks(Block(5, "a"))
    blocks.add(Block(5, "a"))
    asyncio.run(blocks.drop_removed(Chain(*"......")))
    assert blocks.last is None
