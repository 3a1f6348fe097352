"""Prometheus metrics. Series are bound once, so that counting costs one addition."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

SECONDS: Final = (0.0005, 0.001, 0.002, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Buckets of durations, in seconds."""
OPERATION_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)
"""Buckets of chain operations, in seconds."""

_ENDS: Final = [*map(floatToGoString, SECONDS), "+Inf"]


class Durations:
    """Durations that one thread counts; adding one takes a third of a microsecond.

    The histogram of the metrics library takes two locks for each.
    """

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(SECONDS) + 1)
        """Count per bucket of :data:`SECONDS`; the last bucket is unbounded."""
        self.total_s: float = 0.0
        """Sum in seconds."""

    def add(self, seconds: float) -> None:
        """Add a duration."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the number of durations up to the end of each bucket."""
        return list(zip(_ENDS, accumulate(self.counts), strict=True))


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._rejected = Counter(
            "clob_refusals", "Rejected requests.", ["code"], registry=self._registry
        )
        self._seconds: dict[str, Durations] = {}
        self._registry.register(ScrapedMetric(lambda: request_seconds(self._seconds)))
        self.commits: Final = Durations()
        """Durations of the commits, for the thread that writes the log."""
        self._registry.register(ScrapedMetric(lambda: commit_seconds(self.commits)))
        self._operations = Counter(
            "clob_operations",
            "Chain operations that ended while a request or the server waited for them.",
            ["kind", "outcome"],
            registry=self._registry,
        )
        self._operation_seconds = Histogram(
            "clob_operation_seconds",
            "Time from the request to the end of a chain operation.",
            ["kind"],
            buckets=OPERATION_SECONDS,
            registry=self._registry,
        )
        self._settlements = Counter(
            "clob_settlements",
            "Trades settled or failed on the chain; a mint or merge counts once.",
            ["outcome"],
            registry=self._registry,
        )
        self._settlement_seconds = Histogram(
            "clob_settlement_seconds",
            "Time from a trade to its settlement.",
            buckets=OPERATION_SECONDS,
            registry=self._registry,
        )
        self.loop_lag_seconds: Final = Histogram(
            "clob_loop_lag_seconds",
            "Delay of the event loop, sampled.",
            buckets=SECONDS,
            registry=self._registry,
        )

    def add_durations(self, route: str, durations: Durations) -> None:
        """Show the request durations of a route."""
        self._seconds[route] = durations

    def rejected(self, code: str) -> None:
        """Count a rejected request."""
        self._rejected.labels(code).inc()

    def operation(self, kind: str, outcome: str, taken_s: float) -> None:
        """Count a chain operation that was ``done``, ``failed`` or rejected with a code."""
        self._operations.labels(kind, outcome).inc()
        self._operation_seconds.labels(kind).observe(taken_s)

    def settlement(self, outcome: str, taken_s: float) -> None:
        """Count a trade that was ``settled`` or ``failed`` some seconds after it was made."""
        self._settlements.labels(outcome).inc()
        if outcome == "settled":
            self._settlement_seconds.observe(taken_s)

    def add_transport_rejections(self, counts: Mapping[str, int]) -> None:
        """Show the transport's counts of rejections by code."""
        self._registry.register(ScrapedMetric(lambda: transport_rejections(counts)))

    def counter(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Add a counter whose value is kept elsewhere and read at each scrape."""
        self._registry.register(
            ScrapedMetric(lambda: CounterMetricFamily(f"clob_{name}", text, value=value()))
        )

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Add a gauge whose value is computed at each scrape."""
        Gauge(f"clob_{name}", text, registry=self._registry).set_function(value)

    def page(self) -> bytes:
        """Return all series in the Prometheus text format."""
        return generate_latest(self._registry)


OF_PROCESS: Final = (
    "clob_request_seconds",
    "clob_refusals",
    "clob_transport_refusals",
    "clob_loop_lag_seconds",
    "clob_websocket",
)
"""Beginnings of the names of metrics that each process has of its own."""


def with_pages(own: bytes, pages: Mapping[str, bytes]) -> bytes:
    """Return a page of metrics with those of other processes, which get a label ``process``.

    Metrics about the state, which all processes have, are taken from the own page.

    Args:
        own: the page of this process.
        pages: pages of the others, by name.
    """
    more: dict[str, list[str]] = {}
    for process, page in sorted(pages.items()):
        family = ""
        for line in page.decode().splitlines():
            if line.startswith("#"):
                family = line.split(" ", 3)[2]
            elif family.startswith(OF_PROCESS):
                name, brace, rest = line.partition("{")
                if not brace:
                    name, _, rest = line.partition(" ")
                    rest = f"}} {rest}"
                label = f'process="{process}"'
                separator = "" if rest.startswith("}") else ","
                more.setdefault(family, []).append(f"{name}{{{label}{separator}{rest}")
    lines: list[str] = []
    family = ""
    for line in own.decode().splitlines():
        if line.startswith("# HELP "):
            lines += more.pop(family, ())
            family = line.split(" ", 3)[2]
        lines.append(line)
    lines += more.pop(family, ())
    return ("\n".join(lines) + "\n").encode()


class ScrapedMetric(Collector):
    """A metric that is read at each scrape from where it is kept."""

    def __init__(self, read: Callable[[], Metric]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the metric with its current values."""
        yield self._read()


def request_seconds(durations: Mapping[str, Durations]) -> Metric:
    """Return the request durations by route."""
    family = HistogramMetricFamily(
        "clob_request_seconds",
        "Time from the first line of a request to the end of its response.",
        labels=["route"],
    )
    for route, each in list(durations.items()):
        family.add_metric([route], each.buckets(), each.total_s)
    return family


def commit_seconds(durations: Durations) -> Metric:
    """Return the durations of the commits."""
    family = HistogramMetricFamily(
        "clob_commit_seconds", "Time to write a batch of commands durably."
    )
    family.add_metric([], durations.buckets(), durations.total_s)
    return family


def transport_rejections(counts: Mapping[str, int]) -> Metric:
    """Return the number of requests rejected before any route, by code."""
    family = CounterMetricFamily(
        "clob_transport_refusals", "Requests rejected before any route.", labels=["code"]
    )
    for code, count in list(counts.items()):
        family.add_metric([code], count)
    return family
