"""Fills of signed orders and their encoding by eth-abi, for tests of the exchange contract."""

import msgspec

from clob.signing import ZERO_ADDRESS, SignedOrder, salt_number
from clob.wire.operations import PartyBody
from clob_server.chain.eth.exchange_abi import SETTLE, SETTLE_ESCROW


class Party(msgspec.Struct, frozen=True, kw_only=True):
    """An order in a fill."""

    order: SignedOrder
    """The order with its signature; an unsigned order needs a gasless maker."""
    wallet: str = ZERO_ADDRESS
    """Wallet that pays collateral for a buy and receives it for a sale; the zero address stands for
    the maker."""
    fee_rate_bps: int = 0
    """Fee rate that is charged, in basis points."""


class SettlementFill(msgspec.Struct, frozen=True, kw_only=True):
    """A trade to settle; for complementary tokens, both of its trades."""

    trade_id: int
    """Trade id of 256 bits; each id settles once."""
    price: int
    """Cents, for the token of the resting order."""
    size: int
    """Amount of tokens, in wei."""
    resting: Party
    """The resting order."""
    incoming: Party
    """The incoming order."""


def encode_settle(fills, custody="wallet"):
    """Encode the call that settles fills."""
    values = [
        (
            fill.trade_id,
            fill.price,
            fill.size,
            party_values(fill.resting),
            party_values(fill.incoming),
        )
        for fill in fills
    ]
    return (SETTLE_ESCROW if custody == "escrow" else SETTLE).encode(values)


def party_values(party):
    """Return an order in a fill as values for eth-abi."""
    signature = signature_bytes(party.order)
    return order_values(party.order), signature, party.wallet, party.fee_rate_bps


def order_values(order):
    """Return the twelve fields of an order for the contract."""
    return (
        salt_number(order.salt),
        order.maker,
        order.signer,
        order.taker,
        order.token_id,
        order.maker_amount,
        order.taker_amount,
        order.expiration_s,
        order.nonce,
        order.fee_rate_bps,
        order.side,
        order.signature_type,
    )


def signature_bytes(order):
    """Return the signature of an order; empty if it is unsigned or all zeros."""
    signature = bytes.fromhex(order.signature[2:])
    return signature if any(signature) else b""


def party_of(order, wallet=ZERO_ADDRESS, charged_bps=0):
    """Return an order as a part of a fill."""
    return PartyBody(
        salt=str(salt_number(order.salt)),
        maker=order.maker,
        signer=order.signer,
        taker=order.taker,
        token_id=str(order.token_id),
        maker_amount=str(order.maker_amount),
        taker_amount=str(order.taker_amount),
        expiration=str(order.expiration_s),
        nonce=str(order.nonce),
        fee_rate_bps=str(order.fee_rate_bps),
        side=int(order.side),
        signature_type=int(order.signature_type),
        signature=order.signature,
        wallet=wallet,
        charged_bps=charged_bps,
    )
