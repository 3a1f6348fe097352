"""JSON-RPC 2.0: a body in, a body out, batches and errors as the specification has them."""

import logging
from typing import Any, Final

import msgspec

from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RefusedError,
)
from clob_server.chain.devchain.methods import METHODS

_LOG: Final = logging.getLogger("clob_server.chain.devchain")
BATCH_MAX: Final = 1000
"""How many requests a batch has at most."""


def answer(chain: DevelopmentChain, body: bytes) -> bytes:
    """Answer a body.

    Args:
        chain: the chain that is asked.
        body: a request of JSON, or a batch of them.

    Returns:
        The answer as JSON; empty where nothing but notifications came.
    """
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return msgspec.json.encode(failed(None, RefusedError(f"parse error: {error}", PARSE_ERROR)))
    if not isinstance(asked, list):
        one = answer_one(chain, asked)
        return b"" if one is None else msgspec.json.encode(one)
    if not 1 <= len(asked) <= BATCH_MAX:
        wrong = f"invalid request: a batch of 1 to {BATCH_MAX}, not {len(asked)}"
        return msgspec.json.encode(failed(None, RefusedError(wrong, INVALID_REQUEST)))
    answers = [one for each in asked if (one := answer_one(chain, each)) is not None]
    return msgspec.json.encode(answers) if answers else b""


def answer_one(chain: DevelopmentChain, asked: object) -> dict[str, Any] | None:
    """Answer one request; None for a notification, which gets no answer."""
    number = asked.get("id") if isinstance(asked, dict) else None
    if isinstance(number, dict | list | bool):
        number = None
    try:
        check_request(asked)
        assert isinstance(asked, dict)
        result = run(chain, asked["method"], asked.get("params"))
    except RefusedError as error:
        told = failed(number, error)
        is_request = error.code == INVALID_REQUEST
    else:
        told, is_request = {"jsonrpc": "2.0", "id": number, "result": result}, False
    return told if is_request or "id" in asked else None  # type: ignore[operator]


def check_request(asked: object) -> None:
    """Refuse what is JSON, and no request."""
    if not isinstance(asked, dict):
        raise RefusedError("invalid request: an object is needed", INVALID_REQUEST)
    if asked.get("jsonrpc") != "2.0":
        raise RefusedError('invalid request: "jsonrpc" must be "2.0"', INVALID_REQUEST)
    if not isinstance(asked.get("method"), str):
        raise RefusedError('invalid request: "method" must be a string', INVALID_REQUEST)
    if isinstance(asked.get("id"), dict | list | bool):
        raise RefusedError('invalid request: "id" is a string, a number or null', INVALID_REQUEST)


def run(chain: DevelopmentChain, name: str, given: object) -> Any:
    """Do what a request asks for.

    Raises:
        RefusedError: it cannot be done; whatever went wrong becomes one.
    """
    method = METHODS.get(name)
    if method is None:
        wrong = f"the method {name[:80]} does not exist/is not available"
        raise RefusedError(wrong, METHOD_NOT_FOUND)
    if given is not None and not isinstance(given, list):
        raise RefusedError("invalid params: a list is needed", INVALID_PARAMS)
    try:
        return method(chain, given or [])
    except RefusedError:
        raise
    except Exception as error:
        chain.forget()
        _LOG.exception("%s failed", name)
        told = f"internal error: {type(error).__name__}: {error}"
        raise RefusedError(told, INTERNAL_ERROR) from error
    finally:
        chain.store.forget()


def failed(number: object, error: RefusedError) -> dict[str, Any]:
    """Make the answer that says what is wrong."""
    told: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = f"0x{error.data.hex()}"
    return {"jsonrpc": "2.0", "id": number, "error": told}
