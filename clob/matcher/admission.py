"""Quick yes-or-no checks of submissions and cancels, and the state that they read.

A no is turned into an error by :mod:`clob.matcher.rejections`, which knows the rules in order of
precedence. Both must agree: an order that fails here breaks a rule there, and the other way round.
Compiled from this text, with the types of ``admission.pxd``.
"""

from typing import Any

from clob.commands import Submit
from clob.market import Limits, Mode
from clob.matcher.accounts import Accounts
from clob.matcher.entities import MakerState, MarketState
from clob.order import Order, Side
from clob.units import FEE_RATE_MAX_BPS, TEXT_MAX, TIME_MAX, UINT256_MAX

BUY = Side.BUY
OPEN = Mode.OPEN
CANCEL_ONLY = Mode.CANCEL_ONLY


class Admission(Accounts):
    """Markets, orders, makers and limits by their ids, and the checks that read them."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.markets: dict[str, MarketState] = {}
        # Market id by token.
        self.tokens: dict[str, str] = {}
        # Number of markets by collateral.
        self.collaterals: dict[str, int] = {}
        # Number before the first event of the next market; above those of removed markets.
        self.seq_base: int = 0
        # Each order's entry, or its place in a snapshot, see OrderIndex.
        self.entries: dict[str | int, Any] = {}
        # Order hash to the same, or to (maker, nonce, expiration) once the entry is evicted.
        self.used_hashes: dict[bytes, Any] = {}
        self.client_ids: dict[tuple[str, str], Any] = {}
        self.nonces: dict[str, int] = {}
        self.set_limits(Limits())

    def set_limits(self, limits: Limits) -> None:
        """Replace the limits."""
        self.limits = limits
        self.orders_max: int = limits.orders_max
        self.trades_max: int = limits.trades_max
        self.finished_max: int = limits.finished_max

    def fits_market(self, market_state: MarketState, order: Order) -> bool:
        """Return whether mode, maker, id and size suit the market; the token is checked before."""
        maker, order_id, size = order.maker, order.id, order.size
        if market_state.mode is not OPEN or type(maker) is not str or len(maker) > TEXT_MAX:
            return False
        if type(size) is not int or size < market_state.min_size:
            return False
        if type(order_id) is str:
            return len(order_id) <= TEXT_MAX
        return type(order_id) is int

    def is_new_and_valid(self, command: Submit, order: Order, now_ms: int) -> bool:
        """Return whether id, client id and hash are unused and the rarer fields are valid."""
        used, client_id, deadline = command.order_hash, command.client_id, command.deadline_ms
        if order.id in self.entries:
            return False
        if used is not None and (
            type(used) is not bytes or len(used) != 32 or used in self.used_hashes
        ):
            return False
        if client_id is not None and (
            type(client_id) is not str
            or not 0 < len(client_id) <= TEXT_MAX
            or (order.maker, client_id) in self.client_ids
        ):
            return False
        if deadline is not None and (
            type(deadline) is not int or not now_ms <= deadline <= TIME_MAX
        ):
            return False
        if command.attachment is not None and type(command.attachment) is not bytes:
            return False
        nonce, expiration_s, wallet = order.nonce, order.expiration_s, order.smart_wallet
        if type(nonce) is not int or (nonce and not 0 < nonce <= UINT256_MAX):
            return False
        if self.nonces and nonce < self.nonces.get(order.maker, 0):
            return False
        if type(expiration_s) is not int or (expiration_s and expiration_s > UINT256_MAX):
            return False
        if type(wallet) is not str or len(wallet) > TEXT_MAX:
            return False
        collateral, fee_rate_bps = order.collateral, order.fee_rate_bps
        if collateral is not None and (
            type(collateral) is not int or not 0 <= collateral <= UINT256_MAX
        ):
            return False
        return fee_rate_bps is None or (
            type(fee_rate_bps) is int and 0 <= fee_rate_bps <= FEE_RATE_MAX_BPS
        )

    def is_covered(self, market_state: MarketState, maker_state: MakerState, order: Order) -> bool:
        """Return whether the paying wallet has enough available for an order."""
        if type(order.price) is not int:
            return False
        account = None
        if order.side is BUY:
            needed = order.size * order.price // 100
            if order.smart_wallet or not maker_state.has_accounts:
                payer = order.smart_wallet or order.maker
                account = self.accounts.get((payer, market_state.market.collateral))
            else:
                account = maker_state.collateral
        else:
            needed = order.size
            if not maker_state.has_accounts:
                account = self.accounts.get((order.maker, order.token))
            else:
                account = maker_state.yes if order.token == market_state.yes else maker_state.no
        if account is None:
            return not needed
        return needed <= account.balance - account.reserved - account.unsettled

    def may_cancel(self, maker: str, maker_state: MakerState) -> bool:
        """Return whether ``maker`` owns the orders of ``maker_state`` and may cancel now."""
        return (
            type(maker) is str
            and maker == maker_state.maker
            and maker_state.market_state.mode <= CANCEL_ONLY
        )
