"""Watches wallets in use on the chain, and drops the others until they are asked for.

A wallet is in use while it has an account, orders, trades whose result is not final, escrow or a
permission, while a client follows its orders, and for some time after a request about it. The
account of a dropped wallet is empty. What it receives meanwhile is not seen, so it is read from the
chain before it counts. The exchange contract reports approvals, permissions and escrow of all
wallets; these bring a wallet back too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from clob_server.chain.events import ChainUpdate, WatchWallets
from clob_server.settlement.inbox import ChainInbox
from clob_server.settlement.operations import ChainContext, ChainPart, cancel
from clob_server.settlement.reconcile import chunks, parties_of

READ_S: Final = 5.0
"""Longest wait for the chain to read a wallet, seconds; an account that is not read is empty."""
CHECK_S: Final = 60.0
"""Longest interval between two checks of all wallets, seconds."""
CHECKS: Final = 4
"""Fewest checks until a wallet is dropped."""


class WatchedWallets(ChainPart):
    """Decides which wallets the chain worker watches.

    Args:
        context: the other parts of the server.
        inbox: applies the updates of the chain.
    """

    def __init__(self, context: ChainContext, inbox: ChainInbox) -> None:
        super().__init__(context)
        self._inbox = inbox
        self.followed: Callable[[], Iterable[str]] = tuple
        """Returns the wallets whose orders clients follow."""
        self._used_ms: dict[str, int] = {}
        self._reading: dict[str, asyncio.Future[None]] = {}
        self._task: asyncio.Task[None] | None = None
        inbox.on_applied = self.on_applied

    def __len__(self) -> int:
        return len(self._used_ms)

    def start(self) -> list[str]:
        """Return the wallets that a new worker watches: those in use."""
        now_ms, busy = self._clock_ms(), {*self._busy(), *self._reading}
        used = [
            wallet
            for wallet in self.ledger.wallets
            if wallet in busy or self._is_recent(wallet) or self._has_account(wallet)
        ]
        self._used_ms = {wallet: self._used_ms.get(wallet, now_ms) for wallet in used}
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return used

    def on_started(self) -> None:
        """Ask a new worker for the wallets that requests wait for."""
        if self._reading:
            self._chain.worker.watch_wallets(WatchWallets(wallets=list(self._reading)))

    async def close(self) -> None:
        """Stop the checks."""
        await cancel(() if self._task is None else (self._task,))

    # ----- requests ----------------------------------------------------------------------------

    def ask_for(self, wallets: Iterable[str]) -> Awaitable[object] | None:
        """Note that requests are about some wallets; return the reading of the dropped ones.

        Returns:
            None if the accounts of all wallets are up to date.
        """
        if self._task is None:
            return None
        wallets = tuple(wallets)
        self._use(wallets)
        waits = [self._reading[wallet] for wallet in wallets if wallet in self._reading]
        return asyncio.wait(waits, timeout=READ_S) if waits else None

    def _use(self, wallets: Iterable[str]) -> None:
        """Note the use of wallets, and watch those that were dropped."""
        now_ms, known = self._clock_ms(), self.ledger.wallets
        for wallet in wallets:
            if wallet in self._used_ms:
                self._used_ms[wallet] = now_ms
            elif wallet in known:
                self._watch(wallet)

    def _watch(self, wallet: str) -> None:
        """Watch a wallet that was dropped."""
        self._used_ms[wallet] = self._clock_ms()
        self._reading[wallet] = asyncio.get_running_loop().create_future()
        self._chain.worker.watch_wallets(WatchWallets(wallets=[wallet]))

    # ----- the chain ---------------------------------------------------------------------------

    def on_applied(self, update: ChainUpdate) -> None:
        """Follow an applied update: it may have read wallets, and name others that come back."""
        for wallet in update.wallets:
            self._used_ms[wallet] = self._clock_ms()
        for wallet in update.read:
            if wallet in self._reading:
                self._reading.pop(wallet).set_result(None)
        for wallet in dict.fromkeys(each.wallet for each in update.holdings):
            if wallet in self._used_ms or wallet not in self.ledger.wallets:
                continue
            if self._has_assets(wallet):  # the worker read the block before it dropped the wallet
                self._watch(wallet)
            else:
                self._inbox.forget(wallet)

    # ----- dropping ----------------------------------------------------------------------------

    async def _run(self) -> None:
        """Drop idle wallets, until cancelled."""
        pause_s = min(CHECK_S, self._settings.wallet_idle_s / CHECKS)
        while True:
            await asyncio.sleep(pause_s)
            await self.drop_idle()

    async def drop_idle(self) -> None:
        """Drop the wallets that are idle for long enough."""
        self._use(self.followed())
        idle: list[str] = []
        for chunk in chunks(list(self._used_ms)):
            idle += [wallet for wallet in chunk if self._is_idle(wallet)]
            await asyncio.sleep(0)
        if idle and self._inbox.is_synced and not self._inbox.is_applying:
            self._drop(idle)

    def _drop(self, wallets: Iterable[str]) -> None:
        """Drop those of some wallets that are idle now."""
        busy = self._busy()
        self._used_ms |= dict.fromkeys(busy & self._used_ms.keys(), self._clock_ms())
        dropped = [each for each in wallets if self._is_idle(each)]
        for wallet in dropped:
            del self._used_ms[wallet]
            self._inbox.forget(wallet)
        if dropped:
            self._chain.worker.watch_wallets(WatchWallets(dropped=dropped))

    def _is_idle(self, wallet: str) -> bool:
        """Return whether a watched wallet was neither in use nor asked for, for long enough."""
        if self._has_account(wallet):
            self._used_ms[wallet] = self._clock_ms()
        return wallet not in self._reading and not self._is_recent(wallet)

    def _is_recent(self, wallet: str) -> bool:
        """Return whether a wallet is watched and was in use or asked for a short time ago."""
        used_ms, idle_ms = self._used_ms.get(wallet), 1_000 * self._settings.wallet_idle_s
        return used_ms is not None and self._clock_ms() - used_ms < idle_ms

    def _has_account(self, wallet: str) -> bool:
        """Return whether a wallet has an account, orders, or something that the chain reported."""
        matcher = self._state.matcher
        return (
            self._has_assets(wallet)
            or bool(matcher.balances(wallet))
            or bool(matcher.open_orders(maker=wallet))
        )

    def _has_assets(self, wallet: str) -> bool:
        """Return whether the chain reported something that the wallet can trade with, or escrow."""
        return any(
            each.amount != "0" or (each.requested is not None and each.balance != "0")
            for each in self._inbox.holdings(wallet)
        )

    def _busy(self) -> set[str]:
        """Return the wallets with a permission, with a trade that is not final, or for fees."""
        ledger, markets = self.ledger, self._state.markets
        busy = {wallet for _, *wallets in ledger.permissions for wallet in wallets}
        busy |= {markets[name].fee_wallet for name in self._state.settles}
        ended = [each for each in ledger.ended.values() if not ledger.is_final(each.number)]
        return busy.union(*map(parties_of, ledger.held.values()), *map(parties_of, ended))
