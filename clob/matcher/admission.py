"""The gate: whether a command may come in, as far as can be seen without the books.

It only says yes or no; the words of a refusal, and which rule comes first, stand in
:mod:`clob.matcher.rejections`. Compiled as it stands, like the desk, with the types of ``_gate_c.pxd``.
"""

from typing import Any

from clob.commands import Submit
from clob.market import Mode
from clob.matcher import rejections
from clob.matcher.accounts import Accounts
from clob.matcher.entities import MakerState, MarketState, OrderEntry
from clob.order import Order, Side
from clob.units import FEE_RATE_MAX_BPS, TEXT_MAX, TIME_MAX, UINT256_MAX

BUY = Side.BUY
OPEN = Mode.OPEN
CANCEL_ONLY = Mode.CANCEL_ONLY


class Admission(Accounts):
    """All that is known of markets, orders and makers, and the checks that read it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.venues: dict[str, MarketState] = {}
        self.entries: dict[str | int, OrderEntry] = {}
        self.used: dict[bytes, Any] = {}
        self.clients: dict[tuple[str, str], OrderEntry] = {}
        self.nonces: dict[str, int] = {}

    def check_time(self, now_ms: int) -> None:
        """Refuse a time that is none, or that lies before the last one."""
        if type(now_ms) is int:
            try:
                time: int = now_ms
                if self.now_ms <= time <= TIME_MAX:
                    return
            except OverflowError:  # compiled, beyond 64 bits
                pass
        raise rejections.time_refused(now_ms, self.now_ms)

    def suits(self, venue: MarketState, order: Order) -> bool:
        """Say whether an order suits its market, but for its token."""
        maker, order_id, size = order.maker, order.id, order.size
        if venue.mode is not OPEN or type(maker) is not str or len(maker) > TEXT_MAX:
            return False
        if type(size) is not int or size < venue.min_size:
            return False
        if type(order_id) is str:
            return len(order_id) <= TEXT_MAX
        return type(order_id) is int

    def is_new(self, command: Submit, order: Order, now_ms: int) -> bool:
        """Say whether the names of an order are not taken, and its rarer fields are right."""
        used, client_id, deadline = command.order_hash, command.client_id, command.deadline_ms
        if order.id in self.entries:
            return False
        if used is not None and (type(used) is not bytes or len(used) != 32 or used in self.used):
            return False
        if client_id is not None and (
            type(client_id) is not str
            or not 0 < len(client_id) <= TEXT_MAX
            or (order.maker, client_id) in self.clients
        ):
            return False
        if deadline is not None and (
            type(deadline) is not int or not now_ms <= deadline <= TIME_MAX
        ):
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

    def is_covered(self, venue: MarketState, trader: MakerState, order: Order) -> bool:
        """Say whether what an order needs is available to it."""
        if type(order.price) is not int:
            return False
        account = None
        if order.side is BUY:
            needed = order.size * order.price // 100
            if order.smart_wallet or not trader.has_accounts:
                payer = order.smart_wallet or order.maker
                account = self.accounts.get((payer, venue.market.collateral))
            else:
                account = trader.collateral
        else:
            needed = order.size
            if not trader.has_accounts:
                account = self.accounts.get((order.maker, order.token))
            else:
                account = trader.yes if order.token == venue.yes else trader.no
        if account is None:
            return not needed
        return needed <= account.balance - account.reserved - account.unsettled

    def may_cancel(self, maker: str, trader: MakerState) -> bool:
        """Say whether a maker may take out an order of a trader."""
        return type(maker) is str and maker == trader.maker and trader.venue.mode <= CANCEL_ONLY
