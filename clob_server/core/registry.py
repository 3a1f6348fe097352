"""State of the server besides the engine: keys, delegates, market texts, budgets, faucet grants.

Like the engine it changes by commands only, which carry their time, and reads no clock.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import takewhile
from operator import itemgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from clob.errors import InvalidCommandError
from clob.signing.fields import received
from clob.units import UINT256_MAX
from clob_server.core import commands
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
RESTORE_GAP: Final = 1_000_000_000
"""Numbers of orders, trades and records of the outbox that a restored log skips, since the replaced
log may have used them; trades settle under their number."""
DAY_UNITS: Final = 500
"""Units per wallet in that time, at most (decision 42)."""


class FaucetGrant(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Units granted to a wallet."""

    operation: str
    user: str
    """The wallet."""
    amount: int
    """Whole units."""
    now_ms: int
    """Time, Unix milliseconds."""


class FaucetGrants:
    """Grants of the last day, oldest first."""

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
        """Grant whole units to a wallet; a repeated operation is not a second grant.

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

    def check_total(self, amount: int, limit: int, now_ms: int) -> None:
        """Reject whole units by which all wallets together would exceed a daily limit.

        Raises:
            FaucetLimitError: they would.
        """
        counted = [each for each in self if counts(each, now_ms)]
        total = sum(each.amount for each in counted)
        if total + amount > limit:
            raise FaucetLimitError(
                f"the faucet sends at most {limit:,} units in 24 hours to all wallets; it sent "
                f"{total:,}, and {amount:,} more were requested",
                frees_ms(counted, total + amount - limit, now_ms),
            )

    def take_back(self, operation: str) -> None:
        """Remove the grant of an operation, if any."""
        granted = self._by_operation.pop(operation, None)
        if granted is not None:
            of_user = self._by_user[granted.user]
            of_user.remove(granted)
            if not of_user:
                del self._by_user[granted.user]

    def _keep(self, granted: FaucetGrant) -> None:
        self._by_operation[granted.operation] = granted
        self._by_user[granted.user].append(granted)

    def _forget(self, now_ms: int) -> None:
        """Remove grants that no longer count."""
        for granted in list(takewhile(lambda each: not counts(each, now_ms), self)):
            self.take_back(granted.operation)


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
    description: str = ""
    outcome: str = ""
    """``yes``, ``no`` or ``split`` once resolved."""
    now: bool = False
    """Whether the outcome is reported although trades wait for settlement."""


class OpenedMarket(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A market that an order opened."""

    payer: bytes
    """The client whose order opened it, as named by ``clob_server.auth.rate_limit``."""
    now_ms: int
    """When it opened, Unix milliseconds."""


HEARTBEAT: Final = "heartbeat"
"""The switch that fires when the heartbeats of a maker stop."""
DISCONNECT: Final = "disconnect"
"""The switch that fires when the last WebSocket of a maker closes."""


class Switch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The switches of a maker that cancel its orders."""

    timeout_ms: int = 0
    """Milliseconds without a heartbeat after which the orders are cancelled; 0 for never."""
    on_disconnect: bool = False
    """Whether they are cancelled when the last WebSocket closes that asked for it."""


class Stall(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An escrow market whose matching the server stopped."""

    since_ms: int
    """When it stopped, Unix milliseconds."""
    reason: str
    """The rule that stopped it."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """A registry in a snapshot."""

    keys: list[commands.ApiKey]
    delegates: list[tuple[str, str]]
    delegate_nonces: list[tuple[str, str]]
    words: list[tuple[str, MarketText]]
    budgets: commands.Budgets
    now_ms: int
    grants: list[FaucetGrant]
    conditions: list[tuple[str, commands.Condition]]
    settling: LedgerSnapshot
    exchange: commands.ExchangeSettings | None = None
    epoch: int = 0
    opened: list[tuple[str, OpenedMarket]] = []
    deactivated: list[tuple[str, int]] = []
    switches: list[tuple[str, Switch]] = []
    ahead_ms: int = 0
    stalls: list[tuple[str, Stall]] = []
    owner: commands.Owner | None = None
    outbox_records: int = 0
    outbox_floor: int = 0


class Registry:
    """State of the server besides the engine."""

    def __init__(self) -> None:
        self.keys: dict[str, commands.ApiKey] = {}
        self.delegates: set[tuple[str, str]] = set()
        self.words: dict[str, MarketText] = {}
        self.conditions: dict[str, commands.Condition] = {}
        """Conditions by market id."""
        self.opened: dict[str, OpenedMarket] = {}
        """The markets that orders opened and no operator has taken over, oldest first."""
        self.deactivated: set[tuple[str, int]] = set()
        """The credentials of dialects that were deactivated: wallet and nonce."""
        self.switches: dict[str, Switch] = {}
        """The armed switches by maker."""
        self.stalls: dict[str, Stall] = {}
        """The escrow markets whose matching the server stopped."""
        self.grants: FaucetGrants = FaucetGrants()
        """Faucet grants of the last day."""
        self.settling: SettlementLedger = SettlementLedger()
        self.budgets: commands.Budgets = commands.Budgets()
        self.exchange: commands.ExchangeSettings | None = None
        """The settings that the log depends on; None in a log that no server has started on."""
        self.now_ms: int = 0
        """Time of the latest command, Unix milliseconds."""
        self.epoch: int = 0
        """How often the log was restored from a backup."""
        self.owner: commands.Owner | None = None
        """The node that appends to the log of a cluster; None without one."""
        self.outbox_records: int = 0
        """Number of the last record of the chain worker of a cluster; 0 for none."""
        self.outbox_floor: int = 0
        """The next record must have a higher number."""
        self.ahead_ms: int = 0
        """How far the server's time was moved ahead of the clock, milliseconds."""
        self._delegate_nonces: dict[str, int] = {}
        self._handlers = {
            commands.AddKey: self._add_key,
            commands.DeactivateKey: self._deactivate_key,
            commands.SetDelegate: self._set_delegate,
            commands.DescribeMarket: self._describe,
            commands.SetOutcome: self._set_outcome,
            commands.SetBudgets: self._set_budgets,
            commands.Grant: lambda it: self.grants.give(
                it.operation, it.user, it.amount, it.now_ms
            ),
            commands.GiveBack: lambda command: self.grants.take_back(command.operation),
            commands.BindMarket: self._bind,
            commands.RecordOpener: self._record_opener,
            commands.RecordCustody: lambda _: None,
            commands.StallMarket: self._stall,
            commands.BeginSettlement: lambda command: self.settling.begin(command),
            commands.SendTrades: lambda command: self.settling.send(command),
            commands.EndTrades: lambda command: self.settling.end(command),
            commands.FollowChain: lambda command: self.settling.follow(command),
            commands.DescribeExchange: self._describe_exchange,
            commands.RecordRestore: self._record_restore,
            commands.ReviseTrades: lambda command: self.settling.revise(command),
            commands.DeactivateCredentials: lambda command: self.deactivated.add(
                (command.address, command.nonce)
            ),
            commands.SetHeartbeat: lambda it: self._switch(it.maker, timeout_ms=it.timeout_ms),
            commands.SetCancelOnDisconnect: lambda it: self._switch(
                it.maker, on_disconnect=it.armed
            ),
            commands.FireSwitch: self._fire_switch,
            commands.KeepSwitches: lambda _: None,
            commands.AdvanceClock: self._advance_clock,
            commands.TakeOver: self._take_over,
            commands.RecordOutbox: self._record_outbox,
        }

    def apply(self, command: commands.ServerCommand) -> None:
        """Execute one server command.

        Raises:
            RejectedError: a rule rejects the command; nothing changed.
        """
        self._handlers[type(command)](command)  # type: ignore[operator]
        if command.now_ms > self.now_ms:
            self.now_ms = command.now_ms

    def set_time(self, now_ms: int) -> None:
        """Set the time, which may go back: later grants and stops count from now on."""
        self.now_ms = now_ms
        self.stalls = {
            market: replace(stall, since_ms=min(stall.since_ms, now_ms))
            for market, stall in self.stalls.items()
        }
        self.grants = FaucetGrants(
            replace(each, now_ms=min(each.now_ms, now_ms)) for each in self.grants
        )

    def delegate_nonce(self, maker: str) -> int:
        """Return the lowest valid nonce of a maker's next delegation."""
        return self._delegate_nonces.get(maker, 0)

    # ----- keys --------------------------------------------------------------------------------

    def _add_key(self, command: commands.AddKey) -> None:
        key = command.key
        if key.id in self.keys:
            raise KeyExistsError(f"key {key.id:.80} already exists")
        self.keys[key.id] = key

    def _deactivate_key(self, command: commands.DeactivateKey) -> None:
        key = self.keys.get(command.key_id)
        if key is None:
            raise UnknownKeyError(f"no key {received(command.key_id[:80])}")
        if key.deactivated_ms is not None:
            raise KeyInactiveError(f"key {key.id} was deactivated at {key.deactivated_ms} ms")
        self.keys[key.id] = replace(key, deactivated_ms=command.now_ms)

    # ----- delegates and markets ---------------------------------------------------------------

    def _set_delegate(self, command: commands.SetDelegate) -> None:
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

    def _describe(self, command: commands.DescribeMarket) -> None:
        words = self.words.get(command.market, MarketText())
        self.words[command.market] = replace(
            words, question=command.question, description=command.description
        )

    def _set_outcome(self, command: commands.SetOutcome) -> None:
        words = self.words.get(command.market, MarketText())
        self.words[command.market] = replace(words, outcome=command.outcome, now=command.now)

    def _bind(self, command: commands.BindMarket) -> None:
        if command.market in self.conditions:
            raise MarketBoundError(f"market {command.market:.80} already has a condition")
        self.conditions[command.market] = command.condition

    def _describe_exchange(self, command: commands.DescribeExchange) -> None:
        self.exchange = command.exchange

    def _record_opener(self, command: commands.RecordOpener) -> None:
        self.opened[command.market] = OpenedMarket(command.payer, command.now_ms)

    def _stall(self, command: commands.StallMarket) -> None:
        self.stalls[command.market] = Stall(command.now_ms, command.reason)

    def _set_budgets(self, command: commands.SetBudgets) -> None:
        self.budgets = command.budgets

    def _switch(self, maker: str, **changes: int) -> None:
        """Change the switches of a maker; drop them if none is armed."""
        switch = replace(self.switches.get(maker, Switch()), **changes)
        if switch == Switch():
            self.switches.pop(maker, None)
        else:
            self.switches[maker] = switch

    def _fire_switch(self, command: commands.FireSwitch) -> None:
        if command.cause == HEARTBEAT:
            self._switch(command.maker, timeout_ms=0)
        else:
            self._switch(command.maker, on_disconnect=False)

    def _record_restore(self, _: commands.RecordRestore) -> None:
        self.epoch += 1
        if self.outbox_floor:  # outboxes may have later records of the replaced log
            self.outbox_floor += RESTORE_GAP
        self.outbox_records = 0

    def _advance_clock(self, command: commands.AdvanceClock) -> None:
        self.ahead_ms += command.advance_ms

    def _take_over(self, command: commands.TakeOver) -> None:
        self.owner = command.owner

    def _record_outbox(self, command: commands.RecordOutbox) -> None:
        if command.number <= self.outbox_floor:
            raise InvalidCommandError(
                f"record of the outbox must be above {self.outbox_floor}; got {command.number}"
            )
        self.outbox_records = self.outbox_floor = command.number

    # ----- snapshots ---------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Encode the registry; equal registries have equal bytes. Linear in its size."""
        nonces = sorted(self._delegate_nonces.items())
        kept = _Kept(
            keys=list(self.keys.values()),
            delegates=sorted(self.delegates),
            delegate_nonces=[(maker, str(nonce)) for maker, nonce in nonces],
            words=sorted(self.words.items(), key=itemgetter(0)),
            budgets=self.budgets,
            now_ms=self.now_ms,
            grants=list(self.grants),
            conditions=sorted(self.conditions.items(), key=itemgetter(0)),
            settling=self.settling.snapshot(),
            exchange=self.exchange,
            epoch=self.epoch,
            opened=list(self.opened.items()),
            deactivated=sorted(self.deactivated),
            switches=sorted(self.switches.items(), key=itemgetter(0)),
            ahead_ms=self.ahead_ms,
            stalls=sorted(self.stalls.items(), key=itemgetter(0)),
            owner=self.owner,
            outbox_records=self.outbox_records,
            outbox_floor=self.outbox_floor,
        )
        return msgspec.msgpack.encode(kept)

    @staticmethod
    def is_complete(state: bytes) -> bool:
        """Return whether a snapshot of a registry has all fields of this version.

        Raises:
            msgspec.MsgspecError, TypeError: not bytes of :meth:`snapshot`.
        """
        return len(msgspec.msgpack.decode(state)) >= len(_Kept.__struct_fields__)

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
        made.exchange = kept.exchange
        made.epoch = kept.epoch
        made.opened = dict(kept.opened)
        made.deactivated = set(kept.deactivated)
        made.switches = dict(kept.switches)
        made.ahead_ms = kept.ahead_ms
        made.stalls = dict(kept.stalls)
        made.owner = kept.owner
        made.outbox_records = kept.outbox_records
        made.outbox_floor = kept.outbox_floor
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
        f"nonce must be decimal digits, at most {UINT256_MAX}; got {received(digits[:99])}"
    )
