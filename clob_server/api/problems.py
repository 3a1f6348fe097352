"""Error responses: problem details of RFC 9457 with a stable code.

:data:`PROBLEMS` lists every code in order of precedence: a request that breaks several rules is
rejected with the first. The rules of the engine follow the order of ``clob.errors``, except those
that the server checks before it. The tables of the documentation are generated from here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from clob import ClobError, RejectedError
from clob.signing import InvalidSignatureError
from clob_server.api.wording import FIELD_OF, in_json_terms

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Headers of a response, with lower-case names."""


class ProblemType(NamedTuple):
    """Properties shared by all problems of one code."""

    status: int
    title: str
    retryable: bool = False
    """Whether the same request may succeed later."""


PROBLEMS: Final[Mapping[str, ProblemType]] = {
    # The connection, before any route.
    "TOO_MANY_CONNECTIONS": ProblemType(503, "Too many connections", True),
    "REQUEST_TIMEOUT": ProblemType(408, "Request timeout", True),
    "HEADERS_TOO_LARGE": ProblemType(431, "Headers too large"),
    "BAD_REQUEST": ProblemType(400, "Malformed HTTP request"),
    # Changes, before they are charged to a budget; the first two in a cluster only.
    "NO_OWNER": ProblemType(503, "No node owns the log", True),
    "NOT_OWNER": ProblemType(503, "Another node owns the log", True),
    "CLOCK_UNSURE": ProblemType(503, "Clock not certain", True),
    # The site of the request.
    "HOST_NOT_ALLOWED": ProblemType(421, "Host not allowed"),
    "ORIGIN_NOT_ALLOWED": ProblemType(403, "Origin not allowed"),
    # Authentication, permissions and rate limits.
    "RATE_LIMITED": ProblemType(429, "Too many requests", True),
    "INVALID_API_KEY": ProblemType(401, "Invalid API key"),
    "INVALID_TOKEN": ProblemType(401, "Invalid token"),
    "API_KEY_REQUIRED": ProblemType(401, "API key required"),
    "TOKEN_REQUIRED": ProblemType(401, "Token required"),
    "SCOPE_MISSING": ProblemType(403, "Missing scope"),
    "NOT_ON_THIS_ENVIRONMENT": ProblemType(404, "Not available in this environment"),
    # Routing.
    "NOT_FOUND": ProblemType(404, "Not found"),
    "METHOD_NOT_ALLOWED": ProblemType(405, "Method not allowed"),
    # The state of the server, and the body.
    "BODY_TOO_LARGE": ProblemType(413, "Body too large"),
    "RECOVERING": ProblemType(503, "Server is starting", True),
    "DRAINING": ProblemType(503, "Server is shutting down", True),
    "UNSUPPORTED_MEDIA_TYPE": ProblemType(415, "Body must be JSON"),
    "INVALID_JSON": ProblemType(400, "Invalid JSON"),
    "BATCH_TOO_LARGE": ProblemType(422, "Batch too large"),
    "BATCH_REJECTED": ProblemType(422, "Another order of an atomic batch rejected"),
    # The fields, in the order of the schema.
    "INVALID_FIELD": ProblemType(422, "Missing or invalid field"),
    "INVALID_ADDRESS": ProblemType(422, "Invalid address"),
    # The meaning of the fields.
    "INVALID_HEARTBEAT_ID": ProblemType(400, "Heartbeat id not the expected one"),
    "TAKER_NOT_SUPPORTED": ProblemType(422, "Taker not supported"),
    "INVALID_FEE_RATE": ProblemType(422, "Invalid fee rate"),
    "INVALID_SIDE": ProblemType(422, "Invalid side"),
    "INVALID_AMOUNT": ProblemType(422, "Invalid amount"),
    "AMOUNT_TOO_LARGE": ProblemType(422, "Amount too large"),
    "PRICE_OUT_OF_RANGE": ProblemType(422, "Price out of range"),
    # The market, permissions of the maker, and the chain.
    "UNKNOWN_MARKET": ProblemType(404, "Market not found"),
    "TOKEN_NOT_IN_MARKET": ProblemType(422, "Token not in this market"),
    "ORDER_CANCELLED": ProblemType(409, "Order cancelled on the chain"),
    "GASLESS_NOT_ALLOWED": ProblemType(422, "Maker's signature required"),
    "WALLET_NOT_ALLOWED": ProblemType(422, "Wallet not allowed for this maker"),
    "MAKER_COOLING_DOWN": ProblemType(409, "Maker cooling down after a failed trade", True),
    "MAKER_NOT_ALLOWED": ProblemType(403, "API key not bound to this maker"),
    "TIMESTAMP_OUT_OF_WINDOW": ProblemType(422, "Timestamp too far from the server's clock"),
    "INVALID_SIGNATURE": ProblemType(422, "Invalid signature"),
    "SIGNER_NOT_AUTHORISED": ProblemType(422, "Signer not authorised by the maker"),
    "IDEMPOTENCY_KEY_REUSED": ProblemType(422, "Idempotency key used for another request"),
    "CHAIN_NOT_CONFIGURED": ProblemType(503, "No chain configured"),
    "CHAIN_UNAVAILABLE": ProblemType(503, "Chain unavailable", True),
    "EXCHANGE_NOT_DEPLOYED": ProblemType(503, "Exchange contract not deployed"),
    "ESCROW_NOT_SUPPORTED": ProblemType(503, "Exchange contract without escrow"),
    "OPERATOR_OUT_OF_GAS": ProblemType(503, "Operator cannot pay for gas", True),
    "UNKNOWN_OPERATION": ProblemType(404, "Operation not found"),
    "NO_FAUCET": ProblemType(409, "No faucet on this chain"),
    "FAUCET_LIMIT": ProblemType(429, "Daily faucet limit reached", True),
    "WRONG_COLLATERAL": ProblemType(409, "Collateral contract does not fit"),
    "NEG_RISK_NOT_SUPPORTED": ProblemType(422, "NegRisk markets are not supported"),
    "UNKNOWN_CONDITION": ProblemType(422, "Condition not found on the chain"),
    "TOKENS_NOT_OF_CONDITION": ProblemType(422, "Tokens belong to another condition"),
    "NOT_APPROVED": ProblemType(422, "Operator not approved by the wallet"),
    "CONDITION_NOT_RESOLVED": ProblemType(409, "Condition not resolved on the chain"),
    "CONDITION_RESOLVED": ProblemType(409, "Condition resolved with another outcome"),
    "ORACLE_KEY_MISSING": ProblemType(409, "Key of the oracle is missing"),
    "NOTHING_TO_REDEEM": ProblemType(409, "No tokens to redeem"),
    "NONCE_USED": ProblemType(409, "Nonce already used on the chain"),
    "NOTHING_TO_WITHDRAW": ProblemType(409, "No withdrawal requested"),
    "WITHDRAWAL_NOT_DUE": ProblemType(409, "Withdrawal not due yet"),
    "OPERATION_PENDING": ProblemType(503, "Operation pending", True),
    "OPERATION_FAILED": ProblemType(502, "Operation failed"),
    "ENGINE_FULL": ProblemType(503, "Command queue full", True),
    "ENGINE_STOPPED": ProblemType(503, "Server is shutting down", True),
    "OUTCOME_UNKNOWN": ProblemType(503, "Outcome unknown", True),
    "TOO_MANY_SUBSCRIPTIONS": ProblemType(422, "Too many subscriptions"),
    "TOO_MANY_MARKETS": ProblemType(422, "Too many markets"),
    # Rules of the engine, except those above, which the server checks first.
    "REJECTED": ProblemType(422, "Rejected"),
    "INVALID_TIME": ProblemType(422, "Invalid time"),
    "CLOCK_WENT_BACK": ProblemType(503, "Clock went back", True),
    "DEADLINE_PASSED": ProblemType(422, "Deadline passed"),
    "INVALID_COMMAND": ProblemType(422, "Invalid command"),
    "INVALID_MARKET": ProblemType(422, "Invalid market"),
    "MARKET_EXISTS": ProblemType(409, "Market already exists"),
    "INVALID_KIND": ProblemType(422, "Invalid event kind"),
    "INVALID_INSTRUCTION": ProblemType(422, "Conflicting order options"),
    "INVALID_ORDER_ID": ProblemType(422, "Invalid order id"),
    "INVALID_OWNER": ProblemType(422, "Invalid maker"),
    "AMOUNT_TOO_SMALL": ProblemType(422, "Amount too small"),
    "ORDER_EXPIRED": ProblemType(422, "Order expired"),
    "ORDER_ALREADY_USED": ProblemType(409, "Order already accepted"),
    "CLIENT_ID_CONFLICT": ProblemType(409, "Client order id used for another order"),
    "DUPLICATE_ORDER": ProblemType(409, "Order already exists"),
    "UNKNOWN_ORDER": ProblemType(404, "Order not found"),
    "NOT_THE_MAKER": ProblemType(403, "Order belongs to another maker"),
    "ORDER_NOT_OPEN": ProblemType(409, "Order not open"),
    "UNKNOWN_TRADE": ProblemType(404, "Trade not found"),
    "MARKET_NOT_OPEN": ProblemType(409, "Not allowed in the market's mode"),
    "MARKET_STALLED": ProblemType(503, "Matching stopped until trades settle again", True),
    "NONCE_TOO_LOW": ProblemType(422, "Nonce too low"),
    "REMAINING_CHANGED": ProblemType(409, "Remaining size is another one"),
    "SIZE_NOT_REDUCED": ProblemType(422, "Size not reduced"),
    "TOO_MANY_ORDERS": ProblemType(422, "Too many open orders"),
    "INSUFFICIENT_BALANCE": ProblemType(422, "Insufficient balance"),
    "POST_ONLY_WOULD_CROSS": ProblemType(422, "Post-only order would trade"),
    "SEED_WOULD_CROSS": ProblemType(422, "Seed order would trade"),
    "FOK_NOT_FILLABLE": ProblemType(422, "Fill-or-kill order not fillable"),
    "TOO_MANY_TRADES": ProblemType(422, "Too many trades for one order"),
    # Other rules of the server.
    "UNKNOWN_KEY": ProblemType(404, "API key not found"),
    "KEY_EXISTS": ProblemType(409, "API key already exists"),
    "MARKET_IN_USE": ProblemType(409, "Market in use"),
    "KEY_INACTIVE": ProblemType(409, "API key already deactivated"),
    "DELEGATE_NONCE_TOO_LOW": ProblemType(422, "Nonce too low"),
    "INTERNAL": ProblemType(500, "Internal error"),
}
"""Status and title of every code, in order of precedence."""

CONTENT_TYPE: Final = b"application/problem+json"
RETRY_AFTER_S: Final = b"1"
"""``Retry-After`` of a retryable 503 that does not set its own."""

_ENCODER: Final = msgspec.json.Encoder()


class Fault(msgspec.Struct, frozen=True):
    """An error of one field."""

    path: str
    """Path of the field, in JSON names."""
    message: str
    """Description of the error."""


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of every error response."""

    type: str
    """Path of the code's description on the server."""
    title: str
    """Short description of the code."""
    status: int
    """HTTP status."""
    detail: str
    """Description of this error: the rule, the value and the limit."""
    code: str
    """Stable code."""
    error: str
    """Same as ``detail``."""
    errors: list[Fault]
    """The invalid fields; the path is empty if the whole request caused the error."""
    request_id: str
    """Id of the request, also in the logs."""
    retryable: bool
    """Whether the same request may succeed later."""


class ApiError(ClobError):
    """A request is rejected by a rule of the server.

    Args:
        code: one of :data:`PROBLEMS`.
        detail: the rule, the value and the limit.
        faults: the invalid fields.
        headers: additional headers of the response.
        more: additional fields of the body.
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
        self.headers = headers
        self.more: Mapping[str, Any] = more or {}


class Problem(NamedTuple):
    """An encoded error response."""

    status: int
    headers: Headers
    """Headers, without content type and length."""
    body: bytes
    """JSON: a :class:`ProblemBody` and the additional fields of the error."""


def problem_of(error: ClobError, request_id: str = "") -> Problem:
    """Return the response to a rejected request; a code not in :data:`PROBLEMS` is INTERNAL."""
    content, headers = content_of(error, request_id)
    return Problem(content["status"], headers, _ENCODER.encode(content))


def text_of(error: ClobError) -> str:
    """Return the message of an error in the words of an HTTP client."""
    return in_json_terms(str(error), error.code)


def content_of(
    error: ClobError, request_id: str = "", within: str = ""
) -> tuple[dict[str, Any], Headers]:
    """Return the body of an error response, before encoding, and its headers.

    Args:
        error: the error.
        request_id: id of the request.
        within: path of the part of the body that the error is about; empty for the whole.
    """
    code = error.code if error.code in PROBLEMS else "INTERNAL"
    problem, detail = PROBLEMS[code], text_of(error)
    headers = error.headers if isinstance(error, ApiError) else ()
    retry_later = problem.retryable and problem.status == 503
    if retry_later and not any(name == b"retry-after" for name, _ in headers):
        headers = (*headers, (b"retry-after", RETRY_AFTER_S))
    body = ProblemBody(
        type=f"/docs#{code}",
        title=problem.title,
        status=problem.status,
        detail=detail,
        code=code,
        error=detail,
        errors=faults_of(error, within),
        request_id=request_id,
        retryable=problem.retryable,
    )
    return {**msgspec.to_builtins(body), **more_of(error)}, headers


def faults_of(error: ClobError, within: str = "") -> list[Fault]:
    """Return the invalid fields, at least one."""
    faults = error.faults if isinstance(error, ApiError) else ()
    if not faults:
        path = error.path if isinstance(error, RejectedError) else None
        faults = (Fault(path or FIELD_OF.get(error.code, ""), text_of(error)),)
    if not within:
        return list(faults)
    return [Fault(f"{within}.{each.path}".rstrip("."), each.message) for each in faults]


def more_of(error: ClobError) -> Mapping[str, Any]:
    """Return the additional fields of the body, which help a program to react."""
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
