"""Development wallets sign and send for pages of this server, and for nothing else."""

import asyncio
import contextlib
import json
import os
import re
import signal
from importlib.resources import files
from pathlib import Path

import httpx
import msgspec
import pytest
from eth_account.messages import encode_typed_data

from clob.signing import (
    Domain,
    SignedCancel,
    SignedCancelAll,
    SignedOrder,
    SignedPermit,
    SignedReduce,
    SignedSetDelegate,
    SignedSetNonce,
    typed_data,
    verify,
)
from clob.signing.wallet import load_eth_account
from clob_server.app import ROUTES
from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR, WALLETS
from clob_server.chain.operations import calls
from clob_server.http.routes.dev_wallets import SIGNABLE
from tests.chain.chain_server import ChainServer
from tests.server.api.makers import FAR, ONE, good, problem
from tests.server.live import live_server
from tests.signings import DOMAIN

WALLET = WALLETS[0].address
LIST = "/api/test/wallets"
SIGN, SEND = (f"{LIST}/{WALLET}/{verb}" for verb in ("sign", "send"))
PATHS = [
    (route.method, route.path.replace("{address}", WALLET).replace("{txHash}", f"0x{1:064x}"))
    for route in ROUTES
    if route.name in (
        "list_dev_wallets", "sign_with_dev_wallet", "send_from_dev_wallet", "call_contracts",
        "get_receipt",
    )
]  # fmt: skip
ORDER = SignedOrder.from_price_size(
    side=0, price=45, size=10 * ONE, maker=WALLET, token_id=101, salt=2**200 + 1, expiration_s=FAR
)
STRUCTS = (
    ORDER,
    SignedCancel(order_id="ord_1_abcdef", maker=WALLET, timestamp_ms=1),
    SignedCancelAll(maker=WALLET, market_id="m", timestamp_ms=1),
    SignedReduce(order_id="ord_1_abcdef", maker=WALLET, remaining=ONE, timestamp_ms=1),
    SignedSetNonce(maker=WALLET, nonce=3),
    SignedSetDelegate(maker=WALLET, delegate=WALLETS[1].address, allowed=True, nonce=1),
)


def name_of(signed):
    return signed.SCHEMA.name


@pytest.fixture(scope="module")
def chained(tmp_path_factory):
    """A server with a development chain."""
    folder = tmp_path_factory.mktemp("chained") / "data"
    with live_server(folder, chain="embedded", chain_port=0, rate_limits=False) as live:
        yield ChainServer(live)


def test_list_has_the_free_accounts_and_no_key(http):
    answer = http.get(LIST)
    wallets = good(answer)["wallets"]
    assert [each["address"] for each in wallets] == [each.address for each in WALLETS]
    assert len({each["name"] for each in wallets}) == len(wallets)
    assert not any(each.private_key[2:] in answer.text for each in ACCOUNTS)


@pytest.mark.parametrize("signed", STRUCTS, ids=name_of)
def test_signature_of_each_struct_verifies(http, signed):
    signature = good(http.post(SIGN, json=typed_data(signed, DOMAIN)))["signature"]
    verify(msgspec.structs.replace(signed, signature=signature), DOMAIN)


def test_signature_equals_that_of_eth_account(http):
    data = typed_data(ORDER, DOMAIN)
    signature = good(http.post(SIGN, json=data))["signature"]
    account = load_eth_account().from_key(WALLETS[0].private_key)
    own = account.sign_typed_data(full_message=json.loads(json.dumps(data)))
    assert signature == f"0x{bytes(own.signature).hex()}"


def test_signed_order_is_accepted(http, market):
    order = SignedOrder.from_price_size(
        side=0, price=45, size=ONE, maker=WALLET, token_id=market.yes, salt=7
    )
    signature = good(http.post(SIGN, json=typed_data(order, DOMAIN)))["signature"]
    body = {**order.to_json(), "signature": signature, "marketId": market.id}
    assert good(http.post("/api/orders", json=body))["status"] == "open"


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_production_has_none_of_the_routes(production, method, path):
    problem(production.http.request(method, path, json={}), "NOT_ON_THIS_ENVIRONMENT")


def test_path_with_quotes_around_a_line_end_is_rejected_as_others(production):
    path = "/api/test/wallets/a%0D'b%0D'c/sign"
    problem(production.http.post(path, json={}), "NOT_ON_THIS_ENVIRONMENT")


@pytest.mark.parametrize("origin", ["https://foreign.example", "null", "http://127.0.0.1:1"])
@pytest.mark.parametrize(("method", "path"), PATHS)
def test_foreign_origin_is_rejected(http, method, path, origin):
    answer = http.request(method, path, json={}, headers={"Origin": origin})
    problem(answer, "ORIGIN_NOT_ALLOWED")


def test_origin_that_may_use_all_other_routes_is_rejected(tmp_path):
    friend = "https://friend.example"
    for number, origins in enumerate(((friend,), ("*",))):
        with live_server(tmp_path / str(number), cors_origins=origins) as live:
            headers = {"Origin": friend}
            assert live.http.get("/api/markets", headers=headers).status_code == 200
            for method, path in PATHS:
                problem(live.http.request(method, path, json={}, headers=headers),
                        "ORIGIN_NOT_ALLOWED")  # fmt: skip
            own = {"Origin": live.url}
            good(live.http.post(SIGN, json=typed_data(ORDER, DOMAIN), headers=own))


def test_exchange_of_another_chain_has_no_wallets(tmp_path):
    other = Domain("clob", "1", 5, DOMAIN.verifying_contract)
    with live_server(tmp_path, chain_id=5) as live:
        assert good(live.http.get(LIST)) == {"wallets": []}
        problem(live.http.post(SIGN, json=typed_data(ORDER, other)), "NOT_ON_THIS_ENVIRONMENT")


@pytest.mark.parametrize(
    "change",
    [{"name": "other"}, {"version": "2"}, {"chainId": 1}, {"verifyingContract": WALLET}],
    ids=lambda change: next(iter(change)),
)
def test_foreign_domain_is_rejected(http, change):
    data = typed_data(ORDER, DOMAIN)
    answer = http.post(SIGN, json={**data, "domain": {**data["domain"], **change}})
    problem(answer, "INVALID_FIELD", "domain")
    assert "this exchange" in answer.json()["detail"]


@pytest.mark.parametrize("domain", [None, [], "clob", {}, {"name": "clob"}])
def test_malformed_domain_is_rejected(http, domain):
    answer = http.post(SIGN, json={**typed_data(ORDER, DOMAIN), "domain": domain})
    problem(answer, "INVALID_FIELD", "domain")


def test_struct_of_another_application_is_rejected(http):
    data = {**typed_data(ORDER, DOMAIN), "primaryType": "Mail"}
    answer = http.post(SIGN, json=data)
    problem(answer, "INVALID_FIELD", "primaryType")
    assert "CancelAll" in answer.json()["detail"]


def test_other_types_than_those_of_the_struct_are_rejected(http):
    data = typed_data(ORDER, DOMAIN)
    data["types"]["Order"] = data["types"]["Order"][:-1]
    problem(http.post(SIGN, json=data), "INVALID_FIELD", "types")


def test_message_of_another_signer_is_rejected(http):
    data = typed_data(ORDER, DOMAIN)
    data["message"]["signer"] = OPERATOR.address
    problem(http.post(SIGN, json=data), "INVALID_FIELD", "message.signer")


def test_invalid_field_of_the_message_is_named(http):
    data = typed_data(ORDER, DOMAIN)
    data["message"]["makerAmount"] = -1
    assert http.post(SIGN, json=data).json()["errors"][0]["path"] == "message.makerAmount"


@pytest.mark.parametrize("account", [ACCOUNTS[0], ACCOUNTS[1], OPERATOR])
def test_accounts_with_a_role_are_no_development_wallets(http, account):
    answer = http.post(f"{LIST}/{account.address}/sign", json=typed_data(ORDER, DOMAIN))
    problem(answer, "NOT_FOUND")


def test_server_without_a_chain_signs_and_does_not_send(http):
    good(http.post(SIGN, json=typed_data(ORDER, DOMAIN)))
    answer = http.post(SEND, json={"to": OPERATOR.address, "data": "0x"})
    problem(answer, "CHAIN_NOT_CONFIGURED")


def test_server_without_a_chain_has_no_collateral_to_permit(http):
    domain = DOMAIN.to_json()
    message = {"owner": WALLET, "spender": WALLET, "value": 1, "nonce": 0, "deadline": FAR}
    body = {"primaryType": "Permit", "domain": domain, "message": message}
    problem(http.post(SIGN, json=body), "INVALID_FIELD", "domain")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"to": "0x1", "data": "0x"}, "to"),
        ({"to": OPERATOR.address}, "data"),
        ({"to": OPERATOR.address, "data": "0x1"}, "data"),
        ({"to": OPERATOR.address, "data": "0x", "value": "x"}, "value"),
        ({"to": OPERATOR.address, "data": "0x", "gas": 1}, "gas"),
    ],
)
def test_invalid_transaction_is_rejected(http, body, field):
    assert http.post(SEND, json=body).json()["errors"][0]["path"] == field


# ----- the page ------------------------------------------------------------------------------


def test_page_signs_the_structs_of_the_server():
    table = script_of("trade.js").partition("const STRUCTS = {")[2].partition("};")[0]
    found = re.findall(r'(\w+):((?:[\s+]*"[^"]+")+),', table)
    assert len(found) == 5
    for name, texts in found:
        fields = "".join(re.findall(r'"([^"]+)"', texts))
        assert f"{name}({fields})" == SIGNABLE[name].SCHEMA.type_string


def test_page_calls_the_functions_that_it_names():
    functions = {
        "BALANCE_OF": calls.BALANCE,
        "ALLOWANCE": calls.ALLOWANCE,
        "APPROVE": calls.APPROVE,
        "NONCES": Function("nonces(address)", returns="uint256"),
        "NAME": Function("name()", returns="string"),
        "TOKEN_BALANCE": Function("balanceOf(address,uint256)", returns="uint256"),
        "IS_APPROVED_FOR_ALL": calls.IS_APPROVED,
        "APPROVE_FOR_ALL": Function("setApprovalForAll(address,bool)"),
    }
    pattern = re.compile(r'^const ([A-Z_]+) = "([0-9a-f]{8})";$', re.MULTILINE)
    found = dict(pattern.findall(script_of("funds.js")))
    assert found == {name: each.selector.hex() for name, each in functions.items()}


def script_of(name):
    return (files("clob_server") / "web" / name).read_text()


# ----- with a chain --------------------------------------------------------------------------


def permit(chained):
    """Return the typed data of a permit for the operator."""
    domain = Domain("Wrapped Test Dollar", "1", 31337, chained.contracts.collateral)
    fields = {"owner": WALLET, "spender": chained.operator, "value": ONE, "nonce": 0,
              "deadline": 4_000_000_000}  # fmt: skip
    return typed_data(SignedPermit(**fields), domain)


def test_permit_of_the_collateral_is_signed(chained):
    data = permit(chained)
    signature = good(chained.post(SIGN, data))["signature"]
    message = encode_typed_data(full_message=data)
    assert load_eth_account().recover_message(message, signature=signature) == WALLET


def test_permit_of_another_token_is_rejected(chained):
    data = permit(chained)
    data["domain"]["verifyingContract"] = chained.contracts.stablecoin
    answer = chained.post(SIGN, data)
    problem(answer, "INVALID_FIELD", "domain")


def test_transactions_sent_at_once_are_all_mined(chained):
    before = int(chained.ask("eth_getTransactionCount", WALLET, "latest"), 16)

    async def send_all():
        async with httpx.AsyncClient(base_url=chained.live.url, timeout=60) as client:
            body = {"to": OPERATOR.address, "data": "0x", "value": "1"}
            return await asyncio.gather(*(client.post(SEND, json=body) for _ in range(5)))

    hashes = [good(answer)["txHash"] for answer in asyncio.run(send_all())]
    for each in hashes:
        receipt = good(chained.http.get(f"/api/test/transactions/{each}"))
        assert (receipt["txHash"], receipt["status"]) == (each, "confirmed")
        assert receipt["block"] > 0
    assert len(set(hashes)) == 5
    assert int(chained.ask("eth_getTransactionCount", WALLET, "latest"), 16) == before + 5


def test_transaction_that_would_fail_is_rejected_with_the_reason(chained):
    transfer = f"0xa9059cbb{int(WALLET, 16):064x}{1:064x}"
    answer = chained.post(SEND, {"to": chained.contracts.collateral, "data": transfer})
    problem(answer, "REJECTED")
    assert "revert" in answer.json()["detail"]


def test_unknown_transaction_is_pending(chained):
    answer = good(chained.http.get(f"/api/test/transactions/0x{7:064x}"))
    assert answer == {"txHash": f"0x{7:064x}", "status": "pending", "block": None}


def test_contract_is_read(chained):
    calls = [{"to": chained.contracts.collateral, "data": "0x313ce567"}] * 2
    assert good(chained.post("/api/test/calls", {"calls": calls})) == {
        "results": [f"0x{18:064x}"] * 2
    }
    problem(chained.post("/api/test/calls", {"calls": []}), "INVALID_FIELD", "calls")


def test_server_answers_while_the_node_hangs(chained):
    node = child_of(chained.live.process.pid, "clob_server.chain.devchain")
    body = {"calls": [{"to": chained.contracts.collateral, "data": "0x313ce567"}]}

    async def sign_while_a_call_waits():
        async with httpx.AsyncClient(base_url=chained.live.url, timeout=60) as client:
            waiting = asyncio.create_task(client.post("/api/test/calls", json=body))
            data = typed_data(ORDER, DOMAIN)
            signed = [await client.post(SIGN, json=data) for _ in range(5)]
            was_waiting = not waiting.done()
            return signed, was_waiting, await waiting

    os.kill(node, signal.SIGSTOP)
    try:
        signed, was_waiting, late = asyncio.run(sign_while_a_call_waits())
    finally:
        os.kill(node, signal.SIGCONT)
    assert [answer.status_code for answer in signed] == [200] * 5
    assert was_waiting
    problem(late, "CHAIN_UNAVAILABLE")


def child_of(pid, module):
    """Return the id of the child process that runs a module."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and module in (folder / "cmdline").read_text():
                return int(folder.name)
    raise AssertionError(f"no child of {pid} runs {module}")
