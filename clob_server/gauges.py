"""What the metrics show of a server when they are asked for: sizes, counts and lags."""

from collections.abc import Callable
from typing import Final, NamedTuple

from clob_server.log.sqlite import DATABASE
from clob_server.service import Phase, Service


class Shown(NamedTuple):
    """A value that is shown."""

    name: str
    """Its name."""
    text: str
    """What it is."""
    read: Callable[[Service], float]
    """Reads it off a server that serves."""


GAUGES: Final = (
    Shown(
        "commands_waiting", "Commands that wait for the next batch.", lambda s: s.engine.num_waiting
    ),
    Shown("command_seq", "The number of the last command.", lambda s: s.engine.seq),
    Shown("markets", "Markets there are.", lambda s: len(s.exchange.matcher.markets)),
    Shown("open_orders", "Orders that rest.", lambda s: len(s.exchange.matcher)),
    Shown("keys", "API keys, deactivated ones included.", lambda s: len(s.exchange.registry.keys)),
    Shown("log_bytes", "The size of the log.", lambda s: log_bytes(s)),
    Shown("ready", "1 while orders are taken.", lambda s: s.phase is Phase.READY),
)
"""What is shown."""


def show(service: Service) -> None:
    """Have the metrics of a server show all of it."""
    for shown in GAUGES:
        service.metrics.gauge(shown.name, shown.text, reader(service, shown))


def reader(service: Service, shown: Shown) -> Callable[[], float]:
    """Give what reads a value."""
    return lambda: float(shown.read(service))


def log_bytes(service: Service) -> int:
    """Measure the files of the log."""
    return sum(path.stat().st_size for path in service.folder.glob(f"{DATABASE}*"))
