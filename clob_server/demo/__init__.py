"""The demo: an initial market in which two bots trade, and its data folder."""

import asyncio
import shutil
from collections.abc import Iterable
from contextlib import closing
from fnmatch import fnmatch
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clob.errors import InvalidBytesError, InvalidSnapshotError
from clob_server.auth.api_keys import TOKENS, secret
from clob_server.auth.policy import ADMIN
from clob_server.auth.tokens import mint
from clob_server.chain.client import Stage
from clob_server.core.clock import CLOCK_FILE
from clob_server.core.identity import check_exchange, exchange_settings
from clob_server.core.recovery import recover
from clob_server.demo.market import FAIR, MARKET, NO, QUESTION, QUOTER, TAKER, YES, key_of, opening
from clob_server.log import LogError, LogLockedError, SqliteLog
from clob_server.log.files import make_folder
from clob_server.log.sqlite import DATABASE
from clob_server.service import Service
from clob_server.settings import Settings, SettingsError

if TYPE_CHECKING:
    from clob_server.demo.bots import Bots

TOKEN_TTL_S: Final = 7 * 86_400
"""Lifetime of the printed operator token."""

_LOG: Final = getLogger("clob_server")


class Demo:
    """Opens the market inside an ``async with`` block, and runs the bots in it.

    Args:
        service: the server.

    Raises:
        SettingsError: the packages that the bots need are missing.
    """

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._bots: Final = load_bots()
        self._keys: Final[list[tuple[str, str]]] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        """Open the market with its first orders and trades."""
        await self._service.sequencer.submit(lambda now_ms: opening(self._service, now_ms))
        self._service.conditions.sync(MARKET)
        for each in (QUOTER, TAKER):
            self._keys.append((each.private_key, await key_of(self._service, each.address)))

    async def __aexit__(self, *_: object) -> None:
        """Wait until the bots have ended."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task])

    def start(self, address: str) -> None:
        """Start the bots, once the server accepts connections at an address."""
        self._task = asyncio.create_task(self._run(address))

    def stop(self) -> None:
        """Stop the bots."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, address: str) -> None:
        """Run the bots, and log an error that ends them."""
        try:
            await self._bots.run(address, *self._keys)
        except Exception as error:
            _LOG.warning("the bots of the demo have ended", extra={"reason": str(error)})

    def welcome(self, address: str) -> str:
        """Return the text printed at the start, with the URLs to visit."""
        entries = {
            "page": f"{address}/ui",
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


def load_bots() -> "Bots":
    """Return the bots; only the demo needs their packages.

    Raises:
        SettingsError: a package is missing.
    """
    try:
        from clob_server.demo.bots import Bots  # noqa: PLC0415 - its packages may be missing
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"--demo needs the extra: pip install 'clob[client]' (no module {error.name!r})"
        ) from None
    return Bots(MARKET, YES, NO, fair=FAIR)


MARK: Final = "made-by-demo"
"""File that marks a demo folder."""
OURS: Final = ("log.db*", "history.*", "snapshot-*.bin", "tip", "*.key", "*.new", CLOCK_FILE, MARK)
"""Files of a demo."""
FOLDERS: Final[dict[str, tuple[str, ...]]] = {
    "chain": ("outbox.*",),
    "devchain": ("chain.db*",),
    "anvil": ("lock", "state.*"),
}
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
