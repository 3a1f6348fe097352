"""The demo: filled books from the first request, traded by two bots at a limited rate."""

import itertools
import shutil
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import websockets.sync.client

from clob import Cancel, Matcher, Trade
from clob.journal import ZERO_HASH
from clob.signing import SignedOrder, sign
from clob_server.chain.eth.accounts import DEPLOYER, WALLETS
from clob_server.core.commands import DescribeExchange, encode
from clob_server.core.identity import ExchangeDiffersError, exchange_settings
from clob_server.core.ids import Ids
from clob_server.core.state import ServerState
from clob_server.demo import MARK, bots, reset_folder
from clob_server.demo.bots import CONDITION, MARKET, NO, YES, Bots, opening
from clob_server.http.openapi import common
from clob_server.http.openapi.orders import SIGNED_EXAMPLE
from clob_server.log import LogLockedError, SqliteLog
from clob_server.log.sqlite import DATABASE
from clob_server.settings import Settings, SettingsError
from tests.server.live import live_server

EVENTS = 6
PAGE = Path(__file__).parents[3] / "docs" / "start.md"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("demo") / "data", demo=True) as live:
        yield live


def book(live, token):
    answer = live.http.get(f"/api/markets/{MARKET}/orderbook", params={"tokenId": token})
    assert answer.status_code == 200
    return answer.json()


def check_book(book):
    """Assert that a book has enough levels on both sides and is not crossed."""
    assert len(book["bids"]) >= bots.LEVELS_MIN
    assert len(book["asks"]) >= bots.LEVELS_MIN
    assert book["bids"][0]["price"] < book["asks"][0]["price"]


def test_decision_47_first_request_returns_a_filled_book(live):
    for token in (YES, NO):
        check_book(book(live, token))
    trades = live.http.get(f"/api/markets/{MARKET}/trades").json()
    assert {trade["tokenId"] for trade in trades} == {YES, NO}
    market = live.http.get(f"/api/markets/{MARKET}").json()
    assert market["question"].endswith("?")
    assert (market["yesTokenId"], market["noTokenId"]) == (YES, NO)


def test_decision_47_start_without_the_demo_is_empty(tmp_path):
    with live_server(tmp_path) as live:
        assert live.http.get("/api/markets").json() == []
        assert live.http.get("/health").json()["commandSeq"] == 1  # its settings


def test_welcome_text_lists_every_page(live):
    lines = {}
    while "token" not in lines:
        name, _, text = live.process.stdout.readline().strip().partition(" ")
        lines[name] = text.strip()
    for name in ("book", "interface", "dashboard"):
        assert httpx.get(lines[name]).status_code == 200
    assert lines["live"] == live.ws_url
    assert lines["tokens"] == f"YES {YES}, NO {NO}"
    authority = {"Authorization": f"Bearer {lines['token']}"}
    assert live.http.get("/api/admin/engine", headers=authority).status_code == 200


def test_bots_trade_at_most_twice_a_second_without_using_budgets(live):
    with websockets.sync.client.connect(live.ws_url) as socket:
        socket.send(f'{{"type": "subscribe", "channel": "orderbook", "marketId": "{MARKET}"}}')
        before = live.http.get("/health").json()["commandSeq"]
        times = []
        while len(times) < EVENTS:
            message = httpx.Response(200, text=socket.recv(timeout=30)).json()
            if message["type"] != "orderbook" and message["timestamp"] not in times:
                times.append(message["timestamp"])
    # All events of a command have its time.
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert min(gaps) >= 500
    assert live.http.get("/health").json()["commandSeq"] >= before + EVENTS - 2
    for token in (YES, NO):
        check_book(book(live, token))


def test_demo_is_recreated_at_each_start(tmp_path):
    folder = tmp_path / "data"
    with live_server(folder, demo=True) as live:
        order = {
            "maker": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "marketId": "mine",
            "tokenId": "7",
            "side": 0,
            "price": 50,
            "size": "1000000000000000000",
        }
        assert live.http.post("/api/orders/gasless", json=order).status_code == 200
        live.kill()
    with live_server(folder, demo=True) as live:
        [market] = live.http.get("/api/markets").json()
        assert market["marketId"] == MARKET


def test_documented_examples_use_the_demo_market():
    assert (common.DEMO_YES, common.DEMO_NO) == (YES, NO)
    assert f"0x{CONDITION.condition_id.hex()}" == common.DEMO_CONDITION
    assert WALLETS[0].address == common.DEMO_USER
    order, key = SignedOrder.from_json(dict(SIGNED_EXAMPLE)), DEPLOYER.private_key
    assert sign(order, Settings().domain, key).to_json()["signature"] == SIGNED_EXAMPLE["signature"]
    assert YES in PAGE.read_text()


# ----- the folder ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["notes.txt", "log.db", "tip"])
def test_folder_not_created_by_the_demo_is_not_changed(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(SettingsError, match=f"has other contents: .*({MARK}|{name})"):
        reset_folder(tmp_path, Settings())
    assert (tmp_path / name).read_text() == "mine"


def test_folder_with_other_files_is_not_changed(tmp_path):
    reset_folder(tmp_path, Settings())
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SettingsError, match=r"notes\.txt"):
        reset_folder(tmp_path, Settings())
    assert {path.name for path in tmp_path.iterdir()} == {MARK, "notes.txt"}


def test_only_files_of_a_chain_are_deleted(tmp_path):
    reset_folder(tmp_path, Settings())
    for name in ("chain/outbox.db", "chain/outbox.db-wal", "devchain/chain.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    reset_folder(tmp_path, Settings())
    assert [path.name for path in tmp_path.iterdir()] == [MARK]
    for name in ("chain/notes.txt", "devchain/more/chain.db", "mine/outbox.db"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
        with pytest.raises(SettingsError, match=name.partition("/")[0]):
            reset_folder(tmp_path, Settings())
        assert (tmp_path / name).exists()
        shutil.rmtree(tmp_path / name.partition("/")[0])


def test_demo_does_not_empty_the_log_of_another_exchange(tmp_path):
    reset_folder(tmp_path, Settings())
    settings = Settings(data_dir=str(tmp_path), chain_id=5)
    with closing(SqliteLog(tmp_path)) as log:
        command = DescribeExchange(exchange=exchange_settings(settings), now_ms=1)
        log.append([encode(command)], 0, event_hash=ZERO_HASH)
    with pytest.raises(ExchangeDiffersError, match="--chain-id was '5' and is now '31337'"):
        reset_folder(tmp_path, Settings())
    assert (tmp_path / DATABASE).exists()
    reset_folder(tmp_path, settings)
    assert [path.name for path in tmp_path.iterdir()] == [MARK]


def test_demo_does_not_empty_a_folder_that_an_ordinary_server_used(tmp_path):
    reset_folder(tmp_path, Settings())
    with live_server(tmp_path):
        pass
    with pytest.raises(SettingsError, match=f"has other contents: no {MARK}"):
        reset_folder(tmp_path, Settings())


def test_folder_of_a_running_demo_is_not_changed(tmp_path):
    reset_folder(tmp_path, Settings())
    log = SqliteLog(tmp_path)
    with pytest.raises(LogLockedError):
        reset_folder(tmp_path, Settings())
    log.close()
    reset_folder(tmp_path, Settings())
    assert [path.name for path in tmp_path.iterdir()] == [MARK]


# ----- the bots ------------------------------------------------------------------------------


def make_service():
    """Return the parts of a service that the bots use, with a real server state."""
    exchange, numbers = ServerState(), itertools.count(1)
    ids = Ids(bytes(32))
    sequencer = SimpleNamespace(next_order_id=lambda now_ms: ids.order(now_ms, next(numbers)))
    return SimpleNamespace(state=exchange, sequencer=sequencer)


def run_bots(service, seed, count):
    """Open the market and yield the events of each of ``count`` commands of the bots."""
    for command in opening(service, 0):
        service.state.apply(command)
    both = Bots(service, seed)
    for number in range(count):
        yield service.state.apply(both.next_command(1000 * number))


@pytest.mark.parametrize("seed", range(3))
def test_books_are_never_empty_or_crossed(seed):
    service = make_service()
    matcher: Matcher = service.state.matcher
    num_trades = 0
    for events in run_bots(service, seed, 2_000):
        num_trades += sum(type(event) is Trade for event in events)
        assert events, "each command has an effect"
        for token in (YES, NO):
            depth = matcher.depth(MARKET, token)
            assert min(len(depth.bids), len(depth.asks)) >= bots.LEVELS_MIN
            assert depth.bids[0].price < depth.asks[0].price
    assert num_trades > 400
    assert len(matcher) <= 4 * (bots.ORDERS_MAX + 1)


def test_bots_are_deterministic():
    first, second = make_service(), make_service()
    for service in (first, second):
        assert sum(1 for _ in run_bots(service, 5, 300)) == 300
    assert first.state.matcher.state_hash() == second.state.matcher.state_hash()


def test_bots_refill_a_book_emptied_by_another_maker():
    service = make_service()
    assert all(run_bots(service, 1, 10))
    matcher = service.state.matcher
    for record in matcher.open_orders(market=MARKET):
        if record.order.token == YES:
            service.state.apply(Cancel(order_id=record.order.id, now_ms=10**6))
    both = Bots(service, seed=2)
    for number in range(100):
        service.state.apply(both.next_command(10**7 + number))
    depth = matcher.depth(MARKET, YES)
    assert min(len(depth.bids), len(depth.asks)) >= bots.LEVELS_MIN
