"""The settlement ledger: how pending trades are sent and end."""

import pytest

from clob.wire.operations import FillBody, PartyBody
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
    """Return a pending settlement of some trades."""
    fill = FillBody(trade_id=str(number), price=50, size="1", resting=PARTY, incoming=PARTY)
    halves = tuple(TradeHalf(each, 10 + each, "1", "B", "S") for each in (number, *more))
    return HeldTrade("m", halves, 1_000 + number, fill)


def holding(*waiting):
    """Return a ledger with pending trades."""
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


def restored(settling):
    """Return a ledger restored from a snapshot; check that both are equal."""
    again = SettlementLedger(settling.snapshot())
    assert again.snapshot() == settling.snapshot()
    assert again.sent == settling.sent
    return again


def test_trade_id_on_the_chain_is_unique_to_the_log():
    settling = SettlementLedger()
    settling.begin(BeginSettlement(base=BASE, now_ms=1))
    settling.begin(BeginSettlement(base=bytes(16), now_ms=1))
    assert settling.base == BASE
    number = settling.trade_id(7)
    assert number.to_bytes(32) == BASE + (7).to_bytes(16)
    assert settling.number_of(number) == 7
    assert settling.number_of(7) is None
    assert settling.number_of(number ^ (1 << 128)) is None


def test_sent_trades_belong_to_their_operation_until_they_end():
    settling = holding()
    assert unsent(settling, 2) == [1, 2]
    send(settling, "a", 1, 2, 3)
    assert (settling.operations, unsent(settling)) == ({"a": (1, 2, 3)}, [4, 5])
    settling = restored(settling)
    end(settling, 2)
    assert (settling.operations, list(settling.held)) == ({"a": (1, 3)}, [1, 3, 4, 5])
    end(settling, 1, 3)
    assert (settling.operations, settling.sent) == ({}, {})
    assert [each.halves[0].number for each in settling.ended.values()] == [2, 1, 3]
    restored(settling)


def test_trades_sent_again_belong_to_the_new_operation_only():
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


def test_repeated_send_of_an_operation_adds_its_trades_once():
    settling = holding()
    send(settling, "a", 1, 2, 2, 1, 3)
    assert settling.operations == {"a": (1, 2, 3)}
    send(settling, "a", 3, 4)
    assert settling.operations == {"a": (1, 2, 3, 4)}
    settling = restored(settling)
    end(settling, 1, 2, 3, 4)
    assert (settling.operations, settling.sent) == ({}, {})


def test_unknown_and_ended_trades_are_skipped():
    settling = holding(held(1))
    send(settling, "a", 2)
    end(settling, 2, 9)
    assert (settling.operations, settling.sent, settling.ended) == ({}, {}, {})
    send(settling, "a", 1, 2)
    assert settling.operations == {"a": (1,)}
    end(settling, 1)
    end(settling, 1)
    assert len(settling.ended) == 1


def test_both_trades_of_a_mint_end_together():
    settling = holding(held(1, 2), held(3))
    assert unsent(settling) == [1, 3]
    end(settling, 1, reason="no allowance")
    assert list(settling.ended.values()) == [
        EndedTrade("m", held(1, 2).halves, 1_001, TX, "no allowance")
    ]


def test_recently_ended_trades_are_kept():
    settling = holding(*map(held, range(1, ENDED_MAX + 3)))
    end(settling, *range(1, ENDED_MAX + 3))
    assert len(settling.ended) == ENDED_MAX
    assert next(iter(settling.ended.values())).halves[0].number == 3
    restored(settling)


@pytest.mark.parametrize("kind", ["delegate", "gasless", "payer", "payee"])
def test_block_wallets_permissions_and_cancels_are_kept(kind):
    settling = SettlementLedger()
    command = FollowChain(
        block=5, hash="0x5", wallets=("W", "V"), permissions=((kind, "M", "D", True),),
        cancelled=("0xa",), now_ms=1,
    )  # fmt: skip
    settling.follow(command)
    assert (settling.block, settling.block_hash) == (5, "0x5")
    assert settling.allows(kind, "M", "D")
    assert not settling.allows(kind, "D", "M")
    settling = restored(settling)
    revoked = ((kind, "M", "D", False), (kind, "M", "E", False))
    settling.follow(FollowChain(block=4, hash="0x4", permissions=revoked, now_ms=1))
    assert not settling.allows(kind, "M", "D")
    assert (settling.block, list(settling.wallets)) == (4, ["W", "V"])
    assert list(settling.cancelled) == ["0xa"]
    restored(settling)
