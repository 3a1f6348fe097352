"""The chain: a block for each transaction, kept before anybody is told of it."""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec
from eth.abc import (
    BlockAPI,
    BlockHeaderAPI,
    ReceiptAPI,
    SignedTransactionAPI,
    StateAPI,
    VirtualMachineAPI,
)
from eth.chains.base import Chain
from eth.exceptions import HeaderNotFound, PyEVMError
from eth_typing import Address
from eth_utils.exceptions import ValidationError

from clob_server.chain.devchain.errors import RefusedError, invalid
from clob_server.chain.devchain.evm import CONSTANT, check, decode, open_evm
from clob_server.chain.devchain.state import ChainStore, StoreError
from clob_server.chain.devchain.views import Record, block_record, mined_record, receipt_records

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

    def __init__(self, store: ChainStore) -> None:
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


OFFSET_S: Final = "offset_s"
"""The fact by how many seconds the chain's clock is ahead of the machine's."""
CHAIN_ID: Final = "chain_id"
"""The fact which chain it is."""
STATES_MAX: Final = 8
"""Of how many blocks the state is at hand between two transactions."""
TOPICS_MAX: Final = 4
"""How many topics a log has at most."""
_BLOCK: Final = "INSERT INTO blocks VALUES(?, ?, ?)"
_TRANSACTION: Final = "INSERT INTO transactions VALUES(?, ?, ?, ?)"
_LOG: Final = "INSERT INTO logs VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
_FACT: Final = "INSERT OR REPLACE INTO facts VALUES(?, ?)"


class DevelopmentChain:
    """A chain that mines by itself.

    Args:
        store: where it is kept; a fresh one gets its first block.
        chain_id: what transactions are signed for.
        clock_s: gives the time in whole seconds since 1970.

    Raises:
        StoreError: the store holds another chain, or is damaged.
    """

    def __init__(self, store: ChainStore, chain_id: int, clock_s: Callable[[], int]) -> None:
        self.store: Final[ChainStore] = store
        """Where it is kept, with the rows of what can be asked about the past."""
        self.chain_id: Final[int] = chain_id
        """What transactions are signed for."""
        self._clock_s = clock_s
        self._next_s: int | None = None
        self._next: BlockHeaderAPI | None = None
        self._states: dict[tuple[int, int], StateAPI] = {}
        kept = self._fact(CHAIN_ID, chain_id)
        if kept != chain_id:
            raise StoreError(f"the chain there has the id {kept}, not {chain_id}")
        self._offset_s = self._fact(OFFSET_S, 0)
        self._evm: Chain = open_evm(store, chain_id, clock_s())
        self._queue = Queue(store)
        try:
            self._head = self._evm.get_canonical_head()
            self._begin()
        except (PyEVMError, KeyError) as error:
            raise StoreError(f"the chain there is damaged: {error}") from error

    def _fact(self, name: str, default: int) -> int:
        """Give a fact that is kept beside the chain."""
        row = self.store.row("SELECT value FROM facts WHERE name=?", name)
        return default if row is None else int(row[0])

    def _begin(self) -> None:
        """Keep the first block if there is none, and mine what a death left in the queue."""
        if self.store.row("SELECT 1 FROM blocks WHERE number=0") is None:
            self.store.add(_FACT, CHAIN_ID, self.chain_id)
            self._keep(self._evm.get_block_by_header(self._head), [])
        ((newest,),) = self.store.rows("SELECT max(number) FROM blocks")
        if newest != self._head.block_number:
            raise StoreError(
                f"the chain there is damaged: the newest block is {self._head.block_number} by its "
                f"head, and {newest} by its rows"
            )
        self.state_at(self._head).get_balance(self._head.coinbase)
        for sender in self._queue.senders():
            self._mine_queued(sender)

    # ----- what there is ---------------------------------------------------------------------

    @property
    def head(self) -> BlockHeaderAPI:
        """The newest block."""
        return self._head

    def next_header(self) -> BlockHeaderAPI:
        """Give the header of the block that would come next, now."""
        time_s = self._time_s()
        if self._next is None or self._next.timestamp != time_s:
            self._next = self._evm.create_header_from_parent(
                self._head, timestamp=time_s, **CONSTANT
            )
        return self._next

    def header(self, number: int) -> BlockHeaderAPI:
        """Give the header of a block.

        Raises:
            RefusedError: there is no such block.
        """
        if number == self._head.block_number:
            return self._head
        try:
            return self._evm.get_canonical_block_header_by_number(number)  # type: ignore[arg-type]
        except HeaderNotFound:
            raise invalid(
                f"there is no block {number}; the newest is {self._head.block_number}"
            ) from None

    def state_at(self, header: BlockHeaderAPI) -> StateAPI:
        """Give the state after a block, or that of the block that would come next.

        What is done to it must be undone: what was read for one question is there for the next.
        """
        place = header.block_number, header.timestamp
        if place not in self._states:
            if len(self._states) >= STATES_MAX:
                self._states.clear()
            self._states[place] = self._evm.get_vm(header).state
        return self._states[place]

    def forget(self) -> None:
        """Let go of what was read, and of what was written since the last commit."""
        self._next = None
        self._states.clear()
        self.store.forget()

    def queued(self, transaction_hash: bytes) -> SignedTransactionAPI | None:
        """Give a transaction that waits for those before it."""
        return self._queue.find(transaction_hash)

    # ----- mining ----------------------------------------------------------------------------

    def send(self, raw: bytes) -> bytes:
        """Take a signed transaction, mine it, and what waited for it.

        One whose nonce is too high waits until those before it are there.

        Args:
            raw: the bytes that were signed.

        Returns:
            Its hash. It is kept, whatever happens from now on.

        Raises:
            RefusedError: it cannot be mined; nothing was changed.
        """
        vm = self._evm.get_vm(self.next_header())
        transaction = check(raw, vm.get_header(), vm.state, self.chain_id)
        gap = transaction.nonce - vm.state.get_nonce(transaction.sender)
        if gap:
            self._queue.put(transaction, gap)
            self.store.commit()
        else:
            self._mine(vm, [transaction])
            self._mine_queued(transaction.sender)
        return transaction.hash

    def mine_empty(self) -> None:
        """Mine a block without transactions."""
        self._mine(self._evm.get_vm(self.next_header()), [])

    def _mine_queued(self, sender: bytes) -> None:
        """Mine what waits and need not wait any more; drop what cannot be mined now."""
        while self._queue.has(sender):
            vm = self._evm.get_vm(self.next_header())
            nonce = vm.state.get_nonce(cast(Address, sender))
            waiting = self._queue.take(sender, nonce)
            if waiting is None:
                return
            try:
                check(waiting.encode(), vm.get_header(), vm.state, self.chain_id)
                self._mine(vm, [waiting])
            except RefusedError:
                self._queue.drop(sender, nonce)
                self.store.commit()

    def _mine(self, vm: VirtualMachineAPI, transactions: Sequence[SignedTransactionAPI]) -> None:
        """Make the next block, and keep it.

        py-evm would check the block once more when it is mined, as if somebody else had made it.
        """
        header = vm.get_header()
        try:
            filled, receipts, _ = vm.apply_all_transactions(transactions, header)
        except ValidationError as error:
            raise RefusedError(str(error)) from error
        block = vm.set_block_transactions_and_withdrawals(
            vm.get_block(), filled, transactions, receipts
        )
        block = vm.finalize_block(block).block
        self._evm.chaindb.persist_block(block)
        for each in transactions:
            self._queue.drop(each.sender, each.nonce)
        self._keep_time(header.timestamp)
        self._keep(block, receipts)

    def _keep(self, block: BlockAPI, receipts: Sequence[ReceiptAPI]) -> None:
        """Write a block and what can be asked about it, in one transaction of the store."""
        add, encode = self.store.add, msgspec.json.encode
        number = block.number
        add(_BLOCK, number, block.hash, encode(block_record(block)))
        for index, receipt in enumerate(receipt_records(block, receipts)):
            transaction = block.transactions[index]
            mined = mined_record(transaction, block, index)
            add(_TRANSACTION, transaction.hash, number, encode(mined), encode(receipt))
            for log in receipt["logs"]:
                add(_LOG, number, *_log_row(log))
        self.store.commit()
        self.forget()
        self._head = block.header

    # ----- time ------------------------------------------------------------------------------

    def _time_s(self) -> int:
        """Give the time of the next block: after the last one, whatever the clock says."""
        if self._next_s is not None:
            return self._next_s
        return max(self._head.timestamp + 1, self._clock_s() + self._offset_s)

    def _keep_time(self, mined_s: int) -> None:
        """Go on from a time that was asked for."""
        if self._next_s is not None:
            self._next_s = None
            self._set_offset(mined_s - self._clock_s())

    def _set_offset(self, offset_s: int) -> None:
        """Change how far the chain's clock is ahead, with the next commit."""
        self._offset_s = offset_s
        self.store.add(_FACT, OFFSET_S, offset_s)

    def increase_time(self, by_s: int) -> int:
        """Put the chain's clock forward.

        Args:
            by_s: by how many seconds, 0 or more.

        Returns:
            How many seconds it is ahead of the machine's clock now.
        """
        self._set_offset(self._offset_s + by_s)
        self.store.commit()
        return self._offset_s

    def set_next_time(self, time_s: int) -> None:
        """Say when the next block is mined; the clock goes on from there.

        Raises:
            RefusedError: the newest block is not before that.
        """
        if time_s <= self._head.timestamp:
            raise invalid(
                f"the next block cannot be at {time_s}: the newest is at {self._head.timestamp}"
            )
        self._next_s = time_s


def _log_row(log: Record) -> tuple[Any, ...]:
    """Give a log as it is kept, after the number of its block."""
    topics = [bytes.fromhex(topic[2:]) for topic in log["topics"]]
    topics += [None] * (TOPICS_MAX - len(topics))  # type: ignore[list-item]
    place, address = int(log["logIndex"], 16), bytes.fromhex(log["address"][2:])
    return place, address, *topics, msgspec.json.encode(log)


# MERGED clob_server.chain.devchain.chain: Transactions that wait for one before them, kept like everything else.
