"""Opening markets whose trades settle on the chain, and rejected requests."""

from contextlib import closing

import pytest

from clob_server.core.recovery import recover
from clob_server.log import SqliteLog
from tests.chain.chain_server import ChainServer
from tests.chain.wallets import UNIT
from tests.server.api.makers import good, problem
from tests.server.live import live_server
from tests.server.meta.operators import authority_of

MARKETS = "/api/admin/markets"
NO_CONTRACT = f"0x{'12' * 20}"


def create(live, name, **body):
    """Request a market whose trades settle."""
    body = {"marketId": name, "question": f"Will it {name}?", "settles": True} | body
    return live.http.post(MARKETS, json=body, headers=authority_of(live))


def test_market_reports_that_its_trades_settle(server):
    made = good(create(server.live, "freeze"))
    assert (made["settlement"], made["minSize"], made["lotWei"]) == ("chain", str(10**16), "1")
    assert made["collateral"] == server.contracts.collateral
    market = good(server.http.get("/api/markets/freeze"))
    assert (market["settlement"], market["conditionId"]) == ("chain", made["conditionId"])
    assert good(server.http.get("/api/markets/rain"))["settlement"] == "none"


def test_escrow_market_reports_its_custody(server):
    made = good(create(server.live, "drizzle", custody="escrow"))
    assert (made["settlement"], made["custody"], made["stalled"]) == ("chain", "escrow", None)
    assert made["collateral"] == server.contracts.collateral
    assert good(server.http.get("/api/markets/drizzle"))["custody"] == "escrow"
    assert good(create(server.live, "hail"))["custody"] == "wallet"


def test_terms_can_be_chosen_for_a_settling_market(server):
    terms = {"complementary": True, "minSize": "200", "incomingFeeRateBps": 30}
    made = good(create(server.live, "thaw", **terms))
    assert terms.items() <= made.items()
    assert (made["settlement"], made["lotWei"]) == ("chain", "100")
    path, change = f"{MARKETS}/thaw", {"minSize": "300", "question": "?"}
    answer = server.http.patch(path, json=change, headers=authority_of(server.live))
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
def test_settling_market_needs_a_question_and_no_tokens(server, body):
    result = problem(create(server.live, "named", **body), "INVALID_FIELD")
    assert server.http.get("/api/markets/named").status_code == 404
    if "yesTokenId" in body:
        assert [fault["path"] for fault in result["errors"]] == ["settles"]


def test_orders_need_funds_on_the_chain(server, user):
    good(create(server.live, "melt"))
    market = good(server.http.get("/api/markets/melt"))
    body = {
        "maker": user.address,
        "marketId": "melt",
        "tokenId": market["yesTokenId"],
        "side": 0,
        "price": 50,
        "size": str(UNIT),
    }
    result = problem(server.post("/api/orders/gasless", body), "GASLESS_NOT_ALLOWED")
    exchange = server.chain()["exchange"]
    assert f"{user.address} must call setGasless(true) at {exchange}" in result["detail"]
    checked = good(server.post("/api/orders/validate", body))
    assert checked["refusal"]["code"] == "GASLESS_NOT_ALLOWED"


def test_settling_market_needs_a_chain(tmp_path):
    with live_server(tmp_path) as live:
        problem(create(live, "freeze"), "CHAIN_NOT_CONFIGURED")


@pytest.mark.long
def test_settling_market_needs_an_exchange(tmp_path):
    settings = {"chain": "embedded", "chain_port": 0, "rate_limits": False}
    with live_server(tmp_path, verifying_contract=NO_CONTRACT, **settings) as live:
        server = ChainServer(live)
        result = problem(create(live, "freeze"), "EXCHANGE_NOT_DEPLOYED")
        assert NO_CONTRACT in result["detail"]
        assert good(create(live, "freeze", settles=False))["settlement"] == "none"
        server.wait_for("freeze", "prepared")


@pytest.mark.long
def test_trade_ids_keep_their_base_after_a_restart(tmp_path):
    settings = {"chain": "embedded", "chain_port": 0, "rate_limits": False}
    bases = []
    for name in ("freeze", "thaw"):
        with live_server(tmp_path, **settings) as live:
            ChainServer(live)
            assert good(create(live, name))["settlement"] == "chain"
        with closing(SqliteLog(tmp_path)) as log:
            exchange, *_ = recover(log)
        bases.append(exchange.registry.settling.base)
    assert bases[0] == bases[1]
    assert len(bases[0]) == 16
    assert exchange.settles == {"freeze", "thaw"}
