"""Setup of the exchange contract: deployed on a development chain, checked on any chain.

It must be at the address for which orders are signed. On a development chain that is the address of
the contract created by the first transaction of account 0, whose key is public. This transaction
has the same bytes each time, so it can be sent repeatedly without the outbox.
"""

import asyncio
import logging
from typing import Any, Final, NamedTuple

from clob.signing.fields import received
from clob_server.chain.config import DEVELOPMENT_CHAIN, Addresses
from clob_server.chain.eth.abi import AbiError, Function
from clob_server.chain.eth.accounts import DEPLOYER, create_address
from clob_server.chain.eth.rpc import NodeRejectedError, Reply, RpcRequest, content, number, result
from clob_server.chain.failpoints import failpoint
from clob_server.chain.messages import Config
from clob_server.chain.operations.deploy import EXCHANGE_GAS, EXCHANGE_STEP, exchange_creation
from clob_server.chain.operations.preconditions import NO_ESCROW, Read, escrow_read
from clob_server.chain.tx.gas_fees import GWEI, Fees
from clob_server.chain.tx.node import Node, is_failure
from clob_server.chain.tx.signer import LocalSigner
from clob_server.chain.tx.steps import Draft, SignedTransaction

FEES: Final = Fees(100 * GWEI, GWEI)
"""Fixed fees of the deployment, higher than a development chain requires."""
ERRORS_MAX: Final = 3
"""Number of errors for the transaction after which the setup gives up."""
AGAIN_S: Final = 0.05
"""Pause before the transaction is sent again, seconds; doubled each time."""
AGAIN_MAX_S: Final = 1.0
"""Maximum pause, seconds."""

COLLATERAL: Final = Function("collateral()", returns="address")
TOKENS: Final = Function("tokens()", returns="address")
SETTLER: Final = Function("operator()", returns="address")
DOMAIN: Final = Function(
    "eip712Domain()", returns="bytes1,string,string,uint256,address,bytes32,uint256[]"
)
_READS: Final = (COLLATERAL, TOKENS, SETTLER, DOMAIN)

_LOG: Final = logging.getLogger("clob_server.chain")


class SetupResult(NamedTuple):
    """Result of the setup."""

    exchange: str
    """Address of the exchange; empty if there is no usable one."""
    problem: str = ""
    """Why there is no usable exchange; empty if there is one or none is configured."""
    has_escrow: bool = False
    """Whether the exchange keeps escrow; one of an earlier version does not."""


class ExchangeSetup:
    """Finds or deploys the exchange and checks its settings."""

    def __init__(self, config: Config, node: Node) -> None:
        self._config = config
        self._node = node

    async def find(self, addresses: Addresses) -> SetupResult:
        """Find the exchange; deploy it if that is possible. The other contracts exist."""
        place = self._config.exchange
        if not place:
            return SetupResult("")
        problem = ""
        if not (await self._status()).is_there:
            problem = self._deploy_problem() or await self._deploy(addresses)
        problem = problem or await self._mismatch(addresses)
        if problem:
            _LOG.warning("trades do not settle: %s", problem)
            return SetupResult("", f"trades do not settle: {problem}")
        return SetupResult(place, has_escrow=await self._has_escrow())

    # ----- deployment --------------------------------------------------------------------------

    def _deploy_problem(self) -> str:
        """Return why the exchange cannot be deployed at its address; empty if it can."""
        place, config = self._config.exchange, self._config
        if not config.deploy or config.chain_id != DEVELOPMENT_CHAIN:
            return f"no contract at {place}"
        ours = create_address(DEPLOYER.address, 0)
        if place != ours:
            return f"no contract at {place}, and a deployment would create one at {ours}"
        return ""

    async def _deploy(self, addresses: Addresses) -> str:
        """Send the transaction until it is in a block; return a problem, or empty."""
        signed = self._signed(addresses)
        send = "eth_sendRawTransaction", (f"0x{signed.raw.hex()}",)
        find = "eth_getTransactionByHash", (signed.hash,)
        pause_s, errors, was_sent = AGAIN_S, 0, False
        while True:
            if not was_sent:
                failpoint("deploy", EXCHANGE_STEP, "before_insert")
            status = await self._status(send, find)
            if not was_sent:
                failpoint("deploy", EXCHANGE_STEP, "after_broadcast")
            was_sent = True
            if status.is_there:
                failpoint("deploy", EXCHANGE_STEP, "after_receipt")
                return ""
            if status.num_sent:
                return (
                    f"no contract at {self._config.exchange}, and the first transaction of "
                    f"{DEPLOYER.address} was another one"
                )
            errors += status.error != ""
            if errors == ERRORS_MAX:
                return f"the deployment of the exchange failed: {status.error}"
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, AGAIN_MAX_S)

    def _signed(self, addresses: Addresses) -> SignedTransaction:
        """Sign the transaction that deploys the exchange; the operator has all its roles."""
        config, roles = self._config, [self._node.operator] * 4
        domain = config.domain_name, config.domain_version
        contracts = addresses.collateral, addresses.conditional_tokens
        draft = Draft(
            operation=0,
            name=EXCHANGE_STEP,
            nonce=0,
            target="",
            data=exchange_creation(*domain, *contracts, *roles),
            value=0,
            gas=EXCHANGE_GAS,
            expects="",
            head=0,
        )
        fees = FEES._replace(is_legacy=self._node.fees.is_legacy)
        return LocalSigner(DEPLOYER.private_key, config.chain_id).sign_at_once(draft, fees)

    # ----- checks ------------------------------------------------------------------------------

    async def _status(self, *send: RpcRequest) -> "ExchangeStatus":
        """Send the transaction, if given, and return the status of the deployment."""
        count = "eth_getTransactionCount", (DEPLOYER.address, "latest")
        code = "eth_getCode", (self._config.exchange, "latest")
        return await self._node.request_until_valid([*send, count, code], read_status)

    async def _has_escrow(self) -> bool:
        """Return whether the exchange keeps escrow."""
        read = escrow_read(self._config.exchange)
        return await self._node.request_until_valid(
            [read.request()], lambda replies: read.decode(replies[0]) != NO_ESCROW
        )

    async def _mismatch(self, addresses: Addresses) -> str:
        """Return how the contract at the address differs from the config; empty if it does not."""
        place, config = self._config.exchange, self._config
        requests = [Read(place, each, ()).request() for each in _READS]
        try:
            settings = await self._node.request_until_valid(requests, read_settings)
        except AbiError:
            return f"the contract at {place} is not an exchange contract"
        (collateral,), (tokens,), (operator,), (_, name, version, chain_id, contract, *_) = settings
        pairs = (
            ("collateral", collateral, addresses.collateral),
            ("conditional tokens", tokens, addresses.conditional_tokens),
            ("operator", operator, self._node.operator),
            (
                "domain",
                domain_text(name, version, chain_id, contract),
                domain_text(config.domain_name, config.domain_version, config.chain_id, place),
            ),
        )
        for field, theirs, ours in pairs:
            if theirs != ours:
                return f"the {field} of the exchange at {place} is {theirs}; expected {ours}"
        return ""


class ExchangeStatus(NamedTuple):
    """Status of the deployment."""

    is_there: bool
    """Whether there is a contract at the address."""
    num_sent: int
    """Number of transactions of account 0 in blocks."""
    error: str = ""
    """The node's error for the transaction; empty if it was accepted or not sent."""


def read_status(replies: list[Reply]) -> ExchangeStatus:
    """Read the replies to the requests of :meth:`ExchangeSetup._status`."""
    *sent, num_sent, code = replies
    error = ""
    if sent and isinstance(sent[0], NodeRejectedError) and result(sent[1]) is None:
        error = str(sent[0])
    return ExchangeStatus(bool(content(result(code))), number(result(num_sent)), error)


def read_settings(replies: list[Reply]) -> list[tuple[Any, ...]]:
    """Read the settings of the contract.

    Raises:
        AbiError: the contract is not an exchange contract.
    """
    for reply in replies:
        if isinstance(reply, NodeRejectedError) and is_failure(reply):
            raise AbiError(str(reply))
    contents = [content(result(reply)) for reply in replies]
    return [function.decode(each) for function, each in zip(_READS, contents, strict=True)]


def domain_text(name: str, version: str, chain_id: int, contract: str) -> str:
    """Format a domain."""
    return f"{received(name)} version {received(version)}, chain {chain_id}, contract {contract}"
