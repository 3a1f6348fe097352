"""Markets of conditions that exist on the chain and that another oracle resolves."""

import pytest
from eth_utils import keccak

from clob_server.chain.eth import token_ids
from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.chain_server import ChainServer, conversion, wait_until
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.wallets import UNIT, Wallet
from tests.server.api.makers import good, problem
from tests.server.live import live_server
from tests.server.meta.operators import authority_of

MARKETS = "/api/admin/markets"
ORACLE = ACCOUNTS[5]
RETURNS_A_WORD = bytes.fromhex("60206000f3")
"""Code that answers every call with a word, as the NegRisk adapter answers ``wcol()``."""
SETTINGS = {"rate_limits": False, "chain_final_blocks": 3}


@pytest.fixture(scope="module", params=KINDS)
def node(request, tmp_path_factory):
    with running(start_node(request.param, tmp_path_factory.mktemp("node"))) as node:
        yield node


@pytest.fixture(scope="module")
def server(node, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adopting")
    with live_server(folder, chain=node.url, **SETTINGS) as live:
        server = ChainServer(live, node.url)
        server.oracle = Wallet(node, ORACLE.private_key)
        yield server


def prepared(server, name):
    """Prepare a question of the oracle and return the ids of a market of it."""
    question = keccak(text=name)
    signature = "prepareCondition(address,bytes32,uint256)"
    server.oracle.call(server.contracts.conditional_tokens, signature, ORACLE.address, question, 2)
    return ids_of(question)


def ids_of(question, oracle=ORACLE.address):
    """Return the ids of a question as the fields of a market."""
    condition = token_ids.condition_id(oracle, question)
    return {
        "conditionId": f"0x{condition.hex()}",
        "oracle": oracle,
        "questionId": f"0x{question.hex()}",
    }


def create(server, name, ids, **more):
    """Request a market."""
    body = {"marketId": name, "question": "Adopted?", **ids, **more}
    return server.http.post(MARKETS, json=body, headers=authority_of(server.live))


def adopted(server, name, **more):
    """Open a market of a new question, wait until it is on the chain, and return it."""
    ids = prepared(server, name)
    made = good(create(server, name, ids, **more))
    assert {field: made[field] for field in ids} == ids
    server.wait_for(name, "prepared")
    return made


def report(server, name, payouts):
    """Report the payouts of a question, as its oracle."""
    signature = "reportPayouts(bytes32,uint256[])"
    tokens, question = server.contracts.conditional_tokens, keccak(text=name)
    server.oracle.call(tokens, signature, question, payouts)


def mine(node):
    """Mine as many blocks as make a block final."""
    for _ in range(SETTINGS["chain_final_blocks"]):
        node.ask("evm_mine")


def shown(server, name):
    """Return a market."""
    return good(server.http.get(f"/api/markets/{name}"))


def resolve(server, name, outcome):
    """Resolve a market as its operator."""
    headers = authority_of(server.live)
    path = f"{MARKETS}/{name}/resolve"
    return server.http.post(path, json={"outcome": outcome}, headers=headers)


def num_sent(server):
    """Return the number of the operator's transactions."""
    return server.ask("eth_getTransactionCount", server.operator, "latest")


@pytest.mark.parametrize(
    ("payouts", "outcome"), [([1, 0], "yes"), ([0, 3], "no"), ([1, 1], "split"), ([2, 1], "split")]
)
def test_market_resolves_with_final_payouts_of_the_oracle(server, node, payouts, outcome):
    name = f"adopted-{'-'.join(map(str, payouts))}"
    adopted(server, name)
    market, before = shown(server, name), num_sent(server)
    ids = ids_of(keccak(text=name))
    tokens = token_ids.token_ids(server.contracts.collateral, bytes.fromhex(ids["conditionId"][2:]))
    assert (int(market["yesTokenId"]), int(market["noTokenId"])) == tokens
    report(server, name, payouts)
    assert (shown(server, name)["mode"], shown(server, name)["outcome"]) == ("open", None)
    mine(node)
    wait_until(lambda: shown(server, name)["chain"] == "reported")
    after = shown(server, name)
    assert (after["mode"], after["outcome"]) == ("resolved", outcome)
    assert num_sent(server) == before  # neither prepared nor reported by the server


def test_tokens_of_a_split_payout_are_redeemed_in_its_ratio(server, node):
    adopted(server, "ratio")
    user = server.user(ACCOUNTS[6].private_key)
    server.faucet(user)
    user.approve_collateral()
    user.approve_tokens()
    market = shown(server, "ratio")
    server.done("/api/gasless/split", conversion(user, market, 9 * UNIT))
    user.send_token(ACCOUNTS[4].address, int(market["noTokenId"]), 9 * UNIT)
    report(server, "ratio", [2, 1])
    mine(node)
    wait_until(lambda: shown(server, "ratio")["outcome"] == "split")
    assert server.redeem(user, market)["amount"] == str(6 * UNIT)


def test_operator_resolves_only_as_the_oracle_did(server, node):
    adopted(server, "operated")
    rejection = problem(resolve(server, "operated", "yes"), "CONDITION_NOT_RESOLVED")
    assert ORACLE.address in rejection["detail"]
    report(server, "operated", [0, 1])
    rejection = problem(resolve(server, "operated", "yes"), "CONDITION_RESOLVED")
    assert "0/1 for YES and 1/1 for NO" in rejection["detail"]
    assert shown(server, "operated")["mode"] == "open"
    assert good(resolve(server, "operated", "no"))["outcome"] == "no"
    mine(node)
    wait_until(lambda: shown(server, "operated")["chain"] == "reported")
    problem(resolve(server, "operated", "no"), "MARKET_NOT_OPEN")


def test_condition_that_does_not_exist_is_rejected(server):
    ids = ids_of(keccak(text="nowhere"))
    rejection = problem(create(server, "nowhere", ids), "UNKNOWN_CONDITION")
    assert f"the condition {ids['conditionId']} does not exist in" in rejection["detail"]
    assert server.http.get("/api/markets/nowhere").status_code == 404


def test_condition_of_three_outcomes_is_rejected(server):
    question = keccak(text="three")
    signature = "prepareCondition(address,bytes32,uint256)"
    tokens = server.contracts.conditional_tokens
    server.oracle.call(tokens, signature, ORACLE.address, question, 3)
    rejection = problem(create(server, "three", ids_of(question)), "UNKNOWN_CONDITION")
    assert "expected one with 2 outcomes" in rejection["detail"]


@pytest.mark.parametrize("left_out", ["conditionId", "oracle", "questionId"])
def test_ids_of_a_condition_are_given_together(server, left_out):
    ids = ids_of(keccak(text="parts"))
    del ids[left_out]
    problem(create(server, "parts", ids), "INVALID_FIELD", "conditionId")


def test_ids_that_do_not_fit_together_are_rejected(server):
    ids = ids_of(keccak(text="one")) | {"questionId": f"0x{keccak(text='other').hex()}"}
    rejection = problem(create(server, "unfit", ids), "INVALID_FIELD", "conditionId")
    assert ids_of(keccak(text="other"))["conditionId"] in rejection["detail"]
    ids = ids_of(keccak(text="one"))
    problem(create(server, "unfit", ids, yesTokenId="7"), "INVALID_FIELD", "yesTokenId")
    problem(create(server, "unfit", ids | {"oracle": "me"}), "INVALID_ADDRESS", "oracle")


def test_market_of_the_neg_risk_adapter_is_rejected(server):
    adapter = server.oracle.send("", bytes.fromhex("60058060093d393df3") + RETURNS_A_WORD)
    ids = ids_of(keccak(text="risk"), adapter["contractAddress"])
    rejection = problem(create(server, "risk", ids), "NEG_RISK_NOT_SUPPORTED")
    assert "is a NegRisk adapter" in rejection["detail"]


def test_adopted_market_settles_and_survives_a_restart(node, tmp_path):
    with live_server(tmp_path, chain=node.url, **SETTINGS) as live:
        server = ChainServer(live, node.url)
        server.oracle = Wallet(node, ORACLE.private_key)
        adopted(server, "restarted", settles=True)
        assert live.stop() == 0
    report(server, "restarted", [1, 0])
    mine(node)
    with live_server(tmp_path, chain=node.url, **SETTINGS) as live:
        server = ChainServer(live, node.url)
        wait_until(lambda: shown(server, "restarted")["chain"] == "reported")
        assert shown(server, "restarted")["outcome"] == "yes"
        assert live.stop() == 0
