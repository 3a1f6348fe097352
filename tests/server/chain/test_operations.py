"""Operations in the client API and the admin API: status, lists, metrics."""

import pytest

from tests.chain.chain_server import wait_until
from tests.server.api.makers import good, problem
from tests.server.meta.operators import authority_of

ADMIN = "/api/admin/chain"


def look(server, name):
    return server.http.get(f"/api/gasless/operations/{name}")


def operate(server, path="", method="GET", **query):
    headers = authority_of(server.live)
    return server.http.request(method, f"{ADMIN}{path}", params=query, headers=headers)


def test_operation_is_returned_by_id(server, user):
    answer = server.post("/api/gasless/faucet", {"user": user.address})
    name = answer.headers["x-operation-id"]
    result = good(look(server, name))
    assert result == {
        "operation": name,
        "kind": "faucet",
        "status": "done",
        "answer": good(answer),
    }


@pytest.mark.parametrize("name", ["op_0", "x" * 200, "%20", "prepare:nothing"])
def test_unknown_operation_returns_404(server, name):
    problem(look(server, name), "UNKNOWN_OPERATION")
    problem(operate(server, f"/operations/{name}/retry", "POST"), "UNKNOWN_OPERATION")


def test_admin_chain_status(server):
    wait_until(lambda: good(operate(server))["head"])  # reported once a second
    result = good(operate(server))
    chain = server.chain()
    assert (result["state"], result["detail"], result["id"]) == ("ready", "", 31337)
    assert result["operator"] == chain["operator"] == server.operator
    assert result["rpcUrl"] == chain["rpcUrl"] == server.url
    assert result["contracts"] == {
        name: chain[name] for name in ("stablecoin", "collateral", "conditionalTokens", "exchange")
    }
    assert chain["exchange"] == good(server.http.get("/"))["eip712"]["verifyingContract"]
    assert int(result["operatorBalance"]) > 0
    assert result["counts"]["stuck"] == result["numForeign"] == result["numDeaths"] == 0


def test_admin_lists_operations_in_pages(server, user):
    for _ in range(3):
        server.faucet(user)
    first = operate(server, "/operations", limit=2, status="done")
    page = good(first)
    assert [each["kind"] for each in page] == ["faucet", "faucet"]
    assert page[0]["body"]["user"] == user.address
    assert {step["status"] for each in page for step in each["steps"]} == {"confirmed"}
    cursor = first.headers["x-next-cursor"]
    assert "status=done" in first.headers["link"]
    rest = good(operate(server, "/operations", limit=100, cursor=cursor))
    numbers = [each["number"] for each in (*page, *rest)]
    assert numbers == list(range(numbers[0], 0, -1))
    assert good(operate(server, "/operations", status="stuck")) == []


def test_invalid_list_query_is_rejected(server):
    for name, given in (("limit", "0"), ("limit", "101"), ("cursor", "x"), ("status", "odd")):
        problem(operate(server, "/operations", **{name: given}), "INVALID_FIELD", name)


def test_retrying_a_completed_operation_changes_nothing(server, user):
    name = server.post("/api/gasless/faucet", {"user": user.address}).headers["x-operation-id"]
    before = good(look(server, name))
    assert good(operate(server, f"/operations/{name}/retry", "POST")) == before


def test_metrics_count_operations(server, user):
    server.faucet(user)
    wait_until(lambda: good(operate(server))["head"])
    page = server.http.get("/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert float(lines['clob_operations_total{kind="faucet",outcome="done"}']) >= 1
    assert float(lines['clob_operation_seconds_count{kind="faucet"}']) >= 1
    assert float(lines["clob_chain_up"]) == 1
    assert float(lines["clob_chain_head"]) > 0
    assert 0 < float(lines["clob_chain_operator_ether"]) <= 10_000
    for name in ("stuck", "bumped", "foreign_nonces", "deaths"):
        assert float(lines[f"clob_chain_{name}"]) == 0


def test_preferred_wait_ends_with_the_transactions_so_far(server, user):
    body, headers = {"user": user.address}, {"Idempotency-Key": f"waits-{user.address}"}
    pending = {**headers, "Prefer": "respond-async, wait=0"}
    answer = server.http.post("/api/gasless/faucet", json=body, headers=pending)
    assert (answer.status_code, answer.json()["code"]) == (503, "OPERATION_PENDING")
    assert answer.json()["operation"].startswith("op_")
    done = server.http.post("/api/gasless/faucet", json=body, headers=headers)
    assert done.status_code == 200, done.text
    patient = {**headers, "Prefer": "wait=30"}
    repeated = server.http.post("/api/gasless/faucet", json=body, headers=patient)
    assert repeated.json()["transferTx"] == done.json()["transferTx"]
