"""Settlement on the chain: connects the sender, the inbox and the chain worker.

Trades go out in batches. Each batch is logged under an operation id before the chain worker gets
it, and the worker runs an operation id once. Results do not come from the operation: the worker
reads them from the blocks, with the balances after each block, and one batch of commands applies
both. So the engine's balances always equal those of the chain after some block, whichever process
dies.
"""

from collections.abc import Sequence
from typing import Final

from clob import AddMarket, RemoveMarket
from clob.wire.info import FailureBody, SettlementBody
from clob_server.chain.client import Stage
from clob_server.chain.events import StartWatching, is_escrow
from clob_server.core.sequencer import Committed
from clob_server.settlement.inbox import ChainInbox
from clob_server.settlement.markets import MarketConditions
from clob_server.settlement.operations import ChainContext, ChainPart
from clob_server.settlement.sender import TradeSender
from clob_server.settlement.stalls import MarketStalls
from clob_server.settlement.wallets import WatchedWallets

FAILURES_MAX: Final = 20
"""Number of failed trades that are shown, the newest."""


class SettlementCoordinator(ChainPart):
    """Sends trades to the chain and applies its updates.

    Args:
        context: the other parts of the server.
        conditions: state of the markets on the chain.
    """

    def __init__(self, context: ChainContext, conditions: MarketConditions) -> None:
        super().__init__(context)
        self.inbox: Final = ChainInbox(context)
        self.sender: Final = TradeSender(context, conditions, self.inbox)
        self.stalls: Final = MarketStalls(context, self.inbox)
        self.wallets: Final = WatchedWallets(context, self.inbox)
        self._markets: set[str] = set()
        self._is_watched = False

    # ----- start and stop ----------------------------------------------------------------------

    async def on_worker_ready(self) -> None:
        """Start watching with a new chain worker, and resume the operations of the previous one."""
        await self.inbox.stop()
        self._is_watched = False
        if self.ledger.base and self._has_exchange():
            self._watch()
            self.sender.on_worker_ready()

    async def close(self) -> None:
        """Stop; the next start resumes from the log."""
        await self.sender.close()
        await self.wallets.close()
        await self.inbox.close()

    def _has_exchange(self) -> bool:
        """Return whether the chain has an exchange contract."""
        addresses = self._chain.addresses
        return addresses is not None and addresses.exchange != ""

    def _watch(self) -> None:
        """Watch the chain from the last applied block, and start sending."""
        ledger = self.ledger
        self._is_watched = True
        self.inbox.start()
        self._markets = set(self._state.settles)
        tokens, escrow_tokens = self._tokens(self._markets)
        message = StartWatching(
            after_block=ledger.block,
            block_hash=ledger.block_hash,
            final_block=ledger.final_block,
            wallets=self.wallets.start(),
            tokens=tokens,
            escrow_tokens=escrow_tokens,
            permissions=sorted(ledger.permissions),
        )
        self._chain.worker.start_watching(message)
        self.wallets.on_started()
        self.sender.start()

    def _tokens(self, markets: set[str]) -> tuple[list[str], list[str]]:
        """Return the YES and NO tokens of markets, those of escrow markets apart."""
        tokens: tuple[list[str], list[str]] = [], []
        for terms in (self._state.matcher.market(name) for name in sorted(markets)):
            tokens[is_escrow(terms.collateral)].extend((terms.yes, terms.no))
        return tokens

    # ----- commits -----------------------------------------------------------------------------

    def on_batch(self, batch: Sequence[Committed]) -> None:
        """Handle a committed batch: it may hold trades to send, or a new market."""
        self.sender.on_batch()
        settles = self._state.settles
        if self._is_watched:
            new = self._new_markets(batch)
            if new:
                self._markets |= new
                self._chain.worker.watch_tokens(*self._tokens(new))
        elif len(settles) != len(self._markets) and self._chain.is_open and self._has_exchange():
            self._watch()  # the first market

    def _new_markets(self, batch: Sequence[Committed]) -> set[str]:
        """Return the settling markets that a batch has created."""
        new: set[str] = set()
        for command in (done.command for done in batch):
            if type(command) is AddMarket and command.market.id in self._state.settles:
                new.add(command.market.id)
            elif type(command) is RemoveMarket and command.market not in self._state.settles:
                self._markets.discard(command.market)
        return new - self._markets

    # ----- status ------------------------------------------------------------------------------

    @property
    def oldest_ms(self) -> int:
        """Age of the oldest unsettled trade, milliseconds; 0 without one."""
        oldest = next(iter(self.ledger.held.values()), None)
        return 0 if oldest is None else max(0, self._clock_ms() - oldest.traded_ms)

    @property
    def detail(self) -> str:
        """The reason why settlement is delayed, as a sentence; empty while it works."""
        chain = self._chain
        if not self.ledger.base:
            return ""
        if chain.stage is not Stage.READY:
            return chain.detail or f"the chain is {chain.stage.value}"
        if not self._has_exchange():
            return chain.detail or "the chain has no exchange contract that this server may use"
        return self.inbox.error or self.sender.error

    def view(self) -> SettlementBody:
        """Return the state of settlement for an operator."""
        ledger = self.ledger
        failures = [each for each in ledger.ended.values() if each.reason]
        return SettlementBody(
            detail=self.detail,
            pending=len(ledger.held) - len(ledger.sent),
            submitted=len(ledger.sent),
            operations=list(ledger.operations),
            oldest_ms=self.oldest_ms,
            block=ledger.block,
            block_hash=ledger.block_hash or None,
            wallets=len(self.wallets),
            difference=self.inbox.difference(),
            stalled=sorted(self._state.registry.stalls),
            failures=[
                FailureBody(
                    market_id=each.market,
                    trades=[half.seq for half in each.halves],
                    traded=each.traded_ms,
                    tx_hash=each.tx,
                    reason=each.reason,
                )
                for each in failures[: -FAILURES_MAX - 1 : -1]
            ],
        )
