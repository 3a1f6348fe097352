"""The demo: a market in which two bots trade, so that a newcomer finds a living book."""

import asyncio
import shutil
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from clob_server.auth.api_keys import TOKENS, secret
from clob_server.auth.policy import ADMIN
from clob_server.auth.tokens import mint
from clob_server.chain.client import Stage
from clob_server.demo.bots import MARKET, NO, QUESTION, YES, Bots, opening
from clob_server.log import LogError, LogLockedError, SqliteLog
from clob_server.log.files import make_folder
from clob_server.log.sqlite import DATABASE
from clob_server.service import Service
from clob_server.settings import SettingsError

TOKEN_TTL_S: Final = 7 * 86_400
"""How long the token is good that the demo shows."""


class Demo:
    """A market in which two bots trade, for as long as the block takes.

    Args:
        service: where.
    """

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> None:
        """Open the market, and have the bots begin."""
        await self._service.engine.ask(lambda now_ms: opening(self._service, now_ms))
        self._service.conditions.follow(MARKET)
        self._task = asyncio.create_task(Bots(self._service).trade())

    async def __aexit__(self, *_: object) -> None:
        """Have the bots end."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def welcome(self, address: str) -> str:
        """Say what there is to look at.

        Args:
            address: where the server listens.
        """
        told = {
            "market": f"{MARKET}: {QUESTION}",
            "tokens": f"YES {YES}, NO {NO}",
            "book": f"{address}/api/markets/{MARKET}/orderbook",
            "live": f"{address.replace('http', 'ws', 1)}/ws",
            "interface": f"{address}/docs",
            "dashboard": f"{address}/admin",
            "chain": self._chain(),
            "token": self._token(),
        }
        lines = [f"  {name:<12} {text}\n" for name, text in told.items()]
        return f"\n{''.join(lines)}\n"

    def _chain(self) -> str:
        """Say where the chain is, and whose wallets there are."""
        chain = self._service.chain
        if chain.stage in (Stage.NONE, Stage.MISSING):
            return chain.detail or "none (--chain none)"
        return f"{chain.shown_url}, test wallets: clob-server wallets"

    def _token(self) -> str:
        """Make a token for the dashboard, where tokens are signed with a secret of ours."""
        settings = self._service.settings
        if settings.jwt_public_key_file:
            return "as your key signs it"
        key = settings.jwt_secret.encode() or secret(self._service.folder, TOKENS)
        return mint(key, "demo", ADMIN, self._service.clock_ms() // 1000, TOKEN_TTL_S)


MARK: Final = "made-by-demo"
"""The file that says whose the folder is."""
OURS: Final = ("log.db*", "history.*", "snapshot-*.bin", "tip", "*.key", "*.new", MARK)
"""What a demo leaves behind."""
FOLDERS: Final = {"chain": ("outbox.*",), "devchain": ("chain.db*",)}
"""The folders that a demo leaves behind, and what is in them."""


def make_anew(folder: Path) -> None:
    """Empty the folder of a demo, or make it.

    Raises:
        SettingsError: there is something in it that no demo has made; nothing was removed.
        LogLockedError: a demo runs in it.
        OSError: it can be neither emptied nor made.
    """
    found = list(folder.iterdir()) if folder.exists() else []
    if found:
        check_ours(folder, found)
        check_free(folder)
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != MARK:  # which says until the end whose folder it is
            path.unlink(missing_ok=True)
    make_folder(folder)
    (folder / MARK).touch(mode=0o600)


def check_ours(folder: Path, found: list[Path]) -> None:
    """Refuse to empty a folder that somebody uses for anything else."""
    strange = [path.name for path in found if not is_ours(path)]
    if folder / MARK not in found or strange:
        raise SettingsError(
            f"the demo would empty {folder}, which it has not made, or where there is more than it "
            f"left: {', '.join(sorted(strange)) or f'no {MARK}'}; name another --data-dir"
        )


def is_ours(path: Path) -> bool:
    """Say whether a demo leaves a file of this name behind, or a folder with just this in it."""
    if path.name in FOLDERS and path.is_dir() and not path.is_symlink():
        return all(is_one_of(each, FOLDERS[path.name]) for each in path.iterdir())
    return is_one_of(path, OURS)


def is_one_of(path: Path, patterns: Iterable[str]) -> bool:
    """Say whether a path is a file whose name is like one of some."""
    return path.is_file() and any(fnmatch(path.name, pattern) for pattern in patterns)


def check_free(folder: Path) -> None:
    """Refuse to empty a folder that a server has."""
    if not (folder / DATABASE).exists():
        return
    try:
        SqliteLog(folder).close()
    except LogLockedError:
        raise
    except LogError:  # whatever is wrong with it, it goes
        return


__all__ = ["Demo", "make_anew"]

# MERGED clob_server.demo: The demo in a server: a market that is there before the first request, and bots that trade.

# MERGED clob_server.demo: The folder of the demo: made anew at each start, if nothing but a demo's own is in it.
