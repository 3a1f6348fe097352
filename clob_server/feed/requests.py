"""What a client says on a WebSocket, read from JSON."""

from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from clob.signing import fields
from clob_server.feed.messages import Id
from clob_server.problems import ApiError, Fault


class Asked(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """Whatever a client says."""

    extended: bool = False
    """If he understands more than the four messages of the specification."""
    id: Id | None = None
    """What he calls it; the answer has it, too."""


class Resume(msgspec.Struct, frozen=True):
    """Where a client was."""

    seq: int
    """The number of the last event he has."""


class Subscribe(Asked, frozen=True, kw_only=True, rename="camel", tag="subscribe"):
    """Tell me what happens."""

    channel: Literal["orderbook", "user", "settlement"]
    """Of which kind."""
    market_id: str | None = None
    """In which market; needed for a book, and all of them where a maker is named without it."""
    token_id: str | int | None = None
    """In which book, decimal or hexadecimal; left out, both."""
    maker: str | None = None
    """Whose orders, or the settlement of whose trades; all of them where it is left out for a
    market."""
    resume: Resume | None = None
    """Where to go on."""


class Unsubscribe(Asked, frozen=True, kw_only=True, rename="camel", tag="unsubscribe"):
    """Tell me no more."""

    channel: Literal["orderbook", "user", "settlement"]
    """Of which kind."""
    market_id: str | None = None
    """In which market."""
    maker: str | None = None
    """Whose orders, or trades."""


class Ping(Asked, frozen=True, kw_only=True, rename="camel", tag="ping"):
    """Are you there?"""


Request: TypeAlias = Subscribe | Unsubscribe | Ping
"""What a client may say."""


class Heard(NamedTuple):
    """What a client said, as far as it can be understood."""

    request: Request | None
    """What he wants; None where it cannot be told."""
    error: ApiError | None
    """Why not."""
    extended: bool
    """If he says that he understands more than the specification's messages."""
    id: Id | None
    """What he calls it."""


def read(text: str) -> Heard:
    """Read a message of a client.

    Args:
        text: what he sent.
    """
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return Heard(
            None, ApiError("INVALID_JSON", f"the message is not JSON: {error}"), False, None
        )
    if type(raw) is not dict:
        problem = ApiError("INVALID_FIELD", "the message must be a JSON object")
        return Heard(None, problem, False, None)
    extended, given = raw.get("extended") is True, id_of(raw)
    try:
        return Heard(msgspec.convert(raw, Request), None, extended, given)
    except (msgspec.ValidationError, RecursionError) as error:
        return Heard(None, ApiError("INVALID_FIELD", str(error)), extended, given)


def id_of(raw: dict[str, Any]) -> Id | None:
    """Give what a client calls a message that may be wrong otherwise."""
    given = raw.get("id")
    return given if type(given) in (str, int) else None


def token_id(given: str | int) -> str:
    """Read a token, decimal or hexadecimal, and give its decimal digits.

    Raises:
        InvalidFieldError: it is neither, or 2**256 or more.
    """
    if isinstance(given, str) and fields.HEX.fullmatch(given):
        given = int(given, 16)
    return str(fields.uint("tokenId", given))


def wanting(name: str) -> ApiError:
    """Refuse a request that lacks a field."""
    rule = "must be given"
    return ApiError("INVALID_FIELD", f"{name} {rule}", faults=(Fault(name, rule),))
