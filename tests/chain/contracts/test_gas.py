"""Gas of each call: equal on every node and in the documentation."""

import re
from pathlib import Path

import pytest

from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.contracts import artifact
from clob_server.chain.eth import token_ids
from clob_server.chain.eth.accounts import OPERATOR, WALLETS
from clob_server.chain.operations.deploy import TEST_DOLLAR, wrapper_of
from tests.chain.contracts import calls
from tests.chain.wallets import Wallet

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "contracts.md"
BOSS, ALICE = OPERATOR.address, WALLETS[0].address
QUESTION = token_ids.question_id("What does it cost?")
CONDITION = token_ids.condition_id(BOSS, QUESTION)
YES, NO = token_ids.token_ids(DEVELOPMENT.collateral, CONDITION)
# The amounts have no zero bytes, which would be cheaper in calldata.
AMOUNT, UNITS = 0x0101010101010101, 0x01010101
OPERATOR_CREATES = (
    ("ConditionalTokens", b""),
    ("TestDollar", TEST_DOLLAR),
    ("WrappedCollateral", wrapper_of(DEVELOPMENT.stablecoin)),
)


def costs(node):
    """Run every operation twice and return the gas of each step of the second run."""
    boss, alice = Wallet(node, OPERATOR.private_key), Wallet(node, WALLETS[0].private_key)
    dollar, wrapped = DEVELOPMENT.stablecoin, DEVELOPMENT.collateral
    tokens = DEVELOPMENT.conditional_tokens
    gas = {}

    def do(name, wallet, to, function, *args):
        receipt = wallet.send(to, function.encode(*args))
        gas[name] = int(receipt["gasUsed"], 16)

    for name, args in OPERATOR_CREATES:
        receipt = boss.send("", artifact(name).creation + args, gas=6_000_000)
        gas[f"deploy: {name}"] = int(receipt["gasUsed"], 16)
    do("deploy: approve", boss, dollar, calls.APPROVE, wrapped, calls.MAX)
    boss.send(wrapped, calls.APPROVE.encode(tokens, calls.MAX))
    do("prepare: prepareTx", boss, tokens, calls.PREPARE, BOSS, QUESTION, 2)
    do("user: approve", alice, wrapped, calls.APPROVE, BOSS, calls.MAX)
    do("user: setApprovalForAll", alice, tokens, calls.APPROVE_ALL, BOSS, True)
    for _ in range(2):
        do("faucet: faucetTx", boss, dollar, calls.MINT, BOSS, UNITS)
        do("faucet: transferTx", boss, wrapped, calls.WRAP, ALICE, UNITS)
        args = (wrapped, calls.ROOT, CONDITION, [1, 2], 2 * AMOUNT)
        pull = (boss, wrapped, calls.TRANSFER_FROM, ALICE, BOSS, 2 * AMOUNT)
        do("split: collateralTransferTx", *pull)
        do("split: splitTx", boss, tokens, calls.SPLIT, *args)
        for name, token in (("yesTransferTx", YES), ("noTransferTx", NO)):
            move = (calls.SEND_TOKENS, BOSS, ALICE, token, 2 * AMOUNT, b"")
            do(f"split: {name}", boss, tokens, *move)
        for name, token in (("yesTransferTx", YES), ("noTransferTx", NO)):
            move = (calls.SEND_TOKENS, ALICE, BOSS, token, AMOUNT, b"")
            do(f"merge: {name}", boss, tokens, *move)
        args = (wrapped, calls.ROOT, CONDITION, [1, 2], AMOUNT)
        do("merge: mergeTx", boss, tokens, calls.MERGE, *args)
        do("merge: returnTx", boss, wrapped, calls.TRANSFER, ALICE, AMOUNT)
    do("report: reportTx", boss, tokens, calls.REPORT, QUESTION, [1, 0])
    move = (calls.SEND_TOKENS, ALICE, BOSS, YES, 2 * AMOUNT, b"")
    do("redeem: yesTransferTx", boss, tokens, *move)
    args = (wrapped, calls.ROOT, CONDITION, [1, 2])
    do("redeem: redeemTx", boss, tokens, calls.REDEEM, *args)
    do("redeem: returnTx", boss, wrapped, calls.TRANSFER, ALICE, 2 * AMOUNT)
    do("user: unwrap", alice, wrapped, calls.UNWRAP, ALICE, 10**12)
    return gas


def written():
    """Return the gas table of the page."""
    rows = re.findall(r"^\| `(.+?)` \| ([\d,]+) \|", PAGE.read_text(), re.MULTILINE)
    return {name: int(gas.replace(",", "")) for name, gas in rows}


@pytest.mark.skipif(not PAGE.exists(), reason="not here: the documentation")
def test_gas_equals_the_documentation(node):
    assert costs(node) == written()


@pytest.mark.skipif(not PAGE.exists(), reason="not here: the documentation")
def test_documented_totals_add_up():
    gas = written()

    def total(kind):
        return sum(cost for name, cost in gas.items() if name.startswith(f"{kind}: "))

    sums = [f"{total(kind):,}" for kind in ("deploy", "split", "merge")]
    sentence = "Deploying takes {} gas, a split {}, a merge {}.".format(*sums)
    assert sentence in PAGE.read_text()
