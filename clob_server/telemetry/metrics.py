"""What is counted, for Prometheus. Each series is bound once: counting costs an addition."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

SECONDS: Final = (0.0005, 0.001, 0.002, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""The buckets of durations, in seconds."""
OPERATION_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)
"""Those of operations of the chain."""


class Observes(Protocol):
    """Something that takes one value after the other."""

    def observe(self, amount: float) -> None:
        """Take a value."""


class Metrics:
    """The series of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._refused = Counter(
            "clob_refusals", "Requests refused.", ["code"], registry=self._registry
        )
        self._seconds: dict[str, Durations] = {}
        self._registry.register(RequestSeconds(self._seconds))
        self.orders: Final = Counter("clob_orders", "Orders accepted.", registry=self._registry)
        self.trades: Final = Counter("clob_trades", "Trades made.", registry=self._registry)
        self.commit_seconds: Final = Histogram(
            "clob_commit_seconds",
            "How long a batch of commands took to become durable.",
            buckets=SECONDS,
            registry=self._registry,
        )
        self._operations = Counter(
            "clob_operations",
            "Operations of the chain that came to an end while their request or server waited.",
            ["kind", "outcome"],
            registry=self._registry,
        )
        self._operation_seconds = Histogram(
            "clob_operation_seconds",
            "From the request to the end of an operation of the chain.",
            ["kind"],
            buckets=OPERATION_SECONDS,
            registry=self._registry,
        )
        self._settlements = Counter(
            "clob_settlements",
            "Trades that came to an end on the chain, a mint or a merge counted once.",
            ["outcome"],
            registry=self._registry,
        )
        self._settlement_seconds = Histogram(
            "clob_settlement_seconds",
            "From a trade to the news that it is settled.",
            buckets=OPERATION_SECONDS,
            registry=self._registry,
        )
        self.loop_lag_seconds: Final = Histogram(
            "clob_loop_lag_seconds",
            "How late the event loop was where it was looked at.",
            buckets=SECONDS,
            registry=self._registry,
        )

    def seconds(self, route: str) -> Observes:
        """Give what takes the durations of the requests of a route."""
        return self._seconds.setdefault(route, Durations())

    def refused(self, code: str) -> None:
        """Count a refusal."""
        self._refused.labels(code).inc()

    def operation(self, kind: str, outcome: str, taken_s: float) -> None:
        """Count an operation of the chain.

        Args:
            kind: what it did.
            outcome: ``done``, ``failed``, or the code it was refused with.
            taken_s: from the request to its end, seconds.
        """
        self._operations.labels(kind, outcome).inc()
        self._operation_seconds.labels(kind).observe(taken_s)

    def settlement(self, outcome: str, taken_s: float) -> None:
        """Count a trade that came to its end on the chain.

        Args:
            outcome: ``settled`` or ``failed``.
            taken_s: from the trade to the news of its end, seconds.
        """
        self._settlements.labels(outcome).inc()
        if outcome == "settled":
            self._settlement_seconds.observe(taken_s)

    def count_also(self, refused: Mapping[str, int]) -> None:
        """Show what the transport refuses by itself, from its own counts by code."""
        self._registry.register(TransportRefusals(refused))

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Show a value that is asked for when the metrics are."""
        Gauge(f"clob_{name}", text, registry=self._registry).set_function(value)

    def page(self) -> bytes:
        """Write all series in the text format of Prometheus."""
        return generate_latest(self._registry)


class Durations:
    """The durations of the requests of a route, counted in a third of a microsecond.

    The library's own histogram takes a lock for each of its two numbers; here one thread counts.
    """

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts: Final = [0] * (len(SECONDS) + 1)
        """How many fell into each bucket, the last of which has no end."""
        self.total_s: float = 0.0
        """All of them together, in seconds."""

    def observe(self, amount: float) -> None:
        """Take one, in seconds."""
        self.counts[bisect_left(SECONDS, amount)] += 1
        self.total_s += amount


class RequestSeconds(Collector):
    """The durations of all routes, as Prometheus reads them.

    Args:
        durations: those of each route.
    """

    def __init__(self, durations: Mapping[str, Durations]) -> None:
        self._durations = durations

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Give them as they are now."""
        family = HistogramMetricFamily(
            "clob_request_seconds",
            "From the first line of a request to the end of its answer.",
            labels=["route"],
        )
        for route, durations in list(self._durations.items()):
            ends = [*map(floatToGoString, SECONDS), "+Inf"]
            buckets = list(zip(ends, accumulate(durations.counts), strict=True))
            family.add_metric([route], buckets, durations.total_s)
        yield family


class TransportRefusals(Collector):
    """Refusals that no route has seen, read where they are counted.

    Args:
        refused: how many, by code.
    """

    def __init__(self, refused: Mapping[str, int]) -> None:
        self._refused = refused

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Give them as they are now."""
        family = CounterMetricFamily(
            "clob_transport_refusals", "Refused before any route.", labels=["code"]
        )
        for code, count in list(self._refused.items()):
            family.add_metric([code], count)
        yield family
