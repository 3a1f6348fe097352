"""Frames of a journal: the commands of one group commit, chained to the previous frame by a hash.

A frame is self-contained, so a journal can be stored in any number of pieces. The format is in the
reference, under *Journal*. The functions take and return bytes; they use no files.
"""

import hashlib
import struct
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NoReturn, TypeAlias

import msgspec

from clob import errors
from clob.codec import decode, encode, encode_all, split, write
from clob.codec.layout import FIRST_EVENT_KIND, FIRST_FOREIGN_KIND
from clob.commands import Command
from clob.events import Event, Rejected

MAGIC: Final = b"CLOBFRM"
"""First bytes of every frame."""

FRAME_VERSION: Final = 3
"""Version of new frames. It rises with the kinds, so that an older reader rejects new ones."""

FRAME_VERSION_MIN: Final = 2
"""Oldest version that is read: version 3 added ``CancelSome``."""

HASH_BYTES: Final = 32
"""Length of a hash."""

ZERO_HASH: Final = bytes(HASH_BYTES)
"""Chain hash before the first frame, and event hash before the first command: zeros."""

OUTCOME_BYTES: Final = 8
"""Bytes of the event hash that a frame stores after each command."""

SEQ_MAX: Final = 2**64 - 1
"""Highest number of a command."""

Outcome: TypeAlias = Sequence[Event | Rejected] | errors.RejectedError
"""Events of a command, including the rejections in a batch, or the error that rejected it."""

COMMANDS: Final = frozenset(typing.get_args(Command))
"""Types of the commands."""

_HEAD = struct.Struct("<7sBI")
_INNER = struct.Struct("<QIB")
_LENGTH = struct.Struct("<I")
_LENGTH_MAX = 2**32 - 1
_LENGTH_MIN = _INNER.size + HASH_BYTES
_HAS_EVENT_HASH, _HAS_STATE_HASH, _HAS_OUTCOMES = 1, 2, 4
_ALL_FLAGS = _HAS_EVENT_HASH | _HAS_STATE_HASH | _HAS_OUTCOMES


def digest(*pieces: "bytes | memoryview") -> bytes:
    """Return the 32-byte BLAKE2b hash of the concatenated pieces."""
    total = hashlib.blake2b(digest_size=HASH_BYTES)
    for piece in pieces:
        total.update(piece)
    return total.digest()


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame read from a journal, with a valid chain hash."""

    number: int
    """Position of the frame in the data, from 1."""
    offset: int
    """Position of its first byte in the data, from 0."""
    first_seq: int
    """Number of its first command; for an empty frame, of the next command."""
    event_hash: bytes | None
    """Event hash before its first command, if stored."""
    state_hash: bytes | None
    """State hash before its first command, if stored."""
    outcomes: tuple[bytes, ...] | None
    """First 8 bytes of the event hash after each command, if stored."""
    raw: tuple[bytes, ...]
    """Canonical bytes of its commands."""
    chain_hash: bytes
    """Hash of this frame and all frames before it."""

    @property
    def count(self) -> int:
        """Number of its commands."""
        return len(self.raw)

    def commands(self) -> list[Command | bytes]:
        """Decode its commands; commands of the embedder's own kinds stay bytes.

        Raises:
            InvalidBytesError: bytes are not a command; has the command and the position.
        """
        try:
            decoded = list(map(decode, self.raw))
        except errors.InvalidBytesError:
            decoded = None
        # The slower way keeps the embedder's own kinds as bytes and raises the exact error.
        if decoded is None or not COMMANDS.issuperset(map(type, decoded)):
            return [self.command(index) for index in range(len(self.raw))]
        return decoded

    def command(self, index: int) -> Command | bytes:
        """Decode one of its commands.

        Args:
            index: position of the command in the frame, from 0.

        Returns:
            The command, or its bytes if it is of one of the embedder's own kinds.

        Raises:
            InvalidBytesError: the bytes are not a command; has the command and the position.
        """
        try:
            return decode_command(self.raw[index])
        except errors.InvalidBytesError as error:
            raise errors.InvalidBytesError(
                f"{error.reason} (command {self.first_seq + index}, frame {self.number})",
                self._offset_of(index) + error.offset,
            ) from None

    def _offset_of(self, index: int) -> int:
        """Return the position of a command's canonical bytes in the data."""
        hashes = (self.event_hash is not None) + (self.state_hash is not None)
        outcomes = 0 if self.outcomes is None else OUTCOME_BYTES * self.count
        before = sum(map(len, self.raw[:index])) + _LENGTH.size * (index + 1)
        return self.offset + _HEAD.size + _INNER.size + HASH_BYTES * hashes + outcomes + before


def decode_command(raw: bytes) -> Command | bytes:
    """Decode a command; return the bytes themselves for the embedder's own kinds, from 128.

    Raises:
        InvalidBytesError: the bytes are not a command.
    """
    kind = raw[0] if raw else 0
    if kind >= FIRST_FOREIGN_KIND:
        return raw
    if kind >= FIRST_EVENT_KIND:
        raise errors.InvalidBytesError(f"kind {kind} is not a command", 0)
    command: Command = decode(raw)
    return command


# ----- encoding ------------------------------------------------------------------------------


def encode_frame(
    commands: Sequence[Command | bytes],
    first_seq: int,
    previous: bytes,
    *,
    event_hash: bytes | None = None,
    state_hash: bytes | None = None,
    outcomes: Sequence[bytes] | None = None,
) -> bytes:
    """Encode one frame.

    Args:
        commands: the commands, or their canonical bytes; commands of the embedder's own kinds
            (first byte 128 to 255) must be bytes. May be empty.
        first_seq: number of the first command, 1 or more.
        previous: chain hash of the previous frame, ``ZERO_HASH`` for the first frame.
        event_hash: event hash before the first command; not stored if None.
        state_hash: state hash before the first command; not stored if None.
        outcomes: event hash after each command, stored as its first 8 bytes; not stored if None.

    Returns:
        The frame. Its last 32 bytes are its chain hash.

    Raises:
        TypeError: a command or one of its fields has a type that cannot be encoded.
        ValueError: ``first_seq`` or an integer in a command is out of range, a hash does not have
            32 bytes, the number of outcomes differs from that of the commands, bytes do not begin
            with the kind of a command, or the frame would have 2**32 bytes or more.
    """
    raws = [_raw_of(command) for command in commands]
    if not 1 <= first_seq <= SEQ_MAX + 1 - len(raws):
        raise ValueError(f"first_seq must be from 1 to {SEQ_MAX + 1 - len(raws)}; got {first_seq}")
    _check_hash("previous", previous)
    pieces, flags = [], 0
    for name, value, flag in (
        ("event_hash", event_hash, _HAS_EVENT_HASH),
        ("state_hash", state_hash, _HAS_STATE_HASH),
    ):
        if value is not None:
            pieces.append(_check_hash(name, value))
            flags |= flag
    if outcomes is not None:
        if len(outcomes) != len(raws):
            raise ValueError(
                f"outcomes must have one hash for each of the {len(raws)} commands; "
                f"got {len(outcomes)}"
            )
        pieces += [_check_hash("an outcome", outcome)[:OUTCOME_BYTES] for outcome in outcomes]
        flags |= _HAS_OUTCOMES
    for raw in raws:
        pieces += (_LENGTH.pack(len(raw)), raw)
    inner = _INNER.pack(first_seq, len(raws), flags) + b"".join(pieces)
    length = len(inner) + HASH_BYTES
    if length > _LENGTH_MAX:
        raise ValueError(
            f"a frame must have at most {_LENGTH_MAX} bytes after its header; got {length}"
        )
    frame = _HEAD.pack(MAGIC, FRAME_VERSION, length) + inner
    return frame + digest(previous, frame)


def frame_hash(frame: bytes) -> bytes:
    """Return the chain hash of an encoded frame: ``previous`` of the next frame."""
    return frame[-HASH_BYTES:]


def _raw_of(command: Command | bytes) -> bytes:
    raw = command if isinstance(command, bytes) else encode(command)
    kind = raw[0] if raw else 0
    if not (0 < kind < FIRST_EVENT_KIND or kind >= FIRST_FOREIGN_KIND):
        raise ValueError(f"commands must have kinds from 1 to 63 or from 128; got kind {kind}")
    return raw


def _check_hash(name: str, value: bytes) -> bytes:
    if len(value) != HASH_BYTES:
        raise ValueError(f"{name} must have {HASH_BYTES} bytes; got {len(value)}")
    return value


# ----- reading -------------------------------------------------------------------------------


def read_frames(
    data: bytes | Iterable[bytes], previous: bytes = ZERO_HASH, first_seq: int = 1
) -> Iterator[Frame]:
    """Read frames in order and check each one before it is yielded.

    Args:
        data: frames with nothing between them; or an iterable of pieces, each of whole frames, for
            journals that do not fit in memory.
        previous: chain hash of the frame before the data.
        first_seq: number of the first command in the data.

    Yields:
        Each frame.

    Raises:
        TypeError: ``data`` or a piece is not ``bytes``.
        FrameMalformedError: the bytes are not a frame of this version, or are inconsistent.
        FrameNewerError: the frame was written by a newer version of this package.
        FrameTruncatedError: the bytes end inside the frame.
        ChainBrokenError: the frame is damaged, or does not follow the frame before it.
    """
    number = begin = 0
    for piece in pieces_of(data):
        offset = 0
        while offset < len(piece):
            number += 1
            frame, offset = _read_frame(piece, offset, previous, number, begin)
            if frame.first_seq != first_seq:
                raise errors.ChainBrokenError(
                    f"first command must be number {first_seq}; got {frame.first_seq}",
                    number,
                    frame.offset,
                )
            yield frame
            previous, first_seq = frame.chain_hash, first_seq + frame.count
        begin += len(piece)


def pieces_of(data: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a journal; raise ``TypeError`` for one that is not ``bytes``."""
    # A buffer or a text is one piece, although it can be iterated.
    for piece in (data,) if isinstance(data, bytes | bytearray | memoryview | str) else data:
        if type(piece) is not bytes:
            raise TypeError(
                f"data must be bytes or an iterable of bytes; got {type(piece).__name__}"
            )
        yield piece


def _read_frame(
    piece: bytes, start: int, previous: bytes, number: int, begin: int
) -> tuple[Frame, int]:
    """Read one frame; return it and its end. ``begin`` is the position of the piece in the data."""

    def fail(error: type[errors.FrameError], message: str) -> NoReturn:
        raise error(message, number, begin + start)

    end = start + _frame_length(piece, start, fail)
    inner = start + _HEAD.size
    last = end - HASH_BYTES
    expected, chain_hash = digest(previous, memoryview(piece)[start:last]), piece[last:end]
    if expected != chain_hash:
        fail(
            errors.ChainBrokenError,
            f"chain hash must be {expected.hex()}; got {chain_hash.hex()}: "
            "the frame is damaged, or does not follow the frame before it",
        )
    first_seq, count, flags = _INNER.unpack_from(piece, inner)
    if flags > _ALL_FLAGS:
        fail(errors.FrameMalformedError, f"flags must be from 0 to {_ALL_FLAGS}; got {flags}")
    hashes = _read_hashes(piece, inner + _INNER.size, count, flags)
    raw = split(piece, inner + _INNER.size + sum(map(len, hashes)), last, count)
    if raw is None or not 1 <= first_seq <= SEQ_MAX + 1 - count:
        fail(
            errors.FrameMalformedError, f"content is not {count} commands numbered from {first_seq}"
        )
    event_hash, state_hash, outcomes = hashes
    frame = Frame(
        number=number,
        offset=begin + start,
        first_seq=first_seq,
        event_hash=event_hash or None,
        state_hash=state_hash or None,
        outcomes=_split_outcomes(outcomes) if flags & _HAS_OUTCOMES else None,
        raw=raw,
        chain_hash=chain_hash,
    )
    return frame, end


def _frame_length(
    piece: bytes, start: int, fail: Callable[[type[errors.FrameError], str], NoReturn]
) -> int:
    """Read the header of a frame and return the length of the frame."""
    head = piece[start : start + _HEAD.size]
    magic = head[: len(MAGIC)]
    if magic != MAGIC[: len(magic)]:
        fail(errors.FrameMalformedError, f"a frame must begin with {MAGIC!r}; got {magic!r}")
    version = head[len(MAGIC)] if len(head) > len(MAGIC) else FRAME_VERSION
    if not FRAME_VERSION_MIN <= version <= FRAME_VERSION:
        newer = version > FRAME_VERSION
        fail(
            errors.FrameNewerError if newer else errors.FrameMalformedError,
            f"unsupported journal version {version} "
            f"(expected {FRAME_VERSION_MIN} to {FRAME_VERSION})",
        )
    if len(head) < _HEAD.size:
        fail(errors.FrameTruncatedError, f"header must have {_HEAD.size} bytes; got {len(head)}")
    length: int = _HEAD.unpack(head)[-1]
    if length < _LENGTH_MIN:
        fail(
            errors.FrameMalformedError,
            f"length in the header must be at least {_LENGTH_MIN}; got {length}",
        )
    left = len(piece) - start - _HEAD.size
    if length > left:
        fail(errors.FrameTruncatedError, f"header must be followed by {length} bytes; got {left}")
    return _HEAD.size + length


def _read_hashes(piece: bytes, offset: int, count: int, flags: int) -> list[bytes]:
    """Return event hash, state hash and outcomes; empty bytes for those not stored."""
    sizes = (HASH_BYTES, HASH_BYTES, OUTCOME_BYTES * count)
    hashes = []
    for bit, size in enumerate(sizes):
        end = offset + (size if flags >> bit & 1 else 0)
        hashes.append(piece[offset:end])
        offset = end
    return hashes


def _split_outcomes(outcomes: bytes) -> tuple[bytes, ...]:
    starts = range(0, len(outcomes), OUTCOME_BYTES)
    return tuple(outcomes[start : start + OUTCOME_BYTES] for start in starts)


# ----- outcomes ------------------------------------------------------------------------------


def event_hash(previous: bytes, outcome: Outcome) -> bytes:
    """Add the outcome of one command to the event hash.

    Only the code of a rejection is hashed, in a batch as well: messages may be reworded.

    Args:
        previous: event hash before the command, ``ZERO_HASH`` before the first command.
        outcome: the result of :meth:`Matcher.apply() <clob.Matcher.apply>`, or the
            :class:`~clob.errors.RejectedError` it raised.

    Returns:
        The event hash after the command, 32 bytes.
    """
    return hashlib.blake2b(previous + _outcome_bytes(outcome), digest_size=HASH_BYTES).digest()


def _outcome_bytes(outcome: Outcome) -> bytes:
    """Encode an outcome: 0, the number of events and the events; or 1 and the error code."""
    if isinstance(outcome, errors.RejectedError):
        return b"\x01" + write(_Code(outcome.code))
    if Rejected in map(type, outcome):
        outcome = [_without_message(event) for event in outcome]
    return b"\x00" + encode_all(outcome)


class _Code(msgspec.Struct, frozen=True, gc=False):
    """Struct that encodes the code of a rejection."""

    code: str


def _without_message(event: Event | Rejected) -> Event | Rejected:
    """Return an event, a rejection without its message."""
    return Rejected(event.index, event.code, "") if isinstance(event, Rejected) else event
