"""ABI encoding of calls and events, compared with eth-abi and real receipts."""

import contextlib

import eth_abi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.signing import keccak256
from clob.signing.secp import checksummed
from clob_server.chain.contracts import NAMES, artifact
from clob_server.chain.eth import abi
from clob_server.chain.eth.abi import AbiError, Event, Function, parse
from clob_server.chain.eth.accounts import OPERATOR, WALLETS
from tests.chain.contracts import calls
from tests.chain.contracts.calls import BALANCE, MINT, SPLIT, TRANSFER, TRANSFERRED

ALICE = WALLETS[0].address
VALUES = {
    "uint256": st.integers(0, 2**256 - 1),
    "uint8": st.integers(0, 255),
    "int128": st.integers(-(2**127), 2**127 - 1),
    "address": st.binary(min_size=20, max_size=20).map(checksummed),
    "bool": st.booleans(),
    "bytes32": st.binary(min_size=32, max_size=32),
    "bytes": st.binary(max_size=70),
    "string": st.text(max_size=40),
    "uint256[]": st.lists(st.integers(0, 2**256 - 1), max_size=4).map(tuple),
    "address[2]": st.tuples(*[st.binary(min_size=20, max_size=20).map(checksummed)] * 2),
    "(uint256,string)": st.tuples(st.integers(0, 9), st.text(max_size=40)),
}
TYPED = st.lists(st.sampled_from(sorted(VALUES)), max_size=5).flatmap(
    lambda types: st.tuples(st.just(types), st.tuples(*[VALUES[kind] for kind in types]))
)


@given(TYPED)
def test_encoding_equals_eth_abi_and_round_trips(typed):
    types, values = typed
    function = Function(f"f({','.join(types)})", returns=",".join(types))
    calldata = function.encode(*values)
    head = keccak256(f"f({','.join(types)})".encode())[:4]
    assert calldata == head + eth_abi.encode(types, values)
    assert function.arguments(calldata) == values
    assert function.decode(calldata[4:]) == values


@given(TYPED, st.binary(max_size=300))
def test_decoding_random_bytes_raises_only_abi_errors(typed, data):
    types, _ = typed
    with contextlib.suppress(AbiError):
        assert len(abi.decode(types, data)) == len(types)


@pytest.mark.parametrize(
    ("signature", "selector"),
    [
        ("transfer(address,uint256)", "a9059cbb"),
        ("balanceOf(address account)", "70a08231"),
        ("approve( address spender , uint amount )", "095ea7b3"),
        ("setApprovalForAll(address,bool)", "a22cb465"),
        ("totalSupply()", "18160ddd"),
        ("safeBatchTransferFrom(address,address,uint256[],uint256[],bytes)", "2eb2c2d6"),
        (
            "f((uint256,string)[],(bool,address) memory)",
            keccak256(b"f((uint256,string)[],(bool,address))")[:4].hex(),
        ),
    ],
)
def test_selectors_are_known(signature, selector):
    assert Function(signature).selector.hex() == selector


def test_tuple_types_have_canonical_signatures():
    function = Function("f((uint256,string)[] first,(int,address)[2] second)")
    assert function.signature == "f((uint256,string)[],(int256,address)[2])"


@pytest.mark.parametrize(
    "signature", ["", "transfer", "transfer(", "f(uint256", "(uint256)", "f(9)", "f(,)"]
)
def test_invalid_signature_is_rejected(signature):
    with pytest.raises(ValueError, match="not a "):
        parse(signature)


@pytest.mark.parametrize(
    "args",
    [
        (),
        (ALICE,),
        (ALICE, 1, 2),
        ("0x12", 1),
        (ALICE, -1),
        (ALICE, 2**256),
        (ALICE, "1"),
        (ALICE, 1.0),
    ],
    ids=str,
)
def test_invalid_arguments_are_rejected(args):
    with pytest.raises(AbiError):
        TRANSFER.encode(*args)


def test_empty_answer_is_rejected(world):
    evm, _ = world
    with pytest.raises(AbiError, match=r"^0 bytes cannot be decoded as \(uint256\)"):
        evm.ask(ALICE, BALANCE, ALICE)


def test_call_of_another_function_is_rejected():
    with pytest.raises(AbiError, match=r"not a call of transfer\(address,uint256\): 0x40c10f19"):
        TRANSFER.arguments(MINT.encode(ALICE, 1))


def test_event_is_decoded_from_a_receipt(world):
    evm, addresses = world
    (log,) = evm.do(OPERATOR.address, addresses.stablecoin, MINT, ALICE, 5).logs
    assert log["address"] == addresses.stablecoin.lower()
    assert TRANSFERRED.topic == log["topics"][0]
    assert TRANSFERRED.is_in(log)
    assert TRANSFERRED.decode(log) == (calls.ZERO, ALICE, 5)


def test_log_of_another_event_is_rejected(world):
    evm, addresses = world
    (log,) = evm.do(OPERATOR.address, addresses.stablecoin, MINT, ALICE, 5).logs
    # The same name and types with another number of indexed parameters: the topic is equal.
    other = Event("Transfer(address indexed from, address indexed to, uint256 indexed tokenId)")
    assert other.topic == TRANSFERRED.topic
    for event in (other, calls.APPROVED):
        assert not event.is_in(log)
        with pytest.raises(AbiError, match="not a log of"):
            event.decode(log)
    assert not TRANSFERRED.is_in({**log, "topics": []})


def test_log_with_malformed_data_is_rejected(world):
    evm, addresses = world
    (log,) = evm.do(OPERATOR.address, addresses.stablecoin, MINT, ALICE, 5).logs
    for data in ("0x", "0x1", "12", "0xzz"):
        with pytest.raises(AbiError):
            TRANSFERRED.decode({**log, "data": data})


def test_test_functions_and_events_exist_in_the_contracts():
    functions, events = set(), set()
    for entry in (entry for name in NAMES for entry in artifact(name).abi):
        if entry["type"] in ("function", "event"):
            target = functions if entry["type"] == "function" else events
            target.add(f"{entry['name']}({','.join(part['type'] for part in entry['inputs'])})")
    named = vars(calls).values()
    assert {call.signature for call in named if isinstance(call, Function)} <= functions
    assert {call.signature for call in named if isinstance(call, Event)} <= events


def test_arguments_of_a_call_round_trip():
    args = (ALICE, calls.ROOT, bytes(range(32)), (1, 2), 10**18)
    assert SPLIT.arguments(SPLIT.encode(*args)) == args
