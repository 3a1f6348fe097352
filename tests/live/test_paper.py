"""Strategies over the feed of a real server: equal to a shadow backtest of the recording."""

import itertools
import os
import signal
import subprocess
import sys
import threading

import pytest

from clob.client import Backoff, NotFoundError
from clob.live import paper
from clob.replay import Latency, RateFees, ReplayFormatError, backtest, open_stream
from tests.live.flow import ONE, Both, Flow, Reacting, Waking
from tests.server.live import environment

MS = 10**6
OPTIONS = {"backoff": Backoff(first_s=0.02, max_s=0.1, steady_s=0.1), "proxy": None}
PATIENCE_S = 60
RUNS = {
    "waking": (Waking, {"every_ns": 7 * MS}),
    "waking with latency": (Waking, {"every_ns": 5 * MS, "latency": Latency(3 * MS, 4 * MS)}),
    "reacting": (Reacting, {}),
    "reacting with latency": (Reacting, {"latency": Latency(2 * MS, 2 * MS)}),
    "both": (
        Both,
        {
            "every_ns": 10 * MS,
            "latency": Latency(5 * MS, 1 * MS),
            "collateral": 10_000 * ONE,
            "fees": RateFees(100, 20),
        },
    ),
}


def traded(url, made, path, flows, work, **options):
    """Run a strategy while a thread works; end with the signal of Ctrl-C."""
    started = threading.Event()
    failures = []

    def run():
        assert started.wait(PATIENCE_S)
        try:
            work()
        except BaseException as error:
            failures.append(error)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=run)
    thread.start()
    strategy = made(started)
    markets = [each.market.id for each in flows]
    run = paper(url, strategy, markets=markets, record=path, **options, **OPTIONS)
    thread.join()
    assert not failures, failures
    return run, strategy


def check_equal(run, strategy, path, made, **options):
    """Compare a run with a shadow backtest of its recording."""
    again = made()
    stream = open_stream(path)
    result = backtest(stream, mode="shadow", strategy=again, **options)
    assert again.calls == strategy.calls
    assert result.digest == run.result.digest
    assert result.events == run.result.events
    assert result.divergence.total == run.result.divergence.total == 0
    return result, stream


@pytest.mark.parametrize("complementary", [False, True])
@pytest.mark.parametrize("name", RUNS)
def test_run_equals_a_shadow_backtest_of_its_recording(live, market, tmp_path, name, complementary):
    made, options = RUNS[name]
    flow = Flow(live, market, name, complementary=complementary)
    flow.run(60)
    path = tmp_path / "feed.jsonl"
    run, strategy = traded(live.url, made, path, [flow], lambda: flow.run(300), **options)
    result, _ = check_equal(run, strategy, path, made, **options)
    assert len(result.orders) > 5
    assert len(result.own_fills) > 0
    assert run.feed.num_trades > 20


def test_run_over_several_markets_equals_its_backtest(live, market, tmp_path):
    flows = [Flow(live, market, 1), Flow(live, type(market)("live"), 2)]
    for flow in flows:
        flow.run(40)
    made, options = RUNS["both"]

    def work():
        for _ in range(80):
            for flow in flows:
                flow.step()

    path = tmp_path / "feed.jsonl"
    run, strategy = traded(live.url, made, path, flows, work, **options)
    result, _ = check_equal(run, strategy, path, made, **options)
    assert {call[1] for call in strategy.calls if call[0] == "wake"} == {0, 1}
    assert len(result.own_fills) > 0


@pytest.mark.parametrize("missed", [5, 150])
def test_run_with_disconnects_equals_its_backtest(live, market, proxy, tmp_path, missed):
    flow = Flow(live, market, missed)
    flow.run(40)

    def work():
        for _ in range(2):
            flow.run(30)
            proxy.accepts = False
            proxy.cut()
            flow.run(missed)
            proxy.accepts = True
            links = proxy.num_links
            while proxy.num_links == links:  # until it connects again
                pass
            flow.run(30)

    made, options = RUNS["both"]
    path = tmp_path / "feed.jsonl"
    run, strategy = traded(proxy.url, made, path, [flow], work, **options)
    _, stream = check_equal(run, strategy, path, made, **options)
    gaps = stream.problems.remarks["gap, after which a snapshot replaced the book"]
    assert run.feed.num_gaps == gaps
    assert run.feed.num_connections > 1
    if missed == 5:
        assert gaps == 0


def test_wakes_follow_the_clock_without_messages(live, market, tmp_path):
    flow = Flow(live, market, 3)
    path = tmp_path / "feed.jsonl"
    strategy = Waking()
    options = {"every_ns": 20 * MS}
    run = paper(
        live.url, strategy, markets=[market.id], record=path, duration_s=0.5, **options, **OPTIONS
    )
    times = [ts_ns for _, _, ts_ns in strategy.calls]
    assert len(times) > 3
    assert {later - earlier for earlier, later in itertools.pairwise(times)} == {20 * MS}
    assert run.feed.num_trades == 0
    check_equal(run, strategy, path, Waking, **options)
    assert flow.seq() > 0


def test_order_of_a_size_between_lots_is_named(live, market, tmp_path):
    flow = Flow(live, market, 4)
    flow.send("POST", "gasless", flow.order(side=0, price=50, size=str(ONE + 100)))
    with pytest.raises(ReplayFormatError, match=r"lots of 1000000000000 wei; got 10+100 wei"):
        paper(live.url, Waking(), markets=[market.id], every_ns=MS, duration_s=1, **OPTIONS)


def test_unknown_market_is_rejected_without_a_file(live, tmp_path):
    path = tmp_path / "feed.jsonl"
    with pytest.raises(NotFoundError):
        paper(live.url, Waking(), markets=["unheard-of"], record=path, every_ns=MS, **OPTIONS)
    assert not path.exists()


# ----- the command -------------------------------------------------------------------------------

COMMAND = ["--strategy", "clob.replay.strategies:MarketMaker", "--every", "10ms"]


def run_clob(*arguments):
    """Run ``clob`` with arguments; return exit code, output and errors."""
    done = subprocess.run(
        [sys.executable, "-m", "clob", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_command_prints_the_digest_of_its_backtest(live, market, tmp_path):
    flow = Flow(live, market, 5)
    flow.run(40)
    path, page = tmp_path / "feed.jsonl", tmp_path / "page.html"
    files = ["--record", path, "--report", page, "--latency", "1ms"]
    code, out, errors = run_clob(
        "paper", live.url, "--market", market.id, "--for", "1s", *COMMAND, *files
    )
    assert (code, errors) == (0, "")
    digest = out.split("digest ")[1].split()[0]
    assert page.read_text().startswith("<!doctype html>")
    code, out, _ = run_clob("replay", path, "--mode", "shadow", "--latency", "1ms", *COMMAND)
    assert code == 0
    assert digest in out


def test_strategy_with_wakes_needs_an_interval(live):
    code, _, errors = run_clob("paper", live.url, "--for", "1s", *COMMAND[:2])
    assert code == 2
    assert "overrides on_wake, which needs --every" in errors


@pytest.mark.parametrize("package", ["numpy", "httpx", "websockets"])
def test_missing_package_is_named(package):
    code = f"import sys; sys.modules[{package!r}] = None; import clob.live"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"clob.live needs {package}, which is not installed: pip install" in done.stderr
