"""The demo: an initial market in which two bots trade, and its data folder."""

import asyncio
import shutil
from collections.abc import Iterable
from contextlib import closing, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from clob.errors import InvalidBytesError, InvalidSnapshotError
from clob_server.auth.api_keys import TOKENS, secret
from clob_server.auth.policy import ADMIN
from clob_server.auth.tokens import mint
from clob_server.chain.client import Stage
from clob_server.core.clock import CLOCK_FILE
from clob_server.core.identity import check_exchange, exchange_settings
from clob_server.core.recovery import recover
from clob_server.demo.bots import MARKET, NO, QUESTION, YES, Bots, opening
from clob_server.log import LogError, LogLockedError, SqliteLog
from clob_server.log.files import make_folder
from clob_server.log.sqlite import DATABASE
from clob_server.service import Service
from clob_server.settings import Settings, SettingsError

TOKEN_TTL_S: Final = 7 * 86_400
"""Lifetime of the printed operator token."""


class Demo:
    """Opens the market and runs the bots inside an ``async with`` block."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> None:
        """Open the market and start the bots."""
        await self._service.sequencer.submit(lambda now_ms: opening(self._service, now_ms))
        self._service.conditions.sync(MARKET)
        self._task = asyncio.create_task(Bots(self._service).trade())

    async def __aexit__(self, *_: object) -> None:
        """Stop the bots."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def welcome(self, address: str) -> str:
        """Return the text printed at the start, with the URLs to visit."""
        entries = {
            "market": f"{MARKET}: {QUESTION}",
            "tokens": f"YES {YES}, NO {NO}",
            "book": f"{address}/api/markets/{MARKET}/orderbook",
            "live": f"{address.replace('http', 'ws', 1)}/ws",
            "interface": f"{address}/docs",
            "dashboard": f"{address}/admin",
            "chain": self._chain(),
            "token": self._token(),
        }
        lines = [f"  {name:<12} {text}\n" for name, text in entries.items()]
        return f"\n{''.join(lines)}\n"

    def _chain(self) -> str:
        """Describe the chain and its test wallets."""
        chain = self._service.chain
        if chain.stage in (Stage.NONE, Stage.MISSING):
            return chain.detail or "none (--chain none)"
        return f"{chain.shown_url}, test wallets: clob-server wallets"

    def _token(self) -> str:
        """Create a token for the dashboard if the server has the signing secret."""
        settings = self._service.settings
        if settings.jwt_public_key_file:
            return "signed by your own key"
        key = settings.jwt_secret.encode() or secret(self._service.folder, TOKENS)
        return mint(key, "demo", ADMIN, self._service.clock.token_ms() // 1000, TOKEN_TTL_S)


MARK: Final = "made-by-demo"
"""File that marks a demo folder."""
OURS: Final = ("log.db*", "history.*", "snapshot-*.bin", "tip", "*.key", "*.new", CLOCK_FILE, MARK)
"""Files of a demo."""
FOLDERS: Final = {"chain": ("outbox.*",), "devchain": ("chain.db*",)}
"""Folders of a demo and the files in them."""


def keep_folder(folder: Path) -> None:
    """Make a folder an ordinary one, which the next demo must not empty.

    Raises:
        OSError: the mark of a demo cannot be removed.
    """
    (folder / MARK).unlink(missing_ok=True)


def reset_folder(folder: Path, settings: Settings) -> None:
    """Create the folder of a demo, or empty an existing one.

    Raises:
        SettingsError: the folder has other files; nothing was removed.
        ExchangeDiffersError: its log has another environment or EIP-712 domain than the settings.
        LogLockedError: a demo is running in the folder.
        OSError: the folder cannot be emptied or created.
    """
    paths = list(folder.iterdir()) if folder.exists() else []
    if paths:
        check_ours(folder, paths)
        check_free(folder, settings)
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != MARK:  # removed last: it marks the folder as ours
            path.unlink(missing_ok=True)
    make_folder(folder)
    (folder / MARK).touch(mode=0o600)


def check_ours(folder: Path, paths: list[Path]) -> None:
    """Reject a folder with files that no demo created."""
    foreign = [path.name for path in paths if not is_ours(path)]
    if folder / MARK not in paths or foreign:
        raise SettingsError(
            f"the demo empties its folder, but {folder} has other contents: "
            f"{', '.join(sorted(foreign)) or f'no {MARK}'}; choose another --data-dir"
        )


def is_ours(path: Path) -> bool:
    """Return whether a demo creates this file, or this folder with only its own files."""
    if path.name in FOLDERS and path.is_dir() and not path.is_symlink():
        return all(is_one_of(each, FOLDERS[path.name]) for each in path.iterdir())
    return is_one_of(path, OURS)


def is_one_of(path: Path, patterns: Iterable[str]) -> bool:
    """Return whether a path is a file that matches a pattern."""
    return path.is_file() and any(fnmatch(path.name, pattern) for pattern in patterns)


def check_free(folder: Path, settings: Settings) -> None:
    """Reject a folder that a server is using, or with the log of another exchange."""
    if not (folder / DATABASE).exists():
        return
    try:
        with closing(SqliteLog(folder)) as log:
            recorded = recover(log)[0].registry.exchange
    except LogLockedError:
        raise
    except (LogError, InvalidBytesError, InvalidSnapshotError):  # deleted like a sound one
        return
    check_exchange(recorded, exchange_settings(settings), folder.absolute())
