"""Applies the updates of the chain: each becomes commands, in the order of arrival."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from clob_server.chain.events import ChainUpdate, SettlementResult, WalletHolding, Watched
from clob_server.core.rejections import NotOwnerError
from clob_server.core.sequencer import Build, SequencerStoppedError
from clob_server.core.settlement_ledger import EndedTrade, HeldTrade
from clob_server.settlement.operations import ChainContext, ChainPart, cancel
from clob_server.settlement.reconcile import (
    Account,
    NothingToDoError,
    assets_of,
    builds,
    chunks,
    holdings_of,
    lost_results,
    merge_messages,
    verdicts,
)

COMPARE_S: Final = 0.1
"""Interval of the background comparison of balances, one chunk each time, seconds."""

_LOG: Final = logging.getLogger("clob_server.chain")


class ChainInbox(ChainPart):
    """Applies the updates that the chain worker sends."""

    def __init__(self, context: ChainContext) -> None:
        super().__init__(context)
        self.error: str = ""
        """The reason why updates are no longer applied; empty while they are."""
        self.is_synced: bool = False
        """Whether the balances of all wallets were applied since the worker started."""
        self.is_applying: bool = False
        """Whether an update is being applied."""
        self.num_differences: int = 0
        """Number of accounts that differed from the chain in the last full comparison."""
        self.on_watched: Callable[[Watched], None] = lambda watched: None
        """Called when the updates of the blocks up to the newest one are applied."""
        self.on_applied: Callable[[ChainUpdate], None] = lambda update: None
        """Called with each update that was applied."""
        self._comparing: asyncio.Task[None] | None = None
        self._reported: dict[Account, int] = {}
        self._holdings: dict[str, dict[str, WalletHolding]] = {}
        self._fates: dict[int, tuple[bool, int]] = {}
        self._known_after: int | None = None
        self._parts: list[ChainUpdate] = []
        self._queue: asyncio.Queue[ChainUpdate | Watched | None] | None = None
        self._task: asyncio.Task[None] | None = None

    def holding(self, wallet: str, asset: str) -> WalletHolding | None:
        """Return the last report of an account; None if the chain reported nothing of it."""
        return self._holdings.get(wallet, {}).get(asset)

    def assets(self, wallet: str) -> Iterable[str]:
        """Return the assets of a wallet that the chain reported."""
        return self._holdings.get(wallet, ())

    def holdings(self, wallet: str) -> Iterable[WalletHolding]:
        """Return the last reports of the accounts of a wallet."""
        return self._holdings.get(wallet, {}).values()

    def forget(self, wallet: str) -> None:
        """Forget the reports of a wallet that is not watched any more."""
        for asset in self._holdings.pop(wallet, ()):
            self._reported.pop((wallet, asset), None)

    def start(self) -> None:
        """Start to accept updates."""
        self._queue, self._parts = asyncio.Queue(), []
        self._fates, self._known_after = {}, None
        self.is_synced, self.is_applying, self.error = False, False, ""
        self._task = asyncio.create_task(self._run(self._queue))
        if self._comparing is None:
            self._comparing = asyncio.create_task(self._compare())

    async def stop(self) -> None:
        """Drop queued updates of a worker that ended; the next worker sends them again."""
        queue, self._queue = self._queue, None
        if queue is None or self._task is None:
            return
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)
        await self._task  # an update that is being applied is finished first

    async def close(self) -> None:
        """Stop at once; the next start receives the missing updates again."""
        self._queue = None
        await cancel(task for task in (self._task, self._comparing) if task is not None)

    def receive(self, update: ChainUpdate | Watched) -> None:
        """Queue a message of the watcher; an update once its last part has arrived."""
        if self._queue is None:
            return
        if isinstance(update, Watched):
            self._queue.put_nowait(update)
            return
        self._parts.append(update)
        if not update.more:
            self._queue.put_nowait(merge_messages(self._parts))
            self._parts = []

    async def _run(self, queue: "asyncio.Queue[ChainUpdate | Watched | None]") -> None:
        try:
            while (update := await queue.get()) is not None:
                if isinstance(update, Watched):
                    self.on_watched(update)
                else:
                    await self._apply(update)
        except (SequencerStoppedError, NotOwnerError):
            self._queue = None
        except Exception as error:
            self._queue = None  # an update is missing: later ones must not be applied
            self.error = f"updates of the chain are no longer applied: {error}"
            _LOG.exception("updates of the chain are no longer applied")

    async def _apply(self, update: ChainUpdate) -> None:
        """Apply one update: trades, balances and permissions become those of the chain."""
        self.is_applying = True
        self._record_results(update)
        cool_ms = int(1_000 * self._settings.maker_cool_down_s)
        for build in builds(self._state, update, cool_ms):
            await self._submit(build)
        if update.whole:
            self._reported.clear()
            self._holdings.clear()
        self._reported.update(holdings_of(update))
        for each in update.holdings:
            self._holdings.setdefault(each.wallet, {})[each.asset] = each
        self._record_fates(update)
        self.is_synced = self.is_synced or update.whole
        self.is_applying = False
        self.on_applied(update)

    def _record_fates(self, update: ChainUpdate) -> None:
        """Remember the results of the update, whether settled and in which block, to compare."""
        ledger, after_block, fates = self.ledger, update.after_block, self._fates
        if after_block is not None:
            known = after_block if self._known_after is None else self._known_after
            self._known_after = min(known, after_block)
            fates = {number: fate for number, fate in fates.items() if fate[1] <= after_block}
        for each in update.settlements:
            number = ledger.number_of(int(each.trade_id))
            if number is not None and (each.error is None or not fates.get(number, (False,))[0]):
                fates[number] = each.error is None, each.block
        kept = ledger.ended.keys() | ledger.held.keys()
        self._fates = {number: fates[number] for number in fates.keys() & kept}

    async def _submit(self, build: Build) -> None:
        """Submit a command, waiting until it is accepted."""
        with suppress(NothingToDoError):
            await self._sequencer.deliver(build)

    def _record_results(self, update: ChainUpdate) -> None:
        """Count settled and failed trades, and log each failure with its reason."""
        now_ms = self._clock_ms()
        found = verdicts(self._state, update.settlements, update.after_block)
        for ended in (*found.withdrawn, *lost_results(self._state, update)):
            fields = {"market": ended.market, "trade": ended.number, "block": ended.block}
            _LOG.warning("a reorganisation removed the result of a trade", extra=fields)
        for held, result in found.new:
            outcome = "settled" if result.error is None else "failed"
            taken_s = max(0, now_ms - held.traded_ms) / 1_000
            self._metrics.settlement(outcome, taken_s)
            if result.error is not None:
                _LOG.warning("a trade failed to settle", extra=failure_fields(held, result))

    # ----- differences -------------------------------------------------------------------------

    async def _compare(self) -> None:
        """Compare all accounts with the reported balances, a chunk at a time, forever.

        Comparing a thousand accounts at once would delay orders by 4 ms.
        """
        matcher = self._state.matcher
        while True:
            await asyncio.sleep(COMPARE_S)
            count = 0
            for chunk in chunks(list(self._reported)):
                await asyncio.sleep(COMPARE_S)
                if self.is_applying or not self.is_synced:
                    break  # the reported balances are about to change
                reported = self._reported
                count += sum(matcher.balance(*own).balance != reported.get(own, 0) for own in chunk)
            else:
                self.num_differences = count

    def difference(self) -> int:
        """Count accounts that differ from the chain, and trades without a pending settlement.

        Pending trades cause no difference: their amounts stay in the balances until the batch of
        commands that applies their block. O(accounts).
        """
        if self.is_applying or not self.is_synced:
            return self.num_differences
        state, held = self._state, self.ledger.held
        assets = assets_of(state)
        balances = {
            account: own.balance
            for account, own in state.matcher.balances().items()
            if own.balance and account[1] in assets
        }
        reported = {account: amount for account, amount in self._reported.items() if amount}
        accounts = {account for account, _ in balances.items() ^ reported.items()}
        pending = {(each.market, half.seq) for each in held.values() for half in each.halves}
        unsettled = state.matcher.unsettled
        trades = {(market, seq) for market in state.settles for seq in unsettled(market)}
        return len(accounts) + len(pending ^ trades) + self._num_wrong_fates()

    def _num_wrong_fates(self) -> int:
        """Count trades with another result than the worker read from the chain."""
        ended, fates = self.ledger.ended, self._fates
        wrong = {number for number in fates if number not in ended}
        for number, each in ended.items():
            is_known = self._known_after is not None and each.block > self._known_after
            if number in fates or (is_known and each.fill is not None):
                settled, _ = fates.get(number, (None, 0))
                if settled is not (not each.reason):
                    wrong.add(number)
        return len(wrong)


def failure_fields(held: HeldTrade | EndedTrade, result: SettlementResult) -> dict[str, object]:
    """Return the log fields of a failed trade."""
    return {
        "market": held.market,
        "trade": held.number,
        "tx": result.tx,
        "reason": result.error,
        "blamed": ", ".join(result.responsible),
    }
