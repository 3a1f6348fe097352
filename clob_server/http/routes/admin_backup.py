"""Operator routes that send a copy of the log in parts, for ``clob-server backup --url``."""

import asyncio
from functools import partial
from typing import Final

import msgspec

from clob.wire.admin import BackupBody, PositionBody
from clob_server.api.problems import ApiError
from clob_server.api.request import Reply, reply
from clob_server.auth.api_keys import IDS, secret
from clob_server.http.pagination import read_number
from clob_server.http.routes.admin_chain import NO_STORE
from clob_server.http.server import Request, Route
from clob_server.log import SqliteLog, Tail
from clob_server.log.backup import PAGES_MAX, PART_BYTES, contents_of, read_part

MESSAGE_PACK: Final = b"application/msgpack"
OCTETS: Final = b"application/octet-stream"
SEQ_MAX: Final = 2**63 - 1

_BACKUP: Final = "/api/admin/backup"


async def contents(call: Request) -> Reply:
    """Return the extent of the log, and the key of its ids."""
    server = call.server
    extent = await server.sequencer.read_log(partial(contents_of, server.log, server.folder))
    key = await asyncio.to_thread(secret, server.folder, IDS)
    return reply(
        BackupBody(
            origin=position_of(extent.origin),
            tail=position_of(extent.tail),
            snapshot_seq=extent.snapshot_seq,
            snapshot_bytes=extent.snapshot_bytes,
            ids_key=key.hex(),
        ),
        headers=NO_STORE,
    )


def position_of(tail: Tail) -> PositionBody:
    """Return the JSON of a position in the log."""
    return PositionBody(seq=tail.seq, chain_hash=tail.chain_hash.hex())


async def frames(call: Request) -> Reply:
    """Return the stored frames after a command, as a MessagePack array of byte strings."""
    after = read_number(call.query(), "after", 0, 0, SEQ_MAX)
    server, found, size = call.server, list[bytes](), 0
    for _ in range(PAGES_MAX):  # commits go on between two reads
        page = await server.sequencer.read_log(
            partial(read_page, server.log, after, PART_BYTES - size)
        )
        if not page or (found and size + len(page[0][1]) > PART_BYTES):
            break
        found += [frame for _, frame in page]
        size += sum(len(frame) for _, frame in page)
        after = page[-1][0]
    return Reply(msgspec.msgpack.encode(found), headers=NO_STORE, content_type=MESSAGE_PACK)


def read_page(log: SqliteLog, after: int, bytes_max: int) -> list[tuple[int, bytes]]:
    """Read stored frames on the log thread.

    Raises:
        ApiError: INVALID_FIELD, the frames were dropped.
    """
    if after < log.origin.seq:
        raise ApiError(
            "INVALID_FIELD",
            f"after must be at least {log.origin.seq}: the commands up to it were dropped from "
            f"the log; got {after}",
        )
    return log.frames(after, bytes_max)


async def snapshot(call: Request) -> Reply:
    """Return the bytes of a snapshot from an offset on."""
    seq = read_number(call.query(), "seq", 0, 0, SEQ_MAX)
    offset = read_number(call.query(), "offset", 0, 0, SEQ_MAX)
    try:
        part = await asyncio.to_thread(read_part, call.server.folder, seq, offset)
    except FileNotFoundError:
        raise ApiError("NOT_FOUND", f"there is no snapshot of command {seq}") from None
    return Reply(part, headers=NO_STORE, content_type=OCTETS)


ROUTES: Final = (
    Route("admin_backup", "GET", _BACKUP, contents),
    Route("admin_backup_frames", "GET", f"{_BACKUP}/frames", frames, query=("after",)),
    Route("admin_backup_snapshot", "GET", f"{_BACKUP}/snapshot", snapshot, query=("seq", "offset")),
)
