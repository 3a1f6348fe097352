"""The server's order path, without sockets, and the exchange contract on an in-process EVM."""

from msgspec.structs import asdict, replace

from clob import AddMarket, ClobError, Funds, Market, SetBalance, Settled
from clob.signing import SignedOrder, sign
from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import FAILED, SETTLED, encode_settle_bodies
from clob_server.core.commands import BeginSettlement, EndTrades, FollowChain, SendTrades, TradeEnd
from clob_server.core.ids import KEY_BYTES, Ids
from clob_server.core.state import ServerState
from clob_server.orders.permissions import Permissions
from clob_server.orders.place import OrderPlacement
from clob_server.service import Service
from clob_server.settings import Settings
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.evm_market import BOSS, BUY, FEES, KEYS, MAKERS, START, EvmMarket

BASE = bytes(range(1, 17))
NAME = "rain"
TX = f"0x{7:064x}"
ALICE, BOB, CAROL, SAFE = (maker.address for maker in MAKERS)
"""Bob is also Alice's delegate. Carol is gasless; the safe is her wallet."""
SET_DELEGATE = Function("setDelegate(address,bool)")
SET_GASLESS = Function("setGasless(bool)")
SET_PAYER = Function("setPayer(address,bool)")
SET_PAYEE = Function("setPayee(address,bool)")
ALLOWED = (
    ("delegate", ALICE, BOB),
    ("gasless", CAROL, CAROL),
    ("payer", SAFE, CAROL),
    ("payee", CAROL, SAFE),
)


def permissive_market():
    """Return a market with the permissions of :data:`ALLOWED`."""
    market = EvmMarket()
    market.do(ALICE, market.exchange, SET_DELEGATE, BOB, True)
    market.do(CAROL, market.exchange, SET_GASLESS, True)
    market.do(SAFE, market.exchange, SET_PAYER, CAROL, True)
    market.do(CAROL, market.exchange, SET_PAYEE, SAFE, True)
    return market


def placed(new, ids, number, now_ms):
    """Return the command of a new order, as the sequencer assigns its id and time."""
    order = replace(new.submit.order, id=ids.order(now_ms, number))
    return replace(new.submit, order=order, now_ms=now_ms)


class Comparison:
    """A server state and a contract that start with equal balances.

    Args:
        market: the contracts and their makers.
        folder: data folder of the server.
        terms: changed terms of the market.
    """

    def __init__(self, market, folder="unused", **terms):
        self.market = market
        self.now_ms = NOW_S * 1000
        self.service = Service(Settings(data_dir=str(folder)), lambda: self.now_ms)
        self.service.state = self.exchange = ServerState()
        self.service.ids = Ids(bytes(KEY_BYTES))
        self.count = 0
        self.placement = OrderPlacement(
            self.service.settings,
            self.service.domain,
            self.exchange,
            self.service.ids,
            self.service.lifecycle,
            None,
            None,
            None,
            Permissions(self.exchange, self.service.domain),
            lambda: self.service.chain.operator,
        )
        assert self.service.domain == market.domain
        self.settling = self.exchange.registry.settling
        wrapped, yes, no = market.wrapped, str(market.yes), str(market.no)
        listed = Market(
            id=NAME, yes=yes, no=no, funds=Funds.ACCOUNTS, settles=True, collateral=wrapped,
            fee_wallet=FEES, **terms,
        )  # fmt: skip
        self.do(BeginSettlement, base=BASE)
        self.do(AddMarket, market=listed)
        for maker in (ALICE, BOB, CAROL, SAFE):
            for asset in (wrapped, yes, no):
                self.do(SetBalance, wallet=maker, asset=asset, amount=START)
        permissions = tuple((*each, True) for each in ALLOWED)
        self.do(FollowChain, block=1, hash="0x1", permissions=permissions)

    def do(self, kind, **fields):
        """Apply a command to the server state."""
        return self.exchange.apply(kind(now_ms=self.now_ms, **fields))

    # ----- orders ----------------------------------------------------------------------------

    def place(self, body):
        """Place an order as the server does; return its events or the error."""
        try:
            parsed = self.placement.read({"marketId": NAME, **body})
            self.placement.check_signature(parsed)
            new, self.count = parsed.new(), self.count + 1
            outcome = self.exchange.apply(placed(new, self.service.ids, self.count, self.now_ms))
        except ClobError as rejection:
            return rejection
        return outcome

    def signed(self, maker, side, maker_amount, taker_amount, *, token=None, **fields):
        """Return the body of a signed order."""
        signer = fields.pop("signer", maker)
        self.market.salt += 1
        order = SignedOrder(
            maker=maker,
            signer=signer,
            side=side,
            maker_amount=maker_amount,
            taker_amount=taker_amount,
            token_id=self.market.yes if token is None else token,
            **{"salt": self.market.salt, **fields},
        )
        return sign(order, self.market.domain, KEYS[signer]).to_json()

    def unsigned(self, maker, side, price, size, *, token=None, wallet=None):
        """Return the body of an unsigned order."""
        token_id = str(self.market.yes if token is None else token)
        body = {"maker": maker, "tokenId": token_id, "side": int(side), "price": price}
        return body | {"size": str(size)} | ({} if wallet is None else {"smartWallet": wallet})

    # ----- settling --------------------------------------------------------------------------

    def settle(self):
        """Settle pending trades on the chain and in the engine; return failures."""
        waiting = list(self.settling.unsent(25))
        if not waiting:
            return []
        self.do(SendTrades, operation="one", trades=tuple(held.number for held in waiting))
        data = encode_settle_bodies([held.fill for held in waiting])
        outcome = self.market.evm.send(BOSS, self.market.exchange, data)
        assert outcome.reason == "", outcome.reason
        logs = outcome.logs
        done = {SETTLED.decode(log)[0] for log in logs if SETTLED.is_in(log)}
        failed = [FAILED.decode(log) for log in logs if FAILED.is_in(log)]
        for held in waiting:
            if int(held.fill.trade_id) in done:
                seqs = tuple(half.seq for half in held.halves)
                self.do(Settled, market=held.market, trades=seqs)
        ends = tuple(TradeEnd(trade=held.number, tx=TX) for held in waiting)
        self.do(EndTrades, ends=ends)
        return failed

    def settle_all(self):
        """Settle until no trade is pending; none may fail."""
        while self.settling.held:
            assert self.settle() == []
        assert self.exchange.matcher.unsettled(NAME) == []

    def accounts(self):
        """Return the engine's balances: collateral, YES, NO."""
        assets = (self.market.wrapped, str(self.market.yes), str(self.market.no))
        balance = self.exchange.matcher.balance
        return {
            address: tuple(balance(address, asset).balance for asset in assets)
            for address in (ALICE, BOB, CAROL, SAFE, FEES)
        }

    def chain(self):
        """Return the same balances from the chain."""
        return {
            address: self.market.balances(address) for address in (ALICE, BOB, CAROL, SAFE, FEES)
        }


def facts(fill):
    """Return a fill as plain values."""
    return {**asdict(fill), "resting": asdict(fill.resting), "incoming": asdict(fill.incoming)}


def amounts(side, collateral, size):
    """Return the given and the received amount in signing order."""
    return (collateral, size) if side is BUY else (size, collateral)
