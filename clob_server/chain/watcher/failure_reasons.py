"""Error texts of failed fills: a stable name, the rule, the value and the limit.

The revert data of a fill may come from the code of a wallet that receives tokens, so it may be
false. These texts repeat it; :mod:`clob_server.chain.watcher.failures` finds the responsible maker.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from clob.signing import ZERO_ADDRESS
from clob.wire.operations import FillBody, PartyBody
from clob_server.chain.eth.abi import PANICS, printable, revert_error, show
from clob_server.chain.eth.exchange_abi import DELAY_S, FILL_GAS

REASON_MAX: Final = 256
"""Maximum length of an error text, which is also the limit of the log."""
SHOWN_BYTES: Final = 32
"""Number of bytes shown of an unknown error."""
CENTS: Final = 100
"""Cents per unit of collateral."""
BUY: Final = 0
"""Side of a buy order."""

ERROR_NAMES: Final[Mapping[str, str]] = {
    "SafeMath: subtraction overflow": "InsufficientTokens",
    "ERC1155: need operator approval for 3rd party transfers.": "TokensNotApproved",
    "ERC1155: got unknown value from onERC1155Received": "TokensNotAccepted",
}
"""Names for the revert messages of ConditionalTokens."""
NO_REASON: Final = "NoReason"
"""Name for a revert without data."""
DESCRIPTIONS: Final[Mapping[str, str]] = {
    # Balances and approvals.
    "ERC20InsufficientBalance": "{sender} has {balance} wei of collateral; {needed} are needed",
    "ERC20InsufficientAllowance": (
        "{who} has approved {allowance} wei of collateral to the exchange; {needed} are needed"
    ),
    "InsufficientTokens": "{who} has less than {size} wei of the sold token",
    "TokensNotApproved": "{who} has not approved the exchange for outcome tokens",
    "TokensNotAccepted": "the contract {who} does not accept outcome tokens",
    "InsufficientEscrow": (
        "{wallet} has {balance} wei of asset {asset} in escrow; {needed} are needed"
    ),
    # Signatures, permissions and cancellations.
    "NotGasless": "the order is not signed and {maker} has not allowed unsigned orders",
    "UnknownSignatureType": "signatureType must be 0 or 1; got {signatureType}",
    "UnusableSignature": "invalid signature {signature}",
    "WrongSigner": "the order names the signer {named}; the signature is of {found}",
    "NotDelegate": "the order is signed by {signer}, which is not a delegate of {maker}",
    "WrongSide": "side must be 0 or 1; got {side}",
    "TakerNotSupported": "taker must be the zero address or the operator; got {taker}",
    "Expired": f"the order expired at {{expiration}}, more than {DELAY_S} s before its settlement",
    "NonceTooLow": "the order has nonce {nonce}; its maker raised the minimum to {least}",
    "Cancelled": "the order was cancelled on the chain",
    "NotPayer": "the wallet {wallet} does not allow paying for {maker}",
    "NotPayee": "{maker} does not allow paying the wallet {wallet}",
    # Errors of the server.
    "PriceOutOfRange": "price must be from 1 to 99 (cents); got {price}",
    "WrongPrice": "the order's amounts do not allow a price of {price} cents",
    "FeeTooHigh": "the order allows a fee of at most {most} bps; got {feeRateBps}",
    "NothingToFill": "size must be above 0",
    "Overfilled": "the fill would raise the traded size to {size} wei; the order is for {most}",
    "Overpaid": "the fill would raise the paid collateral to {debit} wei; the order allows {most}",
    "OrdersDoNotMeet": "orders on the same side need two tokens, on opposite sides one token",
    "SizeNotWhole": "size of a complementary fill must be a multiple of {unit} wei; got {size}",
    "NotToken": "tokenId must be an outcome token; got {tokenId}",
    "NotComplementary": "the tokens {tokenId} and {other} belong to different conditions",
    # Other errors.
    NO_REASON: f"the fill used up {FILL_GAS} gas or reverted without a reason",
    "Refused": "{words}",
    "Panic": "{words}",
    "Unknown": "unknown error {words}",
}
"""Texts by error name, formatted with the error's values; ``who`` is the responsible wallet."""


class Reason(NamedTuple):
    """Decoded revert reason of a fill."""

    name: str
    """Name of the contract's error, or a key of :data:`DESCRIPTIONS` for other revert data."""
    values: Mapping[str, Any]
    """Values by the contract's parameter names."""


def read_reason(data: bytes) -> Reason:
    """Decode the first 256 bytes of the revert data of a fill."""
    if not data:
        return Reason(NO_REASON, {})
    error = revert_error(data)
    if error is None:
        return Reason("Unknown", {"words": f"0x{data[:SHOWN_BYTES].hex()}"})
    if error.name == "Error":
        words = printable(error.values["words"])
        return Reason(ERROR_NAMES.get(words, "Refused"), {"words": words})
    if error.name == "Panic":
        code = error.values["code"]
        return Reason("Panic", {"words": f"0x{code:02x}: {PANICS.get(code, 'an unknown code')}"})
    return Reason(error.name, error.values)


def describe(reason: Reason, fill: FillBody | None = None, who: Sequence[str] = ()) -> str:
    """Format the error text of a fill: stable name, colon, description.

    Args:
        reason: the decoded revert reason.
        fill: the fill; None if it is unknown.
        who: responsible wallets.
    """
    values = {name: show(value) for name, value in reason.values.items()}
    context = {"who": " or ".join(who) or "somebody", "size": "the" if fill is None else fill.size}
    words = DESCRIPTIONS.get(reason.name)
    if words is None:
        detail = ", ".join(f"{name}={value}" for name, value in values.items())
    else:
        detail = words.format_map(context | values)
    return printable(f"{reason.name}: {detail}", REASON_MAX)


# ----- properties of a fill ------------------------------------------------------------------


def parties(fill: FillBody) -> tuple[PartyBody, PartyBody]:
    """Return both orders, the resting one first."""
    return fill.resting, fill.incoming


def payer(party: PartyBody) -> str:
    """Return the wallet that pays collateral for a buy or receives it for a sale."""
    return party.maker if party.wallet == ZERO_ADDRESS else party.wallet


def payment(fill: FillBody, party: PartyBody) -> int:
    """Return the collateral that a buy order pays in a fill, in wei."""
    size = int(fill.size)
    part = size * fill.price // CENTS
    is_rest = party is fill.incoming and party.token_id != fill.resting.token_id
    return size - part if is_rest else part
