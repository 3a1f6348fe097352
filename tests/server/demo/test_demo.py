"""The demo: filled books from the first request, in a folder of its own."""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from clob.journal import ZERO_HASH
from clob.signing import SignedOrder, sign
from clob_server.chain.eth.accounts import DEPLOYER, WALLETS
from clob_server.core.commands import DescribeExchange, encode
from clob_server.core.identity import ExchangeDiffersError, exchange_settings
from clob_server.demo import MARK, reset_folder
from clob_server.demo.bots import LEVELS_MIN
from clob_server.demo.market import CONDITION, MARKET, NO, YES
from clob_server.http.openapi import common
from clob_server.http.openapi.orders import SIGNED_EXAMPLE
from clob_server.log import LogLockedError, SqliteLog
from clob_server.log.sqlite import DATABASE
from clob_server.settings import Settings, SettingsError
from tests.server.live import environment, live_server

PAGE = Path(__file__).parents[3] / "docs" / "start.md"


BLOCKED = "import sys; sys.modules[{!r}] = None; from clob_server import __main__ as program; "
"""Python that runs without a package."""


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
    assert len(book["bids"]) >= LEVELS_MIN
    assert len(book["asks"]) >= LEVELS_MIN
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
    for name in ("page", "book", "interface", "dashboard"):
        assert httpx.get(lines[name]).status_code == 200
    assert lines["live"] == live.ws_url
    assert lines["tokens"] == f"YES {YES}, NO {NO}"
    authority = {"Authorization": f"Bearer {lines['token']}"}
    assert live.http.get("/api/admin/engine", headers=authority).status_code == 200


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


@pytest.mark.parametrize("package", ["httpx", "websockets"])
def test_demo_without_the_packages_of_the_client_names_the_extra(tmp_path, package):
    run = f"sys.exit(program.main(['run', '--demo', '--data-dir', {str(tmp_path)!r}]))"
    ended = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(package) + run],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert "pip install 'clob[" in ended.stderr
    assert f"(no module {package!r})" in ended.stderr
    assert not list(tmp_path.iterdir())


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
