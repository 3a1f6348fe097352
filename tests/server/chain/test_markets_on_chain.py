"""Markets on the chain: token ids from the question, automatic preparation and reporting."""

import pytest

from clob.signing import keccak256
from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth import token_ids
from clob_server.chain.eth.accounts import OPERATOR, WALLETS
from clob_server.demo.market import CONDITION, MARKET
from tests.chain.chain_server import ChainServer, wait_until
from tests.server.api.makers import good, problem
from tests.server.live import live_server
from tests.server.meta.operators import authority_of

MARKETS = "/api/admin/markets"
QUESTION = "Will it be warm?"


def create(live, **body):
    return live.http.post(MARKETS, json=body, headers=authority_of(live))


def test_market_without_tokens_gets_those_of_its_question(server):
    made = good(create(server.live, marketId="warm", question=QUESTION))
    question_id = keccak256(f"warm\n{QUESTION}".encode())
    condition_id = token_ids.condition_id(OPERATOR.address, question_id)
    tokens = token_ids.token_ids(DEVELOPMENT.collateral, condition_id)
    assert made["questionId"] == f"0x{question_id.hex()}"
    assert made["conditionId"] == f"0x{condition_id.hex()}"
    assert (int(made["yesTokenId"]), int(made["noTokenId"])) == tokens
    assert made["collateral"] == server.contracts.collateral == DEVELOPMENT.collateral
    assert made["question"] == QUESTION
    server.wait_for("warm", "prepared")
    [listed] = [
        each for each in good(server.http.get("/api/markets")) if each["marketId"] == "warm"
    ]
    assert {name: listed[name] for name in ("conditionId", "questionId", "collateral")} == {
        name: made[name] for name in ("conditionId", "questionId", "collateral")
    }


def test_reopened_market_is_rejected_and_keeps_its_condition(server):
    before = good(server.http.get("/api/markets/rain"))
    problem(create(server.live, marketId="rain", question="Another?"), "MARKET_EXISTS")
    after = good(server.http.get("/api/markets/rain"))
    assert after["conditionId"] == before["conditionId"]
    assert after["question"] == before["question"]


def test_changed_question_text_keeps_the_condition(server):
    before = server.open_market("windy", "Will there be wind?")
    path = f"{MARKETS}/windy"
    change = {"question": "Will there be a storm?"}
    server.http.patch(path, json=change, headers=authority_of(server.live)).raise_for_status()
    after = good(server.http.get("/api/markets/windy"))
    assert after["question"] == change["question"]
    assert (after["questionId"], after["chain"]) == (before["questionId"], "prepared")


def test_market_with_given_tokens_is_not_on_the_chain(server):
    made = good(create(server.live, marketId="named", yesTokenId="7", noTokenId="8"))
    assert {made[name] for name in ("conditionId", "questionId", "collateral", "chain")} == {None}


@pytest.mark.parametrize("body", [{}, {"question": ""}, {"question": "Q?", "noTokenId": "7"}])
def test_market_without_tokens_needs_a_question(server, body):
    problem(create(server.live, marketId="bare", **body), "INVALID_FIELD", "yesTokenId")


def test_resolving_cancels_orders_and_reports_the_outcome(server, funded_user):
    market = server.open_market("fog", "Will there be fog?")
    order = server.order(funded_user, market, 0, 40, 10**18)
    server.resolve("fog", "yes")
    cancelled = good(server.http.get(f"/api/orders/{order['orderId']}"))
    assert cancelled["status"] == "cancelled"
    result = good(server.http.get("/api/gasless/operations/report:fog"))
    assert result["status"] == "done"
    receipt = server.ask("eth_getTransactionReceipt", result["answer"]["reportTx"])
    assert receipt["status"] == "0x1"


def test_market_without_a_chain_needs_tokens(tmp_path):
    with live_server(tmp_path) as live:
        problem(create(live, marketId="bare", question="Q?"), "CHAIN_NOT_CONFIGURED")
        problem(create(live, marketId="bare"), "INVALID_FIELD", "yesTokenId")
        assert good(live.http.get("/api/markets")) == []
        assert good(live.http.get("/"))["chain"] is None
        assert good(live.http.get("/health"))["chain"] == "none"


def test_demo_market_is_on_the_chain_and_trades_before_it_is_ready(tmp_path):
    settings = {"chain": "embedded", "chain_port": 0, "rate_limits": False}
    with live_server(tmp_path / "data", demo=True, **settings) as live:
        market = good(live.http.get(f"/api/markets/{MARKET}"))
        assert market["chain"] in ("waiting", "preparing")
        assert market["bestBid"] < market["bestAsk"]
        assert market["yesTokenId"] == CONDITION.yes
        server = ChainServer(live)
        server.wait_for(MARKET, "prepared")
        assert server.contracts.collateral == CONDITION.collateral


@pytest.mark.long
def test_markets_are_unchanged_after_a_kill(tmp_path):
    settings = {"chain": "embedded", "chain_port": 0, "rate_limits": False}
    body = {"user": WALLETS[0].address}
    with live_server(tmp_path, **settings) as live:
        server = ChainServer(live)
        market = server.open_market("rain", "Will it rain?")
        first = server.done("/api/gasless/faucet", body, "first")
        for _ in range(3):
            server.done("/api/gasless/faucet", body)
        live.kill()
    with live_server(tmp_path, **settings) as live:
        server = ChainServer(live)
        wait_until(lambda: good(live.http.get("/api/markets/rain"))["chain"] == "prepared")
        after = good(live.http.get("/api/markets/rain"))
        assert after["conditionId"] == market["conditionId"]
        assert server.done("/api/gasless/faucet", body, "first") == first
        server.done("/api/gasless/faucet", body)
        problem(server.post("/api/gasless/faucet", body), "FAUCET_LIMIT")
        assert server.ledger.collateral(WALLETS[0].address) == 500 * 10**18
        assert live.stop() == 0
