"""The first violated rule rejects a request: every pair of rules is tested.

The rules are listed in the order of their checks. An order that violates two of them, where that is
possible, must be rejected with the code of the first.
"""

import itertools
from typing import NamedTuple

import pytest

from clob import RejectedError
from clob.signing import SignedOrder
from clob.units import SIZE_MAX
from clob_server.api.problems import PROBLEMS
from tests.server.api.makers import BUY, ONE, SELL, ApiClient, Maker, MarketIds, problem

LONG_AGO = 1_700_000_000
STRANGER = Maker()
FORGED = "signed by another wallet"


class Flaw(NamedTuple):
    """A violated rule: the expected code and the fields that violate it."""

    code: str
    changes: dict
    path: str | None = None


FIELDS = [
    Flaw("INVALID_FIELD", {"salt": 1.5}, "salt"),
    Flaw("INVALID_ADDRESS", {"maker": "me"}, "maker"),
    Flaw("INVALID_ADDRESS", {"signer": "0x12"}, "signer"),
    Flaw("INVALID_ADDRESS", {"taker": 0}, "taker"),
    Flaw("INVALID_FIELD", {"tokenId": "x"}, "tokenId"),
    Flaw("INVALID_AMOUNT", {"makerAmount": "1.5"}, "makerAmount"),
    Flaw("AMOUNT_TOO_LARGE", {"takerAmount": str(2**256)}, "takerAmount"),
    Flaw("INVALID_FIELD", {"expiration": -1}, "expiration"),
    Flaw("INVALID_FIELD", {"nonce": "x"}, "nonce"),
    Flaw("INVALID_FIELD", {"feeRateBps": 0.5}, "feeRateBps"),
    Flaw("INVALID_SIDE", {"side": "x"}, "side"),
    Flaw("INVALID_FIELD", {"signatureType": 256}, "signatureType"),
    Flaw("INVALID_SIGNATURE", {"signature": 5}, "signature"),
    Flaw("INVALID_FIELD", {"marketId": "a b"}, "marketId"),
    Flaw("INVALID_FIELD", {"timeInForce": "NOW"}, "timeInForce"),
    Flaw("INVALID_FIELD", {"postOnly": 1}, "postOnly"),
    Flaw("INVALID_FIELD", {"selfTrade": "x"}, "selfTrade"),
    Flaw("INVALID_FIELD", {"clientOrderId": ""}, "clientOrderId"),
    Flaw("INVALID_FIELD", {"deadlineMs": "x"}, "deadlineMs"),
]
"""Single fields: the signed ones in the order of the schema, then the others."""

MEANING = [
    Flaw("TAKER_NOT_SUPPORTED", {"taker": STRANGER.address}),
    Flaw("INVALID_FEE_RATE", {"feeRateBps": 1001}),
    Flaw("INVALID_SIDE", {"side": 7}),
    Flaw("INVALID_AMOUNT", {"makerAmount": "0"}),
    Flaw("AMOUNT_TOO_LARGE", {"takerAmount": str(SIZE_MAX + 1)}),
    Flaw("PRICE_OUT_OF_RANGE", {"makerAmount": str(2 * ONE), "takerAmount": str(ONE)}),
    Flaw("UNKNOWN_MARKET", {"marketId": "nowhere"}),
    Flaw("TOKEN_NOT_IN_MARKET", {"tokenId": "5"}),
    Flaw("INVALID_SIGNATURE", {"signature": FORGED}),
    Flaw("SIGNER_NOT_AUTHORISED", {"signer": STRANGER.address}),
]
"""Meaning of the fields, market and token, signature and signer."""

ENGINE = [
    Flaw("DEADLINE_PASSED", {"deadlineMs": 1}),
    Flaw("INVALID_INSTRUCTION", {"timeInForce": "IOC", "postOnly": True}),
    Flaw("AMOUNT_TOO_SMALL", {"makerAmount": "50", "takerAmount": "100"}),
    Flaw("ORDER_EXPIRED", {"expiration": LONG_AGO}),
    Flaw("CLIENT_ID_CONFLICT", {"clientOrderId": "taken"}),
    Flaw("MARKET_NOT_OPEN", {"marketId": "halted", "tokenId": "of it"}),
    Flaw("NONCE_TOO_LOW", {"nonce": "4"}),
    Flaw("POST_ONLY_WOULD_CROSS", {"makerAmount": str(7 * ONE // 10), "postOnly": True}),
]
"""Rules of the engine."""

ALL = [*FIELDS, *MEANING, *ENGINE]


def name(flaw):
    return f"{flaw.code}-{'-'.join(flaw.changes)}"


class Scenario:
    """A market in which every rule can be violated."""

    def __init__(self, server, market):
        api, bob = ApiClient(server.http), Maker()
        self.http, self.market, self.alice = server.http, market, Maker()
        self.halted = MarketIds()
        body = {"marketId": self.halted.id, "yesTokenId": str(self.halted.yes), "noTokenId": "9"}
        for path, json in (
            ("", body | {"noTokenId": str(self.halted.no)}),
            (f"/{self.halted.id}/halt", None),
        ):
            answer = server.operator.post(f"/api/admin/markets{path}", json=json)
            assert answer.status_code == 200, answer.text
        for ids in (market, self.halted):
            answer = server.operator.patch(
                f"/api/admin/markets/{ids.id}", json={"minSize": str(10**16)}
            )
            assert answer.status_code == 200, answer.text
        api.place(bob.signed(market, SELL, 60, ONE))
        api.post("/api/orders/nonce", self.alice.nonce(5))
        api.place(self.alice.signed(market, BUY, 10, nonce=5, also={"clientOrderId": "taken"}))

    def body(self, *flaws):
        """Return an order with these flaws, with a valid signature where possible."""
        body = self.alice.signed(self.market, BUY, 50, nonce=5)
        for flaw in flaws:
            body |= flaw.changes
        if body["marketId"] == "halted":
            body |= {"marketId": self.halted.id, "tokenId": str(self.halted.yes)}
        signers = {STRANGER.address: STRANGER}
        signer = signers.get(body["signer"], self.alice)
        if body["signature"] == FORGED:
            signer = Maker()
        elif body["signature"] == 5:
            return body
        try:
            order = SignedOrder.from_json(body | {"signature": ""})
        except RejectedError:
            return body | {"signature": "0x" + "11" * 65}
        signed = signer.body(order, self.market)
        return body | {"signature": signed["signature"]}


@pytest.fixture(scope="module")
def scenario(production):
    market = MarketIds()
    body = {"marketId": market.id, "yesTokenId": str(market.yes), "noTokenId": str(market.no)}
    assert production.operator.post("/api/admin/markets", json=body).status_code == 200
    return Scenario(production, market)


def test_order_that_violates_no_rule_is_accepted(scenario):
    assert ApiClient(scenario.http).place(scenario.body())["success"]


@pytest.mark.parametrize("first", ALL, ids=name)
def test_first_violated_rule_rejects(scenario, first):
    problem(scenario.http.post("/api/orders", json=scenario.body(first)), first.code, first.path)
    for other in ALL[ALL.index(first) + 1 :]:
        if first.changes.keys().isdisjoint(other.changes):
            reply = scenario.http.post("/api/orders", json=scenario.body(first, other))
            problem(reply, first.code, first.path)


def test_every_adjacent_pair_of_rules_is_covered():
    pairs = [(a, b) for a, b in itertools.combinations(ALL, 2) if not a.changes.keys() & b.changes]
    assert {name(flaw) for pair in pairs for flaw in pair} == {name(flaw) for flaw in ALL}
    assert len(pairs) > 500


def test_documented_codes_have_the_order_of_the_rules():
    position = {code: index for index, code in enumerate(PROBLEMS)}
    later = [position[flaw.code] for flaw in (*MEANING, *ENGINE)]
    assert later == sorted(later)
    assert position["UNSUPPORTED_MEDIA_TYPE"] < position["INVALID_JSON"] < position["INVALID_FIELD"]
    assert max(position["INVALID_FIELD"], position["INVALID_ADDRESS"]) < later[0]


def test_body_is_checked_before_its_fields(scenario):
    wrong, right = {"content-type": "text/plain"}, {"content-type": "application/json"}
    problem(
        scenario.http.post("/api/orders", content=b"{", headers=wrong), "UNSUPPORTED_MEDIA_TYPE"
    )
    for body, code in ((b'{"maker": 5', "INVALID_JSON"), (b"[]", "INVALID_FIELD")):
        problem(scenario.http.post("/api/orders", content=body, headers=right), code)
    problem(
        scenario.http.post("/api/orders", content=b"x" * 70_000, headers=wrong), "BODY_TOO_LARGE"
    )
