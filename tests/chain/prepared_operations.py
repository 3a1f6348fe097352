"""Operations prepared on a chain, with the changes of balances they must cause."""

from collections import Counter
from typing import NamedTuple

import msgspec
from eth_utils import keccak

from clob.wire.operations import AnyBody, DepositBody, Permit, PrepareBody, SettleBody
from tests.chain.chains import (
    GIFT,
    Condition,
    answer_of,
    done,
    faucet,
    hashes_of,
    merge,
    redeem,
    report,
    split,
    unwrap,
    wrap,
)
from tests.chain.settlements import BUY, PRICE, SELL, approve_exchange, fill_of, party
from tests.chain.wallets import STABLE_UNIT, UNIT, User

UNITS = 100
AMOUNT = 37 * UNIT + 11
STABLE = 37 * STABLE_UNIT + 11
"""Amount that is wrapped or unwrapped, in the smallest unit of the stablecoin."""
WRAPPED = STABLE * UNIT // STABLE_UNIT
"""The same in wei of collateral."""


class PreparedOperation(NamedTuple):
    """An operation whose preconditions exist on the chain."""

    body: AnyBody
    user: User
    condition: Condition | None
    """None if the operation creates the condition."""
    change: tuple[int, ...]
    """Change of the user's collateral, YES and NO, in wei; other balances are unchanged."""
    ether: int = 0
    """Change of the user's ether, in wei."""
    stable: int = 0
    """Change of the user's stablecoin, in its smallest unit."""


STEPS = {
    "faucet": ("faucetTx", "transferTx", "gasTx"),
    "split": ("permitTx", "collateralTransferTx", "splitTx", "yesTransferTx", "noTransferTx"),
    "merge": ("yesTransferTx", "noTransferTx", "mergeTx", "returnTx"),
    "redeem": ("yesTransferTx", "noTransferTx", "redeemTx", "returnTx"),
    "deposit": ("permitTx", "pullTx", "depositTx"),
    "wrap": ("permitTx", "stablecoinTransferTx", "wrapTx"),
    "unwrap": ("permitTx", "collateralTransferTx", "unwrapTx"),
    "prepare": ("prepareTx", "registerTx"),
    "report": ("reportTx",),
    "settle": ("settleTx",),
}
"""All steps of an operation by its kind."""
POINTS = ("before_insert", "after_insert", "after_broadcast", "after_receipt")
"""Failpoints of each step."""


def prepare_faucet(chain, worker):
    """Faucet for a user without ether."""
    user = chain.stranger()
    condition = chain.condition(worker)
    return PreparedOperation(faucet(user, UNITS), user, condition, (UNITS * UNIT, 0, 0), GIFT)


def prepare_split(chain, worker):
    """Split with a signed approval."""
    user = chain.user(worker, UNITS, approved=False)
    condition = chain.condition(worker)
    body = split(user, condition, AMOUNT, user.permit(AMOUNT))
    return PreparedOperation(body, user, condition, (-AMOUNT, AMOUNT, AMOUNT))


def user_with_tokens(chain, worker):
    """Return a user with tokens, and the condition."""
    user = chain.user(worker, UNITS)
    condition = chain.condition(worker)
    done(worker, next(chain.names), split(user, condition, 2 * AMOUNT))
    return user, condition


def prepare_merge(chain, worker):
    """Merge of half of the user's tokens."""
    user, condition = user_with_tokens(chain, worker)
    return PreparedOperation(
        merge(user, condition, AMOUNT), user, condition, (AMOUNT, -AMOUNT, -AMOUNT)
    )


def prepare_redeem(chain, worker):
    """Redemption of both tokens; the user has transferred a third of the YES tokens away."""
    user, condition = user_with_tokens(chain, worker)
    user.send_token(chain.stranger().address, condition.yes, AMOUNT)
    done(worker, next(chain.names), report(condition, "yes"))
    return PreparedOperation(
        redeem(user, condition), user, condition, (AMOUNT, -AMOUNT, -2 * AMOUNT)
    )


def prepare_deposit(chain, worker):
    """Deposit of collateral with a signed approval; the operator approved the exchange before."""
    user = chain.user(worker, UNITS, approved=False)
    condition = chain.condition(worker)
    done(worker, next(chain.names), deposit(user, 1))
    return PreparedOperation(deposit(user, AMOUNT), user, condition, (-AMOUNT, 0, 0))


def deposit(user, amount):
    """Return the body of a deposit of collateral with a signed approval."""
    permit = msgspec.convert(user.permit(amount), Permit)
    return DepositBody(user=user.address, asset="collateral", amount=str(amount), permit=permit)


def prepare_wrap(chain, worker):
    """Wrap of stablecoin with a signed approval."""
    user, condition = chain.user(worker, UNITS, approved=False), chain.condition(worker)
    user.unwrap(2 * WRAPPED)
    body = wrap(user, WRAPPED, user.permit(STABLE, contract=chain.contracts.stablecoin))
    return PreparedOperation(body, user, condition, (WRAPPED, 0, 0), stable=-STABLE)


def prepare_unwrap(chain, worker):
    """Unwrap of collateral with a signed approval."""
    user, condition = chain.user(worker, UNITS, approved=False), chain.condition(worker)
    body = unwrap(user, WRAPPED, user.permit(WRAPPED))
    return PreparedOperation(body, user, condition, (-WRAPPED, 0, 0), stable=STABLE)


def prepare_prepare(chain, worker):
    """Preparation of a new question."""
    question = f"0x{keccak(text=next(chain.names)).hex()}"
    return PreparedOperation(PrepareBody(question_id=question), chain.stranger(), None, (0,))


def prepare_report(chain, worker):
    """Report for a condition with token holders."""
    user, condition = user_with_tokens(chain, worker)
    return PreparedOperation(report(condition, "no"), user, condition, (0, 0, 0))


def prepare_settle(chain, worker):
    """Two trades of a buyer: with a seller who has tokens, and with one who has none."""
    seller, condition = user_with_tokens(chain, worker)
    buyer, poor = chain.user(worker, UNITS, approved=False), chain.user(worker)
    for user in (buyer, seller, poor):
        approve_exchange(user)
    size, token = 100 * 10**15, condition.yes
    fills = [
        fill_of(
            chain,
            party(buyer, BUY, PRICE, size, token),
            party(each, SELL, PRICE, size, token),
            size,
        )
        for each in (seller, poor)
    ]
    return PreparedOperation(
        SettleBody(fills=fills), buyer, condition, (-size * PRICE // 100, size, 0)
    )


PREPARE = {
    "faucet": prepare_faucet,
    "split": prepare_split,
    "merge": prepare_merge,
    "redeem": prepare_redeem,
    "deposit": prepare_deposit,
    "wrap": prepare_wrap,
    "unwrap": prepare_unwrap,
    "prepare": prepare_prepare,
    "report": prepare_report,
    "settle": prepare_settle,
}


class OperationPool:
    """Operations prepared several at a time, to save worker starts.

    Args:
        chain: the chain.
        size: minimum number of operations of a kind to prepare at once.
    """

    def __init__(self, chain, size=1):
        self._chain, self._size = chain, size
        self._operations = {kind: [] for kind in PREPARE}

    def take(self, *kinds):
        """Return a prepared operation for each kind."""
        requested = Counter(kinds)
        missing = {
            kind: max(count - len(self._operations[kind]), self._size)
            for kind, count in requested.items()
            if count > len(self._operations[kind])
        }
        if missing:
            with self._chain.worker() as worker:
                for kind, count in missing.items():
                    made = (PREPARE[kind](self._chain, worker) for _ in range(count))
                    self._operations[kind] += made
        return [self._operations[kind].pop() for kind in kinds]


class BalancesBefore:
    """Balances before operations, to compare with those after them.

    Args:
        chain: the chain.
        operations: the operations.
    """

    def __init__(self, chain, operations):
        self._chain, self._operations = chain, operations
        self._held = [self._holdings(operation) for operation in operations]
        self._ether = [chain.ledger.ether(operation.user.address) for operation in operations]
        self._stable = [chain.ledger.stable(operation.user.address) for operation in operations]
        self.num_sent = chain.num_sent()
        """Number of the operator's transactions in blocks."""

    def _holdings(self, operation):
        conditions = [] if operation.condition is None else [operation.condition]
        return self._chain.holdings([operation.user], *conditions)

    def check_happened(self, num_steps):
        """Check that each operation took effect once, in ``num_steps`` transactions in total."""
        assert self._chain.num_sent() - self.num_sent == num_steps
        before = zip(self._operations, self._held, self._ether, self._stable, strict=True)
        for operation, held, ether, stable in before:
            balances = held[operation.user.address]
            pairs = zip(balances, operation.change, strict=True)
            expected = tuple(old + more for old, more in pairs)
            after = self._holdings(operation)
            assert after[operation.user.address] == expected
            assert set(after[self._chain.operator]) == {0}
            assert self._chain.ledger.ether(operation.user.address) == ether + operation.ether
            assert self._chain.ledger.stable(operation.user.address) == stable + operation.stable

    def check_done(self, kind, result):
        """Check that the only operation took effect as reported."""
        hashes = hashes_of(answer_of(result))
        assert len(hashes) == len(STEPS[kind])
        self.check_happened(len(hashes))
        self._chain.check_happened(hashes)

    def check_undone(self, num_steps):
        """Check that no operation changed a balance.

        Args:
            num_steps: number of transactions.
        """
        assert self._chain.num_sent() - self.num_sent == num_steps
        before = zip(self._operations, self._held, self._stable, strict=True)
        for operation, held, stable in before:
            assert self._holdings(operation) == held
            assert self._chain.ledger.stable(operation.user.address) == stable
