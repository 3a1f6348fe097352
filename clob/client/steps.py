"""Methods of a client without input and output, for the blocking and the asynchronous client.

A method is a generator: it yields a step (a request, a pause, a digest to sign), receives the
result, and returns its own. :class:`Blocking` and :class:`Awaiting` execute the steps. A method is
thus written once, and the decorators below type it for both: on an instance of
:class:`Blocking` it returns its result, on one of :class:`Awaiting` a coroutine, and on the class
the generator.
"""

import functools
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
)
from types import MethodType
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
    overload,
)

T = TypeVar("T")
P = ParamSpec("P")
Self_ = TypeVar("Self_")


class HttpRequest(NamedTuple):
    """A request to send."""

    method: str
    target: str
    """Path and query, below the base URL."""
    content: bytes | None
    """JSON; None without a body."""
    headers: Mapping[str, str]
    """Headers of this request only."""
    timeout_s: float


class HttpReply(NamedTuple):
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    """Headers; names in any case."""
    content: bytes


class SendFailedError(Exception):
    """A request has no response; raised by the input and output, at the request."""

    def __init__(self, message: str, *, was_sent: bool, is_temporary: bool = True) -> None:
        super().__init__(message)
        self.was_sent: Final = was_sent
        """Whether the server may have received it."""
        self.is_temporary: Final = is_temporary
        """Whether another attempt may succeed."""


class Pause(NamedTuple):
    """A wait."""

    seconds: float


class DigestToSign(NamedTuple):
    """A digest for a callback that signs, and that may be a coroutine function."""

    sign: Callable[[bytes], Any]
    digest: bytes


class NodeRequest(NamedTuple):
    """A JSON-RPC request to a node; it has no header of the client, which may be secret."""

    url: str
    content: bytes
    timeout_s: float


class Item(NamedTuple, Generic[T]):
    """An element of a list, for the caller of an iterator."""

    value: T


Step: TypeAlias = HttpRequest | NodeRequest | Pause | DigestToSign
Steps: TypeAlias = Generator[Step, Any, T]
"""A method in progress; its result is a ``T``."""
ItemSteps: TypeAlias = Generator[Step | Item[T], Any, None]
"""An iterator in progress."""


class Blocking:
    """A client that executes steps in the calling thread."""

    def execute(self, step: Step) -> Any:
        """Execute a step and return its result.

        Raises:
            SendFailedError: a request has no response.
        """
        raise NotImplementedError


class Awaiting:
    """A client that executes steps in an event loop."""

    async def execute(self, step: Step) -> Any:
        """Execute a step and return its result.

        Raises:
            SendFailedError: a request has no response.
        """
        raise NotImplementedError


class Looping:
    """A feed whose methods are awaited in an event loop."""


class Threaded:
    """A feed whose methods wait in the calling thread."""

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread of the feed, and return its result."""
        raise NotImplementedError


# ----- execution ---------------------------------------------------------------------------------


def run(client: Blocking, steps: Steps[T]) -> T:
    """Execute a method and return its result."""
    execute, send = client.execute, steps.send
    try:
        step = send(None)
        while True:
            try:
                result = execute(step)
            except SendFailedError as error:
                step = steps.throw(error)
            else:
                step = send(result)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        steps.close()


async def run_async(client: Awaiting, steps: Steps[T]) -> T:
    """Execute a method and return its result."""
    execute, send = client.execute, steps.send
    try:
        step = send(None)
        while True:
            try:
                result = await execute(step)
            except SendFailedError as error:
                step = steps.throw(error)
            else:
                step = send(result)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        steps.close()


def iterate(client: Blocking, steps: ItemSteps[T]) -> Iterator[T]:
    """Execute an iterator and yield its items."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, Item):
                yield step.value
                step = next(steps)
                continue
            try:
                result = client.execute(step)
            except SendFailedError as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration:
        return
    finally:
        steps.close()


async def iterate_async(client: Awaiting, steps: ItemSteps[T]) -> AsyncIterator[T]:
    """Execute an iterator and yield its items."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, Item):
                yield step.value
                step = next(steps)
                continue
            try:
                result = await client.execute(step)
            except SendFailedError as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration:
        return
    finally:
        steps.close()


# ----- methods -----------------------------------------------------------------------------------


class Method(Generic[Self_, P, T]):
    """A method of both clients, written as a generator function."""

    def __init__(self, function: Callable[Concatenate[Self_, P], Steps[T]]) -> None:
        self.function: Final = function
        self._blocking: Final = bound_by(run, function)
        self._awaiting: Final = bound_by(run_async, function)

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Self_, P], Steps[T]]: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        """Return the method bound to a client, or the generator function."""
        if client is None:
            return self.function
        return MethodType(
            self._blocking if isinstance(client, Blocking) else self._awaiting, client
        )


class IteratorMethod(Generic[Self_, P, T]):
    """A method of both clients that returns an iterator, written as a generator function."""

    def __init__(self, function: Callable[Concatenate[Self_, P], ItemSteps[T]]) -> None:
        self.function: Final = function
        self._blocking: Final = bound_by(iterate, function)
        self._awaiting: Final = bound_by(iterate_async, function)

    @overload
    def __get__(
        self, client: None, owner: type
    ) -> Callable[Concatenate[Self_, P], ItemSteps[T]]: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        """Return the method bound to a client, or the generator function."""
        if client is None:
            return self.function
        return MethodType(
            self._blocking if isinstance(client, Blocking) else self._awaiting, client
        )


class FeedMethod(Generic[Self_, P, T]):
    """A method of both feeds, written as a coroutine function."""

    def __init__(self, function: Callable[Concatenate[Self_, P], Coroutine[Any, Any, T]]) -> None:
        self.function: Final = function

        @functools.wraps(function)
        def waiting(feed: Any, /, *arguments: Any, **named: Any) -> Any:
            return feed.wait_for(function(feed, *arguments, **named))

        self._waiting: Final = waiting

    @overload
    def __get__(
        self, feed: None, owner: type
    ) -> Callable[Concatenate[Self_, P], Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, feed: Threaded, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, feed: Looping, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, feed: Any, owner: type) -> Any:
        """Return the method bound to a feed, or the coroutine function."""
        if feed is None:
            return self._waiting if issubclass(owner, Threaded) else self.function
        return MethodType(self._waiting if isinstance(feed, Threaded) else self.function, feed)


def bound_by(
    execute: Callable[[Any, Any], Any], function: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function of a client that executes the steps of a generator function."""

    @functools.wraps(function)
    def method(client: Any, /, *arguments: Any, **named: Any) -> Any:
        return execute(client, function(client, *arguments, **named))

    return method


async def awaited(value: Any) -> Any:
    """Return a value, or the result of an awaitable."""
    return await value if isinstance(value, Awaitable) else value
