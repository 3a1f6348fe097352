"""Where a replay is not what history says: the kinds of it, what they mean, and the first few."""

import dataclasses
from collections import Counter
from typing import NamedTuple

from clob.replay.io.chunk import Difference
from clob.replay.io.repair import Filled

EXPLANATIONS = {
    "cancel_gone": "The recorded cancel is of an order that has left the book.",
    "reduce_gone": "The recorded reduction is of an order that has left the book.",
    "replace_gone": "The recorded replacement is of an order that has left the book.",
    "not_reduced": "The recorded reduction leaves no less than what rests of the order.",
    "refused": "The recorded command was refused for another reason.",
    "own_orders": "Own orders took part, or had traded before: the queue is not history's.",
    "traded": "The order traded here, and history let it rest.",
    "not_traded": "History traded, and the order found nothing to trade with here.",
    "sequence": "The same fills, in another order.",
    "hidden": "History filled more of an order than it showed.",
    "self_match": "An order was passed over in history and cancelled at the same time: the venue "
    "kept an owner from trading with himself.",
    "sizes": "The same orders were filled, by other sizes.",
    "orders": "Other orders were filled.",
}
"""What each kind of divergence means."""

KEPT = 5
"""How many divergences of each kind are kept."""


class Divergence(NamedTuple):
    """A place where the replay is not what history says."""

    kind: str
    """Which, a key of :data:`EXPLANATIONS`."""
    event: int
    """Index of the recorded command in the stream."""
    ts_ns: int
    """Its time."""
    instrument: int
    """Its book."""
    order_id: int
    """Its order."""
    produced: tuple[Filled, ...] = ()
    """What was filled here: resting order, size in lots, price in ticks."""
    recorded: tuple[Filled, ...] = ()
    """What was filled in history."""
    code: str = ""
    """The code of the refusal, if it was refused."""

    def __str__(self) -> str:
        """Say it in a line."""
        told = f"event {self.event}, order {self.order_id}: {EXPLANATIONS[self.kind]}"
        if self.code:
            told += f" ({self.code})"
        if self.produced or self.recorded:
            told += f" Here {list(self.produced)}, recorded {list(self.recorded)}."
        return told


@dataclasses.dataclass(frozen=True)
class Divergences:
    """All divergences, by kind."""

    counts: dict[str, int]
    """How many of each kind there were; kinds without any are left out."""
    kept: tuple[Divergence, ...]
    """The first few of each kind, in the order of the stream."""

    @property
    def total(self) -> int:
        """How many there were in all."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        """Say it in lines: each kind with its number and what it means."""
        if not self.counts:
            return "no divergence from history"
        lines = [f"{count:>9,}  {kind}: {EXPLANATIONS[kind]}" for kind, count in self._sorted()]
        return "\n".join(lines)

    def _sorted(self) -> list[tuple[str, int]]:
        """Order the kinds, the most frequent first."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))


def kind_of(difference: Difference) -> str:
    """Say in which way fills differ, as far as the command alone shows it."""
    produced, recorded = difference.produced, difference.recorded
    if difference.status and not produced:
        return "refused"
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
    """Add up the sizes of the fills of each order."""
    sizes: Counter[int] = Counter()
    for order_id, size, _ in fills:
        sizes[order_id] += size
    return dict(sizes)
