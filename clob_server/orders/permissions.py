"""What an order needs on the chain where its trades settle: who may sign, pay and be paid.

In such a market only that counts which the exchange contract would count, as its events told it.
"""

from typing import TYPE_CHECKING

from clob import Order, Side
from clob.signing import SignedOrder, SignerNotAuthorisedError
from clob_server.api.problems import ApiError

if TYPE_CHECKING:
    from clob_server.service import Service


def may_sign(service: "Service", market: str, maker: str, signer: str) -> bool:
    """Say whether somebody may sign for a maker in a market.

    Args:
        service: where.
        market: the market; where trades settle, only the contract's delegates count.
        maker: for whom.
        signer: who.
    """
    if market in service.exchange.settles:
        return service.exchange.registry.settling.allows("delegate", maker, signer)
    return service.may_sign(maker, signer)


def not_delegate(
    service: "Service", signed: SignedOrder, refusal: SignerNotAuthorisedError
) -> SignerNotAuthorisedError:
    """Say which call would let a signer sign for a maker, where that is the contract's business."""
    call = f"setDelegate({signed.signer}, true)"
    told = f"{refusal}; trades settle on the chain, where {must_call(service, signed.maker, call)}"
    return SignerNotAuthorisedError(
        told,
        refusal.verdict,
        digest=refusal.digest,
        expected=refusal.expected,
        recovered=refusal.recovered,
    )


def check_not_cancelled(service: "Service", order_hash: bytes) -> None:
    """Refuse an order that its maker cancelled on the chain before it came here.

    One that came before the cancel is known; what it led to is told.

    Raises:
        ApiError: ORDER_CANCELLED.
    """
    exchange, name = service.exchange, f"0x{order_hash.hex()}"
    if name in exchange.registry.settling.cancelled and not exchange.matcher.is_used(order_hash):
        raise ApiError("ORDER_CANCELLED", f"order {name} was cancelled on the chain by its maker")


def check_unsigned(service: "Service", order: Order) -> None:
    """Refuse an order that nobody signed, and that would not settle.

    Raises:
        ApiError: GASLESS_NOT_ALLOWED, WALLET_NOT_ALLOWED.
    """
    allows, maker = service.exchange.registry.settling.allows, order.maker
    if not allows("gasless", maker, maker):
        call = must_call(service, maker, "setGasless(true)")
        raise ApiError("GASLESS_NOT_ALLOWED", f"for orders without a signature {call}")
    wallet = order.smart_wallet
    if not wallet or wallet == maker:
        return
    if order.side is Side.BUY and not allows("payer", wallet, maker):
        call = must_call(service, wallet, f"setPayer({maker}, true)")
        raise ApiError("WALLET_NOT_ALLOWED", f"to pay for {maker}, {call}")
    if order.side is Side.SELL and not allows("payee", maker, wallet):
        call = must_call(service, maker, f"setPayee({wallet}, true)")
        raise ApiError("WALLET_NOT_ALLOWED", f"for {wallet} to be paid, {call}")


def must_call(service: "Service", who: str, call: str) -> str:
    """Say who has to call what at the exchange contract."""
    return f"{who} must call {call} at {service.domain.verifying_contract}"
