"""``clob-server market`` against a running server."""

import os

import pytest

from clob_server.cli import main
from tests.server.live import live_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("data")) as server:
        yield server


@pytest.fixture
def run(server, capsys, monkeypatch):
    """Run a command on the server; return its exit code, standard output and standard error."""
    for name in [name for name in os.environ if name.startswith("CLOB_")]:
        monkeypatch.delenv(name)

    def command(*words):
        code = main(["market", *words, "--url", server.url, "--data-dir", str(server.folder)])
        return (code, *capsys.readouterr())

    return command


def test_market_is_opened_halted_reopened_and_resolved(run, server):
    code, out, _ = run("open", "rain", "--question", "Will it rain?", "--yes", "11", "--no", "12")
    assert code == 0
    assert out.splitlines() == [
        "market rain is open",
        "YES 11",
        "NO 12",
        "minimum size 0.01 tokens",
    ]
    assert run("list")[1] == "rain  open         Will it rain?\n"
    for action, mode in (("halt", "halted"), ("cancel-only", "cancelOnly"), ("reopen", "open")):
        assert run(action, "rain") == (0, f"market rain is {mode}\n", "")
        assert server.http.get("/api/markets/rain").json()["mode"] == mode
    assert run("resolve", "rain", "yes") == (0, "market rain is resolved\n", "")
    assert server.http.get("/api/markets/rain").json()["outcome"] == "yes"


def test_complementary_market_is_opened_and_removed(run, server):
    code, _, _ = run(
        "open", "a:b", "--yes", "21", "--no", "22", "--complementary", "--min-size", "1000"
    )
    assert code == 0
    assert server.http.get("/api/markets/a:b").json()["complementary"] is True
    assert run("remove", "a:b") == (0, "market a:b is removed\n", "")
    assert server.http.get("/api/markets/a:b").status_code == 404


def test_missing_token_of_a_new_market_is_not_known_yet(run):
    assert run("open", "half", "--yes", "41")[1].splitlines()[1:3] == ["YES 41", "NO not known yet"]


def test_rejection_of_the_server_is_printed_with_its_code(run):
    code, out, error = run("resolve", "absent", "no")
    assert (code, out) == (1, "")
    assert "UNKNOWN_MARKET" in error
    code, _, error = run("open", "one", "--yes", "31", "--no", "31")
    assert code == 1
    assert "INVALID_MARKET" in error


def test_all_pages_are_listed(run, monkeypatch):
    monkeypatch.setattr("clob_server.cli.markets.PAGE", 2)
    for number in range(5):
        run("open", f"page-{number}", "--yes", str(100 + number), "--no", str(200 + number))
    lines = run("list")[1].splitlines()
    assert [line.split()[0] for line in lines if line.startswith("page-")] == [
        f"page-{number}" for number in range(5)
    ]
