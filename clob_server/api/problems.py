"""What a client is told when it is refused: a problem of RFC 9457, with a stable code.

:data:`PROBLEMS` has every code, in order of precedence: a request that several rules refuse is
refused by the first. The rules of the engine stand as in ``clob.errors``, but for those that the
server looks at before it asks. The documentation draws its table from here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from clob import ClobError, RejectedError
from clob.signing import InvalidSignatureError

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Headers of an answer, names in small letters."""


class Problem(NamedTuple):
    """What is the same each time a code is used."""

    status: int
    """The status of the answer."""
    title: str
    """A few words for people."""
    retryable: bool = False
    """If the same request may do better later."""


PROBLEMS: Final[Mapping[str, Problem]] = {
    # The connection, before any route.
    "TOO_MANY_CONNECTIONS": Problem(503, "Too many connections", True),
    "REQUEST_TIMEOUT": Problem(408, "The request took too long to arrive", True),
    "HEADERS_TOO_LARGE": Problem(431, "The headers are too large"),
    "BAD_REQUEST": Problem(400, "Not a request of HTTP"),
    # Who asks, and how often.
    "RATE_LIMITED": Problem(429, "Too many requests", True),
    "INVALID_API_KEY": Problem(401, "The API key is not known, or no longer"),
    "INVALID_TOKEN": Problem(401, "The token is not valid"),
    "API_KEY_REQUIRED": Problem(401, "An API key is needed"),
    "TOKEN_REQUIRED": Problem(401, "A token is needed"),
    "SCOPE_MISSING": Problem(403, "The key or the token does not allow this"),
    "NOT_ON_THIS_ENVIRONMENT": Problem(404, "Not on this environment"),
    # Where to.
    "NOT_FOUND": Problem(404, "There is nothing here"),
    "METHOD_NOT_ALLOWED": Problem(405, "Not with this method"),
    # The body arrives, and the server has to be in a state to do something with it.
    "BODY_TOO_LARGE": Problem(413, "The body is too large"),
    "RECOVERING": Problem(503, "The server is starting", True),
    "DRAINING": Problem(503, "The server is about to stop", True),
    "UNSUPPORTED_MEDIA_TYPE": Problem(415, "The body must be JSON"),
    "INVALID_JSON": Problem(400, "The body is not JSON"),
    "BATCH_TOO_LARGE": Problem(422, "Too many in one request"),
    # The fields: the first that is wrong, whichever of these it is.
    "INVALID_FIELD": Problem(422, "A field is missing or wrong"),
    "INVALID_ADDRESS": Problem(422, "Not an address"),
    # What they mean.
    "TAKER_NOT_SUPPORTED": Problem(422, "Not for this taker"),
    "INVALID_FEE_RATE": Problem(422, "Not a fee rate"),
    "INVALID_SIDE": Problem(422, "Neither buy nor sell"),
    "INVALID_AMOUNT": Problem(422, "Not an amount"),
    "AMOUNT_TOO_LARGE": Problem(422, "The amount is too large"),
    "PRICE_OUT_OF_RANGE": Problem(422, "The price is out of range"),
    # Where it is to go, and whether the one who asks may send it there.
    "UNKNOWN_MARKET": Problem(404, "There is no such market"),
    "TOKEN_NOT_IN_MARKET": Problem(422, "The market has no such token"),
    "ORDER_CANCELLED": Problem(409, "The maker cancelled it on the chain"),
    "GASLESS_NOT_ALLOWED": Problem(422, "The maker has to sign here"),
    "WALLET_NOT_ALLOWED": Problem(422, "The wallet may not pay or be paid for the maker"),
    "MAKER_NOT_ALLOWED": Problem(403, "The key is not bound to this maker"),
    "TIMESTAMP_OUT_OF_WINDOW": Problem(422, "The timestamp is too far from the clock"),
    "INVALID_SIGNATURE": Problem(422, "The signature is not valid"),
    "SIGNER_NOT_AUTHORISED": Problem(422, "The signer may not sign for the maker"),
    "IDEMPOTENCY_KEY_REUSED": Problem(422, "The idempotency key stands for another request"),
    "CHAIN_NOT_CONFIGURED": Problem(503, "There is no chain here"),
    "CHAIN_UNAVAILABLE": Problem(503, "The chain cannot be reached", True),
    "EXCHANGE_NOT_DEPLOYED": Problem(503, "There is no exchange contract"),
    "OPERATOR_OUT_OF_GAS": Problem(503, "The operator cannot pay for gas", True),
    "UNKNOWN_OPERATION": Problem(404, "There is no such operation"),
    "FAUCET_LIMIT": Problem(429, "The wallet was given enough for a day", True),
    "UNKNOWN_CONDITION": Problem(422, "There is no such condition on the chain"),
    "TOKENS_NOT_OF_CONDITION": Problem(422, "The tokens are not those of the condition"),
    "NOT_APPROVED": Problem(422, "The operator may not move it"),
    "CONDITION_NOT_RESOLVED": Problem(409, "The outcome is not on the chain yet"),
    "CONDITION_RESOLVED": Problem(409, "Another outcome is on the chain"),
    "NOTHING_TO_REDEEM": Problem(409, "The wallet has none of the tokens"),
    "OPERATION_PENDING": Problem(503, "The operation is under way", True),
    "OPERATION_FAILED": Problem(502, "The operation failed"),
    "ENGINE_FULL": Problem(503, "Too many commands wait", True),
    "ENGINE_STOPPED": Problem(503, "The server is about to stop", True),
    "OUTCOME_UNKNOWN": Problem(503, "It may or may not have been done", True),
    "TOO_MANY_SUBSCRIPTIONS": Problem(422, "The WebSocket has as many subscriptions as it may"),
    "TOO_MANY_MARKETS": Problem(422, "There are as many markets as there may be"),
    # The engine's own, of which those above were looked at before.
    "REJECTED": Problem(422, "Refused"),
    "INVALID_TIME": Problem(422, "Not a time"),
    "CLOCK_WENT_BACK": Problem(503, "The clock went back", True),
    "DEADLINE_PASSED": Problem(422, "The deadline has passed"),
    "INVALID_COMMAND": Problem(422, "Not a command"),
    "INVALID_MARKET": Problem(422, "Not a market"),
    "MARKET_EXISTS": Problem(409, "There is such a market already"),
    "INVALID_KIND": Problem(422, "Not a kind of event"),
    "INVALID_INSTRUCTION": Problem(422, "The instructions contradict each other"),
    "INVALID_ORDER_ID": Problem(422, "Not an order id"),
    "INVALID_OWNER": Problem(422, "Not a maker"),
    "AMOUNT_TOO_SMALL": Problem(422, "The amount is too small"),
    "ORDER_EXPIRED": Problem(422, "The order has expired"),
    "ORDER_ALREADY_USED": Problem(409, "The order was accepted before"),
    "CLIENT_ID_CONFLICT": Problem(409, "The client order id names another order"),
    "DUPLICATE_ORDER": Problem(409, "There is such an order already"),
    "UNKNOWN_ORDER": Problem(404, "There is no such order"),
    "NOT_THE_MAKER": Problem(403, "The order is another maker's"),
    "ORDER_NOT_OPEN": Problem(409, "The order is final"),
    "UNKNOWN_TRADE": Problem(404, "There is no such trade"),
    "MARKET_NOT_OPEN": Problem(409, "The market does not allow this now"),
    "NONCE_TOO_LOW": Problem(422, "The nonce is too low"),
    "SIZE_NOT_REDUCED": Problem(422, "The size is not smaller"),
    "TOO_MANY_ORDERS": Problem(422, "The maker has too many orders"),
    "INSUFFICIENT_BALANCE": Problem(422, "The balance does not cover it"),
    "POST_ONLY_WOULD_CROSS": Problem(422, "A post-only order would trade"),
    "SEED_WOULD_CROSS": Problem(422, "The order would trade"),
    "FOK_NOT_FILLABLE": Problem(422, "The order cannot be filled whole"),
    "TOO_MANY_TRADES": Problem(422, "The order would make too many trades"),
    # The server's own.
    "UNKNOWN_KEY": Problem(404, "There is no such key"),
    "KEY_EXISTS": Problem(409, "There is such a key already"),
    "KEY_INACTIVE": Problem(409, "The key is deactivated already"),
    "DELEGATE_NONCE_TOO_LOW": Problem(422, "The nonce is too low"),
    "INTERNAL": Problem(500, "Our mistake"),
}
"""Every code by which a request is refused, with the status it has."""

CONTENT_TYPE: Final = b"application/problem+json"
"""What a refusal is."""
RETRY_AFTER_S: Final = b"1"
"""When to try again, where nobody knows better."""

_ENCODER: Final = msgspec.json.Encoder()


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with one field."""

    path: str
    """The field, as JSON names it."""
    message: str
    """What is wrong with it."""


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of every refusal."""

    type: str
    """Where the code is described, beneath the address of the server."""
    title: str
    """The code in a few words."""
    status: int
    """The status of the answer."""
    detail: str
    """What was refused: the rule, the value and the limit."""
    code: str
    """The code, which stays as it is."""
    error: str
    """The same as ``detail``."""
    errors: list[Fault]
    """The fields at fault, where it was fields."""
    request_id: str
    """The request, as the logs name it."""
    retryable: bool
    """If the same request may do better later."""


class ApiError(ClobError):
    """A request is refused, by a rule that is the server's.

    Args:
        code: one of :data:`PROBLEMS`.
        detail: the rule, the value and the limit.
        faults: the fields at fault.
        headers: what the answer has besides.
        more: what the body has besides.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        faults: Iterable[Fault] = (),
        headers: Headers = (),
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.faults: Sequence[Fault] = tuple(faults)
        """The fields at fault."""
        self.headers = headers
        """What the answer has besides."""
        self.more: Mapping[str, Any] = more or {}
        """What the body has besides."""


class Refusal(NamedTuple):
    """A refusal, ready to be sent."""

    status: int
    """The status of the answer."""
    headers: Headers
    """The headers, but for type and length."""
    body: bytes
    """The body, a :class:`ProblemBody` and what the code has besides."""


def refusal_of(error: ClobError, request_id: str = "") -> Refusal:
    """Make the answer to a request that is refused.

    Args:
        error: what it is refused for; one without an entry in :data:`PROBLEMS` is our mistake.
        request_id: the request.
    """
    content, headers = content_of(error, request_id)
    return Refusal(content["status"], headers, _ENCODER.encode(content))


def content_of(error: ClobError, request_id: str = "") -> tuple[dict[str, Any], Headers]:
    """Make the body of a refusal before it is written, and its headers."""
    code = error.code if error.code in PROBLEMS else "INTERNAL"
    problem, detail = PROBLEMS[code], str(error)
    headers = error.headers if isinstance(error, ApiError) else ()
    later = problem.retryable and problem.status == 503
    if later and not any(name == b"retry-after" for name, _ in headers):
        headers = (*headers, (b"retry-after", RETRY_AFTER_S))
    body = ProblemBody(
        type=f"/docs#{code}",
        title=problem.title,
        status=problem.status,
        detail=detail,
        code=code,
        error=detail,
        errors=list(faults_of(error)),
        request_id=request_id,
        retryable=problem.retryable,
    )
    return {**msgspec.to_builtins(body), **more_of(error)}, headers


def faults_of(error: ClobError) -> Iterable[Fault]:
    """Name the fields that are at fault."""
    if isinstance(error, ApiError):
        return error.faults
    if isinstance(error, RejectedError) and error.path is not None:
        return (Fault(error.path, str(error)),)
    return ()


def more_of(error: ClobError) -> Mapping[str, Any]:
    """Say what one can do about it, beyond the words."""
    if isinstance(error, ApiError):
        return error.more
    if isinstance(error, InvalidSignatureError):
        digest = error.digest
        return {
            "check": error.verdict.name,
            "expectedDigest": None if digest is None else f"0x{digest.hex()}",
            "expectedSigner": error.expected,
            "recoveredAddress": error.recovered,
        }
    order_id = getattr(error, "order_id", None)
    return {} if order_id is None else {"orderId": str(order_id)}
