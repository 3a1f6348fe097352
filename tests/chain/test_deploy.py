"""``clob-server deploy`` deploys the exchange once, or prints an error."""

import contextlib
import io
import re
import subprocess
import sys
from decimal import Decimal

import pytest
from eth_abi import decode

from clob_server import cli
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR, create_address
from tests.chain.chain_server import ChainServer, production_settings, wait_until
from tests.chain.chains import Chain
from tests.chain.nodes import running, start_anvil, start_node
from tests.chain.proxy import SEND, DropTransaction, Fault, Reject, proxy_to
from tests.chain.settling_server import SETTINGS, SettlingServer
from tests.chain.signers import signing
from tests.chain.wallets import calldata, read, receipt_of
from tests.chain.workers import DIED, working
from tests.server.live import environment, live_server

NO_CONTRACT = f"0x{'12' * 20}"
OWNER = ACCOUNTS[5].address
FOUNDER = ACCOUNTS[4]
DOMAIN = ["bytes1", "string", "string", "uint256", "address", "bytes32", "uint256[]"]
SECRET = "a secret of tokens that is long enough"
PATIENCE_S = 60


class RecordParams(Fault):
    """Record the parameters of calls."""

    def __init__(self, method):
        super().__init__(method)
        self.params = []

    def answer(self, call, forward):
        self.params.append(call["params"])
        return forward(call)


@pytest.fixture(scope="module", params=["devchain", "anvil"])
def chain(request, tmp_path_factory):
    """A chain with the contracts, without a worker."""
    folder = tmp_path_factory.mktemp("deploying")
    with running(start_node(request.param, folder / "devchain")) as node:
        chain = Chain(node, folder / "chain")
        with chain.worker():
            pass
        yield chain


@pytest.fixture
def key_file(tmp_path):
    """The key file of an account that is not an operator yet."""
    path = tmp_path / "founder.key"
    path.write_text(FOUNDER.private_key)
    path.chmod(0o600)
    return path


def run_deploy(chain, folder, *options, die=None, contracts=True, url=None):
    """Run the command: in a subprocess with a failpoint ``die``, else in this process."""
    addresses = [
        *("--collateral", chain.contracts.collateral),
        *("--conditional-tokens", chain.contracts.conditional_tokens),
    ]
    arguments = [
        *("deploy", "--chain", url or chain.node.url, "--data-dir", str(folder)),
        *(addresses if contracts else ()),
        *map(str, options),
    ]
    if die is None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(arguments)
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
    return subprocess.run(
        [sys.executable, "-m", "clob_server", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment() | {"CLOB_CHAIN_DIE": die},
        check=False,
    )


def deployed(chain, folder, *options, **more):
    """Run the command and return the address that it prints."""
    result = run_deploy(chain, folder, *options, **more)
    assert result.returncode == 0, result.stderr
    address = result.stdout.strip()
    assert f"--verifying-contract {address}" in result.stderr
    return address


def rejection(result, code=1):
    """Return the error message of a failed run."""
    assert (result.returncode, result.stdout) == (code, ""), result
    line = result.stderr.splitlines()[-1]
    assert line.startswith("clob-server: ")
    return line.removeprefix("clob-server: ")


def num_sent(chain, address):
    """Return the number of an account's transactions in blocks."""
    return int(chain.node.ask("eth_getTransactionCount", address, "latest"), 16)


# ----- success -------------------------------------------------------------------------------


def test_exchange_is_deployed_once_with_the_options(chain, tmp_path, key_file):
    before = num_sent(chain, FOUNDER.address)
    options = ("--operator-key-file", key_file, "--owner", OWNER.lower(), "--eip712-name", "mine")
    address = deployed(chain, tmp_path, *options)
    assert address == create_address(FOUNDER.address, before)
    for name, expected in (
        ("owner", OWNER),
        ("operator", FOUNDER.address),
        ("collateral", chain.contracts.collateral),
        ("tokens", chain.contracts.conditional_tokens),
    ):
        assert read(chain.node, address, f"{name}()", kind="address") == expected.lower()
    call = {"to": address, "data": f"0x{calldata('eip712Domain()').hex()}"}
    result = decode(DOMAIN, bytes.fromhex(chain.node.ask("eth_call", call, "latest")[2:]))
    assert result[1:5] == ("mine", "1", 31337, address.lower())
    assert deployed(chain, tmp_path, *options) == address
    assert num_sent(chain, FOUNDER.address) == before + 1
    # Other options deploy another exchange.
    assert deployed(chain, tmp_path, *options[:4]) != address


@pytest.mark.parametrize(
    "point", ["before_insert", "after_insert", "after_broadcast", "after_receipt"]
)
def test_interrupted_deployment_is_resumed(chain, tmp_path, key_file, point):
    before = num_sent(chain, FOUNDER.address)
    options = ("--operator-key-file", key_file)
    died = run_deploy(chain, tmp_path, *options, die=f"found:exchangeTx:{point}")
    assert (died.returncode, died.stdout) == (DIED, "")
    assert deployed(chain, tmp_path, *options) == create_address(FOUNDER.address, before)
    assert num_sent(chain, FOUNDER.address) == before + 1


@pytest.mark.parametrize("make", [
    lambda: DropTransaction(times=1), lambda: Reject(-32000, "try again", SEND, times=1)
])  # fmt: skip
def test_deployment_is_sent_until_it_succeeds(chain, tmp_path, key_file, make):
    before = num_sent(chain, FOUNDER.address)
    with proxy_to(chain.node) as proxy, proxy.inject(make()) as fault:
        address = deployed(chain, tmp_path, "--operator-key-file", key_file, url=proxy.url)
        assert (fault.hits, proxy.calls.count(SEND)) == (1, 2)
    assert address == create_address(FOUNDER.address, before)


# ----- errors --------------------------------------------------------------------------------


def test_unusable_deployment_is_rejected_without_a_transaction(chain, tmp_path, key_file):
    before = num_sent(chain, FOUNDER.address)
    options = ("--operator-key-file", key_file)
    zero = f"0x{'0' * 40}"
    result = rejection(run_deploy(chain, tmp_path, *options, "--owner", zero))
    assert result == "INVALID_ADDRESS: the owner of the exchange must not be the zero address"
    contracts = (
        "--collateral",
        NO_CONTRACT,
        "--conditional-tokens",
        chain.contracts.conditional_tokens,
    )
    result = rejection(run_deploy(chain, tmp_path, *options, *contracts, contracts=False))
    assert result == f"CHAIN_UNAVAILABLE: no contract at {NO_CONTRACT}"
    (tmp_path / "poor.key").write_text("12" * 32)
    (tmp_path / "poor.key").chmod(0o600)
    poor = ("--operator-key-file", tmp_path / "poor.key")
    result = rejection(run_deploy(chain, tmp_path / "poor", *poor))
    assert result.startswith("OPERATOR_OUT_OF_GAS: ")
    assert num_sent(chain, FOUNDER.address) == before


def test_invalid_options_are_rejected(chain, tmp_path, key_file):
    result = rejection(run_deploy(chain, tmp_path, contracts=False), 2)
    assert result.endswith("missing: --collateral or --stablecoin, --conditional-tokens")
    result = rejection(run_deploy(chain, tmp_path, url="embedded"), 2)
    assert result.startswith("--chain must be the http or https URL of a node")
    result = rejection(run_deploy(chain, tmp_path, "--owner", "me"), 2)
    assert result == '--owner must be 0x and 40 hex digits; got "me"'
    result = rejection(run_deploy(chain, tmp_path, "--chain-id", 137), 2)
    assert "--operator-key-file" in result
    result = rejection(run_deploy(chain, tmp_path, "--environment", "production"), 2)
    assert "--operator-key-file" in result
    options = ("--chain-id", 137, "--operator-key-file", key_file)
    result = rejection(run_deploy(chain, tmp_path / "137", *options))
    assert result.startswith("CHAIN_UNAVAILABLE: the node at ")
    assert result.endswith(" is on chain 31337; expected chain 137")
    result = rejection(run_deploy(chain, tmp_path, url="http://127.0.0.1:1"))
    assert result.startswith("CHAIN_UNAVAILABLE: ")


def test_folder_of_a_running_server_is_rejected(chain, tmp_path):
    with working(tmp_path / "chain", chain.url) as worker:
        worker.ready()
        assert "another process uses the outbox" in rejection(run_deploy(chain, tmp_path), 2)


# ----- the plan ------------------------------------------------------------------------------


def planned(chain, folder, *options, code=0, **more):
    """Run the command with ``--plan`` and return its lines by name."""
    before = chain_state(chain)
    files = files_of(folder)
    with proxy_to(chain.node) as proxy:
        result = run_deploy(chain, folder, *options, "--plan", url=proxy.url, **more)
        assert SEND not in proxy.calls
    assert (result.returncode, result.stderr) == (code, ""), result
    assert chain_state(chain) == before
    assert files_of(folder) == files
    return dict(line.split(": ", 1) for line in result.stdout.splitlines()[1:])


def files_of(folder):
    """Return the files of a folder; a write-ahead log may be merged into its database."""
    return {path for path in folder.rglob("*") if not path.name.endswith("-wal")}


def chain_state(chain):
    """Return the newest block, and the pending transactions and balance of the founder."""
    return (
        chain.node.ask("eth_getBlockByNumber", "latest", False)["hash"],
        chain.node.ask("eth_getTransactionCount", FOUNDER.address, "pending"),
        chain.node.ask("eth_getBalance", FOUNDER.address, "latest"),
    )


def numbers(text):
    """Return the numbers in a text."""
    return [Decimal(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def test_plan_sends_nothing_and_equals_the_deployment(chain, tmp_path, key_file):
    options = ("--operator-key-file", key_file, "--owner", OWNER, "--eip712-name", "planned")
    nonce, contracts = num_sent(chain, FOUNDER.address), chain.contracts
    plan = planned(chain, tmp_path, *options)
    assert plan["operator, which signs and pays"] == FOUNDER.address
    assert plan["owner of the exchange"] == OWNER
    oracle = plan["oracle, which reports outcomes and pays for that"]
    assert oracle.startswith(f"{FOUNDER.address}, with ")
    assert plan["domain of orders"] == "name planned, version 1, chain 31337"
    assert plan["collateral"] == f"{contracts.collateral} exists"
    assert plan["conditional tokens"] == f"{contracts.conditional_tokens} exists"
    assert plan["exchange"] == f"{create_address(FOUNDER.address, nonce)} will be created"
    assert plan["transactions"] == f"1, exchangeTx, new, nonce {nonce}"
    gas, margin, gas_limit = numbers(plan["gas"])
    price, price_limit = numbers(plan["price per unit of gas"])
    cost, cost_limit = numbers(plan["cost"])
    assert (cost, cost_limit) == (gas * price / 10**9, gas_limit * price_limit / 10**9)
    before = int(chain.node.ask("eth_getBalance", FOUNDER.address, "latest"), 16)
    balance, needed = numbers(plan["balance of the operator"])
    assert balance * 10**18 == before
    assert balance > needed
    assert plan["result"] == "it would start"

    address = deployed(chain, tmp_path, *options)
    assert plan["exchange"].startswith(address)
    paid = before - int(chain.node.ask("eth_getBalance", FOUNDER.address, "latest"), 16)
    block = chain.node.ask("eth_getBlockByNumber", "latest", True)
    (sent,) = block["transactions"]
    used = int(receipt_of(chain.node, sent["hash"])["gasUsed"], 16)
    assert int(sent["gas"], 16) == gas_limit
    assert abs(used - gas) * 100 <= margin * gas
    assert used <= gas_limit
    assert paid <= cost_limit * 10**18
    assert paid <= needed * 10**18

    plan = planned(chain, tmp_path, *options)
    assert plan["exchange"] == f"{address} exists, created by transaction {sent['hash']}"
    assert (plan["transactions"], plan["result"]) == ("none", "it would send nothing")


@pytest.mark.parametrize("point", ["before_insert", "after_insert", "after_broadcast"])
def test_plan_of_an_interrupted_deployment_continues_it(chain, tmp_path, key_file, point):
    options = ("--operator-key-file", key_file)
    died = run_deploy(chain, tmp_path, *options, die=f"found:exchangeTx:{point}")
    assert died.returncode == DIED
    plan = planned(chain, tmp_path, *options)
    address = deployed(chain, tmp_path, *options)
    assert plan["exchange"] == f"{address} will be created"
    is_signed = plan["transactions"].startswith("1, exchangeTx, continues 0x")
    assert is_signed == (point != "before_insert")


def test_plan_of_a_rejected_deployment_names_the_reason(chain, tmp_path, key_file):
    options = ("--operator-key-file", key_file)
    contracts = ("--collateral", NO_CONTRACT, "--conditional-tokens", NO_CONTRACT)
    plan = planned(chain, tmp_path, *options, *contracts, contracts=False, code=1)
    assert plan["collateral"] == f"{NO_CONTRACT} does not exist"
    reason = rejection(run_deploy(chain, tmp_path, *options, *contracts, contracts=False))
    assert plan["result"] == f"it would be rejected: {reason}"
    poor = tmp_path / "poor.key"
    poor.write_text("12" * 32)
    poor.chmod(0o600)
    plan = planned(chain, tmp_path / "poor", "--operator-key-file", poor, code=1)
    assert plan["balance of the operator"].startswith("0 ether, not enough; ")
    reason = rejection(run_deploy(chain, tmp_path / "poor", "--operator-key-file", poor))
    assert plan["result"] == f"it would be rejected: {reason}"


def test_plan_of_another_chain_or_folder_in_use_is_rejected(chain, tmp_path, key_file):
    options = ("--chain-id", 137, "--operator-key-file", key_file, "--plan")
    result = rejection(run_deploy(chain, tmp_path, *options))
    assert result.endswith(" is on chain 31337; expected chain 137")
    with working(tmp_path / "chain", chain.url) as worker:
        worker.ready()
        result = rejection(run_deploy(chain, tmp_path, "--plan"), 2)
    assert "another process uses the outbox" in result


# ----- a remote signer -----------------------------------------------------------------------


def test_remote_signer_signs_the_deployment(chain, tmp_path):
    nonce = num_sent(chain, FOUNDER.address)
    with signing(tmp_path, key=FOUNDER.private_key) as signer:
        options = ("--operator-signer", signer.url, "--operator-address", FOUNDER.address)
        plan = planned(chain, tmp_path / "data", *options)
        assert signer.logged() == []
        address = deployed(chain, tmp_path / "data", *options)
        assert len(signer.logged()) == 1
    assert address == create_address(FOUNDER.address, nonce)
    assert plan["exchange"] == f"{address} will be created"
    assert num_sent(chain, FOUNDER.address) == nonce + 1
    options = (*options, "--eip712-name", "another")
    result = rejection(run_deploy(chain, tmp_path / "data", *options))
    assert result.startswith("CHAIN_UNAVAILABLE: the signer at 127.0.0.1 is unreachable: ")
    plan = planned(chain, tmp_path / "data", *options, code=1)
    assert plan["result"] == f"it would be rejected: {result}"
    with signing(tmp_path, port=signer.port):  # the key of the usual operator
        result = rejection(run_deploy(chain, tmp_path / "data", *options))
    assert f"does not hold the key of {FOUNDER.address}" in result
    assert num_sent(chain, FOUNDER.address) == nonce + 1


# ----- a server with the deployed exchange ----------------------------------------------------


def test_trades_settle_through_the_deployed_exchange(tmp_path):
    with running(start_anvil()) as node:
        settings = SETTINGS | {"chain": node.url}
        before = tmp_path / "before"  # a log is for one exchange contract
        with live_server(before, verifying_contract=NO_CONTRACT, **settings) as live:
            assert ChainServer(live).chain()["exchange"] is None
            assert live.stop() == 0
        (before / "chain").rename(tmp_path / "chain")
        result = run_deploy(Chain(node, tmp_path / "chain"), tmp_path)
        address, block = result.stdout.strip(), int(result.stderr.split()[-1])
        assert block == int(node.ask("eth_blockNumber"), 16)
        settings |= {"verifying_contract": address, "chain_from_block": block}
        with (
            proxy_to(node) as proxy,
            proxy.inject(RecordParams("eth_getLogs")) as recorder,
            live_server(tmp_path, **settings | {"chain": proxy.url}) as live,
        ):
            server = SettlingServer(live, node.url).set_up()
            assert server.chain()["exchange"] == address
            server.trade(server.trader(), server.trader())
            server.until_settled()
            ((settlement, tx),) = server.settlements_by_id().values()
            assert (settlement, server.quiet().difference) == ("settled", 0)
            assert server.ask("eth_getTransactionReceipt", tx)["to"] == address.lower()
            assert min(int(each["fromBlock"], 16) for (each,) in recorder.params) == block
            assert live.stop() == 0


def test_production_server_uses_the_deployed_exchange(tmp_path):
    key = tmp_path / "operator.key"
    key.write_text(OPERATOR.private_key)
    key.chmod(0o600)
    with running(start_anvil("--chain-id", "137")) as node:
        chain = Chain(node, tmp_path / "maker")
        with working(chain.folder, node.url, chain_id=137, exchange="") as worker:
            contracts = worker.ready().addresses
        options = ("--environment", "production", "--chain-id", 137, "--operator-key-file", key)
        address = deployed(chain, tmp_path / "data", *options, "--owner", OWNER)
        with live_server(
            tmp_path / "data",
            **production_settings(node.url, 137, key, contracts, address),
            jwt_secret=SECRET,
            rate_limits=False,
        ) as live:
            wait_until(lambda: live.http.get("/").json()["chain"]["state"] == "ready")
            assert live.http.get("/").json()["chain"]["exchange"] == address
            assert live.stop() == 0
