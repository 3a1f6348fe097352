"""The trades that wait for a chain: how they are sent, and how each comes to an end."""

import pytest

from clob_server.chain.operation_bodies import FillBody, PartyBody
from clob_server.core.commands import BeginSettlement, EndTrades, FollowChain, SendTrades, TradeEnd
from clob_server.core.settlement_ledger import (
    ENDED_MAX,
    EndedTrade,
    HeldTrade,
    SettlementLedger,
    TradeHalf,
)

BASE = bytes(range(16))
TX = f"0x{1:064x}"
PARTY = PartyBody(
    salt="1", maker="M", signer="M", taker="0x0", token_id="1", maker_amount="2", taker_amount="3",
    expiration="0", nonce="0", fee_rate_bps="0", side=0, signature_type=1, signature="0x",
    wallet="0x0", charged_bps=0,
)  # fmt: skip


def held(number, *more):
    """Something that waits, by the numbers of its trades."""
    fill = FillBody(trade_id=str(number), price=50, size="1", resting=PARTY, incoming=PARTY)
    halves = tuple(TradeHalf(each, 10 + each, "1", "B", "S") for each in (number, *more))
    return HeldTrade("m", halves, 1_000 + number, fill)


def holding(*waiting):
    """Settlement with what waits."""
    settling = SettlementLedger()
    for each in waiting or map(held, range(1, 6)):
        settling.hold(each)
    return settling


def send(settling, operation, *numbers):
    settling.send(SendTrades(operation=operation, trades=numbers, now_ms=1))


def end(settling, *numbers, reason=""):
    ends = tuple(TradeEnd(trade=number, tx=TX, reason=reason) for number in numbers)
    settling.end(EndTrades(ends=ends, now_ms=1))


def unsent(settling, limit=100):
    return [each.number for each in settling.unsent(limit)]


def same_again(settling):
    """Have a settlement made anew from a snapshot, which must be the same."""
    again = SettlementLedger(settling.snapshot())
    assert again.snapshot() == settling.snapshot()
    assert again.sent == settling.sent
    return again


def test_a_trade_has_a_number_of_its_own_on_the_chain():
    settling = SettlementLedger()
    settling.begin(BeginSettlement(base=BASE, now_ms=1))
    settling.begin(BeginSettlement(base=bytes(16), now_ms=1))
    assert settling.base == BASE
    number = settling.trade_id(7)
    assert number.to_bytes(32) == BASE + (7).to_bytes(16)
    assert settling.number_of(number) == 7
    assert settling.number_of(7) is None
    assert settling.number_of(number ^ (1 << 128)) is None


def test_what_is_sent_waits_for_its_operation_until_each_has_ended():
    settling = holding()
    assert unsent(settling, 2) == [1, 2]
    send(settling, "a", 1, 2, 3)
    assert (settling.operations, unsent(settling)) == ({"a": (1, 2, 3)}, [4, 5])
    settling = same_again(settling)
    end(settling, 2)
    assert (settling.operations, list(settling.held)) == ({"a": (1, 3)}, [1, 3, 4, 5])
    end(settling, 1, 3)
    assert (settling.operations, settling.sent) == ({}, {})
    assert [each.halves[0].number for each in settling.ended] == [2, 1, 3]
    same_again(settling)


def test_what_goes_with_another_operation_waits_for_that_alone():
    settling = holding()
    send(settling, "a", 1, 2)
    send(settling, "b", 2, 3)
    assert settling.operations == {"a": (1,), "b": (2, 3)}
    send(settling, "c", 1)
    assert settling.operations == {"b": (2, 3), "c": (1,)}
    send(settling, "b", 2, 3)
    assert settling.operations == {"c": (1,), "b": (2, 3)}
    end(settling, 1, 2, 3)
    assert settling.operations == {}


def test_an_operation_that_is_sent_more_or_less_often_loses_nothing():
    settling = holding()
    send(settling, "a", 1, 2, 2, 1, 3)
    assert settling.operations == {"a": (1, 2, 3)}
    send(settling, "a", 3, 4)
    assert settling.operations == {"a": (1, 2, 3, 4)}
    settling = same_again(settling)
    end(settling, 1, 2, 3, 4)
    assert (settling.operations, settling.sent) == ({}, {})


def test_what_waits_for_nothing_is_passed_over():
    settling = holding(held(1))
    send(settling, "a", 2)
    end(settling, 2, 9)
    assert (settling.operations, settling.sent, list(settling.ended)) == ({}, {}, [])
    send(settling, "a", 1, 2)
    assert settling.operations == {"a": (1,)}
    end(settling, 1)
    end(settling, 1)
    assert len(settling.ended) == 1


def test_both_trades_of_a_mint_end_as_one():
    settling = holding(held(1, 2), held(3))
    assert unsent(settling) == [1, 3]
    end(settling, 1, reason="no allowance")
    assert list(settling.ended) == [EndedTrade("m", held(1, 2).halves, 1_001, TX, "no allowance")]


def test_only_the_last_that_ended_stay_at_hand():
    settling = holding(*map(held, range(1, ENDED_MAX + 3)))
    end(settling, *range(1, ENDED_MAX + 3))
    assert len(settling.ended) == ENDED_MAX
    assert settling.ended[0].halves[0].number == 3
    same_again(settling)


@pytest.mark.parametrize("kind", ["delegate", "gasless", "payer", "payee"])
def test_what_the_chain_says_is_remembered(kind):
    settling = SettlementLedger()
    told = FollowChain(
        block=5, hash="0x5", wallets=("W", "V"), permissions=((kind, "M", "D", True),),
        cancelled=("0xa",), now_ms=1,
    )  # fmt: skip
    settling.follow(told)
    assert (settling.block, settling.block_hash) == (5, "0x5")
    assert settling.allows(kind, "M", "D")
    assert not settling.allows(kind, "D", "M")
    settling = same_again(settling)
    taken_back = ((kind, "M", "D", False), (kind, "M", "E", False))
    settling.follow(FollowChain(block=4, hash="0x4", permissions=taken_back, now_ms=1))
    assert not settling.allows(kind, "M", "D")
    assert (settling.block, list(settling.wallets)) == (4, ["W", "V"])
    assert list(settling.cancelled) == ["0xa"]
    same_again(settling)
