"""Judges what clients of a cluster observed by its log, which is replayed with the engine.

Every acknowledged command is in the log of every node and in the stream exactly once; every answer,
book, list and message of the feed is what the log yields; and the order of the log is one in which
every request could have been executed at an instant between its begin and its end.
"""

import hashlib
import subprocess
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from contextlib import closing

import msgspec

from clob import OrderAdded, OrderRemoved, RejectedError, Submit
from clob.journal import frame_hash
from clob.wire.orders import TradeSummary
from clob_server.auth.api_keys import IDS, secret
from clob_server.core.commands import SignatureRecord
from clob_server.core.ids import Ids
from clob_server.core.recovery import commands_of
from clob_server.core.serialize import orderbook_body, summaries
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import FrameStream, SqliteLog
from tests.server.cluster.load import PAGE
from tests.server.crash import MARKETS, check_message
from tests.server.live import environment


def check_folders(nodes, nats):
    """Assert that the logs of stopped nodes and the stream are the same, and replay to one state.

    Returns:
        The number of commands.
    """
    hashes, ends = [], set()
    for node in nodes:
        with closing(SqliteLog(node.folder)) as log:
            hashes.append([frame.chain_hash for frame in log.read(0)])
        verified = subprocess.run(
            [sys.executable, "-m", "clob_server", "verify", str(node.folder)],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        assert verified.returncode == 0, (node.name, verified.stdout, verified.stderr)
        ends.add(verified.stdout[verified.stdout.index("last command") :])
    assert len(ends) == 1, ends
    stream, stored = FrameStream(nats.urls, monitors=nats.monitors), []
    with closing(stream):
        _, last = stream.extent()
        while len(stored) < last:
            stored += stream.read(len(stored))
    hashes.append([frame_hash(each.frame) for each in stored])
    assert hashes.count(hashes[0]) == len(hashes), [len(each) for each in hashes]
    return stored[-1].last


class Placed(msgspec.Struct):
    """An order in the log."""

    seq: int
    command: Submit
    trades: list[TradeSummary]


class Oracle:
    """The log of one node, replayed.

    Args:
        folder: data folder of the node.
        seen: what the clients observed.
    """

    def __init__(self, folder, seen):
        self.seen = seen
        self.placed, self.cancelled = {}, {}
        """Orders by hash, and commands by the id of the order that they cancelled."""
        self.rejected = Counter()
        """Orders that were rejected in the log, by code."""
        self.events = defaultdict(dict)
        self.problems = []
        self._ids = Ids(secret(folder, IDS))
        self._seqs = {market: ([0], [0]) for market in MARKETS}
        """By market: commands with events of it, and the number of the last event after each."""
        self._open = defaultdict(dict)
        """Open orders by maker, oldest first."""
        self._maker_of = {}
        self._books, self._lists = defaultdict(list), defaultdict(list)
        for read in seen.reads:
            if read.market:
                self._books[read.market, read.seq].append(read)
            else:
                self._lists[read.seq].append(read)
        self._replay(folder)

    # ----- replay ----------------------------------------------------------------------------

    def _replay(self, folder):
        """Apply every command; compare the books and lists that were read after it."""
        state, seq = ServerState(), 0
        self._check_lists(0)
        with closing(SqliteLog(folder)) as log:
            for frame in log.read(0):
                for command in commands_of(frame):
                    seq += 1
                    num_trades = state.num_trades
                    outcome = outcome_of(state, command)
                    self._note(command, seq, outcome, num_trades)
                    self._check_books(state, seq)
                    self._check_lists(seq)
        self.num_commands = seq
        if self._books or self._lists:
            left = [*self._books, *self._lists]
            self.problems.append(("read of a state that never was", left[:5]))

    def _note(self, command, seq, outcome, num_trades):
        """Note the effects of a command."""
        events = [] if isinstance(outcome, RejectedError) else outcome
        if type(command) is Submit:
            hashed = command.order_hash
            if hashed not in self.seen.sent:
                self.problems.append(("order that no client sent", command))
            if isinstance(outcome, RejectedError):
                self.rejected[outcome.code] += 1
            elif hashed in self.placed:
                self.problems.append(("order twice in the log", seq, self.placed[hashed].seq))
            else:
                trades = summaries(events, self._ids, command.now_ms, num_trades)
                self.placed[hashed] = Placed(seq, command, trades)
                self._maker_of[command.order.id] = command.order.maker
        for event in events if isinstance(events, list) else ():
            self.events[event.market][event.seq] = event
            if type(event) is OrderAdded:
                self._open[self._maker_of[event.order_id]][event.order_id] = None
            elif type(event) is OrderRemoved:
                del self._open[self._maker_of[event.order_id]][event.order_id]
                if event.reason == "cancelled":
                    self.cancelled[event.order_id] = seq

    def _check_books(self, state, seq):
        """Compare the books after a command with those that were read."""
        for market, (commands, numbers) in self._seqs.items():
            if market not in state.markets or (now := state.matcher.seq(market)) == numbers[-1]:
                continue
            commands.append(seq)
            numbers.append(now)
            digests = {}
            for read in self._books.pop((market, now), ()):
                if read.token not in digests:
                    depth = state.matcher.depth(market, read.token, None)
                    body = orderbook_body(market, depth, state.changed_ms.get(market, 0))
                    encoded = msgspec.json.encode(body)
                    digests[read.token] = hashlib.blake2b(encoded, digest_size=16).digest()
                if read.content != digests[read.token]:
                    self.problems.append(("another book", read))

    def _check_lists(self, seq):
        """Compare the open orders after a command with those that were read."""
        for read in self._lists.pop(seq, ()):
            ids = tuple(self._open[read.maker])[:PAGE]
            if read.content != ids:
                self.problems.append(("other open orders", read, ids))

    # ----- checks ----------------------------------------------------------------------------

    def check(self):
        """Return all that contradicts the log."""
        self._check_writes()
        self.problems += [("acknowledged order called unknown", each) for each in self.seen.denied]
        still_open = {order for orders in self._open.values() for order in orders}
        for order_id in still_open.intersection(self.seen.not_open):
            self.problems.append(("open order was called finished", order_id))
        self._check_order_of_writes()
        self._check_applied()
        self._check_freshness()
        self._check_future()
        self._check_monotonic()
        for (market, *_), message in self.seen.messages.items():
            try:
                check_message(message, self.events[market])
            except (AssertionError, KeyError) as error:
                self.problems.append(("message that is not in the log", message, repr(error)))
        return self.problems

    def lost(self):
        """Return the acknowledged writes that are not in the log."""
        return [write for write in self.seen.writes if self._seq_of(write) is None]

    def _seq_of(self, write):
        """Return the command of a write; None if the log lacks it."""
        if write.kind == "cancel":
            return self.cancelled.get(write.key)
        placed = self.placed.get(write.key)
        return placed and placed.seq

    def _check_writes(self):
        """Compare acknowledged orders and cancels with the log."""
        for write in self.seen.writes:
            seq = self._seq_of(write)
            if seq is None:
                self.problems.append(("lost", write))
            elif seq > write.applied:
                self.problems.append(("X-Applied-Seq before the command", seq, write))
            elif write.kind == "place":
                self._check_order(write, self.placed[write.key])

    def _check_order(self, write, placed):
        """Compare the answer to an order with the log."""
        record = msgspec.msgpack.decode(placed.command.attachment, type=SignatureRecord)
        logged = placed.command.order.id, f"0x{record.signature.hex()}"
        if logged != (write.answer["orderId"], write.body["signature"]):
            self.problems.append(("another order", logged, write))
        trades = msgspec.convert(write.answer["trades"], list[TradeSummary])
        if trades != placed.trades:
            self.problems.append(("other trades", placed.trades, write))

    def _logged_writes(self):
        """Return the writes in the log with their commands."""
        return [
            (write, seq) for write in self.seen.writes if (seq := self._seq_of(write)) is not None
        ]

    def _check_order_of_writes(self):
        """Check that a write that began after the end of another one follows it in the log."""
        logged = self._logged_writes()
        by_end = sorted(logged, key=lambda item: item[0].ended)
        latest, index = 0, 0
        for write, seq in sorted(logged, key=lambda item: item[0].began):
            while index < len(by_end) and by_end[index][0].ended < write.began:
                latest = max(latest, by_end[index][1])
                index += 1
            if seq <= latest:
                self.problems.append(("order of writes", latest, seq, write))

    def _applied(self, read):
        """Return the last command that a read contains, and the first one that it lacks."""
        if not read.market:
            return read.seq, read.seq + 1
        commands, numbers = self._seqs[read.market]
        index = bisect_right(numbers, read.seq)
        after = commands[index] if index < len(commands) else self.num_commands + 1
        return commands[index - 1], after

    def _check_applied(self):
        """Check that a book is that after the command in its header."""
        for read in self.seen.reads:
            first, after = self._applied(read)
            if read.applied and not first <= read.applied < after:
                self.problems.append(("X-Applied-Seq of another book", first, after, read))

    def _check_freshness(self):
        """Check that reads contain what they have to: their minSeq, and earlier writes there."""
        for node in {read.node for read in self.seen.reads}:
            ended = sorted(
                (write.ended, seq) for write, seq in self._logged_writes() if write.node == node
            )
            latest, index = 0, 0
            reads = [read for read in self.seen.reads if read.node == node]
            for read in sorted(reads, key=lambda read: read.began):
                while index < len(ended) and ended[index][0] < read.began:
                    latest = max(latest, ended[index][1])
                    index += 1
                if self._applied(read)[1] <= max(latest, read.least):
                    self.problems.append(("stale read", latest, read))

    def _check_future(self):
        """Check that a read contains no order that was first sent after it ended."""
        began = [0.0] * (self.num_commands + 1)
        for hashed, placed in self.placed.items():
            began[placed.seq] = self.seen.sent.get(hashed, 0.0)
        for seq in range(1, len(began)):
            began[seq] = max(began[seq], began[seq - 1])
        for read in self.seen.reads:
            if began[self._applied(read)[0]] > read.ended:
                self.problems.append(("read from the future", read))

    def _check_monotonic(self):
        """Check that a node never shows an older state than it showed before."""
        for node in {read.node for read in self.seen.reads}:
            reads = [read for read in self.seen.reads if read.node == node]
            by_end = sorted(reads, key=lambda read: read.ended)
            latest, index = 0, 0
            for read in sorted(reads, key=lambda read: read.began):
                while index < len(by_end) and by_end[index].ended < read.began:
                    latest = max(latest, self._applied(by_end[index])[0])
                    index += 1
                if self._applied(read)[1] <= latest:
                    self.problems.append(("a node went back", latest, read))
