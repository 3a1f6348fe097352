"""The signed order: twelve fields of the CTF exchange, and the signature over them."""

from typing import ClassVar, Final, Self

from clob.order import Side
from clob.signing import amounts, fields
from clob.signing.schema import Field, Schema, Written
from clob.signing.signed_struct import Signed

ZERO_ADDRESS: Final = "0x0000000000000000000000000000000000000000"
"""As a taker: anybody."""

ORDER: Final = Schema(
    "Order",
    (
        Field("salt", "uint256", "salt", fields.salt, Written.AS_IT_IS, required=False),
        Field("maker", "address", "maker", fields.address, Written.AS_IT_IS),
        Field(
            "signer", "address", "signer", fields.address, Written.AS_IT_IS,
            required=False, same_as="maker",
        ),
        Field("taker", "address", "taker", fields.address, Written.AS_IT_IS, required=False),
        Field("tokenId", "uint256", "token_id"),
        Field("makerAmount", "uint256", "maker_amount", fields.amount),
        Field("takerAmount", "uint256", "taker_amount", fields.amount),
        Field("expiration", "uint256", "expiration_s", written=Written.NUMBER, required=False),
        Field("nonce", "uint256", "nonce", required=False),
        Field("feeRateBps", "uint256", "fee_rate_bps", written=Written.NUMBER, required=False),
        Field("side", "uint8", "side", fields.side, Written.NUMBER, required=False),
        Field(
            "signatureType", "uint8", "signature_type", fields.uint8, Written.NUMBER,
            required=False,
        ),
    ),
    signer="signer",
    signature_type="signature_type",
)  # fmt: skip
"""The order of the CTF exchange, as its contract and its clients have it (decision 14)."""


class SignedOrder(Signed, frozen=True, kw_only=True, gc=False):
    """An order as its signer signed it. Building one checks nothing; ``verify`` does.

    In JSON the fields have the names of the specification (:data:`ORDER`); addresses come out as
    EIP-55 writes them.
    """

    SCHEMA: ClassVar[Schema] = ORDER

    salt: int | str = 0
    """What tells apart two orders that are otherwise alike, as it came (decision 11), but that
    decimal digits of more than 2**53 - 1 are the number."""
    maker: str
    """The wallet that owns what is traded."""
    signer: str
    """The wallet that signs: the maker, or one he allowed to."""
    taker: str = ZERO_ADDRESS
    """Who may fill it; the zero address is anybody."""
    token_id: int
    """The outcome token."""
    maker_amount: int
    """Wei. A buy: collateral. A sell: tokens."""
    taker_amount: int
    """Wei. A buy: tokens. A sell: collateral."""
    expiration_s: int = 0
    """The last Unix second in which it may trade; 0 is never to expire."""
    nonce: int = 0
    """The maker's nonce: raising it takes out every order of a lower one."""
    fee_rate_bps: int = 0
    """The most it may be charged, in basis points."""
    side: int = Side.BUY
    """Buy or sell, a :class:`~clob.Side`."""
    signature_type: int = 1
    """How it is signed, a number that the profile knows (:class:`Profile`)."""

    @classmethod
    def from_price_size(
        cls,
        *,
        side: Side,
        price: int,
        size: int,
        maker: str,
        token_id: int,
        salt: int | str,
        signer: str | None = None,
        taker: str = ZERO_ADDRESS,
        expiration_s: int = 0,
        nonce: int = 0,
        fee_rate_bps: int = 0,
        signature_type: int = 1,
    ) -> Self:
        """Make an order, not signed yet, from what one means: so many tokens at so many cents.

        Args:
            side: buy or sell.
            price: cents, 1 to 99.
            size: tokens, in wei.
            maker: the wallet that owns what is traded.
            token_id: the outcome token.
            salt: what tells it apart from another order that is otherwise alike. Two orders with
                the same fields are the same order, which is executed once.
            signer: the wallet that will sign; None is the maker.
            taker: who may fill it; the zero address is anybody.
            expiration_s: the last Unix second in which it may trade; 0 is never to expire.
            nonce: the maker's nonce.
            fee_rate_bps: the most it may be charged, in basis points.
            signature_type: how it will be signed.

        Raises:
            PriceOutOfRangeError: the price is not an integer from 1 to 99.
            InvalidAmountError: the size is no positive integer, or so small that the collateral
                would be 0.
            AmountTooLargeError: the size is more than ``SIZE_MAX``.
            InvalidAddressError: maker, signer or taker is no address.
            InvalidFieldError: token, salt, expiration, nonce, fee rate or type is out of range.
        """
        maker_amount, taker_amount = amounts.amounts_of(side, price, size)
        return cls(
            salt=fields.salt("salt", salt),
            maker=fields.address("maker", maker),
            signer=fields.address("signer", maker if signer is None else signer),
            taker=fields.address("taker", taker),
            token_id=fields.uint("tokenId", token_id),
            maker_amount=maker_amount,
            taker_amount=taker_amount,
            expiration_s=fields.uint("expiration", expiration_s),
            nonce=fields.uint("nonce", nonce),
            fee_rate_bps=fields.uint("feeRateBps", fee_rate_bps),
            side=Side(side),
            signature_type=fields.uint8("signatureType", signature_type),
        )
