"""Escrow over HTTP and WebSocket, without a chain: markets, stops, accounts, and bodies."""

from types import SimpleNamespace

import pytest

from clob import Mode, SetBalance, SetMode
from clob_server.chain.events import WalletHolding, escrow_asset
from clob_server.core.commands import FollowChain, StallMarket
from tests.matchers import sell
from tests.server.api.makers import good, problem
from tests.server.history.test_settlements import running_service
from tests.server.live import live_server
from tests.server.meta.operators import authority_of
from tests.server.settled import ALICE, CAROL, COLLATERAL, NO, YES, settling

ESCROW = escrow_asset(COLLATERAL)
SIZE = 10**16
ORDER = {
    "maker": ALICE,
    "marketId": "m",
    "tokenId": YES,
    "side": 0,
    "price": 50,
    "size": str(SIZE),
}
DEPOSIT = {"user": ALICE, "asset": "collateral", "amount": "1"}
REQUEST = {**DEPOSIT, "nonce": "1", "deadline": "2", "signature": "0x12"}


def escrow_service(folder):
    """Run a service with an escrow market in which Alice trades without a signature."""
    return running_service(folder, [settling(collateral=ESCROW)])


async def allow(server):
    """Let Alice trade without a signature, with collateral in escrow."""
    permissions = (("gasless", ALICE, ALICE, True),)
    await server.apply(
        SetBalance(wallet=ALICE, asset=ESCROW, amount=SIZE),
        FollowChain(block=1, hash="0x1", permissions=permissions),
    )


async def stop(server):
    """Stop the market, as the rule does."""
    await server.apply(
        SetMode(market="m", mode=Mode.CANCEL_ONLY), StallMarket(market="m", reason="late")
    )


async def test_market_shows_its_custody_and_that_it_stopped(tmp_path):
    async with escrow_service(tmp_path) as server:
        market = (await server.get("/api/markets/m")).json()
        assert (market["custody"], market["stalled"], market["mode"]) == ("escrow", None, "open")
        await stop(server)
        market = (await server.get("/api/markets/m")).json()
        assert market["mode"] == "cancelOnly"
        assert market["stalled"]["reason"] == "late"
        assert market["stalled"]["since"] == server.service.state.registry.stalls["m"].since_ms
        await server.apply(SetMode(market="m", mode=Mode.OPEN))
        assert (await server.get("/api/markets/m")).json()["stalled"] is None


async def test_orders_are_rejected_while_the_market_is_stopped_and_cancels_are_not(tmp_path):
    async with escrow_service(tmp_path) as server:
        await allow(server)
        placed = good(await server.http.post("/api/orders/gasless", json=ORDER))
        await stop(server)
        answer = await server.http.post("/api/orders/gasless", json=ORDER)
        body = problem(answer, "MARKET_STALLED")
        assert (body["retryable"], answer.headers["retry-after"]) == (True, "1")
        assert (answer.status_code, body["errors"][0]["path"]) == (503, "marketId")
        batch = await server.http.post("/api/orders/batch", json={"orders": [ORDER]})
        assert good(batch)["results"][0]["code"] == "MARKET_STALLED"
        batch = await server.http.post(
            "/api/orders/batch", json={"orders": [ORDER], "atomic": True}
        )
        assert good(batch)["results"][0]["code"] == "MARKET_STALLED"
        outlook = await server.http.post("/api/orders/validate", json=ORDER)
        assert good(outlook)["refusal"]["code"] == "MARKET_STALLED"
        path = f"/api/orders/{placed['orderId']}"
        answer = await server.http.request("DELETE", path, json={"maker": ALICE})
        assert good(answer)["status"] == "cancelled"


async def test_operator_cannot_open_a_market_that_stopped_but_can_halt_it(tmp_path):
    async with escrow_service(tmp_path) as server:
        await stop(server)
        headers = authority_of(SimpleNamespace(folder=tmp_path))
        path = "/api/admin/markets/m"
        answer = await server.http.post(f"{path}/open", headers=headers)
        assert "opens by itself" in problem(answer, "MARKET_STALLED")["detail"]
        halted = good(await server.http.post(f"{path}/halt", headers=headers))
        assert (halted["mode"], halted["stalled"]) == ("halted", None)
        assert good(await server.http.post(f"{path}/open", headers=headers))["mode"] == "open"


async def test_account_shows_both_sides(tmp_path):
    async with escrow_service(tmp_path) as server:
        await server.apply(sell("s", 60, 300, maker=CAROL, token=YES))
        known = server.service.settlement.inbox._holdings
        reports = (
            WalletHolding(wallet=CAROL, asset=COLLATERAL, amount="3", balance="7", approved="3"),
            WalletHolding(wallet=CAROL, asset=ESCROW, amount="5", balance="9", requested="4"),
            WalletHolding(wallet=CAROL, asset=YES, amount="6", balance="6", requested="0"),
        )
        known[CAROL] = {each.asset: each for each in reports}
        server.service.chain.addresses = SimpleNamespace(collateral=COLLATERAL)
        for query in ({}, {"marketId": "m"}):
            balances = (await server.get(f"/api/accounts/{CAROL}", **query)).json()["balances"]
            found = {each["asset"]: (each["custody"], each["chain"]) for each in balances}
            assert list(found) == [COLLATERAL, ESCROW, YES, NO]
            wallet = {"balance": "7", "allowance": "3", "requested": None}
            assert found[COLLATERAL] == ("wallet", wallet)
            escrow = {"balance": "9", "allowance": None, "requested": "4"}
            assert found[ESCROW] == ("escrow", escrow)
            assert found[YES][0] == found[NO][0] == "escrow"


# ----- requests ------------------------------------------------------------------------------


def test_escrow_needs_a_market_that_settles(tmp_path):
    with live_server(tmp_path) as live:
        headers = authority_of(live)
        body = {"marketId": "e", "yesTokenId": "1", "noTokenId": "2", "custody": "escrow"}
        answer = live.http.post("/api/admin/markets", json=body, headers=headers)
        detail = problem(answer, "INVALID_FIELD", "custody")["detail"]
        assert detail == 'custody may be "escrow" only with "settles": true; got "escrow"'
        answer = live.http.post(
            "/api/admin/markets", json={**body, "custody": "pocket"}, headers=headers
        )
        problem(answer, "INVALID_FIELD", "custody")
        market = good(
            live.http.post(
                "/api/admin/markets", json={**body, "custody": "wallet"}, headers=headers
            )
        )
        assert market["custody"] is None
        for path in ("deposit", "withdraw-request", "withdraw"):
            body = {"deposit": DEPOSIT, "withdraw-request": REQUEST}.get(path, {"user": ALICE})
            answer = live.http.post(f"/api/gasless/{path}", json={**body, "asset": "collateral"})
            problem(answer, "CHAIN_NOT_CONFIGURED")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("deposit", {**DEPOSIT, "asset": "0"}, "asset"),
        ("deposit", {**DEPOSIT, "asset": "dollars"}, "asset"),
        ("deposit", {"user": ALICE, "amount": "1"}, "asset"),
        ("deposit", {**DEPOSIT, "asset": "7", "permit": {
            "value": "1", "deadline": "2", "v": 27, "r": f"0x{1:064x}", "s": f"0x{2:064x}",
        }}, "permit"),
        ("withdraw-request", {**REQUEST, "signature": "12"}, "signature"),
        ("withdraw-request", {**REQUEST, "signature": f"0x{'12' * 4_097}"}, "signature"),
        ("withdraw-request", {**REQUEST, "nonce": None}, "nonce"),
        ("withdraw-request", {**REQUEST, "deadline": "soon"}, "deadline"),
        ("withdraw", DEPOSIT, "amount"),
    ],
)  # fmt: skip
async def test_invalid_fields_are_named(tmp_path, path, body, field):
    async with running_service(tmp_path) as server:
        answer = await server.http.post(f"/api/gasless/{path}", json=body)
        problem(answer, "INVALID_FIELD", field)


async def test_deposit_of_nothing_is_rejected(tmp_path):
    async with running_service(tmp_path) as server:
        answer = await server.http.post("/api/gasless/deposit", json={**DEPOSIT, "amount": "0"})
        problem(answer, "INVALID_AMOUNT", "amount")
