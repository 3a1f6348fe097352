"""Operations in the client API and the admin API: status, lists, metrics."""

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


def test_operation_is_returned_by_id(venue, user):
    answer = venue.post("/api/gasless/faucet", {"user": user.address})
    name = answer.headers["x-operation-id"]
    result = good(look(venue, name))
    assert result == {
        "operation": name,
        "kind": "faucet",
        "status": "done",
        "answer": good(answer),
    }


@pytest.mark.parametrize("name", ["op_0", "x" * 200, "%20", "prepare:nothing"])
def test_unknown_operation_returns_404(venue, name):
    problem(look(venue, name), "UNKNOWN_OPERATION")
    problem(operate(venue, f"/operations/{name}/retry", "POST"), "UNKNOWN_OPERATION")


def test_admin_chain_status(venue):
    wait_until(lambda: good(operate(venue))["head"])  # reported once a second
    result = good(operate(venue))
    chain = venue.chain()
    assert (result["state"], result["detail"], result["id"]) == ("ready", "", 31337)
    assert result["operator"] == chain["operator"] == venue.operator
    assert result["rpcUrl"] == chain["rpcUrl"] == venue.url
    assert result["contracts"] == {
        name: chain[name] for name in ("stablecoin", "collateral", "conditionalTokens", "exchange")
    }
    assert chain["exchange"] == good(venue.http.get("/"))["eip712"]["verifyingContract"]
    assert int(result["operatorBalance"]) > 0
    assert result["counts"]["stuck"] == result["numForeign"] == result["numDeaths"] == 0


def test_admin_lists_operations_in_pages(venue, user):
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


def test_invalid_list_query_is_rejected(venue):
    for name, given in (("limit", "0"), ("limit", "101"), ("cursor", "x"), ("status", "odd")):
        problem(operate(venue, "/operations", **{name: given}), "INVALID_FIELD", name)


def test_retrying_a_completed_operation_changes_nothing(venue, user):
    name = venue.post("/api/gasless/faucet", {"user": user.address}).headers["x-operation-id"]
    before = good(look(venue, name))
    assert good(operate(venue, f"/operations/{name}/retry", "POST")) == before


def test_metrics_count_operations(venue, user):
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
