"""Positions equal those computed from all trades that count, at every command."""

import random  # noqa: TID251 - seeded
from contextlib import closing
from fractions import Fraction
from math import floor

import msgspec
import pytest

from clob import AddMarket, Reopen, ReopenedTrade, Settled, SettleFailed, Side, Trade
from clob_server.core.commands import EndTrades, ReviseTrades, TradeEnd
from clob_server.core.settlement_ledger import SettlementLedger
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.positions import Position, PositionStep, read_positions
from clob_server.history.rows import HistoryRows
from clob_server.history.store import DAY_MS, FILE, Applied, HistoryStore, StoreReader
from tests.matchers import buy, market, sell
from tests.server.history.logs import dump, flow_of, follow_log, write_log
from tests.server.settled import ALICE, BOB, CAROL, COLLATERAL, NO, YES, opening, settling, tx_of

MAKERS = (ALICE, BOB, CAROL)
BEGIN_MS = 20_000 * DAY_MS
SETTLING = settling(complementary=True, incoming_fee_rate_bps=70, resting_fee_rate_bps=30)


def folded(trades, failed=()):
    """Return the positions from trades, each with its number and settlement number.

    The other way to compute them: long and short apart, and without signs.
    """
    positions = {}
    for trade, key in trades:
        for side, maker in ((Side.BUY, trade.buyer), (Side.SELL, trade.seller)):
            if maker:
                of_maker = positions.setdefault((maker, trade.market, trade.token), [0] * 7)
                if key not in failed or not key:
                    fold(of_maker, trade, side)
    return {
        name: Position(bought - sold, paid - received, realised, fees, token_fees)
        for name, (bought, paid, sold, received, realised, fees, token_fees) in positions.items()
    }


def fold(of_maker, trade, side):
    """Add a trade: reduce the opposite position first, then open one with the rest."""
    bought, paid, sold, received, realised, fees, token_fees = of_maker
    amount = trade.size * trade.price // 100
    if side is Side.BUY:
        tokens = left = trade.size - trade.buyer_fee
        token_fees += trade.buyer_fee
        if sold:
            closed = min(sold, tokens)
            own = floor(Fraction(amount * closed, tokens))
            gone = floor(Fraction(received * closed, sold))
            sold, received, realised = sold - closed, received - gone, realised + gone - own
            left, amount = tokens - closed, amount - own
        bought, paid = bought + left, paid + amount
    else:
        tokens = left = trade.size
        fees += trade.seller_fee
        if bought:
            closed = min(bought, tokens)
            own = floor(Fraction(amount * closed, tokens))
            gone = floor(Fraction(paid * closed, bought))
            bought, paid, realised = bought - closed, paid - gone, realised + own - gone
            left, amount = tokens - closed, amount - own
        sold, received = sold + left, received + amount
    of_maker[:] = bought, paid, sold, received, realised, fees, token_fees


def stored(db, makers=MAKERS):
    """Return all positions in a file."""
    return {
        (maker, each.market, each.token): each.position
        for maker in makers
        for each in read_positions(db, maker, None, 1_000)
    }


# ----- settlement ------------------------------------------------------------------------------


class Settling:
    """Random commands of markets whose trades settle, fail and are revised."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.now_ms = BEGIN_MS
        self.state = ServerState()
        self.trades = []
        self.number = 0

    def commands(self, count):
        """Yield commands, each after the one before was applied to ``state``."""
        yield from opening(SETTLING, now_ms=self.now_ms)
        yield AddMarket(market=market("free", complementary=True, lot_wei=100), now_ms=self.now_ms)
        for number in range(count):
            self.now_ms += int(10 ** self.rng.uniform(0, 7.8))
            if self.rng.random() < 0.6:
                yield self.order(number)
            else:
                yield self.verdict()

    def order(self, number):
        rng = self.rng
        name, tokens = rng.choice((("m", (YES, NO)), ("free", ("free-yes", "free-no"))))
        size = 100 * rng.randint(1, 10**18)
        fields = {"maker": rng.choice(MAKERS), "market": name, "token": rng.choice(tokens)}
        make = rng.choice((buy, sell))
        return make(f"o{number}", rng.randint(40, 60), size, **fields, now_ms=self.now_ms)

    def verdict(self):
        """Return a command that ends trades, ends them otherwise, or withdraws results."""
        rng, ledger = self.rng, self.state.registry.settling
        known = [*ledger.held, *ledger.ended]
        chosen = tuple(rng.sample(known, min(len(known), rng.randint(0, 3))))
        if rng.random() < 0.3:
            return ReviseTrades(trades=chosen, now_ms=self.now_ms)
        ends = []
        for number in chosen:
            reason, block = rng.choice(("", "no")), rng.choice((0, 1, 1, 1))
            ends.append(TradeEnd(trade=number, tx=tx_of(number), reason=reason, block=block))
        return EndTrades(ends=tuple(ends), now_ms=self.now_ms)

    def apply(self, command):
        """Apply a command; return its outcome and the number of trades before it."""
        before = self.state.num_trades
        outcome = outcome_of(self.state, command)
        for event in outcome if isinstance(outcome, list) else ():
            if isinstance(event, Trade):
                self.number += 1
                key = self.number if event.market == "m" else 0
                if key and event.match_type.value != "direct" and not event.is_incoming:
                    key -= 1
                self.trades.append((event, key))
        return outcome, before

    def expected(self):
        ledger: SettlementLedger = self.state.registry.settling
        return folded(self.trades, {key for key, each in ledger.ended.items() if each.reason})


@pytest.mark.parametrize("written", [1, 3, 40])
@pytest.mark.parametrize("seed", range(3))
def test_positions_equal_a_fold_over_the_trades_that_count_at_every_command(
    tmp_path, seed, written
):
    flow = Settling(seed)
    rows = HistoryRows(flow.state)
    with closing(HistoryStore(tmp_path, days=1)) as store, closing(StoreReader(tmp_path)) as reader:
        for seq, command in enumerate(flow.commands(400), 1):
            outcome, before = flow.apply(command)
            rows.add(seq, command, outcome, before)
            if seq % written == 0:
                oldest = rows.oldest_unsettled
                store.write(rows.take(), Applied(seq), command.now_ms, oldest)
                assert stored(reader.db) == flow.expected()
        kinds = {each.match_type.value for each, _ in flow.trades}
        ended = flow.state.registry.settling.ended.values()
        assert len(kinds) == 3
        assert sum(bool(each.reason) for each in ended) > 5
        assert len(dump(tmp_path)["trades"]) < len(flow.trades)


def test_positions_outlast_trades_and_are_the_same_after_any_interruption(tmp_path):
    flow, commands = Settling(7), []
    for command in flow.commands(250):
        commands.append(command)
        flow.apply(command)
    whole = None
    for stops in ((), (40, 41, 130), range(0, len(commands), 9)):
        folder = tmp_path / f"{len(stops)}"
        folder.mkdir()
        write_log(folder, commands, 3)
        for stop in stops:
            follow_log(folder, days=1, stop=stop, snapshot_commands=20)
        follow_log(folder, days=1, snapshot_commands=20)
        rows = dump(folder)
        whole = whole or rows
        assert rows == whole
        with closing(StoreReader(folder)) as reader:
            assert stored(reader.db) == flow.expected()
    (folder / FILE).unlink()
    follow_log(folder, days=1)
    assert dump(folder) == whole


def test_steps_are_dropped_once_no_result_before_them_can_change(tmp_path):
    flow = Settling(1)
    rows = HistoryRows(flow.state)
    with closing(HistoryStore(tmp_path)) as store:
        for seq, command in enumerate(flow.commands(200), 1):
            outcome, before = flow.apply(command)
            rows.add(seq, command, outcome, before)
        store.write(rows.take(), Applied(seq), command.now_ms, rows.oldest_unsettled)
        steps = dump(tmp_path)["position_steps"]
        ledger = flow.state.registry.settling
        assert {row[3] for row in steps} >= set(ledger.held)
        ledger.held.clear()
        ledger.ended.clear()
        store.write(rows.take(), Applied(seq), command.now_ms, rows.oldest_unsettled)
        assert dump(tmp_path)["position_steps"] == []


@pytest.mark.parametrize("seed", range(3))
def test_positions_of_random_markets_equal_a_fold_over_all_trades(tmp_path, seed):
    commands, trades, state = list(flow_of(seed, 400)), [], ServerState()
    for command in commands:
        outcome = outcome_of(state, command)
        if isinstance(outcome, list | tuple):
            trades += [(event, 0) for event in outcome if isinstance(event, Trade)]
    write_log(tmp_path, commands, 7)
    follow_log(tmp_path)
    expected = folded(trades)
    assert expected
    makers = {maker for maker, _, _ in expected}
    with closing(StoreReader(tmp_path)) as reader:
        found = stored(reader.db, makers)
    assert {name: found[name] for name in expected} == expected == found


def test_balances_equal_the_positions_where_only_trades_move_tokens():
    """The accounts equal the ledger made from events, with failed and reopened trades."""
    state, rng, now = ServerState(), random.Random(5), {"now_ms": 1}
    for command in opening(settling(incoming_fee_rate_bps=90, resting_fee_rate_bps=20)):
        state.apply(command)
    before = {key: each.balance for key, each in state.matcher.balances().items()}
    waiting, settled = {}, {}
    for number in range(300):
        make, maker = rng.choice(((buy, ALICE), (sell, BOB), (sell, ALICE), (buy, CAROL)))
        price, size = rng.randint(40, 60), rng.randint(1, 9) * 100
        order = make(f"o{number}", price, size, maker=maker, token=YES, **now)
        waiting |= {each.seq: each for each in state.apply(order) if isinstance(each, Trade)}
        if settled and rng.random() < 0.2:
            seq, trade = settled.popitem()
            again = reopened(trade)
            state.apply(Reopen(market="m", trades=(again,), settled=True, **now))
            waiting[seq] = trade
        if waiting and rng.random() < 0.6:
            seq, trade = waiting.popitem()
            if rng.random() < 0.3:
                state.apply(SettleFailed(market="m", trade=seq, reason="no", **now))
            else:
                state.apply(Settled(market="m", trades=(seq,), **now))
                settled[seq] = trade
        positions = folded([(each, 0) for _, each in sorted(settled.items())])
        for maker in MAKERS:
            position = positions.get((maker, "m", YES), Position())
            tokens = state.matcher.balance(maker, YES)
            collateral = state.matcher.balance(maker, COLLATERAL)
            gained = position.realised - position.fees - position.cost
            assert tokens.balance - before[maker, YES] == position.size
            assert collateral.balance - before[maker, COLLATERAL] == gained
            sold = [each.size for each in waiting.values() if each.seller == maker]
            bought = [each for each in waiting.values() if each.buyer == maker]
            assert tokens.unsettled == sum(sold)
            assert collateral.unsettled == sum(each.size * each.price // 100 for each in bought)
    assert len(settled) > 30


def reopened(trade):
    """Return the terms of a trade, to hold them again."""
    return ReopenedTrade(
        seq=trade.seq,
        token=trade.token,
        buyer_pays=trade.buyer,
        buyer_receives=trade.buyer,
        seller_pays=trade.seller,
        seller_receives=trade.seller,
        paid=trade.size * trade.price // 100,
        size=trade.size,
        buyer_fee=trade.buyer_fee,
        seller_fee=trade.seller_fee,
    )


# ----- one position ----------------------------------------------------------------------------


def position_after(*trades):
    """Return the position after trades: side, tokens, collateral, fee."""
    position = Position()
    for side, *amounts in trades:
        position.add(PositionStep("a", "m", "t", 1, side, 0, True, *amounts))
    return msgspec.structs.astuple(position)


@pytest.mark.parametrize(
    ("trades", "expected"),
    [
        ([(Side.BUY, 100, 40, 0), (Side.BUY, 100, 60, 0)], (200, 100, 0, 0, 0)),
        ([(Side.BUY, 100, 40, 0), (Side.SELL, 25, 15, 1)], (75, 30, 5, 1, 0)),
        ([(Side.BUY, 3, 10, 2), (Side.SELL, 1, 5, 0)], (2, 7, 2, 0, 2)),
        ([(Side.BUY, 3, 10, 0), (Side.SELL, 3, 11, 0)], (0, 0, 1, 0, 0)),
        ([(Side.BUY, 10, 4, 0), (Side.SELL, 30, 20, 0)], (-20, -14, 2, 0, 0)),
        ([(Side.SELL, 10, 6, 0), (Side.BUY, 4, 1, 0)], (-6, -4, 1, 0, 0)),
        ([(Side.SELL, 10, 6, 0), (Side.BUY, 15, 6, 0)], (5, 2, 2, 0, 0)),
    ],
)
def test_reduction_removes_cost_in_proportion_and_realises_the_difference(trades, expected):
    assert position_after(*trades) == expected
