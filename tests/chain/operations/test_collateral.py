"""Collateral over a stablecoin of other decimals, deployed by somebody else."""

from pathlib import Path

import pytest
from eth_utils import to_checksum_address

from clob_server.chain.config import Addresses
from clob_server.chain.contracts import artifact
from clob_server.chain.eth.accounts import ACCOUNTS
from clob_server.chain.messages import OperationRejected
from tests.chain.chains import Chain, done, faucet, merge, split, unwrap, wrap
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.test_deploy import rejection, run_deploy
from tests.chain.wallets import UNIT, Ledger, Wallet, read

ISSUER = ACCOUNTS[6]
"""Minter of the stablecoin."""
BEFORE = Path(__file__).parents[1] / "contracts" / "wrapper_before.hex"
"""Creation code of the collateral of version 1.0."""


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("collateral")
    with running(start_node(request.param, folder / "devchain")) as node:
        chain = Chain(node, folder / "chain")
        with chain.worker():
            pass
        yield chain


class CoinChain(Chain):
    """A chain whose server uses a stablecoin of another minter.

    Args:
        chain: the chain, with the contracts of the operator.
        decimals: decimals of the stablecoin.
        folder: folder of the server.
    """

    def __init__(self, chain, decimals, folder):
        super().__init__(chain.node, folder / "chain")
        self.issuer = Wallet(chain.node, ISSUER.private_key)
        word = decimals.to_bytes(32)
        coin = self.issuer.send("", artifact("TestDollar").creation + word, gas=3_000_000)
        self.coin = to_checksum_address(coin["contractAddress"])
        self.scale = 10 ** (18 - decimals)
        self.contracts = Addresses(
            stablecoin=self.coin,
            collateral="",
            conditional_tokens=chain.contracts.conditional_tokens,
        )
        self.data = folder

    def deploy(self, *options):
        """Run ``clob-server deploy`` for the stablecoin."""
        contracts = (
            *("--stablecoin", self.coin),
            *("--conditional-tokens", self.contracts.conditional_tokens),
        )
        return run_deploy(self, self.data, *contracts, *options, contracts=False)

    def use(self, collateral, exchange):
        """Use deployed contracts."""
        coin = self.contracts.conditional_tokens
        self.contracts = Addresses(
            stablecoin=self.coin, collateral=collateral, conditional_tokens=coin
        )
        self.exchange, self.ledger = exchange, Ledger(self.node, self.contracts)

    def working(self):
        """Return a context with a worker of a production server, which deploys nothing."""
        return self.worker(addresses=self.contracts, exchange=self.exchange, deploy=False)

    def rich(self, units):
        """Return a user with stablecoin and ether."""
        user = self.stranger()
        self._whale.send(user.address, value=UNIT)
        self.issuer.call(self.coin, "mint(address,uint256)", user.address, units)
        return user


def deployed(coin, *options):
    """Deploy, check the addresses that the command prints, and use them."""
    result = coin.deploy(*options)
    assert result.returncode == 0, result.stderr
    collateral = result.stderr.split("--collateral ")[1].split()[0]
    coin.use(collateral, result.stdout.strip())
    return collateral


@pytest.mark.parametrize("decimals", [0, 2, 6, 18])
def test_stablecoin_is_wrapped_split_merged_and_unwrapped(chain, tmp_path, decimals):
    coin = CoinChain(chain, decimals, tmp_path)
    collateral = deployed(coin, "--stablecoin-decimals", decimals)
    assert read(coin.node, collateral, "name()", kind="string") == "Wrapped Test Dollar"
    assert read(coin.node, collateral, "symbol()", kind="string") == "wtUSD"
    units = 10 * UNIT // coin.scale
    with coin.working() as worker:
        user, condition = coin.rich(units), coin.condition(worker)
        permit = user.permit(units, contract=coin.coin)
        answer = done(worker, next(coin.names), wrap(user, 10 * UNIT, permit))
        assert (answer["amount"], answer["stablecoinAmount"]) == (str(10 * UNIT), str(units))
        assert (coin.ledger.stable(user.address), coin.ledger.collateral(user.address)) == (
            0,
            10 * UNIT,
        )
        user.approve_collateral()
        user.approve_tokens()
        for make in (split, merge):
            done(worker, next(coin.names), make(user, condition, 4 * UNIT))
        done(worker, next(coin.names), unwrap(user, 7 * UNIT))
        assert coin.ledger.stable(user.address) == 7 * UNIT // coin.scale
        assert coin.ledger.collateral(user.address) == 3 * UNIT
        assert coin.ledger.stable(collateral) == 3 * UNIT // coin.scale


def test_chain_without_a_test_stablecoin_has_no_faucet(chain, tmp_path):
    coin = CoinChain(chain, 6, tmp_path)
    deployed(coin, "--stablecoin-decimals", 6)
    with coin.working() as worker:
        num_sent = coin.num_sent()
        result = worker.do(next(coin.names), faucet(coin.stranger(), 100))
        assert (type(result), result.code) == (OperationRejected, "NO_FAUCET")
        assert f"{coin.coin} is none: NotMinter(" in result.detail
        assert coin.num_sent() == num_sent


@pytest.mark.parametrize(
    ("stated", "expected"),
    [(6, "has 6 decimals; expected 18"), (18, "has 18 decimals; expected 6")],
)
def test_other_decimals_are_rejected_before_anything_is_sent(chain, tmp_path, stated, expected):
    coin = CoinChain(chain, stated, tmp_path)
    before = coin.num_sent()
    options = ("--stablecoin-decimals", 24 - stated)
    result = rejection(coin.deploy(*options))
    assert result == f"WRONG_COLLATERAL: the stablecoin {coin.coin} {expected}"
    plan = coin.deploy(*options, "--plan")
    assert (plan.returncode, plan.stdout.splitlines()[-1]) == (
        1,
        f"result: it would be rejected: {result}",
    )
    assert coin.num_sent() == before


def test_contract_without_decimals_is_no_stablecoin(chain, tmp_path):
    coin = CoinChain(chain, 6, tmp_path)
    coin.coin = chain.contracts.conditional_tokens
    result = rejection(coin.deploy("--stablecoin-decimals", 6))
    assert result.endswith(f"{coin.coin} states no decimals; expected an ERC-20")


def test_wrapper_of_another_stablecoin_is_rejected(chain, tmp_path):
    coin, other = (CoinChain(chain, 6, tmp_path / name) for name in ("one", "other"))
    collateral = deployed(other, "--stablecoin-decimals", 6)
    result = rejection(coin.deploy("--collateral", collateral))
    assert result == (
        f"WRONG_COLLATERAL: the collateral contract {collateral} wraps {other.coin}; expected the "
        f"stablecoin {coin.coin}"
    )
    result = rejection(coin.deploy("--collateral", chain.contracts.conditional_tokens))
    assert result.endswith("is not a WrappedCollateral of this software")


def test_known_wrapper_is_checked_and_approved_once(chain, tmp_path):
    coin, again = CoinChain(chain, 6, tmp_path / "one"), tmp_path / "again"
    collateral = deployed(coin, "--stablecoin-decimals", 6)
    before, coin.data = coin.num_sent(), again
    result = coin.deploy("--collateral", collateral)
    assert result.returncode == 0, result.stderr
    assert coin.num_sent() == before + 1  # the exchange, without approvals
    result = rejection(coin.deploy("--collateral", collateral, "--stablecoin-decimals", 5))
    assert result == f"WRONG_COLLATERAL: the stablecoin {coin.coin} has 6 decimals; expected 5"


def test_plan_of_collateral_and_exchange_equals_the_deployment(chain, tmp_path):
    coin = CoinChain(chain, 6, tmp_path)
    options = ("--stablecoin-decimals", 6, "--collateral-name", "Wrapped USD Coin")
    plan = coin.deploy(*options, "--plan")
    assert plan.returncode == 0, plan.stdout
    lines = dict(line.split(": ", 1) for line in plan.stdout.splitlines()[1:])
    names = [each.split(", ")[0] for each in lines["transactions"].split(", ", 1)[1].split("; ")]
    assert names == ["collateralTx", "approveStablecoinTx", "approveCollateralTx", "exchangeTx"]
    before, first = coin.num_sent(), int(coin.node.ask("eth_blockNumber"), 16)
    collateral = deployed(coin, *options)
    assert lines["collateral"] == f"{collateral} will be created"
    assert lines["exchange"] == f"{coin.exchange} will be created"
    assert coin.num_sent() == before + 4
    assert read(coin.node, collateral, "name()", kind="string") == "Wrapped USD Coin"
    last = int(coin.node.ask("eth_blockNumber"), 16)
    blocks = [
        coin.node.ask("eth_getBlockByNumber", hex(number), False)
        for number in range(first + 1, last + 1)
    ]
    used = sum(int(block["gasUsed"], 16) for block in blocks)
    expected = int(lines["gas"].split()[0])
    assert abs(used - expected) * 100 <= 2 * expected


@pytest.mark.parametrize("step", ["collateralTx", "approveStablecoinTx", "approveCollateralTx"])
@pytest.mark.parametrize("point", ["before_insert", "after_insert", "after_broadcast"])
def test_interrupted_deployment_of_collateral_is_resumed(chain, tmp_path, step, point):
    coin = CoinChain(chain, 6, tmp_path)
    options = ("--stablecoin-decimals", 6)
    contracts = ("--stablecoin", coin.coin)
    contracts += ("--conditional-tokens", coin.contracts.conditional_tokens)
    before = coin.num_sent()
    died = run_deploy(
        coin, coin.data, *contracts, *options, contracts=False, die=f"wrapper:{step}:{point}"
    )
    if step == "approveCollateralTx" and point == "before_insert":
        assert died.returncode in (0, 70)  # it is signed together with the step before
    else:
        assert died.returncode == 70, died.stderr
    plan = coin.deploy(*options, "--plan")
    collateral = deployed(coin, *options)
    assert collateral in plan.stdout
    assert coin.num_sent() == before + 4


def test_wrapper_of_an_earlier_version_is_used(chain, tmp_path):
    coin = CoinChain(chain, 6, tmp_path)
    creation = bytes.fromhex(BEFORE.read_text()) + bytes(12) + bytes.fromhex(coin.coin[2:])
    collateral = to_checksum_address(
        coin.issuer.send("", creation, gas=3_000_000)["contractAddress"]
    )
    result = coin.deploy("--collateral", collateral)
    assert result.returncode == 0, result.stderr
    coin.use(collateral, result.stdout.strip())
    with coin.working() as worker:
        user = coin.rich(5 * 10**6)
        permit = user.permit(5 * 10**6, contract=coin.coin)
        done(worker, next(coin.names), wrap(user, 5 * UNIT, permit))
        assert coin.ledger.collateral(user.address) == 5 * UNIT
