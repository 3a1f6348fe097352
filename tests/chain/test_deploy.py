"""``clob-server deploy`` deploys the exchange once, or prints an error."""

import contextlib
import io
import subprocess
import sys

import pytest
from eth_abi import decode

from clob_server import cli
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR, create_address
from tests.chain.chain_server import ChainServer, production_settings, wait_until
from tests.chain.chains import Chain
from tests.chain.nodes import running, start_anvil, start_node
from tests.chain.proxy import SEND, DropTransaction, Fault, Reject, proxy_to
from tests.chain.settling_server import SETTINGS, SettlingServer
from tests.chain.wallets import calldata, read
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
    assert result.endswith("missing: --collateral, --conditional-tokens")
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
