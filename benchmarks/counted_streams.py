"""Streams of the gate on instructions: small, seeded, and the same in each run."""

import asyncio
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

import numpy as np

from benchmarks import history
from benchmarks.bench_journal import drop, frames, submission
from benchmarks.bench_matcher import commands, drive_matcher, matcher_for
from benchmarks.bench_signing import DOMAIN, make_flow
from benchmarks.bench_socket import HOST, RECEIVED, http_request, http_request_of
from benchmarks.bench_submit import actions, make_order
from benchmarks.flow import Mix
from benchmarks.measure import check_equal
from benchmarks.orders import MARKET, TOKENS, signed_bodies
from benchmarks.workload import MIXES, WEI_PER_LOT, Workload, generated, to_events
from clob import Book, Submit
from clob.records import FILL
from clob.replay import backtest
from clob.signing import verify
from clob_server.app import App
from clob_server.service import Service
from clob_server.settings import Settings
from clob_server.transport.server import HttpServer, config_for

NUM_TIMED, DEPTH = 20_000, 10_000
NUM_APPLIED = 5_000
NUM_SIGNED = 100
NUM_REQUESTS, NUM_WARM, NUM_BLOCKS = 100, 100, 5

Prepared = tuple[int, Callable[[], object]]
"""Number of items, and the counted work over all of them."""
Count = Callable[[str], AbstractContextManager[None]]


def flow(name: str, num_timed: int = NUM_TIMED) -> Workload:
    """Return the beginning of a stream of the other benchmarks."""
    mix = MIXES[name]
    return generated(Mix(num_timed, DEPTH, mix.crossing, mix.adding, mix.seed))


# ----- the engine ----------------------------------------------------------------------------


def run_batch(name: str, ids: str) -> Prepared:
    """Prepare ``Book.run``."""
    workload = flow(name)
    events = to_events(workload, ids)
    book, timed = Book(lot_wei=WEI_PER_LOT), events[workload.prefill :].copy()
    book.run(events[: workload.prefill])
    fills = np.full(2 * NUM_TIMED, 1, dtype=FILL)
    status = np.ones(NUM_TIMED, dtype=np.uint8)
    return NUM_TIMED, lambda: book.run(timed, fills=fills, status=status)


def run_submit() -> Prepared:
    """Prepare ``Book.submit`` and ``Book.cancel``, one at a time."""
    workload = flow("mixed", NUM_APPLIED)
    book, todo = Book(), actions(workload)
    orders = [
        (cancels, name if cancels else make_order(name, side, price, size))
        for cancels, name, side, price, size in todo
    ]

    def drive(part: list[tuple[bool, object]]) -> None:
        submit, cancel = book.submit, book.cancel
        for cancels, subject in part:
            (cancel if cancels else submit)(subject)  # type: ignore[arg-type]

    drive(orders[: workload.prefill])
    return NUM_APPLIED, lambda: drive(orders[workload.prefill :])


def run_apply(*, hashed: bool, accounts: bool) -> Prepared:
    """Prepare ``Matcher.apply``."""
    workload = flow("mixed", NUM_APPLIED)
    todo = commands(workload, 1, hashed=hashed)
    makers = {each.order.maker for each in todo if isinstance(each, Submit)}
    matcher = matcher_for(1, makers, accounts=accounts)
    drive_matcher(matcher, todo[: workload.prefill], lambda _: None)
    ready, kept = todo[workload.prefill :], []
    return NUM_APPLIED, lambda: drive_matcher(matcher, ready, kept.append)


def run_journal() -> Prepared:
    """Prepare encoding and chaining of frames."""
    todo = [submission(number) for number in range(NUM_APPLIED)]
    return NUM_APPLIED, lambda: drop(frames(todo))


def run_verify() -> Prepared:
    """Prepare the check of a signed order."""
    orders = make_flow(NUM_SIGNED).orders
    return NUM_SIGNED, lambda: [verify(each, DOMAIN) for each in orders]  # type: ignore[func-returns-value]


def run_day() -> Prepared:
    """Prepare the replay of a day."""
    events = history.history(quick=True)
    return len(events), lambda: backtest(history.stream_of(events))


def streams() -> Mapping[str, Callable[[], Prepared]]:
    """Return the streams by title."""
    batches = {
        f"run {name}, {ids} ids": partial(run_batch, name, ids)
        for name in ("mixed", "add_cancel", "sweep")
        for ids in ("dense", "arbitrary")
    }
    return batches | {
        "submit and cancel": run_submit,
        "apply": partial(run_apply, hashed=False, accounts=False),
        "apply, order hashes": partial(run_apply, hashed=True, accounts=False),
        "apply, accounts": partial(run_apply, hashed=False, accounts=True),
        "encode and chain": run_journal,
        "verify": run_verify,
        "replay of a day": run_day,
    }


# ----- the server ----------------------------------------------------------------------------


def serve(count: Count) -> None:
    """Count requests to a real server in this process, one after another over a socket."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=folder, port=0, chain="none", rate_limits=False, drain_s=0)
        config = config_for(App(Service(settings)), host=HOST, port=0)
        ends: list[threading.Thread] = []

        def on_listening(_: str, port: int) -> None:
            ends.append(threading.Thread(target=send_all, args=(port, count, server)))
            ends[0].start()

        server = HttpServer(config, on_listening=on_listening)
        check_equal("exit code of the server", 0, server.run())
        ends[0].join()


def send_all(port: int, count: Count, server: HttpServer) -> None:
    """Send requests, and stop the server.

    Each kind is counted several times, since the server's ticks fall into some of the blocks.
    """
    num_bodies = NUM_WARM + NUM_BLOCKS * NUM_REQUESTS
    creates = [http_request(body) for body in signed_bodies(num_bodies, Settings().domain, 1)]
    traced = [
        http_request_of(body.encode(), b"Traceparent: %032x\r\n" % number)
        for number, body in enumerate(signed_bodies(num_bodies, Settings().domain, 2))
    ]
    path = f"/api/markets/{MARKET}/orderbook?tokenId={TOKENS[0]}"
    book = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    with socket.create_connection((HOST, port)) as connection:
        for title, requests in (
            ("http: signed create", creates),
            ("http: signed create, heads that differ", traced),
            ("http: GET orderbook", [book] * num_bodies),
        ):
            send_each(connection, requests[:NUM_WARM])
            for start in range(NUM_WARM, num_bodies, NUM_REQUESTS):
                with count(f"{title}={NUM_REQUESTS}"):
                    send_each(connection, requests[start : start + NUM_REQUESTS])
    asyncio.run_coroutine_threadsafe(end(server), server._loop).result()


async def end(server: HttpServer) -> None:
    """Stop the server."""
    server.end()


def send_each(connection: socket.socket, requests: list[bytes]) -> None:
    """Send requests one after another; each must succeed."""
    for request in requests:
        connection.sendall(request)
        reply = connection.recv(RECEIVED)
        check_equal("status of a reply", b"HTTP/1.1 200", reply[:12])
