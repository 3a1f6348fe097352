"""A worker without a key: a remote signer signs, and its faults only delay operations."""

import contextlib
import time

import pytest
import rlp

from clob_server.chain.eth.accounts import OPERATOR, WALLETS
from clob_server.chain.messages import OperationDone, OperationPending, OperationRejected
from tests.chain.chains import Chain, done, faucet, merge, split
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.proxy import (
    Delay,
    Drop,
    DropAnswer,
    DropTransaction,
    Raw,
    Reject,
    Result,
    WrongId,
    proxy_to,
)
from tests.chain.signers import ACCOUNTS, NO_KEY, SIGN, Edit, SignAltered, signing
from tests.chain.wallets import UNIT

PATIENCE_S = 60
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
OTHER = f"0x{'12' * 20}"


def set_to(**values):
    """Return a fault that signs with other values."""
    return lambda: SignAltered(lambda fields: {**fields, **values})


def add(name, amount):
    """Return a fault that signs with a changed number."""
    return lambda: SignAltered(lambda fields: {**fields, name: fields[name] + amount})


def as_legacy(fields):
    """Return the fields of a legacy transaction with the same price."""
    price, _ = fields.pop("maxFeePerGas"), fields.pop("maxPriorityFeePerGas")
    return {**fields, "gasPrice": price}


def with_high_s(raw):
    """Return the other valid signature of a transaction, which nodes reject."""
    *fields, parity, r, s = rlp.decode(raw[1:])
    high = (ORDER - int.from_bytes(s)).to_bytes(32)
    return raw[:1] + rlp.encode([*fields, b"" if parity else b"\1", r, high])


def with_long_nonce(raw):
    """Return a transaction with a leading zero in its nonce."""
    chain_id, nonce, *rest = rlp.decode(raw[1:])
    return raw[:1] + rlp.encode([chain_id, b"\0" + nonce, *rest])


ALTERED = "returned a transaction that was not requested: "
FAULTS = {
    "closed connection": (lambda: Drop(SIGN), "is unreachable: "),
    "lost signature": (lambda: DropAnswer(SIGN), "is unreachable: "),
    "late": (lambda: Delay(1.0, SIGN), "did not respond in time"),
    "HTTP 500": (lambda: Raw(500, b"no", SIGN), "responded with HTTP status 500"),
    "no JSON": (lambda: Raw(200, b"<html>", SIGN), "responded with invalid JSON"),
    "neither": (lambda: Raw(200, b"{}", SIGN), "returned no response to a request"),
    "another id": (lambda: WrongId(SIGN), "returned no response to a request"),
    "rejection": (lambda: Reject(-32000, "locked", SIGN), f"rejected {SIGN}: locked (-32000)"),
    "null": (lambda: Result(None, SIGN), "returned null instead of a signed transaction"),
    "no hex": (lambda: Result("0xzz", SIGN), "returned '0xzz' instead of a signed transaction"),
    "no bytes": (lambda: Result("0x", SIGN), ALTERED + "it has another type"),
    "an object": (lambda: Result({"raw": "0x02"}, SIGN), ALTERED + "it is not valid RLP"),
    "nonce": (add("nonce", 1), ALTERED + "nonce is "),
    "recipient": (set_to(to=bytes.fromhex(OTHER[2:])), ALTERED + f"to is {OTHER}; expected "),
    "no recipient": (set_to(to=b""), ALTERED + "to is 0x; expected "),
    "value": (set_to(value=1), ALTERED + "value is 0x01; expected 0x"),
    "calldata": (set_to(data="0x1234"), ALTERED + "data is 0x1234; expected 0x"),
    "gas": (add("gas", 1), ALTERED + "gas is "),
    "fee": (add("maxFeePerGas", 1), ALTERED + "maxFeePerGas is "),
    "tip": (add("maxPriorityFeePerGas", -1), ALTERED + "maxPriorityFeePerGas is "),
    "chain": (set_to(chainId=1), ALTERED + "chainId is 0x01; expected 0x7a69"),
    "access list": (
        set_to(accessList=[{"address": OTHER, "storageKeys": []}]),
        ALTERED + "accessList is a list of 1; expected a list of 0",
    ),
    "type": (lambda: SignAltered(as_legacy), ALTERED + "it has another type"),
    "another account": (
        lambda: SignAltered(dict, WALLETS[0].private_key),
        ALTERED + f"it is signed by {WALLETS[0].address}; expected {OPERATOR.address}",
    ),
    "high s": (lambda: Edit(with_high_s), ALTERED + "its signature is invalid"),
    "long nonce": (lambda: Edit(with_long_nonce), ALTERED + "nonce is 0x00"),
    "cut off": (lambda: Edit(lambda raw: raw[:-1]), ALTERED + "it is not valid RLP"),
    "more bytes": (lambda: Edit(lambda raw: raw + b"\0"), ALTERED + "it is not valid RLP"),
    "unknown type": (lambda: Edit(lambda raw: b"\4" + raw[1:]), ALTERED + "it has type 4"),
}


@contextlib.contextmanager
def signed_remotely(kind, folder):
    """Yield a chain whose workers have no key, with a proxy to the signer."""
    with (
        running(start_node(kind, folder / "devchain")) as node,
        signing(folder) as signer,
        proxy_to(signer) as proxy,
    ):
        chain = Chain(node, folder / "chain")
        chain.signer, chain.proxy = signer, proxy
        chain.settings = NO_KEY | {"signer_url": proxy.url, "rpc_timeout_s": 0.5}
        yield chain


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """A chain for all tests of faults."""
    with signed_remotely("anvil", tmp_path_factory.mktemp("signed")) as chain:
        yield chain


@pytest.fixture(scope="module")
def worker(chain):
    """A worker without a key."""
    with chain.worker(**chain.settings) as worker:
        done(worker, "first", faucet(chain.stranger(), 1))
        yield worker


def until(condition):
    """Wait until a condition is true."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def usable(worker, since=0):
    """Wait until the worker can sign."""
    worker.state(lambda state: not state.detail, since)


# ----- without faults ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_worker_without_a_key_runs_operations(tmp_path, kind):
    with signed_remotely(kind, tmp_path) as chain, chain.worker(**chain.settings) as worker:
        usable(worker)
        condition = chain.condition(worker)
        user = chain.user(worker, 100)
        done(worker, "split", split(user, condition, 40 * UNIT))
        done(worker, "merge", merge(user, condition, 10 * UNIT))
        assert chain.holdings([user], condition)[user.address] == (70 * UNIT, 30 * UNIT, 30 * UNIT)
        chain.check_conserved()
        for operation in worker.operations():
            chain.check_happened([each for step in operation.steps for each in step.hashes])
        assert chain.proxy.calls.count(SIGN) == chain.num_sent() > 8
        signed = [line for line in chain.signer.logged() if ":signed 0x" in line]
        assert len(signed) == chain.num_sent()


def test_operations_at_the_same_time_use_each_nonce_once(chain, worker):
    before, calls = chain.num_sent(), len(chain.proxy.calls)
    users = [chain.stranger() for _ in range(10)]
    with chain.proxy.inject(Delay(0.05, SIGN)):
        for user in users:
            worker.start(f"at once {user.address}", faucet(user, 3))
        for user in users:
            assert type(worker.end(f"at once {user.address}")) is OperationDone
    assert [chain.ledger.collateral(user.address) for user in users] == 10 * [3 * UNIT]
    assert chain.num_sent() - before == chain.proxy.calls[calls:].count(SIGN)


# ----- faults --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_signer_only_delay_operations(chain, worker, name):
    make, words = FAULTS[name]
    usual = chain.num_sent()
    done(worker, f"usual {name}", faucet(chain.stranger(), 5))
    usual = chain.num_sent() - usual
    before, user = chain.num_sent(), chain.stranger()
    with chain.proxy.inject(make()) as fault:
        since = worker.keep(name, faucet(user, 5))
        until(lambda: fault.hits > 1)
        until(lambda: words in worker.get(name).detail)
        waiting = worker.get(name)
        assert type(waiting) is OperationPending
        assert " waits: the signer at 127.0.0.1 " in waiting.detail
        assert words in worker.state(lambda state: words in state.detail, since).detail
        rejected = worker.do(f"another {name}", faucet(user, 5))
        assert type(rejected) is OperationRejected
        assert (rejected.code, words in rejected.detail) == ("CHAIN_UNAVAILABLE", True)
        assert chain.num_sent() == before
        since = len(worker.messages)
    assert type(worker.end(name, 0)) is OperationDone
    usable(worker, since)
    assert chain.ledger.collateral(user.address) == 5 * UNIT
    assert chain.num_sent() - before == usual


def test_signature_lost_in_a_crash_is_requested_again(chain, tmp_path):
    world, user = Chain(chain.node, tmp_path / "chain"), chain.stranger()
    before = chain.num_sent()
    with world.worker(**chain.settings) as worker:
        usable(worker)
        with chain.proxy.inject(DropAnswer(SIGN)) as fault:
            worker.keep("crash", faucet(user, 2))
            until(lambda: fault.hits)
            worker.kill()
    with world.worker(**chain.settings) as worker:
        assert type(worker.end("crash")) is OperationDone
    assert chain.ledger.collateral(user.address) == 2 * UNIT
    num_first = chain.num_sent() - before
    with world.worker(**chain.settings) as worker:
        usable(worker)
        done(worker, "next", faucet(chain.stranger(), 2))
    assert chain.num_sent() - before == 2 * num_first


def test_signer_that_fails_delays_a_higher_fee(tmp_path):
    with signed_remotely("anvil", tmp_path) as chain, proxy_to(chain.node) as node:
        world = Chain(chain.node, tmp_path / "chain", node.url)
        settings = chain.settings | {"bump_after_s": 0.5}
        with world.worker(**settings) as worker:
            usable(worker)
            before, user = chain.num_sent(), chain.stranger()
            with node.inject(DropTransaction()) as dropped:
                worker.keep("slow", faucet(user, 2))
                until(lambda: dropped.hits)
                with chain.proxy.inject(Reject(-32000, "locked", SIGN)) as fault:
                    until(lambda: fault.hits > 1)
                    until(lambda: "no higher fee could be signed" in worker.get("slow").detail)
                    assert worker.last_state().num_bumped == 0
                worker.state(lambda state: state.num_bumped > 0)
            assert type(worker.end("slow")) is OperationDone
            assert chain.ledger.collateral(user.address) == 2 * UNIT
            nonces = [step.nonce for each in worker.operations() for step in each.steps]
            assert len(nonces) == len(set(nonces)) == chain.num_sent()
            assert chain.num_sent() > before


# ----- another signer ------------------------------------------------------------------------


def test_signer_of_another_account_signs_nothing(chain, tmp_path):
    user, before = chain.stranger(), chain.num_sent()
    words = f"does not hold the key of {OPERATOR.address}; its accounts: '0x"
    with signing(tmp_path, key=WALLETS[0].private_key) as signer:
        world = Chain(chain.node, tmp_path / "chain")
        with world.worker(**NO_KEY, signer_url=signer.url) as worker:
            worker.state(lambda state: words in state.detail)
            rejected = worker.do("a", faucet(user, 1))
    assert (type(rejected), rejected.code) == (OperationRejected, "CHAIN_UNAVAILABLE")
    assert words in rejected.detail
    assert chain.num_sent() == before


def test_signer_of_another_chain_signs_nothing(chain, tmp_path):
    user, before = chain.stranger(), chain.num_sent()
    words = f"rejected {SIGN}: signs for chain 1; got chain 31337 (-32000)"
    with signing(tmp_path, chain_id=1) as signer:
        world = Chain(chain.node, tmp_path / "chain")
        with world.worker(**NO_KEY, signer_url=signer.url) as worker:
            usable(worker)
            worker.keep("a", faucet(user, 1))
            until(lambda: words in worker.get("a").detail)
    assert chain.num_sent() == before


def test_operations_begin_once_the_signer_has_started(chain, tmp_path):
    with signing(tmp_path) as signer:
        port = signer.port
    settings = NO_KEY | {"signer_url": signer.url}
    user, world = chain.stranger(), Chain(chain.node, tmp_path / "chain")
    with world.worker(**settings) as worker:
        worker.state(lambda state: "signer at 127.0.0.1 is unreachable" in state.detail)
        rejected = worker.do("early", faucet(user, 1))
        assert (type(rejected), rejected.code) == (OperationRejected, "CHAIN_UNAVAILABLE")
        since = len(worker.messages)
        with signing(tmp_path, port=port):
            usable(worker, since)
            done(worker, "late", faucet(user, 1))
    assert chain.ledger.collateral(user.address) == UNIT


def test_account_list_is_checked(chain, tmp_path):
    world = Chain(chain.node, tmp_path / "chain")
    for result, shown in ((None, "none"), ({"a": 1}, "none"), ([None, 5], "null, a JSON number")):
        with (
            chain.proxy.inject(Result(result, ACCOUNTS)),
            world.worker(**chain.settings) as worker,
        ):
            state = worker.state(lambda state: "its accounts" in state.detail)
            assert state.detail.endswith(f"{OPERATOR.address}; its accounts: {shown}")
