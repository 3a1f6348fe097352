"""Why a fill failed, in the words of the exchange contract and in ours: rule, value and limit.

What a fill reverted with may come from the code of a wallet that receives tokens, and may be
anything. So what is said here is what was told, and who is to blame is another question: see
:mod:`clob_server.chain.watcher.failures`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from clob_server.chain.eth.abi import PANICS, printable, revert_error, show
from clob_server.chain.eth.exchange_abi import DELAY_S, FILL_GAS
from clob_server.chain.operation_bodies import FillBody, PartyBody

REASON_MAX: Final = 256
"""How many characters a reason has at most: as many as the log takes."""
SHOWN_BYTES: Final = 32
"""How much of an answer is shown that nothing here understands."""
CENTS: Final = 100
"""How many hundredths there are."""
BUY: Final = 0
"""The side of a buying order."""
NO_WALLET: Final = f"0x{'0' * 40}"
"""What stands for the maker himself."""

TEXTS: Final[Mapping[str, str]] = {
    "SafeMath: subtraction overflow": "InsufficientTokens",
    "ERC1155: need operator approval for 3rd party transfers.": "TokensNotApproved",
    "ERC1155: got unknown value from onERC1155Received": "TokensNotAccepted",
}
"""Names for what ConditionalTokens says in words."""
NO_REASON: Final = "NoReason"
"""What it is called where there are no words at all."""
WORDS: Final[Mapping[str, str]] = {
    # What a maker has, and allows.
    "ERC20InsufficientBalance": "{sender} has {balance} wei of collateral, and {needed} are needed",
    "ERC20InsufficientAllowance": (
        "{who} lets the exchange take {allowance} wei of collateral, and {needed} are needed"
    ),
    "InsufficientTokens": "{who} has less than {size} wei of the token that is sold",
    "TokensNotApproved": "{who} does not let the exchange move outcome tokens",
    "TokensNotAccepted": "the code of {who} does not accept outcome tokens",
    # What makers sign, and take back.
    "NotGasless": "nobody signed the order, and {maker} does not let unsigned orders settle",
    "UnknownSignatureType": "the signature type must be 0 or 1, not {signatureType}",
    "UnusableSignature": "{signature} is no signature",
    "WrongSigner": "{named} must have signed the order, and {found} did",
    "NotDelegate": "{signer} signed the order, and {maker} does not let him",
    "WrongSide": "the side must be 0 or 1, not {side}",
    "TakerNotSupported": "the taker must be anybody or the operator, not {taker}",
    "Expired": (
        f"the order expired in second {{expiration}}, more than {DELAY_S} s before it was settled"
    ),
    "NonceTooLow": "the order has the nonce {nonce}, and its maker raised it to {least}",
    "Cancelled": "the maker cancelled the order on the chain",
    "NotPayer": "the wallet {wallet} does not pay for {maker}",
    "NotPayee": "{maker} does not let the wallet {wallet} be paid",
    # What the server must not ask for.
    "PriceOutOfRange": "the price must be 1 to 99 cents, not {price}",
    "WrongPrice": "the order allows no price of {price} cents",
    "FeeTooHigh": "the order allows a fee of {most} bps, not of {feeRateBps}",
    "NothingToFill": "the size must be above 0",
    "Overfilled": "{size} wei of tokens would be traded, and the order is for {most}",
    "Overpaid": "{debit} wei of collateral would be paid, and the order allows {most}",
    "OrdersDoNotMeet": "orders of one side meet only for two tokens, of two sides only for one",
    "SizeNotWhole": "the size of two halves must be a multiple of {unit} wei, not {size}",
    "NotComplementary": "the tokens {tokenId} and {other} are not of one condition",
    # What may be anything.
    NO_REASON: f"it used up {FILL_GAS} gas, or was refused without a reason",
    "Refused": "{words}",
    "Panic": "{words}",
    "Unknown": "an error that is not known: {words}",
}
"""What the names mean, with the values that come along; ``who`` is who is to blame for it."""


class Reason(NamedTuple):
    """Why a fill failed."""

    name: str
    """What the contract calls it, or we do; one of :data:`WORDS`, or another of its errors."""
    values: Mapping[str, Any]
    """What it says, by the names of the contract's parameters."""


def read_reason(data: bytes) -> Reason:
    """Read what a fill reverted with.

    Args:
        data: its first 256 bytes.
    """
    if not data:
        return Reason(NO_REASON, {})
    error = revert_error(data)
    if error is None:
        return Reason("Unknown", {"words": f"0x{data[:SHOWN_BYTES].hex()}"})
    if error.name == "Error":
        words = printable(error.values["words"])
        return Reason(TEXTS.get(words, "Refused"), {"words": words})
    if error.name == "Panic":
        code = error.values["code"]
        return Reason("Panic", {"words": f"0x{code:02x}: {PANICS.get(code, 'an unknown code')}"})
    return Reason(error.name, error.values)


def sentence(reason: Reason, fill: FillBody | None = None, who: Sequence[str] = ()) -> str:
    """Say why a fill failed: the name, which stays the same, and what it means.

    Args:
        reason: what it reverted with.
        fill: what was to be settled; None where that is not known.
        who: who is to blame.
    """
    values = {name: show(value) for name, value in reason.values.items()}
    known = {"who": " or ".join(who) or "somebody", "size": "the" if fill is None else fill.size}
    words = WORDS.get(reason.name)
    if words is None:
        said = ", ".join(f"{name}={value}" for name, value in values.items())
    else:
        said = words.format_map(known | values)
    return printable(f"{reason.name}: {said}", REASON_MAX)


# ----- what a fill is about ------------------------------------------------------------------


def parties(fill: FillBody) -> tuple[PartyBody, PartyBody]:
    """Give both orders, that which rested first."""
    return fill.resting, fill.incoming


def payer(party: PartyBody) -> str:
    """Say who pays the collateral of an order that buys, and gets that of one that sells."""
    return party.maker if party.wallet == NO_WALLET else party.wallet


def pays(fill: FillBody, party: PartyBody) -> int:
    """Say how much collateral an order that buys pays in a fill, in wei."""
    size = int(fill.size)
    part = size * fill.price // CENTS
    is_rest = party is fill.incoming and party.token_id != fill.resting.token_id
    return size - part if is_rest else part
