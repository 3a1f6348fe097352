"""The signed order: the twelve fields of the CTF exchange, and a signature."""

from typing import ClassVar, Final, Self

from clob.order import Side
from clob.signing import amounts, fields
from clob.signing.schema import Field, Schema, Written
from clob.signing.signed_struct import Signed

ZERO_ADDRESS: Final = "0x0000000000000000000000000000000000000000"
"""As taker: anyone."""

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
"""The order struct of the CTF exchange contract (decision 14)."""


class SignedOrder(Signed, frozen=True, kw_only=True, gc=False):
    """A signed order. The constructor checks nothing; see ``verify``.

    JSON uses the field names of the specification (:data:`ORDER`); addresses read from JSON are
    checksummed (EIP-55).
    """

    SCHEMA: ClassVar[Schema] = ORDER

    salt: int | str = 0
    """Distinguishes otherwise equal orders, in the form received (decision 11); decimal strings
    above 2**53 - 1 become integers."""
    maker: str
    """The wallet that trades."""
    signer: str
    """The wallet that signs: the maker or its delegate."""
    taker: str = ZERO_ADDRESS
    """The wallet that may fill it; the zero address is anyone."""
    token_id: int
    """The outcome token."""
    maker_amount: int
    """Wei. A buy: collateral. A sell: tokens."""
    taker_amount: int
    """Wei. A buy: tokens. A sell: collateral."""
    expiration_s: int = 0
    """The last Unix second in which it may trade; 0 never expires."""
    nonce: int = 0
    """The maker's nonce; raising it cancels every order with a lower one."""
    fee_rate_bps: int = 0
    """Maximum fee rate, in basis points."""
    side: int = Side.BUY
    """Buy or sell, a :class:`~clob.Side`."""
    signature_type: int = 1
    """How it is signed, as defined by the :class:`Profile`."""

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
        """Return an unsigned order from price and size.

        Args:
            side: buy or sell.
            price: cents, 1 to 99.
            size: tokens, in wei.
            maker: the wallet that trades.
            token_id: the outcome token.
            salt: distinguishes otherwise equal orders. Orders with equal fields are one order,
                which executes once.
            signer: the wallet that will sign; None is the maker.
            taker: the wallet that may fill it; the zero address is anyone.
            expiration_s: the last Unix second in which it may trade; 0 never expires.
            nonce: the maker's nonce.
            fee_rate_bps: maximum fee rate, in basis points.
            signature_type: how it will be signed.

        Raises:
            PriceOutOfRangeError: the price is not an integer from 1 to 99.
            InvalidAmountError: the size is not a positive integer, or its collateral is 0.
            AmountTooLargeError: the size exceeds ``SIZE_MAX``.
            InvalidAddressError: maker, signer or taker is not an address.
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
