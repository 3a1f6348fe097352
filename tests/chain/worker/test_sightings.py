"""What logs say that concern the exchange contract, and where a chain still is the same one."""

import asyncio

import pytest

from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import WALLETS
from clob_server.chain.eth.rpc import NodeNonsenseError
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
    Sightings,
    questions,
    who,
    word_of,
)
from clob_server.chain.watcher.watcher import ASKED, KEPT, Block, Trail

ONE, TWO, THREE = (wallet.address for wallet in WALLETS[:3])
EXCHANGE, COLLATERAL = DEVELOPMENT.exchange, DEVELOPMENT.collateral
TOKENS = DEVELOPMENT.conditional_tokens
HASH = f"0x{'ab' * 32}"


def log(address, event, *topics, data=0, block=1, place=0):
    """A log as a node gives it."""
    return {
        "address": address.lower(),
        "topics": [
            event.topic,
            *(topic if len(topic) == 66 else word_of(topic) for topic in topics),
        ],
        "data": data if isinstance(data, str) else f"0x{data:064x}",
        "blockNumber": hex(block),
        "logIndex": hex(place),
        "transactionHash": HASH,
    }


def seen(*logs, wallets=(ONE,)):
    """What is seen in logs by one who knows some wallets."""
    sightings = Sightings(DEVELOPMENT, wallets)
    sightings.take(logs)
    return sightings


def test_an_address_in_a_topic_comes_out_as_it_went_in():
    assert len(word_of(ONE)) == 66
    assert who(word_of(ONE)) == ONE


def test_logs_count_once_and_in_the_order_of_the_chain():
    later = log(EXCHANGE, DELEGATE_SET, ONE, TWO, data=0, block=16, place=2)
    first = log(EXCHANGE, DELEGATE_SET, ONE, TWO, data=1, block=16, place=1)
    found = seen(later, first, later).permissions
    said = [
        Permission(kind="delegate", owner=ONE, other=TWO, allowed=is_so) for is_so in (True, False)
    ]
    assert found == [(16, each) for each in said]


def test_who_allows_or_is_paid_is_known_from_then_on():
    found = seen(
        log(EXCHANGE, GASLESS_SET, ONE, data=1, place=1),
        log(EXCHANGE, PAYEE_SET, TWO, THREE, data=1, place=2),
        log(COLLATERAL, APPROVED, TWO, EXCHANGE, place=3),
    )
    assert list(found.wallets) == [TWO, THREE]
    assert found.allowing == {TWO}
    assert [each.other for _, each in found.permissions] == [ONE, THREE]


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
def test_what_concerns_others_is_passed_over(foreign):
    found = seen(foreign)
    assert not found.wallets
    assert not (found.allowing | found.approving | found.paying | found.paid)
    assert not [*found.raised, *found.permissions, *found.ends]


def test_who_pays_and_who_is_paid():
    found = seen(
        log(COLLATERAL, TRANSFERRED, ONE, TWO, data=5),
        log(COLLATERAL, TRANSFERRED, TWO, ONE, place=1),
    )
    assert (found.paying, found.paid) == ({ONE}, {ONE})
    moved = log(TOKENS, TOKEN_TRANSFERRED, THREE, TWO, ONE, data=f"0x{7:064x}{9:064x}")
    assert seen(moved).tokens == {(ONE, 7)}


def test_nonces_and_hashes():
    raised = log(EXCHANGE, RAISED, ONE, data=f"0x{5:064x}{600:064x}")
    cancelled = log(EXCHANGE, CANCELLED, HASH, ONE, data=600, place=1)
    found = seen(raised, cancelled)
    assert [(each.maker, each.nonce) for each in found.raised] == [(ONE, "5")]
    assert found.cancelled == [HASH]


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
def test_what_is_no_log_is_nonsense(wrong):
    with pytest.raises(NodeNonsenseError):
        seen(wrong)


def test_many_wallets_are_named_in_parts():
    wallets = [f"0x{number:040x}" for number in range(WALLETS_MAX + 1)]
    asked = [params[0] for _, params in questions(DEVELOPMENT, wallets, 5, 9)]
    assert {(each["fromBlock"], each["toBlock"]) for each in asked} == {("0x5", "0x9")}
    named = [len(topics[-1]) for each in asked if len(topics := each["topics"]) > 1]
    assert sorted(named[1:]) == [1, 1, 1, WALLETS_MAX, WALLETS_MAX, WALLETS_MAX]
    assert len(questions(DEVELOPMENT, [], 5, 9)) == 2


# ----- where a chain is still the same -------------------------------------------------------


class Chain:
    """A node that knows the hashes of its blocks."""

    def __init__(self, *hashes):
        self.hashes = hashes
        self.num_asked = 0

    async def batch(self, asked):
        """Answer the questions for blocks."""
        self.num_asked += len(asked)
        numbers = [int(params[0], 16) for _, params in asked]
        return [
            {"number": hex(number), "hash": self.hashes[number]}
            if number < len(self.hashes)
            else None
            for number in numbers
        ]


def trail_of(*hashes):
    """A trail over blocks of these hashes."""
    trail = Trail()
    for number, each in enumerate(hashes):
        trail.reach(Block(number, each))
    return trail


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
def test_a_trail_goes_back_to_the_newest_block_that_is_still_there(now, last):
    trail = trail_of(*"abcd")
    asyncio.run(trail.go_back(Chain(*now)))
    assert (None if trail.last is None else trail.last.number) == last


def test_a_trail_goes_back_far_and_does_not_ask_for_all():
    hashes = [f"block {number}" for number in range(KEPT + 500)]
    trail = trail_of(*hashes)
    chain = Chain(*hashes[: KEPT + 500 - ASKED - 10])
    asyncio.run(trail.go_back(chain))
    assert trail.last == Block(KEPT + 500 - ASKED - 11, hashes[KEPT + 500 - ASKED - 11])
    assert chain.num_asked == 2 * ASKED
    asyncio.run(trail.go_back(Chain(*hashes[:10])))
    assert trail.last is None


@pytest.mark.parametrize(
    ("first", "lost"), [(None, 0), (Block(5, "a"), 0), (Block(KEPT + 7, "a"), 7)]
)
def test_a_trail_that_is_lost_begins_again_further_down(first, lost):
    trail = Trail(first)
    assert trail.next == (0 if first is None else first.number + 1)
    trail.reach(Block(KEPT + 8, "b"))
    asyncio.run(trail.go_back(Chain()))
    assert trail.next == lost


def test_a_trail_begins_where_it_is_told_and_not_below():
    trail = Trail(lowest=7)
    assert trail.next == 7
    trail.reach(Block(9, "a"))
    assert trail.next == 10
    asyncio.run(trail.go_back(Chain()))
    assert trail.next == 7


def test_a_trail_keeps_a_block_once():
    trail = Trail(Block(5, "a"))
    trail.reach(Block(5, "a"))
    asyncio.run(trail.go_back(Chain(*"......")))
    assert trail.last is None
