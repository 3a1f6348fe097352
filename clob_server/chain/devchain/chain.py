"""The chain: one block per transaction, durable before it is visible; queued transactions."""

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

from clob_server.chain.devchain.errors import RequestError, invalid
from clob_server.chain.devchain.evm import CONSTANT, check, decode, open_evm
from clob_server.chain.devchain.state import ChainStore, StoreError
from clob_server.chain.devchain.views import Record, block_record, mined_record, receipt_records

GAP_MAX: Final = 1000
"""Largest gap of nonces before a queued transaction."""
QUEUE_MAX: Final = 64
"""Queued transactions per sender, at most."""
BUMP_PERCENT: Final = 10
"""Increase of both fees that a replacement needs."""


class Queue:
    """Transactions that wait for earlier nonces; changes are durable with the next commit."""

    def __init__(self, store: ChainStore) -> None:
        self._store: Final = store

    def senders(self) -> Sequence[bytes]:
        """Return the senders with queued transactions."""
        return [row[0] for row in self._store.rows("SELECT DISTINCT sender FROM queue")]

    def has(self, sender: bytes) -> bool:
        """Return whether a sender has queued transactions."""
        return self._store.row("SELECT 1 FROM queue WHERE sender=?", sender) is not None

    def put(self, transaction: SignedTransactionAPI, gap: int) -> None:
        """Queue a checked transaction, before which ``gap`` nonces are missing.

        Raises:
            RequestError: it is queued already, too many are queued, or it pays too little to
                replace the queued transaction of its nonce.
        """
        sender, nonce = transaction.sender, transaction.nonce
        if gap > GAP_MAX:
            raise RequestError(f"nonce too high: next nonce {nonce - gap}, tx nonce {nonce}")
        other = self.at(sender, nonce)
        if other is not None:
            check_replaces(transaction, other)
            self.drop(sender, nonce)
        ((waiting,),) = self._store.rows("SELECT count(*) FROM queue WHERE sender=?", sender)
        if other is None and waiting >= QUEUE_MAX:
            text = f"too many queued transactions of 0x{sender.hex()}: the limit is {QUEUE_MAX}"
            raise RequestError(text)
        row = sender, nonce, transaction.hash, transaction.encode()
        self._store.add("INSERT INTO queue VALUES(?, ?, ?, ?)", *row)

    def drop(self, sender: bytes, nonce: int) -> None:
        """Remove a transaction, if queued."""
        self._store.add("DELETE FROM queue WHERE sender=? AND nonce=?", sender, nonce)

    def find(self, transaction_hash: bytes) -> SignedTransactionAPI | None:
        """Return the queued transaction with a hash."""
        row = self._store.row("SELECT raw FROM queue WHERE hash=?", transaction_hash)
        return None if row is None else decode(row[0])

    def at(self, sender: bytes, nonce: int) -> SignedTransactionAPI | None:
        """Return the queued transaction with a nonce."""
        query = "SELECT raw FROM queue WHERE sender=? AND nonce=?"
        row = self._store.row(query, sender, nonce)
        return None if row is None else decode(row[0])


def check_replaces(new: SignedTransactionAPI, old: SignedTransactionAPI) -> None:
    """Reject a replacement that does not raise both fees enough."""
    if new.hash == old.hash:
        raise RequestError("already known")
    for field in ("max_fee_per_gas", "max_priority_fee_per_gas"):
        had, has = getattr(old, field), getattr(new, field)
        if has * 100 < had * (100 + BUMP_PERCENT):
            raise RequestError("replacement transaction underpriced")


OFFSET_S: Final = "offset_s"
"""Stored value: seconds by which the chain's clock is ahead of the machine's."""
CHAIN_ID: Final = "chain_id"
"""Stored value: the chain id."""
STATES_MAX: Final = 8
"""Cached block states."""
TOPICS_MAX: Final = 4
"""Topics per log, at most."""
_FACT: Final = "INSERT OR REPLACE INTO facts VALUES(?, ?)"


class DevelopmentChain:
    """A chain that mines each transaction at once.

    Args:
        store: the database; an empty one gets its first block.
        chain_id: the chain id of transactions.
        clock_s: returns Unix seconds.

    Raises:
        StoreError: the store holds another chain or is damaged.
    """

    def __init__(self, store: ChainStore, chain_id: int, clock_s: Callable[[], int]) -> None:
        self.store: Final[ChainStore] = store
        self.chain_id: Final[int] = chain_id
        self._clock_s = clock_s
        self._next_s: int | None = None
        self._next: BlockHeaderAPI | None = None
        self._states: dict[tuple[int, int], StateAPI] = {}
        kept = self._fact(CHAIN_ID, chain_id)
        if kept != chain_id:
            raise StoreError(f"the stored chain has id {kept}; expected {chain_id}")
        self._offset_s = self._fact(OFFSET_S, 0)
        self._evm: Chain = open_evm(store, chain_id, clock_s())
        self.queue: Final = Queue(store)
        try:
            self._head = self._evm.get_canonical_head()
            self._begin()
        except (PyEVMError, KeyError) as error:
            raise StoreError(f"the stored chain is damaged: {error}") from error

    def _fact(self, name: str, default: int) -> int:
        """Return a stored value."""
        row = self.store.row("SELECT value FROM facts WHERE name=?", name)
        return default if row is None else int(row[0])

    def _begin(self) -> None:
        """Store the first block if missing, and mine what a crash left in the queue."""
        if self.store.row("SELECT 1 FROM blocks WHERE number=0") is None:
            self.store.add(_FACT, CHAIN_ID, self.chain_id)
            self._keep(self._evm.get_block_by_header(self._head), [])
        ((newest,),) = self.store.rows("SELECT max(number) FROM blocks")
        if newest != self._head.block_number:
            head = self._head.block_number
            blocks = f"its head is block {head}, its newest row is block {newest}"
            raise StoreError(f"the stored chain is damaged: {blocks}")
        self.state_at(self._head).get_balance(self._head.coinbase)
        for sender in self.queue.senders():
            self._mine_queued(sender)

    # ----- reads -----------------------------------------------------------------------------

    @property
    def head(self) -> BlockHeaderAPI:
        """The newest block."""
        return self._head

    def next_header(self) -> BlockHeaderAPI:
        """Return the header of a block mined now."""
        time_s = self._time_s()
        if self._next is None or self._next.timestamp != time_s:
            create = self._evm.create_header_from_parent
            self._next = create(self._head, timestamp=time_s, **CONSTANT)
        return self._next

    def number_of(self, block_hash: bytes) -> int:
        """Return the number of a block.

        Raises:
            RequestError: unknown block.
        """
        row = self.store.row("SELECT number FROM blocks WHERE hash=?", block_hash)
        if row is None:
            raise RequestError("unknown block")
        return int(row[0])

    def header(self, number: int) -> BlockHeaderAPI:
        """Return the header of a block.

        Raises:
            RequestError: unknown block.
        """
        if number == self._head.block_number:
            return self._head
        try:
            return self._evm.get_canonical_block_header_by_number(number)  # type: ignore[arg-type]
        except HeaderNotFound:
            text = f"unknown block {number}; the newest is {self._head.block_number}"
            raise invalid(text) from None

    def state_at(self, header: BlockHeaderAPI) -> StateAPI:
        """Return the state after a block, or of the next block.

        Callers must undo their changes: the state is cached for later calls.
        """
        place = header.block_number, header.timestamp
        if place not in self._states:
            if len(self._states) >= STATES_MAX:
                self._states.clear()
            self._states[place] = self._evm.get_vm(header).state
        return self._states[place]

    def forget(self) -> None:
        """Drop cached reads and uncommitted writes."""
        self._next = None
        self._states.clear()
        self.store.forget()

    # ----- mining ----------------------------------------------------------------------------

    def send(self, raw: bytes) -> bytes:
        """Mine a signed transaction and those queued behind it, and return its hash.

        A transaction whose nonce is too high is queued. It is durable in both cases.

        Raises:
            RequestError: it cannot be mined; nothing changed.
        """
        vm = self._evm.get_vm(self.next_header())
        transaction = check(raw, vm.get_header(), vm.state, self.chain_id)
        gap = transaction.nonce - vm.state.get_nonce(transaction.sender)
        if gap:
            self.queue.put(transaction, gap)
            self.store.commit()
        else:
            self._mine(vm, [transaction])
            self._mine_queued(transaction.sender)
        return transaction.hash

    def mine_empty(self) -> None:
        """Mine a block without transactions."""
        self._mine(self._evm.get_vm(self.next_header()), [])

    def _mine_queued(self, sender: bytes) -> None:
        """Mine queued transactions that are next; drop those that are invalid."""
        while self.queue.has(sender):
            vm = self._evm.get_vm(self.next_header())
            nonce = vm.state.get_nonce(cast(Address, sender))
            waiting = self.queue.at(sender, nonce)
            if waiting is None:
                return
            try:
                check(waiting.encode(), vm.get_header(), vm.state, self.chain_id)
                self._mine(vm, [waiting])
            except RequestError:
                self.queue.drop(sender, nonce)
                self.store.commit()

    def _mine(self, vm: VirtualMachineAPI, transactions: Sequence[SignedTransactionAPI]) -> None:
        """Build and store the next block.

        py-evm's own mining would validate the block again as if it came from a peer.
        """
        header = vm.get_header()
        try:
            filled, receipts, _ = vm.apply_all_transactions(transactions, header)
        except ValidationError as error:
            raise RequestError(str(error)) from error
        build = vm.set_block_transactions_and_withdrawals
        block = build(vm.get_block(), filled, transactions, receipts)
        block = vm.finalize_block(block).block
        self._evm.chaindb.persist_block(block)
        for each in transactions:
            self.queue.drop(each.sender, each.nonce)
        self._keep_time(header.timestamp)
        self._keep(block, receipts)

    def _keep(self, block: BlockAPI, receipts: Sequence[ReceiptAPI]) -> None:
        """Store a block with its transactions and logs in one database transaction."""
        add, encode = self.store.add, msgspec.json.encode
        number = block.number
        add("INSERT INTO blocks VALUES(?, ?, ?)", number, block.hash, encode(block_record(block)))
        for index, receipt in enumerate(receipt_records(block, receipts)):
            transaction = block.transactions[index]
            bodies = encode(mined_record(transaction, block, index)), encode(receipt)
            query = "INSERT INTO transactions VALUES(?, ?, ?, ?)"
            add(query, transaction.hash, number, *bodies)
            for log in receipt["logs"]:
                add("INSERT INTO logs VALUES(?, ?, ?, ?, ?, ?, ?, ?)", number, *_log_row(log))
        self.store.commit()
        self.forget()
        self._head = block.header

    # ----- time ------------------------------------------------------------------------------

    def _time_s(self) -> int:
        """Return the time of the next block: never before that of the last one.

        Blocks may share a time. One second more for each block would carry a busy chain away from
        the clock that orders expire by.
        """
        if self._next_s is not None:
            return self._next_s
        return max(self._head.timestamp, self._clock_s() + self._offset_s)

    def _keep_time(self, mined_s: int) -> None:
        """Continue from a requested block time."""
        if self._next_s is not None:
            self._next_s = None
            self._set_offset(mined_s - self._clock_s())

    def _set_offset(self, offset_s: int) -> None:
        """Set the clock offset, durable with the next commit."""
        self._offset_s = offset_s
        self.store.add(_FACT, OFFSET_S, offset_s)

    def increase_time(self, by_s: int) -> int:
        """Advance the chain's clock by seconds; return its total offset."""
        self._set_offset(self._offset_s + by_s)
        self.store.commit()
        return self._offset_s

    def set_next_time(self, time_s: int) -> None:
        """Set the time of the next block; the clock continues from there.

        Raises:
            RequestError: the time is not after the newest block.
        """
        if time_s <= self._head.timestamp:
            newest = f"that of the newest block, {self._head.timestamp}"
            raise invalid(f"timestamp {time_s} must be after {newest}")
        self._next_s = time_s


def _log_row(log: Record) -> tuple[Any, ...]:
    """Return the columns of a log after the block number."""
    topics = [bytes.fromhex(topic[2:]) for topic in log["topics"]]
    topics += [None] * (TOPICS_MAX - len(topics))  # type: ignore[list-item]
    place, address = int(log["logIndex"], 16), bytes.fromhex(log["address"][2:])
    return place, address, *topics, msgspec.json.encode(log)
