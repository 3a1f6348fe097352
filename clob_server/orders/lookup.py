"""An order by its id or by its hash, wherever it is still known."""

from typing import TYPE_CHECKING, Final

from clob.errors import UnknownOrderError
from clob.status import OrderRecord
from clob_server.api.schemas import OrderBody
from clob_server.core.serialize import order_body

if TYPE_CHECKING:
    from clob_server.service import Service

HASH_CHARACTERS: Final = 66
"""How long an order hash is, as a text."""


async def find_order(service: "Service", order_ref: str) -> OrderBody | None:
    """Look an order up.

    Args:
        service: where.
        order_ref: its id, or its hash in hexadecimal (decision 22).

    Returns:
        The order; None where there is none, or its details are gone for good.
    """
    record = known_order(service, order_ref)
    if record is None:
        return await service.history.order(order_ref)
    return order_body(record, service.exchange.registry.papers.get(str(record.order.id)))


def known_order(service: "Service", order_ref: str) -> OrderRecord | None:
    """Look an order up among those that the engine knows."""
    matcher = service.exchange.matcher
    hashed = hash_in(order_ref)
    try:
        return matcher.order(order_ref) if hashed is None else matcher.order_by_hash(hashed)
    except UnknownOrderError:
        return None


def hash_in(order_ref: str) -> bytes | None:
    """Read an order hash; None where it is none."""
    if len(order_ref) != HASH_CHARACTERS or order_ref[:2].lower() != "0x":
        return None
    try:
        return bytes.fromhex(order_ref[2:])
    except ValueError:
        return None
