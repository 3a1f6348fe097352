"""The runs of a sweep: every combination of parameters, each with every seed."""

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = bool | int | float | str | None
"""The value of a parameter. Values are written to JSON, and compare by their JSON text."""

Seed: TypeAlias = int | str
"""An integer of 0 or more, or a name."""

Grid: TypeAlias = Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]]
"""Values by parameter, for all combinations, or a list of combinations."""


class RunPoint(NamedTuple):
    """One run of a sweep."""

    number: int
    """Place in the sweep, from 0."""
    parameters: dict[str, Value]
    """Arguments of the strategy, by name."""
    seed: Seed
    """Seed of the run."""

    @property
    def key(self) -> str:
        """The parameters and the seed as JSON, equal for equal runs of a sweep."""
        return run_key(self.parameters, self.seed)


def run_key(parameters: Mapping[str, Value], seed: Seed) -> str:
    """Return parameters and seed as JSON.

    >>> run_key({"size": 1, "edge": 0.5}, 7)
    '{"edge": 0.5, "size": 1} 7'
    """
    return f"{json.dumps(dict(parameters), sort_keys=True)} {json.dumps(seed)}"


def expand(grid: Grid, seeds: Sequence[Seed]) -> list[RunPoint]:
    """List the runs of a grid; the last parameter and then the seed change fastest.

    Args:
        grid: values by parameter; numbers of NumPy become those of Python. A list of mappings has
            the parameters of each combination instead.
        seeds: one or more, each an integer of 0 or more, or a name.

    Raises:
        ValueError: the grid or the seeds are empty, a value occurs twice, combinations have
            different parameters, or a value is not None, a boolean, a finite number or a text.

    >>> [point.parameters for point in expand({"a": [1, 2], "b": "xy"}, [0])][:3]
    [{'a': 1, 'b': 'x'}, {'a': 1, 'b': 'y'}, {'a': 2, 'b': 'x'}]
    """
    rows = _combinations(grid)
    if not rows:
        raise ValueError("a grid must have one combination or more; got none")
    names = rows[0].keys()
    for row in rows:
        if row.keys() != names:
            text = f"expected {sorted(names)}, got {sorted(row)}"
            raise ValueError(f"combinations must have the same parameters: {text}")
    check_seeds(seeds)
    pairs = itertools.product(rows, seeds)
    points = [RunPoint(place, row, seed) for place, (row, seed) in enumerate(pairs)]
    known: set[str] = set()
    for point in points:
        if point.key in known:
            raise ValueError(f"a run must occur once; got {point.parameters} twice")
        known.add(point.key)
    return points


def _combinations(grid: Grid) -> list[dict[str, Value]]:
    if not isinstance(grid, Mapping):
        return [{name: plain(name, value) for name, value in row.items()} for row in grid]
    columns = []
    for name, values in grid.items():
        if isinstance(values, bytes) or not isinstance(values, Iterable):
            raise ValueError(f"{name} must have a list of values; got {values!r}")
        columns.append([plain(name, value) for value in values])
        texts = [json.dumps(value) for value in columns[-1]]
        if len(set(texts)) < len(texts):
            raise ValueError(f"{name} must have different values; got {', '.join(texts)}")
    return [dict(zip(grid, row, strict=True)) for row in itertools.product(*columns)]


def plain(name: str, value: Any) -> Value:
    """Return the value of a parameter as one that JSON can hold.

    Raises:
        ValueError: it is not None, a boolean, a finite number or a text.
    """
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if value is None or type(value) in (bool, int, str):
        return value  # type: ignore[no-any-return]
    if type(value) is float and math.isfinite(value):
        return value
    raise ValueError(
        f"{name} must be None, a boolean, a finite number or a text; got {value!r}. "
        "Pass the name of anything else, and let the strategy look it up"
    )


def text_of(value: Value) -> str:
    """Return the text of a value: a text itself, anything else as JSON.

    >>> text_of("buy"), text_of(True), text_of(0.5)
    ('buy', 'true', '0.5')
    """
    return value if isinstance(value, str) else json.dumps(value)


def check_seeds(seeds: Sequence[Seed]) -> None:
    """Raise ``ValueError`` unless there are seeds, all of them different and valid."""
    if not seeds:
        raise ValueError("seeds must have one seed or more; got none")
    for seed in seeds:
        is_name = type(seed) is str and seed
        if not is_name and not (type(seed) is int and seed >= 0):
            raise ValueError(f"a seed must be an integer of 0 or more, or a name; got {seed!r}")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must be different; got {list(seeds)}")
