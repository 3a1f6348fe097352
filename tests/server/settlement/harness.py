"""Harness: a sequencer whose trades settle through a stub of the chain."""

import asyncio
import itertools
from contextlib import suppress
from types import SimpleNamespace

import msgspec

from clob import AddMarket, Funds, Order, SetBalance, Side, Submit
from clob.errors import UnknownOrderError
from clob_server.api.problems import ApiError
from clob_server.chain.client import Stage as Reach
from clob_server.chain.events import ChainUpdate, SettlementResult, WalletHolding
from clob_server.chain.messages import OperationDone, OperationFailed, OperationRejected
from clob_server.core.commands import BeginSettlement
from clob_server.core.recovery import recover
from clob_server.core.sequencer import Sequencer
from clob_server.core.state import ServerState
from clob_server.log import MemoryLog
from clob_server.settings import Settings
from clob_server.settlement.coordinator import SettlementCoordinator as Coordinator
from clob_server.settlement.markets import OnChain
from clob_server.settlement.operations import ChainContext
from clob_server.telemetry.metrics import Metrics
from tests.matchers import market
from tests.server.engines import attachment

NOW_MS = 1_700_000_000_000
PATIENCE_S = 20
BASE = bytes(range(16))
BUYER, SELLER, PAYEE = "0xB0B", "0xA11CE", "0x5AFE"
USD, YES, NO = "usd", "m-yes", "m-no"
RICH = 10**24
TX = f"0x{'ab' * 32}"


class Chain:
    """Stub of the chain client. Operations end when the test answers them."""

    def __init__(self):
        self.is_open, self.stage = False, Reach.READY
        self.detail = ""
        self.addresses = SimpleNamespace(exchange="0xE")
        self.worker = self
        self.watched, self.watched_tokens, self.watched_wallets = [], [], []
        self.requests = []
        """Requested operations: id, body and future of the answer."""

    def start_watching(self, message):
        self.watched.append(message)

    def watch_tokens(self, tokens, escrow_tokens=()):
        self.watched_tokens.append((tokens, escrow_tokens))

    def watch_wallets(self, message):
        self.watched_wallets.append((message.wallets, message.dropped))

    async def run_operation(self, name, body, now_ms):
        answer = asyncio.get_running_loop().create_future()
        self.requests.append((name, body, answer))
        return await answer

    def answer(self, index, end):
        """Answer an operation."""
        name, _, answer = self.requests[index]
        answer.set_result(end(name))

    def lose_worker(self):
        """Fail all open operations."""
        for _, _, answer in self.requests:
            if not answer.done():
                answer.set_exception(ApiError("CHAIN_UNAVAILABLE", "the worker died"))


def done(name):
    """Return the end of an operation whose transaction is in a block."""
    return OperationDone(id=name, kind="settle", answer=msgspec.Raw(b"{}"))


def failed(name, undone=True):
    """Return the end of an operation whose transaction was reverted."""
    more = {"code": "OPERATION_FAILED", "detail": "settleTx: paused", "hashes": {}}
    return OperationFailed(id=name, kind="settle", undone=undone, **more)


def stuck(name):
    """Return the end of an operation that waits for an operator."""
    return failed(name, undone=False)


def rejected(name, code="CHAIN_UNAVAILABLE"):
    """Return the end of an operation that was rejected."""
    return OperationRejected(id=name, code=code, detail="no money for gas")


class SettlementHarness:
    """A running sequencer with the settlement of its trades and a stub of the chain.

    Args:
        exchange: initial state; None for a market, a buyer and a seller with large balances.
        log: log of the sequencer; None for a new one.
    """

    def __init__(self, exchange=None, log=None, **settings):
        self.is_new = exchange is None
        self.exchange = exchange or ServerState()
        self.log = log or MemoryLog()
        self.now_ms = NOW_MS
        self.engine = Sequencer(self.log, self.exchange, lambda: self.now_ms)
        self.chain = Chain()
        self.states = {}
        self.metrics = Metrics()
        context = ChainContext(
            Settings(**{"settle_every_s": 0.01, "settle_trades_max": 3} | settings),
            lambda: self.now_ms,
            self.engine,
            self.chain,
            self.metrics,
        )
        conditions = SimpleNamespace(state=lambda name: self.states.get(name, OnChain.PREPARED))
        self.settlement = Coordinator(context, conditions)
        self._names = itertools.count(self.exchange.num_orders)

    @property
    def settling(self):
        return self.exchange.registry.settling

    async def __aenter__(self):
        self.engine.subscribe(self.settlement.on_batch)
        self._work = asyncio.create_task(self.engine.run())
        if self.is_new:
            await self.open("m")
            for wallet, asset in ((BUYER, USD), (SELLER, YES), (BUYER, NO), (SELLER, NO)):
                await self.do(SetBalance, wallet=wallet, asset=asset, amount=RICH)
        return self

    async def __aexit__(self, *error):
        await self.settlement.close()
        self.engine.stop()
        await self._work

    async def start_worker(self):
        """Start a chain worker."""
        await self.settlement.on_worker_ready()
        self.chain.is_open = True

    async def open(self, name, **fields):
        """Open a market that settles."""
        terms = {"funds": Funds.ACCOUNTS, "settles": True, "collateral": USD} | fields
        await self.engine.submit(
            lambda now_ms: (
                BeginSettlement(base=BASE, now_ms=now_ms),
                AddMarket(market=market(name, **terms), now_ms=now_ms),
            )
        )

    async def do(self, kind, **fields):
        """Submit a command."""
        return await self.engine.submit(lambda now_ms: kind(**fields, now_ms=now_ms))

    async def order(
        self, maker, side, *, price=50, size=100, signer=None, order_hash=None, **fields
    ):
        """Place an order and return its id."""
        name = f"o{next(self._names)}"
        fields = {"token": YES} | fields
        order = Order(id=name, maker=maker, side=side, price=price, size=size, **fields)
        market_id = fields["token"].partition("-")[0]

        def make(now_ms):
            signed = None if signer is None else attachment(signer=signer, salt="1")
            return Submit(
                market=market_id,
                order=order,
                order_hash=order_hash,
                attachment=signed,
                now_ms=now_ms,
            )

        await self.engine.submit(make)
        return name

    async def trade(self, count=1, **fields):
        """Make trades in one batch, so that all exist before the first is sent."""
        pairs = [(SELLER, Side.SELL), (BUYER, Side.BUY)] * count
        await asyncio.gather(*(self.order(*each, **fields) for each in pairs))

    async def wait_until(self, condition):
        """Wait until a condition is true."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.001)

    async def requested(self, count):
        """Wait for a number of requested operations; return the trades of the last."""
        await self.wait_until(lambda: len(self.chain.requests) >= count)
        assert len(self.chain.requests) == count
        return self.numbers(count - 1)

    def numbers(self, index):
        """Return the trades of a requested operation."""
        return [
            self.settling.number_of(int(f.trade_id)) for f in self.chain.requests[index][1].fills
        ]

    async def receive(self, update, *more):
        """Receive updates and wait until they are applied."""
        inbox, block = self.settlement.inbox, (more or (update,))[-1].block
        for each in (update, *more):
            inbox.receive(each)
        await self.wait_until(lambda: self.settling.block == block and not inbox.is_applying)

    def settled(self, number, error=None, responsible=()):
        """Return the result of a trade."""
        trade_id = str(self.settling.trade_id(number))
        return SettlementResult(trade_id=trade_id, tx=TX, error=error, responsible=responsible)

    def balance(self, wallet, asset):
        """Return a balance of the engine."""
        return self.exchange.matcher.balance(wallet, asset).balance

    def recovered(self, **settings):
        """Return a copy recovered from the log, as after a crash."""
        exchange, *_ = recover(self.log)
        assert exchange.snapshot() == self.exchange.snapshot()
        return SettlementHarness(exchange, self.log, **settings)


def update(block, **fields):
    """Return an update."""
    return ChainUpdate(block=block, hash=f"0x{block:064x}", **fields)


def holding(wallet, asset, amount):
    """Return the balance of a wallet."""
    return WalletHolding(wallet=wallet, asset=asset, amount=str(amount))


def first_update(block=1, **fields):
    """Return the first update, with the initial balances."""
    rich = [(BUYER, USD), (SELLER, YES), (BUYER, NO), (SELLER, NO)]
    holdings = tuple(holding(*account, RICH) for account in rich)
    fields = {"wallets": (BUYER, SELLER), "holdings": holdings} | fields
    return update(block, whole=True, **fields)


def is_resting(harness, order_id):
    """Return whether an order rests."""
    with suppress(UnknownOrderError):
        return harness.exchange.matcher.order(order_id).remaining > 0
    return False


async def start_trading(harness, count):
    """Start a worker, make trades and wait until they are sent."""
    await harness.start_worker()
    await harness.receive(first_update())
    await harness.trade(count)
    await harness.wait_until(lambda: len(harness.settling.sent) == count)
