"""What the texts of the interface look like, by the name of the field: one spelling everywhere."""

from typing import Final

from clob_server.openapi.described import ADDRESS, MARKET_ID, Schema

DIGITS: Final[Schema] = {"type": "string", "pattern": "^[0-9]+$"}
"""A number in decimal digits."""

FORMATS: Final[dict[str, Schema]] = {
    **dict.fromkeys(("maker", "signer", "taker", "buyer", "seller", "smartWallet"), ADDRESS),
    **dict.fromkeys(
        (
            "makerAmount",
            "takerAmount",
            "filledAmount",
            "size",
            "remaining",
            "filledTokens",
            "filledCollateral",
            "buyerFee",
            "sellerFee",
            "nonce",
        ),
        DIGITS,
    ),
    "tokenId": {"type": "string", "pattern": "^[0-9]{1,78}$"},
    "marketId": MARKET_ID,
    "signature": {"type": "string", "pattern": "^0x[0-9a-f]{130}$"},
    "orderHash": {"type": "string", "pattern": "^0x[0-9a-f]{64}$"},
    "type": {"type": "string", "pattern": "^/docs#[A-Z_]+$"},
}
"""The schema of a text, by the name of its field."""


def format_of(name: str) -> Schema | None:
    """Give the schema of a text by the name of its field; None where it may be any."""
    return FORMATS.get(name)
