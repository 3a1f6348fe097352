"""Causes and responsible wallets of failed fills, including false claims of wallets with code."""

import time

import pytest
from eth_abi import encode
from eth_account import Account
from eth_utils import keccak
from msgspec.structs import replace

from clob.wire.operations import SettleBody
from clob_server.chain.eth.exchange_abi import CANCEL, DELAY_S, body_values
from clob_server.chain.watcher.failures import Failure
from tests.chain.chains import Chain, answer_of
from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.settlements import (
    ACCEPTS,
    EXCHANGE,
    Makers,
    advance_time,
    approve_exchange,
    error_and_wallets,
    explain,
    failure_causes,
    failures_of,
    now_s,
    outcomes,
    reverting_code,
    settle,
)
from tests.chain.wallets import BURNS, REVERTS, UNIT, calldata, receipt_of

LONGER_S = DELAY_S + 70


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("blame")
    with running(start_node(request.param, folder / "devchain")) as node:
        world = Chain(node, folder / "chain")
        yield world
        world.check_conserved()
        assert world.ledger.collateral(EXCHANGE) == 0


@pytest.fixture(scope="module")
def worker(world):
    with world.worker() as worker:
        yield worker


@pytest.fixture(scope="module")
def market(world, worker):
    return Makers(world, worker)


@pytest.fixture(scope="module")
def pair(market):
    """Two makers with valid orders."""
    return market.maker(), market.maker()


def test_missing_funds_and_approvals_fail_only_the_makers_own_fills(world, worker, market, pair):
    one, other = pair
    revoked, drained, burner, unwilling, sold_out = (market.maker() for _ in range(5))
    contracts = world.contracts
    revoked.call(contracts.collateral, "approve(address,uint256)", EXCHANGE, 1)
    drained.send_collateral(one.address, world.ledger.collateral(drained.address) - 5)
    burner.set_code(BURNS)
    approve = "setApprovalForAll(address,bool)"
    unwilling.call(contracts.conditional_tokens, approve, EXCHANGE, False)
    sold_out.send_token(one.address, market.condition.yes, 100 * UNIT)
    bad = [
        market.trade(revoked, other),
        market.trade(drained, other),
        market.trade(burner, other),
        market.trade(one, unwilling),
        market.trade(one, sold_out),
        market.mint(one, revoked, price=50),
        market.mint(drained, other, price=50),
        market.merge(unwilling, one),
        market.merge(one, sold_out, price=50),
        market.merge(sold_out, one),
    ]
    good = [market.trade(one, other) for _ in range(len(bad) + 1)]
    fills = [fill for two in zip(good, [*bad, None], strict=True) for fill in two if fill]
    hashed = settle(world, worker, *fills)
    # The ninth sells NO, which its maker still has, so it settles.
    assert [each == "Settled" for each in outcomes(world, hashed, fills)] == [
        fill in good or fill is bad[8] for fill in fills
    ]
    need = 40 * UNIT // 100
    assert [cause.error for cause in failure_causes(world, hashed, bad[:2])] == [
        f"ERC20InsufficientAllowance: {revoked.address} has approved 1 wei of collateral to the "
        f"exchange; {need} are needed",
        f"ERC20InsufficientBalance: {drained.address} has 5 wei of collateral; {need} are needed",
    ]
    assert error_and_wallets(world, hashed, bad) == [
        ("ERC20InsufficientAllowance", (revoked.address,)),
        ("ERC20InsufficientBalance", (drained.address,)),
        ("TokensNotAccepted", (burner.address,)),
        ("TokensNotApproved", (unwilling.address,)),
        ("InsufficientTokens", (sold_out.address,)),
        ("ERC20InsufficientAllowance", (revoked.address,)),
        ("ERC20InsufficientBalance", (drained.address,)),
        ("TokensNotApproved", (unwilling.address,)),
        None,
        ("InsufficientTokens", (sold_out.address,)),
    ]


def test_revoked_and_expired_orders_fail_only_their_own_fills(world, worker, market, pair):
    one, other = pair
    liar, quitter, raiser, dreamer, stranger = (market.maker() for _ in range(5))
    late = market.buy(one, expiration_s=now_s(world.node) + 1)
    cancelled = market.buy(quitter)
    quitter.send(EXCHANGE, CANCEL.encode(body_values(cancelled)))
    raiser.call(EXCHANGE, "raiseNonce(uint256)", 7)
    advance_time(world.node, LONGER_S)
    unsigned = replace(market.buy(dreamer), signature="0x")
    fills = [
        market.fill(market.buy(liar, key=other.key), market.sell(other)),
        market.fill(late, market.sell(other)),
        market.fill(cancelled, market.sell(other)),
        market.fill(market.buy(raiser, nonce=6), market.sell(other)),
        market.fill(market.buy(raiser, nonce=7), market.sell(other)),
        market.fill(unsigned, market.sell(other)),
        market.fill(market.buy(stranger, key=liar.key, signer=liar.address), market.sell(other)),
        market.fill(market.buy(one, wallet=other.address), market.sell(other)),
        market.fill(market.buy(one), market.sell(other, wallet=one.address)),
        market.fill(market.buy(one, taker=other.address), market.sell(other)),
        market.fill(market.buy(one), market.sell(other, price=99), price=40),
        market.trade(one, other),
    ]
    hashed = settle(world, worker, *fills)
    assert error_and_wallets(world, hashed, fills) == [
        ("WrongSigner", (liar.address,)),
        ("Expired", ()),
        ("Cancelled", (quitter.address,)),
        ("NonceTooLow", (raiser.address,)),
        None,
        ("NotGasless", (dreamer.address,)),
        ("NotDelegate", (stranger.address,)),
        ("NotPayer", (one.address,)),
        ("NotPayee", (other.address,)),
        ("TakerNotSupported", (one.address,)),
        ("WrongPrice", ()),
        None,
    ]


def test_overfilled_and_malformed_orders_fail_only_their_own_fills(world, worker, market, pair):
    one, other = pair
    garbled, odd = market.maker(), market.maker()
    order = market.buy(one, size=3 * UNIT)
    halves = [market.fill(order, market.sell(other, size=2 * UNIT), 2 * UNIT) for _ in range(2)]
    fills = [
        *halves,
        market.fill(replace(market.buy(garbled), signature=f"0x{'07' * 65}"), market.sell(other)),
        market.fill(replace(market.buy(odd), signature_type=2), market.sell(other)),
    ]
    hashed = settle(world, worker, *fills)
    assert error_and_wallets(world, hashed, fills) == [
        None,
        ("Overfilled", (one.address,)),
        ("UnusableSignature", (garbled.address,)),
        ("UnknownSignatureType", (odd.address,)),
    ]


def test_ambiguous_cause_blames_neither_maker(world, worker, market, pair):
    # Both makers could have lacked tokens; by the next block neither does any more.
    one, other = pair
    poor = market.maker(0)
    fills = [market.merge(one, poor), market.trade(one, poor)]
    hashed = settle(world, worker, *fills)
    assert error_and_wallets(world, hashed, fills) == [("InsufficientTokens", (poor.address,))] * 2
    for token in (market.condition.yes, market.condition.no):
        other.send_token(poor.address, token, UNIT)
    later = [each._replace(block=each.block + 2) for each in failures_of(world, hashed, fills)]
    merged, direct = explain(world, later)
    assert merged.responsible == ()
    assert merged.error == (
        f"InsufficientTokens: {one.address} or {poor.address} has less than {UNIT} wei of the "
        "sold token"
    )
    assert direct.responsible == (poor.address,)


def test_pruned_block_falls_back_to_the_latest_state(world, worker, market, pair):
    fills = [market.merge(pair[0], market.maker(0))]
    hashed = settle(world, worker, *fills)
    (known,) = explain(world, failures_of(world, hashed, fills))
    far = [each._replace(block=2**40) for each in failures_of(world, hashed, fills)]
    assert explain(world, far) == [known]
    assert len(known.responsible) == 1


def test_paying_wallet_is_responsible_for_its_own_funds(world, worker, market, pair):
    _, seller = pair
    maker, wallet = market.maker(), market.maker(approved=False)
    wallet.call(EXCHANGE, "setPayer(address,bool)", maker.address, True)
    fills = [market.fill(market.buy(maker, wallet=wallet.address), market.sell(seller))]
    hashed = settle(world, worker, *fills)
    assert error_and_wallets(world, hashed, fills) == [
        ("ERC20InsufficientAllowance", (wallet.address,))
    ]


def test_false_revert_data_does_not_blame_another_wallet(world, worker, market, pair):
    victim, seller = pair
    fills, claims = [], []
    for says_what in (
        keccak(text="ERC20InsufficientBalance(address,uint256,uint256)")[:4]
        + encode(["address", "uint256", "uint256"], [victim.address, 0, UNIT]),
        keccak(text="Error(string)")[:4] + encode(["string"], ["SafeMath: subtraction overflow"]),
        keccak(text="NotGasless(address)")[:4] + encode(["address"], [seller.address]),
        keccak(text="SizeNotWhole(uint256,uint256)")[:4] + encode(["uint256"] * 2, [1, 100]),
    ):
        liar = market.maker()
        liar.set_code(reverting_code(says_what))
        fills += [market.trade(liar, seller), market.mint(victim, liar)]
        claims.append(liar.address)
    hashed = settle(world, worker, *fills)
    assert error_and_wallets(world, hashed, fills) == [
        ("TokensNotAccepted", (liar,)) for liar in claims for _ in range(2)
    ]


@pytest.mark.parametrize("code", [REVERTS, BURNS, b"\0"], ids=["reverts", "burns", "is silent"])
def test_rejecting_wallet_is_responsible_if_two_wallets_have_code(world, worker, market, code):
    careful, rejecter = market.maker(), market.maker()
    careful.set_code(ACCEPTS)
    rejecter.set_code(code)
    fills = [market.mint(careful, rejecter), market.mint(rejecter, careful)]
    hashed = settle(world, worker, *fills)
    assert (
        error_and_wallets(world, hashed, fills) == [("TokensNotAccepted", (rejecter.address,))] * 2
    )


def test_wallet_with_code_is_not_responsible_for_missing_funds_of_others(world, worker, market):
    # Its code accepts nothing, but the fill fails before any token is sent to it.
    careful, poor = market.maker(), market.maker(0)
    careful.set_code(REVERTS)
    late = market.buy(careful, expiration_s=now_s(world.node) + 1)
    advance_time(world.node, LONGER_S)
    fills = [market.trade(careful, poor), market.fill(late, market.sell(poor))]
    hashed = settle(world, worker, *fills)
    assert error_and_wallets(world, hashed, fills) == [
        ("InsufficientTokens", (poor.address,)),
        ("Expired", ()),
    ]


def test_failed_fill_stays_failed_after_a_late_approval(world, worker, market, pair):
    late = market.maker(approved=False)
    fill = market.trade(late, pair[1])
    assert error_and_wallets(world, settle(world, worker, fill), [fill]) == [
        ("ERC20InsufficientAllowance", (late.address,))
    ]
    approve_exchange(late)
    again = [fill, replace(fill, trade_id=str(int(fill.trade_id) ^ 1))]
    assert outcomes(world, settle(world, worker, *again), again) == ["FailedBefore", "Settled"]


def test_unknown_fills_have_no_responsible_wallet(world):
    nowhere = f"0x{'12' * 32}"
    transfer = world.friend.send(world.friend.address)["transactionHash"]
    failures = [Failure(trade_id=1, reason=b"", tx=tx, block=1) for tx in (nowhere, transfer)]
    for cause in explain(world, failures):
        assert cause.responsible == ()
        assert cause.error.startswith("NoReason: ")
    assert explain(world, []) == []


@pytest.fixture
def alone(tmp_path):
    """An anvil for one test."""
    with running(start_anvil()) as node:
        yield Chain(node, tmp_path / "chain")


def test_maker_without_tokens_within_a_block_is_responsible(alone):
    """A maker transfers its tokens before the trade and gets them back in the same block."""
    with alone.worker() as worker:
        market = Makers(alone, worker)
        careful, other, thief = (market.maker() for _ in range(3))
        careful.set_code(ACCEPTS)
        fills = [
            market.trade(careful, thief),
            market.merge(other, thief),
            market.trade(careful, other),
        ]
        give = "safeTransferFrom(address,address,uint256,uint256,bytes)"
        wallets = thief.address, alone.friend.address
        tokens = alone.contracts.conditional_tokens
        moves = [
            calldata(give, *pair, token, 100 * UNIT, b"")
            for pair in (wallets, wallets[::-1])
            for token in (market.condition.yes, market.condition.no)
        ]
        alone.node.ask("evm_setAutomine", False)
        sent(thief, tokens, moves[:2], fee_wei=20 * 10**9)
        block = alone.node.ask("eth_getBlockByNumber", "latest", False)
        sent(alone.friend, tokens, moves[2:], fee_wei=int(block["baseFeePerGas"], 16) * 9 // 8 + 2)
        name = next(alone.names)
        since = worker.keep(name, SettleBody(fills=fills))
        while alone.node.ask("eth_getBlockTransactionCountByNumber", "pending") != "0x5":
            time.sleep(0.01)
        alone.node.ask("evm_mine")
        alone.node.ask("evm_setAutomine", True)
        hashed = answer_of(worker.end(name, since))["settleTx"]
        assert int(receipt_of(alone.node, hashed)["transactionIndex"], 16) == 2
        assert alone.ledger.token(thief.address, market.condition.yes) == 100 * UNIT
        assert error_and_wallets(alone, hashed, fills) == [
            ("InsufficientTokens", (thief.address,)),
            ("InsufficientTokens", (thief.address,)),
            None,
        ]


def sent(person, to, calls, fee_wei):
    """Send transactions whose fee determines their order in the next block."""
    first = int(person.node.ask("eth_getTransactionCount", person.address, "pending"), 16)
    for place, data in enumerate(calls):
        made = {
            "type": 2,
            "chainId": 31337,
            "nonce": first + place,
            "to": to,
            "value": 0,
            "data": data,
            "gas": 200_000,
            "maxPriorityFeePerGas": 1,
            "maxFeePerGas": fee_wei,
        }
        raw = Account.sign_transaction(made, person.key).raw_transaction
        person.node.ask("eth_sendRawTransaction", f"0x{raw.hex()}")
