"""Specification, "POST /api/gasless/faucet": one test per sentence, with a running chain.

Docstrings quote the specification.
"""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from clob_server.chain.eth.accounts import WALLETS
from tests.chain.chain_server import ChainServer, wait_until
from tests.chain.nodes import running, start_devchain
from tests.chain.wallets import STABLE_UNIT, UNIT
from tests.server.api.makers import good, problem
from tests.server.live import live_server

FAUCET = "/api/gasless/faucet"
DAY_MS = 86_400_000
GIFT_WEI = 10**16
HASH = re.compile("0x[0-9a-f]{64}")


def status_of(server, hashed):
    return server.ask("eth_getTransactionReceipt", hashed)["status"]


def test_the_response(server, user):
    """Response: `success` (boolean), `faucetTx` (string), `transferTx` (string), `amount` (number),
    `message` (string)."""
    result = good(server.post(FAUCET, {"user": user.address}))
    assert result["success"] is True
    assert (type(result["amount"]), result["amount"]) == (int, 100)
    assert user.address in result["message"]
    for name in ("faucetTx", "transferTx", "gasTx"):
        assert HASH.fullmatch(result[name])
        assert status_of(server, result[name]) == "0x1"


def test_it_mints_test_stablecoin_to_a_wallet(server, user):
    """Mints test stablecoin to a wallet. Collateral is a wrapped stablecoin."""
    before = server.ledger.wrapped_supply()
    server.faucet(user)
    assert server.ledger.collateral(user.address) == 100 * UNIT
    assert server.ledger.wrapped_supply() == before + 100 * UNIT
    held = server.ledger.stable(server.contracts.collateral)
    assert held * (UNIT // STABLE_UNIT) == server.ledger.wrapped_supply()
    assert server.ledger.stable(server.operator) == server.ledger.collateral(server.operator) == 0


def test_the_operator_pays_gas(server, user):
    """The operator pays gas."""
    result = server.faucet(user)
    for name in ("faucetTx", "transferTx", "gasTx"):
        receipt = server.ask("eth_getTransactionReceipt", result[name])
        assert receipt["from"].lower() == server.operator.lower()
    assert server.ledger.ether(user.address) == GIFT_WEI
    assert server.faucet(user)["gasTx"] is None  # the wallet has enough ether now


def test_the_limit_is_500_units_an_address(server, user):
    """Limit: 500 units per address per 24 hours."""
    for _ in range(5):
        server.faucet(user)
    now_ms = time.time_ns() // 10**6
    answer = server.post(FAUCET, {"user": user.address.lower()})
    rejection = problem(answer, "FAUCET_LIMIT")
    assert "500 units in 24 hours" in rejection["detail"]
    assert 0 <= now_ms + DAY_MS - rejection["freesAt"] < 60_000
    assert 0 <= DAY_MS // 1000 - int(answer.headers["retry-after"]) < 60
    assert server.ledger.collateral(user.address) == 500 * UNIT


def test_all_wallets_together_have_a_daily_limit(tmp_path):
    first, second, third = (each.address for each in WALLETS[:3])
    limits = {"faucet_daily_units": 250, "rate_limits": False}
    with live_server(tmp_path, chain="embedded", chain_port=0, **limits) as live:
        server = ChainServer(live)
        before = server.ledger.ether(server.operator)
        for user in (first, second):
            good(server.post(FAUCET, {"user": user}))
        answer = server.post(FAUCET, {"user": third})
        rejection = problem(answer, "FAUCET_LIMIT")
        assert "at most 250 units in 24 hours to all wallets; it sent 200" in rejection["detail"]
        assert 0 <= DAY_MS // 1000 - int(answer.headers["retry-after"]) < 60
        assert server.ledger.collateral(third) == 0
        assert server.ledger.ether(server.operator) > before - 3 * GIFT_WEI


@pytest.mark.long
def test_rejected_request_does_not_count_towards_the_limit(tmp_path):
    """Limit: 500 units per address per 24 hours; rejected requests do not count."""
    user = {"user": WALLETS[0].address}
    with (
        running(start_devchain(tmp_path / "node")) as node,
        live_server(tmp_path / "data", chain=node.url, rate_limits=False) as live,
    ):
        server = ChainServer(live, node.url)
        node.kill()
        for _ in range(2):
            problem(server.post(FAUCET, user), "CHAIN_UNAVAILABLE")
        wait_until(lambda: server.chain()["state"] == "unreachable")
        problem(server.post(FAUCET, user), "CHAIN_UNAVAILABLE")
        with running(start_devchain(tmp_path / "node", port=node.port)):
            wait_until(lambda: server.chain()["state"] == "ready")
            for _ in range(5):
                good(server.post(FAUCET, user))
            problem(server.post(FAUCET, user), "FAUCET_LIMIT")


def test_repeated_key_returns_the_first_answer(server, user):
    """Decision 44: `Idempotency-Key` header: the first answer again; same key, other body: 422."""
    first = server.faucet(user, key=f"again-{user.address}")
    for _ in range(6):
        assert server.faucet(user, key=f"again-{user.address}") == first
    assert server.ledger.collateral(user.address) == 100 * UNIT
    other = server.user(f"0x{8:064x}")
    assert server.faucet(other, key=f"again-{user.address}") != first  # keys are per wallet
    body = {"user": user.address, "conditionId": server.market["conditionId"]}
    answer = server.post("/api/gasless/redeem", body, f"again-{user.address}")
    problem(answer, "IDEMPOTENCY_KEY_REUSED")


def test_concurrent_requests_with_one_key_run_once(server, user):
    """Decision 44: the first answer again, also while it is pending."""
    with ThreadPoolExecutor(8) as pool:
        result = list(pool.map(lambda _: server.faucet(user, key="at-once"), range(8)))
    assert result == [result[0]] * 8
    assert server.ledger.collateral(user.address) == 100 * UNIT


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, b"\xe9"])
def test_invalid_idempotency_key_is_rejected(server, user, key):
    """Decision 44: `Idempotency-Key` header, 1 to 255 visible characters."""
    answer = server.post(FAUCET, {"user": user.address}, key)
    problem(answer, "INVALID_FIELD", "Idempotency-Key")


@pytest.mark.parametrize("given", [None, "", "me", "0x12", "0x" + "g" * 40, 7])
def test_invalid_user_is_rejected(server, given):
    """Body: `user` (string, wallet address)."""
    code = "INVALID_FIELD" if given is None else "INVALID_ADDRESS"
    problem(server.post(FAUCET, {"user": given}), code, "user")
