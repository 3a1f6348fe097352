"""State of the server besides the engine: keys, delegates, market texts, budgets, faucet grants.

Like the engine it changes by commands only, which carry their time, and reads no clock.
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
from clob_server.core.settlement_ledger import LedgerSnapshot, SettlementLedger

DAY_MS: Final = 86_400_000
"""Time for which a grant counts."""
DAY_UNITS: Final = 500
"""Units per wallet in that time, at most (decision 42)."""


class FaucetGrant(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Units granted to a wallet."""

    operation: str
    """The operation."""
    user: str
    """The wallet."""
    amount: int
    """Whole units."""
    now_ms: int
    """Time, Unix milliseconds."""


class FaucetGrants:
    """Grants of the last day, oldest first.

    Args:
        grants: the initial grants.
    """

    def __init__(self, grants: Iterable[FaucetGrant] = ()) -> None:
        self._by_operation: dict[str, FaucetGrant] = {}
        self._by_user: defaultdict[str, list[FaucetGrant]] = defaultdict(list)
        for granted in grants:
            self._keep(granted)

    def __iter__(self) -> Iterator[FaucetGrant]:
        return iter(self._by_operation.values())

    def __contains__(self, operation: object) -> bool:
        return operation in self._by_operation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FaucetGrants) and list(self) == list(other)

    def give(self, operation: str, user: str, amount: int, now_ms: int) -> None:
        """Grant units to a wallet; a repeated operation is not a second grant.

        Args:
            operation: the operation.
            user: the wallet.
            amount: whole units.
            now_ms: the time, Unix milliseconds.

        Raises:
            FaucetLimitError: the wallet would exceed its daily limit.
        """
        before = self._by_operation.get(operation)
        if before is not None and counts(before, now_ms):
            return
        counted = [each for each in self._by_user.get(user, ()) if counts(each, now_ms)]
        total = sum(each.amount for each in counted)
        if total + amount > DAY_UNITS:
            raise FaucetLimitError(
                f"a wallet gets at most {DAY_UNITS} units in 24 hours; {user} got {total} and "
                f"requested {amount} more",
                frees_ms(counted, total + amount - DAY_UNITS, now_ms),
            )
        self._forget(now_ms)
        self._keep(FaucetGrant(operation, user, amount, now_ms))

    def take_back(self, operation: str) -> None:
        """Remove the grant of an operation, if any."""
        granted = self._by_operation.pop(operation, None)
        if granted is not None:
            self._drop(granted)

    def _keep(self, granted: FaucetGrant) -> None:
        """Index a grant by operation and wallet."""
        self._by_operation[granted.operation] = granted
        self._by_user[granted.user].append(granted)

    def _drop(self, granted: FaucetGrant) -> None:
        """Remove a grant from its wallet."""
        of_user = self._by_user[granted.user]
        of_user.remove(granted)
        if not of_user:
            del self._by_user[granted.user]

    def _forget(self, now_ms: int) -> None:
        """Remove grants that no longer count."""
        gone = []
        for granted in self._by_operation.values():
            if counts(granted, now_ms):
                break
            gone.append(granted)
        for granted in gone:
            del self._by_operation[granted.operation]
            self._drop(granted)


def counts(granted: FaucetGrant, now_ms: int) -> bool:
    """Return whether a grant still counts."""
    return granted.now_ms > now_ms - DAY_MS


def frees_ms(counted: Iterable[FaucetGrant], amount: int, now_ms: int) -> int:
    """Return when an amount is available again, Unix milliseconds.

    Args:
        counted: the grants of a wallet that count, oldest first.
        amount: whole units that must become available.
        now_ms: the result if nothing counts.
    """
    last_ms = now_ms
    for granted in counted:
        if amount <= 0:
            break
        amount -= granted.amount
        last_ms = granted.now_ms + DAY_MS
    return last_ms


_UINT256_DIGITS: Final = len(str(UINT256_MAX))


class MarketText(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Texts of a market."""

    question: str = ""
    """The question."""
    description: str = ""
    """Further description."""
    outcome: str = ""
    """``yes`` or ``no`` once resolved."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """A registry in a snapshot."""

    keys: list[ApiKey]
    delegates: list[tuple[str, str]]
    delegate_nonces: list[tuple[str, str]]
    words: list[tuple[str, MarketText]]
    budgets: Budgets
    now_ms: int
    grants: list[FaucetGrant]
    conditions: list[tuple[str, Condition]]
    settling: LedgerSnapshot


class Registry:
    """State of the server besides the engine."""

    def __init__(self) -> None:
        self.keys: dict[str, ApiKey] = {}
        self.delegates: set[tuple[str, str]] = set()
        self.words: dict[str, MarketText] = {}
        self.conditions: dict[str, Condition] = {}
        """Conditions by market id."""
        self.grants: FaucetGrants = FaucetGrants()
        """Faucet grants of the last day."""
        self.settling: SettlementLedger = SettlementLedger()
        """Settlement ledger."""
        self.budgets: Budgets = Budgets()
        self.now_ms: int = 0
        """Time of the latest command, Unix milliseconds."""
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
        """Execute one server command.

        Raises:
            RejectedError: a rule rejects the command; nothing changed.
        """
        self._handlers[type(command)](command)  # type: ignore[operator]
        if command.now_ms > self.now_ms:
            self.now_ms = command.now_ms

    def delegate_nonce(self, maker: str) -> int:
        """Return the lowest valid nonce of a maker's next delegation."""
        return self._delegate_nonces.get(maker, 0)

    # ----- keys --------------------------------------------------------------------------------

    def _add_key(self, command: AddKey) -> None:
        """Add a key."""
        key = command.key
        if key.id in self.keys:
            raise KeyExistsError(f"key {key.id!r:.80} already exists")
        self.keys[key.id] = key

    def _deactivate_key(self, command: DeactivateKey) -> None:
        """Deactivate a key."""
        key = self.keys.get(command.key_id)
        if key is None:
            raise UnknownKeyError(f"no key {command.key_id!r:.80}")
        if key.deactivated_ms is not None:
            raise KeyInactiveError(f"key {key.id!r} was deactivated at {key.deactivated_ms} ms")
        self.keys[key.id] = msgspec.structs.replace(key, deactivated_ms=command.now_ms)

    # ----- the rest ----------------------------------------------------------------------------

    def _set_delegate(self, command: SetDelegate) -> None:
        """Add or remove a delegate."""
        least, nonce = self.delegate_nonce(command.maker), uint256(command.nonce)
        if nonce < least:
            raise DelegateNonceError(
                f"nonce must be at least {least} for maker {command.maker}; got {nonce}"
            )
        self._delegate_nonces[command.maker] = nonce + 1
        pair = (command.maker, command.delegate)
        if command.allowed:
            self.delegates.add(pair)
        else:
            self.delegates.discard(pair)

    def _describe(self, command: DescribeMarket) -> None:
        """Set question and description."""
        before = self.words.get(command.market, MarketText())
        self.words[command.market] = MarketText(
            command.question, command.description, before.outcome
        )

    def _set_outcome(self, command: SetOutcome) -> None:
        """Set the winning token."""
        before = self.words.get(command.market, MarketText())
        self.words[command.market] = MarketText(
            before.question, before.description, command.outcome
        )

    def _bind(self, command: BindMarket) -> None:
        """Bind a market to a condition."""
        if command.market in self.conditions:
            raise MarketBoundError(f"market {command.market!r:.80} already has a condition")
        self.conditions[command.market] = command.condition

    def _grant(self, command: Grant) -> None:
        """Grant faucet units."""
        self.grants.give(command.operation, command.user, command.amount, command.now_ms)

    def _give_back(self, command: GiveBack) -> None:
        """Remove a grant."""
        self.grants.take_back(command.operation)

    def _set_budgets(self, command: SetBudgets) -> None:
        """Set the budgets."""
        self.budgets = command.budgets

    # ----- snapshots ---------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Encode the registry; equal registries have equal bytes. Linear in its size."""
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
        """Decode a registry.

        Raises:
            msgspec.MsgspecError: not bytes of :meth:`snapshot`.
        """
        kept = msgspec.msgpack.decode(state, type=_Kept)
        made = cls()
        made.keys = {key.id: key for key in kept.keys}
        made.delegates = set(kept.delegates)
        made._delegate_nonces = {maker: int(nonce) for maker, nonce in kept.delegate_nonces}
        made.words = dict(kept.words)
        made.budgets = kept.budgets
        made.now_ms = kept.now_ms
        made.grants = FaucetGrants(kept.grants)
        made.conditions = dict(kept.conditions)
        made.settling = SettlementLedger(kept.settling)
        return made


def uint256(digits: str) -> int:
    """Parse a 256-bit number in decimal digits.

    Raises:
        InvalidCommandError: not such a number.
    """
    if digits.isascii() and digits.isdigit() and len(digits) <= _UINT256_DIGITS:
        number = int(digits)
        if number <= UINT256_MAX:
            return number
    raise InvalidCommandError(
        f"nonce must be decimal digits, at most {UINT256_MAX}; got {digits!r:.99}"
    )
