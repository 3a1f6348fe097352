"""Reads the frames of a journal: runs their commands again, and tells what came of them as events.

A journal holds commands and no events, so a matcher executes them as it is read. Each market has
two books, its YES token and its NO token. Refused commands changed nothing and are left out;
:func:`clob.journal.verify` is the proof that the same came of every command.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

from clob.commands import AddMarket, Batch, Command, Replace, SetMarket, Submit
from clob.errors import FrameError, InvalidBytesError, RejectedError
from clob.events import Event
from clob.journal import ZERO_HASH, Frame, read_frames
from clob.market import Market
from clob.matcher import Matcher
from clob.order import SelfTrade, TimeInForce
from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, Progress, byte_blocks, plain_name
from clob.replay.io.problems import Ignored, Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Instrument, Stream
from clob.replay.readers.journal.rows import (
    GRID,
    INSTRUMENTS_MAX,
    OUTCOMES,
    ROWS,
    CommonLot,
    EventRows,
    OrderRequest,
    SizeError,
)

MAGIC = b"CLOBFRM"
"""What a journal begins with."""

HEAD_BYTES = 12
"""How long the head of a frame is; its last four bytes say how many follow."""

NOWHERE = ("", "")
"""The market and the token where there is no order."""

Told: TypeAlias = tuple[list[Event], OrderRequest | None, tuple[str, str]]
"""What came of a command: its events, what the order asks for that it brought in, and of which
market and token that is."""


class Start:
    """Where a journal begins.

    Args:
        state: the snapshot of the matcher; empty is one that has seen nothing.
        previous: the chain hash of the frame before.
        first_seq: the number of the first command.
    """

    def __init__(self, state: bytes, previous: bytes, first_seq: int) -> None:
        self._state = state
        self.previous: bytes = previous
        """The chain hash of the frame before."""
        self.first_seq: int = first_seq
        """The number of the first command."""

    def matcher(self) -> Matcher:
        """Make the matcher as it was."""
        return Matcher.restore(self._state) if self._state else Matcher()


def read_journal(
    path: FilePath,
    *,
    lot_wei: int | None = None,
    state: bytes = b"",
    previous: bytes = ZERO_HASH,
    first_seq: int = 1,
    on_problem: Policy = "raise",
) -> Stream:
    """Read the frames of a journal, as :class:`clob.journal.Recorder` and the server write them.

    Args:
        path: the file, plain or compressed: frames without anything between them.
        lot_wei: what a size of 1 is to stand for, in wei; None takes the largest that divides all
            sizes, and goes through the journal once more for it.
        state: where the journal does not begin at the beginning, the snapshot of the matcher
            there; what rests in it becomes the seed.
        previous: the chain hash of the frame before the first one here.
        first_seq: the number of the first command here.
        on_problem: what becomes of frames that are damaged. What stands behind one is never read,
            since nothing says that it is what was written.

    Returns:
        The stream. ``seq`` is the number of the command; its memory does not grow with the
        journal, but for its resting orders and the names of makers.

    Raises:
        OSError: the file cannot be read.
        InvalidSnapshotError: the state is none.
        ReplayFormatError: a frame is damaged and the policy is to raise; sizes are too large for
            the lot; there are too many markets; or one is complementary.
    """
    problems, progress = Problems(on_problem), Progress()
    start = Start(state, previous, first_seq)
    ahead = Problems(on_problem) if on_problem == "raise" else Ignored()
    lot, markets = _survey(path, start, ahead, measures=lot_wei is None)
    if 2 * len(markets) > INSTRUMENTS_MAX:
        raise ReplayFormatError(f"{plain_name(path)}: {len(markets)} markets are too many")
    progress.expect(path)

    def blocks() -> Iterator[Records]:
        """Run the journal anew."""
        progress.expect(path)
        return _events(path, start, lot_wei or lot, problems, progress)

    return Stream(
        blocks,
        lo=GRID[0],
        hi=GRID[1],
        lot_wei=lot_wei or lot,
        instruments=[
            Instrument(2 * place + outcome, market, OUTCOMES[outcome])
            for place, market in enumerate(markets)
            for outcome in range(2)
        ]
        or (Instrument(0, ""),),
        name=plain_name(path),
        note="journal",
        problems=problems,
        progress=progress,
    )


# ----- frames --------------------------------------------------------------------------------


def frames_of(
    path: FilePath, start: Start, problems: Problems, progress: Progress | None = None
) -> Iterator[Frame]:
    """Read a file frame by frame; one that is damaged is reported, and ends it.

    Args:
        path: the file.
        start: where it begins.
        problems: where damage is reported, the number of the frame as the line.
        progress: is told of every byte read from the disk.

    Yields:
        Each frame, its chain found to be right.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: a frame is damaged and the policy is to raise.
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
    """Read a file in pieces of whole frames, only the last of which can be cut short."""
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
    """Say where the last whole frame ends."""
    end = 0
    while len(data) >= end + HEAD_BYTES:
        length = int.from_bytes(data[end + HEAD_BYTES - 4 : end + HEAD_BYTES], "little")
        if not data.startswith(MAGIC, end) or len(data) < end + HEAD_BYTES + length:
            break
        end += HEAD_BYTES + length
    return end


def _commands(
    path: FilePath, start: Start, problems: Problems, progress: Progress | None = None
) -> Iterator[tuple[int, Command]]:
    """Give each command with its number; those of the embedder's own kinds are passed over."""
    for frame in frames_of(path, start, problems, progress):
        try:
            for place, command in enumerate(frame.commands()):
                if not isinstance(command, bytes):
                    yield frame.first_seq + place, command
        except InvalidBytesError as error:
            problems.report("damaged frame", str(error), path, frame.number)
            return


# ----- what came of them ---------------------------------------------------------------------


def _events(
    path: FilePath, start: Start, lot_wei: int, problems: Problems, progress: Progress
) -> Iterator[Records]:
    """Run the commands again, and write what comes of them as events."""
    matcher, rows = start.matcher(), EventRows({}, lot_wei)
    _number(rows.numbers, matcher.markets)
    try:
        _seed(matcher, rows)
        for seq, command in _commands(path, start, problems, progress):
            for events, asked, token in told(matcher, command, problems):
                rows.happened(seq, command.now_ms, events, asked, token)
            if isinstance(command, AddMarket | SetMarket):
                _number(rows.numbers, matcher.markets)
            if len(rows) >= ROWS:
                yield rows.take()
    except SizeError as error:
        raise ReplayFormatError(f"{plain_name(path)}: {error}") from error
    if len(rows):
        yield rows.take()


def _seed(matcher: Matcher, rows: EventRows) -> None:
    """Tell what rested before the journal began."""
    for record in matcher.open_orders():
        rows.seed(matcher.now_ms, record)


def told(matcher: Matcher, command: Command, problems: Problems) -> list[Told]:
    """Execute a command, and give what came of it; of a batch, of each of its commands.

    Args:
        matcher: what executes it.
        command: the command.
        problems: where refusals are counted, as remarks.

    Returns:
        For each that was not refused its events, and what is known of the order it brought in.
    """
    parts: tuple[Command, ...] = (command,)
    outcomes: list[list[Event] | RejectedError]
    try:
        if isinstance(command, Batch):
            parts = command.commands
            outcomes = matcher.batch(parts, command.now_ms, atomic=command.atomic)
        else:
            outcomes = [matcher.apply(command)]
    except RejectedError as refusal:
        outcomes = [refusal] * len(parts)
    found: list[Told] = []
    for part, events in zip(parts, outcomes, strict=True):
        if isinstance(events, RejectedError):
            problems.remark(f"refused: {events.code}")
        else:
            found.append((events, *_asked(matcher, part)))
    return found


def _asked(matcher: Matcher, command: Command) -> tuple[OrderRequest | None, tuple[str, str]]:
    """Say what the order asks for that a command brought in, and its market and token."""
    if isinstance(command, Submit):
        order, policy = command.order, command.order.self_trade
        return (
            OrderRequest(
                order_id=order.id,
                side=int(order.side),
                price=order.price,
                size=order.size,
                maker=order.maker,
                time_in_force=order.time_in_force,
                post_only=order.post_only,
                self_trade=_policy(matcher, command.market) if policy is None else policy,
            ),
            (command.market, order.token),
        )
    if not isinstance(command, Replace):
        return None, NOWHERE
    try:
        record = matcher.order(command.order_id)
    except RejectedError:
        # It is finished, and the matcher has let go of it already: its events must do.
        return None, NOWHERE
    policy = command.self_trade
    asked = OrderRequest(
        order_id=command.order_id,
        side=int(record.order.side),
        price=command.price,
        size=command.size,
        maker=record.order.maker,
        time_in_force=TimeInForce.GTC,
        post_only=command.post_only,
        self_trade=_policy(matcher, record.market) if policy is None else policy,
    )
    return asked, (record.market, record.order.token)


def _policy(matcher: Matcher, market: str) -> SelfTrade:
    """Say what happens in a market where an order meets its maker's own."""
    return matcher.market(market).self_trade


# ----- beforehand ----------------------------------------------------------------------------


def _number(numbers: dict[tuple[str, str], int], markets: Sequence[Market]) -> None:
    """Number the books of all markets, in the sequence in which they were added."""
    for place, market in enumerate(markets):
        if market.complementary:
            raise ReplayFormatError(
                f"market {market.id!r} is complementary: its tokens share a book, "
                "which the events of a stream cannot say"
            )
        numbers[market.id, market.yes] = 2 * place
        if market.no:
            numbers[market.id, market.no] = 2 * place + 1


def _survey(
    path: FilePath, start: Start, problems: Problems, *, measures: bool
) -> tuple[int, list[str]]:
    """Go through a journal for its markets, and for the lot that divides all sizes if asked to."""
    matcher, lot, unheard = start.matcher(), CommonLot(), Ignored()
    for record in matcher.open_orders():
        lot.size(record.remaining)
    for _, command in _commands(path, start, problems):
        if measures:
            for events, asked, _ in told(matcher, command, unheard):
                lot.take(events)
                if asked:
                    lot.size(asked.size)
        elif isinstance(command, AddMarket):
            with suppress(RejectedError):
                matcher.apply(command)
    _number({}, matcher.markets)  # refuses what cannot be told before anything is
    return lot.lot_wei or 1, [market.id for market in matcher.markets]
