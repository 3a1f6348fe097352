"""Turns updates of the chain into commands that bring the engine's balances up to date: pure.

An update becomes one batch of commands, unless it is so large that it would delay orders. Then it
is cut where the order does not matter: results of trades first, then balances, and last the block.
A crash in between is harmless, because the next start receives the whole update again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar

from clob import Cancel, CancelAll, Reopen, SetBalance, SetNonce, Settled, SettleFailed, Side
from clob.errors import UnknownOrderError
from clob.signing import ZERO_ADDRESS
from clob.status import OrderRecord
from clob.wire.operations import PartyBody
from clob_server.chain.events import ChainUpdate, Permission, SettlementResult, wallet_asset
from clob_server.core.commands import (
    AnyCommand,
    EndTrades,
    FollowChain,
    ReviseTrades,
    TradeEnd,
)
from clob_server.core.fills import reopened_trades
from clob_server.core.sequencer import Build
from clob_server.core.settlement_ledger import EndedTrade, HeldTrade
from clob_server.core.state import ServerState

CHUNK: Final = 100
"""Largest number of trades or accounts in a batch: orders behind it wait about 2 ms."""

Account: TypeAlias = tuple[str, str]
"""Wallet and asset."""

_T = TypeVar("_T")
_Part: TypeAlias = Callable[[int], Iterator[AnyCommand]]


class NothingToDoError(Exception):
    """The accounts are up to date: no command is needed."""


def merge_messages(messages: Sequence[ChainUpdate]) -> ChainUpdate:
    """Merge the messages of one update, in order of arrival; all but the last have ``more``."""
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
        cancelled_in=tuple(one for each in messages for one in each.cancelled_in),
        after_block=last.after_block,
        final_block=last.final_block,
        read=tuple(one for each in messages for one in each.read),
    )


def holdings_of(update: ChainUpdate) -> dict[Account, int]:
    """Return the reported balances; the last one wins if an account occurs twice."""
    return {(each.wallet, each.asset): int(each.amount) for each in update.holdings}


def assets_of(state: ServerState) -> set[str]:
    """Return the assets whose balances follow the chain, in wallets and in escrow."""
    found: set[str] = set()
    for name in state.settles:
        market = state.matcher.market(name)
        found |= {wallet_asset(market.collateral), market.collateral, market.yes, market.no}
    return found


def builds(state: ServerState, update: ChainUpdate, cool_ms: int = 0) -> Iterator[Build]:
    """Yield the builders of the commands that apply an update.

    Each must be committed before the next one is drawn, and may raise :class:`NothingToDoError`
    instead. The state is read when the batch is built. ``cool_ms`` is the cool-down of a wallet
    at its first fault.
    """
    amounts = holdings_of(update)
    last = partial(follow_chain, state, update)
    ends = partial(end_trades, state, update, cool_ms)
    if not update.whole and len(update.settlements) + len(amounts) <= CHUNK:
        yield _build(partial(ends, update.settlements), partial(set_balances, amounts), last)
        return
    for lost in chunks(lost_results(state, update)):
        yield _build(partial(withdraw, lost))
    for settlements in chunks(update.settlements):
        yield _build(partial(ends, settlements))
    if update.whole:
        amounts = dict.fromkeys(unreported_accounts(state, amounts), 0) | amounts
    change = partial(set_changed_balances, state) if update.whole else set_balances
    for accounts in chunks(list(amounts.items())):
        yield _build(partial(change, dict(accounts)))
    yield _build(last)


def chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Cut a sequence into chunks that fit into a batch."""
    for begin in range(0, len(items), CHUNK):
        yield items[begin : begin + CHUNK]


def _build(*parts: _Part) -> Build:
    """Combine the commands of some parts in one batch."""

    def build(now_ms: int) -> tuple[AnyCommand, ...]:
        commands = tuple(command for part in parts for command in part(now_ms))
        if not commands:
            raise NothingToDoError
        return commands

    return build


# ----- results of trades ---------------------------------------------------------------------


Verdict: TypeAlias = tuple[HeldTrade | EndedTrade, SettlementResult]
"""A trade, and its result on the chain."""


class Verdicts(NamedTuple):
    """Results of an update, by their effect."""

    new: list[Verdict]
    """For trades that are pending, or will be: those in ``withdrawn``."""
    moved: list[Verdict]
    """The same result as before, in another block or transaction."""
    withdrawn: list[EndedTrade]
    """Ended trades whose result was another one."""


def end_trades(
    state: ServerState,
    update: ChainUpdate,
    cool_ms: int,
    settlements: Sequence[SettlementResult],
    now_ms: int,
) -> Iterator[AnyCommand]:
    """Yield the commands that end trades, settled or failed; skip those that ended like that.

    The worker watches the wallets of the update from now on.
    """
    new, moved, withdrawn = verdicts(state, settlements, update.after_block)
    yield from withdraw(withdrawn, now_ms)
    by_market: dict[str, list[int]] = {}
    for trade, result in new:
        if result.error is None:
            by_market.setdefault(trade.market, []).extend(half.seq for half in trade.halves)
    for market, trades in by_market.items():
        yield Settled(market=market, trades=tuple(trades), now_ms=now_ms)
    for trade, result in new:
        if result.error is not None:
            yield from fail_trade(trade, result.error, result.responsible, now_ms)
    ends = tuple(_trade_end(*each) for each in (*new, *moved))
    if ends:
        yield EndTrades(ends=ends, cool_ms=cool_ms, now_ms=now_ms)
    settled = [trade for trade, result in new if result.error is None]
    for wallet, asset in _unwatched_accounts(state, settled, update.wallets):
        yield SetBalance(wallet=wallet, asset=asset, amount=0, now_ms=now_ms)


def verdicts(
    state: ServerState, settlements: Sequence[SettlementResult], after_block: int | None
) -> Verdicts:
    """Sort results by their effect; a settled one overrides a failed one.

    Earlier results of blocks after ``after_block`` count no longer. A trade that failed may settle
    later, if it was sent twice; one that settled never fails.
    """
    settling = state.registry.settling
    found: dict[int, SettlementResult] = {}
    for each in settlements:
        number = settling.number_of(int(each.trade_id))
        if number is not None and (number not in found or each.error is None):
            found[number] = each
    sorted_by = Verdicts([], [], [])
    for number, result in found.items():
        held, ended = settling.held.get(number), settling.ended.get(number)
        if held is not None:
            sorted_by.new.append((held, result))
        elif ended is not None and ended.fill is not None:
            is_removed = after_block is not None and ended.block > after_block
            if (result.error is None) is (not ended.reason):
                if is_removed and (ended.tx, ended.block) != (result.tx, result.block):
                    sorted_by.moved.append((ended, result))
            elif is_removed or result.error is None:
                sorted_by.withdrawn.append(ended)
                sorted_by.new.append((ended, result))
    return sorted_by


def lost_results(state: ServerState, update: ChainUpdate) -> list[EndedTrade]:
    """Return the ended trades whose result a reorganisation removed without another one."""
    if update.after_block is None:
        return []
    settling = state.registry.settling
    found = {settling.number_of(int(each.trade_id)) for each in update.settlements}
    removed = settling.ended_after(update.after_block)
    return [each for each in removed if each.number not in found]


def withdraw(withdrawn: Sequence[EndedTrade], now_ms: int) -> Iterator[AnyCommand]:
    """Yield the commands that withdraw results, so that the trades are pending again."""
    groups: dict[tuple[str, bool], list[EndedTrade]] = {}
    for each in withdrawn:
        groups.setdefault((each.market, not each.reason), []).append(each)
    for (market, settled), trades in groups.items():
        terms = tuple(term for each in trades for term in reopened_trades(each))
        yield Reopen(market=market, trades=terms, settled=settled, now_ms=now_ms)
    if withdrawn:
        blocks = ", ".join(str(block) for block in sorted({each.block for each in withdrawn}))
        numbers = tuple(each.number for each in withdrawn)
        reason = f"the chain replaced block {blocks}, which had the earlier result"
        yield ReviseTrades(trades=numbers, reason=reason, now_ms=now_ms)


def _trade_end(trade: HeldTrade | EndedTrade, result: SettlementResult) -> TradeEnd:
    """Return the end of a trade; a failed one always has a reason."""
    return TradeEnd(
        trade=trade.number,
        tx=result.tx,
        reason="" if result.error is None else result.error or "failed without a reason",
        block=result.block,
        responsible=() if result.error is None else result.responsible,
    )


def fail_trade(
    held: HeldTrade | EndedTrade, error: str, responsible: Sequence[str], now_ms: int
) -> Iterator[AnyCommand]:
    """Yield the commands that undo a trade and cancel the orders of the responsible makers."""
    yield SettleFailed(
        market=held.market,
        trade=held.halves[0].seq,
        wallet=responsible[0] if responsible else None,
        reason=error,
        now_ms=now_ms,
    )
    for maker in responsible[1:]:
        yield CancelAll(maker=maker, market=held.market, now_ms=now_ms)


def _unwatched_accounts(
    state: ServerState, settled: Sequence[HeldTrade | EndedTrade], wallets: Sequence[str]
) -> dict[Account, None]:
    """Return the accounts that trades changed although the chain worker does not watch them.

    Their wallets have not approved the exchange contract, so no update contains them: the fee
    wallet, and wallets that receive the proceeds of a maker.
    """
    known, new = state.registry.settling.wallets, frozenset(wallets)
    found: dict[Account, None] = {}
    for held in settled:
        market = state.matcher.market(held.market)
        assert held.fill is not None
        parties = (held.fill.resting, held.fill.incoming)
        owners = {market.fee_wallet: None} if any(each.charged_bps for each in parties) else {}
        owners |= dict.fromkeys(owner for each in parties for owner in _owners(each))
        for owner in owners:
            if owner not in known and owner not in new:
                assets = (market.collateral, *(each.token_id for each in parties))
                found |= {(owner, asset): None for asset in assets}
    return found


def parties_of(trade: HeldTrade | EndedTrade) -> set[str]:
    """Return the wallets whose balances a trade may change, without the one for fees."""
    parties = {each for half in trade.halves for each in (half.buyer, half.seller) if each}
    if trade.fill is not None:
        parties.update(*map(_owners, (trade.fill.resting, trade.fill.incoming)))
    return parties


def _owners(party: PartyBody) -> tuple[str, ...]:
    """Return the wallets whose balances an order changes."""
    return (party.maker,) if party.wallet == ZERO_ADDRESS else (party.maker, party.wallet)


# ----- balances ------------------------------------------------------------------------------


def set_balances(amounts: Mapping[Account, int], now_ms: int) -> Iterator[AnyCommand]:
    """Yield the commands that set balances to those of the chain."""
    for (wallet, asset), amount in amounts.items():
        yield SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=now_ms)


def set_changed_balances(
    state: ServerState, amounts: Mapping[Account, int], now_ms: int
) -> Iterator[AnyCommand]:
    """Yield the commands that set balances that differ from the chain's."""
    for (wallet, asset), amount in amounts.items():
        if state.matcher.balance(wallet, asset).balance != amount:
            yield SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=now_ms)


def unreported_accounts(state: ServerState, amounts: Mapping[Account, int]) -> list[Account]:
    """Return the engine's accounts in settled assets that ``amounts`` does not contain."""
    assets = assets_of(state)
    return [
        account
        for account in state.matcher.balances()
        if account[1] in assets and account not in amounts
    ]


# ----- permissions and cancels ---------------------------------------------------------------


def follow_chain(state: ServerState, update: ChainUpdate, now_ms: int) -> Iterator[AnyCommand]:
    """Yield the commands that cancel orders made invalid on the chain, and record the block."""
    known = state.registry.settling.wallets
    yield from raise_nonces(state, update, now_ms)
    for order_hash in update.cancelled:
        record = _resting_order(state, bytes.fromhex(order_hash[2:]))
        if record is not None:
            yield _cancel(record, now_ms)
    final = {(p.kind, p.owner, p.other): p for p in update.permissions}
    for permission in final.values():
        if not permission.allowed:
            yield from (_cancel(each, now_ms) for each in _dependent_orders(state, permission))
    yield FollowChain(
        block=update.block,
        hash=update.hash,
        wallets=tuple(each for each in dict.fromkeys(update.wallets) if each not in known),
        permissions=tuple((p.kind, p.owner, p.other, p.allowed) for p in final.values()),
        cancelled=update.cancelled,
        cancelled_in=update.cancelled_in,
        raised=tuple(
            (each.maker, each.nonce, each.block)
            for each in update.raised
            if each.block > max(update.final_block, 0)
        ),
        after_block=update.after_block,
        final_block=update.final_block,
        now_ms=now_ms,
    )


def raise_nonces(state: ServerState, update: ChainUpdate, now_ms: int) -> Iterator[AnyCommand]:
    """Yield the commands for raised nonces: final ones for the engine, where nonces never fall.

    The others cancel the orders below them; the ledger rejects new ones until they are final.
    """
    matcher, final_block = state.matcher, max(update.final_block, 0)
    stays = update.block if update.after_block is None else update.after_block
    before = [each for each in state.registry.settling.raised if each[2] <= stays]
    raised = [*before, *((each.maker, each.nonce, each.block) for each in update.raised)]
    final: dict[str, int] = {}
    others: dict[str, int] = {}
    for maker, nonce, block in raised:
        least = final if block <= final_block else others
        least[maker] = max(least.get(maker, matcher.nonce(maker)), int(nonce))
    for maker, lowest in final.items():
        if lowest > matcher.nonce(maker):
            yield SetNonce(maker=maker, nonce=lowest, now_ms=now_ms)
    for maker, lowest in others.items():
        for record in matcher.open_orders(maker=maker):
            if final.get(maker, 0) <= record.order.nonce < lowest:
                yield _cancel(record, now_ms)


def _cancel(record: OrderRecord, now_ms: int) -> Cancel:
    return Cancel(market=record.market, order_id=record.order.id, now_ms=now_ms)


def _resting_order(state: ServerState, order_hash: bytes) -> OrderRecord | None:
    """Return the resting order with a hash; None if there is no such order."""
    try:
        record = state.matcher.order_by_hash(order_hash)
    except UnknownOrderError:
        return None
    return record if record.remaining else None


def _dependent_orders(state: ServerState, permission: Permission) -> list[OrderRecord]:
    """Return the resting orders that depend on a revoked permission."""
    signature = state.signature
    kind, owner, other = permission.kind, permission.owner, permission.other
    maker, wallet = (other, owner) if kind == "payer" else (owner, other)
    orders = state.matcher.open_orders(maker=maker)
    records = [each for each in orders if each.market in state.settles]
    if kind == "gasless":
        return [each for each in records if signature(each.order.id) is None]
    if kind == "delegate":
        signed = ((each, signature(each.order.id)) for each in records)
        return [each for each, own in signed if own is not None and own.signer == other]
    side = Side.BUY if kind == "payer" else Side.SELL
    return [
        each for each in records if each.order.smart_wallet == wallet and each.order.side is side
    ]
