"""The exchange contract is deployed once at its expected address, and checked before use."""

import pytest
from eth_abi import decode

from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.contracts import artifact
from clob_server.chain.eth.accounts import DEPLOYER, WALLETS
from clob_server.chain.messages import Contracts
from clob_server.chain.operation_bodies import PrepareBody
from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.people import Person, calldata, read
from tests.chain.proxy import SEND, DropAnswer, Reject, Swallow
from tests.chain.workers import DIED, working
from tests.chain.worlds import World, behind_a_proxy, done

PLACE = DEVELOPMENT.exchange
NOWHERE = f"0x{'12' * 20}"
CREATION = artifact("Exchange").creation
DOMAIN = ["bytes1", "string", "string", "uint256", "address", "bytes32", "uint256[]"]
CONTRACTS = Contracts(
    stablecoin=DEVELOPMENT.stablecoin,
    collateral=DEVELOPMENT.collateral,
    conditional_tokens=DEVELOPMENT.conditional_tokens,
)


@pytest.fixture
def world(node, tmp_path):
    return World(node, tmp_path / "chain")


@pytest.fixture(scope="module", params=KINDS)
def founded(request, tmp_path_factory):
    """A world with an exchange contract."""
    folder = tmp_path_factory.mktemp("founding")
    with running(start_node(request.param, folder / "devchain")) as node:
        world = World(node, folder / "chain")
        with world.worker():
            pass
        yield world


def exchange_of(worker):
    """Return the exchange address that a worker reports."""
    return worker.ready().addresses.exchange


def why_none(worker):
    """Return the reason why a worker reports no exchange."""
    assert exchange_of(worker) == ""
    result = worker.last_state()
    assert result.reachable
    assert result.detail.startswith("trades do not settle: ")
    return result.detail.removeprefix("trades do not settle: ")


def num_sent(node):
    """Return the number of transactions of account 0 in blocks."""
    return int(node.ask("eth_getTransactionCount", DEPLOYER.address, "latest"), 16)


def is_known(world, token):
    """Return whether a token is registered with the exchange."""
    return any(read(world.node, PLACE, "outcomes(uint256)", token, kind="bytes32"))


def has_code(node):
    """Return whether there is a contract at the address of the exchange."""
    return node.ask("eth_getCode", PLACE, "latest") != "0x"


def sent_by_deployer(node):
    """Return the gas of each transaction of account 0."""
    blocks = range(int(node.ask("eth_blockNumber"), 16) + 1)
    found = [
        sent["hash"]
        for block in blocks
        for sent in node.ask("eth_getBlockByNumber", hex(block), True)["transactions"]
        if sent["from"].lower() == DEPLOYER.address.lower()
    ]
    receipts = [node.ask("eth_getTransactionReceipt", each) for each in found]
    return [int(receipt["gasUsed"], 16) for receipt in receipts]


# ----- deploying -----------------------------------------------------------------------------


def test_exchange_is_at_the_verifying_contract_address(founded):
    node, operator = founded.node, founded.operator
    for name, wanted in (
        ("collateral", DEVELOPMENT.collateral),
        ("tokens", DEVELOPMENT.conditional_tokens),
        ("operator", operator),
        ("owner", operator),
        ("feeWallet", operator),
    ):
        assert read(node, PLACE, f"{name}()", kind="address") == wanted.lower()
    asked = {"to": PLACE, "data": f"0x{calldata('eip712Domain()').hex()}"}
    result = decode(DOMAIN, bytes.fromhex(node.ask("eth_call", asked, "latest")[2:]))
    assert result[1:5] == ("clob", "1", 31337, PLACE.lower())


def test_deployment_gas_is_equal_on_both_nodes(devchain, anvil, tmp_path):
    costs = []
    for node in (devchain, anvil):
        with World(node, tmp_path / node.kind).worker():
            costs.append(sent_by_deployer(node))
    assert costs[0] == costs[1]
    assert len(costs[0]) == 1


@pytest.mark.parametrize("last", ["after_broadcast", "after_receipt"])
def test_exchange_is_deployed_once_despite_crashes(world, last):
    for point in ("before_insert", last):
        with world.starting(die=f"deploy:exchangeTx:{point}") as worker:
            assert worker.wait() == DIED, point
    with world.worker() as worker:
        assert (exchange_of(worker), num_sent(world.node)) == (PLACE, 1)


@pytest.mark.parametrize("fault", [
    DropAnswer(SEND, calldata=CREATION[:32], times=2),
    Reject(-32000, "try again", calldata=CREATION[:32], times=2),
    Reject(-32000, "already known", calldata=CREATION[:32], times=2, forwards=True),
    Swallow(calldata=CREATION[:32], times=2),
])  # fmt: skip
def test_deployment_is_sent_until_it_succeeds(tmp_path, fault):
    with (
        behind_a_proxy("anvil", tmp_path) as world,
        world.proxy.inject(fault),
        world.worker() as worker,
    ):
        assert (exchange_of(worker), num_sent(world.node)) == (PLACE, 1)
        assert fault.hits == 2 or fault.error["message"] == "already known"


@pytest.mark.long
def test_slow_blocks_delay_the_deployment(tmp_path):
    # A worker reports its state at most once a second, so a state of three seconds is reported.
    with running(start_anvil("--block-time", "3")) as node:
        world = World(node, tmp_path)
        with world.starting() as worker:
            worker.state(lambda state: "exchange" in state.detail)
            assert (exchange_of(worker), num_sent(node)) == (PLACE, 1)


# ----- without an exchange --------------------------------------------------------------------


def test_worker_is_ready_without_an_exchange_if_the_node_rejects_it(tmp_path):
    fault = Reject(-32000, "no such luck", calldata=CREATION[:32])
    with behind_a_proxy("anvil", tmp_path) as world:
        with world.proxy.inject(fault), world.worker() as worker:
            result = "the deployment of the exchange failed: no such luck (-32000)"
            assert why_none(worker) == result
            assert not has_code(world.node)
            world.condition(worker)
        with world.worker() as worker:
            assert exchange_of(worker) == PLACE


def test_no_exchange_if_account_0_sent_another_transaction(world):
    Person(world.node, DEPLOYER.private_key).send(WALLETS[0].address, value=1)
    with world.worker() as worker:
        assert f"first transaction of {DEPLOYER.address} was another one" in why_none(worker)
        world.condition(worker)
        assert num_sent(world.node) == 1


def test_no_exchange_without_a_verifying_contract(founded, tmp_path):
    with working(tmp_path, founded.url, exchange="") as worker:
        assert exchange_of(worker) == ""
        assert worker.last_state().detail == ""


def test_exchange_is_not_deployed_at_another_address(founded, tmp_path):
    with working(tmp_path, founded.url, exchange=NOWHERE) as worker:
        result = f"no contract at {NOWHERE}, and a deployment would create one at {PLACE}"
        assert why_none(worker) == result
    with working(tmp_path, founded.url, exchange=NOWHERE, deploy=False) as worker:
        assert why_none(worker) == f"no contract at {NOWHERE}"


@pytest.mark.parametrize(("settings", "result"), [
    ({"domain_name": "other"}, "the domain of the exchange at {} is 'clob' version '1', chain 31337"
     ", contract {}; expected 'other' version '1', chain 31337, contract {}"),
    ({"domain_version": "2"}, "the domain of the exchange at {} is 'clob' version '1'"),
    ({"exchange": DEVELOPMENT.collateral}, f"the contract at {DEVELOPMENT.collateral} is not an"),
    ({"exchange": DEVELOPMENT.conditional_tokens}, "is not an exchange contract"),
])  # fmt: skip
def test_exchange_with_another_domain_is_not_used(founded, tmp_path, settings, result):
    with working(tmp_path, founded.url, **settings) as worker:
        assert result.format(PLACE, PLACE, PLACE) in why_none(worker)


def test_exchange_of_another_operator_is_not_used(founded, tmp_path):
    other = WALLETS[0]
    with working(tmp_path, founded.url, operator_key=other.private_key) as worker:
        mine = worker.ready().addresses.collateral
        result = (
            f"collateral of the exchange at {PLACE} is {DEVELOPMENT.collateral}; expected {mine}"
        )
        assert result in why_none(worker)
    given = {"operator_key": WALLETS[1].private_key, "addresses": CONTRACTS}
    with working(tmp_path / "named", founded.url, **given) as worker:
        result = f"the operator of the exchange at {PLACE} is {founded.operator}; expected "
        assert why_none(worker) == result + WALLETS[1].address


# ----- markets -------------------------------------------------------------------------------


def test_prepared_condition_is_registered_with_the_exchange(founded):
    with founded.worker() as worker:
        condition = founded.condition(worker)
        assert is_known(founded, condition.yes)
        assert is_known(founded, condition.no)
        again = done(worker, "again", PrepareBody(question_id=condition.question))
        assert (again["prepareTx"], again["registerTx"]) == (None, None)
        assert again["exchange"] == PLACE


def test_condition_prepared_before_the_exchange_can_be_registered_later(world):
    question = f"0x{'56' * 32}"
    body = PrepareBody(question_id=question)
    with world.worker(exchange="") as worker:
        before = done(worker, "before", body)
        assert before["prepareTx"]
        assert (before["registerTx"], before["exchange"]) == (None, "")
    num_sent = world.num_sent()
    with world.worker() as worker:
        assert exchange_of(worker) == PLACE
        assert done(worker, "before", body) == before
        after = done(worker, "before/at the exchange", body)
        assert after["prepareTx"] is None
        world.check_happened([after["registerTx"]])
        assert is_known(world, int(after["yesTokenId"]))
    assert world.num_sent() == num_sent + 1
