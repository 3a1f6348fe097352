"""Worker processes beside the first: the same answers everywhere, and what their end leaves."""

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import threading
import time

import httpx
import pytest
from websockets.sync.client import connect

from clob_server.cluster.followers import Followers
from clob_server.cluster.workers import MODULE, WorkerSettings, start_process
from clob_server.history.store import FILE
from clob_server.log import SqliteLog
from clob_server.log.pipe import BEAT, NUMBER
from clob_server.settings import Settings
from tests.server.api.makers import BUY, SELL, Maker, MarketIds
from tests.server.cluster.nodes import hold_orders, is_open
from tests.server.history.logs import random_log
from tests.server.live import live_server, started
from tests.server.log.nats_servers import free_ports

PATIENCE_S = 30
SLOW_S = 4
FIRST, WORKER = "first", "worker"


def eventually(found):
    """Return the first true value of a function."""
    end = time.monotonic() + PATIENCE_S
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return value


def workers_of(live):
    """Return the process ids of the workers of a server."""
    listed = subprocess.run(
        ["ps", "--ppid", str(live.process.pid), "-o", "pid=,args="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if MODULE in line]


@contextlib.contextmanager
def stopped(pid):
    """Stop a process within the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def connected_to(live, process):
    """Yield a client whose one connection is to a process: the other one is stopped meanwhile."""
    with contextlib.ExitStack() as stack:
        [worker] = workers_of(live)
        for _ in range(60):
            client = httpx.Client(
                base_url=live.url, timeout=0.5, limits=httpx.Limits(max_connections=1)
            )
            with stopped(live.process.pid if process == WORKER else worker):
                try:
                    client.get("/api/time")
                except httpx.TimeoutException:
                    client.close()
                    continue
            stack.callback(client.close)
            client.timeout = PATIENCE_S
            yield client
            return
        raise AssertionError(f"no connection to the {process}")


@contextlib.contextmanager
def two_processes(folder, **settings):
    """Run a server with one worker within the block."""
    with live_server(folder, workers=2, **settings) as running:
        eventually(lambda: metric(running, "clob_workers") == 1)
        yield running


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """The server of the tests that leave its processes running."""
    with two_processes(tmp_path_factory.mktemp("live"), rate_limits=False) as running:
        yield running


@pytest.fixture
def mortal(tmp_path):
    """The server of one test, which ends a process or damages a file."""
    with two_processes(tmp_path, rate_limits=False) as running:
        yield running


def metric(live, name):
    """Return the value of a metric without labels."""
    lines = live.http.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.split()[0] == name)


def test_change_at_either_process_is_read_at_both(live):
    maker, market = Maker(), MarketIds()
    with connected_to(live, FIRST) as first, connected_to(live, WORKER) as worker:
        for side, client in itertools.product((SELL, BUY), (first, worker)):
            response = client.post("/api/orders", json=maker.signed(market, side, price=60))
            assert response.status_code == 200, response.text
            seq = response.headers["x-applied-seq"]
            books = [
                each.get(f"/api/markets/{market.id}/orderbook?minSeq={seq}").json()
                for each in (first, worker)
            ]
            assert books[0] == books[1]
        trades = [each.get(f"/api/markets/{market.id}/trades").json() for each in (first, worker)]
        assert len(trades[0]) == 2
        assert trades[0] == trades[1]


def test_worker_reads_its_own_change_at_once(live):
    maker, market = Maker(), MarketIds()
    with connected_to(live, WORKER) as worker:
        for _ in range(20):
            placed = worker.post("/api/orders", json=maker.signed(market, SELL)).json()
            path = f"/api/orders/{placed['orderId']}"
            assert worker.get(path).json()["status"] == "open"
            assert worker.request("DELETE", path, json={"maker": maker.address}).status_code == 200
            assert worker.get(path).json()["status"] == "cancelled"


def test_invalid_requests_get_the_same_answer_from_both(live):
    maker, market = Maker(), MarketIds()
    bad = maker.signed(market, SELL) | {"signature": "0x" + "11" * 65}
    with connected_to(live, FIRST) as first, connected_to(live, WORKER) as worker:
        for method, path, body in [
            ("POST", "/api/orders", bad),
            ("POST", "/api/orders", {"maker": 7}),
            ("DELETE", "/api/orders/none", {"maker": maker.address}),
            ("GET", "/api/markets/none/orderbook", None),
            ("GET", "/nothing", None),
        ]:
            answers = [each.request(method, path, json=body) for each in (first, worker)]
            assert answers[0].status_code == answers[1].status_code >= 400
            bodies = [each.json() for each in answers]
            for each in bodies:
                each.pop("requestId", None)
            assert bodies[0] == bodies[1]


def test_killed_worker_is_started_again_and_loses_nothing(mortal):
    maker, market = Maker(), MarketIds()
    placed = []
    for _ in range(3):
        with connected_to(mortal, WORKER) as worker:
            for _ in range(10):
                response = worker.post("/api/orders", json=maker.signed(market, SELL))
                placed.append(response.json()["orderId"])
        [pid] = workers_of(mortal)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: workers_of(mortal) not in ([], [pid]))
        eventually(lambda: metric(mortal, "clob_workers") == 1)
    assert metric(mortal, "clob_worker_deaths") == 3
    query = {"maker": maker.address, "limit": 100}
    for process in (FIRST, WORKER):
        with connected_to(mortal, process) as client:
            listed = [each["id"] for each in client.get("/api/orders", params=query).json()]
            assert sorted(listed) == sorted(placed)


def test_workers_end_with_the_first_process(mortal):
    [pid] = workers_of(mortal)
    mortal.kill()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))


def test_stop_answers_the_requests_of_workers_and_ends_them(tmp_path):
    maker, market = Maker(), MarketIds()
    orders = [maker.signed(market, SELL) for _ in range(400)]
    answered = []
    with contextlib.ExitStack() as stack:
        stderr = stack.enter_context((tmp_path / "stderr").open("w"))
        live = started(tmp_path / "data", stderr, workers=2, rate_limits=False, drain_s=1)
        stack.callback(live.process.stdout.close)
        stack.callback(live.http.close)
        stack.callback(live.stop)
        eventually(lambda: metric(live, "clob_workers") == 1)
        [pid] = workers_of(live)
        with connected_to(live, WORKER) as worker:

            def place():
                for order in orders:
                    answered.append(worker.post("/api/orders", json=order).status_code)
                    if answered[-1] != 200:
                        return

            placing = threading.Thread(target=place)
            placing.start()
            eventually(lambda: len(answered) > 20)
            assert live.stop() == 0
            placing.join()
    assert answered[-1] == 503
    assert set(answered[:-1]) == {200}
    assert not os.path.exists(f"/proc/{pid}")
    assert (tmp_path / "stderr").read_text() == ""


def test_worker_starts_with_what_was_there_before(tmp_path):
    maker, market = Maker(), MarketIds()
    with live_server(tmp_path, rate_limits=False) as live:
        placed = live.http.post("/api/orders", json=maker.signed(market, SELL)).json()
        live.http.post("/api/orders", json=maker.signed(market, BUY, price=99))
        assert live.stop() == 0
    with (
        two_processes(tmp_path, rate_limits=False) as live,
        connected_to(live, WORKER) as worker,
    ):
        path = f"/api/orders/{placed['orderId']}"
        assert eventually(lambda: worker.get(path).json()["status"] in ("filled", "matched"))


def write_slowly(target, frames):
    """Write frames one after the other, for longer than a worker takes to start."""
    for frame in frames:
        os.write(target, frame)
        time.sleep(SLOW_S / len(frames))


async def test_frames_that_arrive_during_the_start_of_a_worker_are_applied(tmp_path):
    owner, [port] = Followers(bytes(32), None, lambda: True, None, None), free_ports(1)
    random_log(tmp_path)
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        frames = [frame for _, frame in log.frames(0, 1 << 30)]
        first, *_ = log.read()
        end, last = first.first_seq + first.count - 1, log.tail.seq
        end_hash = first.chain_hash.hex()
    settings = Settings(data_dir=str(tmp_path), port=0, chain="none", workers=2, rate_limits=False)
    (tmp_path / "ids.key").write_bytes(bytes(32))
    (tmp_path / "ids.key").chmod(0o600)
    described = WorkerSettings(settings, 2, f"127.0.0.1:{port}", has_chain=False)
    process = start_process(described, ["-m", MODULE, "0", str(end), end_hash])
    try:
        pump = threading.Thread(target=write_slowly, args=(process.stdin.fileno(), frames))
        pump.start()
        seen = []
        await asyncio.sleep(SLOW_S / 2)  # the worker waits for its owner meanwhile
        await owner.listen("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE_S):
            while last not in seen:
                data = await asyncio.to_thread(process.stdout.read, NUMBER.size)
                assert data, "the worker ended"
                seen += [number for (number,) in NUMBER.iter_unpack(data) if number != BEAT]
        pump.join()
        assert seen[0] == 0
    finally:
        owner.close()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


# ----- WebSockets ----------------------------------------------------------------------------


@contextlib.contextmanager
def held(live, maker, *, by_worker):
    """Hold the orders of a maker by a WebSocket to one of the processes."""
    [worker] = workers_of(live)
    with stopped(live.process.pid if by_worker else worker):
        while True:
            with contextlib.suppress(TimeoutError, OSError):
                socket = connect(live.ws_url, open_timeout=0.5)
                break
    with socket:
        hold_orders(socket, maker)
        yield socket


@pytest.mark.parametrize("by_worker", [True, False])
def test_end_of_a_websocket_cancels_the_orders_that_it_held(live, by_worker):
    maker, market = Maker(), MarketIds()
    with held(live, maker, by_worker=by_worker):
        placed = live.http.post("/api/orders", json=maker.signed(market, SELL)).json()["orderId"]
        time.sleep(0.3)
        assert is_open(live, placed)
    eventually(lambda: not is_open(live, placed))


def test_orders_stay_until_the_last_websocket_of_any_process_ends(live):
    maker, market = Maker(), MarketIds()
    with held(live, maker, by_worker=False):
        with held(live, maker, by_worker=True):
            placed = live.http.post("/api/orders", json=maker.signed(market, SELL)).json()
        time.sleep(0.5)
        assert is_open(live, placed["orderId"])
    eventually(lambda: not is_open(live, placed["orderId"]))


def test_end_of_a_worker_cancels_the_orders_that_its_websockets_held(mortal):
    maker, market = Maker(), MarketIds()
    with held(mortal, maker, by_worker=True), connected_to(mortal, FIRST) as first:
        order = maker.signed(market, SELL)
        path = f"/api/orders/{first.post('/api/orders', json=order).json()['orderId']}"
        assert first.get(path).json()["status"] == "open"
        [pid] = workers_of(mortal)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: first.get(path).json()["status"] == "cancelled")


# ----- one server to the outside -------------------------------------------------------------


def test_urls_behind_a_proxy_are_the_same_from_both_processes(tmp_path):
    with two_processes(tmp_path, trusted_proxies=("127.0.0.1",)) as live:
        for process in (FIRST, WORKER):
            with connected_to(live, process) as client:
                body = client.get("/", headers={"X-Forwarded-Proto": "https"}).json()
                assert body["documentation"] == f"{live.url.replace('http', 'https', 1)}/docs"


def test_metrics_have_the_requests_of_all_processes(live):
    with connected_to(live, WORKER) as worker:
        before = worker.get("/metrics").text
        worker.get("/api/markets")
        after = worker.get("/metrics").text
    name = 'clob_request_seconds_count{process="worker 2",route="list_markets"}'

    def value(page):
        return next(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name))

    assert value(after) == value(before) + 1
    families = [line.split()[2] for line in after.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))


def test_history_that_is_rebuilt_is_read_by_workers_again(mortal):
    maker, market = Maker(), MarketIds()
    with connected_to(mortal, WORKER) as worker:
        placed = worker.post("/api/orders", json=maker.signed(market, SELL)).json()["orderId"]
        path = f"/api/orders/{placed}"
        worker.request("DELETE", path, json={"maker": maker.address})
        assert worker.get(path).json()["status"] == "cancelled"
        (mortal.folder / FILE).unlink()
        again = worker.post("/api/orders", json=maker.signed(market, SELL)).json()["orderId"]
        worker.request("DELETE", f"/api/orders/{again}", json={"maker": maker.address})
        for order_id in (placed, again):
            eventually(
                lambda order_id=order_id: (
                    worker.get(f"/api/orders/{order_id}").json().get("status") == "cancelled"
                )
            )


def test_request_budgets_are_divided_among_the_processes(tmp_path):
    with live_server(tmp_path, workers=2) as live:
        whole = live.http.get("/").json()["rateLimit"]["testnet"]
        eventually(lambda: metric(live, "clob_workers") == 1)
        for process in (FIRST, WORKER):
            with connected_to(live, process) as client:
                limit = int(client.get("/api/markets").headers["x-ratelimit-limit"])
                assert f"{2 * limit} requests per minute without an API key" in whole


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--workers", "0"], "--workers must be"),
        (["--workers", "2", "--log", "nats://a", "--chain", "none"], "--workers must be 1 in a"),
    ],
)
def test_settings_that_workers_cannot_have_are_rejected(tmp_path, options, reason):
    command = ["clob-server", "run", "--data-dir", str(tmp_path), *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 2
    assert reason in ran.stderr


@pytest.mark.long
def test_frozen_worker_is_replaced(mortal):
    [pid] = workers_of(mortal)
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: workers_of(mortal) not in ([], [pid]))
    eventually(lambda: metric(mortal, "clob_workers") == 1)


@pytest.mark.parametrize("host", ["localhost", "0.0.0.0", "::1"])
def test_all_processes_listen_at_the_host_of_the_settings(tmp_path, host):
    with two_processes(tmp_path, host=host, allowed_hosts=("*",)) as live:
        [worker] = workers_of(live)
        port = live.url.rpartition(":")[2]
        address = "[::1]" if host == "::1" else "127.0.0.1"
        with stopped(live.process.pid):
            assert answers(f"http://{address}:{port}/api/time")
        with stopped(worker):
            assert answers(f"http://{address}:{port}/api/time")


def answers(url):
    """Return whether one of some new connections to a URL gets an answer."""
    for _ in range(60):
        with contextlib.suppress(httpx.TimeoutException):
            return httpx.get(url, timeout=0.5).status_code == 200
    return False


@pytest.mark.parametrize("history", ["process", "thread"])
def test_past_is_read_at_both_processes(tmp_path, history):
    maker, market = Maker(), MarketIds()
    with two_processes(tmp_path, rate_limits=False, history=history) as live:
        for side in (SELL, BUY):
            order = maker.signed(market, side, price=50)
            placed = live.http.post("/api/orders", json=order).json()["orderId"]
        for process in (FIRST, WORKER):
            with connected_to(live, process) as client:
                path = f"/api/fills?maker={maker.address}"
                assert (
                    len(eventually(lambda client=client, path=path: client.get(path).json())) == 2
                )
                assert eventually(
                    lambda client=client: (
                        client.get(f"/api/orders/{placed}").json().get("status") == "filled"
                    )
                )


@pytest.mark.long
def test_demo_runs_with_workers(tmp_path):
    with two_processes(tmp_path / "demo", demo=True) as live:
        with connected_to(live, WORKER) as worker:
            [market] = worker.get("/api/markets").json()
            trades = f"/api/markets/{market['marketId']}/trades"
            before = len(worker.get(trades).json())
            eventually(lambda: len(worker.get(trades).json()) > before)
        assert live.stop() == 0
