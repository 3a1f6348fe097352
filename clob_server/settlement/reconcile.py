"""From what the chain says to the commands that make the engine's accounts the same: pure.

What is said together becomes one batch of commands, unless it is so much that orders would wait for
it. Then it is cut where the sequence does not matter: what came of trades first, then accounts, and
at last that it was heard. Whoever is killed in between hears all of it again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeVar

from clob import Cancel, CancelAll, SetBalance, SetNonce, Settled, SettleFailed, Side
from clob.errors import UnknownOrderError
from clob.signing import ZERO_ADDRESS
from clob.status import OrderRecord
from clob_server.chain.events import ChainUpdate, Permission, SettlementResult
from clob_server.chain.operation_bodies import PartyBody
from clob_server.core.commands import AnyCommand, EndTrades, FollowChain, TradeEnd
from clob_server.core.sequencer import Build
from clob_server.core.settlement_ledger import HeldTrade
from clob_server.core.state import ServerState

PIECE: Final = 100
"""How many trades or accounts go into a batch at most: the orders behind it wait 2 ms or so."""

Account: TypeAlias = tuple[str, str]
"""A wallet and an asset."""

_T = TypeVar("_T")
_Part: TypeAlias = Callable[[int], Iterator[AnyCommand]]


class NothingToDoError(Exception):
    """The accounts are as they should be: no command is needed."""


def joined(messages: Sequence[ChainUpdate]) -> ChainUpdate:
    """Make one of the messages of the same news.

    Args:
        messages: in the sequence in which they came; all but the last have ``more``.
    """
    if len(messages) == 1:
        return messages[0]
    last = messages[-1]
    return ChainUpdate(
        block=last.block,
        hash=last.hash,
        whole=any(each.whole for each in messages),
        settlements=tuple(one for each in messages for one in each.settlements),
        holdings=tuple(one for each in messages for one in each.holdings),
        wallets=tuple(dict.fromkeys(one for each in messages for one in each.wallets)),
        permissions=tuple(one for each in messages for one in each.permissions),
        raised=tuple(one for each in messages for one in each.raised),
        cancelled=tuple(one for each in messages for one in each.cancelled),
    )


def holdings_of(news: ChainUpdate) -> dict[Account, int]:
    """Give what news say of accounts; of one that is named twice, what is said last."""
    return {(each.wallet, each.asset): int(each.amount) for each in news.holdings}


def assets_of(exchange: ServerState) -> set[str]:
    """Give the assets whose accounts are those of the chain."""
    found: set[str] = set()
    for name in exchange.settles:
        market = exchange.matcher.market(name)
        found |= {market.collateral, market.yes, market.no}
    return found


def makes(exchange: ServerState, news: ChainUpdate) -> Iterator[Build]:
    """Give what has to be asked of the engine, so that news are taken.

    Each has to be done before the next one is taken from here, and may raise
    :class:`NothingToDoError` instead.

    Args:
        exchange: the state; it is read once the batch is made.
        news: all of what was said together.
    """
    amounts = holdings_of(news)
    last = partial(followed, exchange, news)
    if not news.whole and len(news.settlements) + len(amounts) <= PIECE:
        ended = partial(ends, exchange, news.settlements, news.wallets)
        yield _make(ended, partial(balances, amounts), last)
        return
    for settlements in pieces(news.settlements):
        yield _make(partial(ends, exchange, settlements, news.wallets))
    if news.whole:
        amounts = dict.fromkeys(strangers(exchange, amounts), 0) | amounts
    change = partial(changes, exchange) if news.whole else balances
    for accounts in pieces(list(amounts.items())):
        yield _make(partial(change, dict(accounts)))
    yield _make(last)


def pieces(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Cut what is too much for one batch."""
    for begin in range(0, len(items), PIECE):
        yield items[begin : begin + PIECE]


def _make(*parts: _Part) -> Build:
    """Have the commands of some parts go into the same batch."""

    def make(now_ms: int) -> tuple[AnyCommand, ...]:
        commands = tuple(command for part in parts for command in part(now_ms))
        if not commands:
            raise NothingToDoError
        return commands

    return make


# ----- what came of trades -------------------------------------------------------------------


def ends(
    exchange: ServerState,
    settlements: Sequence[SettlementResult],
    wallets: Sequence[str],
    now_ms: int,
) -> Iterator[AnyCommand]:
    """Let trades wait no longer, settled or failed; those that wait for nothing are passed over.

    Args:
        exchange: the state.
        settlements: what came of trades.
        wallets: those that are known from now on.
        now_ms: the time of the commands.
    """
    found = waited(exchange, settlements)
    by_market: dict[str, list[int]] = {}
    for held, told in found:
        if told.error is None:
            by_market.setdefault(held.market, []).extend(half.seq for half in held.halves)
    for market, trades in by_market.items():
        yield Settled(market=market, trades=tuple(trades), now_ms=now_ms)
    for held, told in found:
        if told.error is not None:
            yield from failure(held, told.error, told.responsible, now_ms)
    if found:
        yield EndTrades(ends=tuple(_end(*each) for each in found), now_ms=now_ms)
    settled = [held for held, told in found if told.error is None]
    for wallet, asset in _foreign(exchange, settled, wallets):
        yield SetBalance(wallet=wallet, asset=asset, amount=0, now_ms=now_ms)


def waited(
    exchange: ServerState, settlements: Sequence[SettlementResult]
) -> list[tuple[HeldTrade, SettlementResult]]:
    """Give the trades that still wait with what came of them; one that was settled did not fail."""
    settling = exchange.registry.settling
    found: dict[int, SettlementResult] = {}
    for each in settlements:
        number = settling.number_of(int(each.trade_id))
        if number in settling.held and (number not in found or each.error is None):
            found[number] = each
    return [(settling.held[number], each) for number, each in found.items()]


def _end(held: HeldTrade, told: SettlementResult) -> TradeEnd:
    """State what came of a trade; one that failed has a reason, whatever it is."""
    reason = "" if told.error is None else told.error or "it failed, and nothing says why"
    return TradeEnd(trade=held.number, tx=told.tx, reason=reason)


def failure(
    held: HeldTrade, error: str, responsible: Sequence[str], now_ms: int
) -> Iterator[AnyCommand]:
    """Give back what a trade holds, and take out the orders of those who are to blame."""
    yield SettleFailed(
        market=held.market,
        trade=held.halves[0].seq,
        wallet=responsible[0] if responsible else None,
        reason=error,
        now_ms=now_ms,
    )
    for maker in responsible[1:]:
        yield CancelAll(maker=maker, market=held.market, now_ms=now_ms)


def _foreign(
    exchange: ServerState, settled: Sequence[HeldTrade], wallets: Sequence[str]
) -> dict[Account, None]:
    """Give the accounts that trades have filled though the exchange contract may take nothing.

    Their wallets never allowed it anything, so that no news speak of them: the wallet of fees, and
    those that are paid for a maker.
    """
    known, new = exchange.registry.settling.wallets, frozenset(wallets)
    found: dict[Account, None] = {}
    for held in settled:
        market = exchange.matcher.market(held.market)
        parties = (held.fill.resting, held.fill.incoming)
        owners = {market.fee_wallet: None} if any(each.charged_bps for each in parties) else {}
        owners |= dict.fromkeys(owner for each in parties for owner in _owners(each))
        for owner in owners:
            if owner not in known and owner not in new:
                assets = (market.collateral, *(each.token_id for each in parties))
                found |= {(owner, asset): None for asset in assets}
    return found


def _owners(party: PartyBody) -> tuple[str, ...]:
    """Give who holds something in the name of an order."""
    return (party.maker,) if party.wallet == ZERO_ADDRESS else (party.maker, party.wallet)


# ----- what wallets hold ---------------------------------------------------------------------


def balances(amounts: Mapping[Account, int], now_ms: int) -> Iterator[AnyCommand]:
    """Let accounts have what the chain says."""
    for (wallet, asset), amount in amounts.items():
        yield SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=now_ms)


def changes(
    exchange: ServerState, amounts: Mapping[Account, int], now_ms: int
) -> Iterator[AnyCommand]:
    """Let those accounts have what the chain says that have something else."""
    for (wallet, asset), amount in amounts.items():
        if exchange.matcher.balance(wallet, asset).balance != amount:
            yield SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=now_ms)


def strangers(exchange: ServerState, amounts: Mapping[Account, int]) -> list[Account]:
    """Give the accounts of the engine that are of the chain's assets, and are not named."""
    assets = assets_of(exchange)
    return [
        account
        for account in exchange.matcher.balances()
        if account[1] in assets and account not in amounts
    ]


# ----- what makers say -----------------------------------------------------------------------


def followed(exchange: ServerState, news: ChainUpdate, now_ms: int) -> Iterator[AnyCommand]:
    """Take out what makers no longer stand by, and state up to where the chain was heard."""
    matcher, known = exchange.matcher, exchange.registry.settling.wallets
    for raised in news.raised:
        if int(raised.nonce) > matcher.nonce(raised.maker):
            yield SetNonce(maker=raised.maker, nonce=int(raised.nonce), now_ms=now_ms)
    for hashed in news.cancelled:
        record = _resting(exchange, bytes.fromhex(hashed[2:]))
        if record is not None:
            yield _cancel(record, now_ms)
    final = {(p.kind, p.owner, p.other): p for p in news.permissions}
    for permission in final.values():
        if not permission.allowed:
            yield from (_cancel(each, now_ms) for each in _leaning(exchange, permission))
    yield FollowChain(
        block=news.block,
        hash=news.hash,
        wallets=tuple(each for each in dict.fromkeys(news.wallets) if each not in known),
        permissions=tuple((p.kind, p.owner, p.other, p.allowed) for p in final.values()),
        cancelled=news.cancelled,
        now_ms=now_ms,
    )


def _cancel(record: OrderRecord, now_ms: int) -> Cancel:
    """Take an order out."""
    return Cancel(market=record.market, order_id=record.order.id, now_ms=now_ms)


def _resting(exchange: ServerState, hashed: bytes) -> OrderRecord | None:
    """Give the order of a hash that rests; None where there is none."""
    try:
        record = exchange.matcher.order_by_hash(hashed)
    except UnknownOrderError:
        return None
    return record if record.remaining else None


def _leaning(exchange: ServerState, permission: Permission) -> list[OrderRecord]:
    """Give the resting orders that the chain would settle only with what is allowed no more."""
    signature = exchange.signature
    kind, owner, other = permission.kind, permission.owner, permission.other
    maker, wallet = (other, owner) if kind == "payer" else (owner, other)
    records = [
        record
        for record in exchange.matcher.open_orders(maker=maker)
        if record.market in exchange.settles
    ]
    if kind == "gasless":
        return [each for each in records if signature(each.order.id) is None]
    if kind == "delegate":
        return [
            each
            for each in records
            if (own := signature(each.order.id)) is not None and own.signer == other
        ]
    side = Side.BUY if kind == "payer" else Side.SELL
    return [
        each for each in records if each.order.smart_wallet == wallet and each.order.side is side
    ]
