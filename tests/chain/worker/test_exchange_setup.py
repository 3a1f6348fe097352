"""The exchange contract is deployed once at its expected address, and checked before use."""

import pytest
from eth_abi import decode

from clob.wire.operations import PrepareBody
from clob_server.chain.config import DEVELOPMENT, Addresses
from clob_server.chain.contracts import artifact
from clob_server.chain.eth.accounts import DEPLOYER, WALLETS
from tests.chain.chains import Chain, chain_behind_proxy, done
from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.proxy import SEND, DropAnswer, DropTransaction, Reject
from tests.chain.wallets import Wallet, calldata, read
from tests.chain.workers import DIED, working

EXCHANGE = DEVELOPMENT.exchange
NO_CONTRACT = f"0x{'12' * 20}"
CREATION = artifact("Exchange").creation
DOMAIN = ["bytes1", "string", "string", "uint256", "address", "bytes32", "uint256[]"]
CONTRACTS = Addresses(
    stablecoin=DEVELOPMENT.stablecoin,
    collateral=DEVELOPMENT.collateral,
    conditional_tokens=DEVELOPMENT.conditional_tokens,
)


@pytest.fixture
def chain(node, tmp_path):
    return Chain(node, tmp_path / "chain")


@pytest.fixture(scope="module", params=KINDS)
def exchange_chain(request, tmp_path_factory):
    """A chain with an exchange contract."""
    folder = tmp_path_factory.mktemp("exchange")
    with running(start_node(request.param, folder / "devchain")) as node:
        chain = Chain(node, folder / "chain")
        with chain.worker():
            pass
        yield chain


def exchange_of(worker):
    """Return the exchange address that a worker reports."""
    return worker.ready().addresses.exchange


def missing_reason(worker):
    """Return the reason why a worker reports no exchange."""
    assert exchange_of(worker) == ""
    result = worker.last_state()
    assert result.reachable
    assert result.detail.startswith("trades do not settle: ")
    return result.detail.removeprefix("trades do not settle: ")


def num_sent(node):
    """Return the number of transactions of account 0 in blocks."""
    return int(node.ask("eth_getTransactionCount", DEPLOYER.address, "latest"), 16)


def is_known(chain, token):
    """Return whether a token is registered with the exchange."""
    return any(read(chain.node, EXCHANGE, "outcomes(uint256)", token, kind="bytes32"))


def has_code(node):
    """Return whether there is a contract at the address of the exchange."""
    return node.ask("eth_getCode", EXCHANGE, "latest") != "0x"


def sent_by_deployer(node):
    """Return the gas of each transaction of account 0."""
    blocks = range(int(node.ask("eth_blockNumber"), 16) + 1)
    hashes = [
        sent["hash"]
        for block in blocks
        for sent in node.ask("eth_getBlockByNumber", hex(block), True)["transactions"]
        if sent["from"].lower() == DEPLOYER.address.lower()
    ]
    receipts = [node.ask("eth_getTransactionReceipt", each) for each in hashes]
    return [int(receipt["gasUsed"], 16) for receipt in receipts]


# ----- deploying -----------------------------------------------------------------------------


def test_exchange_is_at_the_verifying_contract_address(exchange_chain):
    node, operator = exchange_chain.node, exchange_chain.operator
    for name, expected in (
        ("collateral", DEVELOPMENT.collateral),
        ("tokens", DEVELOPMENT.conditional_tokens),
        ("operator", operator),
        ("owner", operator),
        ("feeWallet", operator),
    ):
        assert read(node, EXCHANGE, f"{name}()", kind="address") == expected.lower()
    call = {"to": EXCHANGE, "data": f"0x{calldata('eip712Domain()').hex()}"}
    result = decode(DOMAIN, bytes.fromhex(node.ask("eth_call", call, "latest")[2:]))
    assert result[1:5] == ("clob", "1", 31337, EXCHANGE.lower())


def test_deployment_gas_is_equal_on_both_nodes(devchain, anvil, tmp_path):
    costs = []
    for node in (devchain, anvil):
        with Chain(node, tmp_path / node.kind).worker():
            costs.append(sent_by_deployer(node))
    assert costs[0] == costs[1]
    assert len(costs[0]) == 1


@pytest.mark.parametrize("last", ["after_broadcast", "after_receipt"])
def test_exchange_is_deployed_once_despite_crashes(chain, last):
    for point in ("before_insert", last):
        with chain.starting(die=f"deploy:exchangeTx:{point}") as worker:
            assert worker.wait() == DIED, point
    with chain.worker() as worker:
        assert (exchange_of(worker), num_sent(chain.node)) == (EXCHANGE, 1)


@pytest.mark.parametrize("fault", [
    DropAnswer(SEND, calldata=CREATION[:32], times=2),
    Reject(-32000, "try again", calldata=CREATION[:32], times=2),
    Reject(-32000, "already known", calldata=CREATION[:32], times=2, forwards=True),
    DropTransaction(calldata=CREATION[:32], times=2),
])  # fmt: skip
def test_deployment_is_sent_until_it_succeeds(tmp_path, fault):
    with (
        chain_behind_proxy("anvil", tmp_path) as chain,
        chain.proxy.inject(fault),
        chain.worker() as worker,
    ):
        assert (exchange_of(worker), num_sent(chain.node)) == (EXCHANGE, 1)
        assert fault.hits == 2 or fault.error["message"] == "already known"


@pytest.mark.long
def test_slow_blocks_delay_the_deployment(tmp_path):
    # A worker reports its state at most once a second, so a state of three seconds is reported.
    with running(start_anvil("--block-time", "3")) as node:
        chain = Chain(node, tmp_path)
        with chain.starting() as worker:
            worker.state(lambda state: "exchange" in state.detail)
            assert (exchange_of(worker), num_sent(node)) == (EXCHANGE, 1)


# ----- without an exchange --------------------------------------------------------------------


def test_worker_is_ready_without_an_exchange_if_the_node_rejects_it(tmp_path):
    fault = Reject(-32000, "no such luck", calldata=CREATION[:32])
    with chain_behind_proxy("anvil", tmp_path) as chain:
        with chain.proxy.inject(fault), chain.worker() as worker:
            result = "the deployment of the exchange failed: no such luck (-32000)"
            assert missing_reason(worker) == result
            assert not has_code(chain.node)
            chain.condition(worker)
        with chain.worker() as worker:
            assert exchange_of(worker) == EXCHANGE


def test_no_exchange_if_account_0_sent_another_transaction(chain):
    Wallet(chain.node, DEPLOYER.private_key).send(WALLETS[0].address, value=1)
    with chain.worker() as worker:
        assert f"first transaction of {DEPLOYER.address} was another one" in missing_reason(worker)
        chain.condition(worker)
        assert num_sent(chain.node) == 1


def test_no_exchange_without_a_verifying_contract(exchange_chain, tmp_path):
    with working(tmp_path, exchange_chain.url, exchange="") as worker:
        assert exchange_of(worker) == ""
        assert worker.last_state().detail == ""


def test_exchange_is_not_deployed_at_another_address(exchange_chain, tmp_path):
    with working(tmp_path, exchange_chain.url, exchange=NO_CONTRACT) as worker:
        result = f"no contract at {NO_CONTRACT}, and a deployment would create one at {EXCHANGE}"
        assert missing_reason(worker) == result
    with working(tmp_path, exchange_chain.url, exchange=NO_CONTRACT, deploy=False) as worker:
        assert missing_reason(worker) == f"no contract at {NO_CONTRACT}"


@pytest.mark.parametrize(("settings", "result"), [
    ({"domain_name": "other"}, 'the domain of the exchange at {} is "clob" version "1", chain 31337'
     ', contract {}; expected "other" version "1", chain 31337, contract {}'),
    ({"domain_version": "2"}, 'the domain of the exchange at {} is "clob" version "1"'),
    ({"exchange": DEVELOPMENT.collateral}, f"the contract at {DEVELOPMENT.collateral} is not an"),
    ({"exchange": DEVELOPMENT.conditional_tokens}, "is not an exchange contract"),
])  # fmt: skip
def test_exchange_with_another_domain_is_not_used(exchange_chain, tmp_path, settings, result):
    with working(tmp_path, exchange_chain.url, **settings) as worker:
        assert result.format(EXCHANGE, EXCHANGE, EXCHANGE) in missing_reason(worker)


def test_exchange_of_another_operator_is_not_used(exchange_chain, tmp_path):
    other = WALLETS[0]
    with working(tmp_path, exchange_chain.url, operator_key=other.private_key) as worker:
        expected = worker.ready().addresses.collateral
        collateral = DEVELOPMENT.collateral
        result = f"collateral of the exchange at {EXCHANGE} is {collateral}; expected {expected}"
        assert result in missing_reason(worker)
    settings = {"operator_key": WALLETS[1].private_key, "addresses": CONTRACTS}
    with working(tmp_path / "named", exchange_chain.url, **settings) as worker:
        result = (
            f"the operator of the exchange at {EXCHANGE} is {exchange_chain.operator}; expected "
        )
        assert missing_reason(worker) == result + WALLETS[1].address


# ----- markets -------------------------------------------------------------------------------


def test_prepared_condition_is_registered_with_the_exchange(exchange_chain):
    with exchange_chain.worker() as worker:
        condition = exchange_chain.condition(worker)
        assert is_known(exchange_chain, condition.yes)
        assert is_known(exchange_chain, condition.no)
        repeated = done(worker, "again", PrepareBody(question_id=condition.question))
        assert (repeated["prepareTx"], repeated["registerTx"]) == (None, None)
        assert repeated["exchange"] == EXCHANGE


def test_condition_prepared_before_the_exchange_can_be_registered_later(chain):
    question = f"0x{'56' * 32}"
    body = PrepareBody(question_id=question)
    with chain.worker(exchange="") as worker:
        before = done(worker, "before", body)
        assert before["prepareTx"]
        assert (before["registerTx"], before["exchange"]) == (None, "")
    num_sent = chain.num_sent()
    with chain.worker() as worker:
        assert exchange_of(worker) == EXCHANGE
        assert done(worker, "before", body) == before
        after = done(worker, "before/at the exchange", body)
        assert after["prepareTx"] is None
        chain.check_happened([after["registerTx"]])
        assert is_known(chain, int(after["yesTokenId"]))
    assert chain.num_sent() == num_sent + 1
