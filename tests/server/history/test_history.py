"""History over HTTP: paging, restarts, and failures of the follower."""

import contextlib
import os
import resource
import signal
import time
import zlib
from contextlib import closing

import httpx
import pytest

from clob_server.history.follower import catch_up
from clob_server.history.store import HistoryStore
from clob_server.log import SqliteLog
from tests.server.crash import follower_of, prepare_folder, start_process
from tests.server.history.logs import dump
from tests.server.live import live_server

TOKEN = 10**18
SELLER, BUYER = "0x" + "a1" * 20, "0x" + "b2" * 20
PATIENCE_S = 30
SETTINGS = {"rate_limits": False, "trades_kept": 20, "snapshot_commands": 100}


def token_of(market):
    """Return the YES token of a market, unique per market."""
    return str(zlib.crc32(market.encode()))


def gasless(live, market, maker, side, size=TOKEN, price=50):
    """Place an unsigned order."""
    answer = live.http.post(
        "/api/orders/gasless",
        json={
            "maker": maker,
            "tokenId": token_of(market),
            "side": side,
            "price": price,
            "size": str(size),
            "marketId": market,
        },
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def make_trades(live, market, count):
    """Make trades; return the responses of the incoming orders."""
    made = []
    for _ in range(count):
        gasless(live, market, SELLER, 1)
        made.append(gasless(live, market, BUYER, 0))
    return made


def trades(live, market, **params):
    """Request one page of trades."""
    answer = live.http.get(f"/api/markets/{market}/trades", params=params)
    assert answer.status_code == 200, answer.text
    return answer


def all_trades(live, market, **params):
    """Request all pages of trades."""
    found, cursor = [], {}
    while True:
        answer = trades(live, market, **params, **cursor)
        found += answer.json()
        following = answer.headers.get("x-next-cursor")
        assert (following is None) == ("link" not in answer.headers)
        if following is None:
            return found
        assert f"cursor={following}>" in answer.headers["link"]
        cursor = {"cursor": following}


def eventually(condition):
    """Wait until a condition is true; return its value."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def is_gone(pid):
    """Return whether a process has exited."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True


@pytest.fixture(scope="module", params=["process", "thread"])
def live(request, tmp_path_factory):
    """A server that keeps few finished orders in memory."""
    folder = tmp_path_factory.mktemp(request.param)
    prepare_folder(folder)
    with live_server(folder, history=request.param, **SETTINGS) as running:
        yield running


def test_trades_are_an_array_of_fifty_newest_first_by_default(live):
    made = make_trades(live, "default", 60)
    names = [each["trades"][0]["id"] for each in made][::-1]
    assert [each["id"] for each in trades(live, "default").json()] == names[:50]
    for limit in (1, 49, 100):
        page = trades(live, "default", limit=limit).json()
        assert [each["id"] for each in page] == names[:limit]
    for limit in ("0", "101", "-1", "1.0", "x"):
        answer = live.http.get("/api/markets/default/trades", params={"limit": limit})
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_FIELD")


def test_trades_are_wrapped_on_request(live):
    make_trades(live, "wrapped", 2)
    bare = trades(live, "wrapped").json()
    assert trades(live, "wrapped", wrapped="true").json() == {"trades": bare}
    assert trades(live, "wrapped", wrapped="false").json() == bare


def test_cursors_page_through_memory_and_history_without_duplicates(live):
    made = make_trades(live, "paged", 45)  # more than twice the trades in memory
    names = [each["trades"][0]["id"] for each in made][::-1]
    for limit in (7, 20, 45, 100):
        assert [each["id"] for each in all_trades(live, "paged", limit=limit)] == names
    assert [
        each["id"]
        for each in all_trades(live, "paged", limit=9, tokenId=hex(int(token_of("paged"))))
    ] == names


def test_trades_after_any_number_are_complete_from_memory_and_history(live):
    make_trades(live, "forward", 45)  # more than twice the trades in memory
    whole = all_trades(live, "forward")[::-1]
    numbers = [each["seq"] for each in whole]
    assert numbers == sorted(numbers)
    for limit in (7, 45, 100):
        assert all_trades(live, "forward", limit=limit, order="asc") == whole
    token = token_of("forward")
    for after in (0, *range(0, numbers[-1] + 3, 5), numbers[0], numbers[24], numbers[25]):
        rest = [each for each in whole if each["seq"] > after]
        for query in ({"after": after}, {"after": after, "tokenId": token}):
            assert all_trades(live, "forward", limit=9, order="asc", **query) == rest
            assert trades(live, "forward", order="asc", limit=9, **query).json() == rest[:9]
    make_trades(live, "forward", 1)
    (new,) = trades(live, "forward", order="asc", after=numbers[-1]).json()
    assert new == trades(live, "forward", limit=1).json()[0]


@pytest.mark.parametrize(
    "query",
    [{"order": "up"}, {"after": 1}, {"after": "-1", "order": "asc"}, {"after": 1, "order": "desc"}],
)
def test_order_of_trades_that_is_not_possible_is_rejected(live, query):
    make_trades(live, "ordered", 1)
    answer = live.http.get("/api/markets/ordered/trades", params=query)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_FIELD")


def test_new_trade_invalidates_cached_pages(live):
    make_trades(live, "fresh", 1)
    assert len(trades(live, "fresh").json()) == 1
    assert len(trades(live, "fresh").json()) == 1
    make_trades(live, "fresh", 1)
    assert len(trades(live, "fresh").json()) == 2


def test_unknown_market_or_token_is_rejected(live):
    answer = live.http.get("/api/markets/none/trades")
    assert (answer.status_code, answer.json()["code"]) == (404, "UNKNOWN_MARKET")
    gasless(live, "token", SELLER, 1)
    answer = live.http.get("/api/markets/token/trades", params={"tokenId": "5"})
    assert (answer.status_code, answer.json()["code"]) == (422, "TOKEN_NOT_IN_MARKET")
    assert trades(live, "token").json() == []


def test_finished_order_is_found_after_the_engine_dropped_it(live):
    first = gasless(live, "gone", SELLER, 1, 2 * TOKEN)["orderId"]
    gasless(live, "gone", BUYER, 0, 2 * TOKEN)
    before = live.http.get(f"/api/orders/{first}").json()
    assert before["status"] == "filled"
    make_trades(live, "gone", 40)  # the engine keeps 50 finished orders
    assert live.http.get(f"/api/orders/{first}").json() == before
    answer = live.http.get("/api/orders/ord_1_nobody")
    assert (answer.status_code, answer.json()["code"]) == (404, "UNKNOWN_ORDER")


def test_markets_are_paged(live):
    for number in range(5):
        gasless(live, f"listed-{number}", SELLER, 1, price=40 + number)
    whole = live.http.get("/api/markets", params={"limit": 500}).json()
    names = [each["marketId"] for each in whole]
    assert names[-5:] == [f"listed-{number}" for number in range(5)]
    found, cursor = [], {}
    while cursor is not None:
        answer = live.http.get("/api/markets", params={"limit": 2, **cursor})
        found += answer.json()
        following = answer.headers.get("x-next-cursor")
        cursor = following and {"cursor": following}
    assert [each["marketId"] for each in found] == names
    one = live.http.get("/api/markets/listed-3").json()
    assert one == whole[-2]
    assert (one["yesTokenId"], one["noTokenId"]) == (token_of("listed-3"), None)
    assert one["mode"] == "open"
    assert (one["bestBid"], one["bestAsk"], one["seq"], one["settlement"]) == (None, 43, 1, "none")
    assert live.http.get("/api/markets/none").status_code == 404


@pytest.mark.parametrize(
    ("mode", "how"), [("process", "kill"), ("thread", "kill"), ("process", "stop")]
)
def test_trades_are_available_after_a_restart(tmp_path, mode, how):
    prepare_folder(tmp_path)
    with live_server(tmp_path, history=mode, **SETTINGS) as live:
        first = gasless(live, "m", SELLER, 1)["orderId"]
        make_trades(live, "m", 30)
        page, whole = trades(live, "m").json(), all_trades(live, "m", limit=9)
        assert len(whole) == 30
        assert live.kill() is None if how == "kill" else live.stop() == 0
    with live_server(tmp_path, history=mode, **SETTINGS) as live:
        assert trades(live, "m").json() == page
        assert all_trades(live, "m", limit=9) == whole
        assert all_trades(live, "m", limit=9, order="asc") == whole[::-1]
        assert live.http.get(f"/api/orders/{first}").json()["status"] == "filled"
        again = make_trades(live, "m", 1)[0]["trades"][0]["id"]
        assert [each["id"] for each in all_trades(live, "m")] == [
            again,
            *[each["id"] for each in whole],
        ]
        assert live.stop() == 0


def test_deleted_history_is_rebuilt_identically(tmp_path):
    with live_server(tmp_path, **SETTINGS) as live:
        make_trades(live, "m", 30)
        assert live.stop() == 0
    before = dump(tmp_path)
    assert len(before["trades"]) == 30
    (tmp_path / "history.db").unlink()
    with live_server(tmp_path, **SETTINGS) as live:
        assert len(all_trades(live, "m")) == 30
        assert live.stop() == 0
    assert dump(tmp_path) == before
    (tmp_path / "history.db").unlink()
    with closing(SqliteLog(tmp_path)) as log, closing(HistoryStore(tmp_path)) as store:
        catch_up(store, tmp_path, log)  # as with --history thread
    assert dump(tmp_path) == before


def test_killed_follower_is_restarted_and_misses_nothing(tmp_path):
    with live_server(tmp_path, **SETTINGS, log_level="error") as live:
        make_trades(live, "m", 5)
        for _ in range(2):
            pid = eventually(lambda: follower_of(live))
            os.kill(pid, signal.SIGKILL)
            eventually(lambda pid=pid: is_gone(pid) or follower_of(live) not in (pid, None))
            make_trades(live, "m", 5)
        eventually(lambda: "\nclob_follower_deaths 2.0" in live.http.get("/metrics").text)
        eventually(lambda: "\nclob_history_lag_commands 0.0" in live.http.get("/metrics").text)
        assert live.stop() == 0
    assert len(dump(tmp_path)["trades"]) == 15


def test_stopped_follower_delays_only_queries_of_history(tmp_path):
    """Queries that need history fail with RECOVERING; all others succeed."""
    prepare_folder(tmp_path)
    with live_server(tmp_path, **SETTINGS) as live:
        pid = eventually(lambda: follower_of(live))
        first = gasless(live, "m", SELLER, 1)["orderId"]
        os.kill(pid, signal.SIGSTOP)
        try:
            make_trades(live, "m", 150)  # more than the capacity of a pipe
            answer = httpx.get(f"{live.url}/api/orders/{first}")
            assert (answer.status_code, answer.json()["code"]) == (503, "RECOVERING")
            assert answer.headers["retry-after"]
            assert len(trades(live, "m", limit=19).json()) == 19
        finally:
            os.kill(pid, signal.SIGCONT)
        assert live.http.get(f"/api/orders/{first}").json()["status"] == "filled"
        assert live.stop() == 0
    assert len(dump(tmp_path)["trades"]) == 150


def test_empty_server_answers_without_a_history_file(tmp_path):
    """The follower creates the file, perhaps late."""
    with live_server(tmp_path, **SETTINGS) as live:
        pid = eventually(lambda: follower_of(live))
        eventually(lambda: "\nclob_history_lag_commands 0.0" in live.http.get("/metrics").text)
        os.kill(pid, signal.SIGSTOP)
        try:
            for path in tmp_path.glob("history.*"):
                path.unlink()
            assert live.http.get("/api/orders/ord_1_abcdef").status_code == 404
            gasless(live, "m", SELLER, 1)
            assert trades(live, "m").json() == []
        finally:
            os.kill(pid, signal.SIGCONT)


def test_follower_of_a_killed_server_writes_the_received_frames_and_exits(tmp_path):
    with live_server(tmp_path, **SETTINGS) as live:
        make_trades(live, "m", 1)
        eventually(lambda: "\nclob_history_lag_commands 0.0" in live.http.get("/metrics").text)
        pid = follower_of(live)
        make_trades(live, "m", 20)
        live.kill()
    eventually(lambda: is_gone(pid))
    with closing(HistoryStore(tmp_path)) as store:
        reached = store.applied.seq
    assert reached > 0
    assert max(row[-3] for row in dump(tmp_path)["trades"]) <= reached


def test_interrupted_start_leaves_no_process(tmp_path):
    process = start_process(tmp_path)
    eventually(lambda: (tmp_path / "history.lock").exists())
    process.kill()
    process.wait()
    with closing(HistoryStore(tmp_path)) as store:  # waits until the follower has exited
        assert store.applied.seq <= 1  # the settings of the server


# ----- files that change under a running server ------------------------------------------------


def health(live):
    return live.http.get("/health").json()


def deleted(folder):
    (folder / "history.db").unlink()


def all_deleted(folder):
    for path in folder.glob("history.db*"):
        path.unlink()


def log_deleted(folder):
    (folder / "history.db-wal").unlink()


def replaced(folder):
    deleted(folder)
    (folder / "history.db").write_bytes(b"no database " * 1_000)


def emptied(folder):
    os.truncate(folder / "history.db", 0)


def moved(folder):
    (folder / "history.db").rename(folder / "elsewhere.db")


@pytest.mark.parametrize("harm", [deleted, all_deleted, log_deleted, replaced, emptied, moved])
@pytest.mark.parametrize("is_read", [False, True])
def test_history_harmed_under_a_running_server_is_rebuilt(tmp_path, harm, is_read):
    """No wrong answer meanwhile: the whole list, or 503."""
    prepare_folder(tmp_path)
    with live_server(tmp_path, **SETTINGS, log_level="error") as live:
        names = [each["trades"][0]["id"] for each in make_trades(live, "m", 60)][::-1]
        if is_read:
            assert [each["id"] for each in all_trades(live, "m")] == names
        eventually(lambda: "\nclob_history_lag_commands 0.0" in live.http.get("/metrics").text)
        harm(tmp_path)

        def answer():
            found = httpx.get(f"{live.url}/api/markets/m/trades", params={"limit": 60})
            if found.status_code == 503:
                assert found.json()["code"] == "RECOVERING"
                return None
            assert [each["id"] for each in found.json()] == names
            return found

        eventually(lambda: "\nclob_follower_deaths 0.0" not in live.http.get("/metrics").text)
        eventually(lambda: health(live)["history"] == "ready")
        eventually(answer)
        names[:0] = [make_trades(live, "m", 1)[0]["trades"][0]["id"]]
        assert [each["id"] for each in all_trades(live, "m")] == names
        assert live.stop() == 0
    rows = dump(tmp_path)
    assert len(rows["trades"]) == 61


def test_damaged_page_that_only_a_reader_meets_is_rebuilt(tmp_path):
    prepare_folder(tmp_path)
    with live_server(tmp_path, **SETTINGS, log_level="error") as live:
        make_trades(live, "m", 300)
        assert live.stop() == 0
    with live_server(tmp_path, **SETTINGS, log_level="error") as live:
        path = tmp_path / "history.db"
        with path.open("r+b") as file:
            file.seek(4096 * 2)
            file.write(b"\xff" * (path.stat().st_size - 4096 * 2))

        def page():
            found = live.http.get("/api/markets/m/trades", params={"limit": 100, "cursor": 150})
            assert found.status_code in (200, 503), found.text
            return found.status_code == 200 and found.json()

        assert eventually(page)
        assert live.stop() == 0
    assert len(dump(tmp_path)["trades"]) == 300


def test_history_continues_after_a_full_disk(tmp_path):
    prepare_folder(tmp_path)
    with live_server(tmp_path, **SETTINGS, log_level="error") as live:
        make_trades(live, "m", 5)
        pid = eventually(lambda: follower_of(live))
        limits = resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        assert limits[0] == resource.RLIM_INFINITY
        make_trades(live, "m", 30)
        eventually(lambda: "\nclob_follower_deaths 0.0" not in live.http.get("/metrics").text)
        eventually(lambda: "\nclob_history_lag_commands 0.0" in live.http.get("/metrics").text)
        assert len(all_trades(live, "m")) == 35
        assert live.stop() == 0


@pytest.mark.long
def test_frozen_follower_is_reported_until_it_goes_on(tmp_path):
    with live_server(tmp_path, **SETTINGS, log_level="error") as live:
        make_trades(live, "m", 5)
        pid = eventually(lambda: follower_of(live))
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: health(live)["history"] == "frozen")
        answer = live.http.get("/ready")
        assert (answer.status_code, answer.json()["history"]) == (200, "frozen")
        assert "\nclob_history_ready 0.0" in live.http.get("/metrics").text
        make_trades(live, "m", 5)
        os.kill(pid, signal.SIGCONT)  # the chain's test waits for the restart
        eventually(lambda: health(live)["history"] == "ready")
        eventually(lambda: "\nclob_history_lag_commands 0.0" in live.http.get("/metrics").text)
        assert live.stop() == 0
