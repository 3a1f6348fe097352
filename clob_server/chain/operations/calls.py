"""The functions and events of the contracts, and the steps that operations make of them."""

from typing import Final

from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import Event, Function
from clob_server.chain.eth.exchange_abi import REGISTER
from clob_server.chain.eth.token_ids import NO, YES
from clob_server.chain.tx.gas_limits import GasEstimateCall

GAS_OUT: Final = 250_000
"""How much gas the transfer of a token to a wallet may take: 70,000, and what its code does."""
GAS_GIFT: Final = 60_000
"""How much gas a gift may take: 21,000, and what the wallet's code does."""
NO_PARENT: Final = bytes(32)
"""The parent of collections that split collateral."""
BOTH: Final = (YES, NO)
"""The index sets that a market's collateral is split into."""
UNIT: Final = 10**6
"""What one unit is in the smallest unit of the stablecoin."""
MAX: Final = 2**256 - 1
"""An approval without an end."""

BALANCE: Final = Function("balanceOf(address)", returns="uint256")
ALLOWANCE: Final = Function("allowance(address,address)", returns="uint256")
BALANCES: Final = Function("balanceOfBatch(address[],uint256[])", returns="uint256[]")
IS_APPROVED: Final = Function("isApprovedForAll(address,address)", returns="bool")
SLOTS: Final = Function("getOutcomeSlotCount(bytes32)", returns="uint256")
DENOMINATOR: Final = Function("payoutDenominator(bytes32)", returns="uint256")
NUMERATOR: Final = Function("payoutNumerators(bytes32,uint256)", returns="uint256")
CONDITION_OF: Final = Function("outcomes(uint256)", returns="bytes32")
"""The condition of a token, where the exchange knows it; the other token, which follows, is not
read."""

APPROVE: Final = Function("approve(address,uint256)", returns="bool")
MINT: Final = Function("mint(address,uint256)")
WRAP: Final = Function("wrap(address,uint256)")
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
    """Makes steps.

    Args:
        addresses: where the contracts are.
        operator: who sends the steps.
    """

    def __init__(self, addresses: Addresses, operator: str) -> None:
        self._operator = operator
        self._stablecoin = addresses.stablecoin
        self._collateral = addresses.collateral
        self._tokens = addresses.conditional_tokens
        self._exchange = addresses.exchange

    def mint(self, name: str, units: int) -> GasEstimateCall:
        """Mint test dollars for the operator."""
        data = MINT.encode(self._operator, units * UNIT)
        return GasEstimateCall(name, self._stablecoin, data, left(self._stablecoin, TRANSFERRED))

    def wrap(self, name: str, user: str, units: int) -> GasEstimateCall:
        """Give a wallet collateral for test dollars of the operator."""
        data = WRAP.encode(user, units * UNIT)
        return GasEstimateCall(name, self._collateral, data, left(self._collateral, TRANSFERRED))

    def approve(self, name: str, token: str, spender: str) -> GasEstimateCall:
        """Let a contract take what the operator has of a token."""
        return GasEstimateCall(name, token, APPROVE.encode(spender, MAX), left(token, APPROVED))

    def permit(
        self, name: str, user: str, value: int, deadline: int, v: int, r: bytes, s: bytes
    ) -> GasEstimateCall:
        """Use the approval of collateral that a wallet signed."""
        data = PERMIT.encode(user, self._operator, value, deadline, v, r, s)
        return GasEstimateCall(name, self._collateral, data, left(self._collateral, APPROVED))

    def pull(self, name: str, user: str, amount: int) -> GasEstimateCall:
        """Take collateral from a wallet."""
        data = TRANSFER_FROM.encode(user, self._operator, amount)
        return GasEstimateCall(name, self._collateral, data, left(self._collateral, TRANSFERRED))

    def pay(self, name: str, user: str, amount: int) -> GasEstimateCall:
        """Give collateral to a wallet."""
        data = TRANSFER.encode(user, amount)
        return GasEstimateCall(name, self._collateral, data, left(self._collateral, TRANSFERRED))

    def pull_token(self, name: str, user: str, token: int, amount: int) -> GasEstimateCall:
        """Take a token from a wallet."""
        data = TOKEN_FROM.encode(user, self._operator, token, amount, b"")
        return GasEstimateCall(name, self._tokens, data, left(self._tokens, TOKEN_TRANSFERRED))

    def pay_token(self, name: str, user: str, token: int, amount: int) -> GasEstimateCall:
        """Give a token to a wallet, whose code may take a part in it."""
        data = TOKEN_FROM.encode(self._operator, user, token, amount, b"")
        expects = left(self._tokens, TOKEN_TRANSFERRED)
        return GasEstimateCall(name, self._tokens, data, expects, gas_max=GAS_OUT)

    def split(self, name: str, condition: bytes, amount: int) -> GasEstimateCall:
        """Make collateral into tokens."""
        data = SPLIT.encode(self._collateral, NO_PARENT, condition, BOTH, amount)
        return GasEstimateCall(name, self._tokens, data, left(self._tokens, HAS_SPLIT))

    def merge(self, name: str, condition: bytes, amount: int) -> GasEstimateCall:
        """Make tokens into collateral."""
        data = MERGE.encode(self._collateral, NO_PARENT, condition, BOTH, amount)
        return GasEstimateCall(name, self._tokens, data, left(self._tokens, HAS_MERGED))

    def redeem(self, name: str, condition: bytes, index_sets: list[int]) -> GasEstimateCall:
        """Have all that the operator has of some tokens paid out."""
        data = REDEEM.encode(self._collateral, NO_PARENT, condition, index_sets)
        return GasEstimateCall(name, self._tokens, data, left(self._tokens, HAS_REDEEMED))

    def prepare(self, name: str, question: bytes) -> GasEstimateCall:
        """Prepare the condition of a question."""
        data = PREPARE.encode(self._operator, question, len(BOTH))
        return GasEstimateCall(name, self._tokens, data, left(self._tokens, IS_PREPARED))

    def register(self, name: str, condition: bytes) -> GasEstimateCall:
        """Have the exchange learn the tokens of a condition."""
        data = REGISTER.encode(condition)
        return GasEstimateCall(name, self._exchange, data, left(self._exchange, IS_REGISTERED))

    def report(self, name: str, question: bytes, payouts: tuple[int, int]) -> GasEstimateCall:
        """Report what the outcomes of a question are worth."""
        data = REPORT.encode(question, payouts)
        return GasEstimateCall(name, self._tokens, data, left(self._tokens, IS_RESOLVED))


def left(contract: str, event: Event) -> str:
    """Name a log that a step must leave."""
    return f"{contract.lower()} {event.topic}"
