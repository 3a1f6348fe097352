"""Operator tokens for tests."""

import time

from clob_server.auth.api_keys import TOKENS, secret
from clob_server.auth.policy import ADMIN
from clob_server.auth.tokens import mint


def token_of(live):
    """Make a token for a server, with the secret that its folder has."""
    return mint(secret(live.folder, TOKENS), "tests", ADMIN, time.time_ns() // 10**9)


def operator_of(live):
    """Return a client of the operator."""
    return live.client(token=token_of(live))


def authority_of(live):
    """The header with such a token."""
    return {"Authorization": f"Bearer {token_of(live)}"}
