"""A node with contracts, markets and users, for tests of the chain worker."""

import contextlib
import itertools
from typing import NamedTuple

import msgspec
from eth_utils import keccak

from clob.wire.operations import (
    FaucetBody,
    MergeBody,
    Permit,
    PrepareBody,
    RedeemBody,
    ReportBody,
    SplitBody,
    UnwrapBody,
    WrapBody,
)
from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR
from clob_server.chain.messages import OperationDone
from tests.chain.nodes import running, start_node
from tests.chain.proxy import proxy_to
from tests.chain.wallets import STABLE_UNIT, UNIT, ZERO, Ledger, User, Wallet, read
from tests.chain.workers import working

WHALE = ACCOUNTS[8].private_key
FRIEND = ACCOUNTS[7].private_key
ETHER = 10**18
NOBODY = f"0x{ZERO.hex()}"
"""Sender of minted tokens and receiver of burned ones."""
GIFT = 5 * 10**16
"""Ether that the faucet sends for gas in these tests, in wei."""


@contextlib.contextmanager
def chain_behind_proxy(kind, folder):
    """Yield a chain whose worker reaches the node through ``chain.proxy``."""
    with (
        running(start_node(kind, folder / "devchain")) as node,
        proxy_to(node) as proxy,
    ):
        chain = Chain(node, folder / "chain", proxy.url)
        chain.proxy = proxy
        yield chain


class Condition(NamedTuple):
    """A question and its tokens on the chain."""

    question: str
    id: str
    yes: int
    no: int


class Chain:
    """A node with the worker's contracts at their usual addresses.

    Args:
        node: the node.
        folder: folder of the workers' outbox.
        url: node URL for workers; None for the node itself.
    """

    contracts = DEVELOPMENT
    operator = OPERATOR.address

    def __init__(self, node, folder, url=None):
        self.node = node
        self.folder = folder
        self.url = url or node.url
        self.ledger = Ledger(node, self.contracts)
        self.names = (f"name {number}" for number in itertools.count(1))
        self.conditions = []
        """Conditions whose tokens users may hold."""
        self.stable_left = 0
        """Test dollars that the operator should hold, in their own units."""
        self._whale = Wallet(node, WHALE)
        self.friend = User(node, FRIEND, self.contracts, self.operator)
        """A user that stores tokens for others and returns them."""

    def starting(self, **settings):
        """Return a context with a worker that is starting."""
        return working(self.folder, self.url, gas_gift_wei=str(GIFT), **settings)

    @contextlib.contextmanager
    def worker(self, **settings):
        """Yield a worker that is ready."""
        with self.starting(**settings) as worker:
            worker.ready()
            yield worker

    def num_sent(self):
        """Return the number of the operator's transactions in blocks."""
        return int(self.node.ask("eth_getTransactionCount", self.operator, "latest"), 16)

    # ----- users and markets -----------------------------------------------------------------

    def stranger(self):
        """Return a new user without any funds."""
        key = f"0x{keccak(text=next(self.names)).hex()}"
        return User(self.node, key, self.contracts, self.operator)

    def user(self, worker, units=0, approved=True):
        """Return a user with ether for gas and collateral from the faucet."""
        user = self.stranger()
        self._whale.send(user.address, value=ETHER)
        if units:
            done(worker, next(self.names), faucet(user, units))
        if approved:
            user.approve_collateral()
            user.approve_tokens()
        return user

    def condition(self, worker):
        """Prepare a new question on the chain."""
        question = f"0x{keccak(text=next(self.names)).hex()}"
        made = done(worker, next(self.names), PrepareBody(question_id=question))
        tokens = int(made["yesTokenId"]), int(made["noTokenId"])
        condition = Condition(question, made["conditionId"], *tokens)
        self.conditions.append(condition)
        return condition

    # ----- balances --------------------------------------------------------------------------

    def holdings(self, users, *conditions):
        """Return collateral and tokens of users and of the operator, in wei."""
        return {
            address: (
                self.ledger.collateral(address),
                *(
                    self.ledger.token(address, token)
                    for condition in conditions
                    for token in (condition.yes, condition.no)
                ),
            )
            for address in [*(each.address for each in users), self.operator]
        }

    def check_conserved(self):
        """Check that all tokens are backed and that the operator kept nothing."""
        held = self.ledger.token_holders()
        backing = 0
        for each in self.conditions:
            yes, no = -held[each.yes, NOBODY], -held[each.no, NOBODY]
            worth = self.payout(each)
            assert yes == no or worth != (0, 0)
            backing += no if worth == (0, 1) else yes
        ledger, contracts = self.ledger, self.contracts
        assert ledger.collateral(contracts.conditional_tokens) == backing
        assert ledger.wrapped_supply() * STABLE_UNIT == ledger.stable(contracts.collateral) * UNIT
        assert ledger.stable(self.operator) == self.stable_left
        assert ledger.collateral(self.operator) == 0
        for (token, holder), amount in held.items():
            assert holder == NOBODY or amount == ledger.token(holder, token)
            assert holder != self.operator or amount == 0

    def payout(self, condition):
        """Return the payouts of YES and NO; 0 and 0 before the report."""
        word = bytes.fromhex(condition.id[2:])
        contract = self.contracts.conditional_tokens
        if not read(self.node, contract, "payoutDenominator(bytes32)", word):
            return 0, 0
        signature = "payoutNumerators(bytes32,uint256)"
        return tuple(read(self.node, contract, signature, word, index) for index in range(2))

    def check_happened(self, hashes):
        """Check that each transaction succeeded and was sent by the operator."""
        for hashed in hashes:
            receipt = self.node.ask("eth_getTransactionReceipt", hashed)
            assert receipt["status"] == "0x1"
            assert receipt["from"].lower() == self.operator.lower()


def done(worker, name, body):
    """Run an operation and return its answer."""
    return answer_of(worker.do(name, body))


def answer_of(result):
    """Return the answer of an operation that must have succeeded."""
    assert type(result) is OperationDone, result
    return msgspec.json.decode(result.answer)


def hashes_of(answer):
    """Return the hashes of an answer in field order."""
    return [value for name, value in answer.items() if name.endswith("Tx") and value]


# ----- operation bodies ----------------------------------------------------------------------


def faucet(user, units):
    """Return the body of a faucet operation."""
    return FaucetBody(user=user.address, units=units)


def conversion(kind, user, condition, amount, **more):
    """Return the body of a split or merge."""
    return kind(
        user=user.address,
        amount=str(amount),
        condition_id=condition.id,
        yes_token_id=str(condition.yes),
        no_token_id=str(condition.no),
        **more,
    )


def split(user, condition, amount, permit=None):
    """Return the body of a split."""
    if permit is not None:
        permit = msgspec.convert(permit, Permit)
    return conversion(SplitBody, user, condition, amount, permit=permit)


def merge(user, condition, amount):
    """Return the body of a merge."""
    return conversion(MergeBody, user, condition, amount)


def wrap(user, amount, permit=None):
    """Return the body of a wrap."""
    return wrapping(WrapBody, user, amount, permit)


def unwrap(user, amount, permit=None):
    """Return the body of an unwrap."""
    return wrapping(UnwrapBody, user, amount, permit)


def wrapping(kind, user, amount, permit):
    """Return the body of a wrap or unwrap."""
    signed = None if permit is None else msgspec.convert(permit, Permit)
    return kind(user=user.address, amount=str(amount), permit=signed)


def redeem(user, condition):
    """Return the body of a redemption."""
    return RedeemBody(user=user.address, condition_id=condition.id)


def report(condition, outcome):
    """Return the body of a report with outcome ``yes`` or ``no``."""
    return ReportBody(question_id=condition.question, outcome=outcome)
