"""The exchange contract: deployed on a development chain, and anywhere looked at before it is used.

It must lie where orders are signed for. On a development chain that is where the first transaction
of the first account comes to lie, whose key everybody knows. Those are the same bytes each time,
so that they can be sent as often as one likes: the outbox need not know of them.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import AbiError, Function
from clob_server.chain.eth.accounts import DEPLOYER, create_address
from clob_server.chain.eth.rpc import NodeRefusedError, Question, Reply, content, number, result
from clob_server.chain.failpoints import die_here
from clob_server.chain.messages import Config
from clob_server.chain.operations.deploy import GAS, STEP, creation
from clob_server.chain.tx.gas_fees import GWEI, Fees
from clob_server.chain.tx.node import Node, is_failure
from clob_server.chain.tx.sender import Signer
from clob_server.chain.tx.steps import Draft, SignedTransaction

DEVELOPMENT_CHAIN: Final = 31337
"""The chain id of development chains, on which the first account is everybody's."""
FEES: Final = Fees(100 * GWEI, GWEI)
"""What is offered for a unit of it: always the same, and more than a development chain asks for."""
REFUSALS_MAX: Final = 3
"""How often a node must refuse the transaction to be believed."""
AGAIN_S: Final = 0.05
"""How long until it is sent again, at first; twice as long each time."""
AGAIN_MAX_S: Final = 1.0
"""How long at most."""

COLLATERAL: Final = Function("collateral()", returns="address")
TOKENS: Final = Function("tokens()", returns="address")
SETTLER: Final = Function("operator()", returns="address")
DOMAIN: Final = Function(
    "eip712Domain()", returns="bytes1,string,string,uint256,address,bytes32,uint256[]"
)
_READS: Final = (COLLATERAL, TOKENS, SETTLER, DOMAIN)

_LOG: Final = logging.getLogger("clob_server.chain")


class SearchResult(NamedTuple):
    """What came of the search."""

    exchange: str
    """Where the exchange is; empty where there is none that can be used."""
    problem: str = ""
    """Why there is none, in a sentence; empty where there is one, or none is wanted."""


class Founding:
    """Has the exchange there, or says why it is not.

    Args:
        config: where it must be, and what orders are signed for.
        node: the node.
    """

    def __init__(self, config: Config, node: Node) -> None:
        self._config = config
        self._node = node

    async def find(self, addresses: Addresses) -> SearchResult:
        """Look for the exchange; deploy it where that can be done.

        Args:
            addresses: the other contracts, which are there.
        """
        place = self._config.exchange
        if not place:
            return SearchResult("")
        problem = ""
        if not (await self._standing(self._asked())).is_there:
            problem = self._cannot_deploy() or await self._deploy(addresses)
        problem = problem or await self._difference(addresses)
        if problem:
            _LOG.warning("trades do not settle: %s", problem)
            return SearchResult("", f"trades do not settle: {problem}")
        return SearchResult(place)

    # ----- deploying ---------------------------------------------------------------------------

    def _cannot_deploy(self) -> str:
        """Say why the exchange cannot be deployed where it must be; empty where it can."""
        place, config = self._config.exchange, self._config
        if not config.deploy or config.chain_id != DEVELOPMENT_CHAIN:
            return f"there is no contract at {place}"
        ours = create_address(DEPLOYER.address, 0)
        if place != ours:
            return f"there is no contract at {place}, and one would come to lie at {ours}"
        return ""

    async def _deploy(self, addresses: Addresses) -> str:
        """Send the transaction until it is in a block, and say what is wrong; empty for nothing."""
        signed = self._signed(addresses)
        asked: list[Question] = [
            ("eth_sendRawTransaction", (f"0x{signed.raw.hex()}",)),
            ("eth_getTransactionByHash", (signed.hash,)),
            *self._asked(),
        ]
        pause_s, refusals, was_sent = AGAIN_S, 0, False
        while True:
            if not was_sent:
                die_here("deploy", STEP, "before_insert")
            found = await self._standing(asked)
            if not was_sent:
                die_here("deploy", STEP, "after_broadcast")
            was_sent = True
            if found.is_there:
                die_here("deploy", STEP, "after_receipt")
                return ""
            if found.num_sent:
                return (
                    f"there is no contract at {self._config.exchange}, and {DEPLOYER.address} has "
                    "sent another transaction first"
                )
            refusals += found.refusal != ""
            if refusals == REFUSALS_MAX:
                return f"the exchange cannot be deployed: {found.refusal}"
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, AGAIN_MAX_S)

    def _signed(self, addresses: Addresses) -> SignedTransaction:
        """Write the transaction that deploys the exchange; the operator owns it."""
        config, operator = self._config, self._node.operator
        domain = config.domain_name, config.domain_version
        contracts = addresses.collateral, addresses.conditional_tokens
        draft = Draft(
            operation=0,
            name=STEP,
            nonce=0,
            target="",
            data=creation(*domain, *contracts, operator, operator),
            value=0,
            gas=GAS,
            expects="",
            head=0,
        )
        fees = FEES._replace(is_legacy=self._node.offer.is_legacy)
        return Signer(DEPLOYER.private_key, config.chain_id).sign(draft, fees)

    # ----- looking -----------------------------------------------------------------------------

    def _asked(self) -> list[Question]:
        """Ask what lies at the place, and if the first account has sent anything."""
        return [
            ("eth_getTransactionCount", (DEPLOYER.address, "latest")),
            ("eth_getCode", (self._config.exchange, "latest")),
        ]

    async def _standing(self, questions: Sequence[Question]) -> "ExchangeStatus":
        """Ask until it is said how things are."""
        return await self._node.patiently(questions, standing)

    async def _difference(self, addresses: Addresses) -> str:
        """Say in what the contract that is there is not the exchange of this server."""
        place, config = self._config.exchange, self._config
        asked = [
            ("eth_call", ({"to": place, "data": f"0x{each.encode().hex()}"}, "latest"))
            for each in _READS
        ]
        try:
            told = await self._node.patiently(asked, answers)
        except AbiError:
            return f"the contract at {place} is not an exchange"
        (collateral,), (tokens,), (settler,), (_, name, version, chain_id, contract, *_) = told
        pairs = (
            ("collateral", collateral, addresses.collateral),
            ("conditional tokens", tokens, addresses.conditional_tokens),
            ("operator", settler, self._node.operator),
            ("domain", *map(domain_text, (
                (name, version, chain_id, contract),
                (config.domain_name, config.domain_version, config.chain_id, place),
            ))),
        )  # fmt: skip
        for what, theirs, ours in pairs:
            if theirs != ours:
                return f"the {what} of the exchange at {place} is {theirs}, not {ours}"
        return ""


class ExchangeStatus(NamedTuple):
    """How things are."""

    is_there: bool
    """If there is a contract at the place."""
    num_sent: int
    """How many transactions of the first account are in blocks."""
    refusal: str = ""
    """Why the node does not have the transaction; empty where it has, or was not asked."""


def standing(replies: list[Reply]) -> ExchangeStatus:
    """Read how things are."""
    *sent, num_sent, code = replies
    refusal = ""
    if sent and isinstance(sent[0], NodeRefusedError) and result(sent[1]) is None:
        refusal = str(sent[0])
    return ExchangeStatus(bool(content(result(code))), number(result(num_sent)), refusal)


def answers(replies: list[Reply]) -> list[tuple[Any, ...]]:
    """Read what the contract says of itself.

    Raises:
        AbiError: it does not, so it is another one.
    """
    for reply in replies:
        if isinstance(reply, NodeRefusedError) and is_failure(reply):
            raise AbiError(str(reply))
    contents = [content(result(reply)) for reply in replies]
    return [function.decode(each) for function, each in zip(_READS, contents, strict=True)]


def domain_text(domain: tuple[str, str, int, str]) -> str:
    """Write a domain as a sentence would."""
    name, version, chain_id, contract = domain
    return f"{name!r} version {version!r}, chain {chain_id}, contract {contract}"
