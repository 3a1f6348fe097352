"""``clob-server backup`` and ``restore``: copy a log, and install a copy into a data folder."""

import argparse
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec

from clob import Mode, SetMode
from clob.errors import InvalidSnapshotError, ReplayDiffersError
from clob.wire.admin import BackupBody, PositionBody
from clob_server.auth.api_keys import IDS, ids_key
from clob_server.cli import remote
from clob_server.cli.keys import (
    add_folder,
    admin_token,
    folder_of,
    folder_with_log,
    guarded,
    print_line,
)
from clob_server.cli.options import add_options, path_argument, read_values
from clob_server.cli.verify import AuditResult, audit
from clob_server.core.clock import wall_clock_ms
from clob_server.core.commands import AnyCommand, RecordRestore, encode
from clob_server.core.recovery import recover, replay_frame, take_snapshot
from clob_server.history import store
from clob_server.log import (
    Folder,
    LogDamagedError,
    LogError,
    LogLockedError,
    SqliteLog,
    Tail,
    put_back,
)
from clob_server.log.backup import Contents, LogSource, copy_log
from clob_server.log.files import TIP, decode_tip, make_folder, snapshot_names, sync_folder
from clob_server.log.sqlite import DATABASE
from clob_server.service import open_stream
from clob_server.settings import Settings, SettingsError

CLUSTER: Final = "log", "log_name", "log_replicas", "log_monitors"
"""The settings of the log of a cluster."""
STAGE: Final = "restore.new"
"""Folder in the data folder where a backup is checked before it is installed."""
ASIDE: Final = "replaced-{now_ms}"
"""Folder in the data folder that keeps the replaced files."""
WAL: Final = f"{DATABASE}-wal"
HISTORY: Final = tuple(f"{store.FILE}{ending}" for ending in ("", "-wal", "-shm"))
"""Files of the history, which is rebuilt from the restored log."""
NOTE_MAX: Final = 500
"""Maximum length of a note."""

Arguments = argparse.Namespace
Environ = Mapping[str, str]


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``backup`` and ``restore``."""
    backing = commands.add_parser(
        "backup",
        help="copy the log of a running or stopped server",
        description="Copy the log, with the key of its ids, into a folder that `clob-server verify`"
        " and `restore` read. Every command that was acknowledged before is in the copy. A second "
        "backup into the same folder adds the commands since.",
    )
    backing.add_argument("dest", type=path_argument, metavar="DEST", help="the folder of the copy")
    backing.add_argument(
        "--url", metavar="URL", help="address of the running server; without it no server may run"
    )
    backing.set_defaults(act=guarded(back_up))
    restoring = commands.add_parser(
        "restore",
        help="install a backup of the log into a data folder, or a folder's log into a cluster",
        description="Check a backup by replaying it, and install it as the log of a data folder "
        "that no server uses. The replaced files are kept. The restore is recorded in the log. "
        "With --log instead of a backup, append the commands of the data folder that the log of a "
        "cluster lacks: to bring a single server into a cluster, or after the cluster lost some.",
    )
    restoring.add_argument(
        "backup",
        nargs="?",
        type=path_argument,
        metavar="BACKUP",
        help=f"a folder with {DATABASE}, or a copy of {DATABASE} itself",
    )
    add_options(restoring, CLUSTER)
    restoring.add_argument(
        "--accept-tail",
        action="store_true",
        help="accept a log that ends before its tip file says, or that has none",
    )
    restoring.add_argument(
        "--keep-open",
        action="store_true",
        help="leave the modes of the markets; by default they allow only cancels if commands are "
        "or may be lost",
    )
    restoring.add_argument("--note", default="", metavar="TEXT", help="text for the record")
    restoring.set_defaults(act=guarded(restore))
    for each in (backing, restoring):
        add_folder(each)


# ----- backup ----------------------------------------------------------------------------------


class RemoteSource:
    """The log of a running server."""

    def __init__(self, arguments: Arguments, environ: Environ) -> None:
        self._arguments = arguments
        self._environ = environ
        self.ids_key: bytes = b""
        """Key of the ids, known after :meth:`contents`."""

    def contents(self) -> Contents:
        """Return the extent of the log."""
        try:
            body = msgspec.json.decode(self._get(""), type=BackupBody)
            self.ids_key = bytes.fromhex(body.ids_key)
            return Contents(
                origin=tail_of(body.origin),
                tail=tail_of(body.tail),
                snapshot_seq=body.snapshot_seq,
                snapshot_bytes=body.snapshot_bytes,
            )
        except (msgspec.MsgspecError, ValueError) as error:
            raise remote.no_response(self._arguments.url, error) from None

    def frames(self, after: int) -> list[bytes]:
        """Return the next stored frames after a command; none at the end."""
        try:
            return msgspec.msgpack.decode(self._get("/frames", after=after), type=list[bytes])
        except msgspec.MsgspecError as error:
            raise remote.no_response(self._arguments.url, error) from None

    def snapshot(self, seq: int, offset: int) -> bytes:
        """Return the next bytes of a snapshot; none at its end."""
        return self._get("/snapshot", seq=seq, offset=offset)

    def _get(self, path: str, **query: int) -> bytes:
        token = admin_token(self._arguments, self._environ)
        asked = f"?{urlencode(query)}" if query else ""
        return remote.fetch(self._arguments.url, token, "GET", f"/api/admin/backup{path}{asked}")


def tail_of(position: PositionBody) -> Tail:
    """Return a position of the log from its JSON."""
    return Tail(position.seq, bytes.fromhex(position.chain_hash))


def back_up(arguments: Arguments, environ: Environ) -> None:
    """Copy the log of a running server, or of the data folder of a stopped one."""
    target = arguments.dest
    if arguments.url is not None:
        source = RemoteSource(arguments, environ)
        end, added = copy_log(source, target)
        key = source.ids_key
    else:
        folder = folder_of(arguments, environ)
        if not (folder / DATABASE).is_file():
            raise SettingsError(f"no log found in {folder}")
        with closing(SqliteLog(folder)) as log:
            end, added = copy_log(LogSource(log, folder), target)
            key = ids_key(folder, lambda: recover(log)[0].num_orders)
    keep_key(target, key)
    print_line(f"ok, {added:,} commands added, last command {end.seq} in {target}")


def keep_key(target: Path, key: bytes) -> None:
    """Store the key of the ids in a backup."""
    files = Folder(target)
    if files.read(IDS) != key:
        files.replace(IDS, key)


# ----- restore ---------------------------------------------------------------------------------


def restore(arguments: Arguments, environ: Environ) -> None:
    """Check a backup, record the restore in it, and install it."""
    if arguments.log is not None:
        put_into_cluster(arguments, environ)
        return
    if arguments.backup is None:
        raise SettingsError("restore needs a backup, or --log with the servers of a cluster")
    folder, source = folder_of(arguments, environ), arguments.backup
    if len(arguments.note) > NOTE_MAX:
        raise SettingsError(f"--note must have at most {NOTE_MAX} characters")
    if not (source / DATABASE).is_file() and not source.is_file():
        raise SettingsError(f"{source} is neither a file nor a folder with {DATABASE}")
    end = end_of(folder)
    make_folder(folder)
    stage = folder / STAGE
    shutil.rmtree(stage, ignore_errors=True)
    make_folder(stage)
    now_ms = wall_clock_ms()
    try:
        bring(source, stage)
        accept = arguments.accept_tail or source.is_file()
        last, text = record(stage, end, arguments, now_ms, accept)
        install(stage, folder, folder / ASIDE.format(now_ms=now_ms))
    except (ReplayDiffersError, InvalidSnapshotError) as error:
        raise LogDamagedError(f"the backup in {source} is damaged: {error}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    print_line(f"ok, restored up to command {last}; {text}")


def put_into_cluster(arguments: Arguments, environ: Environ) -> None:
    """Append the commands of a data folder that the log of a cluster lacks."""
    settings = Settings(**read_values(vars(arguments), environ, CLUSTER))
    with (
        closing(SqliteLog(folder_with_log(arguments, environ))) as log,
        closing(open_stream(settings)) as stream,
    ):
        count, last = put_back(log, stream), log.tail.seq
    print_line(f"ok, {count:,} commands put into the cluster, which ends with command {last}")


def end_of(folder: Path) -> Tail | None:
    """Return the end of the log that is replaced; None without a log, or if it is unknown.

    Raises:
        LogLockedError: a server uses the folder.
    """
    if (folder / DATABASE).is_file():
        try:
            with closing(SqliteLog(folder)) as log:
                return log.tail
        except LogLockedError:
            raise
        except LogError as error:
            sys.stderr.write(f"clob-server: the log that is replaced: {error.code}: {error}\n")
    return tip_of(folder)


def tip_of(folder: Path) -> Tail | None:
    """Return the end of a log as its tip file records it; None without a valid one."""
    data = Folder(folder).read(TIP)
    return None if data is None else decode_tip(data)


def bring(source: Path, stage: Path) -> None:
    """Copy the files of a backup, which is not changed."""
    if source.is_file():
        shutil.copyfile(source, stage / DATABASE)
        return
    names = [DATABASE, WAL, TIP, IDS, *snapshot_names(Folder(source))]
    for name in names:
        if (source / name).is_file():
            shutil.copyfile(source / name, stage / name)
            (stage / name).chmod(0o600)


def record(
    stage: Path, end: Tail | None, arguments: Arguments, now_ms: int, accept: bool
) -> tuple[int, str]:
    """Replay the backup, and append the record of the restore; return its end and a description."""
    with closing(SqliteLog(stage, accept_tail=accept)) as log:
        checked = audit(log)
        if not log.tail.seq:
            raise LogDamagedError(f"the backup in {arguments.backup} has no commands")
        state, hashed, _ = recover(log)
        before, now_ms = log.tail, max(now_ms + state.registry.ahead_ms, state.now_ms)
        commands: list[AnyCommand] = [
            RecordRestore(
                replaced_seq=None if end is None else end.seq,
                replaced_hash=b"" if end is None else end.chain_hash,
                note=arguments.note,
                now_ms=now_ms,
            )
        ]
        if end != before and not arguments.keep_open:
            commands += [
                SetMode(market=market.id, mode=Mode.CANCEL_ONLY, now_ms=now_ms)
                for market in state.markets.values()
                if market.mode is Mode.OPEN
            ]
        log.append([encode(each) for each in commands], before.seq, event_hash=hashed)
        (frame,) = log.read(before.seq)
        take_snapshot(log, state, replay_frame(state, frame, hashed))
    return before.seq, describe(checked, before, end, len(commands) - 1)


def describe(checked: AuditResult, before: Tail, end: Tail | None, closed: int) -> str:
    """Describe the changes of a restore."""
    if end is None:
        lost = "it is unknown which later commands are lost"
    elif end == before:
        lost = "no command is lost"
    elif end.seq > before.seq:
        lost = f"commands {before.seq + 1} to {end.seq} of the replaced log are lost"
    else:
        lost = f"the replaced log was another one, with commands up to {end.seq}"
    modes = f"; {closed} markets allow only cancels until they are opened" if closed else ""
    return f"{checked.commands:,} commands checked; {lost}{modes}"


def install(stage: Path, folder: Path, aside: Path) -> None:
    """Replace the log of a folder; its files are kept in another folder.

    The tip is replaced before the database: after an interruption between them, a server rejects
    the folder, and the restore can be repeated.
    """
    make_folder(aside)
    for name in (*snapshot_names(Folder(folder)), *HISTORY):
        move(folder / name, aside)
    for name in snapshot_names(Folder(stage)):
        os.replace(stage / name, folder / name)
    if Folder(stage).read(IDS) not in (None, Folder(folder).read(IDS)):
        keep(folder / IDS, aside)
        os.replace(stage / IDS, folder / IDS)
    keep(folder / TIP, aside)
    os.replace(stage / TIP, folder / TIP)
    sync_folder(folder)
    move(folder / WAL, aside)
    keep(folder / DATABASE, aside)
    os.replace(stage / DATABASE, folder / DATABASE)
    if not any(aside.iterdir()):
        aside.rmdir()
    sync_folder(folder)


def move(path: Path, aside: Path) -> None:
    """Move a file aside, if it exists."""
    with suppress(FileNotFoundError):
        os.replace(path, aside / path.name)


def keep(path: Path, aside: Path) -> None:
    """Keep a file that is replaced in another folder, if it exists."""
    if path.exists():
        try:
            os.link(path, aside / path.name)
        except OSError:  # the file system has no links
            shutil.copyfile(path, aside / path.name)
