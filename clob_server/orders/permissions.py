"""Permissions that makers have granted: to sign, to pay and to receive.

In a market whose trades settle on a chain, only the permissions of the exchange contract count, as
its events reported them.
"""

from collections.abc import Callable
from typing import Final

from clob import Market, Order, RejectedError, Side
from clob.errors import InsufficientBalanceError, NonceTooLowError
from clob.signing import Domain, SignedOrder, SignerNotAuthorisedError
from clob.units import collateral_of
from clob_server.api.problems import ApiError
from clob_server.chain.events import WalletHolding, is_escrow
from clob_server.core.clock import wall_clock_ms
from clob_server.core.state import ServerState


def balance_of(holding: WalletHolding | None) -> tuple[int, int]:
    """Return balance and approval of collateral, 0 where the chain reported none."""
    if holding is None:
        return 0, 0
    return int(holding.balance or holding.amount), int(holding.approved or holding.amount)


class Permissions:
    """Checks the permissions of makers; the domain names the exchange contract in messages."""

    def __init__(
        self, state: ServerState, domain: Domain, clock_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self._state: Final = state
        self._clock_ms: Final = clock_ms
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

    def check_maker(self, order: Order, *, settles: bool) -> None:
        """Reject an order below a nonce raised on the chain, or of a wallet that cools down.

        The engine gets a raised nonce once its block is final.

        Raises:
            NonceTooLowError: in any market.
            ApiError: MAKER_COOLING_DOWN, in a market that settles.
        """
        settling = self._state.registry.settling
        if settling.raised:
            least = settling.nonce(order.maker)
            if order.nonce < least:
                raise NonceTooLowError(
                    f"nonce must be at least {least}, which the maker raised it to on the chain; "
                    f"got {order.nonce}"
                )
        if settles and settling.faults:
            for wallet in (order.maker, order.smart_wallet):
                self._check_not_cooling(wallet)

    def _check_not_cooling(self, wallet: str) -> None:
        """Reject a wallet at whose fault a trade failed to settle a short time ago."""
        now_ms = max(self._state.now_ms, self._clock_ms())
        left_ms = self._state.registry.settling.cool_until_ms(wallet) - now_ms
        if left_ms > 0:
            left_s = -(-left_ms // 1_000)
            raise ApiError(
                "MAKER_COOLING_DOWN",
                f"a trade of {wallet} failed to settle through its own fault; it may place orders "
                f"in markets that settle again in {left_s} s",
                headers=((b"retry-after", b"%d" % left_s),),
            )

    def nonce(self, maker: str) -> int:
        """Return the lowest nonce that is valid for new orders of a maker."""
        state = self._state
        return max(state.matcher.nonce(maker), state.registry.settling.nonce(maker))

    def check_unsigned(self, order: Order) -> None:
        """Reject an unsigned order that the contract would not settle.

        Raises:
            ApiError: GASLESS_NOT_ALLOWED, WALLET_NOT_ALLOWED.
        """
        maker = order.maker
        if not self._state.registry.settling.allows("gasless", maker, maker):
            call = self._call(maker, "setGasless(true)")
            raise ApiError("GASLESS_NOT_ALLOWED", f"for orders without a signature {call}")
        self.check_wallet(order)

    def check_wallet(self, order: Order) -> None:
        """Reject an order whose wallet the contract does not know as payer or payee of the maker.

        The signature of an order does not cover the wallet, so the contract decides.

        Raises:
            ApiError: WALLET_NOT_ALLOWED.
        """
        allows, maker = self._state.registry.settling.allows, order.maker
        wallet = order.smart_wallet or maker
        if wallet == maker:
            return
        if order.side is Side.BUY and not allows("payer", wallet, maker):
            call = self._call(wallet, f"setPayer({maker}, true)")
            raise ApiError("WALLET_NOT_ALLOWED", f"to pay for {maker}, {call}")
        if order.side is Side.SELL and not allows("payee", maker, wallet):
            call = self._call(maker, f"setPayee({wallet}, true)")
            raise ApiError("WALLET_NOT_ALLOWED", f"for {wallet} to be paid, {call}")

    def with_remedy(
        self, order: Order, market: Market, rejection: RejectedError, holding: WalletHolding | None
    ) -> RejectedError:
        """Return the rejection of an order that its wallet cannot cover, with the calls to make.

        Args:
            order: the order.
            market: its market, whose trades settle on a chain.
            rejection: the rejection by the matcher, with the amounts.
            holding: the last report of the account by the chain; None without one.
        """
        buys = order.side is Side.BUY
        wallet = (order.smart_wallet or order.maker) if buys else order.maker
        needed = collateral_of(order.size, order.price) if buys else order.size
        if is_escrow(market.collateral):
            asset = "0" if buys else order.token
            remedy = self._escrow_remedy(wallet, asset, needed, holding)
            return InsufficientBalanceError(f"{rejection}; {remedy}")
        exchange, advice = self._domain.verifying_contract, list[str]()
        if not buys:
            if holding is None or holding.amount == "0":
                call = f"setApprovalForAll({exchange}, true) at the conditional tokens contract"
                advice.append(f"unless it has, {wallet} must call {call}")
            advice.append("POST /api/gasless/split makes tokens from collateral")
        else:
            balance, approved = balance_of(holding)
            state = "has no approval and no balance that the chain reported"
            if holding is not None:
                state = f"has a balance of {balance} wei and approved {approved} wei"
            advice.append(f"on the chain {wallet} {state}")
            if approved < needed:
                call = f"approve({exchange}, {needed}) or more at {market.collateral}"
                advice.append(f"it must call {call}")
            if holding is not None and balance < needed:
                advice.append("it needs more collateral, for example from POST /api/gasless/faucet")
        return InsufficientBalanceError("; ".join((str(rejection), *advice)))

    def _escrow_remedy(
        self, wallet: str, asset: str, needed: int, holding: WalletHolding | None
    ) -> str:
        """Return the state of an escrow, and how its wallet deposits more."""
        state = "has nothing in escrow that the chain reported"
        if holding is not None:
            requested = holding.requested or "0"
            state = f"has {holding.balance} wei in escrow and requested {requested} wei of it back"
        call = f"deposit({wallet}, {asset}, {needed}) or more"
        return (
            f"on the chain {wallet} {state}; deposit more with {call} at "
            f"{self._domain.verifying_contract}, or with POST /api/gasless/deposit; a deposit "
            "counts once its block is final"
        )

    def _call(self, address: str, call: str) -> str:
        """Return the sentence that an address must make a call to the exchange contract."""
        return f"{address} must call {call} at {self._domain.verifying_contract}"
