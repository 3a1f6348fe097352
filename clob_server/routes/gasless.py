"""What the operator pays the gas for: split, merge, and the faucet of the test environment.

They need a chain. Where there is none, what is asked for is read and checked, and then refused.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from clob.errors import InvalidAmountError
from clob.signing import fields
from clob_server.calls import Call, Reply, Route
from clob_server.problems import ApiError


class Conversion(NamedTuple):
    """Collateral to be made into as much of both tokens, or both tokens into collateral."""

    user: str
    """Whose."""
    amount: int
    """How much, in wei."""
    condition_id: bytes
    """The condition of the market, 32 bytes."""
    yes_token_id: int
    """The one token."""
    no_token_id: int
    """The other."""


def read_conversion(body: Mapping[str, Any]) -> Conversion:
    """Read the body of split and of merge (decision 43).

    Raises:
        RejectedError: the first field that is wrong.
    """
    return Conversion(
        user=fields.address("user", body.get("user")),
        amount=read_amount(body.get("amount")),
        condition_id=fields.word("conditionId", body.get("conditionId")),
        yes_token_id=fields.uint("yesTokenId", body.get("yesTokenId")),
        no_token_id=fields.uint("noTokenId", body.get("noTokenId")),
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


async def convert(call: Call) -> Reply:
    """Split collateral into tokens, or merge them back."""
    call.service.check_open()
    wanted = read_conversion(call.object())
    call.service.guard.may_act_for(call, wanted.user)
    raise no_chain()


async def faucet(call: Call) -> Reply:
    """Give test collateral to a wallet."""
    call.service.check_open()
    fields.address("user", call.object().get("user"))
    raise no_chain()


def no_chain() -> ApiError:
    """Refuse what needs a chain."""
    return ApiError("CHAIN_NOT_CONFIGURED", "this server runs without a chain (--chain none)")


ROUTES = (
    Route("gasless_split", "POST", "/api/gasless/split", convert, reads_body=True),
    Route("gasless_merge", "POST", "/api/gasless/merge", convert, reads_body=True),
    Route("gasless_faucet", "POST", "/api/gasless/faucet", faucet, reads_body=True),
)
"""The routes of what the operator pays for."""
