"""What the metrics show of a server when they are asked for: sizes, counts and lags."""

from collections.abc import Callable
from typing import Final, NamedTuple

from clob_server.chain.client import Stage
from clob_server.chain.eth.accounts import ETHER_WEI
from clob_server.chain.messages import WorkerState
from clob_server.core.lifecycle import Phase
from clob_server.http.server import Server
from clob_server.log.sqlite import DATABASE


class Shown(NamedTuple):
    """A value that is shown."""

    name: str
    """Its name."""
    text: str
    """What it is."""
    read: Callable[[Server], float]
    """Reads it off a server that serves."""


GAUGES: Final = (
    Shown(
        "commands_waiting",
        "Commands that wait for the next batch.",
        lambda s: s.sequencer.num_queued,
    ),
    Shown("command_seq", "The number of the last command.", lambda s: s.sequencer.seq),
    Shown("markets", "Markets there are.", lambda s: len(s.state.matcher.markets)),
    Shown("open_orders", "Orders that rest.", lambda s: len(s.state.matcher)),
    Shown("keys", "API keys, deactivated ones included.", lambda s: len(s.state.registry.keys)),
    Shown("log_bytes", "The size of the log.", lambda s: log_bytes(s)),
    Shown("ready", "1 while orders are taken.", lambda s: s.lifecycle.phase is Phase.READY),
    Shown("chain_up", "1 while operations can begin.", lambda s: s.chain.stage is Stage.READY),
    Shown("chain_deaths", "Deaths of the chain's processes.", lambda s: s.chain.num_deaths),
    Shown("chain_head", "The newest block.", lambda s: of_chain(s, lambda of: of.head or 0)),
    Shown(
        "chain_operator_ether",
        "What the operator has for gas, in ether, about.",
        lambda s: of_chain(s, lambda of: int(of.operator_balance_wei or 0) / ETHER_WEI),
    ),
    Shown(
        "chain_pending",
        "Operations under way.",
        lambda s: of_chain(s, lambda of: of.counts.pending),
    ),
    Shown(
        "chain_stuck",
        "Operations that are stuck.",
        lambda s: of_chain(s, lambda of: of.counts.stuck),
    ),
    Shown(
        "chain_bumped",
        "Transactions offered again with a higher fee, ever.",
        lambda s: of_chain(s, lambda of: of.num_bumped),
    ),
    Shown(
        "chain_rebroadcast",
        "Transactions that the node forgot, since the worker began.",
        lambda s: of_chain(s, lambda of: of.num_rebroadcast),
    ),
    Shown(
        "chain_foreign_nonces",
        "Nonces of the operator that somebody else used.",
        lambda s: of_chain(s, lambda of: of.num_foreign),
    ),
    Shown(
        "settlement_pending",
        "Trades that wait to be sent to the chain.",
        lambda s: len(s.settlement.ledger.held) - len(s.settlement.ledger.sent),
    ),
    Shown(
        "settlement_submitted",
        "Trades that were sent, and of which nothing was heard yet.",
        lambda s: len(s.settlement.ledger.sent),
    ),
    Shown(
        "settlement_oldest_seconds",
        "For how long the oldest trade has waited to be settled.",
        lambda s: s.settlement.oldest_ms / 1_000,
    ),
    Shown(
        "settlement_block",
        "The block up to which the chain was heard.",
        lambda s: s.settlement.ledger.block or 0,
    ),
    Shown(
        "settlement_wallets",
        "Wallets that are followed on the chain.",
        lambda s: len(s.settlement.ledger.wallets),
    ),
    Shown(
        "settlement_difference",
        "Accounts that are not as the chain said, when all were last looked at in turn.",
        lambda s: s.settlement.inbox.num_differences,
    ),
)
"""What is shown."""


def show(server: Server) -> None:
    """Have the metrics of a server show all of it."""
    for shown in GAUGES:
        server.metrics.gauge(shown.name, shown.text, reader(server, shown))
    state = server.state
    num_accepted, num_trades = state.num_accepted, state.num_trades
    counter = server.metrics.counter
    counter("orders", "Orders accepted.", lambda: state.num_accepted - num_accepted)
    counter("trades", "Trades made.", lambda: state.num_trades - num_trades)


def reader(server: Server, shown: Shown) -> Callable[[], float]:
    """Give what reads a value."""
    return lambda: float(shown.read(server))


def of_chain(server: Server, read: Callable[[WorkerState], float]) -> float:
    """Read a value that the chain worker has told; 0 where there is none."""
    state = server.chain.state
    return 0.0 if state is None else read(state)


def log_bytes(server: Server) -> int:
    """Measure the files of the log."""
    return sum(path.stat().st_size for path in server.folder.glob(f"{DATABASE}*"))
