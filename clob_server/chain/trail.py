"""The blocks up to which the chain was read, and where it still is the same chain."""

from collections import deque
from typing import Any, Final, NamedTuple

from clob_server.chain.rpc import Question, Reply, Rpc, number, result, understood

KEPT: Final = 1_000
"""How many blocks are kept. Where none of them is on the chain any more, it is read again from as
many blocks below the first; no chain goes back further while nobody looks."""
ASKED: Final = 50
"""How many of them are asked about at once."""


class Block(NamedTuple):
    """A block."""

    number: int
    """Its number."""
    hash: str
    """Its hash."""


class Trail:
    """The blocks up to which was read, the newest last.

    Args:
        first: what was read last; None is nothing.
        lowest: where it begins then.
    """

    def __init__(self, first: Block | None = None, lowest: int = 0) -> None:
        self._blocks: deque[Block] = deque(() if first is None else (first,), KEPT)
        self._lowest = lowest if first is None else max(0, first.number - KEPT)

    @property
    def last(self) -> Block | None:
        """Up to where was read; None is nowhere yet."""
        return self._blocks[-1] if self._blocks else None

    @property
    def next(self) -> int:
        """The number of the first block that was not read."""
        return self._blocks[-1].number + 1 if self._blocks else self._lowest

    def reach(self, block: Block) -> None:
        """Have read up to a block, which is not below the last."""
        if block != self.last:
            self._blocks.append(block)

    async def go_back(self, rpc: Rpc) -> None:
        """Forget the blocks that are on the chain no longer.

        Args:
            rpc: the way to the node.

        Raises:
            NodeError: it does not say which those are; nothing is forgotten.
        """
        kept = list(self._blocks)
        while kept:
            asked = kept[-ASKED:]
            replies = await rpc.batch([block_question(block.number) for block in asked])
            found = [read_block(reply) for reply in replies]
            while asked and found[len(asked) - 1] != asked[-1]:
                asked.pop()
                kept.pop()
            if asked:
                break
        self._blocks = deque(kept, KEPT)


def block_question(which: int | str) -> Question:
    """Ask for a block.

    Args:
        which: its number, or a name such as ``latest``.
    """
    return "eth_getBlockByNumber", (hex(which) if isinstance(which, int) else which, False)


def read_block(reply: Reply) -> Block | None:
    """Read what came of :func:`block_question`; None where there is no such block.

    Raises:
        NodeError: the node does not say.
    """
    found: dict[str, Any] | None = result(reply)
    if found is None:
        return None
    with understood():
        return Block(number(found["number"]), str(found["hash"]))
