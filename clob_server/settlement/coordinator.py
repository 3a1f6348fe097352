"""Has the trades of markets that settle settled on the chain, and the engine hear what came of it.

Trades go out in batches, each noted in the log before the chain is asked, under a name by which the
chain worker does it once. What comes of a trade is never heard from there: the worker reads it in
the blocks, together with what wallets hold after it, and one batch of commands takes both. So the
engine's accounts are those of the chain after some block, whatever dies in between.
"""

from collections.abc import Callable, Sequence
from typing import Final

from clob_server.chain.client import ChainClient, Stage
from clob_server.core.sequencer import Committed, Sequencer
from clob_server.core.settlement_ledger import Settling
from clob_server.http.admin_schemas import FailureBody, SettlementBody
from clob_server.settings import Settings
from clob_server.settlement.inbox import Hearing
from clob_server.settlement.markets import Conditions
from clob_server.settlement.sender import Sending
from clob_server.telemetry.metrics import Metrics

FAILURES: Final = 20
"""How many trades that failed are shown."""


class SettlementCoordinator:
    """Sends trades to the chain, and takes its news.

    Args:
        settings: settings of the server.
        clock_ms: returns the time, Unix milliseconds.
        sequencer: commits commands.
        chain: connection to the chain.
        metrics: counts operations and settlements.
        conditions: state of the markets on the chain.
    """

    def __init__(
        self,
        settings: Settings,
        clock_ms: Callable[[], int],
        sequencer: Sequencer,
        chain: ChainClient,
        metrics: Metrics,
        conditions: Conditions,
    ) -> None:
        self.hearing: Final = Hearing(clock_ms, sequencer, metrics)
        """What takes the news."""
        self.sending: Final = Sending(
            settings, clock_ms, sequencer, chain, metrics, conditions, self.hearing
        )
        """What sends the trades."""
        self._state: Final = sequencer.state
        self._clock_ms: Final = clock_ms
        self._chain: Final = chain
        self._markets: set[str] = set()
        self._is_watched = False

    @property
    def settling(self) -> Settling:
        """The trades that wait."""
        return self._state.registry.settling

    # ----- from start to end -------------------------------------------------------------------

    async def rise(self) -> None:
        """Begin to hear a worker that has just come, and ask it for what its forerunner left."""
        await self.hearing.end()
        self._is_watched = False
        if self.settling.base and self._has_exchange():
            self._watch()
            self.sending.rise()

    async def close(self) -> None:
        """Leave the rest to the next start."""
        await self.sending.close()
        await self.hearing.close()

    def _has_exchange(self) -> bool:
        """Say if there is a contract that settles."""
        addresses = self._chain.addresses
        return addresses is not None and addresses.exchange != ""

    def _watch(self) -> None:
        """Ask for the news from the block on that was heard last, and send what waits."""
        settling, worker = self.settling, self._chain.worker
        self._is_watched = True
        self.hearing.begin()
        self._markets = set(self._state.settles)
        tokens = self._tokens(self._markets)
        allowed = sorted(settling.permissions)
        worker.start_watching(
            settling.block, settling.block_hash, list(settling.wallets), tokens, allowed
        )
        self.sending.begin()

    def _tokens(self, markets: set[str]) -> list[str]:
        """Give the tokens of markets."""
        terms = [self._state.matcher.market(name) for name in sorted(markets)]
        return [token for each in terms for token in (each.yes, each.no)]

    # ----- what happens ------------------------------------------------------------------------

    def listen(self, batch: Sequence[Committed]) -> None:
        """Hear of a batch that is durable and done: there may be trades to send, or a market."""
        self.sending.look()
        settles = self._state.settles
        if len(settles) != len(self._markets):
            if self._is_watched:
                new = settles - self._markets
                self._markets |= new
                self._chain.worker.watch_tokens(self._tokens(new))
            elif self._chain.is_open and self._has_exchange():  # it is the first
                self._watch()

    # ----- how it is ---------------------------------------------------------------------------

    @property
    def oldest_ms(self) -> int:
        """For how long the oldest trade has waited, milliseconds; 0 where none does."""
        oldest = next(iter(self.settling.held.values()), None)
        return 0 if oldest is None else max(0, self._clock_ms() - oldest.traded_ms)

    @property
    def detail(self) -> str:
        """What holds settlement up, in a sentence; empty where nothing does."""
        chain = self._chain
        if not self.settling.base:
            return ""
        if chain.stage is not Stage.READY:
            return chain.detail or f"the chain is {chain.stage.value}"
        if not self._has_exchange():
            return chain.detail or "there is no exchange contract that this server may use"
        return self.hearing.trouble or self.sending.trouble

    def view(self) -> SettlementBody:
        """Describe it to an operator."""
        settling = self.settling
        failures = [each for each in settling.ended if each.reason]
        return SettlementBody(
            detail=self.detail,
            pending=len(settling.held) - len(settling.sent),
            submitted=len(settling.sent),
            operations=list(settling.operations),
            oldest_ms=self.oldest_ms,
            block=settling.block,
            block_hash=settling.block_hash or None,
            wallets=len(settling.wallets),
            difference=self.hearing.difference(),
            failures=[
                FailureBody(
                    market_id=each.market,
                    trades=[half.seq for half in each.halves],
                    traded=each.traded_ms,
                    tx_hash=each.tx,
                    reason=each.reason,
                )
                for each in failures[: -FAILURES - 1 : -1]
            ],
        )
