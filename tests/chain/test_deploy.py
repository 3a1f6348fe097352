"""``clob-server deploy`` deploys the exchange once, or reports why it cannot."""

import contextlib
import io
import subprocess
import sys

import pytest
from eth_abi import decode

from clob_server import cli
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR, create_address
from tests.chain.nodes import running, start_anvil, start_node
from tests.chain.people import calldata, read
from tests.chain.proxy import SEND, Fault, Reject, Swallow, in_front_of
from tests.chain.settling_venues import SETTINGS, SettlingVenue
from tests.chain.venues import Venue, wait_until
from tests.chain.workers import DIED, working
from tests.chain.worlds import World
from tests.server.live import environment, live_server

ELSEWHERE = f"0x{'12' * 20}"
COLD = ACCOUNTS[5].address
FOUNDER = ACCOUNTS[4]
DOMAIN = ["bytes1", "string", "string", "uint256", "address", "bytes32", "uint256[]"]
SECRET = "a secret of tokens that is long enough"
PATIENCE_S = 60


class Overhear(Fault):
    """Record the parameters of calls."""

    def __init__(self, method):
        super().__init__(method)
        self.params = []

    def answer(self, call, forward):
        self.params.append(call["params"])
        return forward(call)


@pytest.fixture(scope="module", params=["devchain", "anvil"])
def world(request, tmp_path_factory):
    """A chain with the contracts, without a worker."""
    folder = tmp_path_factory.mktemp("deploying")
    with running(start_node(request.param, folder / "devchain")) as node:
        world = World(node, folder / "chain")
        with world.worker():
            pass
        yield world


@pytest.fixture
def key_file(tmp_path):
    """Return the key file of an account that is not an operator yet."""
    path = tmp_path / "founder.key"
    path.write_text(FOUNDER.private_key)
    return path


def deploying(world, folder, *options, die=None, contracts=True, url=None):
    """Run the command, in this process unless it is to crash."""
    named = [
        *("--collateral", world.contracts.collateral),
        *("--conditional-tokens", world.contracts.conditional_tokens),
    ]
    arguments = [
        *("deploy", "--chain", url or world.node.url, "--data-dir", str(folder)),
        *(named if contracts else ()),
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


def deployed(world, folder, *options, **more):
    """Run the command and return the address that it prints."""
    ran = deploying(world, folder, *options, **more)
    assert ran.returncode == 0, ran.stderr
    place = ran.stdout.strip()
    assert f"--verifying-contract {place}" in ran.stderr
    return place


def rejection(ran, code=1):
    """Return the error message of a failed run."""
    assert (ran.returncode, ran.stdout) == (code, ""), ran
    line = ran.stderr.splitlines()[-1]
    assert line.startswith("clob-server: ")
    return line.removeprefix("clob-server: ")


def num_sent(world, address):
    """Return the number of an account's transactions in blocks."""
    return int(world.node.ask("eth_getTransactionCount", address, "latest"), 16)


# ----- success -------------------------------------------------------------------------------


def test_exchange_is_deployed_once_with_the_options(world, tmp_path, key_file):
    before = num_sent(world, FOUNDER.address)
    options = ("--operator-key-file", key_file, "--owner", COLD.lower(), "--eip712-name", "mine")
    place = deployed(world, tmp_path, *options)
    assert place == create_address(FOUNDER.address, before)
    for name, wanted in (
        ("owner", COLD),
        ("operator", FOUNDER.address),
        ("collateral", world.contracts.collateral),
        ("tokens", world.contracts.conditional_tokens),
    ):
        assert read(world.node, place, f"{name}()", kind="address") == wanted.lower()
    asked = {"to": place, "data": f"0x{calldata('eip712Domain()').hex()}"}
    result = decode(DOMAIN, bytes.fromhex(world.node.ask("eth_call", asked, "latest")[2:]))
    assert result[1:5] == ("mine", "1", 31337, place.lower())
    assert deployed(world, tmp_path, *options) == place
    assert num_sent(world, FOUNDER.address) == before + 1
    # Other options deploy another exchange.
    assert deployed(world, tmp_path, *options[:4]) != place


@pytest.mark.parametrize(
    "point", ["before_insert", "after_insert", "after_broadcast", "after_receipt"]
)
def test_interrupted_deployment_is_resumed(world, tmp_path, key_file, point):
    before = num_sent(world, FOUNDER.address)
    options = ("--operator-key-file", key_file)
    died = deploying(world, tmp_path, *options, die=f"found:exchangeTx:{point}")
    assert (died.returncode, died.stdout) == (DIED, "")
    assert deployed(world, tmp_path, *options) == create_address(FOUNDER.address, before)
    assert num_sent(world, FOUNDER.address) == before + 1


@pytest.mark.parametrize("make", [
    lambda: Swallow(times=1), lambda: Reject(-32000, "try again", SEND, times=1)
])  # fmt: skip
def test_deployment_is_sent_until_it_succeeds(world, tmp_path, key_file, make):
    before = num_sent(world, FOUNDER.address)
    with in_front_of(world.node) as proxy, proxy.inject(make()) as fault:
        place = deployed(world, tmp_path, "--operator-key-file", key_file, url=proxy.url)
        assert (fault.hits, proxy.calls.count(SEND)) == (1, 2)
    assert place == create_address(FOUNDER.address, before)


# ----- errors --------------------------------------------------------------------------------


def test_unusable_deployment_is_rejected_without_a_transaction(world, tmp_path, key_file):
    before = num_sent(world, FOUNDER.address)
    options = ("--operator-key-file", key_file)
    nobody = f"0x{'0' * 40}"
    result = rejection(deploying(world, tmp_path, *options, "--owner", nobody))
    assert result == "INVALID_ADDRESS: the owner of the exchange must not be the zero address"
    named = ("--collateral", ELSEWHERE, "--conditional-tokens", world.contracts.conditional_tokens)
    result = rejection(deploying(world, tmp_path, *options, *named, contracts=False))
    assert result == f"CHAIN_UNAVAILABLE: no contract at {ELSEWHERE}"
    (tmp_path / "poor.key").write_text("12" * 32)
    poor = ("--operator-key-file", tmp_path / "poor.key")
    result = rejection(deploying(world, tmp_path / "poor", *poor))
    assert result.startswith("OPERATOR_OUT_OF_GAS: ")
    assert num_sent(world, FOUNDER.address) == before


def test_invalid_options_are_rejected(world, tmp_path, key_file):
    result = rejection(deploying(world, tmp_path, contracts=False), 2)
    assert result.endswith("missing: --collateral, --conditional-tokens")
    result = rejection(deploying(world, tmp_path, url="embedded"), 2)
    assert result.startswith("--chain must be the http or https URL of a node")
    result = rejection(deploying(world, tmp_path, "--owner", "me"), 2)
    assert result == "--owner must be 0x and 40 hex digits; got 'me'"
    result = rejection(deploying(world, tmp_path, "--chain-id", 137), 2)
    assert "--operator-key-file" in result
    result = rejection(deploying(world, tmp_path, "--environment", "production"), 2)
    assert "--operator-key-file" in result
    options = ("--chain-id", 137, "--operator-key-file", key_file)
    result = rejection(deploying(world, tmp_path / "137", *options))
    assert result.startswith("CHAIN_UNAVAILABLE: the node at ")
    assert result.endswith(" is on chain 31337; expected chain 137")
    result = rejection(deploying(world, tmp_path, url="http://127.0.0.1:1"))
    assert result.startswith("CHAIN_UNAVAILABLE: ")


def test_folder_of_a_running_server_is_rejected(world, tmp_path):
    with working(tmp_path / "chain", world.url) as worker:
        worker.ready()
        assert "another process uses the outbox" in rejection(deploying(world, tmp_path), 2)


# ----- a server with the deployed exchange ----------------------------------------------------


def test_trades_settle_through_the_deployed_exchange(tmp_path):
    with running(start_anvil()) as node:
        own = SETTINGS | {"chain": node.url}
        with live_server(tmp_path, verifying_contract=ELSEWHERE, **own) as live:
            assert Venue(live).chain()["exchange"] is None
            assert live.stop() == 0
        ran = deploying(World(node, tmp_path / "chain"), tmp_path)
        place, block = ran.stdout.strip(), int(ran.stderr.split()[-1])
        assert block == int(node.ask("eth_blockNumber"), 16)
        own |= {"verifying_contract": place, "chain_from_block": block}
        with (
            in_front_of(node) as proxy,
            proxy.inject(Overhear("eth_getLogs")) as overheard,
            live_server(tmp_path, **own | {"chain": proxy.url}) as live,
        ):
            venue = SettlingVenue(live, node.url).set_up()
            assert venue.chain()["exchange"] == place
            venue.trade(venue.trader(), venue.trader())
            venue.until_settled()
            ((settlement, tx),) = venue.settlements_by_id().values()
            assert (settlement, venue.quiet()["difference"]) == ("settled", 0)
            assert venue.ask("eth_getTransactionReceipt", tx)["to"] == place.lower()
            assert min(int(each["fromBlock"], 16) for (each,) in overheard.params) == block
            assert live.stop() == 0


def test_production_server_uses_the_deployed_exchange(tmp_path):
    key = tmp_path / "operator.key"
    key.write_text(OPERATOR.private_key)
    with running(start_anvil("--chain-id", "137")) as node:
        world = World(node, tmp_path / "maker")
        with working(world.folder, node.url, chain_id=137, exchange="") as worker:
            contracts = worker.ready().addresses
        options = ("--environment", "production", "--chain-id", 137, "--operator-key-file", key)
        place = deployed(world, tmp_path / "data", *options, "--owner", COLD)
        with live_server(
            tmp_path / "data",
            environment="production",
            chain=node.url,
            chain_id=137,
            operator_key_file=key,
            stablecoin=contracts.stablecoin,
            collateral=contracts.collateral,
            conditional_tokens=contracts.conditional_tokens,
            eip712_name="clob",
            eip712_version="1",
            verifying_contract=place,
            jwt_secret=SECRET,
            rate_limits=False,
        ) as live:
            wait_until(lambda: live.http.get("/").json()["chain"]["state"] == "ready")
            assert live.http.get("/").json()["chain"]["exchange"] == place
            assert live.stop() == 0
