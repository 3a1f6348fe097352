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


class ProblemType(NamedTuple):
    """What is the same each time a code is used."""

    status: int
    """The status of the answer."""
    title: str
    """A few words for people."""
    retryable: bool = False
    """If the same request may do better later."""


PROBLEMS: Final[Mapping[str, ProblemType]] = {
    # The connection, before any route.
    "TOO_MANY_CONNECTIONS": ProblemType(503, "Too many connections", True),
    "REQUEST_TIMEOUT": ProblemType(408, "The request took too long to arrive", True),
    "HEADERS_TOO_LARGE": ProblemType(431, "The headers are too large"),
    "BAD_REQUEST": ProblemType(400, "Not a request of HTTP"),
    # Who asks, and how often.
    "RATE_LIMITED": ProblemType(429, "Too many requests", True),
    "INVALID_API_KEY": ProblemType(401, "The API key is not known, or no longer"),
    "INVALID_TOKEN": ProblemType(401, "The token is not valid"),
    "API_KEY_REQUIRED": ProblemType(401, "An API key is needed"),
    "TOKEN_REQUIRED": ProblemType(401, "A token is needed"),
    "SCOPE_MISSING": ProblemType(403, "The key or the token does not allow this"),
    "NOT_ON_THIS_ENVIRONMENT": ProblemType(404, "Not on this environment"),
    # Where to.
    "NOT_FOUND": ProblemType(404, "There is nothing here"),
    "METHOD_NOT_ALLOWED": ProblemType(405, "Not with this method"),
    # The body arrives, and the server has to be in a state to do something with it.
    "BODY_TOO_LARGE": ProblemType(413, "The body is too large"),
    "RECOVERING": ProblemType(503, "The server is starting", True),
    "DRAINING": ProblemType(503, "The server is about to stop", True),
    "UNSUPPORTED_MEDIA_TYPE": ProblemType(415, "The body must be JSON"),
    "INVALID_JSON": ProblemType(400, "The body is not JSON"),
    "BATCH_TOO_LARGE": ProblemType(422, "Too many in one request"),
    # The fields: the first that is wrong, whichever of these it is.
    "INVALID_FIELD": ProblemType(422, "A field is missing or wrong"),
    "INVALID_ADDRESS": ProblemType(422, "Not an address"),
    # What they mean.
    "TAKER_NOT_SUPPORTED": ProblemType(422, "Not for this taker"),
    "INVALID_FEE_RATE": ProblemType(422, "Not a fee rate"),
    "INVALID_SIDE": ProblemType(422, "Neither buy nor sell"),
    "INVALID_AMOUNT": ProblemType(422, "Not an amount"),
    "AMOUNT_TOO_LARGE": ProblemType(422, "The amount is too large"),
    "PRICE_OUT_OF_RANGE": ProblemType(422, "The price is out of range"),
    # Where it is to go, and whether the one who asks may send it there.
    "UNKNOWN_MARKET": ProblemType(404, "There is no such market"),
    "TOKEN_NOT_IN_MARKET": ProblemType(422, "The market has no such token"),
    "ORDER_CANCELLED": ProblemType(409, "The maker cancelled it on the chain"),
    "GASLESS_NOT_ALLOWED": ProblemType(422, "The maker has to sign here"),
    "WALLET_NOT_ALLOWED": ProblemType(422, "The wallet may not pay or be paid for the maker"),
    "MAKER_NOT_ALLOWED": ProblemType(403, "The key is not bound to this maker"),
    "TIMESTAMP_OUT_OF_WINDOW": ProblemType(422, "The timestamp is too far from the clock"),
    "INVALID_SIGNATURE": ProblemType(422, "The signature is not valid"),
    "SIGNER_NOT_AUTHORISED": ProblemType(422, "The signer may not sign for the maker"),
    "IDEMPOTENCY_KEY_REUSED": ProblemType(422, "The idempotency key stands for another request"),
    "CHAIN_NOT_CONFIGURED": ProblemType(503, "There is no chain here"),
    "CHAIN_UNAVAILABLE": ProblemType(503, "The chain cannot be reached", True),
    "EXCHANGE_NOT_DEPLOYED": ProblemType(503, "There is no exchange contract"),
    "OPERATOR_OUT_OF_GAS": ProblemType(503, "The operator cannot pay for gas", True),
    "UNKNOWN_OPERATION": ProblemType(404, "There is no such operation"),
    "FAUCET_LIMIT": ProblemType(429, "The wallet was given enough for a day", True),
    "UNKNOWN_CONDITION": ProblemType(422, "There is no such condition on the chain"),
    "TOKENS_NOT_OF_CONDITION": ProblemType(422, "The tokens are not those of the condition"),
    "NOT_APPROVED": ProblemType(422, "The operator may not move it"),
    "CONDITION_NOT_RESOLVED": ProblemType(409, "The outcome is not on the chain yet"),
    "CONDITION_RESOLVED": ProblemType(409, "Another outcome is on the chain"),
    "NOTHING_TO_REDEEM": ProblemType(409, "The wallet has none of the tokens"),
    "OPERATION_PENDING": ProblemType(503, "The operation is under way", True),
    "OPERATION_FAILED": ProblemType(502, "The operation failed"),
    "ENGINE_FULL": ProblemType(503, "Too many commands wait", True),
    "ENGINE_STOPPED": ProblemType(503, "The server is about to stop", True),
    "OUTCOME_UNKNOWN": ProblemType(503, "It may or may not have been done", True),
    "TOO_MANY_SUBSCRIPTIONS": ProblemType(422, "The WebSocket has as many subscriptions as it may"),
    "TOO_MANY_MARKETS": ProblemType(422, "There are as many markets as there may be"),
    # The engine's own, of which those above were looked at before.
    "REJECTED": ProblemType(422, "Refused"),
    "INVALID_TIME": ProblemType(422, "Not a time"),
    "CLOCK_WENT_BACK": ProblemType(503, "The clock went back", True),
    "DEADLINE_PASSED": ProblemType(422, "The deadline has passed"),
    "INVALID_COMMAND": ProblemType(422, "Not a command"),
    "INVALID_MARKET": ProblemType(422, "Not a market"),
    "MARKET_EXISTS": ProblemType(409, "There is such a market already"),
    "INVALID_KIND": ProblemType(422, "Not a kind of event"),
    "INVALID_INSTRUCTION": ProblemType(422, "The instructions contradict each other"),
    "INVALID_ORDER_ID": ProblemType(422, "Not an order id"),
    "INVALID_OWNER": ProblemType(422, "Not a maker"),
    "AMOUNT_TOO_SMALL": ProblemType(422, "The amount is too small"),
    "ORDER_EXPIRED": ProblemType(422, "The order has expired"),
    "ORDER_ALREADY_USED": ProblemType(409, "The order was accepted before"),
    "CLIENT_ID_CONFLICT": ProblemType(409, "The client order id names another order"),
    "DUPLICATE_ORDER": ProblemType(409, "There is such an order already"),
    "UNKNOWN_ORDER": ProblemType(404, "There is no such order"),
    "NOT_THE_MAKER": ProblemType(403, "The order is another maker's"),
    "ORDER_NOT_OPEN": ProblemType(409, "The order is final"),
    "UNKNOWN_TRADE": ProblemType(404, "There is no such trade"),
    "MARKET_NOT_OPEN": ProblemType(409, "The market does not allow this now"),
    "NONCE_TOO_LOW": ProblemType(422, "The nonce is too low"),
    "SIZE_NOT_REDUCED": ProblemType(422, "The size is not smaller"),
    "TOO_MANY_ORDERS": ProblemType(422, "The maker has too many orders"),
    "INSUFFICIENT_BALANCE": ProblemType(422, "The balance does not cover it"),
    "POST_ONLY_WOULD_CROSS": ProblemType(422, "A post-only order would trade"),
    "SEED_WOULD_CROSS": ProblemType(422, "The order would trade"),
    "FOK_NOT_FILLABLE": ProblemType(422, "The order cannot be filled whole"),
    "TOO_MANY_TRADES": ProblemType(422, "The order would make too many trades"),
    # The server's own.
    "UNKNOWN_KEY": ProblemType(404, "There is no such key"),
    "KEY_EXISTS": ProblemType(409, "There is such a key already"),
    "KEY_INACTIVE": ProblemType(409, "The key is deactivated already"),
    "DELEGATE_NONCE_TOO_LOW": ProblemType(422, "The nonce is too low"),
    "INTERNAL": ProblemType(500, "Our mistake"),
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


class Problem(NamedTuple):
    """A refusal, ready to be sent."""

    status: int
    """The status of the answer."""
    headers: Headers
    """The headers, but for type and length."""
    body: bytes
    """The body, a :class:`ProblemBody` and what the code has besides."""


def problem_of(error: ClobError, request_id: str = "") -> Problem:
    """Make the answer to a request that is refused.

    Args:
        error: what it is refused for; one without an entry in :data:`PROBLEMS` is our mistake.
        request_id: the request.
    """
    content, headers = content_of(error, request_id)
    return Problem(content["status"], headers, _ENCODER.encode(content))


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
