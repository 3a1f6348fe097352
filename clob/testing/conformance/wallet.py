"""Wallets with fresh keys, and the bodies that they sign."""

import secrets
from typing import Any, Final, NamedTuple

from clob.order import Side
from clob.signing import Domain, SignedCancel, SignedOrder, sign
from clob.signing.wallet import load_eth_account

ONE: Final = 10**18
"""One token, in wei."""


class MarketIds(NamedTuple):
    """A market and its two tokens."""

    id: str
    """Market id."""
    yes: int
    """YES token."""
    no: int
    """NO token."""


class Wallet:
    """A wallet with a new key.

    Args:
        domain: domain of its signatures.
    """

    def __init__(self, domain: Domain) -> None:
        account = load_eth_account().create()
        self._key: Final = bytes(account.key)
        self.domain = domain
        """Domain of its signatures."""
        self.address: Final = str(account.address)
        """Its address, checksummed."""

    def order(
        self,
        market: MarketIds,
        side: Side = Side.BUY,
        price: int = 50,
        size: int = ONE,
        *,
        token: int | None = None,
        unsigned: dict[str, Any] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Return the body of a signed order.

        Args:
            market: its market.
            side: buy or sell.
            price: cents.
            size: tokens, in wei.
            token: its token; None is YES.
            unsigned: fields of the body that the signature does not cover.
            fields: other fields of :meth:`~clob.signing.SignedOrder.from_price_size`.
        """
        order = SignedOrder.from_price_size(
            side=side,
            price=price,
            size=size,
            maker=self.address,
            token_id=market.yes if token is None else token,
            salt=secrets.randbits(62),
            **fields,
        )
        return self.signed(order, market, **(unsigned or {}))

    def amounts(
        self, market: MarketIds, side: Side, maker_amount: int, taker_amount: int, **fields: Any
    ) -> dict[str, Any]:
        """Return the body of a signed order with any amounts and fields."""
        order = SignedOrder(
            salt=secrets.randbits(62),
            maker=self.address,
            signer=self.address,
            token_id=market.yes,
            maker_amount=maker_amount,
            taker_amount=taker_amount,
            side=side,
            **fields,
        )
        return self.signed(order, market)

    def signed(self, order: SignedOrder, market: MarketIds, **unsigned: Any) -> dict[str, Any]:
        """Return the body of an order, signed by this wallet."""
        body = sign(order, self.domain, self._key).to_json()
        return {**body, "marketId": market.id, **unsigned}

    def cancel(self, order_id: str, timestamp_ms: int, maker: str | None = None) -> dict[str, Any]:
        """Return the body of a signed cancel; ``maker`` is this wallet if None."""
        cancel = SignedCancel(
            order_id=order_id, maker=maker or self.address, timestamp_ms=timestamp_ms
        )
        return sign(cancel, self.domain, self._key).to_json()
