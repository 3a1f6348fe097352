"""Contract functions and events, and the builder of the steps that call them."""

from typing import Any, Final

from clob.units import UINT256_MAX
from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import Event, Function
from clob_server.chain.eth.exchange_abi import (
    DEPOSIT,
    DEPOSITED,
    REGISTER,
    REQUEST_WITHDRAWAL_FOR,
    WITHDRAW,
    WITHDRAWAL_REQUESTED,
    WITHDRAWN,
)
from clob_server.chain.eth.token_ids import NO, YES
from clob_server.chain.tx.gas_limits import StepCall

TOKEN_TRANSFER_GAS: Final = 250_000
"""Maximum gas of a token transfer to a wallet: 70,000, plus the receiver's code."""
ETHER_TRANSFER_GAS: Final = 60_000
"""Maximum gas of an ether transfer to a wallet: 21,000, plus the receiver's code."""
NO_PARENT: Final = bytes(32)
"""Parent collection id of positions that are split from collateral."""
INDEX_SETS: Final = (YES, NO)
"""Index sets into which collateral is split."""
UNIT: Final = 10**6
"""One unit of test dollars, in their smallest unit."""

BALANCE: Final = Function("balanceOf(address)", returns="uint256")
ALLOWANCE: Final = Function("allowance(address,address)", returns="uint256")
BALANCES: Final = Function("balanceOfBatch(address[],uint256[])", returns="uint256[]")
IS_APPROVED: Final = Function("isApprovedForAll(address,address)", returns="bool")
SLOTS: Final = Function("getOutcomeSlotCount(bytes32)", returns="uint256")
DENOMINATOR: Final = Function("payoutDenominator(bytes32)", returns="uint256")
NUMERATOR: Final = Function("payoutNumerators(bytes32,uint256)", returns="uint256")
SCALE: Final = Function("UNIT()", returns="uint256")
"""Wei of collateral for the smallest unit of the stablecoin that backs it."""
STABLECOIN: Final = Function("stablecoin()", returns="address")
DECIMALS: Final = Function("decimals()", returns="uint8")
CONDITION_OF: Final = Function("outcomes(uint256)", returns="bytes32")
"""Condition of a registered token; the second return value, the complementary token, is not
decoded."""

APPROVE: Final = Function("approve(address,uint256)", returns="bool")
APPROVE_ALL: Final = Function("setApprovalForAll(address,bool)")
MINT: Final = Function("mint(address,uint256)")
WRAP: Final = Function("wrap(address,uint256)")
UNWRAP: Final = Function("unwrap(address,uint256)")
TRANSFER: Final = Function("transfer(address,uint256)", returns="bool")
TRANSFER_FROM: Final = Function("transferFrom(address,address,uint256)", returns="bool")
PERMIT: Final = Function("permit(address,address,uint256,uint256,uint8,bytes32,bytes32)")
TOKEN_FROM: Final = Function("safeTransferFrom(address,address,uint256,uint256,bytes)")
SPLIT: Final = Function("splitPosition(address,bytes32,bytes32,uint256[],uint256)")
MERGE: Final = Function("mergePositions(address,bytes32,bytes32,uint256[],uint256)")
REDEEM: Final = Function("redeemPositions(address,bytes32,bytes32,uint256[])")
PREPARE: Final = Function("prepareCondition(address,bytes32,uint256)")
REPORT: Final = Function("reportPayouts(bytes32,uint256[])")

TRANSFERRED: Final = Event("Transfer(address indexed from,address indexed to,uint256 value)")
APPROVED: Final = Event("Approval(address indexed owner,address indexed spender,uint256 value)")
APPROVED_ALL: Final = Event(
    "ApprovalForAll(address indexed owner,address indexed operator,bool approved)"
)
TOKEN_TRANSFERRED: Final = Event(
    "TransferSingle(address indexed operator,address indexed from,address indexed to,"
    "uint256 id,uint256 value)"
)
HAS_SPLIT: Final = Event(
    "PositionSplit(address indexed stakeholder,address collateralToken,"
    "bytes32 indexed parentCollectionId,bytes32 indexed conditionId,uint256[] partition,"
    "uint256 amount)"
)
HAS_MERGED: Final = Event(
    "PositionsMerge(address indexed stakeholder,address collateralToken,"
    "bytes32 indexed parentCollectionId,bytes32 indexed conditionId,uint256[] partition,"
    "uint256 amount)"
)
HAS_REDEEMED: Final = Event(
    "PayoutRedemption(address indexed redeemer,address indexed collateralToken,"
    "bytes32 indexed parentCollectionId,bytes32 conditionId,uint256[] indexSets,uint256 payout)"
)
IS_PREPARED: Final = Event(
    "ConditionPreparation(bytes32 indexed conditionId,address indexed oracle,"
    "bytes32 indexed questionId,uint256 outcomeSlotCount)"
)
IS_RESOLVED: Final = Event(
    "ConditionResolution(bytes32 indexed conditionId,address indexed oracle,"
    "bytes32 indexed questionId,uint256 outcomeSlotCount,uint256[] payoutNumerators)"
)
IS_REGISTERED: Final = Event(
    "ConditionRegistered(bytes32 indexed conditionId,uint256 yes,uint256 no)"
)


class StepBuilder:
    """Builds the steps of operations. The first argument of each method is the step's name.

    Args:
        addresses: addresses of the contracts.
        operator: sender of the steps.
    """

    def __init__(self, addresses: Addresses, operator: str) -> None:
        self._operator = operator
        self._stablecoin = addresses.stablecoin
        self._collateral = addresses.collateral
        self._tokens = addresses.conditional_tokens
        self._exchange = addresses.exchange

    def mint(self, name: str, units: int) -> StepCall:
        """Mint test dollars to the operator."""
        return call(name, self._stablecoin, TRANSFERRED, MINT, self._operator, units * UNIT)

    def wrap(self, name: str, user: str, amount: int) -> StepCall:
        """Wrap stablecoin of the operator, in its smallest unit, into collateral of a wallet."""
        return call(name, self._collateral, TRANSFERRED, WRAP, user, amount)

    def unwrap(self, name: str, user: str, amount: int) -> StepCall:
        """Unwrap collateral of the operator, in wei, into stablecoin of a wallet."""
        return call(name, self._collateral, TRANSFERRED, UNWRAP, user, amount)

    def approve(self, name: str, token: str, spender: str) -> StepCall:
        """Approve a contract for an unlimited amount of the operator's balance of a token."""
        return call(name, token, APPROVED, APPROVE, spender, UINT256_MAX)

    def approve_tokens(self, name: str, spender: str) -> StepCall:
        """Approve a contract for all outcome tokens of the operator."""
        return call(name, self._tokens, APPROVED_ALL, APPROVE_ALL, spender, True)

    def permit(
        self,
        name: str,
        user: str,
        value: int,
        deadline: int,
        v: int,
        r: bytes,
        s: bytes,
        *,
        token: str,
    ) -> StepCall:
        """Submit a wallet's signed approval of an ERC-20."""
        arguments = user, self._operator, value, deadline, v, r, s
        return call(name, token, APPROVED, PERMIT, *arguments)

    def pull(self, name: str, user: str, amount: int, token: str) -> StepCall:
        """Transfer an ERC-20 from a wallet to the operator."""
        arguments = user, self._operator, amount
        return call(name, token, TRANSFERRED, TRANSFER_FROM, *arguments)

    def pay(self, name: str, user: str, amount: int, token: str = "") -> StepCall:
        """Transfer an ERC-20 from the operator to a wallet; without a token, collateral."""
        return call(name, token or self._collateral, TRANSFERRED, TRANSFER, user, amount)

    def pull_token(self, name: str, user: str, token: int, amount: int) -> StepCall:
        """Transfer an outcome token from a wallet to the operator."""
        arguments = user, self._operator, token, amount, b""
        return call(name, self._tokens, TOKEN_TRANSFERRED, TOKEN_FROM, *arguments)

    def pay_token(self, name: str, user: str, token: int, amount: int) -> StepCall:
        """Transfer an outcome token from the operator to a wallet; a contract wallet runs code."""
        arguments = self._operator, user, token, amount, b""
        step = call(name, self._tokens, TOKEN_TRANSFERRED, TOKEN_FROM, *arguments)
        return step._replace(gas_max=TOKEN_TRANSFER_GAS)

    def split(self, name: str, condition: bytes, amount: int) -> StepCall:
        """Split collateral into both outcome tokens."""
        arguments = self._collateral, NO_PARENT, condition, INDEX_SETS, amount
        return call(name, self._tokens, HAS_SPLIT, SPLIT, *arguments)

    def merge(self, name: str, condition: bytes, amount: int) -> StepCall:
        """Merge both outcome tokens into collateral."""
        arguments = self._collateral, NO_PARENT, condition, INDEX_SETS, amount
        return call(name, self._tokens, HAS_MERGED, MERGE, *arguments)

    def redeem(self, name: str, condition: bytes, index_sets: list[int]) -> StepCall:
        """Redeem the operator's whole balance of the tokens of these index sets."""
        arguments = self._collateral, NO_PARENT, condition, index_sets
        return call(name, self._tokens, HAS_REDEEMED, REDEEM, *arguments)

    def prepare(self, name: str, question: bytes, oracle: str = "") -> StepCall:
        """Prepare the condition of a question and an oracle, by default the operator."""
        arguments = oracle or self._operator, question, len(INDEX_SETS)
        return call(name, self._tokens, IS_PREPARED, PREPARE, *arguments)

    def register(self, name: str, condition: bytes) -> StepCall:
        """Register the tokens of a condition with the exchange."""
        return call(name, self._exchange, IS_REGISTERED, REGISTER, condition)

    def deposit(self, name: str, user: str, asset: int, amount: int) -> StepCall:
        """Deposit an asset of the operator into the escrow of a wallet."""
        return call(name, self._exchange, DEPOSITED, DEPOSIT, user, asset, amount)

    def request_withdrawal(self, name: str, *arguments: Any) -> StepCall:
        """Submit a wallet's signed request to withdraw from escrow."""
        event, function = WITHDRAWAL_REQUESTED, REQUEST_WITHDRAWAL_FOR
        return call(name, self._exchange, event, function, *arguments)

    def withdraw(self, name: str, user: str, asset: int) -> StepCall:
        """Pay a requested withdrawal from escrow to its wallet; a contract wallet runs code."""
        return call(name, self._exchange, WITHDRAWN, WITHDRAW, user, asset)

    def report(self, name: str, question: bytes, payouts: tuple[int, int]) -> StepCall:
        """Report the payouts of a question."""
        return call(name, self._tokens, IS_RESOLVED, REPORT, question, payouts)


def call(name: str, contract: str, event: Event, function: Function, *arguments: Any) -> StepCall:
    """Return the step that calls a function of a contract, which must emit an event."""
    expects = f"{contract.lower()} {event.topic}"
    return StepCall(name, contract, function.encode(*arguments), expects)
