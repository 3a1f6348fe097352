"""The logs that concern the exchange contract: how they are asked for, and what they say."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from clob.signing.secp import checksummed
from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import Event, from_hex
from clob_server.chain.eth.exchange_abi import FAILED, SETTLED
from clob_server.chain.eth.rpc import Question, number, understood
from clob_server.chain.events import Permission, Permit, Raised
from clob_server.chain.operations.calls import APPROVED, TOKEN_TRANSFERRED, TRANSFERRED

DELEGATE_SET: Final = Event(
    "DelegateSet(address indexed maker,address indexed delegate,bool allowed)"
)
GASLESS_SET: Final = Event("GaslessSet(address indexed maker,bool allowed)")
PAYER_SET: Final = Event("PayerSet(address indexed wallet,address indexed maker,bool allowed)")
PAYEE_SET: Final = Event("PayeeSet(address indexed maker,address indexed wallet,bool allowed)")
RAISED: Final = Event("NonceRaised(address indexed maker,uint256 nonce,uint256 from)")
CANCELLED: Final = Event(
    "OrderCancelled(bytes32 indexed orderHash,address indexed maker,uint256 from)"
)
TOKENS_TRANSFERRED: Final = Event(
    "TransferBatch(address indexed operator,address indexed from,address indexed to,"
    "uint256[] ids,uint256[] values)"
)
APPROVED_ALL: Final = Event(
    "ApprovalForAll(address indexed owner,address indexed operator,bool approved)"
)

WALLETS_MAX: Final = 500
"""How many wallets are named in one question."""
_PERMITS: Final[Mapping[str, Permit]] = {
    DELEGATE_SET.topic: "delegate",
    GASLESS_SET.topic: "gasless",
    PAYER_SET.topic: "payer",
    PAYEE_SET.topic: "payee",
}
_WORD: Final = 64
"""How many hexadecimal digits a word has."""

Log: TypeAlias = Mapping[str, Any]
"""A log as JSON-RPC has it."""


class End(NamedTuple):
    """What came of a fill."""

    trade_id: int
    """Its number on the chain."""
    tx: str
    """The transaction."""
    block: int
    """The number of its block."""
    reason: bytes | None
    """What it reverted with; None where it was settled."""


class Sightings:
    """What was seen in some blocks.

    Args:
        addresses: where the contracts are.
        wallets: those that are known.
    """

    def __init__(self, addresses: Addresses, wallets: Iterable[str]) -> None:
        self.ends: list[End] = []
        """What came of fills."""
        self.permissions: list[tuple[int, Permission]] = []
        """What was allowed, or no longer, with the number of the block."""
        self.raised: list[Raised] = []
        """Nonces."""
        self.cancelled: list[str] = []
        """The hashes of orders."""
        self.wallets: dict[str, None] = {}
        """Who is known from now on, the first first."""
        self.allowing: set[str] = set()
        """Whose allowance was set."""
        self.approving: set[str] = set()
        """Who let the contract move tokens, or no longer."""
        self.paying: set[str] = set()
        """From whom collateral went."""
        self.paid: set[str] = set()
        """To whom it went."""
        self.tokens: set[tuple[str, int]] = set()
        """Whose balance of which token may be another one."""
        self._known = {word_of(wallet): wallet for wallet in wallets}
        places = addresses.exchange, addresses.collateral, addresses.conditional_tokens
        exchange, collateral, tokens = (place.lower() for place in places)
        self._exchange_word = word_of(exchange)
        self._takers: dict[tuple[str, str], Callable[[Log, list[str]], None]] = {
            (exchange, SETTLED.topic): self._end,
            (exchange, FAILED.topic): self._end,
            (exchange, RAISED.topic): self._raise,
            (exchange, CANCELLED.topic): self._cancel,
            (collateral, APPROVED.topic): self._approve,
            (collateral, TRANSFERRED.topic): self._move,
            (tokens, APPROVED_ALL.topic): self._approve_all,
            (tokens, TOKEN_TRANSFERRED.topic): self._move_token,
            (tokens, TOKENS_TRANSFERRED.topic): self._move_tokens,
            **{(exchange, topic): self._permit for topic in _PERMITS},
        }

    def take(self, logs: Iterable[Log]) -> None:
        """See what logs say, in the order of the chain; those heard twice count once.

        Raises:
            NodeNonsenseError: they are no such logs.
        """
        with understood():
            placed = {(number(log["blockNumber"]), number(log["logIndex"])): log for log in logs}
            for _, log in sorted(placed.items(), key=lambda item: item[0]):
                topics: list[str] = log["topics"]
                taker = (
                    self._takers.get((str(log["address"]).lower(), topics[0])) if topics else None
                )
                if taker is not None:
                    taker(log, topics)

    # ----- the exchange contract ---------------------------------------------------------------

    def _end(self, log: Log, topics: list[str]) -> None:
        """A fill was settled, or not."""
        reason: bytes | None = None
        if topics[0] == FAILED.topic:
            _, reason = FAILED.decode(log)
        block = number(log["blockNumber"])
        self.ends.append(End(int(topics[1], 16), str(log["transactionHash"]), block, reason))

    def _permit(self, log: Log, topics: list[str]) -> None:
        """Somebody allowed something, or no longer."""
        owner, other = who(topics[1]), who(topics[-1])
        allowed = int(log["data"], 16) != 0
        made = Permission(kind=_PERMITS[topics[0]], owner=owner, other=other, allowed=allowed)
        self.permissions.append((number(log["blockNumber"]), made))
        self._know(owner)
        if made.kind in ("payer", "payee"):
            self._know(other)

    def _raise(self, log: Log, topics: list[str]) -> None:
        """A maker raised his nonce."""
        nonce = int(log["data"][2 : 2 + _WORD], 16)
        self.raised.append(Raised(maker=who(topics[1]), nonce=str(nonce)))

    def _cancel(self, log: Log, topics: list[str]) -> None:
        """A maker cancelled an order."""
        self.cancelled.append(topics[1].lower())

    # ----- the collateral ----------------------------------------------------------------------

    def _approve(self, log: Log, topics: list[str]) -> None:
        """Somebody said how much collateral may be taken."""
        if len(topics) == 3 and topics[2].lower() == self._exchange_word:
            self.allowing.add(self._know(who(topics[1])))

    def _move(self, log: Log, topics: list[str]) -> None:
        """Collateral went from one to another."""
        source, target = (self._known.get(topic.lower()) for topic in topics[1:3])
        if source is not None:
            self.paying.add(source)
        if target is not None:
            self.paid.add(target)

    # ----- the tokens --------------------------------------------------------------------------

    def _approve_all(self, log: Log, topics: list[str]) -> None:
        """Somebody let his tokens be moved, or no longer."""
        if len(topics) == 3 and topics[2].lower() == self._exchange_word:
            self.approving.add(self._know(who(topics[1])))

    def _move_token(self, log: Log, topics: list[str]) -> None:
        """A token went from one to another."""
        self._went(topics, [int(log["data"][2 : 2 + _WORD], 16)])

    def _move_tokens(self, log: Log, topics: list[str]) -> None:
        """Several did."""
        tokens, _ = TOKENS_TRANSFERRED.decode(log)[3:]
        self._went(topics, tokens)

    def _went(self, topics: list[str], tokens: Iterable[int]) -> None:
        """Note whose tokens are others now."""
        for topic in topics[2:4]:
            wallet = self._known.get(topic.lower())
            if wallet is not None:
                self.tokens.update((wallet, token) for token in tokens)

    # ----- wallets -----------------------------------------------------------------------------

    def _know(self, wallet: str) -> str:
        """Know somebody from now on."""
        word = word_of(wallet)
        if word not in self._known:
            self._known[word] = wallet
            self.wallets[wallet] = None
        return self._known[word]


def questions(
    addresses: Addresses, wallets: Sequence[str], first: int, last: int
) -> list[Question]:
    """Ask for the logs of a range of blocks.

    Args:
        addresses: where the contracts are.
        wallets: those that are known.
        first: the number of the first block.
        last: that of the last.
    """
    collateral, tokens = addresses.collateral, addresses.conditional_tokens
    approvals = [APPROVED.topic, APPROVED_ALL.topic]
    singles, moves = [TOKEN_TRANSFERRED.topic, TOKENS_TRANSFERRED.topic], [TRANSFERRED.topic]
    wanted: list[tuple[Any, list[Any]]] = [
        (addresses.exchange, []),
        ([collateral, tokens], [approvals, None, word_of(addresses.exchange)]),
    ]
    for start in range(0, len(wallets), WALLETS_MAX):
        words = [word_of(wallet) for wallet in wallets[start : start + WALLETS_MAX]]
        wanted += [
            (collateral, [moves, words]),
            # To whom collateral goes and from whom tokens come stands in the same place.
            ([collateral, tokens], [[*moves, *singles], None, words]),
            (tokens, [singles, None, None, words]),
        ]
    blocks = {"fromBlock": hex(first), "toBlock": hex(last)}
    return [
        ("eth_getLogs", ({"address": address, "topics": topics, **blocks},))
        for address, topics in wanted
    ]


def word_of(address: str) -> str:
    """Write an address as a topic has it."""
    return f"0x{address[2:].lower():0>{_WORD}}"


def who(topic: str) -> str:
    """Read the address in a topic."""
    return checksummed(from_hex(topic)[-20:])
