"""What the operator pays the gas for: split, merge, redeem, and the faucet of the test environment.

They need a chain. What is asked for is read and checked first, and refused before anything is sent.
"""

from collections.abc import Mapping
from typing import Any, Final

from clob.errors import InvalidAmountError
from clob.signing import fields
from clob_server.api.options import wrong
from clob_server.api.problems import ApiError, Fault, Headers
from clob_server.api.request import Reply, reply
from clob_server.api.schemas import OperationBody
from clob_server.chain.messages import OperationDone, OperationFailed, OperationPending
from clob_server.chain.operation_bodies import (
    AnyBody,
    FaucetBody,
    MergeBody,
    Permit,
    RedeemBody,
    SplitBody,
)
from clob_server.chain.worker_client import OperationState
from clob_server.core.rejections import FaucetLimitError
from clob_server.http.server import Request, Route
from clob_server.settlement.operations import operation_id, result_of

KEY_HEADER: Final = "Idempotency-Key"
"""The header in which a client names his request."""
KEY_MAX: Final = 255
"""How long that name may be."""
ID_MAX: Final = 128
"""How long the name of an operation may be."""

_VISIBLE: Final = frozenset(range(0x21, 0x7F))
_V: Final = (27, 28)


async def split(call: Request) -> Reply:
    """Make collateral into as much of both tokens."""
    call.server.lifecycle.check_open()
    body = call.object()
    user, amount, rest = read_conversion(body)
    permit = read_permit(body.get("permit"))
    return await carry_out(call, user, SplitBody(user=user, amount=amount, permit=permit, **rest))


async def merge(call: Request) -> Reply:
    """Make as much of both tokens into collateral."""
    call.server.lifecycle.check_open()
    user, amount, rest = read_conversion(call.object())
    return await carry_out(call, user, MergeBody(user=user, amount=amount, **rest))


async def redeem(call: Request) -> Reply:
    """Pay out the tokens of a condition that is resolved."""
    call.server.lifecycle.check_open()
    body = call.object()
    user = fields.address("user", body.get("user"))
    condition_id = read_word("conditionId", body.get("conditionId"))
    return await carry_out(call, user, RedeemBody(user=user, condition_id=condition_id))


async def faucet(call: Request) -> Reply:
    """Give test collateral to a wallet."""
    call.server.lifecycle.check_open()
    user = fields.address("user", call.object().get("user"))
    units = call.server.settings.faucet_units
    try:
        return await carry_out(call, user, FaucetBody(user=user, units=units))
    except FaucetLimitError as error:
        raise limited(error, call.server.clock_ms()) from None


async def operation(call: Request) -> Reply:
    """Say where an operation stands."""
    name = call.params["operationId"]
    if len(name) > ID_MAX:
        raise ApiError("UNKNOWN_OPERATION", f"there is no operation {name!r:.140}")
    return reply(operation_body(await call.server.chain.worker.get_operation(name)))


async def carry_out(call: Request, user: str, body: AnyBody) -> Reply:
    """Have an operation carried out for a wallet, and tell its end."""
    server = call.server
    name = operation_id("" if call.key is None else call.key.id, user, read_key(call))
    server.guard.may_act_for(call, user)
    server.chain.check_configured()
    done = await server.operations.run(name, body)
    return Reply(bytes(done.answer), headers=((b"x-operation-id", name.encode()),))


def limited(error: FaucetLimitError, now_ms: int) -> ApiError:
    """Refuse what is more than the faucet gives within a day, and say when it gives again."""
    wait_s = max(1, -((now_ms - error.frees_ms) // 1000))
    headers: Headers = ((b"retry-after", b"%d" % wait_s),)
    return ApiError(error.code, str(error), headers=headers, more={"freesAt": error.frees_ms})


def operation_body(standing: OperationState) -> OperationBody:
    """Describe where an operation stands.

    Raises:
        ApiError: UNKNOWN_OPERATION.
    """
    if isinstance(standing, OperationDone):
        return OperationBody(
            operation=standing.id, kind=standing.kind, status="done", answer=standing.answer
        )
    if isinstance(standing, OperationPending):
        return OperationBody(
            operation=standing.id, kind=standing.kind, status="pending", hashes=standing.hashes
        )
    if not isinstance(standing, OperationFailed):
        result_of(standing)  # it says so
        raise AssertionError
    return OperationBody(
        operation=standing.id,
        kind=standing.kind,
        status="failed" if standing.undone else "stuck",
        detail=standing.detail,
        hashes=standing.hashes,
    )


# ----- reading -------------------------------------------------------------------------------


def read_conversion(body: Mapping[str, Any]) -> tuple[str, str, dict[str, str]]:
    """Read the body of split and of merge (decision 43).

    Returns:
        The wallet, the amount in wei, and condition and tokens by the names that both have.

    Raises:
        RejectedError: the first field that is wrong.
    """
    user = fields.address("user", body.get("user"))
    amount = str(read_amount(body.get("amount")))
    return (
        user,
        amount,
        {
            "condition_id": read_word("conditionId", body.get("conditionId")),
            "yes_token_id": str(fields.uint("yesTokenId", body.get("yesTokenId"))),
            "no_token_id": str(fields.uint("noTokenId", body.get("noTokenId"))),
        },
    )


def read_amount(given: object) -> int:
    """Read an amount to be converted.

    Raises:
        InvalidAmountError, AmountTooLargeError: it is none.
    """
    amount = fields.amount("amount", given)
    if not amount:
        raise fields.at("amount", InvalidAmountError("amount must be at least 1 wei, not 0"))
    return amount


def read_word(path: str, given: object) -> str:
    """Read 32 bytes in hex, and write them in small letters.

    Raises:
        InvalidFieldError: it is not that.
    """
    return f"0x{fields.word(path, given).hex()}"


def read_permit(given: object) -> Permit | None:
    """Read a signed approval of collateral; absent and null are none.

    Raises:
        ApiError, RejectedError: the first of its fields that is wrong.
    """
    if given is None:
        return None
    if not isinstance(given, dict):
        raise wrong("permit", "must be an object with value, deadline, v, r and s", given)
    v = fields.uint8("permit.v", given.get("v"))
    if v not in _V:
        raise wrong("permit.v", "must be 27 or 28", v)
    return Permit(
        value=str(fields.amount("permit.value", given.get("value"))),
        deadline=str(fields.uint("permit.deadline", given.get("deadline"))),
        v=v,
        r=read_word("permit.r", given.get("r")),
        s=read_word("permit.s", given.get("s")),
    )


def read_key(call: Request) -> bytes | None:
    """Read what the client calls his request; None where he has not named it.

    Raises:
        ApiError: INVALID_FIELD, it is not 1 to 255 visible characters of ASCII.
    """
    given = call.headers.get(KEY_HEADER.lower().encode())
    if given is None or (0 < len(given) <= KEY_MAX and _VISIBLE.issuperset(given)):
        return given
    told = f"{KEY_HEADER} must be 1 to {KEY_MAX} visible characters of ASCII, not {given!r:.80}"
    raise ApiError("INVALID_FIELD", told, faults=(Fault(KEY_HEADER, told),))


ROUTES = (
    Route("gasless_split", "POST", "/api/gasless/split", split, reads_body=True),
    Route("gasless_merge", "POST", "/api/gasless/merge", merge, reads_body=True),
    Route("gasless_redeem", "POST", "/api/gasless/redeem", redeem, reads_body=True),
    Route("gasless_faucet", "POST", "/api/gasless/faucet", faucet, reads_body=True),
    Route("gasless_operation", "GET", "/api/gasless/operations/{operationId}", operation),
)
"""The routes of what the operator pays for."""
