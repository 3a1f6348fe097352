"""The demo in a server: a market that is there before the first request, and bots that trade."""

import asyncio
from contextlib import suppress
from typing import Final

from clob_server.authority import ADMIN
from clob_server.chain.link import Stage
from clob_server.demo.bots import Bots
from clob_server.demo.market import MARKET, NO, QUESTION, YES, opening
from clob_server.secrets import TOKENS, secret
from clob_server.service import Service
from clob_server.tokens import mint

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
