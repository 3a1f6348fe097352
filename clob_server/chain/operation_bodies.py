"""What an operation of the chain is asked to do, and what its client is told in the end.

Amounts are decimal digits in texts, addresses have the capital letters of EIP-55, hashes are ``0x``
and small letters. Nothing here needs a chain library.
"""

from typing import Literal, TypeAlias

import msgspec


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What all of them have in common: names as JSON has them."""


# ----- what is asked for ---------------------------------------------------------------------


class Body(Struct, frozen=True, kw_only=True, tag_field="kind", tag=lambda name: name[:-4].lower()):
    """What an operation is to do; its tag is the kind of the operation."""


class FaucetBody(Body, frozen=True, kw_only=True):
    """Give a wallet collateral, made of freshly minted test dollars."""

    user: str
    """The wallet."""
    units: int
    """How much, in whole units."""


class Permit(Struct, frozen=True, kw_only=True):
    """A signed approval of collateral (EIP-2612), for the operator."""

    value: str
    """How much is approved, in wei."""
    deadline: str
    """The last Unix second in which it can be used, decimal digits."""
    v: int
    """27 or 28."""
    r: str
    """32 bytes in hex."""
    s: str
    """32 bytes in hex."""


class SplitBody(Body, frozen=True, kw_only=True):
    """Make collateral of a wallet into as much of both tokens."""

    user: str
    """The wallet."""
    amount: str
    """How much collateral, in wei."""
    condition_id: str
    """The condition, 32 bytes in hex."""
    yes_token_id: str
    """The one token, decimal digits."""
    no_token_id: str
    """The other one."""
    permit: Permit | None = None
    """An approval to be used first; None where the wallet approved on chain."""


class MergeBody(Body, frozen=True, kw_only=True):
    """Make as much of both tokens of a wallet into collateral."""

    user: str
    """The wallet."""
    amount: str
    """How much of each token, in wei."""
    condition_id: str
    """The condition, 32 bytes in hex."""
    yes_token_id: str
    """The one token, decimal digits."""
    no_token_id: str
    """The other one."""


class RedeemBody(Body, frozen=True, kw_only=True):
    """Pay out all tokens that a wallet has of a condition which is resolved."""

    user: str
    """The wallet."""
    condition_id: str
    """The condition, 32 bytes in hex."""


class PrepareBody(Body, frozen=True, kw_only=True):
    """Prepare the condition of a question, with the operator as its oracle and two outcomes.

    Where it is prepared already, there is nothing to do, and ``prepareTx`` is null. Where there is
    an exchange, it learns the tokens of the condition, unless it knows them.
    """

    question_id: str
    """The question, 32 bytes in hex."""


class ReportBody(Body, frozen=True, kw_only=True):
    """Report the outcome of a question.

    Where the same was reported already, there is nothing to do, and ``reportTx`` is null.
    """

    question_id: str
    """The question, 32 bytes in hex."""
    outcome: Literal["yes", "no"]
    """What it came to."""


class PartyBody(Struct, frozen=True, kw_only=True, gc=False):
    """An order in a fill, as the exchange contract takes it."""

    salt: str
    """As it was signed: decimal digits, hex, or any other text, of which the hash counts."""
    maker: str
    """Whose order."""
    signer: str
    """Who signed."""
    taker: str
    """The taker named in it."""
    token_id: str
    """The token, decimal digits, as all other numbers here that may have 256 bits."""
    maker_amount: str
    """What its maker gives, in wei."""
    taker_amount: str
    """What he gets, in wei."""
    expiration: str
    """The last Unix second in which it may trade; 0 is never too late."""
    nonce: str
    """Its nonce."""
    fee_rate_bps: str
    """What it allows to be charged, in basis points."""
    side: int
    """0 buys, 1 sells."""
    signature_type: int
    """How it was signed."""
    signature: str
    """0x and 130 hex digits; 0x alone where nobody signed."""
    wallet: str
    """Who pays the collateral of a buy and gets that of a sale; the zero address is the maker."""
    charged_bps: int
    """What is charged, in basis points."""


class FillBody(Struct, frozen=True, kw_only=True, gc=False):
    """A trade to be settled, or the two trades of complementary tokens."""

    trade_id: str
    """Its number on the chain, decimal digits of at most 256 bits."""
    price: int
    """Cents, for the token of the resting order."""
    size: str
    """Tokens, in wei."""
    resting: PartyBody
    """The order that rested."""
    incoming: PartyBody
    """The order that came in."""


class SettleBody(Body, frozen=True, kw_only=True):
    """Settle trades in one transaction, each by itself: what came of each is told as news."""

    fills: list[FillBody]
    """The trades, at most 25, in the order in which they were made."""


AnyBody: TypeAlias = (
    FaucetBody | SplitBody | MergeBody | RedeemBody | PrepareBody | ReportBody | SettleBody
)
"""What the server asks for."""


# ----- what the client is told ---------------------------------------------------------------


class Answer(Struct, frozen=True, kw_only=True):
    """What came of an operation. :attr:`Done.answer` is one of its kind, as JSON."""

    success: bool = True
    """True."""
    message: str
    """The same for people."""


class FaucetAnswer(Answer, frozen=True, kw_only=True):
    """A wallet was given collateral."""

    faucet_tx: str
    """The test dollars were minted."""
    transfer_tx: str
    """They went to the wallet as collateral."""
    gas_tx: str | None
    """The wallet was given money for gas; null where it was not."""
    amount: int
    """How much, in whole units."""


class SplitAnswer(Answer, frozen=True, kw_only=True):
    """Collateral became tokens."""

    permit_tx: str | None
    """The signed approval was used; null where there was none."""
    collateral_transfer_tx: str
    """The collateral went to the operator."""
    split_tx: str
    """It became tokens."""
    yes_transfer_tx: str
    """The one went to the wallet."""
    no_transfer_tx: str
    """So did the other."""
    amount: str
    """How much, in wei."""


class MergeAnswer(Answer, frozen=True, kw_only=True):
    """Tokens became collateral."""

    yes_transfer_tx: str
    """The one token went to the operator."""
    no_transfer_tx: str
    """So did the other."""
    merge_tx: str
    """They became collateral."""
    return_tx: str
    """It went to the wallet."""
    amount: str
    """How much, in wei."""


class RedeemAnswer(Answer, frozen=True, kw_only=True):
    """Tokens of a condition that is resolved were paid out."""

    yes_transfer_tx: str | None
    """The one token went to the operator; null where the wallet had none."""
    no_transfer_tx: str | None
    """So did the other; null where the wallet had none."""
    redeem_tx: str
    """They were paid out."""
    return_tx: str
    """What was paid went to the wallet."""
    amount: str
    """What was paid, in wei of collateral."""


class PrepareAnswer(Answer, frozen=True, kw_only=True):
    """A condition is prepared."""

    prepare_tx: str | None
    """The transaction; null where it was prepared before."""
    register_tx: str | None = None
    """The exchange learnt the tokens; null where it knew them, or there is none."""
    exchange: str = ""
    """The exchange that knows the tokens; empty where none does."""
    condition_id: str
    """The condition, 32 bytes in hex."""
    yes_token_id: str
    """The token that pays if the answer is yes, decimal digits."""
    no_token_id: str
    """The other one."""


class ReportAnswer(Answer, frozen=True, kw_only=True):
    """The outcome of a condition is on the chain."""

    report_tx: str | None
    """The transaction; null where it was reported before."""
    condition_id: str
    """The condition, 32 bytes in hex."""


class SettleAnswer(Answer, frozen=True, kw_only=True):
    """The transaction of a settlement happened, whatever came of its trades."""

    settle_tx: str
    """The transaction."""
