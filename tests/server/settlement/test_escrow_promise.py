"""A trade of an escrow market settles: no maker undoes it within the delay, whatever it does.

Method: random makers deposit, request withdrawals, withdraw as soon as they may, and place orders,
while the server reads the chain late, or not at all for a while, and settles trades in any order. A
model of the contract holds the deposits. Each trade that settles within half of the delay after it
was made must find the assets there, and the engine's accounts must be those of the model.
"""

import random  # noqa: TID251 - seeded
from collections import defaultdict
from types import SimpleNamespace

import pytest

from clob import (
    AddMarket,
    Funds,
    Market,
    Matcher,
    Mode,
    Order,
    RejectedError,
    SetBalance,
    Settled,
    Side,
    Submit,
    Trade,
)
from clob_server.chain.config import DEVELOPMENT_CHAIN
from clob_server.chain.events import Watched, escrow_asset
from clob_server.core.commands import BeginSettlement, EndTrades, FollowChain, TradeEnd
from clob_server.core.state import ServerState
from clob_server.settings import Settings
from clob_server.settlement.operations import ChainContext
from clob_server.settlement.stalls import DELAY_S, LIMIT_MS, MarketStalls

MAKERS = ("0xA", "0xB", "0xC")
ESCROW, YES, NO = escrow_asset("usd"), "1", "2"
DELAY_MS = DELAY_S * 1_000
ASSETS = (ESCROW, YES, NO)
STEPS = 400
FINAL_MS = 20_000


class EscrowContract:
    """The model: balances, requests with their time, and deposits that are not final."""

    def __init__(self):
        self.balances = defaultdict(int)
        self.requests = {}
        self.fresh = []

    def deposit(self, account, amount, now_ms):
        self.balances[account] += amount
        self.fresh.append((account, amount, now_ms))

    def request(self, account, amount, now_ms):
        self.requests[account] = (min(amount, self.balances[account]), now_ms + DELAY_MS)

    def withdraw(self, account, now_ms):
        """Pay a request that is due; return whether it was."""
        amount, due_ms = self.requests.get(account, (0, now_ms + 1))
        if now_ms < due_ms:
            return False
        self.balances[account] -= min(amount, self.balances[account])
        del self.requests[account]
        return True

    def covers(self, trade):
        """Return whether a trade finds its assets."""
        return all(self.balances[account] >= amount for account, amount in trade.takes)

    def settle(self, trade):
        for account, amount in trade.takes:
            self.balances[account] -= amount
        for account, amount in trade.pays:
            self.balances[account] += amount

    def usable(self, account, now_ms):
        """Return the amount that the worker reports."""
        since_ms = now_ms - FINAL_MS
        fresh = sum(it[1] for it in self.fresh if it[0] == account and it[2] > since_ms)
        requested, _ = self.requests.get(account, (0, 0))
        return max(0, self.balances[account] - requested - fresh)


def trade_of(event):
    """Return a direct trade of the market: what it takes and pays, by account."""
    paid = event.size * event.price // 100
    takes = [((event.buyer, ESCROW), paid), ((event.seller, event.token), event.size)]
    pays = [((event.seller, ESCROW), paid), ((event.buyer, event.token), event.size)]
    return SimpleNamespace(takes=takes, pays=pays, seq=event.seq)


class EscrowWorld:
    """A server's state, the rule that stops markets, and the model of the contract."""

    def __init__(self, rng):
        self.rng, self.now_ms, self.names = rng, 1_000_000, 0
        self.contract, self.state = EscrowContract(), ServerState(Matcher())
        self.pending, self.num_settled, self.num_stalled = {}, 0, 0
        sequencer = SimpleNamespace(state=self.state, before_batch=None)
        settings = Settings(chain_id=DEVELOPMENT_CHAIN)
        context = ChainContext(settings, lambda: self.now_ms, sequencer, None, None)
        self.stalls = MarketStalls(context, SimpleNamespace())
        self.log = []
        self.do(BeginSettlement, base=bytes(16))
        terms = {"funds": Funds.ACCOUNTS, "settles": True, "collateral": ESCROW}
        self.do(AddMarket, market=Market(id="m", yes=YES, no=NO, **terms))
        self.read_chain()

    def do(self, kind, **fields):
        """Apply a command, as a batch of its own; return its events, none if it was rejected."""
        commands = (*self.stalls.commands(self.now_ms), kind(**fields, now_ms=self.now_ms))
        for command in commands:
            self.log.append(command)
            try:
                events = self.state.apply(command)
            except RejectedError:
                events = ()
            self.stalls.on_batch([SimpleNamespace(command=command)])
        return events

    def read_chain(self):
        """Apply the newest block, as the inbox does."""
        for maker in MAKERS:
            for asset in ASSETS:
                amount = self.contract.usable((maker, asset), self.now_ms)
                self.do(SetBalance, wallet=maker, asset=asset, amount=amount)
        self.do(FollowChain, block=self.now_ms, hash="")
        self.stalls.on_watched(Watched(block=1, time_s=0))

    def order(self):
        self.names += 1
        order = Order(
            id=f"o{self.names}",
            token=self.rng.choice((YES, NO)),
            maker=self.rng.choice(MAKERS),
            side=self.rng.choice((Side.BUY, Side.SELL)),
            price=self.rng.randrange(30, 71),
            size=self.rng.randrange(1, 30),
        )
        for event in self.do(Submit, market="m", order=order):
            if isinstance(event, Trade):
                self.pending[event.seq] = (trade_of(event), self.now_ms)

    def settle(self):
        """Settle a pending trade on the chain, and read its block."""
        seq = self.rng.choice(list(self.pending))
        trade, made_ms = self.pending.pop(seq)
        is_in_time = self.now_ms - made_ms <= LIMIT_MS
        assert self.contract.covers(trade) or not is_in_time, (seq, self.now_ms - made_ms)
        if not self.contract.covers(trade):
            return False
        self.contract.settle(trade)
        self.do(Settled, market="m", trades=(seq,))
        held = self.state.registry.settling.held.values()
        [number] = [each.number for each in held if each.halves[0].seq == seq]
        self.do(EndTrades, ends=(TradeEnd(trade=number, tx="0x1", block=1),))
        self.read_chain()
        self.num_settled += 1
        return True

    def step(self):
        rng = self.rng
        self.now_ms += rng.choice((0, 10, 1_000, 10_000, 60_000))
        account = rng.choice(MAKERS), rng.choice(ASSETS)
        what = rng.random()
        if what < 0.15:
            self.contract.deposit(account, rng.randrange(1, 200), self.now_ms)
        elif what < 0.25:
            self.contract.request(account, rng.randrange(300), self.now_ms)
        elif what < 0.45:
            self.order()
            self.order()
        elif what < 0.6 and self.pending:
            return self.settle()
        elif what < 0.85:
            self.read_chain()
        for each in list(self.contract.requests):  # a maker takes its money as soon as it may
            self.contract.withdraw(each, self.now_ms)
        self.num_stalled += self.state.markets["m"].mode is Mode.CANCEL_ONLY
        return True

    def check_accounts(self):
        """Check that resting orders are covered by what may be used, besides pending trades."""
        self.state.matcher.audit()
        for own in self.state.matcher.balances().values():
            assert own.available >= 0 or not own.reserved


@pytest.mark.parametrize("seed", range(20))
def test_trade_that_settles_in_time_finds_its_assets(seed):
    world = EscrowWorld(random.Random(seed))
    for _ in range(STEPS):
        if not world.step():
            break  # it settled too late, so a maker was faster
        world.check_accounts()
    again = ServerState()
    again.replay(world.log)
    assert again.snapshot() == world.state.snapshot()
    assert world.num_settled


def test_worlds_reach_the_rule_and_the_limit():
    worlds = [EscrowWorld(random.Random(seed)) for seed in range(5)]
    for world in worlds:
        for _ in range(STEPS):
            if not world.step():
                break
    assert sum(world.num_stalled for world in worlds)
    assert sum(world.num_settled for world in worlds) > 20
