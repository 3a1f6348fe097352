"""The gauges and counters that read the server's state when the metrics are requested."""

from collections.abc import Callable
from functools import partial
from typing import Final

from clob_server.chain.client import Stage
from clob_server.chain.eth.accounts import ETHER_WEI
from clob_server.chain.messages import WorkerState
from clob_server.cluster.node import ClusterNode
from clob_server.cluster.workers import Workers
from clob_server.core.lifecycle import Phase
from clob_server.http.server import Server
from clob_server.log.sqlite import DATABASE


def of_chain(read: Callable[[WorkerState], float]) -> Callable[[Server], float]:
    """Return the function that reads the chain worker's last report; 0 without one."""

    def read_from(server: Server) -> float:
        return 0.0 if server.chain.state is None else read(server.chain.state)

    return read_from


def log_bytes(server: Server) -> int:
    """Return the size of the log files, in bytes."""
    return sum(path.stat().st_size for path in server.folder.glob(f"{DATABASE}*"))


def reads_chain(server: Server) -> bool:
    """Return whether this process is the one that reads the chain."""
    return server.chain.stage not in (Stage.NONE, Stage.ELSEWHERE)


GAUGES: Final[tuple[tuple[str, str, Callable[[Server], float]], ...]] = (
    ("commands_waiting", "Commands queued for the next batch.", lambda s: s.sequencer.num_queued),
    ("command_seq", "Number of the last command.", lambda s: s.sequencer.seq),
    ("markets", "Markets.", lambda s: len(s.state.markets)),
    ("open_orders", "Resting orders.", lambda s: len(s.state.matcher)),
    ("keys", "API keys, deactivated ones included.", lambda s: len(s.state.registry.keys)),
    ("log_bytes", "Size of the log.", log_bytes),
    (
        "ready",
        "1 while orders are accepted.",
        lambda s: s.lifecycle.phase is Phase.READY and s.clock.is_sure,
    ),
    (
        "clock_skew_seconds",
        "Seconds that the wall clock is ahead of the confirmed time.",
        lambda s: s.clock.skew_ms / 1_000,
    ),
    ("chain_up", "1 while chain operations can start.", lambda s: s.chain.stage is Stage.READY),
    ("chain_frozen", "1 while node or worker gives no sign of life.", lambda s: s.chain.is_frozen),
    ("chain_deaths", "Exits of the chain's processes.", lambda s: s.chain.num_deaths),
    ("chain_head", "Newest block of the chain.", of_chain(lambda worker: worker.head or 0)),
    (
        "chain_operator_ether",
        "Operator's balance for gas, in ether (approximate).",
        of_chain(lambda worker: int(worker.operator_balance_wei or 0) / ETHER_WEI),
    ),
    ("chain_pending", "Pending chain operations.", of_chain(lambda worker: worker.counts.pending)),
    ("chain_stuck", "Stuck chain operations.", of_chain(lambda worker: worker.counts.stuck)),
    (
        "chain_bumped",
        "Transactions replaced with a higher fee, since the outbox was created.",
        of_chain(lambda worker: worker.num_bumped),
    ),
    (
        "chain_rebroadcast",
        "Transactions sent again because the node lost them, since the worker started.",
        of_chain(lambda worker: worker.num_rebroadcast),
    ),
    (
        "chain_foreign_nonces",
        "Operator nonces used by another program.",
        of_chain(lambda worker: worker.num_foreign),
    ),
    (
        "settlement_pending",
        "Trades not sent to the chain yet.",
        lambda s: len(s.settlement.ledger.held) - len(s.settlement.ledger.sent),
    ),
    (
        "settlement_submitted",
        "Trades sent to the chain without a result yet.",
        lambda s: len(s.settlement.ledger.sent),
    ),
    (
        "settlement_oldest_seconds",
        "Age of the oldest unsettled trade.",
        lambda s: s.settlement.oldest_ms / 1_000,
    ),
    (
        "settlement_stalled",
        "Escrow markets that stopped matching.",
        lambda s: len(s.state.registry.stalls),
    ),
    (
        "settlement_block_age_seconds",
        "Seconds since the chain was last read up to its newest block; 0 if another node reads it.",
        lambda s: s.settlement.stalls.block_age_ms / 1_000 if reads_chain(s) else 0.0,
    ),
    (
        "settlement_block",
        "Last applied block of the chain.",
        lambda s: s.settlement.ledger.block or 0,
    ),
    (
        "settlement_wallets",
        "Wallets watched on the chain.",
        lambda s: len(s.settlement.wallets),
    ),
    (
        "settlement_difference",
        "Accounts that differed from the chain in the last comparison.",
        lambda s: s.settlement.inbox.num_differences,
    ),
)
"""All gauges: name without the ``clob_`` prefix, help text, and the function that reads it."""


NODE_GAUGES: Final[tuple[tuple[str, str, Callable[[ClusterNode], float]], ...]] = (
    ("node_owner", "1 while this node owns the log.", lambda node: node.is_owner),
    ("node_epoch", "Number of the last ownership of the log.", lambda node: node.epoch),
    ("node_lag_commands", "Commands that this node is behind the owner.", lambda node: node.lag),
    (
        "node_takeovers",
        "How often this node became the owner since it started.",
        lambda node: node.num_takeovers,
    ),
)
"""The gauges of a node of a cluster."""


WORKER_GAUGES: Final[tuple[tuple[str, str, Callable[[Workers], float]], ...]] = (
    ("workers", "Worker processes that answer clients.", lambda workers: workers.num_running),
    ("worker_deaths", "Unexpected exits of workers.", lambda workers: workers.num_deaths),
    (
        "worker_lag_commands",
        "Commands that the slowest worker had not applied at its last report.",
        lambda workers: workers.lag,
    ),
)
"""The gauges of a server with worker processes."""


def show_workers(server: Server, workers: Workers) -> None:
    """Register the gauges of worker processes."""
    for name, text, read in WORKER_GAUGES:
        server.metrics.gauge(name, text, partial(read, workers))


def show(server: Server) -> None:
    """Register the gauges and counters of a server."""
    for name, text, read in GAUGES:
        server.metrics.gauge(name, text, partial(read, server))
    if (node := server.node) is not None:
        for name, text, of_node in NODE_GAUGES:
            server.metrics.gauge(name, text, partial(of_node, node))
    state = server.state
    num_accepted, num_trades = state.num_accepted, state.num_trades
    counter = server.metrics.counter
    counter("orders", "Orders accepted.", lambda: state.num_accepted - num_accepted)
    counter("trades", "Trades made.", lambda: state.num_trades - num_trades)
