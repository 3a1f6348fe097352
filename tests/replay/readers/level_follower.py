"""Tracks derived orders in a simple way, to compare their sums with stated levels."""

from collections import defaultdict

from clob.records import Kind

FIELDS = ["seq", "kind", "order_id", "instrument", "side", "price", "size"]


def follow_levels(lines, events):
    """Apply events and yield after each line the sizes that rest at each level.

    Sums are by instrument, side and price, in the same dict each time. A fill must be of the first
    order of its level.
    """
    levels, sums = defaultdict(dict), {}
    where = {}
    rows = iter(events[FIELDS].tolist())
    row = next(rows, None)
    for line in lines:
        while row is not None and row[0] <= line:
            _follow(row, levels, sums, where)
            row = next(rows, None)
        yield sums


def _follow(row, levels, sums, where):
    """Apply one event."""
    _, kind, order_id, instrument, side, price, size = row
    key = (instrument, side, price)
    if kind in (Kind.LIMIT, Kind.SEED):
        assert order_id not in where
        where[order_id] = key
        levels[key][order_id] = size
        sums[key] = sums.get(key, 0) + size
    elif kind in (Kind.REDUCE, Kind.CANCEL, Kind.FILL):
        assert where[order_id] == key
        queue = levels[key]
        if kind == Kind.FILL:
            assert next(iter(queue)) == order_id
            size = queue[order_id] - size
        assert 0 <= size < queue[order_id]
        sums[key] -= queue[order_id] - size
        queue[order_id] = size
        if not size:
            del queue[order_id], where[order_id]
        if not queue:
            del sums[key]
    elif kind == Kind.CLEAR:
        for each in [each for each in levels if each[0] == instrument]:
            for gone in levels.pop(each):
                del where[gone]
            sums.pop(each, None)
