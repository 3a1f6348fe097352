"""Recordings of a real server: every fill and every best price is reproduced."""

import os
import signal
import subprocess
import sys

import pytest

from clob.client import Backoff
from clob.live import FeedRecorder, FeedSource, record
from clob.replay import ReplayFormatError, backtest, detect, open_stream
from tests.live.flow import MAKERS, ONE, Flow
from tests.server.live import environment

BACKOFF = Backoff(first_s=0.02, max_s=0.1, steady_s=0.1)
OPTIONS = {"backoff": BACKOFF, "proxy": None, "timeout_s": 60}
PATIENCE_S = 60


class Recording:
    """A recorder in the thread of the test, which reads up to a number of a market."""

    def __init__(self, url, path, *markets):
        self.path, self.reached = path, {}
        self._source = FeedSource(url, markets, **OPTIONS)
        self._recorder = FeedRecorder(path)

    def __enter__(self):
        self._source.__enter__()
        self._recorder.__enter__()
        self._recorder.begin(self._source.header())
        return self

    def __exit__(self, *error):
        self._recorder.__exit__(*error)
        self._source.__exit__(*error)

    def read_up_to(self, flow):
        """Record until the last event of a market was received."""
        market, seq = flow.market.id, flow.seq()
        while self.reached.get(market, -1) < seq:
            messages = self._source.read(PATIENCE_S)
            assert messages, f"no message before event {seq}"
            self._recorder.add(messages)
            for each in messages:
                self.reached[each.market_id] = each.seq

    @property
    def summary(self):
        self._recorder.summary.num_connections = self._source.feed.num_connections
        return self._recorder.summary


def checked(path, flow, *, yes=0, complementary=False):
    """Replay a recording: it must be reproduced, and end with the books of the server."""
    stream = open_stream(path)
    result = backtest(stream)
    assert result.divergence.total == 0, result.divergence
    assert result.check.ok, result.check
    assert not stream.problems.counts
    for number, expected in enumerate(flow.levels()[: 1 if complementary else 2]):
        depth = result.books[yes + number].depth()
        sides = (depth.bids, depth.asks)
        assert [[(each.price, each.size) for each in side] for side in sides] == expected
    return stream, result


@pytest.mark.parametrize("complementary", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_recording_reproduces_every_fill_and_best_price(
    live, market, tmp_path, seed, complementary
):
    flow = Flow(live, market, seed, complementary=complementary)
    flow.run(60)  # the orders of the first snapshot have no ids
    path = tmp_path / "feed.jsonl"
    with Recording(live.url, path, market.id) as recording:
        flow.run(250)
        recording.read_up_to(flow)
    assert detect(path) == "feed"
    stream, result = checked(path, flow, complementary=complementary)
    assert recording.summary.num_gaps == 0
    assert result.check.recorded > 40
    assert stream.has_fills
    assert not stream.inferred
    assert set(stream.problems.remarks) == set()
    assert backtest(open_stream(path), mode="shadow").divergence.total == 0


def test_several_markets_are_one_recording(live, market, tmp_path):
    flows = [Flow(live, market, 1), Flow(live, type(market)("live"), 2)]
    path = tmp_path / "feed.jsonl"
    with Recording(live.url, path, *(each.market.id for each in flows)) as recording:
        for _ in range(80):
            for flow in flows:
                flow.step()
        for flow in flows:
            recording.read_up_to(flow)
    for place, flow in enumerate(flows):
        stream, _ = checked(path, flow, yes=2 * place)
    names = [(one.market, one.outcome) for one in stream.instruments]
    assert names == [(each.market.id, name) for each in flows for name in ("YES", "NO")]


def test_disconnect_is_resumed_without_a_gap(live, market, proxy, tmp_path):
    flow = Flow(live, market, 3)
    path = tmp_path / "feed.jsonl"
    with Recording(proxy.url, path, market.id) as recording:
        for _ in range(5):
            flow.run(15)
            recording.read_up_to(flow)
            proxy.cut()
            flow.run(5)
        recording.read_up_to(flow)
        assert recording.summary.num_connections > 1
    stream, _ = checked(path, flow)
    assert recording.summary.num_gaps == 0
    assert not stream.problems.remarks


def test_gap_is_marked_and_reported(live, market, proxy, tmp_path):
    flow = Flow(live, market, 4)
    path = tmp_path / "feed.jsonl"
    with Recording(proxy.url, path, market.id) as recording:
        flow.run(30)
        recording.read_up_to(flow)
        proxy.accepts = False
        proxy.cut()
        flow.run(150)  # more events than the server keeps
        proxy.accepts = True
        recording.read_up_to(flow)
        flow.run(100)
        recording.read_up_to(flow)
    stream, _ = checked(path, flow)
    assert recording.summary.num_gaps == 1
    assert stream.problems.remarks == {"gap, after which a snapshot replaced the book": 1}


def test_recording_that_is_cut_off_anywhere_is_readable(live, market, tmp_path):
    flow = Flow(live, market, 5)
    path = tmp_path / "feed.jsonl"
    with Recording(live.url, path, market.id) as recording:
        flow.run(40)
        recording.read_up_to(flow)
    content = path.read_bytes()
    begin = content.index(b"\n") + 1
    for end in range(begin, len(content), 397):
        path.write_bytes(content[:end])
        stream = open_stream(path)
        assert backtest(stream).divergence.total == 0
        assert not stream.problems.counts
        is_torn = content[end - 1 : end] != b"\n"
        # A line without its newline may be complete.
        assert stream.problems.remarks["last line cut off"] <= is_torn


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'{"type":"clock","timestampNs":1}\n', "expected the header of a recording"),
        (
            b'{"type":"recording","version":9,"url":"","timestamp":1,"lotWei":null,"markets":[]}\n',
            "version of the recording must be 1; got 9",
        ),
        (
            b'{"type":"recording","version":1,"url":"","timestamp":1,"lotWei":"1","markets":[]}\n'
            b'{"type":"tape"}\n',
            "expected a message of the feed",
        ),
        (
            b'{"type":"recording","version":1,"url":"","timestamp":1,"lotWei":"1","markets":[]}\n'
            b'{"type":"\xff"}\n',
            "expected a message of the feed",
        ),
        (
            b'{"type":"recording","version":1,"url":"","timestamp":1,"lotWei":"x","markets":[]}\n',
            "lotWei must be null or 1 or more wei in decimal digits; got 'x'",
        ),
        (
            b'{"type":"recording","version":1,"url":"","timestamp":1,"lotWei":"1",'
            b'"markets":[{"marketId":"m","yesTokenId":"1"}]}\n'
            b'{"type":"order_added","channel":"orderbook","marketId":"m","tokenId":"1","seq":1,'
            b'"timestamp":1,"data":{"orderId":"o","side":0,"price":50,"size":"x"}}\n',
            "unreadable line: invalid literal",
        ),
    ],
)
def test_unreadable_recording_is_rejected(tmp_path, content, text):
    path = tmp_path / "feed.jsonl"
    path.write_bytes(content)
    with pytest.raises(ReplayFormatError, match=text):
        backtest(open_stream(path, "feed"))


def test_existing_file_is_not_replaced(live, market, tmp_path):
    Flow(live, market, 6)
    path = tmp_path / "feed.jsonl"
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        record(live.url, path, markets=[market.id], duration_s=0)
    assert path.read_text() == "precious"


# ----- the command -------------------------------------------------------------------------------


def started(*arguments):
    """Start ``clob`` with arguments."""
    return subprocess.Popen(
        [sys.executable, "-m", "clob", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def await_lines(path, process, count):
    """Wait until a file has a number of lines."""
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, process.communicate()


def test_interrupt_ends_the_command_with_a_summary(live, market, tmp_path):
    flow, path = Flow(live, market, 8), tmp_path / "feed.jsonl"
    process = started("record", live.url, "--market", market.id, "--out", path)
    await_lines(path, process, 3)
    flow.run(30)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")
    assert f"markets    {market.id}\n" in out
    assert " messages, " in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--market", "unheard-of"], "UNKNOWN_MARKET"),
        (["--out", os.devnull], "the file exists"),
        (["--out", "/nowhere/feed.jsonl"], "FILE_UNWRITABLE: /nowhere/feed.jsonl"),
    ],
)
def test_unusable_argument_exits_with_2(live, tmp_path, arguments, text):
    out = [] if "--out" in arguments else ["--out", tmp_path / "feed.jsonl"]
    process = started("record", live.url, *out, *arguments)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert errors.startswith("clob: ")
    assert text in errors
    assert list(tmp_path.iterdir()) == []


def test_server_that_cannot_be_reached_exits_with_2(tmp_path):
    process = started("record", "http://127.0.0.1:9", "--out", tmp_path / "feed.jsonl")
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert errors.startswith("clob: CONNECTION_FAILED: no connection to ")


@pytest.mark.long
def test_recorder_that_is_killed_leaves_a_readable_recording(live, market, tmp_path):
    flow = Flow(live, market, 9)
    for number in range(6):
        path = tmp_path / f"feed{number}.jsonl"
        process = started("record", live.url, "--market", market.id, "--out", path)
        await_lines(path, process, 3)
        flow.run(20 + 13 * number)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
        stream = open_stream(path)
        result = backtest(stream)
        assert result.divergence.total == 0
        assert not stream.problems.counts


@pytest.mark.long
def test_day_of_the_demo_is_reproduced(tmp_path_factory, tmp_path):
    from tests.server.live import live_server  # noqa: PLC0415 - used here alone

    with live_server(tmp_path_factory.mktemp("demo") / "data", demo=True) as server:
        path = tmp_path / "feed.jsonl"
        summary = record(server.url, path, duration_s=20, **OPTIONS)
    assert summary.num_trades > 0
    result = backtest(open_stream(path))
    assert result.check.ok
    assert result.check.recorded == summary.num_trades
    assert result.divergence.total == 0


@pytest.mark.parametrize("more", [0, 3])
def test_own_order_between_others_of_a_snapshot_is_removed_by_a_command(
    live, market, tmp_path, more
):
    flow = Flow(live, market, 11)
    first, second = MAKERS[:2]
    level = {"token": str(market.yes), "side": 1, "price": 50, "selfTrade": "CANCEL_RESTING"}
    for maker in (first, second, first):
        flow.send("POST", "gasless", flow.order(**level, maker=maker, size=str(5 * ONE)))
    path = tmp_path / "feed.jsonl"
    with Recording(live.url, path, market.id) as recording:
        order = flow.order(**{**level, "side": 0}, maker=second, size=str((7 + more) * ONE))
        flow.send("POST", "gasless", order)
        recording.read_up_to(flow)
        flow.run(30)
        recording.read_up_to(flow)
    checked(path, flow)


def test_sizes_are_exact(live, market, tmp_path):
    flow = Flow(live, market, 10)
    path = tmp_path / "feed.jsonl"
    with Recording(live.url, path, market.id) as recording:
        for side in (0, 1):
            flow.send("POST", "gasless", flow.order(side=side, price=50, size=str(ONE + 7 * 100)))
        recording.read_up_to(flow)
    assert open_stream(path).lot_wei == 100
