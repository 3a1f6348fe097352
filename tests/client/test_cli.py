"""The command ``clob-client`` against a real server."""

import asyncio
import json
import re
import subprocess
import sys

import pytest

from clob.client import (
    AsyncClient,
    Client,
    ConnectionFailedError,
    RequestRejectedError,
    UnexpectedReplyError,
)
from clob.client.cli import main
from tests.chain.chain_server import ChainServer
from tests.client.test_repeats import free_port
from tests.server.live import live_server

KEY = f"0x{0xC0FFEE:064x}"
PATIENCE_S = 60


@pytest.fixture
def run(live, tmp_path, capsys, monkeypatch):
    """Return a function that runs a command and returns its exit code, output and errors."""
    monkeypatch.delenv("CLOB_KEY", raising=False)
    monkeypatch.delenv("CLOB_API_KEY", raising=False)
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")

    def command(*arguments, url=live.url, with_key=True):
        keys = ["--key-file", str(key)] if with_key else []
        code = main([*map(str, arguments), "--url", url, *keys])
        output = capsys.readouterr()
        return code, output.out, output.err

    return command


def test_a_day_in_the_terminal(run, market):
    bid, ask = run("buy", market.id, market.yes, 40, "2.5"), run("sell", market.id, "YES", 60, 1)
    assert re.fullmatch(r"ord_\w+  open\n", bid[1])
    code, text, _ = run("book", market.id)
    assert code == ask[0] == 0
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["buy", "cents", "sell"], ["60", "1"], ["---"], ["2.5", "40"],
    ]  # fmt: skip
    assert re.fullmatch(
        r"ord_\w+  filled, 1 at 40\n",
        run("sell", market.id, "yes", 40, 1, "--time-in-force", "IOC")[1],
    )
    fills = run("fills", "--market", market.id)[1].splitlines()
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert {re.sub(rf"^{when}  \w+  ", "", each) for each in fills} == {
        "buy 1 at 40  none", "sell 1 at 40  none",
    }  # fmt: skip
    assert f"{market.id}  open  40 / 60" in run("markets")[1].splitlines()
    assert f"{market.id}  {market.yes}  0 tokens at -" in run("balance")[1]
    assert run("cancel", bid[1].split()[0])[1].endswith("cancelled, 1 traded\n")
    assert run("cancel", "--market", market.id)[1] == "1 orders cancelled\n"
    assert run("cancel", "--all") == (0, "0 orders cancelled\n", "")


def test_json_is_that_of_the_interface(run, live, market):
    created = json.loads(run("buy", market.id, market.yes, 40, "2.5", "--json")[1])
    assert created["status"] == "open"
    [book] = run("book", market.id, "--json")[1].splitlines()
    assert json.loads(book) == live.http.get(f"/api/markets/{market.id}/orderbook").json()
    assert json.loads(run("balance", "--json")[1])["maker"]
    assert [json.loads(line) for line in run("markets", "--json")[1].splitlines()]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("buy", "rain", "YES", 100, 1), 2, "INVALID_CALL: price must be a whole number of cents"),
        (("buy", "rain", "YES", "45.5", 1), 2, "INVALID_CALL: price must be a whole number"),
        (("buy", "rain", "YES", 40, "2,5"), 2, "INVALID_CALL: size must be a number of tokens"),
        (("buy", "rain", "YES", 40, "0"), 2, "INVALID_CALL: size must be a number of tokens"),
        (("buy", "rain", "MAYBE", 40, 1), 2, "INVALID_CALL: token must be YES, NO"),
        (("buy", "", "YES", 40, 1), 2, "INVALID_CALL: marketId must be a str that names one"),
        (
            ("markets", "--deadline", "nan"),
            2,
            "INVALID_CALL: --deadline must be a number of seconds",
        ),
        (
            ("markets", "--deadline", "-1"),
            2,
            "INVALID_CALL: --deadline must be a number of seconds",
        ),
        (("cancel",), 2, "INVALID_CALL: cancel needs order ids, or --all"),
        (("cancel", "nothing"), 1, "UNKNOWN_ORDER: there is no order"),
        (("book", "no-such-market"), 1, "UNKNOWN_MARKET: "),
        (("split", "rain", "2,5"), 2, "INVALID_CALL: amount must be"),
    ],
)
def test_errors_in_words(run, arguments, code, text):
    got = run(*arguments)
    assert got[0] == code
    assert got[1] == ""
    assert got[2].startswith(f"clob-client: {text}")
    assert got[2].count("\n") == 1


def test_key_is_missing_unreadable_or_in_the_environment(run, monkeypatch, market, tmp_path):
    code, _, text = run("balance", with_key=False)
    assert (code, "use --key-file, CLOB_KEY or --maker" in text) == (2, True)
    code, _, text = run("balance", "--key-file", tmp_path / "none", with_key=False)
    assert (code, "cannot be read" in text) == (2, True)
    monkeypatch.setenv("CLOB_KEY", "not a key")
    code, _, text = run("balance", with_key=False)
    assert code == 2
    assert "CLOB_KEY must contain a private key: 64 hex digits" in text
    assert "not a key" not in text
    monkeypatch.setenv("CLOB_KEY", KEY)
    assert run("buy", market.id, market.yes, 40, 1, with_key=False)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("fills", "--limit", "-1"), "--limit: must be a whole number above 0; got '-1'"),
        (("book", "rain", "--depth", "0"), "--depth: must be a whole number above 0; got '0'"),
        (("markets", "--deadline", "abc"), "--deadline: invalid float value: 'abc'"),
        (("buy", "rain", "YES", "40", "1", "--expires-in-s", "1.5"), "--expires-in-s: must be"),
        (("sel", "rain"), "invalid choice: 'sel'"),
    ],
)
def test_unusable_options(arguments, text, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert text in capsys.readouterr().err


def test_help_of_every_command(capsys):
    commands = ("markets", "book", "buy", "sell", "cancel", "fills", "balance")
    commands += ("faucet", "split", "merge", "wrap", "unwrap")
    commands += ("deposit", "withdraw-request", "withdraw")
    for arguments in ([], *([each] for each in commands)):
        with pytest.raises(SystemExit) as caught:
            main([*arguments, "--help"])
        assert caught.value.code == 0
        text = capsys.readouterr().out
        assert text.startswith("usage: clob-client")
        assert set(arguments or commands) <= set(text.replace(",", " ").split())


def test_hints_are_those_of_the_command_line(run, production):
    code, _, text = run("buy", "nothing", "YES", 40, 1)
    assert (code, "clob-client markets lists the markets" in text) == (1, True)
    code, _, text = run("fills", url=production.url)
    assert (code, "use --api-key-file or CLOB_API_KEY" in text) == (1, True)


def test_empty_lists_are_noted(run):
    wallet = ("--maker", f"0x{0xE:040x}")
    assert run("fills", *wallet, with_key=False) == (0, "", "no trades\n")
    code, out, notes = run("balance", *wallet, with_key=False)
    assert (code, out) == (0, "")
    assert notes.startswith("no balances; the server keeps those of markets with accounts")
    assert notes.endswith("\nno positions\n")


def test_server_that_is_away(run):
    code, _, text = run("markets", "--deadline", "0.3", url=f"http://127.0.0.1:{free_port()}")
    assert (code, "CONNECTION_FAILED" in text) == (3, True)


def test_watched_book_follows_every_change(live, market):
    with Client(live.url, signer=KEY) as client:
        client.buy(market.id, market.yes, price=40, size="1")
        command = ["-c", "import sys; from clob.client.cli import main; sys.exit(main())"]
        arguments = ["book", market.id, "--watch", "--json", "--url", live.url]
        process = subprocess.Popen(
            [sys.executable, *command, *arguments], stdout=subprocess.PIPE, text=True
        )
        try:
            first = json.loads(process.stdout.readline())
            assert [each["price"] for each in first["bids"]] == [40]
            client.buy(market.id, "YES", price=41, size="1")
            while [each["price"] for each in json.loads(process.stdout.readline())["bids"]] != [
                41,
                40,
            ]:
                pass
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            process.stdout.close()


@pytest.mark.long
def test_faucet_split_and_merge(run, tmp_path):
    folder = tmp_path / "data"
    with live_server(folder, chain="embedded", chain_port=0, rate_limits=False) as live:
        server = ChainServer(live)
        server.open_market("rain", "Will it rain tomorrow?")
        code, text, errors = run("faucet", url=live.url)
        assert (code, errors) == (0, "")
        assert "100" in text
        code, _, text = run("split", "rain", "10", url=live.url)
        assert (code, "NOT_APPROVED" in text, "split with --permit" in text) == (1, True, True)
        assert run("split", "rain", "5", "--permit", url=live.url)[0] == 0
        check_permits(live, server)
        user = server.user(KEY)
        user.approve_collateral()
        user.approve_tokens()
        assert run("split", "rain", "10", url=live.url)[0] == 0
        assert run("merge", "rain", "2.5", url=live.url)[0] == 0
        assert run("unwrap", "20", "--permit", url=live.url)[0] == 0
        code, _, text = run("wrap", "20", url=live.url)
        assert (code, "NOT_APPROVED" in text) == (1, True)
        assert run("wrap", "20", "--permit", url=live.url)[0] == 0
        assert run("unwrap", "0.0000001", url=live.url)[0] == 1
        check_escrow(run, live)


def check_escrow(run, live):
    """Deposit collateral and tokens, and request a withdrawal, which is paid after its delay."""
    token = live.http.get("/api/markets/rain").json()["yesTokenId"]
    assert run("deposit", "3", "--permit", url=live.url)[0] == 0
    assert run("deposit", "1", "--token", token, url=live.url)[0] == 0
    assert run("deposit", "1", "--token", "x", url=live.url)[0] == 2
    code, _, text = run("withdraw", url=live.url)
    assert (code, "NOTHING_TO_WITHDRAW" in text) == (1, True)
    assert run("withdraw-request", "3", url=live.url)[0] == 0
    code, _, text = run("withdraw", url=live.url)
    assert (code, "WITHDRAWAL_NOT_DUE" in text) == (1, True)


def check_permits(live, server):
    """Permits of both clients split without an approval; a wrong node is reported."""
    with Client(live.url, signer=KEY) as client:
        done = client.split("rain", "2", permit=True)
        assert done.permit_tx
        deadline_s = client.server_time().now_s + 60
        assert client.split("rain", "1", permit=deadline_s).permit_tx
        permit = client.sign_permit("3", deadline_s=deadline_s)
        assert (permit.value, permit.deadline) == (str(3 * 10**18), str(deadline_s))
        assert client.split("rain", "3", permit=permit).permit_tx
        with pytest.raises(RequestRejectedError, match="the permit is invalid"):
            client.split("rain", "1", permit=1)
        owner = client.maker
    with (
        Client(live.url, signer=KEY, rpc_url=live.url) as client,
        pytest.raises(UnexpectedReplyError, match="cannot read the contract"),
    ):
        client.sign_permit("1")
    with Client(live.url, signer=KEY, rpc_url="http://127.0.0.1:1/secret") as client:
        with pytest.raises(ConnectionFailedError, match="the node 127") as caught:
            client.sign_permit("1")
        assert "secret" not in str(caught.value)

    async def split():
        async with AsyncClient(live.url, signer=KEY, rpc_url=server.url) as client:
            return await client.split("rain", "1", permit=True)

    assert asyncio.run(split()).permit_tx
    assert owner == server.user(KEY).address
