"""Looks orders up by id or hash, in the matcher and in history."""

from typing import Final

from clob.errors import UnknownOrderError
from clob.signing.fields import received
from clob.status import OrderRecord
from clob.wire.orders import OrderBody
from clob_server.core.ids import order_hash_in
from clob_server.core.serialize import order_body
from clob_server.core.state import ServerState
from clob_server.history.history import History

CLIENT: Final = "client:"
"""Begin of a reference to an order by its ``clientOrderId``."""


class OrderLookup:
    """Finds the orders that the matcher knows in the state, and the others in history."""

    def __init__(self, state: ServerState, history: History) -> None:
        self.history: Final = history
        self._state: Final = state

    async def find(self, order_ref: str) -> OrderBody | None:
        """Return an order by its id, or by its hash in hexadecimal; None if it is unknown."""
        record = self.known(order_ref)
        if record is None:
            return await self.history.order(order_ref)
        return order_body(record, self._state.signature(record.order.id))

    async def get(self, order_ref: str) -> OrderBody:
        """Return an order like :meth:`find`.

        Raises:
            UnknownOrderError: it is unknown.
        """
        order = await self.find(order_ref)
        if order is None:
            raise UnknownOrderError(f"there is no order {received(order_ref[:99])}")
        return order

    def known_to(self, maker: str, order_ref: str) -> OrderRecord | None:
        """Return the record of an order by a reference of its maker.

        Like :meth:`known`; :data:`CLIENT` and the maker's own id for the order refer to it as well.
        """
        if not order_ref.startswith(CLIENT):
            return self.known(order_ref)
        try:
            return self._state.matcher.order_by_client_id(maker, order_ref.removeprefix(CLIENT))
        except UnknownOrderError:
            return None

    def known(self, order_ref: str) -> OrderRecord | None:
        """Return the record of an order that the matcher knows, resting or finished."""
        matcher, order_hash = self._state.matcher, order_hash_in(order_ref)
        try:
            if order_hash is None:
                return matcher.order(order_ref)
            return matcher.order_by_hash(order_hash)
        except UnknownOrderError:
            return None
