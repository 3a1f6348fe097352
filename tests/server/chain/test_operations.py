"""Operations as their users and the operator see them: where they stand, lists, numbers."""

import pytest

from tests.chain.venues import wait_until
from tests.server.api.people import good, problem
from tests.server.meta.operators import authority_of

ADMIN = "/api/admin/chain"


def look(venue, name):
    return venue.http.get(f"/api/gasless/operations/{name}")


def operate(venue, path="", method="GET", **query):
    headers = authority_of(venue.live)
    return venue.http.request(method, f"{ADMIN}{path}", params=query, headers=headers)


def test_an_operation_can_be_looked_at_by_its_name(venue, user):
    answer = venue.post("/api/gasless/faucet", {"user": user.address})
    name = answer.headers["x-operation-id"]
    told = good(look(venue, name))
    assert told == {
        "operation": name,
        "kind": "faucet",
        "status": "done",
        "answer": good(answer),
    }


@pytest.mark.parametrize("name", ["op_0", "x" * 200, "%20", "prepare:nothing"])
def test_one_that_is_not_there_is_a_404(venue, name):
    problem(look(venue, name), "UNKNOWN_OPERATION")
    problem(operate(venue, f"/operations/{name}/retry", "POST"), "UNKNOWN_OPERATION")


def test_the_operator_sees_the_chain(venue):
    wait_until(lambda: good(operate(venue))["head"])  # told once a second
    told = good(operate(venue))
    chain = venue.chain()
    assert (told["state"], told["detail"], told["id"]) == ("ready", "", 31337)
    assert told["operator"] == chain["operator"] == venue.operator
    assert told["rpcUrl"] == chain["rpcUrl"] == venue.url
    assert told["contracts"] == {
        name: chain[name] for name in ("stablecoin", "collateral", "conditionalTokens", "exchange")
    }
    assert chain["exchange"] == good(venue.http.get("/"))["eip712"]["verifyingContract"]
    assert int(told["operatorBalance"]) > 0
    assert told["counts"]["stuck"] == told["numForeign"] == told["numDeaths"] == 0


def test_the_operator_lists_operations_in_pages(venue, user):
    for _ in range(3):
        venue.faucet(user)
    first = operate(venue, "/operations", limit=2, status="done")
    found = good(first)
    assert [each["kind"] for each in found] == ["faucet", "faucet"]
    assert found[0]["body"]["user"] == user.address
    assert {step["status"] for each in found for step in each["steps"]} == {"confirmed"}
    cursor = first.headers["x-next-cursor"]
    assert "status=done" in first.headers["link"]
    rest = good(operate(venue, "/operations", limit=100, cursor=cursor))
    numbers = [each["number"] for each in (*found, *rest)]
    assert numbers == list(range(numbers[0], 0, -1))
    assert good(operate(venue, "/operations", status="stuck")) == []


def test_a_list_is_asked_for_rightly_or_refused(venue):
    for name, given in (("limit", "0"), ("limit", "101"), ("cursor", "x"), ("status", "odd")):
        problem(operate(venue, "/operations", **{name: given}), "INVALID_FIELD", name)


def test_to_retry_what_is_done_changes_nothing(venue, user):
    name = venue.post("/api/gasless/faucet", {"user": user.address}).headers["x-operation-id"]
    before = good(look(venue, name))
    assert good(operate(venue, f"/operations/{name}/retry", "POST")) == before


def test_the_metrics_count_operations(venue, user):
    venue.faucet(user)
    wait_until(lambda: good(operate(venue))["head"])
    page = venue.http.get("/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert float(lines['clob_operations_total{kind="faucet",outcome="done"}']) >= 1
    assert float(lines['clob_operation_seconds_count{kind="faucet"}']) >= 1
    assert float(lines["clob_chain_up"]) == 1
    assert float(lines["clob_chain_head"]) > 0
    assert 0 < float(lines["clob_chain_operator_ether"]) <= 10_000
    for name in ("stuck", "bumped", "foreign_nonces", "deaths"):
        assert float(lines[f"clob_chain_{name}"]) == 0
