"""The outbox of the chain worker at a node of a cluster: it follows the log.

Only the owner of the log runs a worker. The worker stores each step in the log before it sends it,
so the next owner continues where the last one ended, and a worker whose node has lost the log sends
nothing new.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from clob import RejectedError
from clob_server.chain.tx.outbox import Outbox, OutboxBehindError
from clob_server.core.commands import KINDS, RecordOutbox, decode_own
from clob_server.core.sequencer import Committed, Sequencer
from clob_server.log import Log


class NumberedRecord(NamedTuple):
    """A record of the outbox in the log."""

    number: int
    seq: int
    """Number of its command."""
    data: bytes


class OutboxReplica:
    """The outbox of a node: it follows the log, except while a worker of this node has it.

    Args:
        folder: folder of the file.
        sequencer: the sequencer of the node, before it runs.
    """

    def __init__(self, folder: Path, sequencer: Sequencer) -> None:
        self._folder: Final = folder
        self._sequencer: Final = sequencer
        self._file: Outbox | None = None
        self._later: list[NumberedRecord] = []

    def open(self, log: Log) -> None:
        """Open the file before the sequencer runs, and read the missing records from the log.

        Raises:
            OutboxError: the file cannot be opened.
            OutboxBehindError: it lacks changes that the log does not have.
        """
        file = self._file = Outbox(self._folder, is_copy=True)
        last = self._sequencer.state.registry.outbox_records
        number, seq = file.records
        if number < self.floor:
            for record in records_of(log, max(seq, log.origin.seq)):
                file.follow(*record)
        if (number := file.records[0]) < last:
            raise OutboxBehindError(
                f"{file.path} ends with record {number} and the log with {last}, and the log no "
                "longer has those between; replace it by that of another node"
            )

    def on_batch(self, batch: Sequence[Committed]) -> None:
        """Make the changes of committed records, or keep them while a worker has the file."""
        for done in batch:
            command = done.command
            if type(command) is not RecordOutbox or isinstance(done.outcome, RejectedError):
                continue
            record = NumberedRecord(command.number, done.seq, command.data)
            if self._file is not None:
                self._file.follow(*record)
            elif self._sequencer.is_owner:  # the worker has stored those before
                self._later = [record]
            else:
                self._later.append(record)

    @property
    def floor(self) -> int:
        """Records need higher numbers."""
        return self._sequencer.state.registry.outbox_floor

    async def store(self, number: int, data: bytes) -> int:
        """Store a record of the worker of this node; return the number of its command.

        Raises:
            NotOwnerError: another node owns the log.
            RejectedError: another worker has stored a record with this number.
            ClobError: as for :meth:`Sequencer.submit`.
        """

        def record(now_ms: int) -> RecordOutbox:
            return RecordOutbox(number=number, data=data, now_ms=now_ms)

        done = await self._sequencer.deliver(record)
        if isinstance(done.outcome, RejectedError):
            raise done.outcome
        return done.seq

    def release(self) -> None:
        """Bring the file up to date and close it, for a worker that starts."""
        self.take_back()
        assert self._file is not None
        self._file.close()
        self._file = None

    def take_back(self) -> None:
        """Open the file again after a worker has ended, and follow the log."""
        if self._file is None:
            self._file = Outbox(self._folder, is_copy=True)
            later, self._later = self._later, []
            for record in later:
                self._file.follow(*record)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def records_of(log: Log, after: int) -> list[NumberedRecord]:
    """Return the records of the outbox after a command of a log."""
    kind = KINDS[RecordOutbox]
    found = []
    for frame in log.read(after):
        for seq, raw in enumerate(frame.raw, frame.first_seq):
            if raw.startswith(kind):
                command = decode_own(raw)
                assert type(command) is RecordOutbox
                found.append(NumberedRecord(command.number, seq, command.data))
    return found
