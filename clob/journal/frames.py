"""Frames of a journal: the commands of one group commit, each frame chained to the one before it.

A frame is self-contained, so that a journal may be kept in any number of pieces. What its bytes
are stands in the reference, under *Journal*, byte by byte. There are no files here: bytes go in,
bytes come out.
"""

import hashlib
import struct
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NoReturn

import msgspec

from clob.codec import decode, encode, split
from clob.codec.layout import FIRST_EVENT_KIND, FIRST_FOREIGN_KIND
from clob.commands import Command
from clob.errors import (
    ChainBrokenError,
    FrameError,
    FrameMalformedError,
    FrameNewerError,
    FrameTruncatedError,
    InvalidBytesError,
)

MAGIC: Final = b"CLOBFRM"
"""What a frame begins with."""

FRAME_VERSION: Final = 2
"""The version of the frames written here, and the only one that is read."""

HASH_BYTES: Final = 32
"""How long a hash is."""

ZERO_HASH: Final = bytes(HASH_BYTES)
"""What stands for the hash before the first frame, and before the first command."""

OUTCOME_BYTES: Final = 8
"""How much of the event hash a frame states after each command."""

SEQ_MAX: Final = 2**64 - 1
"""The last number a command can have."""

COMMANDS: Final = frozenset(typing.get_args(Command))
"""The types of the commands."""

_HEAD = struct.Struct("<7sBI")
_INNER = struct.Struct("<QIB")
_LENGTH = struct.Struct("<I")
_LENGTH_MAX = 2**32 - 1
_LENGTH_MIN = _INNER.size + HASH_BYTES
_HAS_EVENT_HASH, _HAS_STATE_HASH, _HAS_OUTCOMES = 1, 2, 4
_ALL_FLAGS = _HAS_EVENT_HASH | _HAS_STATE_HASH | _HAS_OUTCOMES


def digest(*pieces: "bytes | memoryview") -> bytes:
    """Hash pieces one after the other, BLAKE2b of 32 bytes."""
    total = hashlib.blake2b(digest_size=HASH_BYTES)
    for piece in pieces:
        total.update(piece)
    return total.digest()


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame as it was read, its chain hash found to be right."""

    number: int
    """Which frame of the data it is, counted from 1."""
    offset: int
    """Where it begins in the data, counted from 0."""
    first_seq: int
    """The number of its first command; it is the number of the next one where there is none."""
    event_hash: bytes | None
    """The event hash before its first command, where it is stated."""
    state_hash: bytes | None
    """The state hash before its first command, where it is stated."""
    outcomes: tuple[bytes, ...] | None
    """The first 8 bytes of the event hash after each command, where they are stated."""
    raw: tuple[bytes, ...]
    """The canonical bytes of its commands."""
    chain_hash: bytes
    """The hash of this frame and all before it."""

    @property
    def count(self) -> int:
        """How many commands it holds."""
        return len(self.raw)

    def commands(self) -> list[Command | bytes]:
        """Decode its commands; those of the embedder's own kinds stay bytes.

        Raises:
            InvalidBytesError: what stands for a command is none; says which, and the byte.
        """
        try:
            found = list(map(decode, self.raw))
        except InvalidBytesError:
            found = None
        # One by one is slower; it passes over the embedder's own, and says what is no command.
        if found is None or not COMMANDS.issuperset(map(type, found)):
            return [self.command(index) for index in range(len(self.raw))]
        return found

    def command(self, index: int) -> Command | bytes:
        """Decode one of its commands.

        Args:
            index: which, counted from 0.

        Returns:
            The command, or bytes where it is of one of the embedder's own kinds.

        Raises:
            InvalidBytesError: what stands there is no command; says which, and the byte.
        """
        try:
            return decode_command(self.raw[index])
        except InvalidBytesError as error:
            raise InvalidBytesError(
                f"{error.reason} (command {self.first_seq + index}, frame {self.number})",
                self._offset_of(index) + error.offset,
            ) from None

    def _offset_of(self, index: int) -> int:
        """Say where the canonical bytes of a command begin in the data."""
        hashes = (self.event_hash is not None) + (self.state_hash is not None)
        stated = 0 if self.outcomes is None else OUTCOME_BYTES * self.count
        before = sum(map(len, self.raw[:index])) + _LENGTH.size * (index + 1)
        return self.offset + _HEAD.size + _INNER.size + HASH_BYTES * hashes + stated + before


def decode_command(raw: bytes) -> Command | bytes:
    """Read a command, and pass those of the embedder's own kinds through.

    Args:
        raw: canonical bytes.

    Returns:
        The command, or ``raw`` itself where it is of a kind from 128 on.

    Raises:
        InvalidBytesError: the bytes are no command.
    """
    kind = raw[0] if raw else 0
    if kind >= FIRST_FOREIGN_KIND:
        return raw
    if kind >= FIRST_EVENT_KIND:
        raise InvalidBytesError(f"kind {kind} is no command", 0)
    command: Command = decode(raw)
    return command


# ----- writing -------------------------------------------------------------------------------


def encode_frame(
    commands: Sequence[Command | bytes],
    first_seq: int,
    previous: bytes,
    *,
    event_hash: bytes | None = None,
    state_hash: bytes | None = None,
    outcomes: Sequence[bytes] | None = None,
) -> bytes:
    """Write one frame.

    Args:
        commands: the commands, or their canonical bytes; those of the embedder's own kinds (first
            byte 128 to 255) can only be given as bytes. A frame may hold none.
        first_seq: the number of the first command, 1 or more.
        previous: the chain hash of the frame before it, ``ZERO_HASH`` for the first one.
        event_hash: the event hash before the first command; None leaves it out.
        state_hash: the state hash before the first command; None leaves it out.
        outcomes: the event hash after each command, of which the first 8 bytes are written; None
            leaves them out.

    Returns:
        The frame. Its last 32 bytes are its chain hash.

    Raises:
        TypeError: a command, or a field of one, is of a type that cannot be written.
        ValueError: ``first_seq`` or an integer in a command is out of range, a hash is not of 32
            bytes, there are more or fewer outcomes than commands, bytes do not begin with the kind
            of a command, or the frame would have 2**32 bytes or more.
    """
    raws = [_raw_of(command) for command in commands]
    if not 1 <= first_seq <= SEQ_MAX + 1 - len(raws):
        raise ValueError(f"first_seq must be 1 to {SEQ_MAX} less the commands, not {first_seq}")
    _check_hash("previous", previous)
    pieces, flags = [], 0
    for name, stated, flag in (
        ("event_hash", event_hash, _HAS_EVENT_HASH),
        ("state_hash", state_hash, _HAS_STATE_HASH),
    ):
        if stated is not None:
            pieces.append(_check_hash(name, stated))
            flags |= flag
    if outcomes is not None:
        if len(outcomes) != len(raws):
            raise ValueError(f"{len(raws)} commands have as many outcomes, not {len(outcomes)}")
        pieces += [_check_hash("an outcome", outcome)[:OUTCOME_BYTES] for outcome in outcomes]
        flags |= _HAS_OUTCOMES
    for raw in raws:
        pieces += (_LENGTH.pack(len(raw)), raw)
    inner = _INNER.pack(first_seq, len(raws), flags) + b"".join(pieces)
    length = len(inner) + HASH_BYTES
    if length > _LENGTH_MAX:
        raise ValueError(f"a frame has at most {_LENGTH_MAX} bytes after its head, not {length}")
    frame = _HEAD.pack(MAGIC, FRAME_VERSION, length) + inner
    return frame + digest(previous, frame)


def frame_hash(frame: bytes) -> bytes:
    """Give the chain hash of a whole frame, which the next one is chained to."""
    return frame[-HASH_BYTES:]


def _raw_of(command: Command | bytes) -> bytes:
    """Give the canonical bytes of a command."""
    raw = command if isinstance(command, bytes) else encode(command)
    kind = raw[0] if raw else 0
    if not (0 < kind < FIRST_EVENT_KIND or kind >= FIRST_FOREIGN_KIND):
        raise ValueError(f"a frame holds commands, not kind {kind}")
    return raw


def _check_hash(name: str, stated: bytes) -> bytes:
    """Refuse what has not the length of a hash."""
    if len(stated) != HASH_BYTES:
        raise ValueError(f"{name} must have {HASH_BYTES} bytes, not {len(stated)}")
    return stated


# ----- reading -------------------------------------------------------------------------------


def read_frames(
    data: bytes | Iterable[bytes], previous: bytes = ZERO_HASH, first_seq: int = 1
) -> Iterator[Frame]:
    """Read frames one after the other, checking each before it is given out.

    Args:
        data: frames without anything between them; or pieces of the journal, each of whole frames,
            which need not all be in memory.
        previous: the chain hash of the frame before the first one here.
        first_seq: the number of the first command here.

    Yields:
        Each frame.

    Raises:
        FrameMalformedError: the bytes do not begin as a frame does, or its parts contradict.
        FrameNewerError: a newer version of this package wrote the frame.
        FrameTruncatedError: the bytes end inside the frame.
        ChainBrokenError: the frame is damaged, or it is not the one that follows.
    """
    number = begin = 0
    for piece in (data,) if isinstance(data, bytes) else data:
        offset = 0
        while offset < len(piece):
            number += 1
            frame, offset = _read_frame(piece, offset, previous, number, begin)
            if frame.first_seq != first_seq:
                raise ChainBrokenError(
                    f"it begins with command {frame.first_seq}, and {first_seq} was to follow",
                    number,
                    frame.offset,
                )
            yield frame
            previous, first_seq = frame.chain_hash, first_seq + frame.count
        begin += len(piece)


def _read_frame(
    piece: bytes, start: int, previous: bytes, number: int, begin: int
) -> tuple[Frame, int]:
    """Read one frame, and say where it ends; ``begin`` is where the piece stands in the data."""

    def refuse(error: type[FrameError], message: str) -> NoReturn:
        raise error(message, number, begin + start)

    end = start + _whole_length(piece, start, refuse)
    inner = start + _HEAD.size
    last = end - HASH_BYTES
    found, chain_hash = digest(previous, memoryview(piece)[start:last]), piece[last:end]
    if found != chain_hash:
        refuse(
            ChainBrokenError,
            f"its chain hash is {chain_hash.hex()}, and after the frame before it "
            f"{found.hex()}: it is damaged, or not the frame that follows",
        )
    first_seq, count, flags = _INNER.unpack_from(piece, inner)
    if flags > _ALL_FLAGS:
        refuse(FrameMalformedError, f"its flags must be 0 to {_ALL_FLAGS}, not {flags}")
    stated = _stated(piece, inner + _INNER.size, count, flags)
    raw = split(piece, inner + _INNER.size + sum(map(len, stated)), last, count)
    if raw is None or not 1 <= first_seq <= SEQ_MAX + 1 - count:
        refuse(FrameMalformedError, f"it does not hold {count} commands from {first_seq} on")
    event_hash, state_hash, outcomes = stated
    frame = Frame(
        number=number,
        offset=begin + start,
        first_seq=first_seq,
        event_hash=event_hash or None,
        state_hash=state_hash or None,
        outcomes=_eights(outcomes) if flags & _HAS_OUTCOMES else None,
        raw=raw,
        chain_hash=chain_hash,
    )
    return frame, end


def _whole_length(
    piece: bytes, start: int, refuse: Callable[[type[FrameError], str], NoReturn]
) -> int:
    """Read the head of a frame, and say how long the frame is."""
    head = piece[start : start + _HEAD.size]
    magic = head[: len(MAGIC)]
    if magic != MAGIC[: len(magic)]:
        refuse(FrameMalformedError, f"it must begin with {MAGIC!r}, not {magic!r}")
    if len(head) > len(MAGIC) and head[len(MAGIC)] != FRAME_VERSION:
        version = head[len(MAGIC)]
        newer = version > FRAME_VERSION
        refuse(
            FrameNewerError if newer else FrameMalformedError,
            f"unsupported journal version {version} (expected {FRAME_VERSION})",
        )
    if len(head) < _HEAD.size:
        refuse(FrameTruncatedError, f"{len(head)} bytes are left, and its head has {_HEAD.size}")
    length: int = _HEAD.unpack(head)[-1]
    if length < _LENGTH_MIN:
        refuse(
            FrameMalformedError,
            f"its head must be followed by {_LENGTH_MIN} bytes or more, not {length}",
        )
    left = len(piece) - start - _HEAD.size
    if length > left:
        refuse(FrameTruncatedError, f"its head is followed by {left} bytes, not {length}")
    return _HEAD.size + length


def _stated(piece: bytes, offset: int, count: int, flags: int) -> list[bytes]:
    """Cut out the event hash, the state hash and the outcomes; what is not stated is empty."""
    sizes = (HASH_BYTES, HASH_BYTES, OUTCOME_BYTES * count)
    stated = []
    for bit, size in enumerate(sizes):
        end = offset + (size if flags >> bit & 1 else 0)
        stated.append(piece[offset:end])
        offset = end
    return stated


def _eights(outcomes: bytes) -> tuple[bytes, ...]:
    """Part the outcomes."""
    places = range(0, len(outcomes), OUTCOME_BYTES)
    return tuple(outcomes[place : place + OUTCOME_BYTES] for place in places)
