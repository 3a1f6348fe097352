"""Revert reasons: every error of the contracts is either raised here or unreachable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob_server.chain.contracts import NAMES, artifact
from clob_server.chain.eth.abi import Function, encode, revert_reason
from clob_server.chain.eth.accounts import OPERATOR, WALLETS
from tests.chain.contracts.calls import (
    APPROVE,
    CONDITION_ID,
    MAX,
    MERGE,
    MINT,
    PERMIT,
    PREPARE,
    REDEEM,
    REPORT,
    ROOT,
    SEND_TOKENS,
    SPLIT,
    TRANSFER,
    TRANSFER_FROM,
    UNWRAP,
    WRAP,
    ZERO,
)

BOSS = OPERATOR.address
ALICE, BOB = WALLETS[0].address, WALLETS[1].address
LATE = 2**64
WORD = b"\1" * 32
BAD_TEXT = encode(["bytes"], [b"\xff"])
S_MAX = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0

# Contract, call, and expected reason.
RAISED = [
    ("stablecoin", MINT, (ALICE, 1), f"NotMinter(sender={ALICE})"),
    (
        "stablecoin",
        TRANSFER,
        (BOB, 1),
        f"ERC20InsufficientBalance(sender={ALICE}, balance=0, needed=1)",
    ),
    (
        "stablecoin",
        TRANSFER_FROM,
        (BOB, ALICE, 1),
        f"ERC20InsufficientAllowance(spender={ALICE}, allowance=0, needed=1)",
    ),
    ("stablecoin", TRANSFER, (ZERO, 0), f"ERC20InvalidReceiver(receiver={ZERO})"),
    ("stablecoin", APPROVE, (ZERO, 1), f"ERC20InvalidSpender(spender={ZERO})"),
    ("collateral", WRAP, (ZERO, 0), f"ERC20InvalidReceiver(receiver={ZERO})"),
    ("collateral", UNWRAP, (BOB, 1), f"NotAMultiple(amount=1, unit={10**12})"),
    (
        "collateral",
        PERMIT,
        (BOB, ALICE, 1, 1, 27, WORD, WORD),
        "ERC2612ExpiredSignature(deadline=1)",
    ),
    ("collateral", PERMIT, (BOB, ALICE, 1, LATE, 0, WORD, WORD), "ECDSAInvalidSignature()"),
    (
        "collateral",
        PERMIT,
        (BOB, ALICE, 1, LATE, 27, WORD, (S_MAX + 1).to_bytes(32)),
        f"ECDSAInvalidSignatureS(s=0x{S_MAX + 1:064x})",
    ),
    ("collateral", PERMIT, (BOB, ALICE, 1, LATE, 27, WORD, WORD), "ERC2612InvalidSigner(signer="),
    # Messages of the Gnosis contract.
    ("conditional_tokens", PREPARE, (ALICE, WORD, 1), "there should be more than one outcome slot"),
    ("conditional_tokens", PREPARE, (ALICE, WORD, 257), "too many outcome slots"),
    ("conditional_tokens", REPORT, (WORD, [1, 0]), "condition not prepared or found"),
    ("conditional_tokens", REPORT, (WORD, [1]), "there should be more than one outcome slot"),
    (
        "conditional_tokens",
        SPLIT,
        (ALICE, ROOT, WORD, [1, 2], 1),
        "condition not prepared yet",
    ),
    (
        "conditional_tokens",
        MERGE,
        (ALICE, ROOT, WORD, [1, 2], 1),
        "condition not prepared yet",
    ),
    (
        "conditional_tokens",
        REDEEM,
        (ALICE, ROOT, WORD, [1, 2]),
        "result for condition not received yet",
    ),
    (
        "conditional_tokens",
        SEND_TOKENS,
        (BOB, ALICE, 1, 1, b""),
        "ERC1155: need operator approval for 3rd party transfers.",
    ),
    ("conditional_tokens", SEND_TOKENS, (ALICE, BOB, 1, 1, b""), "SafeMath: subtraction overflow"),
]
# Errors that no call of ours can raise; another token with the same interface might.
BY_OTHERS = {"WrongDecimals", "TooManyDecimals", "WrongAmount"}
"""Errors that ``test_tokens.py`` raises with other stablecoins."""
OUT_OF_REACH = {
    "ECDSAInvalidSignatureLength",  # permit takes v, r and s of fixed lengths
    "ERC20InvalidApprover",  # the zero address has no known key
    "ERC20InvalidSender",  # the zero address has no known key
    "InvalidAccountNonce",  # the nonce is not an argument of permit
    "InvalidShortString",  # the names of the token are short enough
    "StringTooLong",  # the names of the token are short enough
    "SafeERC20FailedOperation",  # TestDollar reverts with its own error
}


@pytest.mark.parametrize(
    ("name", "function", "args", "reason"),
    RAISED,
    ids=[f"{row[1].name}-{row[3][:24]}" for row in RAISED],
)
def test_revert_reason_of_each_error(world, name, function, args, reason):
    evm, addresses = world
    told = evm.rejection(ALICE, getattr(addresses, name), function, *args)
    assert told.startswith(reason) if reason.endswith("=") else told == reason


def test_condition_is_prepared_and_reported_once(world):
    evm, addresses = world
    tokens = addresses.conditional_tokens
    evm.do(BOSS, tokens, PREPARE, BOSS, WORD, 2)
    assert evm.rejection(ALICE, tokens, PREPARE, BOSS, WORD, 2) == "condition already prepared"
    assert evm.rejection(ALICE, tokens, REPORT, WORD, [1, 0]) == "condition not prepared or found"
    assert evm.rejection(BOSS, tokens, REPORT, WORD, [0, 0]) == "payout is all zeroes"
    condition = evm.ask(tokens, CONDITION_ID, BOSS, WORD, 2)
    assert evm.rejection(ALICE, tokens, SPLIT, ALICE, ROOT, condition, [1, 1], 1) == (
        "partition not disjoint"
    )
    assert evm.rejection(ALICE, tokens, SPLIT, ALICE, ROOT, condition, [1, 4], 1) == (
        "got invalid index set"
    )
    evm.do(BOSS, tokens, REPORT, WORD, [1, 0])
    assert evm.rejection(BOSS, tokens, REPORT, WORD, [1, 0]) == "payout denominator already set"


def test_every_error_is_raised_here_or_unreachable():
    others = [name for name in NAMES if name != "Exchange"]  # it has its own tests
    known = {
        entry["name"] for name in others for entry in artifact(name).abi if entry["type"] == "error"
    }
    raised = {row[3].partition("(")[0] for row in RAISED if "(" in row[3]} | BY_OTHERS
    assert raised | OUT_OF_REACH == known
    assert not raised & OUT_OF_REACH


@pytest.mark.parametrize("name", NAMES)
def test_every_error_is_decoded(name):
    for entry in artifact(name).abi:
        if entry["type"] != "error":
            continue
        types = [part["type"] for part in entry["inputs"]]
        error = Function(f"{entry['name']}({','.join(types)})")
        samples = {"address": ALICE, "bytes": WORD, "bytes32": WORD, "string": "so"}
        values = [samples.get(kind, 7) for kind in types]
        assert revert_reason(error.encode(*values)).startswith(f"{entry['name']}(")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no reason given"),
        (b"\1", "an unknown error: 0x01"),
        (bytes.fromhex("deadbeef00"), "an unknown error: 0xdeadbeef00"),
        (Function("Error(string)").encode("no"), "no"),
        (Function("Error(string)").encode("a\nb\x1b[2J"), "a?b?[2J"),
        (Function("Error(string)").encode("x" * 500), "x" * 200),
        (Function("Error(string)").selector, "an unknown error: 0x08c379a0"),
        (
            Function("Error(string)").selector + BAD_TEXT,
            f"an unknown error: 0x08c379a0{BAD_TEXT.hex()}"[:200],
        ),
        (Function("Panic(uint256)").encode(0x12), "panic 0x12: a division by zero"),
        (Function("Panic(uint256)").encode(0x99), "panic 0x99: an unknown code"),
        (Function("Panic(uint256)").encode(MAX), f"panic 0x{MAX:x}: an unknown code"),
    ],
)
def test_arbitrary_revert_data_has_a_reason(data, reason):
    assert revert_reason(data) == reason


@given(data=st.binary(max_size=200), head=st.sampled_from(["", "08c379a0", "4e487b71", "e450d38c"]))
def test_random_revert_data_has_a_short_reason(data, head):
    assert len(revert_reason(bytes.fromhex(head) + data)) <= 200
