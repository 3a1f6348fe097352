"""The gauges and counters that read the server's state when the metrics are requested."""

from collections.abc import Callable
from typing import Final, NamedTuple

from clob_server.chain.client import Stage
from clob_server.chain.eth.accounts import ETHER_WEI
from clob_server.chain.messages import WorkerState
from clob_server.core.lifecycle import Phase
from clob_server.http.server import Server
from clob_server.log.sqlite import DATABASE


class Gauge(NamedTuple):
    """A gauge of the metrics."""

    name: str
    """Name without the ``clob_`` prefix."""
    text: str
    """Help text."""
    read: Callable[[Server], float]
    """Reads the value from a running server."""


GAUGES: Final = (
    Gauge(
        "commands_waiting",
        "Commands queued for the next batch.",
        lambda s: s.sequencer.num_queued,
    ),
    Gauge("command_seq", "Number of the last command.", lambda s: s.sequencer.seq),
    Gauge("markets", "Markets.", lambda s: len(s.state.matcher.markets)),
    Gauge("open_orders", "Resting orders.", lambda s: len(s.state.matcher)),
    Gauge("keys", "API keys, deactivated ones included.", lambda s: len(s.state.registry.keys)),
    Gauge("log_bytes", "Size of the log.", lambda s: log_bytes(s)),
    Gauge("ready", "1 while orders are accepted.", lambda s: s.lifecycle.phase is Phase.READY),
    Gauge(
        "chain_up", "1 while chain operations can start.", lambda s: s.chain.stage is Stage.READY
    ),
    Gauge("chain_deaths", "Exits of the chain's processes.", lambda s: s.chain.num_deaths),
    Gauge(
        "chain_head",
        "Newest block of the chain.",
        lambda s: of_chain(s, lambda worker: worker.head or 0),
    ),
    Gauge(
        "chain_operator_ether",
        "Operator's balance for gas, in ether (approximate).",
        lambda s: of_chain(s, lambda worker: int(worker.operator_balance_wei or 0) / ETHER_WEI),
    ),
    Gauge(
        "chain_pending",
        "Pending chain operations.",
        lambda s: of_chain(s, lambda worker: worker.counts.pending),
    ),
    Gauge(
        "chain_stuck",
        "Stuck chain operations.",
        lambda s: of_chain(s, lambda worker: worker.counts.stuck),
    ),
    Gauge(
        "chain_bumped",
        "Transactions replaced with a higher fee, since the outbox was created.",
        lambda s: of_chain(s, lambda worker: worker.num_bumped),
    ),
    Gauge(
        "chain_rebroadcast",
        "Transactions sent again because the node lost them, since the worker started.",
        lambda s: of_chain(s, lambda worker: worker.num_rebroadcast),
    ),
    Gauge(
        "chain_foreign_nonces",
        "Operator nonces used by another program.",
        lambda s: of_chain(s, lambda worker: worker.num_foreign),
    ),
    Gauge(
        "settlement_pending",
        "Trades not sent to the chain yet.",
        lambda s: len(s.settlement.ledger.held) - len(s.settlement.ledger.sent),
    ),
    Gauge(
        "settlement_submitted",
        "Trades sent to the chain without a result yet.",
        lambda s: len(s.settlement.ledger.sent),
    ),
    Gauge(
        "settlement_oldest_seconds",
        "Age of the oldest unsettled trade.",
        lambda s: s.settlement.oldest_ms / 1_000,
    ),
    Gauge(
        "settlement_block",
        "Last applied block of the chain.",
        lambda s: s.settlement.ledger.block or 0,
    ),
    Gauge(
        "settlement_wallets",
        "Wallets watched on the chain.",
        lambda s: len(s.settlement.ledger.wallets),
    ),
    Gauge(
        "settlement_difference",
        "Accounts that differed from the chain in the last comparison.",
        lambda s: s.settlement.inbox.num_differences,
    ),
)
"""All gauges."""


def show(server: Server) -> None:
    """Register the gauges and counters of a server."""
    for gauge in GAUGES:
        server.metrics.gauge(gauge.name, gauge.text, reader(server, gauge))
    state = server.state
    num_accepted, num_trades = state.num_accepted, state.num_trades
    counter = server.metrics.counter
    counter("orders", "Orders accepted.", lambda: state.num_accepted - num_accepted)
    counter("trades", "Trades made.", lambda: state.num_trades - num_trades)


def reader(server: Server, gauge: Gauge) -> Callable[[], float]:
    """Return the function that reads a gauge."""
    return lambda: float(gauge.read(server))


def of_chain(server: Server, read: Callable[[WorkerState], float]) -> float:
    """Read a value of the chain worker's last report; 0 without one."""
    state = server.chain.state
    return 0.0 if state is None else read(state)


def log_bytes(server: Server) -> int:
    """Return the size of the log files, in bytes."""
    return sum(path.stat().st_size for path in server.folder.glob(f"{DATABASE}*"))
