"""The conformance suite passes against the server, and finds each deliberately wrong one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clob.testing.conformance import Options, UnusableServerError, results_of, selected
from clob.testing.conformance.checks import CHECKS, SPECIFICATION
from clob.testing.conformance.cli import main
from tests.server.live import live_server
from tests.testing.altering_proxy import AlteringProxy
from tests.testing.wrong_answers import WRONG

ROOT = Path(__file__).parents[2]
ENGINE = Path(__file__).parent / "wrong_engine"
SETTINGS = {"rate_limits": False, "ws_heartbeat_s": 1}
TIMEOUT_S = 60
"""Longest wait for an answer, on a busy machine."""
ENGINE_FAULTS = {
    "newest_first": ("match.older-order-first", "match.partial-fill-keeps-its-place"),
    "worst_price_first": ("match.lowest-ask-first", "match.highest-bid-first"),
    "price_of_the_incoming_order": ("match.resting-price-is-paid", "match.market-buy"),
    "fills_off_by_one": ("match.fills-are-exact", "match.partial-fill"),
    "equal_prices_do_not_trade": ("match.equal-prices-trade",),
    "signatures_unchecked": (
        "reject.signature-of-another-wallet",
        "reject.order-changed-after-signing",
        "reject.signature-for-another-domain",
    ),
    "cancel_signatures_unchecked": ("cancel.forged-signature-is-rejected",),
    "strangers_cancel": ("cancel.stranger-is-rejected",),
    "expirations_ignored": ("reject.expired",),
}
"""Faults of :mod:`tests.testing.wrong_engine.sitecustomize`, and the checks that find them."""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("conformance") / "data", **SETTINGS) as server:
        yield server


def states(url, names=(), **options):
    """Run checks; return their results that did not pass, by name."""
    chosen = selected(list(names))
    options.setdefault("timeout_s", TIMEOUT_S)
    assert len(chosen) == len(names) or not names, "an unknown check"
    results = list(results_of(Options(url, **options), chosen))
    return {each.name: each for each in results if each.state != "passed"}


# ----- the right server --------------------------------------------------------------------------


def test_server_passes_every_check(live):
    assert states(live.url) == {}
    assert len(CHECKS) >= 40


def test_suite_passes_again_against_a_used_server_through_a_proxy(live):
    with AlteringProxy(live.url) as proxy:
        assert states(proxy.url) == {}


def test_checks_leave_no_orders(live):
    states(live.url, ["book.never-crossed", "match.partial-fill", "create.eip712"])
    assert live.http.get("/api/orders", params={"limit": 500}).json() == []


def test_operator_opens_the_market_in_production(tmp_path):
    domain = {
        "name": "clob",
        "version": "1",
        "chainId": 31337,
        "verifyingContract": "0x" + "1" * 40,
    }
    settings = {
        "environment": "production",
        "eip712_name": "clob",
        "eip712_version": "1",
        "chain_id": 31337,
        "verifying_contract": domain["verifyingContract"],
    }
    with live_server(tmp_path / "data", **SETTINGS, **settings) as server:
        token = subprocess.check_output(
            [sys.executable, "-m", "clob_server", "token", "--sub", "suite",
             "--data-dir", server.folder],
            text=True,
        ).strip()  # fmt: skip
        with pytest.raises(UnusableServerError, match=r"UNKNOWN_MARKET.*--admin-token-file"):
            states(server.url, ["create.eip712"])
        left = states(server.url, ["create.eip712", "cancel.signed"], admin_token=token)
        assert left == {}
        skipped = states(server.url, ["create.starts-open"], admin_token=token)
        assert "needs an API key" in skipped["create.starts-open"].reason


def test_given_market_is_used_and_must_be_empty(live):
    states(live.url, ["create.eip712"])
    market = live.http.get("/api/markets").json()[-1]["marketId"]
    assert states(live.url, ["match.partial-fill"], market=market) == {}
    from tests.server.api.makers import Maker, MarketIds  # noqa: PLC0415

    with pytest.raises(UnusableServerError, match="no-such"):
        states(live.url, ["match.partial-fill"], market="no-such")
    ids = MarketIds()
    tokens = live.http.get(f"/api/markets/{market}").json()
    ids.id, ids.yes = market, int(tokens["yesTokenId"])
    maker = Maker()
    order = live.http.post("/api/orders", json=maker.signed(ids, price=3)).json()["orderId"]
    left = states(live.url, ["match.partial-fill"], market=market)
    assert left["match.partial-fill"].reason == f"market {market} has orders of others"
    live.http.request("DELETE", f"/api/orders/{order}", json={"maker": maker.address})


# ----- wrong servers -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
def test_wrong_answers_are_found(live, kind):
    with AlteringProxy(live.url, kind()) as proxy:
        left = states(proxy.url, kind.caught_by, timeout_s=getattr(kind, "timeout_s", TIMEOUT_S))
    assert {name: each.state for name, each in left.items()} == dict.fromkeys(
        kind.caught_by, "failed"
    )
    assert all(each.subject and each.received and each.expected for each in left.values())


@pytest.mark.parametrize("fault", ENGINE_FAULTS)
def test_wrong_engine_is_found(tmp_path, monkeypatch, fault):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ENGINE), str(ROOT)]))
    monkeypatch.setenv("CLOB_PURE_PYTHON", "1")
    monkeypatch.setenv("WRONG_SERVER", fault)
    names = ENGINE_FAULTS[fault]
    with live_server(tmp_path / "data", **SETTINGS) as server:
        left = states(server.url, names, timeout_s=TIMEOUT_S)
    assert {name: each.state for name, each in left.items()} == dict.fromkeys(names, "failed")


def test_engine_from_source_without_a_fault_passes(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ENGINE), str(ROOT)]))
    monkeypatch.setenv("CLOB_PURE_PYTHON", "1")
    names = sorted({name for each in ENGINE_FAULTS.values() for name in each})
    with live_server(tmp_path / "data", **SETTINGS) as server:
        assert states(server.url, names) == {}


# ----- the command -------------------------------------------------------------------------------


def test_command_prints_a_line_per_check(live, capsys):
    assert main([live.url, "--only", "info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ok       info.root-fields"
    assert lines[-1] == f"{len(lines) - 1} passed, 0 failed, 0 skipped"


def test_failure_names_subject_values_and_sentence(live, capsys):
    kind = next(each for each in WRONG if each.__name__ == "BidsAscending")
    with AlteringProxy(live.url, kind()) as proxy:
        assert main([proxy.url, "--only", "book.bids-descending"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAILED   book.bids-descending",
        "         Bids are sorted by price, the highest first",
        "         subject:  prices of bids",
        "         received: [31, 33, 35]",
        "         expected: [35, 33, 31]",
        '         specification: "Buy orders sorted by price descending (highest bid first)."',
        "0 passed, 1 failed, 0 skipped",
    ]


def test_results_as_json(live, capsys):
    assert main([live.url, "--only", "info.*", "--only", "book.fields", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert {each["state"] for each in results} == {"passed"}
    assert results[0]["name"] == "book.fields"
    assert results[0]["sentence"] == "Returns the Orderbook resource."


def test_list_prints_names(capsys):
    assert main(["--list", "--only", "prices"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [name for name in CHECKS if name.startswith("prices.")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the address of the server is missing"),
        (["http://127.0.0.1:9"], "no answer from http://127.0.0.1:9"),
        (["ftp://here"], "url must begin with http:// or https://"),
        (["http://127.0.0.1:9", "--only", "nothing"], "no check matches nothing"),
        (["http://127.0.0.1:9", "--api-key-file", "missing"], "an option cannot be read"),
        (["http://127.0.0.1:9", "--domain", "{"], "an option cannot be read"),
    ],
)
def test_unusable_arguments_exit_with_2(capsys, arguments, words):
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


# ----- citations ---------------------------------------------------------------------------------


def plain(text):
    return re.sub(r"\s+", " ", text)


def test_citations_are_sentences_of_the_documentation():
    wrong = [
        each.name
        for each in CHECKS.values()
        if each.citation.source != SPECIFICATION
        and plain(each.citation.sentence)
        not in plain((ROOT / "docs" / each.citation.source).read_text())
    ]
    assert wrong == []


def test_citations_are_sentences_of_the_specification():
    folder = os.environ.get("CLOB_VECTORS_DIR", "")
    page = Path(folder).parent / "spec" / "interface-specification.md"
    if not folder or not page.is_file():
        pytest.skip("not here: the specification is not part of the repository")
    text = plain(page.read_text())
    wrong = [
        each.name
        for each in CHECKS.values()
        if each.citation.source == SPECIFICATION and plain(each.citation.sentence) not in text
    ]
    assert wrong == []


def test_every_check_has_a_rule_in_words():
    assert [each.name for each in CHECKS.values() if not each.text] == []
