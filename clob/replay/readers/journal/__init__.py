"""Reads a journal by executing its commands again and writing their events.

A journal holds commands and no events, so a matcher executes them while the file is read. Each
market has two books, one per token. Rejected commands changed nothing and are skipped;
:func:`clob.journal.verify` proves that a journal leads to the recorded state.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeAlias

from clob.commands import (
    AddMarket,
    Batch,
    Command,
    RemoveMarket,
    Replace,
    SetMarket,
    SetMode,
    Submit,
)
from clob.errors import FrameError, InvalidBytesError, RejectedError
from clob.events import Event
from clob.journal import ZERO_HASH, Frame, read_frames
from clob.market import Market
from clob.matcher import Matcher
from clob.order import Order, TimeInForce
from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, Progress, byte_blocks, plain_name
from clob.replay.io.problems import Ignored, Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Instrument, Stream
from clob.replay.readers import file_stream, instruments_of
from clob.replay.readers.journal.rows import (
    INSTRUMENTS_MAX,
    ROWS,
    CommonLot,
    EventRows,
    OrderRequest,
)
from clob.units import PRICE_MAX, PRICE_MIN

MAGIC = b"CLOBFRM"
"""The first bytes of a journal."""

HEAD_BYTES = 12
"""The size of the head of a frame; its last four bytes are the length of the rest."""

NOWHERE = ("", "")
"""Market and token of a command without an order."""

CommandResult: TypeAlias = tuple[list[Event], OrderRequest | None, tuple[str, str]]
"""The events of a command, the request of its incoming order, and that order's market and token."""


class JournalStart(NamedTuple):
    """The state before the first command of a journal."""

    state: bytes
    """The snapshot of the matcher; empty for a new one."""
    previous: bytes
    """The chain hash of the frame before."""
    first_seq: int
    """The number of the first command."""

    def matcher(self) -> Matcher:
        """Return a new matcher in this state."""
        return Matcher.restore(self.state) if self.state else Matcher()


def read_journal(
    path: FilePath,
    *,
    lot_wei: int | None = None,
    state: bytes = b"",
    previous: bytes = ZERO_HASH,
    first_seq: int = 1,
    on_problem: Policy = "raise",
) -> Stream:
    """Read the frames of a journal, as written by :class:`clob.journal.Recorder` and the server.

    Args:
        path: the file, plain or compressed: frames without separators.
        lot_wei: the size of one lot, in wei; None takes the largest that divides all sizes, which
            needs another pass over the journal.
        state: for a journal that continues another, the snapshot of the matcher at its start;
            orders that rest in it are the seed.
        previous: the chain hash of the frame before the first one.
        first_seq: the number of the first command.
        on_problem: the policy for damaged frames. Frames after a damaged one are never read, since
            they cannot be verified.

    Returns:
        The stream. ``seq`` is the number of the command. Memory grows only with resting orders and
        makers.

    Raises:
        OSError: the file cannot be read.
        InvalidSnapshotError: ``state`` is not a snapshot.
        ReplayFormatError: a frame is damaged and the policy is ``"raise"``; sizes are too large for
            the lot; there are too many markets; or a market is complementary.
    """
    start = JournalStart(state, previous, first_seq)
    ahead = Problems(on_problem) if on_problem == "raise" else Ignored()
    lot, markets = _survey(path, start, ahead, measures=lot_wei is None)
    if 2 * len(markets) > INSTRUMENTS_MAX:
        raise ReplayFormatError(
            f"{plain_name(path)}: a stream has at most {INSTRUMENTS_MAX // 2} markets; "
            f"got {len(markets)}"
        )
    numbers = {market: 2 * place for place, market in enumerate(markets)}
    return file_stream(
        path,
        partial(_events, path, start, lot_wei or lot),
        on_problem,
        lo=PRICE_MIN,
        hi=PRICE_MAX,
        lot_wei=lot_wei or lot,
        instruments=instruments_of(numbers) or (Instrument(0, ""),),
        note="journal",
    )


# ----- frames --------------------------------------------------------------------------------


def frames_of(
    path: FilePath, start: JournalStart, problems: Problems, progress: Progress | None = None
) -> Iterator[Frame]:
    """Yield the verified frames of a file, up to the first damaged one, which is reported.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: a frame is damaged and the policy is ``"raise"``.
    """
    number = 0
    try:
        pieces = _whole_frames(path, problems, progress)
        for frame in read_frames(pieces, start.previous, start.first_seq):
            number = frame.number
            yield frame
    except FrameError as error:
        problems.report("damaged frame", str(error), path, number + 1)


def _whole_frames(path: FilePath, problems: Problems, progress: Progress | None) -> Iterator[bytes]:
    """Read a file in pieces of complete frames; only the last piece may be cut off."""
    rest = b""
    for block in byte_blocks(path, problems, progress):
        rest += block
        end = _end_of_whole(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def _end_of_whole(data: bytes) -> int:
    end = 0
    while len(data) >= end + HEAD_BYTES:
        length = int.from_bytes(data[end + HEAD_BYTES - 4 : end + HEAD_BYTES], "little")
        if not data.startswith(MAGIC, end) or len(data) < end + HEAD_BYTES + length:
            break
        end += HEAD_BYTES + length
    return end


def _commands(
    path: FilePath, start: JournalStart, problems: Problems, progress: Progress | None = None
) -> Iterator[tuple[int, Command]]:
    """Yield each command with its number; custom commands of the embedding program are skipped."""
    for frame in frames_of(path, start, problems, progress):
        try:
            for place, command in enumerate(frame.commands()):
                if not isinstance(command, bytes):
                    yield frame.first_seq + place, command
        except InvalidBytesError as error:
            problems.report("damaged frame", str(error), path, frame.number)
            return


# ----- execution -----------------------------------------------------------------------------


def _events(
    path: FilePath, start: JournalStart, lot_wei: int, problems: Problems, progress: Progress
) -> Iterator[Records]:
    matcher, rows = start.matcher(), EventRows(path, {}, lot_wei)
    places: dict[str, int] = {}
    _number(rows.numbers, places, matcher.markets)
    for record in matcher.open_orders():
        rows.add_seed(matcher.now_ms, record)
    for seq, command in _commands(path, start, problems, progress):
        for events, request, token in execute(matcher, command, problems):
            rows.add_command(seq, command.now_ms, events, request, token)
        if isinstance(command, AddMarket | SetMarket):
            with suppress(RejectedError):  # the command was rejected
                _number(rows.numbers, places, [matcher.market(command.market.id)])
        if len(rows) >= ROWS:
            yield rows.take()
    if len(rows):
        yield rows.take()


def execute(matcher: Matcher, command: Command, problems: Problems) -> list[CommandResult]:
    """Execute a command, or each of a batch; return the results of those not rejected."""
    parts: tuple[Command, ...] = (command,)
    outcomes: list[list[Event] | RejectedError]
    try:
        if isinstance(command, Batch):
            parts = command.commands
            outcomes = matcher.batch(parts, command.now_ms, atomic=command.atomic)
        else:
            outcomes = [matcher.apply(command)]
    except RejectedError as error:
        outcomes = [error] * len(parts)
    results: list[CommandResult] = []
    for part, events in zip(parts, outcomes, strict=True):
        if isinstance(events, RejectedError):
            problems.remark(f"rejected: {events.code}")
        else:
            results.append((events, *_request(matcher, part)))
    return results


def _request(matcher: Matcher, command: Command) -> tuple[OrderRequest | None, tuple[str, str]]:
    """Return the request of the incoming order of a command, with its market and token."""
    terms: Order | Replace
    if isinstance(command, Submit):
        terms = order = command.order
        market, time_in_force = command.market, order.time_in_force
    elif isinstance(command, Replace):
        try:
            record = matcher.order(command.order_id)
        except RejectedError:
            # The order is finished and no longer stored: its events have to suffice.
            return None, NOWHERE
        terms, order, market, time_in_force = command, record.order, record.market, TimeInForce.GTC
    else:
        return None, NOWHERE
    policy = terms.self_trade
    request = OrderRequest(
        order_id=order.id,
        side=int(order.side),
        price=terms.price,
        size=terms.size,
        maker=order.maker,
        time_in_force=time_in_force,
        post_only=terms.post_only,
        self_trade=matcher.market(market).self_trade if policy is None else policy,
    )
    return request, (market, order.token)


# ----- first pass ----------------------------------------------------------------------------


def _number(
    numbers: dict[tuple[str, str], int], places: dict[str, int], markets: Iterable[Market]
) -> None:
    """Number the books of markets, in the order in which the markets were added.

    A market keeps its number when others are removed, or when it is added again.
    """
    for market in markets:
        place = places.setdefault(market.id, len(places))
        if market.complementary:
            raise ReplayFormatError(
                f"market {market.id!r} is complementary: its tokens share a book, "
                "which a stream cannot express"
            )
        numbers[market.id, market.yes] = 2 * place
        if market.no:
            numbers[market.id, market.no] = 2 * place + 1


def _survey(
    path: FilePath, start: JournalStart, problems: Problems, *, measures: bool
) -> tuple[int, list[str]]:
    """Find the markets of a journal and, with ``measures``, the lot that divides all sizes."""
    matcher, lot, ignored = start.matcher(), CommonLot(), Ignored()
    numbers: dict[tuple[str, str], int] = {}
    places: dict[str, int] = {}
    _number(numbers, places, matcher.markets)
    for record in matcher.open_orders():
        lot.add(record.remaining)
    for _, command in _commands(path, start, problems):
        if measures:
            for events, request, _ in execute(matcher, command, ignored):
                lot.add_events(events)
                if request:
                    lot.add(request.size)
        elif isinstance(command, AddMarket | SetMode | RemoveMarket):
            with suppress(RejectedError):
                matcher.apply(command)
        if isinstance(command, AddMarket):
            with suppress(RejectedError):  # raises for complementary ones before any event
                _number(numbers, places, [matcher.market(command.market.id)])
    return lot.lot_wei or 1, list(places)
