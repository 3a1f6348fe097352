"""Parameters of chain operations and the answers that HTTP clients receive.

Amounts are decimal strings, in wei unless a field says otherwise. Addresses are EIP-55, hashes and
other words are ``0x`` and lower-case hex, token ids are decimal digits. ``user`` is a wallet. This
module needs no chain library.
"""

from typing import Literal, TypeAlias

import msgspec

from clob.wire import Wire


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the messages: JSON names are camelCase."""


# ----- parameters ----------------------------------------------------------------------------


class Body(Struct, frozen=True, kw_only=True, tag_field="kind", tag=lambda name: name[:-4].lower()):
    """Parameters of an operation; the tag is the kind of the operation."""


def kind_of(body: msgspec.Struct) -> str:
    """Return the kind of an operation from its parameters."""
    return str(type(body).__struct_config__.tag)


class FaucetBody(Body, frozen=True, kw_only=True):
    """Send collateral, backed by newly minted test dollars, to a wallet."""

    user: str
    units: int
    """Amount in whole units."""


class Permit(Struct, frozen=True, kw_only=True):
    """A signed EIP-2612 approval of an ERC-20 for the operator."""

    value: str
    """Approved amount, in the smallest unit of the token."""
    deadline: str
    """Last valid Unix second, decimal digits."""
    v: int
    """27 or 28."""
    r: str
    s: str


class ConversionBody(Body, frozen=True, kw_only=True):
    """Parameters of an operation between collateral and both outcome tokens of a condition."""

    user: str
    amount: str
    condition_id: str
    yes_token_id: str
    no_token_id: str


class SplitBody(ConversionBody, frozen=True, kw_only=True):
    """Convert collateral of a wallet into the same amount of both outcome tokens."""

    permit: Permit | None = None
    """Approval to submit first; None if the wallet has approved on chain."""


class MergeBody(ConversionBody, frozen=True, kw_only=True):
    """Convert the same amount of both outcome tokens of a wallet into collateral."""


class RedeemBody(Body, frozen=True, kw_only=True):
    """Redeem all tokens of a wallet for a resolved condition."""

    user: str
    condition_id: str


class DepositBody(Body, frozen=True, kw_only=True):
    """Move an asset of a wallet into its escrow in the exchange contract."""

    user: str
    asset: str
    """``collateral``, or an outcome token in decimal digits."""
    amount: str
    permit: Permit | None = None
    """Approval of collateral to submit first; None if the wallet has approved on chain."""


class WithdrawRequestBody(Body, frozen=True, kw_only=True, tag="withdraw-request"):
    """Submit the signed request of a wallet to withdraw from its escrow after the delay."""

    user: str
    asset: str
    """``collateral``, or an outcome token in decimal digits."""
    amount: str
    """Requested amount, which replaces an earlier one; 0 withdraws the request."""
    nonce: str
    """Number that the wallet uses once, in any order, decimal digits."""
    deadline: str
    """Last valid Unix second, decimal digits."""
    signature: str
    """Signature of the wallet over ``Withdrawal(address wallet,uint256 asset,uint256 amount,uint256
    nonce,uint256 deadline)`` in the domain of orders; the asset of collateral is 0."""


class WithdrawBody(Body, frozen=True, kw_only=True):
    """Pay a requested withdrawal to its wallet, once its delay has passed."""

    user: str
    asset: str
    """``collateral``, or an outcome token in decimal digits."""


class WrappingBody(Body, frozen=True, kw_only=True):
    """Parameters of an operation between stablecoin and collateral."""

    user: str
    amount: str
    """Amount of collateral."""
    permit: Permit | None = None
    """Approval of the token that is converted, to submit first; None if the wallet has approved on
    chain."""


class WrapBody(WrappingBody, frozen=True, kw_only=True):
    """Convert stablecoin of a wallet into collateral."""


class UnwrapBody(WrappingBody, frozen=True, kw_only=True):
    """Convert collateral of a wallet into stablecoin."""


class PrepareBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Prepare the condition of a question with two outcomes.

    ``prepareTx`` is null if it is prepared already. If there is an exchange contract, the tokens of
    the condition are registered with it, unless they are registered already.
    """

    question_id: str
    oracle: str = ""
    """Oracle of the condition; empty for the operator."""
    prepares: bool = False
    """Whether to prepare the condition of ``oracle``, which else must exist already."""


class ReportBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Report the outcome of a question.

    If the same outcome was reported already, ``reportTx`` is null.
    """

    question_id: str
    outcome: Literal["yes", "no"]
    oracle: str = ""
    """Oracle of the condition, which sends the transaction; empty for the operator."""


class PartyBody(Struct, frozen=True, kw_only=True, gc=False):
    """An order in a fill, as the exchange contract receives it."""

    salt: str
    """Salt as signed: decimal digits, hex, or any other text, which is hashed."""
    maker: str
    """Maker of the order."""
    signer: str
    """Signer of the order."""
    taker: str
    """Taker named in the order."""
    token_id: str
    """Token id, decimal digits like all numbers here that can have 256 bits."""
    maker_amount: str
    """Amount that the maker gives, in wei."""
    taker_amount: str
    """Amount that the maker receives, in wei."""
    expiration: str
    """Last Unix second in which it may trade; 0 for no limit."""
    nonce: str
    """Nonce of the order."""
    fee_rate_bps: str
    """Maximum fee rate that the order allows, in basis points."""
    side: int
    """0 buys, 1 sells."""
    signature_type: int
    """Signature type, 0 or 1."""
    signature: str
    """0x and 130 hex digits; 0x alone for an unsigned order."""
    wallet: str
    """Wallet that pays collateral for a buy and receives it for a sale; the zero address stands for
    the maker."""
    charged_bps: int
    """Fee rate that is charged, in basis points."""


class FillBody(Struct, frozen=True, kw_only=True, gc=False):
    """A trade to settle; for complementary tokens, both of its trades."""

    trade_id: str
    """Trade id on the chain, decimal digits of at most 256 bits."""
    price: int
    """Cents, for the token of the resting order."""
    size: str
    """Amount of tokens, in wei."""
    resting: PartyBody
    """The resting order."""
    incoming: PartyBody
    """The incoming order."""


class SettleBody(Body, frozen=True, kw_only=True):
    """Settle trades in one transaction, each independently; the watcher reports the results."""

    fills: list[FillBody]
    """The trades, at most 25, in trading order."""
    custody: Literal["wallet", "escrow"] = "wallet"
    """Where the assets of all trades are: in the wallets, or in escrow in the contract."""


AnyBody: TypeAlias = (
    FaucetBody
    | SplitBody
    | MergeBody
    | RedeemBody
    | DepositBody
    | WithdrawRequestBody
    | WithdrawBody
    | WrapBody
    | UnwrapBody
    | PrepareBody
    | ReportBody
    | SettleBody
)
"""Parameters of any operation that the server starts."""


# ----- answers -------------------------------------------------------------------------------


class Answer(Struct, frozen=True, kw_only=True):
    """Result of an operation; ``OperationDone.answer`` is a subclass of it as JSON."""

    success: bool = True
    """True."""
    message: str
    """The result as a sentence."""


class FaucetAnswer(Answer, frozen=True, kw_only=True):
    """Collateral was sent to a wallet."""

    faucet_tx: str
    """Transaction that minted test dollars."""
    transfer_tx: str
    """Transaction that sent them to the wallet as collateral."""
    gas_tx: str | None
    """Transaction that sent ether for gas to the wallet; null if there was none."""
    amount: int
    """Amount in whole units."""


class SplitAnswer(Answer, frozen=True, kw_only=True):
    """Collateral was converted into tokens."""

    permit_tx: str | None
    """Transaction that submitted the signed approval; null if there was none."""
    collateral_transfer_tx: str
    """Transaction that sent the collateral to the operator."""
    split_tx: str
    """Transaction that split it into tokens."""
    yes_transfer_tx: str
    """Transaction that sent the YES tokens to the wallet."""
    no_transfer_tx: str
    """Transaction that sent the NO tokens to the wallet."""
    amount: str
    """Amount, in wei."""


class MergeAnswer(Answer, frozen=True, kw_only=True):
    """Tokens were converted into collateral."""

    yes_transfer_tx: str
    """Transaction that sent the YES tokens to the operator."""
    no_transfer_tx: str
    """Transaction that sent the NO tokens to the operator."""
    merge_tx: str
    """Transaction that merged them into collateral."""
    return_tx: str
    """Transaction that sent the collateral to the wallet."""
    amount: str
    """Amount, in wei."""


class RedeemAnswer(Answer, frozen=True, kw_only=True):
    """Tokens of a resolved condition were redeemed."""

    yes_transfer_tx: str | None
    """Transaction that sent the YES tokens to the operator; null if the wallet had none."""
    no_transfer_tx: str | None
    """Transaction that sent the NO tokens to the operator; null if the wallet had none."""
    redeem_tx: str
    """Transaction that redeemed them."""
    return_tx: str
    """Transaction that sent the payout to the wallet."""
    amount: str
    """Payout, in wei of collateral."""


class DepositAnswer(Answer, frozen=True, kw_only=True):
    """An asset of a wallet is in its escrow."""

    permit_tx: str | None
    """Transaction that submitted the signed approval; null if there was none."""
    pull_tx: str
    """Transaction that sent the asset to the operator."""
    deposit_tx: str
    """Transaction that deposited it."""
    asset: str
    """``collateral``, or the outcome token."""
    amount: str
    """Amount, in wei."""


class WithdrawRequestAnswer(Answer, frozen=True, kw_only=True):
    """A withdrawal is requested."""

    request_tx: str
    """Transaction that submitted the request."""
    from_s: int = msgspec.field(name="from")
    """Unix second from which the withdrawal can be paid."""
    asset: str
    """``collateral``, or the outcome token."""
    amount: str
    """Requested amount, in wei."""


class WithdrawAnswer(Answer, frozen=True, kw_only=True):
    """A requested withdrawal was paid."""

    withdraw_tx: str
    """Transaction that paid it."""
    asset: str
    """``collateral``, or the outcome token."""
    amount: str
    """Amount that the wallet received, in wei."""


class WrapAnswer(Answer, frozen=True, kw_only=True):
    """Stablecoin was converted into collateral."""

    permit_tx: str | None
    """Transaction that submitted the signed approval; null if there was none."""
    stablecoin_transfer_tx: str
    """Transaction that sent the stablecoin to the operator."""
    wrap_tx: str
    """Transaction that wrapped it into collateral of the wallet."""
    amount: str
    """Amount of collateral, in wei."""
    stablecoin_amount: str
    """Amount of stablecoin, in its smallest unit."""


class UnwrapAnswer(Answer, frozen=True, kw_only=True):
    """Collateral was converted into stablecoin."""

    permit_tx: str | None
    """Transaction that submitted the signed approval; null if there was none."""
    collateral_transfer_tx: str
    """Transaction that sent the collateral to the operator."""
    unwrap_tx: str
    """Transaction that unwrapped it into stablecoin of the wallet."""
    amount: str
    """Amount of collateral, in wei."""
    stablecoin_amount: str
    """Amount of stablecoin, in its smallest unit."""


class PrepareAnswer(Answer, frozen=True, kw_only=True):
    """A condition is prepared."""

    prepare_tx: str | None
    """Transaction that prepared it; null if it was prepared before."""
    register_tx: str | None = None
    """Transaction that registered the tokens with the exchange; null if they were registered before
    or there is no exchange."""
    exchange: str = ""
    """Exchange with which the tokens are registered; empty without one."""
    condition_id: str
    yes_token_id: str
    no_token_id: str


class ReportAnswer(Answer, frozen=True, kw_only=True):
    """The outcome of a condition is reported."""

    report_tx: str | None
    """Transaction that reported it; null if it was reported before."""
    condition_id: str


class SettleAnswer(Answer, frozen=True, kw_only=True):
    """A settlement transaction succeeded; each trade may still have failed."""

    settle_tx: str


# ----- status --------------------------------------------------------------------------------


class OperationBody(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Status of a chain operation."""

    operation: str
    """Operation id."""
    kind: str
    """Kind of operation."""
    status: str
    """``pending``, ``done``, ``failed`` (and undone) or ``stuck`` (needs the operator)."""
    answer: msgspec.Raw | None = None
    """Final response; only if ``done``."""
    detail: str | None = None
    """The step that failed, or that waits for its block, and the reason."""
    hashes: dict[str, str | None] | None = None
    """Transaction hashes so far, by step; absent once ``done``."""


Status: TypeAlias = Literal["pending", "done", "failed", "stuck"]
"""Status of an operation. ``pending``: in progress. ``done``: every step succeeded. ``failed``: a
step failed and everything taken was returned. ``stuck``: a step can neither succeed nor be undone;
the operation waits for a retry by the operator."""


class Counts(Struct, frozen=True, kw_only=True):
    """Number of operations by status."""

    pending: int
    """In progress."""
    done: int
    """Every step succeeded."""
    failed: int
    """A step failed and everything taken was returned."""
    stuck: int
    """Waiting for the administrator of the server."""


class StepView(Struct, frozen=True, kw_only=True):
    """A transaction of an operation."""

    name: str
    """Name of the step as in the answer, e.g. ``mergeTx``."""
    status: str
    """``signed``: sent or about to be sent. ``confirmed``: succeeded. ``reverted``: in a block, and
    failed. ``lost``: another sender used its nonce, and the step was signed again. ``failed``: the
    node reports that it cannot succeed; it was never sent."""
    nonce: int | None
    """Nonce of the operator; None if it was never signed, or lost its nonce."""
    hashes: list[str]
    """One hash for each fee it was sent with, newest last."""
    num_bumps: int
    """How often its fee was raised."""
    block: int | None
    """Number of its block."""
    error: str | None
    """Reason of the failure."""
    changed_ms: int
    """Time of the last change, Unix milliseconds."""


class OperationView(Struct, frozen=True, kw_only=True):
    """An operation with its transactions, for the admin API."""

    number: int
    """Position among all operations, counted from 1."""
    id: str
    """Id chosen by the server."""
    kind: str
    """Kind of operation; the worker starts ``deploy``, ``found`` and ``gap`` by itself."""
    status: Status
    """Status of the operation."""
    body: msgspec.Raw
    """Parameters of the operation, as JSON."""
    error: str | None
    """Reason of the failure."""
    begun_ms: int
    """Time of the request, Unix milliseconds."""
    changed_ms: int
    """Time of the last change, Unix milliseconds."""
    steps: list[StepView]
    """Its transactions in the order they were signed."""
