"""Fees per unit of gas: initial fees, and higher ones for stuck transactions."""

from typing import Any, Final, NamedTuple

from clob_server.chain.eth.rpc import NodeRejectedError, Reply, RpcRequest, number, result

BASE_FEE_TIMES: Final = 2
"""Factor on the base fee for the maximum fee; the base fee rises by an eighth per block at most."""
BUMP: Final = 9, 8
"""A raised fee is at least nine eighths of the previous one (+12.5 %); nodes require +10 %."""
GWEI: Final = 10**9
"""Priority fee if the node does not suggest one."""

REQUESTS: Final[tuple[RpcRequest, ...]] = (
    ("eth_getBlockByNumber", ("latest", False)),
    ("eth_maxPriorityFeePerGas", ()),
    ("eth_gasPrice", ()),
)
"""Requests whose replies :func:`suggest_fees` needs."""


class Fees(NamedTuple):
    """Fees per unit of gas, in wei."""

    max_fee: int
    """Maximum total fee."""
    tip: int
    """Priority fee of the block producer, part of the maximum."""
    is_legacy: bool = False
    """Whether the chain supports only legacy gas prices."""


def suggest_fees(replies: list[Reply], limit: int, tip_wei: int = 0) -> Fees:
    """Compute fees from the replies to :data:`REQUESTS`.

    Args:
        replies: the replies.
        limit: maximum fee per unit of gas, in wei.
        tip_wei: priority fee, in wei; 0 uses the node's suggestion.

    Raises:
        NodeInvalidResponseError, NodeRejectedError: a required reply is missing or invalid.
    """
    block, tip, price = replies
    head: dict[str, Any] = result(block)
    if head.get("baseFeePerGas") is None:
        max_fee = min(number(result(price)), limit)
        return Fees(max_fee, max_fee, is_legacy=True)
    if not tip_wei:
        tip_wei = GWEI if isinstance(tip, NodeRejectedError) else number(tip)
    max_fee = min(BASE_FEE_TIMES * number(head["baseFeePerGas"]) + tip_wei, limit)
    return Fees(max_fee, min(tip_wei, max_fee))


def raise_fees(previous: Fees, now: Fees, limit: int) -> Fees | None:
    """Raise the fees of a pending transaction enough for nodes to replace it.

    Args:
        previous: highest fees so far.
        now: current fees.
        limit: maximum fee per unit of gas, in wei.

    Returns:
        The new fees; None if they would exceed the limit.
    """
    max_fee = max(now.max_fee, raise_fee(previous.max_fee))
    tip = max(now.tip, raise_fee(previous.tip))
    if max(max_fee, tip) > limit:
        return None
    return Fees(max(max_fee, tip), tip, previous.is_legacy)


def gwei(fee_wei: int) -> str:
    """Return a fee in gwei, with its unit."""
    return f"{fee_wei / GWEI:,.9f}".rstrip("0").rstrip(".") + " gwei"


def ether(amount_wei: int) -> str:
    """Return an amount in ether, exact, with its unit.

    >>> ether(1_500_000_000_000_000_000), ether(0)
    ('1.5 ether', '0 ether')
    """
    whole, rest = divmod(amount_wei, GWEI**2)
    return f"{whole:,}.{rest:018d}".rstrip("0").rstrip(".") + " ether"


def raise_fee(fee: int) -> int:
    """Return the fee plus 12.5 %, rounded up."""
    numerator, denominator = BUMP
    return -(-fee * numerator // denominator)
