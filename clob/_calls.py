"""The commands as methods of a matcher, each one line over the door.

What they do, and what refuses them, stands with the command of the same name.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from clob.commands import (
    AddMarket,
    Cancel,
    CancelAll,
    Expire,
    Reduce,
    Replace,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
    Single,
    Submit,
)
from clob.events import Event
from clob.market import Limits, Market, Mode
from clob.order import Order, SelfTrade


class Calls(ABC):
    """What a matcher can be asked, without writing the command."""

    @abstractmethod
    def _do(self, command: Single) -> list[Event]:
        """Execute one command."""

    # ----- orders --------------------------------------------------------------------------

    def submit(
        self,
        market: str,
        order: Order,
        now_ms: int = 0,
        *,
        client_id: str | None = None,
        order_hash: bytes | None = None,
        deadline_ms: int | None = None,
    ) -> list[Event]:
        """Match an order, and rest what is left of it; see :class:`clob.Submit`."""
        return self._do(
            Submit(
                market=market,
                order=order,
                now_ms=now_ms,
                client_id=client_id,
                order_hash=order_hash,
                deadline_ms=deadline_ms,
            )
        )

    def cancel(
        self, order_id: str | int, now_ms: int = 0, *, maker: str | None = None
    ) -> list[Event]:
        """Take an order out of its book; see :class:`clob.Cancel`."""
        return self._do(Cancel(order_id=order_id, maker=maker, now_ms=now_ms))

    def cancel_all(
        self, now_ms: int = 0, *, maker: str | None = None, market: str | None = None
    ) -> list[Event]:
        """Take out all orders of a maker, of a market, or both; see :class:`clob.CancelAll`."""
        return self._do(CancelAll(maker=maker, market=market, now_ms=now_ms))

    def reduce(
        self, order_id: str | int, size: int, now_ms: int = 0, *, maker: str | None = None
    ) -> list[Event]:
        """Make an order smaller where it stands; see :class:`clob.Reduce`."""
        return self._do(Reduce(order_id=order_id, size=size, maker=maker, now_ms=now_ms))

    def replace(
        self,
        order_id: str | int,
        price: int,
        size: int,
        now_ms: int = 0,
        *,
        post_only: bool = False,
        self_trade: SelfTrade | None = None,
        maker: str | None = None,
    ) -> list[Event]:
        """Give an order another price or size; see :class:`clob.Replace`."""
        return self._do(
            Replace(
                order_id=order_id,
                price=price,
                size=size,
                post_only=post_only,
                self_trade=self_trade,
                maker=maker,
                now_ms=now_ms,
            )
        )

    def set_nonce(self, maker: str, nonce: int, now_ms: int = 0) -> list[Event]:
        """Raise a maker's nonce; see :class:`clob.SetNonce`."""
        return self._do(SetNonce(maker=maker, nonce=nonce, now_ms=now_ms))

    def expire(self, now_ms: int) -> list[Event]:
        """Take out what has expired; see :class:`clob.Expire`."""
        return self._do(Expire(now_ms=now_ms))

    # ----- markets and limits --------------------------------------------------------------

    def add_market(self, market: Market, now_ms: int = 0) -> list[Event]:
        """Open a market; see :class:`clob.AddMarket`."""
        return self._do(AddMarket(market=market, now_ms=now_ms))

    def set_market(self, market: Market, now_ms: int = 0) -> list[Event]:
        """Change the terms of a market; see :class:`clob.SetMarket`."""
        return self._do(SetMarket(market=market, now_ms=now_ms))

    def set_mode(self, market: str, mode: Mode, now_ms: int = 0) -> list[Event]:
        """Change what a market allows; see :class:`clob.SetMode`."""
        return self._do(SetMode(market=market, mode=mode, now_ms=now_ms))

    def set_limits(self, limits: Limits, now_ms: int = 0) -> list[Event]:
        """Change how much of everything is allowed; see :class:`clob.SetLimits`."""
        return self._do(SetLimits(limits=limits, now_ms=now_ms))

    # ----- funds ---------------------------------------------------------------------------

    def set_balance(self, wallet: str, asset: str, amount: int, now_ms: int = 0) -> list[Event]:
        """State what a wallet has of an asset; see :class:`clob.SetBalance`."""
        return self._do(SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=now_ms))

    def settled(self, market: str, trades: Sequence[int], now_ms: int = 0) -> list[Event]:
        """Say that trades were settled; see :class:`clob.Settled`."""
        return self._do(Settled(market=market, trades=tuple(trades), now_ms=now_ms))

    def settle_failed(
        self,
        market: str,
        trade: int,
        now_ms: int = 0,
        *,
        wallet: str | None = None,
        reason: str = "",
    ) -> list[Event]:
        """Say that a trade cannot be settled; see :class:`clob.SettleFailed`."""
        return self._do(
            SettleFailed(market=market, trade=trade, wallet=wallet, reason=reason, now_ms=now_ms)
        )
