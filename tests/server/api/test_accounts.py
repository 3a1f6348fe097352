"""Balances and positions of a wallet over HTTP."""

import pytest

from clob import Mode, SetMode, SettleFailed
from clob_server.chain.events import WalletHolding
from clob_server.core.commands import SetOutcome
from clob_server.http.routes import makers
from tests.matchers import buy, sell
from tests.server.api.makers import BUY, ONE, SELL, good, problem
from tests.server.history.test_settlements import running_service
from tests.server.settled import ALICE, BOB, CAROL, COLLATERAL, NO, RICH, YES, ended, settling

CENT = ONE // 100


def account(http, maker, **query):
    response = http.get(f"/api/accounts/{maker.address}", params=query)
    return good(response), int(response.headers["x-applied-seq"])


def test_position_has_the_figures_of_the_documented_example(api, http, market, alice, bob):
    api.place(bob.signed(market, SELL, 40, 100 * ONE))
    api.place(alice.signed(market, BUY, 40, 100 * ONE))
    api.place(bob.signed(market, SELL, 60, 100 * ONE))
    api.place(alice.signed(market, BUY, 60, 100 * ONE))
    api.place(bob.signed(market, BUY, 70, 50 * ONE))
    api.place(alice.signed(market, SELL, 70, 50 * ONE))
    body, applied = account(http, alice)
    assert body["maker"] == alice.address
    assert body["balances"] == []
    position = {
        "marketId": market.id,
        "tokenId": str(market.yes),
        "netSize": str(150 * ONE),
        "cost": str(75 * ONE),
        "averagePrice": "50",
        "realised": str(10 * ONE),
        "fees": "0",
        "tokenFees": "0",
        "redemptionValue": None,
    }
    assert body["positions"] == [position]
    [of_bob] = account(http, bob, minSeq=applied)[0]["positions"]
    assert (of_bob["netSize"], of_bob["cost"]) == (str(-150 * ONE), str(-75 * ONE))
    assert (of_bob["averagePrice"], of_bob["realised"]) == ("50", str(-10 * ONE))
    assert account(http, alice, marketId=market.id)[0]["positions"] == [position]
    assert account(http, alice, marketId="elsewhere")[0]["positions"] == []


def test_wrong_parameters_are_rejected(http, alice):
    problem(http.get("/api/accounts/0x12"), "INVALID_ADDRESS", "maker")
    problem(http.get(f"/api/accounts/{alice.address}?marketId=%20"), "INVALID_FIELD", "marketId")
    problem(http.get(f"/api/accounts/{alice.address}?minSeq=x"), "INVALID_FIELD", "minSeq")
    problem(http.get(f"/api/accounts/{alice.address}?market=m"), "INVALID_FIELD", "market")


# ----- accounts --------------------------------------------------------------------------------


async def body_of(server, maker, **query):
    """Return the account of a maker."""
    return (await server.get(f"/api/accounts/{maker}", **query)).json()


def amounts(body):
    """Return balance, reserved, unsettled and available by asset, less the initial balance."""
    return {
        each["asset"]: tuple(
            int(each[name]) - (RICH if name in ("balance", "available") else 0)
            for name in ("balance", "reserved", "unsettled", "available")
        )
        for each in body["balances"]
    }


async def test_balances_and_positions_follow_the_settlement_of_trades(tmp_path):
    async with running_service(tmp_path, [settling()]) as server:
        await server.apply(sell("s", 60, 300, maker=ALICE, token=YES))
        await server.apply(buy("b", 60, 100, maker=BOB, token=YES))
        of_alice, of_bob = await body_of(server, ALICE), await body_of(server, BOB)
        assert [each["asset"] for each in of_alice["balances"]] == [COLLATERAL, YES, NO]
        assert amounts(of_alice)[YES] == (0, 200, 100, -300)
        assert amounts(of_bob)[COLLATERAL] == (0, 0, 60, -60)
        assert [each["netSize"] for each in of_bob["positions"]] == ["100"]
        await server.apply(
            SettleFailed(market="m", trade=2, reason="no"), ended(1, reason="no", now_ms=0)
        )
        of_alice, of_bob = await body_of(server, ALICE), await body_of(server, BOB)
        assert amounts(of_alice)[YES] == (0, 200, 0, -200)
        assert amounts(of_bob)[COLLATERAL] == (0, 0, 0, 0)
        [position] = of_bob["positions"]
        assert (position["netSize"], position["cost"]) == ("0", "0")
        assert position["averagePrice"] is None
        assert amounts(await body_of(server, BOB, marketId="other")) == {}


async def test_resolved_market_shows_the_redemption_value(tmp_path):
    async with running_service(tmp_path, [settling()]) as server:
        await server.trade(1)
        [before] = (await body_of(server, BOB))["positions"]
        assert before["redemptionValue"] is None
        await server.apply(SetMode(market="m", mode=Mode.RESOLVED))
        await server.apply(SetOutcome(market="m", outcome="yes"))
        [of_alice] = (await body_of(server, ALICE))["positions"]
        [of_bob] = (await body_of(server, BOB))["positions"]
        assert of_bob["redemptionValue"] == of_bob["netSize"] == before["netSize"]
        assert of_alice["redemptionValue"] == f"-{before['netSize']}"
        await server.apply(SetOutcome(market="m", outcome="no"))
        assert (await body_of(server, BOB))["positions"][0]["redemptionValue"] == "0"


async def test_balance_and_allowance_of_the_chain_are_apart(tmp_path):
    async with running_service(tmp_path, [settling()]) as server:
        reports = (
            WalletHolding(wallet=CAROL, asset=COLLATERAL, amount="3", balance="7", approved="3"),
            WalletHolding(wallet=CAROL, asset=YES, amount="5"),
        )
        known = server.service.settlement.inbox._holdings
        known[CAROL] = {each.asset: each for each in reports}
        chain = {
            each["asset"]: each["chain"] for each in (await body_of(server, CAROL))["balances"]
        }
        assert chain == {
            COLLATERAL: {"balance": "7", "allowance": "3", "requested": None},
            YES: {"balance": "5", "allowance": None, "requested": None},
            NO: None,
        }


@pytest.mark.parametrize("limit", [0, 1])
async def test_maker_with_too_many_positions_has_to_name_a_market(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(makers, "POSITIONS_MAX", limit)
    async with running_service(tmp_path, [settling()]) as server:
        await server.trade(1)
        answer = await server.http.get(f"/api/accounts/{BOB}")
        assert answer.status_code == (200 if limit else 422)
        if not limit:
            assert answer.json()["errors"][0]["path"] == "marketId"
