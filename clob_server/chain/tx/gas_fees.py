"""What a unit of gas is offered: at first, and again where nobody takes it."""

from typing import Any, Final, NamedTuple

from clob_server.chain.eth.rpc import NodeRefusedError, Question, Reply, number, result

BASE_FEE_TIMES: Final = 2
"""How many times the base fee is offered: it rises by an eighth a block at most."""
BUMP_NUMERATOR: Final = 9
"""A raised fee is at least nine eighths of the one before, 12.5 % more: nodes ask for 10 %."""
BUMP_DENOMINATOR: Final = 8
"""See :data:`BUMP_NUMERATOR`."""
GWEI: Final = 10**9
"""What goes to the one who makes the block, where the node has no opinion."""

QUESTIONS: Final[tuple[Question, ...]] = (
    ("eth_getBlockByNumber", ("latest", False)),
    ("eth_maxPriorityFeePerGas", ()),
    ("eth_gasPrice", ()),
)
"""What :func:`suggested` wants to know of the node."""


class Fees(NamedTuple):
    """What is offered for a unit of gas, in wei."""

    max_fee: int
    """At most."""
    tip: int
    """Of that, what the one who makes the block gets."""
    is_legacy: bool = False
    """If the chain knows one price only."""


def suggested(replies: list[Reply], limit: int) -> Fees:
    """Make an offer from what a node says.

    Args:
        replies: what came of :data:`QUESTIONS`.
        limit: the most a unit may ever be offered, in wei.

    Raises:
        NodeNonsenseError, NodeRefusedError: the node does not say enough.
    """
    block, tip, price = replies
    head: dict[str, Any] = result(block)
    if head.get("baseFeePerGas") is None:
        max_fee = min(number(result(price)), limit)
        return Fees(max_fee, max_fee, is_legacy=True)
    tip_wei = GWEI if isinstance(tip, NodeRefusedError) else number(tip)
    max_fee = min(BASE_FEE_TIMES * number(head["baseFeePerGas"]) + tip_wei, limit)
    return Fees(max_fee, min(tip_wei, max_fee))


def raised(offered: Fees, now: Fees, limit: int) -> Fees | None:
    """Raise an offer that was not taken, so far that a node accepts it in place of the first.

    Args:
        offered: the highest offer so far.
        now: what would be offered now.
        limit: the most a unit may ever be offered, in wei.

    Returns:
        The new offer; None where it would be above the limit.
    """
    max_fee = max(now.max_fee, more_than(offered.max_fee))
    tip = max(now.tip, more_than(offered.tip))
    if max(max_fee, tip) > limit:
        return None
    return Fees(max(max_fee, tip), tip, offered.is_legacy)


def more_than(fee: int) -> int:
    """Give the smallest fee that is 12.5 % above, rounded up."""
    return -(-fee * BUMP_NUMERATOR // BUMP_DENOMINATOR)
