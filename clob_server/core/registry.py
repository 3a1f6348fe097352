"""What the server knows beside the engine: keys, delegates, words about markets, budgets, papers.

As pure as the engine. It changes by commands alone, which carry their time, and it reads no clock.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from clob.errors import InvalidCommandError
from clob.units import UINT256_MAX
from clob_server.core.commands import (
    AddKey,
    ApiKey,
    BeginSettlement,
    BindMarket,
    Budgets,
    Condition,
    DeactivateKey,
    DescribeMarket,
    EndTrades,
    FollowChain,
    GiveBack,
    Grant,
    SendTrades,
    ServerCommand,
    SetBudgets,
    SetDelegate,
    SetOutcome,
)
from clob_server.core.rejections import (
    DelegateNonceError,
    FaucetLimitError,
    KeyExistsError,
    KeyInactiveError,
    MarketBoundError,
    UnknownKeyError,
)
from clob_server.core.settlement_ledger import KeptSettling, Settling

DAY_MS: Final = 86_400_000
"""How long a grant counts."""
DAY_UNITS: Final = 500
"""How many units a wallet is granted within that time, at most (decision 42)."""


class Granted(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Units promised to a wallet."""

    operation: str
    """The operation that brings them."""
    user: str
    """Whose wallet."""
    amount: int
    """How many, in whole units."""
    now_ms: int
    """When, Unix milliseconds."""


class Grants:
    """The grants of the last day, in the sequence in which they were made.

    Args:
        grants: what it begins with.
    """

    def __init__(self, grants: Iterable[Granted] = ()) -> None:
        self._by_operation: dict[str, Granted] = {}
        self._by_user: defaultdict[str, list[Granted]] = defaultdict(list)
        for granted in grants:
            self._keep(granted)

    def __iter__(self) -> Iterator[Granted]:
        return iter(self._by_operation.values())

    def __contains__(self, operation: object) -> bool:
        return operation in self._by_operation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grants) and list(self) == list(other)

    def give(self, operation: str, user: str, amount: int, now_ms: int) -> None:
        """Promise units to a wallet; the same operation again is no second grant.

        Args:
            operation: the operation that brings them.
            user: whose wallet.
            amount: how many, in whole units.
            now_ms: the time, Unix milliseconds.

        Raises:
            FaucetLimitError: it would be more than a wallet is granted within a day.
        """
        before = self._by_operation.get(operation)
        if before is not None and counts(before, now_ms):
            return
        counted = [each for each in self._by_user.get(user, ()) if counts(each, now_ms)]
        total = sum(each.amount for each in counted)
        if total + amount > DAY_UNITS:
            raise FaucetLimitError(
                f"a wallet is given {DAY_UNITS} units in 24 hours, and {user} has been given "
                f"{total}; {amount} more are too many",
                frees_ms(counted, total + amount - DAY_UNITS, now_ms),
            )
        self._forget(now_ms)
        self._keep(Granted(operation, user, amount, now_ms))

    def take_back(self, operation: str) -> None:
        """Take back what was promised for an operation, if anything was."""
        granted = self._by_operation.pop(operation, None)
        if granted is not None:
            self._drop(granted)

    def _keep(self, granted: Granted) -> None:
        """Note a grant under both of its names."""
        self._by_operation[granted.operation] = granted
        self._by_user[granted.user].append(granted)

    def _drop(self, granted: Granted) -> None:
        """Strike a grant from those of its wallet."""
        of_user = self._by_user[granted.user]
        of_user.remove(granted)
        if not of_user:
            del self._by_user[granted.user]

    def _forget(self, now_ms: int) -> None:
        """Let go of what does not count any more."""
        gone = []
        for granted in self._by_operation.values():
            if counts(granted, now_ms):
                break
            gone.append(granted)
        for granted in gone:
            del self._by_operation[granted.operation]
            self._drop(granted)


def counts(granted: Granted, now_ms: int) -> bool:
    """Say whether a grant still counts."""
    return granted.now_ms > now_ms - DAY_MS


def frees_ms(counted: Iterable[Granted], amount: int, now_ms: int) -> int:
    """Say when an amount is free again, Unix milliseconds.

    Args:
        counted: the grants of a wallet that count, oldest first.
        amount: how much has to become free, in whole units.
        now_ms: the time, where nothing counts.
    """
    last_ms = now_ms
    for granted in counted:
        if amount <= 0:
            break
        amount -= granted.amount
        last_ms = granted.now_ms + DAY_MS
    return last_ms


_UINT256_DIGITS: Final = len(str(UINT256_MAX))


class Words(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is said of a market."""

    question: str = ""
    """What is asked."""
    description: str = ""
    """What else there is to know."""
    outcome: str = ""
    """``yes`` or ``no`` once it is known."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """All of a registry, as a snapshot has it."""

    keys: list[ApiKey]
    delegates: list[tuple[str, str]]
    delegate_nonces: list[tuple[str, str]]
    words: list[tuple[str, Words]]
    budgets: Budgets
    now_ms: int
    grants: list[Granted]
    conditions: list[tuple[str, Condition]]
    settling: KeptSettling


class Registry:
    """What the server knows beside the engine."""

    def __init__(self) -> None:
        self.keys: dict[str, ApiKey] = {}
        self.delegates: set[tuple[str, str]] = set()
        self.words: dict[str, Words] = {}
        self.conditions: dict[str, Condition] = {}
        """What markets are on the chain, by their ids."""
        self.grants: Grants = Grants()
        """What the faucet has given within a day."""
        self.settling: Settling = Settling()
        """What waits to be settled on a chain, and what the chain has said."""
        self.budgets: Budgets = Budgets()
        self.now_ms: int = 0
        """The latest time of a command here, Unix milliseconds."""
        self._delegate_nonces: dict[str, int] = {}
        self._handlers = {
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
        self._handlers[type(command)](command)  # type: ignore[operator]
        if command.now_ms > self.now_ms:
            self.now_ms = command.now_ms

    def delegate_nonce(self, maker: str) -> int:
        """Give the lowest number the next delegation of a maker may have."""
        return self._delegate_nonces.get(maker, 0)

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
        made.now_ms = kept.now_ms
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


# MERGED clob_server.core.registry: What the faucet has given to whom within a day. As pure as the registry, whose part it is.
