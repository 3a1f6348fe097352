"""Specification, "POST /api/gasless/merge" and split: one test per sentence, with a running chain.

Docstrings quote the specification.
"""

import pytest

from tests.chain.chain_server import conversion
from tests.chain.wallets import REVERTS, STABLE_UNIT, UNIT
from tests.server.api.makers import good, problem

NOBODYS = f"0x{7:064x}"
PATHS = pytest.mark.parametrize("path", ["/api/gasless/split", "/api/gasless/merge"])


def held(server, user):
    """Return a user's collateral, YES and NO, in wei."""
    tokens = [int(server.market[f"{name}TokenId"]) for name in ("yes", "no")]
    of = (server.ledger.token(user.address, token) for token in tokens)
    return (server.ledger.collateral(user.address), *of)


def check_paid(server, user, result, names):
    """Check that these transactions succeeded and were sent by the operator."""
    for name in names:
        receipt = server.ask("eth_getTransactionReceipt", result[name])
        assert receipt["status"] == "0x1"
        assert receipt["from"].lower() == server.operator.lower()
    assert len({result[name] for name in names}) == len(names)


def num_sent(server):
    """Return the number of the operator's transactions."""
    return server.ask("eth_getTransactionCount", server.operator, "pending")


# ----- split -----------------------------------------------------------------------------------


SPLIT = ("collateralTransferTx", "splitTx", "yesTransferTx", "noTransferTx")


def test_split_converts_collateral_into_tokens(server, funded_user):
    """Decision 43: answer `success, collateralTransferTx, splitTx, yesTransferTx, noTransferTx,
    amount, message`. The operator pays the gas."""
    ether = server.ledger.ether(funded_user.address)
    result = good(
        server.post("/api/gasless/split", conversion(funded_user, server.market, 30 * UNIT))
    )
    assert (result["success"], result["amount"], result["permitTx"]) == (True, str(30 * UNIT), None)
    assert type(result["message"]) is str
    check_paid(server, funded_user, result, SPLIT)
    assert held(server, funded_user) == (70 * UNIT, 30 * UNIT, 30 * UNIT)
    assert server.ledger.ether(funded_user.address) == ether


def test_split_takes_a_signed_approval(server, user):
    """A wallet that has signed a permit needs no approval on the chain."""
    server.faucet(user)
    body = conversion(user, server.market, UNIT)
    problem(server.post("/api/gasless/split", body), "NOT_APPROVED")
    result = good(server.post("/api/gasless/split", body | {"permit": user.permit(UNIT)}))
    check_paid(server, user, result, ("permitTx", *SPLIT))
    assert held(server, user) == (99 * UNIT, UNIT, UNIT)


@pytest.mark.parametrize(("field", "given"), [
    ("value", "x"), ("deadline", None), ("v", 26), ("v", "x"), ("r", "0x12"), ("s", None),
])  # fmt: skip
def test_a_permit_is_read_strictly(server, user, field, given):
    permit = {"value": "1", "deadline": "1", "v": 27, "r": NOBODYS, "s": NOBODYS} | {field: given}
    body = conversion(user, server.market, UNIT) | {"permit": permit}
    rejection = server.post("/api/gasless/split", body).json()
    assert rejection["errors"][0]["path"] == f"permit.{field}"
    answer = server.post("/api/gasless/split", body | {"permit": 7})
    problem(answer, "INVALID_FIELD", "permit")


def test_failed_split_is_undone_and_reported(server, funded_user):
    """The collateral of a wallet that rejects tokens is returned, and the answer has all hashes."""
    funded_user.set_code(REVERTS)
    answer = server.post(
        "/api/gasless/split", conversion(funded_user, server.market, UNIT), funded_user.address
    )
    rejection = problem(answer, "OPERATION_FAILED")
    assert rejection["undone"] is True
    assert all(
        rejection["hashes"][name] for name in ("collateralTransferTx", "splitTx", "refundTx")
    )
    assert held(server, funded_user) == (100 * UNIT, 0, 0)
    repeated = server.post(
        "/api/gasless/split", conversion(funded_user, server.market, UNIT), funded_user.address
    )
    assert problem(repeated, "OPERATION_FAILED")["hashes"] == rejection["hashes"]
    result = good(server.http.get(f"/api/gasless/operations/{rejection['operation']}"))
    assert (result["status"], result["hashes"]) == ("failed", rejection["hashes"])


# ----- merge -----------------------------------------------------------------------------------


MERGE = ("yesTransferTx", "noTransferTx", "mergeTx", "returnTx")


def test_merge_converts_tokens_into_collateral(server, funded_user):
    """Converts equal amounts of YES and NO tokens into collateral; the operator pays all gas.
    Response: `success` (boolean), `yesTransferTx`, `noTransferTx`, `mergeTx`, `returnTx` (strings,
    transaction hashes), `amount` (string), `message` (string, human-readable)."""
    server.convert("split", funded_user, server.market, 30 * UNIT)
    ether = server.ledger.ether(funded_user.address)
    result = good(
        server.post("/api/gasless/merge", conversion(funded_user, server.market, 10 * UNIT))
    )
    assert (result["success"], result["amount"]) == (True, str(10 * UNIT))
    assert type(result["message"]) is str
    check_paid(server, funded_user, result, MERGE)
    assert held(server, funded_user) == (80 * UNIT, 20 * UNIT, 20 * UNIT)
    assert server.ledger.ether(funded_user.address) == ether
    assert (server.ledger.collateral(server.operator)) == 0


def test_repeated_key_returns_the_same_hashes(server, funded_user):
    """Decision 44: `Idempotency-Key` header: the first answer again."""
    server.convert("split", funded_user, server.market, 30 * UNIT, key=f"s{funded_user.address}")
    first = server.convert(
        "merge", funded_user, server.market, 30 * UNIT, key=f"m{funded_user.address}"
    )
    assert (
        server.convert(
            "merge", funded_user, server.market, 30 * UNIT, key=f"m{funded_user.address}"
        )
        == first
    )
    assert held(server, funded_user) == (100 * UNIT, 0, 0)
    other = conversion(funded_user, server.market, UNIT)
    problem(
        server.post("/api/gasless/merge", other, f"m{funded_user.address}"),
        "IDEMPOTENCY_KEY_REUSED",
    )


# ----- rejected before any transaction ---------------------------------------------------------


@PATHS
def test_unknown_condition_is_rejected(server, funded_user, path):
    """`conditionId` (hex market condition ID)."""
    before = num_sent(server)
    body = conversion(funded_user, server.market, UNIT) | {"conditionId": NOBODYS}
    assert NOBODYS in problem(server.post(path, body), "UNKNOWN_CONDITION")["detail"]
    assert num_sent(server) == before


@PATHS
def test_tokens_of_another_condition_are_rejected(server, funded_user, path):
    """`yesTokenId` (decimal), `noTokenId` (decimal)."""
    before, market = num_sent(server), server.market
    swapped = market | {"yesTokenId": market["noTokenId"], "noTokenId": market["yesTokenId"]}
    for wrong in (swapped, market | {"noTokenId": "7"}):
        rejection = problem(
            server.post(path, conversion(funded_user, wrong, UNIT)), "TOKENS_NOT_OF_CONDITION"
        )
        assert market["yesTokenId"] in rejection["detail"]
    assert num_sent(server) == before


@PATHS
def test_insufficient_balance_is_rejected_with_the_available_amount(server, funded_user, path):
    """`amount` (token amount to merge)."""
    before = num_sent(server)
    body = conversion(funded_user, server.market, 101 * UNIT)
    rejection = problem(server.post(path, body), "INSUFFICIENT_BALANCE")
    assert rejection["needed"] == str(101 * UNIT)
    assert rejection["available"] == str(100 * UNIT if path.endswith("split") else 0)
    assert num_sent(server) == before


def test_missing_approval_is_rejected_with_the_required_call(server, funded_user):
    """The user has to approve the operator."""
    server.convert("split", funded_user, server.market, UNIT)
    funded_user.approve_tokens(False)
    funded_user.approve_collateral(UNIT - 1)
    before = num_sent(server)
    body = conversion(funded_user, server.market, UNIT)
    rejection = problem(server.post("/api/gasless/merge", body), "NOT_APPROVED")
    assert f"setApprovalForAll({server.operator}, true)" in rejection["detail"]
    rejection = problem(server.post("/api/gasless/split", body), "NOT_APPROVED")
    assert f"approve({server.operator}" in rejection["detail"]
    assert num_sent(server) == before


@PATHS
@pytest.mark.parametrize(("field", "given", "code"), [
    ("user", "0x12", "INVALID_ADDRESS"), ("amount", "0", "INVALID_AMOUNT"),
    ("amount", "1.5", "INVALID_AMOUNT"), ("amount", str(2**256), "AMOUNT_TOO_LARGE"),
    ("conditionId", "0x5c", "INVALID_FIELD"), ("yesTokenId", "x", "INVALID_FIELD"),
])  # fmt: skip
def test_malformed_body_is_rejected(server, funded_user, path, field, given, code):
    """Body (all strings): `user`, `amount`, `conditionId`, `yesTokenId`, `noTokenId`."""
    before = num_sent(server)
    body = conversion(funded_user, server.market, UNIT) | {field: given}
    problem(server.post(path, body), code, field)
    assert num_sent(server) == before


# ----- redeem ----------------------------------------------------------------------------------


def test_redeem_pays_out_after_resolution(server, funded_user, request):
    """Resolution reports payouts; redeem pays out."""
    market = server.open_market("snow", "Will it snow?")
    server.convert("split", funded_user, market, 40 * UNIT)
    body = {"user": funded_user.address, "conditionId": market["conditionId"]}
    path = "/api/gasless/redeem"
    problem(server.post(path, body), "CONDITION_NOT_RESOLVED")
    server.resolve("snow", "no")
    result = good(server.post(path, body))
    assert (result["success"], result["amount"]) == (True, str(40 * UNIT))
    check_paid(
        server, funded_user, result, ("yesTransferTx", "noTransferTx", "redeemTx", "returnTx")
    )
    assert server.ledger.collateral(funded_user.address) == 100 * UNIT
    problem(server.post(path, body), "NOTHING_TO_REDEEM")
    problem(server.post(path, body | {"conditionId": NOBODYS}), "UNKNOWN_CONDITION")


# ----- wrap and unwrap ---------------------------------------------------------------------------


def test_unwrap_and_wrap_convert_collateral_and_stablecoin(server, funded_user):
    """The operator pays the gas; the wallet has approved the token that it converts."""
    user, ether = funded_user, server.ledger.ether(funded_user.address)
    body = {"user": user.address, "amount": str(30 * UNIT)}
    result = good(server.post("/api/gasless/unwrap", body, f"u{user.address}"))
    check_paid(server, user, result, ("collateralTransferTx", "unwrapTx"))
    assert (result["amount"], result["stablecoinAmount"]) == (str(30 * UNIT), str(30 * STABLE_UNIT))
    assert held(server, user) == (70 * UNIT, 0, 0)
    assert server.ledger.stable(user.address) == 30 * STABLE_UNIT
    assert server.ledger.ether(user.address) == ether
    assert good(server.post("/api/gasless/unwrap", body, f"u{user.address}")) == result
    other = server.post("/api/gasless/unwrap", body | {"amount": "1"}, f"u{user.address}")
    problem(other, "IDEMPOTENCY_KEY_REUSED")
    problem(server.post("/api/gasless/wrap", body), "NOT_APPROVED")
    permit = user.permit(30 * STABLE_UNIT, contract=server.contracts.stablecoin)
    result = good(server.post("/api/gasless/wrap", body | {"permit": permit}))
    check_paid(server, user, result, ("permitTx", "stablecoinTransferTx", "wrapTx"))
    assert held(server, user) == (100 * UNIT, 0, 0)
    assert server.ledger.stable(server.operator) == 0


def test_wrap_of_a_fraction_of_the_smallest_unit_is_rejected(server, funded_user):
    for path in ("/api/gasless/wrap", "/api/gasless/unwrap"):
        body = {"user": funded_user.address, "amount": str(10**12 + 1)}
        rejection = problem(server.post(path, body), "INVALID_AMOUNT")
        assert "must be a multiple of 1000000000000 wei" in rejection["detail"]
