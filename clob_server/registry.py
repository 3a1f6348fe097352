"""What the server knows beside the engine: keys, delegates, words about markets, budgets, papers.

As pure as the engine. It changes by commands alone, which carry their time, and it reads no clock.
"""

from collections import deque
from typing import Final

import msgspec

from clob.errors import InvalidCommandError
from clob.units import UINT256_MAX
from clob_server.commands import (
    AddKey,
    BeginSettlement,
    BindMarket,
    Budgets,
    Charge,
    Condition,
    DeactivateKey,
    DescribeMarket,
    EndTrades,
    FollowChain,
    GiveBack,
    Grant,
    Key,
    Papers,
    SendTrades,
    ServerCommand,
    SetBudgets,
    SetDelegate,
    SetOutcome,
)
from clob_server.grants import Granted, Grants
from clob_server.refusals import (
    DelegateNonceError,
    KeyExistsError,
    KeyInactiveError,
    MarketBoundError,
    UnknownKeyError,
)
from clob_server.settling import KeptSettling, Settling

MINUTE_MS: Final = 60_000
"""How long a charge counts."""

_UINT256_DIGITS: Final = len(str(UINT256_MAX))


class Words(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is said of a market."""

    question: str = ""
    """What is asked."""
    description: str = ""
    """What else there is to know."""
    outcome: str = ""
    """``yes`` or ``no`` once it is known."""


class Charged(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Orders created at some time."""

    now_ms: int
    """When, Unix milliseconds."""
    payer: bytes
    """Whose budget they count against."""
    count: int
    """How many."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """All of a registry, as a snapshot has it."""

    keys: list[Key]
    delegates: list[tuple[str, str]]
    delegate_nonces: list[tuple[str, str]]
    words: list[tuple[str, Words]]
    budgets: Budgets
    charges: list[Charged]
    papers: list[Papers]
    waiting: list[Papers]
    finished: list[str | None]
    now_ms: int
    # What came later has a default, as a snapshot of before ends here.
    grants: list[Granted] = []
    conditions: list[tuple[str, Condition]] = []
    settling: KeptSettling = KeptSettling()


class Registry:
    """What the server knows beside the engine."""

    def __init__(self) -> None:
        self.keys: dict[str, Key] = {}
        self.delegates: set[tuple[str, str]] = set()
        self.words: dict[str, Words] = {}
        self.conditions: dict[str, Condition] = {}
        """What markets are on the chain, by their ids."""
        self.grants: Grants = Grants()
        """What the faucet has given within a day."""
        self.settling: Settling = Settling()
        """What waits to be settled on a chain, and what the chain has said."""
        self.budgets: Budgets = Budgets()
        self.charges: deque[Charged] = deque()
        self.papers: dict[str | int, Papers] = {}
        """What came with the orders that the engine still knows, resting or finished."""
        self.waiting: dict[str | int, Papers] = {}
        """Papers whose order has yet to come; the next command of the engine ends their wait."""
        self.now_ms: int = 0
        """The latest time of a command here, Unix milliseconds."""
        self._delegate_nonces: dict[str, int] = {}
        self.finished: deque[str | None] = deque()
        """The finished orders that the engine still knows, oldest first; None had no papers."""
        self._doors = {
            Papers: self._keep_papers,
            Charge: self._charge,
            AddKey: self._add_key,
            DeactivateKey: self._deactivate_key,
            SetDelegate: self._set_delegate,
            DescribeMarket: self._describe,
            SetOutcome: self._set_outcome,
            SetBudgets: self._set_budgets,
            Grant: self._grant,
            GiveBack: self._give_back,
            BindMarket: self._bind,
            BeginSettlement: lambda command: self.settling.begin(command),
            SendTrades: lambda command: self.settling.send(command),
            EndTrades: lambda command: self.settling.end(command),
            FollowChain: lambda command: self.settling.follow(command),
        }

    def apply(self, command: ServerCommand) -> None:
        """Execute one command of the server.

        Raises:
            RejectedError: a rule refuses it, and nothing changed.
        """
        self._doors[type(command)](command)  # type: ignore[operator]
        if command.now_ms > self.now_ms:
            self.now_ms = command.now_ms

    def delegate_nonce(self, maker: str) -> int:
        """Give the lowest number the next delegation of a maker may have."""
        return self._delegate_nonces.get(maker, 0)

    # ----- papers ------------------------------------------------------------------------------

    def _keep_papers(self, command: Papers) -> None:
        """Keep what came with an order until the order follows."""
        self.waiting[command.order_id] = command

    def accept(self, order_id: str | int) -> None:
        """Hear that an order was accepted: the papers that wait for it are its own."""
        papers = self.waiting.pop(order_id, None)
        if papers is not None:
            self.papers[order_id] = papers

    def finish(self, order_id: str | int) -> None:
        """Hear that an order is finished, with papers or without."""
        papers = self.papers.get(order_id)
        self.finished.append(None if papers is None else papers.order_id)

    def let_go(self, finished_max: int) -> None:
        """Let go of the papers of those that finished first, until so many are left."""
        while len(self.finished) > finished_max:
            order_id = self.finished.popleft()
            if order_id is not None:
                del self.papers[order_id]

    # ----- keys --------------------------------------------------------------------------------

    def _add_key(self, command: AddKey) -> None:
        """Let a key in."""
        key = command.key
        if key.id in self.keys:
            raise KeyExistsError(f"there is a key {key.id!r:.80} already")
        self.keys[key.id] = key

    def _deactivate_key(self, command: DeactivateKey) -> None:
        """Let a key in no longer."""
        key = self.keys.get(command.key_id)
        if key is None:
            raise UnknownKeyError(f"there is no key {command.key_id!r:.80}")
        if key.deactivated_ms is not None:
            raise KeyInactiveError(f"key {key.id!r} was deactivated at {key.deactivated_ms} ms")
        self.keys[key.id] = msgspec.structs.replace(key, deactivated_ms=command.now_ms)

    # ----- the rest ----------------------------------------------------------------------------

    def _set_delegate(self, command: SetDelegate) -> None:
        """Let somebody sign for a maker, or no longer."""
        least, nonce = self.delegate_nonce(command.maker), uint256(command.nonce)
        if nonce < least:
            raise DelegateNonceError(
                f"nonce must be at least {least} for maker {command.maker}, not {nonce}"
            )
        self._delegate_nonces[command.maker] = nonce + 1
        pair = (command.maker, command.delegate)
        if command.allowed:
            self.delegates.add(pair)
        else:
            self.delegates.discard(pair)

    def _describe(self, command: DescribeMarket) -> None:
        """Say what a market is about."""
        before = self.words.get(command.market, Words())
        self.words[command.market] = Words(command.question, command.description, before.outcome)

    def _set_outcome(self, command: SetOutcome) -> None:
        """State which token of a market won."""
        before = self.words.get(command.market, Words())
        self.words[command.market] = Words(before.question, before.description, command.outcome)

    def _bind(self, command: BindMarket) -> None:
        """State which condition a market trades."""
        if command.market in self.conditions:
            raise MarketBoundError(f"market {command.market!r:.80} has a condition, which stays")
        self.conditions[command.market] = command.condition

    def _grant(self, command: Grant) -> None:
        """Promise units of the faucet."""
        self.grants.give(command.operation, command.user, command.amount, command.now_ms)

    def _give_back(self, command: GiveBack) -> None:
        """Take back what was granted."""
        self.grants.take_back(command.operation)

    def _set_budgets(self, command: SetBudgets) -> None:
        """Change the budgets."""
        self.budgets = command.budgets

    def _charge(self, command: Charge) -> None:
        """Count orders, and forget those of more than a minute ago."""
        self.charges.extend(Charged(command.now_ms, *charge) for charge in command.charges)
        while self.charges and self.charges[0].now_ms <= command.now_ms - MINUTE_MS:
            self.charges.popleft()

    # ----- snapshots ---------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Write all of it; equal registries give equal bytes. O(everything)."""
        nonces = sorted(self._delegate_nonces.items())
        kept = _Kept(
            keys=list(self.keys.values()),
            delegates=sorted(self.delegates),
            delegate_nonces=[(maker, str(nonce)) for maker, nonce in nonces],
            words=sorted(self.words.items(), key=lambda item: item[0]),
            budgets=self.budgets,
            charges=list(self.charges),
            papers=list(self.papers.values()),
            waiting=list(self.waiting.values()),
            finished=list(self.finished),
            now_ms=self.now_ms,
            grants=list(self.grants),
            conditions=sorted(self.conditions.items(), key=lambda item: item[0]),
            settling=self.settling.snapshot(),
        )
        return msgspec.msgpack.encode(kept)

    @classmethod
    def restore(cls, state: bytes) -> "Registry":
        """Make a registry as it was.

        Raises:
            msgspec.MsgspecError: the bytes are none of :meth:`snapshot`.
        """
        kept = msgspec.msgpack.decode(state, type=_Kept)
        made = cls()
        made.keys = {key.id: key for key in kept.keys}
        made.delegates = set(kept.delegates)
        made._delegate_nonces = {maker: int(nonce) for maker, nonce in kept.delegate_nonces}
        made.words = dict(kept.words)
        made.budgets = kept.budgets
        made.charges = deque(kept.charges)
        made.papers = {papers.order_id: papers for papers in kept.papers}
        made.waiting = {papers.order_id: papers for papers in kept.waiting}
        made.now_ms = kept.now_ms
        made.finished = deque(kept.finished)
        made.grants = Grants(kept.grants)
        made.conditions = dict(kept.conditions)
        made.settling = Settling(kept.settling)
        return made


def uint256(digits: str) -> int:
    """Read a number of 256 bits in decimal digits.

    Raises:
        InvalidCommandError: it is none.
    """
    if digits.isascii() and digits.isdigit() and len(digits) <= _UINT256_DIGITS:
        number = int(digits)
        if number <= UINT256_MAX:
            return number
    raise InvalidCommandError(f"nonce must be digits, at most {UINT256_MAX}, not {digits!r:.99}")
