"""Specification, "POST /api/gasless/merge" and split: one test per sentence, with a running chain.

Docstrings quote the specification.
"""

import pytest

from tests.chain.people import REVERTS, UNIT
from tests.chain.venues import conversion
from tests.server.api.people import good, problem

NOBODYS = f"0x{7:064x}"
PATHS = pytest.mark.parametrize("path", ["/api/gasless/split", "/api/gasless/merge"])


def held(venue, user):
    """Return a user's collateral, YES and NO, in wei."""
    tokens = [int(venue.market[f"{name}TokenId"]) for name in ("yes", "no")]
    of = (venue.ledger.token(user.address, token) for token in tokens)
    return (venue.ledger.collateral(user.address), *of)


def check_paid(venue, user, result, names):
    """Check that these transactions succeeded and were sent by the operator."""
    for name in names:
        receipt = venue.ask("eth_getTransactionReceipt", result[name])
        assert receipt["status"] == "0x1"
        assert receipt["from"].lower() == venue.operator.lower()
    assert len({result[name] for name in names}) == len(names)


def num_sent(venue):
    """Return the number of the operator's transactions."""
    return venue.ask("eth_getTransactionCount", venue.operator, "pending")


# ----- split -----------------------------------------------------------------------------------


SPLIT = ("collateralTransferTx", "splitTx", "yesTransferTx", "noTransferTx")


def test_split_converts_collateral_into_tokens(venue, rich):
    """Decision 43: answer `success, collateralTransferTx, splitTx, yesTransferTx, noTransferTx,
    amount, message`. The operator pays the gas."""
    ether = venue.ledger.ether(rich.address)
    result = good(venue.post("/api/gasless/split", conversion(rich, venue.market, 30 * UNIT)))
    assert (result["success"], result["amount"], result["permitTx"]) == (True, str(30 * UNIT), None)
    assert type(result["message"]) is str
    check_paid(venue, rich, result, SPLIT)
    assert held(venue, rich) == (70 * UNIT, 30 * UNIT, 30 * UNIT)
    assert venue.ledger.ether(rich.address) == ether


def test_split_takes_a_signed_approval(venue, user):
    """A wallet that has signed a permit needs no approval on the chain."""
    venue.faucet(user)
    body = conversion(user, venue.market, UNIT)
    problem(venue.post("/api/gasless/split", body), "NOT_APPROVED")
    result = good(venue.post("/api/gasless/split", body | {"permit": user.permit(UNIT)}))
    check_paid(venue, user, result, ("permitTx", *SPLIT))
    assert held(venue, user) == (99 * UNIT, UNIT, UNIT)


@pytest.mark.parametrize(("field", "given"), [
    ("value", "x"), ("deadline", None), ("v", 26), ("v", "x"), ("r", "0x12"), ("s", None),
])  # fmt: skip
def test_a_permit_is_read_strictly(venue, user, field, given):
    permit = {"value": "1", "deadline": "1", "v": 27, "r": NOBODYS, "s": NOBODYS} | {field: given}
    body = conversion(user, venue.market, UNIT) | {"permit": permit}
    said = venue.post("/api/gasless/split", body).json()
    assert said["errors"][0]["path"] == f"permit.{field}"
    answer = venue.post("/api/gasless/split", body | {"permit": 7})
    problem(answer, "INVALID_FIELD", "permit")


def test_failed_split_is_undone_and_reported(venue, rich):
    """The collateral of a wallet that rejects tokens is returned, and the answer has all hashes."""
    rich.set_code(REVERTS)
    answer = venue.post("/api/gasless/split", conversion(rich, venue.market, UNIT), rich.address)
    said = problem(answer, "OPERATION_FAILED")
    assert said["undone"] is True
    assert all(said["hashes"][name] for name in ("collateralTransferTx", "splitTx", "refundTx"))
    assert held(venue, rich) == (100 * UNIT, 0, 0)
    again = venue.post("/api/gasless/split", conversion(rich, venue.market, UNIT), rich.address)
    assert problem(again, "OPERATION_FAILED")["hashes"] == said["hashes"]
    result = good(venue.http.get(f"/api/gasless/operations/{said['operation']}"))
    assert (result["status"], result["hashes"]) == ("failed", said["hashes"])


# ----- merge -----------------------------------------------------------------------------------


MERGE = ("yesTransferTx", "noTransferTx", "mergeTx", "returnTx")


def test_merge_converts_tokens_into_collateral(venue, rich):
    """Converts equal amounts of YES and NO tokens into collateral; the operator pays all gas.
    Response: `success` (boolean), `yesTransferTx`, `noTransferTx`, `mergeTx`, `returnTx` (strings,
    transaction hashes), `amount` (string), `message` (string, human-readable)."""
    venue.convert("split", rich, venue.market, 30 * UNIT)
    ether = venue.ledger.ether(rich.address)
    result = good(venue.post("/api/gasless/merge", conversion(rich, venue.market, 10 * UNIT)))
    assert (result["success"], result["amount"]) == (True, str(10 * UNIT))
    assert type(result["message"]) is str
    check_paid(venue, rich, result, MERGE)
    assert held(venue, rich) == (80 * UNIT, 20 * UNIT, 20 * UNIT)
    assert venue.ledger.ether(rich.address) == ether
    assert (venue.ledger.collateral(venue.operator)) == 0


def test_repeated_key_returns_the_same_hashes(venue, rich):
    """Decision 44: `Idempotency-Key` header: the first answer again."""
    venue.convert("split", rich, venue.market, 30 * UNIT, key=f"s{rich.address}")
    first = venue.convert("merge", rich, venue.market, 30 * UNIT, key=f"m{rich.address}")
    assert venue.convert("merge", rich, venue.market, 30 * UNIT, key=f"m{rich.address}") == first
    assert held(venue, rich) == (100 * UNIT, 0, 0)
    other = conversion(rich, venue.market, UNIT)
    problem(venue.post("/api/gasless/merge", other, f"m{rich.address}"), "IDEMPOTENCY_KEY_REUSED")


# ----- rejected before any transaction ---------------------------------------------------------


@PATHS
def test_unknown_condition_is_rejected(venue, rich, path):
    """`conditionId` (hex market condition ID)."""
    before = num_sent(venue)
    body = conversion(rich, venue.market, UNIT) | {"conditionId": NOBODYS}
    assert NOBODYS in problem(venue.post(path, body), "UNKNOWN_CONDITION")["detail"]
    assert num_sent(venue) == before


@PATHS
def test_tokens_of_another_condition_are_rejected(venue, rich, path):
    """`yesTokenId` (decimal), `noTokenId` (decimal)."""
    before, market = num_sent(venue), venue.market
    swapped = market | {"yesTokenId": market["noTokenId"], "noTokenId": market["yesTokenId"]}
    for wrong in (swapped, market | {"noTokenId": "7"}):
        said = problem(venue.post(path, conversion(rich, wrong, UNIT)), "TOKENS_NOT_OF_CONDITION")
        assert market["yesTokenId"] in said["detail"]
    assert num_sent(venue) == before


@PATHS
def test_insufficient_balance_is_rejected_with_the_available_amount(venue, rich, path):
    """`amount` (token amount to merge)."""
    before = num_sent(venue)
    body = conversion(rich, venue.market, 101 * UNIT)
    said = problem(venue.post(path, body), "INSUFFICIENT_BALANCE")
    assert said["needed"] == str(101 * UNIT)
    assert said["available"] == str(100 * UNIT if path.endswith("split") else 0)
    assert num_sent(venue) == before


def test_missing_approval_is_rejected_with_the_required_call(venue, rich):
    """The user has to approve the operator."""
    venue.convert("split", rich, venue.market, UNIT)
    rich.approve_tokens(False)
    rich.approve_collateral(UNIT - 1)
    before = num_sent(venue)
    body = conversion(rich, venue.market, UNIT)
    said = problem(venue.post("/api/gasless/merge", body), "NOT_APPROVED")
    assert f"setApprovalForAll({venue.operator}, true)" in said["detail"]
    said = problem(venue.post("/api/gasless/split", body), "NOT_APPROVED")
    assert f"approve({venue.operator}" in said["detail"]
    assert num_sent(venue) == before


@PATHS
@pytest.mark.parametrize(("field", "given", "code"), [
    ("user", "0x12", "INVALID_ADDRESS"), ("amount", "0", "INVALID_AMOUNT"),
    ("amount", "1.5", "INVALID_AMOUNT"), ("amount", str(2**256), "AMOUNT_TOO_LARGE"),
    ("conditionId", "0x5c", "INVALID_FIELD"), ("yesTokenId", "x", "INVALID_FIELD"),
])  # fmt: skip
def test_malformed_body_is_rejected(venue, rich, path, field, given, code):
    """Body (all strings): `user`, `amount`, `conditionId`, `yesTokenId`, `noTokenId`."""
    before = num_sent(venue)
    body = conversion(rich, venue.market, UNIT) | {field: given}
    problem(venue.post(path, body), code, field)
    assert num_sent(venue) == before


# ----- redeem ----------------------------------------------------------------------------------


def test_redeem_pays_out_after_resolution(venue, rich, request):
    """Resolution reports payouts; redeem pays out."""
    market = venue.open_market("snow", "Will it snow?")
    venue.convert("split", rich, market, 40 * UNIT)
    body = {"user": rich.address, "conditionId": market["conditionId"]}
    path = "/api/gasless/redeem"
    problem(venue.post(path, body), "CONDITION_NOT_RESOLVED")
    venue.resolve("snow", "no")
    result = good(venue.post(path, body))
    assert (result["success"], result["amount"]) == (True, str(40 * UNIT))
    check_paid(venue, rich, result, ("yesTransferTx", "noTransferTx", "redeemTx", "returnTx"))
    assert venue.ledger.collateral(rich.address) == 100 * UNIT
    problem(venue.post(path, body), "NOTHING_TO_REDEEM")
    problem(venue.post(path, body | {"conditionId": NOBODYS}), "UNKNOWN_CONDITION")
