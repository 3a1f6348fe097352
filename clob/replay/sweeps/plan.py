"""A strategy with its settings: checked before the first run, and described for resuming."""

import dataclasses
import functools
import hashlib
import inspect
import json
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import clob
from clob.replay.backtest import backtest, wakes
from clob.replay.errors import SweepError
from clob.replay.io.streams import Stream
from clob.replay.results import Backtest
from clob.replay.sim.latency import Latency
from clob.replay.sim.strategy import Strategy
from clob.replay.sweeps.grid import RunPoint
from clob.replay.sweeps.mapped import MappedStream

OWN_ARGUMENTS = frozenset({"stream", "strategy", "on_progress", "sample"})
"""Arguments of a backtest that a sweep sets itself."""

TEXT_MAX = 2_000
"""Characters of the description of a setting; a longer one is replaced by its hash."""

WITHOUT_EFFECT = frozenset({"chunk"})
"""Settings that do not change a result."""


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """How each run of a sweep is made."""

    strategy: Callable[..., Strategy]
    """The class, a function that returns a strategy, or a ``functools.partial`` of one; called
    with the parameters."""
    settings: Mapping[str, Any]
    """Keyword arguments of the backtests."""

    @property
    def name(self) -> str:
        """The module and the name of the strategy."""
        return _place(base_of(self.strategy))

    def run(self, stream: Stream, point: RunPoint, **more: Any) -> Backtest:
        """Run one backtest.

        Args:
            stream: the stream.
            point: parameters and seed. The seed replaces that of a drawn latency, and is passed to
                the strategy if it takes an argument ``seed``.
            more: settings that replace those of the plan.
        """
        settings: dict[str, Any] = {"check": (), "keep": (), **self.settings, **more}
        latency = settings.get("latency")
        if latency is not None and is_drawn(latency):
            settings["latency"] = dataclasses.replace(latency, seed=point.seed)
        parameters: dict[str, Any] = dict(point.parameters)
        if takes_seed(self.strategy):
            parameters["seed"] = point.seed
        return backtest(stream, strategy=self.strategy(**parameters), **settings)


def base_of(strategy: Any) -> Any:
    """Return the class or function below any ``functools.partial``."""
    while isinstance(strategy, functools.partial):
        strategy = strategy.func
    return strategy


# ----- checks --------------------------------------------------------------------------------


def check_plan(plan: SweepPlan, points: Sequence[RunPoint]) -> None:
    """Raise ``ValueError`` for arguments that no run could use."""
    base = base_of(plan.strategy)
    if not callable(base) or not hasattr(base, "__qualname__"):
        raise ValueError(f"strategy must be a class or a function; got {plan.strategy!r}")
    known = inspect.signature(backtest).parameters.keys() - OWN_ARGUMENTS
    for name in plan.settings:
        if name not in known:
            raise ValueError(f"a setting must be one of {', '.join(sorted(known))}; got {name!r}")
    names = points[0].parameters
    if "seed" in names:
        raise ValueError("seed cannot be in the grid; pass seeds to the sweep")
    wanted = {**names, **({"seed": 0} if takes_seed(plan.strategy) else {})}
    try:
        inspect.signature(plan.strategy).bind(**wanted)
    except TypeError as error:
        takes = ", ".join(inspect.signature(plan.strategy).parameters) or "no arguments"
        text = f"{_name(plan.strategy)} takes {takes}; the grid has {', '.join(names) or 'none'}"
        raise ValueError(f"{text}: {error}") from error
    is_class = isinstance(base, type) and issubclass(base, Strategy)
    if is_class and plan.settings.get("every_ns") is None and wakes(base):
        text = "overrides on_wake, which needs every_ns; got None"
        raise ValueError(f"{_name(plan.strategy)} {text}")


def check_seeds_matter(plan: SweepPlan) -> None:
    """Raise ``ValueError`` if a seed would change nothing."""
    latency = plan.settings.get("latency")
    if not (takes_seed(plan.strategy) or is_drawn(latency)):
        raise ValueError(
            f"seeds have no effect: {_name(plan.strategy)} takes no argument seed, and the latency "
            "is constant"
        )


def is_drawn(latency: Latency | None) -> bool:
    """Return whether a latency depends on its seed."""
    if latency is None:
        return False
    return any(callable(getattr(latency, one.name)) for one in dataclasses.fields(latency))


def takes_seed(strategy: Callable[..., Strategy]) -> bool:
    """Return whether a strategy has an argument ``seed``."""
    return "seed" in inspect.signature(strategy).parameters


def check_sendable(plan: SweepPlan) -> None:
    """Raise ``SweepError`` if a new process could not import the strategy or a setting.

    The message names it and the alternatives.
    """
    if base_of(plan.strategy).__module__ == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None or not Path(file).is_file():
            raise SweepError(_unsendable(f"strategy {_name(plan.strategy)}", "__main__"))
    for title, value in {
        f"strategy {_name(plan.strategy)}": plan.strategy,
        **plan.settings,
    }.items():
        try:
            pickle.dumps(value)
        except Exception as error:
            raise SweepError(_unsendable(title, str(error))) from error


def _unsendable(title: str, reason: str) -> str:
    where = "this program or notebook" if reason == "__main__" else reason
    return (
        f"{title} cannot be sent to a worker process, because workers import it by name and it is "
        f"not importable: {where}. Define it at the top of a module, or use start='fork' on "
        "Linux, or jobs=1, which runs in this process"
    )


def _name(made: Any) -> str:
    name: str = base_of(made).__qualname__
    return name


# ----- identity ------------------------------------------------------------------------------


def identity_of(plan: SweepPlan, mapped: MappedStream) -> dict[str, Any]:
    """Describe all that changes the result of a run, except its parameters and seed.

    The source of a strategy is that of the modules that define its class and base classes. Other
    modules that it imports are not part of it.

    Raises:
        SweepError: the source of the strategy cannot be read.
    """
    settings = dict(plan.settings)
    if settings.get("latency") is not None:
        # Its seed is that of each run.
        settings["latency"] = dataclasses.replace(settings["latency"], seed=0)
    return {
        "clob": clob.__version__,
        "stream": mapped.digest,
        "strategy": plan.name,
        "arguments": describe(plan.strategy) if base_of(plan.strategy) is not plan.strategy else {},
        "source": source_digest(base_of(plan.strategy)),
        "settings": {
            name: _shortened(describe(value))
            for name, value in sorted(settings.items())
            if name not in WITHOUT_EFFECT
        },
    }


def source_digest(strategy: Callable[..., Strategy]) -> str:
    """Return the hash of the source of a strategy; see :func:`identity_of`."""
    classes = inspect.getmro(strategy) if isinstance(strategy, type) else (strategy,)
    content = hashlib.blake2b(digest_size=32)
    for one in classes:
        if one not in (Strategy, object):
            content.update(_source(one))
    return content.hexdigest()


def _source(made: Any) -> bytes:
    """Return the module that defines a class or a function, or its own text in a notebook."""
    module = sys.modules.get(made.__module__)
    file = getattr(module, "__file__", None)
    try:
        if file is not None and Path(file).is_file():
            return Path(inspect.getsourcefile(module) or file).read_bytes()  # type: ignore[arg-type]
        return inspect.getsource(made).encode()
    except (OSError, TypeError) as error:
        raise SweepError(
            f"the source of {_name(made)} cannot be read, so a sweep that writes to a folder could "
            "not notice that it changed; define it in a module"
        ) from error


def describe(value: Any) -> Any:
    """Return a setting as text for JSON, equal for settings that act alike.

    Raises:
        SweepError: an object has no value that could be compared.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: describe(getattr(value, one.name)) for one in dataclasses.fields(value)}
        return {"type": _place(type(value)), **fields}
    if isinstance(value, Mapping):
        return {json.dumps(describe(key)): describe(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        texts = [describe(each) for each in value]
        return sorted(texts, key=json.dumps) if isinstance(value, set | frozenset) else texts
    if isinstance(value, functools.partial):
        return {"of": describe(value.func), "args": describe([value.args, value.keywords])}
    if isinstance(value, type):
        return {"type": _place(value), "source": source_digest(value)}
    if callable(value) and hasattr(value, "__qualname__"):
        cells = [describe(cell.cell_contents) for cell in getattr(value, "__closure__", None) or ()]
        return {"type": _place(value), "source": _digest(_source(value)), "closure": cells}
    if isinstance(value, np.ndarray):
        return {"type": str(value.dtype), "digest": _digest(value.tobytes())}
    text = repr(value)
    if " at 0x" in text:
        raise SweepError(
            f"a {type(value).__qualname__} has no value that a folder of results could compare; "
            "use a function or a dataclass"
        )
    return text


def _shortened(description: Any) -> Any:
    """Replace a long description, such as that of measured delays, by its hash."""
    text = json.dumps(description)
    return description if len(text) <= TEXT_MAX else {"digest": _digest(text.encode())}


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _place(made: Any) -> str:
    return f"{made.__module__}:{made.__qualname__}"
