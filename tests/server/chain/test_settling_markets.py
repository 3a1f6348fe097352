"""Markets whose trades settle on the chain: how an operator opens one, and where he cannot."""

from contextlib import closing

import pytest

from clob_server.core.recovery import recover
from clob_server.log import SqliteLog
from tests.chain.people import UNIT
from tests.chain.venues import Venue
from tests.server.api.people import good, problem
from tests.server.live import live_server
from tests.server.meta.operators import authority_of

MARKETS = "/api/admin/markets"
ELSEWHERE = f"0x{'12' * 20}"


def create(live, name, **body):
    """Ask for a market whose trades settle."""
    body = {"marketId": name, "question": f"Will it {name}?", "settles": True} | body
    return live.http.post(MARKETS, json=body, headers=authority_of(live))


def test_a_market_says_that_its_trades_settle(venue):
    made = good(create(venue.live, "freeze"))
    assert (made["settlement"], made["minSize"], made["lotWei"]) == ("chain", str(10**16), "1")
    assert made["collateral"] == venue.contracts.collateral
    found = good(venue.http.get("/api/markets/freeze"))
    assert (found["settlement"], found["conditionId"]) == ("chain", made["conditionId"])
    assert good(venue.http.get("/api/markets/rain"))["settlement"] == "none"


def test_its_terms_can_be_chosen_as_those_of_any(venue):
    terms = {"complementary": True, "minSize": "200", "incomingFeeRateBps": 30}
    made = good(create(venue.live, "thaw", **terms))
    assert terms.items() <= made.items()
    assert (made["settlement"], made["lotWei"]) == ("chain", "100")
    path, change = f"{MARKETS}/thaw", {"minSize": "300", "question": "?"}
    answer = venue.http.patch(path, json=change, headers=authority_of(venue.live))
    assert change.items() <= good(answer).items()
    assert answer.json()["settlement"] == "chain"


@pytest.mark.parametrize(
    "body",
    [
        {"yesTokenId": "7", "noTokenId": "8"},
        {"yesTokenId": "7", "noTokenId": "8", "question": ""},
        {"question": ""},
        {"settles": "yes"},
    ],
)
def test_it_has_a_question_and_the_tokens_of_the_chain(venue, body):
    told = problem(create(venue.live, "named", **body), "INVALID_FIELD")
    assert venue.http.get("/api/markets/named").status_code == 404
    if "yesTokenId" in body:
        assert [fault["path"] for fault in told["errors"]] == ["settles"]


def test_orders_there_need_what_the_chain_knows_of(venue, user):
    good(create(venue.live, "melt"))
    market = good(venue.http.get("/api/markets/melt"))
    body = {
        "maker": user.address,
        "marketId": "melt",
        "tokenId": market["yesTokenId"],
        "side": 0,
        "price": 50,
        "size": str(UNIT),
    }
    told = problem(venue.post("/api/orders/gasless", body), "GASLESS_NOT_ALLOWED")
    exchange = venue.chain()["exchange"]
    assert f"{user.address} must call setGasless(true) at {exchange}" in told["detail"]
    checked = good(venue.post("/api/orders/validate", body))
    assert checked["refusal"]["code"] == "GASLESS_NOT_ALLOWED"


def test_without_a_chain_nothing_settles(tmp_path):
    with live_server(tmp_path) as live:
        problem(create(live, "freeze"), "CHAIN_NOT_CONFIGURED")


@pytest.mark.long
def test_without_an_exchange_nothing_settles(tmp_path):
    settings = {"chain": "embedded", "chain_port": 0, "rate_limits": False}
    with live_server(tmp_path, verifying_contract=ELSEWHERE, **settings) as live:
        venue = Venue(live)
        told = problem(create(live, "freeze"), "EXCHANGE_NOT_DEPLOYED")
        assert ELSEWHERE in told["detail"]
        assert good(create(live, "freeze", settles=False))["settlement"] == "none"
        venue.wait_for("freeze", "prepared")


@pytest.mark.long
def test_trades_are_numbered_from_one_base_for_good(tmp_path):
    settings = {"chain": "embedded", "chain_port": 0, "rate_limits": False}
    bases = []
    for name in ("freeze", "thaw"):
        with live_server(tmp_path, **settings) as live:
            Venue(live)
            assert good(create(live, name))["settlement"] == "chain"
        with closing(SqliteLog(tmp_path)) as log:
            exchange, *_ = recover(log)
        bases.append(exchange.registry.settling.base)
    assert bases[0] == bases[1]
    assert len(bases[0]) == 16
    assert exchange.settles == {"freeze", "thaw"}
