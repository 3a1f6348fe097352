"""Transactions that wait for one before them, kept like everything else."""

from collections.abc import Sequence
from typing import Final

from eth.abc import SignedTransactionAPI

from clob_server.chain.devchain.checks import decode
from clob_server.chain.devchain.errors import RefusedError
from clob_server.chain.devchain.state import Store

GAP_MAX: Final = 1000
"""How many transactions may be missing before one that waits."""
QUEUE_MAX: Final = 64
"""How many transactions of one sender may wait."""
BUMP_PERCENT: Final = 10
"""By how much both fees must rise for a transaction to take the place of another."""


class Queue:
    """What waits, by sender and nonce.

    Args:
        store: where it is kept. What is put here and taken from here is kept with the store's next
            commit.
    """

    def __init__(self, store: Store) -> None:
        self._store: Final = store

    def senders(self) -> Sequence[bytes]:
        """Name those of whom something waits."""
        return [row[0] for row in self._store.rows("SELECT DISTINCT sender FROM queue")]

    def has(self, sender: bytes) -> bool:
        """Say whether something of a sender waits."""
        return self._store.row("SELECT 1 FROM queue WHERE sender=?", sender) is not None

    def put(self, transaction: SignedTransactionAPI, gap: int) -> None:
        """Have a transaction wait.

        Args:
            transaction: it was checked.
            gap: how many of its sender must come before it.

        Raises:
            RefusedError: it waits already, too many wait, or it pays too little to take the place
                of the one that waits with its nonce.
        """
        sender, nonce = transaction.sender, transaction.nonce
        if gap > GAP_MAX:
            raise RefusedError(f"nonce too high: next nonce {nonce - gap}, tx nonce {nonce}")
        other = self._at(sender, nonce)
        if other is not None:
            check_replaces(transaction, other)
            self.drop(sender, nonce)
        ((waiting,),) = self._store.rows("SELECT count(*) FROM queue WHERE sender=?", sender)
        if other is None and waiting >= QUEUE_MAX:
            raise RefusedError(
                f"too many transactions of 0x{sender.hex()} wait for one before them: {QUEUE_MAX}"
            )
        row = sender, nonce, transaction.hash, transaction.encode()
        self._store.add("INSERT INTO queue VALUES(?, ?, ?, ?)", *row)

    def take(self, sender: bytes, nonce: int) -> SignedTransactionAPI | None:
        """Give the one that may be mined when a sender's next nonce is this."""
        return self._at(sender, nonce)

    def drop(self, sender: bytes, nonce: int) -> None:
        """Let go of one, if it is there."""
        self._store.add("DELETE FROM queue WHERE sender=? AND nonce=?", sender, nonce)

    def find(self, transaction_hash: bytes) -> SignedTransactionAPI | None:
        """Give the one with a hash."""
        row = self._store.row("SELECT raw FROM queue WHERE hash=?", transaction_hash)
        return None if row is None else decode(row[0])

    def _at(self, sender: bytes, nonce: int) -> SignedTransactionAPI | None:
        """Give the one with a nonce."""
        query = "SELECT raw FROM queue WHERE sender=? AND nonce=?"
        row = self._store.row(query, sender, nonce)
        return None if row is None else decode(row[0])


def check_replaces(new: SignedTransactionAPI, old: SignedTransactionAPI) -> None:
    """Refuse a transaction that pays no more than the one whose place it would take."""
    if new.hash == old.hash:
        raise RefusedError("already known")
    for field in ("max_fee_per_gas", "max_priority_fee_per_gas"):
        had, has = getattr(old, field), getattr(new, field)
        if has * 100 < had * (100 + BUMP_PERCENT):
            raise RefusedError("replacement transaction underpriced")
