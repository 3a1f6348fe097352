"""Divergences of a replay from history: their kinds and explanations."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from clob.replay.io.chunk import Difference
from clob.replay.io.repair import Filled

EXPLANATIONS = {
    "cancel_gone": "The recorded cancel is for an order that has left the book.",
    "reduce_gone": "The recorded reduction is for an order that has left the book.",
    "replace_gone": "The recorded replacement is for an order that has left the book.",
    "not_reduced": "The recorded reduction is not below the remaining size of the order.",
    "rejected": "The recorded command was rejected for another reason.",
    "own_orders": "Own orders traded in this book before or with this command.",
    "traded": "The order traded here, but rested in history.",
    "ghost": "History rests this order through older ones: the recording has lost their removal. "
    "They were taken out of the book.",
    "not_traded": "The order traded in history, but found no match here.",
    "sequence": "The same fills, in another sequence.",
    "hidden": "History filled more of an order than its displayed size.",
    "self_match": "History skipped an order and cancelled it at the same time, probably to prevent "
    "a self-trade.",
    "sizes": "The same orders were filled with other sizes.",
    "orders": "Other orders were filled.",
}
"""Explanation of each kind of divergence."""

KEPT = 5
"""Divergences kept of each kind."""


class Divergence(NamedTuple):
    """A command with which the replay diverges from history."""

    kind: str
    """The kind, a key of :data:`EXPLANATIONS`."""
    event: int
    """Index of the recorded command in the stream."""
    ts_ns: int
    """Its time."""
    instrument: int
    """Its book."""
    order_id: int
    """Its order."""
    produced: tuple[Filled, ...] = ()
    """The fills here: resting order, size in lots, price in ticks."""
    recorded: tuple[Filled, ...] = ()
    """The fills in history."""
    code: str = ""
    """Code of the rejection, or an empty string."""

    def __str__(self) -> str:
        """Describe it in one line."""
        return self.describe()

    def describe(self, label: Callable[[int], str] = str, source: str = "recorded") -> str:
        """Describe it in one line.

        Args:
            label: formats a price in ticks, for example as odds.
            source: the origin of the fills to compare with, ``"recorded"`` or ``"inferred"``.
        """
        text = f"event {self.event}, order {self.order_id}: {EXPLANATIONS[self.kind]}"
        if self.code:
            text += f" ({self.code})"
        if self.produced or self.recorded:
            here, there = _listed(self.produced, label), _listed(self.recorded, label)
            text += f" Here {here}, {source} {there}."
        return text


def _listed(fills: tuple[Filled, ...], label: Callable[[int], str]) -> str:
    """List fills as order, size and price."""
    return f"[{', '.join(f'({one}, {size}, {label(price)})' for one, size, price in fills)}]"


@dataclasses.dataclass(frozen=True)
class Divergences:
    """All divergences, by kind."""

    counts: dict[str, int]
    """Number of each kind; kinds without any are left out."""
    kept: tuple[Divergence, ...]
    """The first few of each kind, in the order of the stream."""

    @property
    def total(self) -> int:
        """Number of all divergences."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        """List the kinds with their numbers and explanations, one per line."""
        if not self.counts:
            return "no divergence from history"
        by_count = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return "\n".join(f"{count:>9,}  {kind}: {EXPLANATIONS[kind]}" for kind, count in by_count)


def kind_of(difference: Difference) -> str:
    """Return the kind of a difference, as far as the command alone shows it."""
    produced, recorded = difference.produced, difference.recorded
    if difference.status and not produced:
        return "rejected"
    if not recorded:
        return "traded"
    if not produced:
        return "not_traded"
    if sorted(produced) == sorted(recorded):
        return "sequence"
    got, wanted = _by_order(produced), _by_order(recorded)
    if any(got.get(one, size) < size for one, size in wanted.items() if one in difference.filled):
        return "hidden"
    return "sizes" if got.keys() == wanted.keys() else "orders"


def _by_order(fills: list[Filled]) -> dict[int, int]:
    """Return the total size of the fills of each order."""
    sizes: Counter[int] = Counter()
    for order_id, size, _ in fills:
        sizes[order_id] += size
    return dict(sizes)
