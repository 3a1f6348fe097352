"""Permissions that makers have granted: to sign, to pay and to receive.

In a market whose trades settle on a chain, only the permissions of the exchange contract count, as
its events reported them.
"""

from typing import Final

from clob import Order, Side
from clob.signing import Domain, SignedOrder, SignerNotAuthorisedError
from clob_server.api.problems import ApiError
from clob_server.core.state import ServerState


class Permissions:
    """Checks the permissions of makers; the domain names the exchange contract in messages."""

    def __init__(self, state: ServerState, domain: Domain) -> None:
        self._state: Final = state
        self._domain: Final = domain

    def may_sign(self, market: str, maker: str, signer: str) -> bool:
        """Return whether a signer may sign for a maker in a market."""
        registry = self._state.registry
        if market in self._state.settles:
            return registry.settling.allows("delegate", maker, signer)
        return (maker, signer) in registry.delegates

    def with_call(
        self, signed: SignedOrder, rejection: SignerNotAuthorisedError
    ) -> SignerNotAuthorisedError:
        """Return a rejection that names the contract call by which the signer may sign."""
        call = self._call(signed.maker, f"setDelegate({signed.signer}, true)")
        return SignerNotAuthorisedError(
            f"{rejection}; trades settle on the chain, where {call}",
            rejection.verdict,
            digest=rejection.digest,
            expected=rejection.expected,
            recovered=rejection.recovered,
        )

    def check_not_cancelled(self, order_hash: bytes) -> None:
        """Reject an order that its maker cancelled on the chain before it was sent here.

        Raises:
            ApiError: ORDER_CANCELLED. An order that was accepted before the cancel passes.
        """
        state, name = self._state, f"0x{order_hash.hex()}"
        if name in state.registry.settling.cancelled and not state.matcher.is_used(order_hash):
            detail = f"order {name} was cancelled on the chain by its maker"
            raise ApiError("ORDER_CANCELLED", detail)

    def check_unsigned(self, order: Order) -> None:
        """Reject an unsigned order that the contract would not settle.

        Raises:
            ApiError: GASLESS_NOT_ALLOWED, WALLET_NOT_ALLOWED.
        """
        allows, maker = self._state.registry.settling.allows, order.maker
        if not allows("gasless", maker, maker):
            call = self._call(maker, "setGasless(true)")
            raise ApiError("GASLESS_NOT_ALLOWED", f"for orders without a signature {call}")
        wallet = order.smart_wallet or maker
        if wallet == maker:
            return
        if order.side is Side.BUY and not allows("payer", wallet, maker):
            call = self._call(wallet, f"setPayer({maker}, true)")
            raise ApiError("WALLET_NOT_ALLOWED", f"to pay for {maker}, {call}")
        if order.side is Side.SELL and not allows("payee", maker, wallet):
            call = self._call(maker, f"setPayee({wallet}, true)")
            raise ApiError("WALLET_NOT_ALLOWED", f"for {wallet} to be paid, {call}")

    def _call(self, address: str, call: str) -> str:
        """Return the sentence that an address must make a call to the exchange contract."""
        return f"{address} must call {call} at {self._domain.verifying_contract}"
