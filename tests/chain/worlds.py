"""A chain with contracts, markets and people, for tests of what a chain worker does to them."""

import contextlib
import itertools
from typing import NamedTuple

import msgspec
from eth_utils import keccak

from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR
from clob_server.chain.messages import OperationDone
from clob_server.chain.operation_bodies import (
    FaucetBody,
    MergeBody,
    Permit,
    PrepareBody,
    RedeemBody,
    ReportBody,
    SplitBody,
)
from tests.chain.nodes import running, start_node
from tests.chain.people import STABLE_UNIT, UNIT, ZERO, Ledger, Person, User, read
from tests.chain.proxy import in_front_of
from tests.chain.workers import working

WHALE = ACCOUNTS[8].private_key
FRIEND = ACCOUNTS[7].private_key
ETHER = 10**18
NOBODY = f"0x{ZERO.hex()}"
"""Where tokens come from that are made, and where those go that are no more."""
GIFT = 5 * 10**16
"""What the faucet gives for gas in these tests."""


@contextlib.contextmanager
def behind_a_proxy(kind, folder):
    """A world on a node of some kind, whose worker speaks to it through ``world.proxy``."""
    with (
        running(start_node(kind, folder / "devchain")) as node,
        in_front_of(node) as proxy,
    ):
        world = World(node, folder / "chain", proxy.url)
        world.proxy = proxy
        yield world


class Condition(NamedTuple):
    """A question on the chain."""

    question: str
    id: str
    yes: int
    no: int


class World:
    """A node with the contracts of a worker at the places everybody knows.

    Args:
        node: the node.
        folder: where workers keep their outbox.
        url: what a worker is to ask; None is the node itself.
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
        """All that people could have tokens of."""
        self.stable_left = 0
        """The test dollars that must be with the operator, in their own units."""
        self._whale = Person(node, WHALE)
        self.friend = User(node, FRIEND, self.contracts, self.operator)
        """Somebody who keeps what others hand him, and gives it back."""

    def starting(self, **settings):
        """A worker that is about to be ready, for as long as the block takes."""
        return working(self.folder, self.url, gas_gift_wei=str(GIFT), **settings)

    @contextlib.contextmanager
    def worker(self, **settings):
        """A worker that is ready, for as long as the block takes."""
        with self.starting(**settings) as worker:
            worker.ready()
            yield worker

    def num_sent(self):
        """How many transactions of the operator are in blocks."""
        return int(self.node.ask("eth_getTransactionCount", self.operator, "latest"), 16)

    # ----- people and markets ----------------------------------------------------------------

    def stranger(self):
        """Somebody new, who has nothing."""
        key = f"0x{keccak(text=next(self.names)).hex()}"
        return User(self.node, key, self.contracts, self.operator)

    def user(self, worker, units=0, approved=True):
        """Somebody who can pay for gas, and has so much collateral from the faucet."""
        user = self.stranger()
        self._whale.send(user.address, value=ETHER)
        if units:
            done(worker, next(self.names), faucet(user, units))
        if approved:
            user.approve_collateral()
            user.approve_tokens()
        return user

    def condition(self, worker):
        """A new question, prepared on the chain."""
        question = f"0x{keccak(text=next(self.names)).hex()}"
        made = done(worker, next(self.names), PrepareBody(question_id=question))
        tokens = int(made["yesTokenId"]), int(made["noTokenId"])
        condition = Condition(question, made["conditionId"], *tokens)
        self.conditions.append(condition)
        return condition

    # ----- what there is ---------------------------------------------------------------------

    def holdings(self, people, *conditions):
        """The collateral and the tokens of people and of the operator, in wei."""
        return {
            address: (
                self.ledger.collateral(address),
                *(
                    self.ledger.token(address, token)
                    for condition in conditions
                    for token in (condition.yes, condition.no)
                ),
            )
            for address in [*(each.address for each in people), self.operator]
        }

    def check_conserved(self):
        """What backs everything must be there, and the operator must have kept nothing."""
        held = self.ledger.token_holders()
        backing = 0
        for each in self.conditions:
            yes, no = -held[each.yes, NOBODY], -held[each.no, NOBODY]
            worth = self.payout(each)
            assert yes == no or worth != (0, 0)
            backing += no if worth == (0, 1) else yes
        ledger, places = self.ledger, self.contracts
        assert ledger.collateral(places.conditional_tokens) == backing
        assert ledger.wrapped_supply() * STABLE_UNIT == ledger.stable(places.collateral) * UNIT
        assert ledger.stable(self.operator) == self.stable_left
        assert ledger.collateral(self.operator) == 0
        for (token, holder), amount in held.items():
            assert holder == NOBODY or amount == ledger.token(holder, token)
            assert holder != self.operator or amount == 0

    def payout(self, condition):
        """What a YES and a NO are worth: 0 and 0 before that is reported."""
        word = bytes.fromhex(condition.id[2:])
        place = self.contracts.conditional_tokens
        if not read(self.node, place, "payoutDenominator(bytes32)", word):
            return 0, 0
        signature = "payoutNumerators(bytes32,uint256)"
        return tuple(read(self.node, place, signature, word, index) for index in range(2))

    def check_happened(self, hashes):
        """Each transaction is in a block, was the operator's, and did what it was to do."""
        for hashed in hashes:
            receipt = self.node.ask("eth_getTransactionReceipt", hashed)
            assert receipt["status"] == "0x1"
            assert receipt["from"].lower() == self.operator.lower()


def done(worker, name, body):
    """Have an operation done, and give the answer."""
    return answer_of(worker.do(name, body))


def answer_of(told):
    """Give the answer of an operation that must have been done."""
    assert type(told) is OperationDone, told
    return msgspec.json.decode(told.answer)


def hashes_of(answer):
    """Give the hashes in an answer, in the sequence of its fields."""
    return [value for name, value in answer.items() if name.endswith("Tx") and value]


# ----- what can be asked for -----------------------------------------------------------------


def faucet(user, units):
    """Collateral for somebody."""
    return FaucetBody(user=user.address, units=units)


def conversion(kind, user, condition, amount, **more):
    """A split or a merge."""
    return kind(
        user=user.address,
        amount=str(amount),
        condition_id=condition.id,
        yes_token_id=str(condition.yes),
        no_token_id=str(condition.no),
        **more,
    )


def split(user, condition, amount, permit=None):
    """Collateral into tokens."""
    if permit is not None:
        permit = msgspec.convert(permit, Permit)
    return conversion(SplitBody, user, condition, amount, permit=permit)


def merge(user, condition, amount):
    """Tokens into collateral."""
    return conversion(MergeBody, user, condition, amount)


def redeem(user, condition):
    """What the tokens of a resolved condition are worth."""
    return RedeemBody(user=user.address, condition_id=condition.id)


def report(condition, outcome):
    """The outcome of a condition: ``yes`` or ``no``."""
    return ReportBody(question_id=condition.question, outcome=outcome)
