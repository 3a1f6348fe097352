"""Gasless routes: split, merge, redeem, wrap, escrow, and the faucet of the test environment.

The operator pays the gas. A request is read and checked completely before anything is sent.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from clob.errors import InvalidAmountError
from clob.signing import fields
from clob.signing.fields import received
from clob.wire.operations import (
    AnyBody,
    DepositBody,
    FaucetBody,
    MergeBody,
    OperationBody,
    Permit,
    RedeemBody,
    SplitBody,
    UnwrapBody,
    WithdrawBody,
    WithdrawRequestBody,
    WrapBody,
)
from clob_server.api.faults import check_names, present, read_wallet, wrong
from clob_server.api.problems import ApiError, Fault, Headers
from clob_server.api.request import Reply, reply
from clob_server.chain.messages import OperationDone, OperationFailed, OperationPending
from clob_server.chain.worker_client import OperationState
from clob_server.core.rejections import FaucetLimitError
from clob_server.http.server import Request, Route
from clob_server.settlement.operations import operation_id, result_of

KEY_HEADER: Final = "Idempotency-Key"
"""Header with the client's name for a request."""
PREFER: Final = re.compile(rb"\s*wait\s*=\s*([0-9]{1,6})\s*")
"""The preference of a client for the longest time until the answer (RFC 7240), seconds."""
KEY_MAX: Final = 255
"""Longest value of the header, bytes."""
ID_MAX: Final = 128
"""Longest operation id, characters."""

FAUCET: Final = frozenset(("user",))
"""The fields of each body."""
REDEEM: Final = FAUCET | {"conditionId"}
WRAP: Final = FAUCET | {"amount", "permit"}
CONVERSION: Final = REDEEM | {"amount", "yesTokenId", "noTokenId"}
SPLIT: Final = CONVERSION | {"permit"}
WITHDRAWAL: Final = FAUCET | {"asset"}
DEPOSIT: Final = WITHDRAWAL | {"amount", "permit"}
WITHDRAWAL_REQUEST: Final = WITHDRAWAL | {"amount", "nonce", "deadline", "signature"}
PERMIT: Final = frozenset(("value", "deadline", "v", "r", "s"))

AMOUNT_RULE: Final = "must be an amount in wei, 10^18 a token"
WORD_RULE: Final = "must be 0x and 64 hex digits"
TOKEN_RULE: Final = "must be the id of an outcome token"
COLLATERAL: Final = "collateral"
"""The asset that is not an outcome token."""
ASSET_RULE: Final = f'must be "{COLLATERAL}" or the id of an outcome token'
SIGNATURE_RULE: Final = "must be 0x and the hex digits of the wallet's signature"
SIGNATURE_BYTES_MAX: Final = 4_096
"""Longest signature of a contract wallet."""

_SIGNATURE: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})+")
_VISIBLE: Final = frozenset(range(0x21, 0x7F))
_V: Final = (27, 28)

ESCROW: Final = (DepositBody, WithdrawRequestBody, WithdrawBody)
"""The operations that need escrow in the exchange contract."""


async def split(call: Request) -> Reply:
    """Convert collateral into equal amounts of both tokens."""
    call.server.lifecycle.check_open()
    body = call.object(SPLIT)
    user, amount, tokens = read_conversion(body)
    permit = read_permit(body.get("permit"))
    split_body = SplitBody(user=user, amount=amount, permit=permit, **tokens)
    return await run_operation(call, user, split_body)


async def merge(call: Request) -> Reply:
    """Convert equal amounts of both tokens into collateral."""
    call.server.lifecycle.check_open()
    user, amount, tokens = read_conversion(call.object(CONVERSION))
    return await run_operation(call, user, MergeBody(user=user, amount=amount, **tokens))


async def redeem(call: Request) -> Reply:
    """Redeem the tokens of a resolved condition."""
    call.server.lifecycle.check_open()
    body = call.object(REDEEM)
    user = read_wallet("user", body.get("user"))
    condition_id = read_word("conditionId", body.get("conditionId"))
    return await run_operation(call, user, RedeemBody(user=user, condition_id=condition_id))


async def deposit(call: Request) -> Reply:
    """Move an asset of a wallet into its escrow."""
    call.server.lifecycle.check_open()
    body = call.object(DEPOSIT)
    user, asset = read_escrow(body)
    amount, permit = read_positive(body), read_permit(body.get("permit"))
    if permit is not None and asset != COLLATERAL:
        raise wrong("permit", "must be absent for an outcome token", body["permit"])
    deposit_body = DepositBody(user=user, asset=asset, amount=amount, permit=permit)
    return await run_operation(call, user, deposit_body)


async def request_withdrawal(call: Request) -> Reply:
    """Submit the signed request of a wallet to withdraw from its escrow."""
    call.server.lifecycle.check_open()
    body = call.object(WITHDRAWAL_REQUEST)
    user, asset = read_escrow(body)
    request = WithdrawRequestBody(
        user=user,
        asset=asset,
        amount=str(fields.amount("amount", present("amount", body.get("amount"), AMOUNT_RULE))),
        nonce=read_uint("nonce", body, "must be a number that the wallet did not use before"),
        deadline=read_uint("deadline", body, "must be Unix seconds"),
        signature=read_signature(body.get("signature")),
    )
    return await run_operation(call, user, request)


async def withdraw(call: Request) -> Reply:
    """Pay a requested withdrawal to its wallet."""
    call.server.lifecycle.check_open()
    user, asset = read_escrow(call.object(WITHDRAWAL))
    return await run_operation(call, user, WithdrawBody(user=user, asset=asset))


async def wrap(call: Request) -> Reply:
    """Convert stablecoin into collateral."""
    user, amount, permit = read_wrapping(call)
    return await run_operation(call, user, WrapBody(user=user, amount=amount, permit=permit))


async def unwrap(call: Request) -> Reply:
    """Convert collateral into stablecoin."""
    user, amount, permit = read_wrapping(call)
    return await run_operation(call, user, UnwrapBody(user=user, amount=amount, permit=permit))


async def faucet(call: Request) -> Reply:
    """Send test collateral to a wallet."""
    call.server.lifecycle.check_open()
    user = read_wallet("user", call.object(FAUCET).get("user"))
    units = call.server.settings.faucet_units
    try:
        return await run_operation(call, user, FaucetBody(user=user, units=units))
    except FaucetLimitError as error:
        raise allowance_error(error, call.server.clock_ms()) from None


async def operation(call: Request) -> Reply:
    """Return the state of an operation."""
    name = call.params["operationId"]
    if len(name) > ID_MAX:
        raise ApiError("UNKNOWN_OPERATION", f"unknown operation {received(name[:140])}")
    return reply(operation_body(await call.server.chain.worker.get_operation(name)))


async def run_operation(call: Request, user: str, body: AnyBody) -> Reply:
    """Run an operation for a wallet and return its result."""
    server = call.server
    name = operation_id("" if call.key is None else call.key.id, user, read_key(call))
    server.guard.may_act_for(call, user)
    server.chain.check_configured()
    if isinstance(body, ESCROW):
        server.chain.check_escrow()
    done = await server.operations.run(name, body, read_wait(call))
    return Reply(bytes(done.answer), headers=((b"x-operation-id", name.encode()),))


def allowance_error(error: FaucetLimitError, now_ms: int) -> ApiError:
    """Return the error for a faucet request beyond the daily allowance, with the retry time."""
    wait_s = max(1, -((now_ms - error.frees_ms) // 1000))
    headers: Headers = ((b"retry-after", b"%d" % wait_s),)
    return ApiError(error.code, str(error), headers=headers, more={"freesAt": error.frees_ms})


def operation_body(state: OperationState) -> OperationBody:
    """Return the JSON of an operation.

    Raises:
        ApiError: UNKNOWN_OPERATION.
    """
    more: dict[str, Any]
    if isinstance(state, OperationDone):
        more = {"status": "done", "answer": state.answer}
    elif isinstance(state, OperationPending):
        more = {"status": "pending", "detail": state.detail or None, "hashes": state.hashes}
    elif isinstance(state, OperationFailed):
        status = "failed" if state.undone else "stuck"
        more = {"status": status, "detail": state.detail, "hashes": state.hashes}
    else:
        result_of(state)  # raises
        raise AssertionError
    return OperationBody(operation=state.id, kind=state.kind, **more)


# ----- reading -------------------------------------------------------------------------------


def read_conversion(body: Mapping[str, Any]) -> tuple[str, str, dict[str, str]]:
    """Read the body of split and merge (decision 43).

    Returns:
        The wallet, the amount in wei, and the condition and tokens by the names in both operations.
    """
    user, amount = read_wallet("user", body.get("user")), read_positive(body)
    tokens = {
        "condition_id": read_word("conditionId", body.get("conditionId")),
        "yes_token_id": read_token("yesTokenId", body.get("yesTokenId")),
        "no_token_id": read_token("noTokenId", body.get("noTokenId")),
    }
    return user, amount, tokens


def read_wrapping(call: Request) -> tuple[str, str, Permit | None]:
    """Read the body of wrap and unwrap: the wallet, the amount in wei, the signed approval."""
    call.server.lifecycle.check_open()
    body = call.object(WRAP)
    user, amount = read_wallet("user", body.get("user")), read_positive(body)
    return user, amount, read_permit(body.get("permit"))


def read_positive(body: Mapping[str, Any]) -> str:
    """Read ``amount``, required and positive, and return its decimal digits."""
    amount = fields.amount("amount", present("amount", body.get("amount"), AMOUNT_RULE))
    if not amount:
        raise fields.at("amount", InvalidAmountError("amount must be at least 1 wei; got 0"))
    return str(amount)


def read_escrow(body: Mapping[str, Any]) -> tuple[str, str]:
    """Read the wallet and the asset of its escrow, required."""
    user, asset = read_wallet("user", body.get("user")), body.get("asset")
    if asset == COLLATERAL:
        return user, COLLATERAL
    digits = str(fields.uint("asset", present("asset", asset, ASSET_RULE)))
    if digits == "0":
        raise wrong("asset", ASSET_RULE, asset)
    return user, digits


def read_uint(path: str, body: Mapping[str, Any], rule: str) -> str:
    """Read a number of 256 bits, required, and return its decimal digits."""
    return str(fields.uint(path, present(path, body.get(path), rule)))


def read_signature(value: object) -> str:
    """Read a signature; that of a contract wallet may have any length."""
    present("signature", value, SIGNATURE_RULE)
    if type(value) is str and len(value) <= 2 * SIGNATURE_BYTES_MAX and _SIGNATURE.fullmatch(value):
        return value
    raise wrong("signature", SIGNATURE_RULE, value)


def read_word(path: str, value: object) -> str:
    """Read 32 bytes in hex, required, and return them in lower case."""
    return f"0x{fields.word(path, present(path, value, WORD_RULE)).hex()}"


def read_token(path: str, value: object) -> str:
    """Read a token id, required, and return its decimal digits."""
    return str(fields.uint(path, present(path, value, TOKEN_RULE)))


def read_permit(value: object) -> Permit | None:
    """Read a signed approval; None if absent or ``null``."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise wrong("permit", "must be an object with value, deadline, v, r and s", value)
    check_names(value, PERMIT, within="permit.")
    v = fields.uint8("permit.v", present("permit.v", value.get("v"), "must be 27 or 28"))
    if v not in _V:
        raise wrong("permit.v", "must be 27 or 28", v)
    return Permit(
        value=str(
            fields.amount("permit.value", present("permit.value", value.get("value"), AMOUNT_RULE))
        ),
        deadline=str(
            fields.uint(
                "permit.deadline",
                present("permit.deadline", value.get("deadline"), "must be Unix seconds"),
            )
        ),
        v=v,
        r=read_word("permit.r", value.get("r")),
        s=read_word("permit.s", value.get("s")),
    )


def read_wait(call: Request) -> int | None:
    """Read how long the client prefers to wait, in seconds; None without a preference.

    Other preferences are ignored, as RFC 7240 requires.
    """
    for each in call.headers.get(b"prefer", b"").split(b","):
        wait = PREFER.fullmatch(each)
        if wait is not None:
            return int(wait[1])
    return None


def read_key(call: Request) -> bytes | None:
    """Read the idempotency key; None without the header."""
    value = call.headers.get(KEY_HEADER.lower().encode())
    if value is None or (0 < len(value) <= KEY_MAX and _VISIBLE.issuperset(value)):
        return value
    detail = f"{KEY_HEADER} must be 1 to {KEY_MAX} visible ASCII characters; got "
    detail += received(value[:80].decode("latin-1"))
    raise ApiError("INVALID_FIELD", detail, faults=(Fault(KEY_HEADER, detail),))


ROUTES = (
    Route("gasless_split", "POST", "/api/gasless/split", split, reads_body=True),
    Route("gasless_merge", "POST", "/api/gasless/merge", merge, reads_body=True),
    Route("gasless_redeem", "POST", "/api/gasless/redeem", redeem, reads_body=True),
    Route("gasless_deposit", "POST", "/api/gasless/deposit", deposit, reads_body=True),
    Route(
        "gasless_withdraw_request",
        "POST",
        "/api/gasless/withdraw-request",
        request_withdrawal,
        reads_body=True,
    ),
    Route("gasless_withdraw", "POST", "/api/gasless/withdraw", withdraw, reads_body=True),
    Route("gasless_wrap", "POST", "/api/gasless/wrap", wrap, reads_body=True),
    Route("gasless_unwrap", "POST", "/api/gasless/unwrap", unwrap, reads_body=True),
    Route("gasless_faucet", "POST", "/api/gasless/faucet", faucet, reads_body=True),
    Route("gasless_operation", "GET", "/api/gasless/operations/{operationId}", operation),
)
