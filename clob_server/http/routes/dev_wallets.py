"""Development wallets of the test environment: a page signs and sends with them by one click.

Their private keys are public, and never leave this process. Only pages of this server may use
these routes, and only messages of this exchange and permits of its collateral are signed.
"""

from collections.abc import Mapping
from typing import Any, Final

from clob.errors import RejectedError
from clob.signing import (
    Domain,
    Signed,
    SignedCancel,
    SignedCancelAll,
    SignedOrder,
    SignedPermit,
    SignedReduce,
    SignedSetDelegate,
    SignedSetNonce,
    fields,
    order_hash,
    typed_data,
)
from clob.signing.fields import received
from clob.units import UINT256_MAX
from clob.wire.info import (
    CallResults,
    DevWallet,
    DevWallets,
    ReceiptBody,
    SentBody,
    SignatureBody,
)
from clob_server.api.faults import check_names, one_of, present, read_wallet, wrong
from clob_server.api.problems import ApiError
from clob_server.api.request import Reply, reply
from clob_server.chain.config import DEVELOPMENT_CHAIN
from clob_server.chain.eth.accounts import WALLETS, DevAccount
from clob_server.http.server import Request, Route, Server

CALLS_MAX: Final = 20
"""Calls in one request, at most."""
TYPED_DATA: Final = frozenset(("types", "primaryType", "domain", "message"))
"""The fields of each body, and of a call."""
SENDING: Final = frozenset(("to", "data", "value"))
CALLS: Final = frozenset(("calls",))
CALL: Final = frozenset(("to", "data"))

DATA_RULE: Final = "must be 0x and an even number of hex digits"


SIGNABLE: Final[Mapping[str, type[Signed]]] = {
    kind.SCHEMA.name: kind
    for kind in (
        SignedOrder,
        SignedCancel,
        SignedCancelAll,
        SignedReduce,
        SignedSetNonce,
        SignedSetDelegate,
        SignedPermit,
    )
}
"""Structs that a development wallet signs, by their EIP-712 name."""


def list_wallets(call: Request) -> Reply:
    """Return the development wallets; none if orders are signed for another chain."""
    is_development = call.server.domain.chain_id == DEVELOPMENT_CHAIN
    wallets = [
        DevWallet(address=each.address, name=f"Wallet {number}")
        for number, each in enumerate(WALLETS if is_development else (), 1)
    ]
    return reply(DevWallets(wallets=wallets))


def sign(call: Request) -> Reply:
    """Sign typed data of this exchange."""
    account = wallet_of(call)
    return reply(
        SignatureBody(signature=account.sign(digest_of(call.server, account, call.object())))
    )


async def send(call: Request) -> Reply:
    """Sign a transaction and send it to the development chain."""
    account, body = wallet_of(call), call.object(SENDING)
    to, data = read_call("", body)
    value = fields.amount("value", body.get("value", 0))
    if value > UINT256_MAX:
        raise wrong("value", "must be below 2^256 wei", value)
    chain = call.server.chain
    chain.check_ready()
    return reply(SentBody(tx_hash=await chain.worker.send_from(account.index, to, data, value)))


async def call_contracts(call: Request) -> Reply:
    """Call contracts without a transaction."""
    calls = call.object(CALLS).get("calls")
    if type(calls) is not list or not 0 < len(calls) <= CALLS_MAX:
        raise wrong("calls", f"must be an array of 1 to {CALLS_MAX} calls", calls)
    requests = []
    for place, each in enumerate(calls):
        if type(each) is not dict:
            raise wrong(f"calls.{place}", "must be an object with to and data", each)
        check_names(each, CALL, within=f"calls.{place}.")
        to, data = read_call(f"calls.{place}.", each)
        requests.append({"to": to, "data": data})
    chain = call.server.chain
    chain.check_ready()
    results = [str(await chain.worker.ask_node("eth_call", each, "latest")) for each in requests]
    return reply(CallResults(results=results))


async def receipt(call: Request) -> Reply:
    """Return the state of a transaction."""
    name = f"0x{fields.word('txHash', call.params['txHash']).hex()}"
    chain = call.server.chain
    chain.check_ready()
    found = await chain.worker.ask_node("eth_getTransactionReceipt", name)
    if found is None:
        return reply(ReceiptBody(tx_hash=name, status="pending", block=None))
    status = "confirmed" if int(found["status"], 16) else "reverted"
    return reply(ReceiptBody(tx_hash=name, status=status, block=int(found["blockNumber"], 16)))


def wallet_of(call: Request) -> DevAccount:
    """Return the development wallet of a request.

    Raises:
        ApiError: NOT_ON_THIS_ENVIRONMENT, orders are signed for another chain; NOT_FOUND, no
            development wallet has this address.
    """
    chain_id = call.server.domain.chain_id
    if chain_id != DEVELOPMENT_CHAIN:
        raise ApiError(
            "NOT_ON_THIS_ENVIRONMENT",
            f"development wallets exist on chain {DEVELOPMENT_CHAIN}; this exchange is for chain "
            f"{chain_id}",
        )
    address = read_wallet("address", call.params["address"])
    for each in WALLETS:
        if each.address == address:
            return each
    known = ", ".join(each.address for each in WALLETS)
    raise ApiError("NOT_FOUND", f"address must be a development wallet: {known}; got {address}")


# ----- typed data ----------------------------------------------------------------------------


def digest_of(server: Server, account: DevAccount, body: Mapping[str, Any]) -> bytes:
    """Return the digest of typed data that an account may sign.

    Raises:
        ApiError: INVALID_FIELD, it is not typed data of this exchange, or of another signer.
        RejectedError: a field of the message is invalid.
    """
    check_names(body, TYPED_DATA)
    name = body.get("primaryType")
    kind = SIGNABLE.get(name) if type(name) is str else None
    if kind is None:
        raise wrong("primaryType", f"must be {one_of(SIGNABLE)}", name)
    domain = read_domain(server, kind, body.get("domain"))
    message = body.get("message")
    if type(message) is not dict:
        raise wrong("message", f"must be an object with the fields of {name}", message)
    check_names(message, {field.name for field in kind.SCHEMA.fields}, within="message.")
    try:
        signed = kind.from_json(message)
    except RejectedError as error:
        error.path = f"message.{error.path}"
        raise
    types = typed_data(signed, domain)["types"]
    if body.get("types", types) not in (types, {kind.SCHEMA.name: types[kind.SCHEMA.name]}):
        raise wrong("types", f"must be {kind.SCHEMA.type_string}", body["types"])
    if signed.signer_address != account.address:
        path = f"message.{kind.SCHEMA.signer}"
        raise wrong(
            path, f"must be the wallet that signs, {account.address}", signed.signer_address
        )
    return order_hash(signed, domain)


def read_domain(server: Server, kind: type[Signed], value: object) -> Domain:
    """Read the domain of typed data: that of this exchange, for a permit that of its collateral.

    Raises:
        ApiError: INVALID_FIELD, it is another one.
    """
    own = server.domain.to_json()
    if kind is not SignedPermit:
        if value != own:
            rule = f"must be that of this exchange, {received(own)}; development wallets sign "
            raise wrong("domain", f"{rule}nothing else", value)
        return server.domain
    addresses = server.chain.addresses
    if addresses is None:
        raise wrong("domain", "must be that of a collateral, which needs a chain", value)
    collateral = addresses.collateral
    if type(value) is dict and value.keys() == own.keys():
        domain = Domain(*(value[name] for name in own))
        if (domain.chain_id, domain.verifying_contract) == (own["chainId"], collateral):
            return domain
    rule = f"must be that of the collateral {collateral} on chain {own['chainId']}"
    raise wrong("domain", f"{rule}, with name and version", value)


def read_call(path: str, value: Mapping[str, Any]) -> tuple[str, str]:
    """Read the contract and the calldata of a call."""
    to = read_wallet(f"{path}to", value.get("to"))
    data = present(f"{path}data", value.get("data"), DATA_RULE)
    if type(data) is not str or not fields.HEX_BYTES.fullmatch(data):
        raise wrong(f"{path}data", DATA_RULE, data)
    return to, data


_WALLET: Final = "/api/test/wallets/{address}"
ROUTES = (
    Route("list_dev_wallets", "GET", "/api/test/wallets", list_wallets),
    Route("sign_with_dev_wallet", "POST", f"{_WALLET}/sign", sign, reads_body=True),
    Route("send_from_dev_wallet", "POST", f"{_WALLET}/send", send, reads_body=True),
    Route("call_contracts", "POST", "/api/test/calls", call_contracts, reads_body=True),
    Route("get_receipt", "GET", "/api/test/transactions/{txHash}", receipt),
)
"""The routes of the development wallets, and of the chain for a page that uses them."""
