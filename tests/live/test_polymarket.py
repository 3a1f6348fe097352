"""Recordings of the market channel of a real server with the polymarket dialect."""

import json
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest
from websockets.sync.server import serve

from clob.client import Backoff, ConnectionFailedError, InvalidCallError, UnexpectedReplyError
from clob.live import record_polymarket
from clob.live.polymarket import channel_url
from clob.replay import backtest, detect, open_stream
from tests.client.chaos_proxy import ChaosProxy
from tests.server.dialects.polymarket import Market, dialect_server
from tests.server.dialects.test_market_channel import random_orders
from tests.server.live import environment

PATIENCE_S = 60
FAST = {"backoff": Backoff(first_s=0.02, max_s=0.1), "proxy": None}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with dialect_server(tmp_path_factory.mktemp("dialect")) as server:
        yield server


class Recording:
    """``clob record`` in a process of its own, until the end of the block."""

    def __init__(self, url, path, market):
        self.path = path
        tokens = ["--token", market.yes, "--token", market.no]
        self._command = ["record", url, "--dialect", "polymarket", *tokens, "--out", str(path)]

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clob", *self._command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.await_line("book", 2)
        return self

    def __exit__(self, *error):
        self.process.send_signal(signal.SIGINT)
        self.out, self.errors = self.process.communicate(timeout=PATIENCE_S)

    def messages(self):
        lines = self.path.read_bytes().split(b"\n")[:-1] if self.path.exists() else []
        parts = [json.loads(each) for each in lines]
        return [one for each in parts for one in (each if isinstance(each, list) else [each])]

    def await_line(self, kind, count):
        """Wait until the file has a number of messages of a kind."""
        limit_s = time.monotonic() + PATIENCE_S
        while sum(each["event_type"] == kind for each in self.messages()) < count:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < limit_s
            time.sleep(0.01)


def levels(market, token):
    """Return bids and asks of the server, as price and size, both as text."""
    book = market.live.http.get("/book", params={"token_id": token}).json()
    return [
        [(float(each["price"]), float(each["size"])) for each in reversed(book[name])]
        for name in ("bids", "asks")
    ]


def replayed(result, number):
    """Return bids and asks of a book after a replay."""
    depth = result.books[number].depth()
    return [
        [(each.price / 100, each.size / 10**18) for each in side]
        for side in (depth.bids, depth.asks)
    ]


@pytest.mark.parametrize("complementary", [False, True])
def test_recording_ends_with_the_books_of_the_server(live, tmp_path, complementary):
    market = Market(live, complementary=complementary)
    path = tmp_path / "day.jsonl"
    with Recording(live.url, path, market) as recording:
        for _ in random_orders(market, seed=1, count=60):
            now_ms = live.http.get("/api/time").json()["nowMs"]
            while live.http.get("/api/time").json()["nowMs"] <= now_ms:
                pass  # a reader combines the messages of one time
        market.place(0, 1, 777, market.yes)
        while not any('"777"' in json.dumps(each) for each in recording.messages()):
            time.sleep(0.01)
    assert (recording.process.returncode, recording.errors) == (0, "")
    assert f" {market.yes}, {market.no}\n" in recording.out
    assert detect(path) == "polymarket"
    stream = open_stream(path, window_ns=0)
    result = backtest(stream)
    assert result.divergence.total == 0
    assert not stream.problems.counts
    assert result.check.ok
    for number, token in enumerate((market.yes, market.no)):
        assert replayed(result, number) == levels(market, token)


def test_books_follow_a_disconnect_and_are_seeded_again(live, tmp_path):
    market, path = Market(live), tmp_path / "day.jsonl"
    with ChaosProxy(live.url) as proxy, Recording(proxy.url, path, market) as recording:
        market.place(0, 40, 3, market.yes)
        recording.await_line("price_change", 1)
        proxy.accepts = False
        proxy.cut()
        market.place(0, 41, 5, market.yes)
        proxy.accepts = True
        recording.await_line("book", 4)
    assert "reconnects" in recording.out
    assert "gaps" in recording.out
    stream = open_stream(path, on_problem="warn")
    with pytest.warns(match="book disagrees"):
        result = backtest(stream)
    assert replayed(result, 0) == levels(market, market.yes)


def test_recording_that_is_killed_is_readable(live, tmp_path):
    market, path = Market(live), tmp_path / "day.jsonl"
    with Recording(live.url, path, market) as recording:
        market.place(0, 40, 3, market.yes)
        recording.await_line("price_change", 1)
        recording.process.kill()
    content = path.read_bytes()
    for cut in (0, 1, 30):
        path.write_bytes(content[: len(content) - cut])
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            stream = open_stream(path, on_problem="warn")
            bids = backtest(stream).books[0].depth().bids
        assert len(bids) == (cut < 30)
        assert ["truncated line" in str(each.message) for each in found] == [True] * (cut == 30)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--dialect", "polymarket"], "needs at least one --token"),
        (["--dialect", "polymarket", "--token", "1", "--market", "m"], "--market is not used"),
        (["--token", "1"], "--token needs --dialect polymarket"),
        (["--dialect", "polymarket", "--token", "12345"], "rejected the tokens"),
    ],
)
def test_unusable_argument_exits_with_2(live, tmp_path, arguments, text):
    out = tmp_path / "day.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "clob", "record", live.url, "--out", str(out), *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE_S,
        check=False,
    )
    assert text in done.stderr
    assert done.returncode == 2
    assert not out.exists()


# ----- any server --------------------------------------------------------------------------------


def recorded(path, answer, **options):
    """Record a server that calls a function with each connection; return summary and request."""
    requests = []

    def handle(connection):
        requests.append(json.loads(connection.recv()))
        answer(connection)

    with serve(handle, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}/ws/market"
        summary = record_polymarket(url, path, tokens=["7"], **FAST, **options)
        server.shutdown()
    return summary, requests


def test_signs_of_life_are_sent_and_their_answers_are_not_recorded(tmp_path):
    seen = []

    def answer(connection):
        connection.send("[]")
        seen.append(connection.recv())
        connection.send("PONG")
        connection.send('[{"event_type": "last_trade_price",\n "timestamp": "1757908892000"}]')
        connection.recv()

    summary, requests = recorded(tmp_path / "day.jsonl", answer, duration_s=2)
    assert requests == [{"assets_ids": ["7"], "type": "market"}]
    assert seen == ["PING"]
    assert (summary.num_messages, summary.num_trades, summary.error) == (1, 1, None)
    assert summary.first_ms == summary.last_ms == 1757908892000
    text = '[{"event_type":"last_trade_price","timestamp":"1757908892000"}]\n'
    assert (tmp_path / "day.jsonl").read_text() == text


def test_other_text_ends_the_recording_with_an_error(tmp_path):
    def answer(connection):
        connection.send('{"event_type":"book","timestamp":"5"}')
        connection.send("INVALID OPERATION")
        connection.recv()

    summary, _ = recorded(tmp_path / "day.jsonl", answer)
    assert isinstance(summary.error, UnexpectedReplyError)
    assert "'INVALID OPERATION'" in str(summary.error)
    assert (tmp_path / "day.jsonl").read_text().count("\n") == 1


def test_no_file_without_a_connection(tmp_path):
    with pytest.raises(ConnectionFailedError, match="no connection within 5 s"):
        record_polymarket("ws://127.0.0.1:9/ws", tmp_path / "day.jsonl", tokens=["7"], **FAST)
    with pytest.raises(InvalidCallError, match="at least one id; got none"):
        record_polymarket("ws://127.0.0.1:9/ws", tmp_path / "day.jsonl", tokens=[])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://venue.example", "wss://venue.example/ws/market"),
        ("wss://venue.example/ws", "wss://venue.example/ws/market"),
        ("wss://venue.example/ws/market/", "wss://venue.example/ws/market"),
        ("ws://venue.example/ws/market?key=1", "ws://venue.example/ws/market?key=1"),
    ],
)
def test_address_of_the_channel(url, expected):
    assert channel_url(url) == expected
