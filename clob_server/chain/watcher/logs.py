"""Logs that concern the exchange contract: requests for them and their interpretation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from clob.signing.secp import checksummed
from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import Event, from_hex
from clob_server.chain.eth.exchange_abi import (
    COLLATERAL_ASSET,
    DEPOSITED,
    FAILED,
    ORDER_FILLED,
    SETTLED,
    WITHDRAWAL_REQUESTED,
    WITHDRAWN,
)
from clob_server.chain.eth.rpc import RpcRequest, integer, parsing
from clob_server.chain.events import NonceRaised, Permission, PermissionKind
from clob_server.chain.operations.calls import (
    APPROVED,
    APPROVED_ALL,
    TOKEN_TRANSFERRED,
    TRANSFERRED,
)
from clob_server.chain.watcher.failure_reasons import BUY

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

WALLETS_MAX: Final = 500
"""Maximum number of wallets in one request."""
_PERMITS: Final[Mapping[str, PermissionKind]] = {
    DELEGATE_SET.topic: "delegate",
    GASLESS_SET.topic: "gasless",
    PAYER_SET.topic: "payer",
    PAYEE_SET.topic: "payee",
}
_WORD: Final = 64
"""Hex digits of a word."""
_IN_ESCROW: Final = 3
"""Word of the data of ``OrderFilled`` with 1 if the order was filled in escrow."""

Log: TypeAlias = Mapping[str, Any]
"""A JSON-RPC log."""


class FillResult(NamedTuple):
    """Result of a fill from a log."""

    trade_id: int
    tx: str
    """Hash of the transaction."""
    block: int
    """Number of its block."""
    reason: bytes | None
    """Revert data; None if the fill was settled."""


class DepositLog(NamedTuple):
    """A deposit into escrow."""

    wallet: str
    asset: int
    block: int
    """Number of its block."""
    amount: int
    """Amount, in wei."""


class RelevantLogs:
    """Collects the events of a range of blocks that concern the exchange or known wallets."""

    def __init__(self, addresses: Addresses, wallets: Iterable[str]) -> None:
        self.results: list[FillResult] = []
        """Results of fills."""
        self.permissions: list[tuple[int, Permission]] = []
        """Permissions set or revoked, with the number of the block."""
        self.raised: list[NonceRaised] = []
        """Raised nonces."""
        self.cancelled: list[str] = []
        """Hashes of cancelled orders."""
        self.cancelled_in: list[int] = []
        """The block of each cancel."""
        self.wallets: dict[str, None] = {}
        """Wallets seen for the first time, in order."""
        self.allowing: set[str] = set()
        """Wallets whose approval of collateral changed."""
        self.approving: set[str] = set()
        """Wallets whose approval of tokens changed."""
        self.paying: set[str] = set()
        """Wallets that sent collateral."""
        self.paid: set[str] = set()
        """Wallets that received collateral."""
        self.tokens: set[tuple[str, int]] = set()
        """Wallet-token pairs whose balance may have changed."""
        self.escrow: set[tuple[str, int]] = set()
        """Wallet-asset pairs whose balance or request in escrow may have changed."""
        self.deposits: list[DepositLog] = []
        """Deposits into escrow."""
        self.fee_assets: set[int] = set()
        """Assets in escrow of which the fee wallet received a part."""
        self._known = {topic_of(wallet): wallet for wallet in wallets}
        contracts = addresses.exchange, addresses.collateral, addresses.conditional_tokens
        exchange, collateral, tokens = (address.lower() for address in contracts)
        self._exchange_word = topic_of(exchange)
        self._handlers: dict[tuple[str, str], Callable[[Log, list[str]], None]] = {
            (exchange, SETTLED.topic): self._fill_result,
            (exchange, FAILED.topic): self._fill_result,
            (exchange, RAISED.topic): self._raise,
            (exchange, CANCELLED.topic): self._cancel,
            (exchange, DEPOSITED.topic): self._deposit,
            (exchange, WITHDRAWAL_REQUESTED.topic): self._change_escrow,
            (exchange, WITHDRAWN.topic): self._change_escrow,
            (exchange, ORDER_FILLED.topic): self._fill,
            (collateral, APPROVED.topic): self._approve,
            (collateral, TRANSFERRED.topic): self._move,
            (tokens, APPROVED_ALL.topic): self._approve,
            (tokens, TOKEN_TRANSFERRED.topic): self._move_token,
            (tokens, TOKENS_TRANSFERRED.topic): self._move_tokens,
            **{(exchange, topic): self._permit for topic in _PERMITS},
        }

    def process(self, logs: Iterable[Log]) -> None:
        """Process logs in chain order; duplicates count once.

        Raises:
            NodeInvalidResponseError: a log is malformed.
        """
        with parsing():
            by_position = {
                (integer(log["blockNumber"]), integer(log["logIndex"])): log for log in logs
            }
            for _, log in sorted(by_position.items(), key=lambda item: item[0]):
                topics: list[str] = log["topics"]
                event = (str(log["address"]).lower(), topics[0]) if topics else ("", "")
                handler = self._handlers.get(event)
                if handler is not None:
                    handler(log, topics)

    # ----- the exchange contract ---------------------------------------------------------------

    def _fill_result(self, log: Log, topics: list[str]) -> None:
        """A fill was settled or failed."""
        reason = FAILED.decode(log)[1] if topics[0] == FAILED.topic else None
        tx, block = str(log["transactionHash"]), integer(log["blockNumber"])
        self.results.append(FillResult(int(topics[1], 16), tx, block, reason))

    def _permit(self, log: Log, topics: list[str]) -> None:
        """A permission was set or revoked."""
        owner, other = topic_address(topics[1]), topic_address(topics[-1])
        allowed = int(log["data"], 16) != 0
        permission = Permission(kind=_PERMITS[topics[0]], owner=owner, other=other, allowed=allowed)
        self.permissions.append((integer(log["blockNumber"]), permission))
        self._add_wallet(owner)
        if permission.kind in ("payer", "payee"):
            self._add_wallet(other)

    def _raise(self, log: Log, topics: list[str]) -> None:
        """A maker raised its minimum nonce."""
        nonce = int(log["data"][2 : 2 + _WORD], 16)
        maker, block = topic_address(topics[1]), integer(log["blockNumber"])
        self.raised.append(NonceRaised(maker=maker, nonce=str(nonce), block=block))

    def _cancel(self, log: Log, topics: list[str]) -> None:
        """A maker cancelled an order."""
        self.cancelled.append(topics[1].lower())
        self.cancelled_in.append(integer(log["blockNumber"]))

    # ----- escrow ------------------------------------------------------------------------------

    def _change_escrow(self, log: Log, topics: list[str]) -> None:
        """A withdrawal was requested or paid."""
        self._touch(topic_address(topics[1]), int(topics[2], 16))

    def _deposit(self, log: Log, topics: list[str]) -> None:
        """An asset was deposited."""
        wallet, asset, amount, _ = DEPOSITED.decode(log)
        self._touch(wallet, asset)
        self.deposits.append(DepositLog(wallet, asset, integer(log["blockNumber"]), amount))

    def _fill(self, log: Log, topics: list[str]) -> None:
        """An order was filled; only those in escrow change it."""
        if not int(log["data"][2 + _IN_ESCROW * _WORD : 2 + (_IN_ESCROW + 1) * _WORD], 16):
            return
        _, maker, wallet, token, side, _, _, _, fee = ORDER_FILLED.decode(log)
        self._touch(maker, token)
        self._touch(wallet, COLLATERAL_ASSET)
        if fee:
            self.fee_assets.add(token if side == BUY else COLLATERAL_ASSET)

    def _touch(self, wallet: str, asset: int) -> None:
        """Record a wallet whose escrow may have changed."""
        self.escrow.add((self._add_wallet(wallet), asset))

    # ----- collateral and tokens ---------------------------------------------------------------

    def _approve(self, log: Log, topics: list[str]) -> None:
        """A wallet changed its approval of collateral or tokens."""
        if len(topics) == 3 and topics[2].lower() == self._exchange_word:
            changed = self.allowing if topics[0] == APPROVED.topic else self.approving
            changed.add(self._add_wallet(topic_address(topics[1])))

    def _move(self, log: Log, topics: list[str]) -> None:
        """Collateral was transferred."""
        source, target = (self._known.get(topic.lower()) for topic in topics[1:3])
        if source is not None:
            self.paying.add(source)
        if target is not None:
            self.paid.add(target)

    def _move_token(self, log: Log, topics: list[str]) -> None:
        """A token was transferred."""
        self._record_transfer(topics, [int(log["data"][2 : 2 + _WORD], 16)])

    def _move_tokens(self, log: Log, topics: list[str]) -> None:
        """Several tokens were transferred."""
        tokens, _ = TOKENS_TRANSFERRED.decode(log)[3:]
        self._record_transfer(topics, tokens)

    def _record_transfer(self, topics: list[str], tokens: Iterable[int]) -> None:
        """Record wallets whose token balances changed."""
        for topic in topics[2:4]:
            wallet = self._known.get(topic.lower())
            if wallet is not None:
                self.tokens.update((wallet, token) for token in tokens)

    # ----- wallets -----------------------------------------------------------------------------

    def _add_wallet(self, wallet: str) -> str:
        """Add a wallet to the known ones."""
        word = topic_of(wallet)
        if word not in self._known:
            self._known[word] = wallet
            self.wallets[wallet] = None
        return self._known[word]


def log_requests(
    addresses: Addresses, wallets: Sequence[str], first: int, last: int
) -> list[RpcRequest]:
    """Return the requests for the logs of a range of blocks that concern known wallets."""
    collateral, tokens = addresses.collateral, addresses.conditional_tokens
    approvals = [APPROVED.topic, APPROVED_ALL.topic]
    singles, moves = [TOKEN_TRANSFERRED.topic, TOKENS_TRANSFERRED.topic], [TRANSFERRED.topic]
    filters: list[tuple[Any, list[Any]]] = [
        (addresses.exchange, []),
        ([collateral, tokens], [approvals, None, topic_of(addresses.exchange)]),
    ]
    for start in range(0, len(wallets), WALLETS_MAX):
        words = [topic_of(wallet) for wallet in wallets[start : start + WALLETS_MAX]]
        filters += [
            (collateral, [moves, words]),
            # The receiver of collateral and the sender of tokens are the same topic.
            ([collateral, tokens], [[*moves, *singles], None, words]),
            (tokens, [singles, None, None, words]),
        ]
    blocks = {"fromBlock": hex(first), "toBlock": hex(last)}
    return [
        ("eth_getLogs", ({"address": address, "topics": topics, **blocks},))
        for address, topics in filters
    ]


def topic_of(address: str) -> str:
    """Return an address as a topic."""
    return f"0x{address[2:].lower():0>{_WORD}}"


def topic_address(topic: str) -> str:
    """Return the address in a topic."""
    return checksummed(from_hex(topic)[-20:])
