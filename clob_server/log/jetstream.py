"""A stream of frames in NATS JetStream, with synchronous calls.

One message is one frame. A message is appended only if the stream ends with the expected one, so
two writers cannot both append. Messages are numbered from 1: their *place*, which differs from the
numbers of the commands in them.

The calls run on an event loop in their own thread, on one connection that reconnects by itself.
"""

import asyncio
import base64
import gc
import importlib
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from clob.errors import check_installed
from clob.journal import frame_hash
from clob_server.log.base import (
    ClusterUnreachableError,
    ClusterUnsafeError,
    FencedError,
    FrameTooLargeError,
    LogDamagedError,
    LogError,
    LogFailedError,
    Tail,
)
from clob_server.log.cluster_checks import (
    beat_subject_of,
    read_varz,
    server_fault,
    stored_subject_of,
    stream_config,
    stream_fault,
    subject_of,
    unchecked_servers,
)

MONITOR_PORT: Final = 8222
"""Port of the monitoring endpoint of a nats-server, by default."""
REPLICAS: Final = 3
"""Servers that store each frame."""
TIMEOUT_S: Final = 15.0
"""Seconds for opening, and for a read: longer than an election of the servers takes, 4 to 9 s."""
APPEND_TIMEOUT_S: Final = 30.0
"""Seconds after which an append whose result is not known fails."""
TRY_S: Final = 2.0
"""Seconds for one request."""
PAUSE_S: Final = 0.1
"""Seconds between two tries of a request."""
SWITCH_S: Final = 4.0
"""Seconds without a useful answer after which another server is tried: this one may be cut off."""
LOOK_S: Final = 0.25
"""Seconds between two reads of a waiting call; frames usually arrive without a read."""
PAGE_FRAMES: Final = 256
"""Frames of one read."""
PAGE_BYTES: Final = 4 << 20
"""Bytes of one read, in which a larger frame is alone."""
BUFFER_BYTES: Final = 64 << 20
"""Bytes of frames that arrived and were not taken yet; later ones are read again."""
HEADER_BYTES: Final = 1_024
"""Bytes of a message that are reserved for its headers."""

_COMMANDS: Final = "Clob-Commands"
_EXPECTED: Final = "Nats-Expected-Last-Sequence"
_ID: Final = "Nats-Msg-Id"
_NOT_FOUND: Final = 10059
_NO_MESSAGE: Final = 10037
_NO_REPLICAS: Final = 10074

_T = TypeVar("_T")


class StoredFrame(NamedTuple):
    """A frame of a stream; its bytes are not checked."""

    place: int
    """Position in the stream, from 1."""
    first: int
    """Number of its first command."""
    last: int
    """Number of its last command."""
    frame: bytes
    identity: str
    """Writer and chain hash; different writers never have the same one."""

    @property
    def tail(self) -> Tail:
        """End of the log after this frame."""
        return Tail(self.last, frame_hash(self.frame))


class FrameStream:
    """The stream of one partition of a log. Creates it if it does not exist.

    Not thread-safe, except that any thread may call :meth:`close`.

    Args:
        servers: URLs of the NATS servers, such as ``nats://10.0.0.1:4222``. Other servers of the
            cluster are found through them.
        name: name of the stream: letters, digits, ``_`` and ``-``.
        replicas: servers that store each frame.
        monitors: URLs of the monitoring endpoints of all servers; None for ``http://``, the hosts
            of the servers and ``monitor_port``.
        monitor_port: port of the monitoring endpoints.
        credentials: file with the credentials of the user.
        timeout_s: seconds for opening and for a read.
        append_timeout_s: seconds after which an append whose result is not known fails.

    Raises:
        ClusterUnsafeError: the cluster or the stream could lose acknowledged commands.
        ClusterUnreachableError: no server, or no majority of them, answered in time.
        PackageMissingError: nats-py is not installed.
        LogError: the name is invalid.
    """

    def __init__(
        self,
        servers: Sequence[str],
        name: str = "clob",
        *,
        replicas: int = REPLICAS,
        monitors: Sequence[str] | None = None,
        monitor_port: int = MONITOR_PORT,
        credentials: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        append_timeout_s: float = APPEND_TIMEOUT_S,
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise LogError(f"the name of a stream must be letters, digits, _ and -; got {name!r}")
        check_installed(__name__, "cluster", "nats")
        self._nats = importlib.import_module("nats")
        self.name: Final = name
        self.timeout_s: Final = timeout_s
        self._append_timeout_s = append_timeout_s
        self._replicas = replicas
        self._monitors, self._monitor_port = monitors, monitor_port
        self._writer = secrets.token_hex(8)
        self._problem = "no connection"
        self._has_failed = False
        self._requests: set[asyncio.Future[Any]] = set()
        self._subscription: Any = None
        self._arrived: dict[int, StoredFrame] = {}
        self._arrived_bytes = 0
        self._next_look = 0.0
        self._beats: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="nats", daemon=True)
        self._thread.start()
        self._news = asyncio.Event()
        self._client: Any = self._nats.NATS()
        try:
            self._run(self._connect(list(servers), credentials))
            self._open()
        except BaseException:
            self.close()
            raise

    # ----- opening ---------------------------------------------------------------------------

    async def _connect(self, servers: list[str], credentials: Path | None) -> None:
        """Connect to one of the servers; nats-py then reconnects whenever it has to."""
        connecting = self._client.connect(
            servers,
            name=f"clob {self.name}",
            error_cb=self._note,  # without it, nats-py logs a traceback per rejected connection
            disconnected_cb=self._end_requests,
            dont_randomize=True,
            max_reconnect_attempts=-1,
            connect_timeout=2,
            reconnect_time_wait=0.2,
            ping_interval=1,
            max_outstanding_pings=3,
            user_credentials=None if credentials is None else str(credentials),
        )
        try:
            await asyncio.wait_for(connecting, self.timeout_s)
        except (TimeoutError, self._nats.errors.Error, OSError) as error:
            raise ClusterUnreachableError(
                f"no NATS server of {', '.join(map(_without_secret, servers))} can be reached: "
                f"{self._problem if isinstance(error, asyncio.TimeoutError) else error}"
            ) from error

    async def _end_requests(self) -> None:
        """End the requests of a lost connection: their answers will not come."""
        self._has_failed = True
        for request in list(self._requests):
            request.cancel()

    async def _note(self, error: Exception) -> None:
        """Keep the last problem of the connection for messages."""
        self._has_failed = True
        self._problem = str(error) or type(error).__name__

    def _open(self) -> None:
        """Check the servers, find or create the stream, and check that too."""
        end = time.monotonic() + self.timeout_s
        is_new = False
        while True:
            checked, unread = self._check_servers()
            info = self._run(self._info_or_new())
            if isinstance(info, str):
                problem = info
            else:
                if fault := stream_fault(info["config"], self.name, self._replicas):
                    raise ClusterUnsafeError(fault)
                is_new = is_new or info.get("did_create", False)
                names = unchecked_servers(info | {"did_create": is_new}, checked)
                if not names and checked:
                    return
                problem = (
                    f"server {', '.join(sorted(names)) or self.name} was not checked, because its "
                    f"monitoring endpoint was not read ({'; '.join(unread) or 'none was named'})"
                )
            if time.monotonic() > end:
                if not isinstance(info, str):
                    raise ClusterUnsafeError(problem)
                raise ClusterUnreachableError(f"stream {self.name} cannot be opened: {problem}")
            time.sleep(PAUSE_S)

    def _check_servers(self) -> tuple[set[str], list[str]]:
        """Check all servers in reach; return their names, and why others cannot be read."""
        checked: set[str] = set()
        unread: list[str] = []
        for url in self._monitor_urls():
            varz = read_varz(url)
            if isinstance(varz, str):
                unread.append(varz)
            elif fault := server_fault(varz):
                raise ClusterUnsafeError(fault)
            else:
                checked.add(str(varz.get("server_name")))
        return checked, unread

    def _monitor_urls(self) -> list[str]:
        if self._monitors is not None:
            return list(self._monitors)
        hosts = {each.hostname for each in self._client.servers}
        return [
            f"http://{f'[{host}]' if ':' in host else host}:{self._monitor_port}"
            for host in sorted(hosts)
        ]

    async def _info_or_new(self) -> dict[str, Any] | str:
        """Return the description of the stream, created if need be, or why it is missing."""
        info = await self._api(f"STREAM.INFO.{self.name}")
        if isinstance(info, dict) and _code(info) == _NOT_FOUND:
            config = stream_config(self.name, self._replicas)
            info = await self._api(f"STREAM.CREATE.{self.name}", config)
        if isinstance(info, str) or not _code(info):
            return info
        text: str = info["error"].get("description", "unknown error")
        if _code(info) == _NO_REPLICAS:
            raise ClusterUnsafeError(f"stream {self.name} needs {self._replicas} replicas: {text}")
        return text

    # ----- appending -------------------------------------------------------------------------

    def append(self, frame: bytes, first: int, last: int, after: int) -> int:
        """Append a frame and return its place once a majority of the servers has it on disk.

        A request without a clear answer is repeated until the stream shows its result: the frame
        cannot be stored twice, since the stream must end at ``after``.

        Args:
            frame: the frame.
            first: number of its first command.
            last: number of its last command.
            after: place of the last frame of the stream; 0 for an empty stream.

        Raises:
            FrameTooLargeError: a server would not accept it; nothing was sent.
            FencedError: another writer has appended a frame there; this one is not stored.
            LogFailedError: the result is not known in time; the frame may or may not be stored.
        """
        most = self._client.max_payload - HEADER_BYTES
        if len(frame) > most:
            raise FrameTooLargeError(
                f"the frame of commands {first} to {last} has {len(frame)} bytes; the NATS servers "
                f"accept at most {most} (their max_payload without headers)"
            )
        headers = {
            _ID: f"{self._writer}-{frame_hash(frame).hex()}",
            _EXPECTED: str(after),
            _COMMANDS: f"{first}-{last}",
        }
        return self._run(self._append(frame, headers, after))

    async def _append(self, frame: bytes, headers: dict[str, str], after: int) -> int:
        await self._stop_listening()
        end = time.monotonic() + self._append_timeout_s
        switch = time.monotonic() + SWITCH_S
        reason = "no connection"
        while (left := end - time.monotonic()) > 0:
            switch = await self._switch_after(switch)
            answer = await self._request(subject_of(self.name), frame, min(TRY_S, left), headers)
            if isinstance(answer, str):
                reason = answer
            elif answer.get("seq") == after + 1 and not answer.get("duplicate"):
                return after + 1
            else:
                reason = (answer.get("error") or {}).get("description", "it was stored before")
                if await self._is_mine(after + 1, headers[_ID]):
                    return after + 1
            await asyncio.sleep(PAUSE_S)
        raise LogFailedError(
            f"frame {after + 1} of stream {self.name} may or may not be stored, after "
            f"{self._append_timeout_s:g} seconds: {reason}"
        )

    async def _is_mine(self, place: int, identity: str) -> bool:
        """Return whether a place has the own frame; False also if it is not known yet.

        The servers compare the end of the stream with frames that they have not all stored yet and
        may still lose, so a rejected append is decided by the frame that is at last in its place.

        Raises:
            FencedError: it has a frame of another writer.
        """
        found = await self._read(place, 1)
        if not found or found[0].place != place:
            return False
        if found[0].identity == identity:
            return True
        raise FencedError(
            f"another writer has appended commands {found[0].first} to {found[0].last} as frame "
            f"{place} of stream {self.name}"
        )

    # ----- reading ---------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to a server."""
        return bool(self._client.is_connected)

    def extent(self, timeout_s: float | None = None) -> tuple[int, int]:
        """Return the places of the first and the last frame; zeros for an empty stream.

        Args:
            timeout_s: seconds after which it is not tried again; None for those of the stream.

        Raises:
            ClusterUnreachableError: the leader of the stream did not answer in time.
            LogDamagedError: the frames were removed.
        """
        return self._run(self._extent(self.timeout_s if timeout_s is None else timeout_s))

    async def _extent(self, timeout_s: float) -> tuple[int, int]:
        info = await self._patiently(f"STREAM.INFO.{self.name}", timeout_s)
        state = info["state"]
        if state["last_seq"] and not state["messages"]:
            text = f"the last frame of stream {self.name}, {state['last_seq']}, was removed"
            raise LogDamagedError(text)
        return (state["first_seq"], state["last_seq"]) if state["messages"] else (0, 0)

    def get(self, place: int) -> StoredFrame:
        """Return the frame at a place.

        Raises:
            LogDamagedError: the leader of the stream does not have it.
            ClusterUnreachableError: the leader did not answer in time.
        """
        return self._run(self._get(place))

    async def _get(self, place: int) -> StoredFrame:
        """Ask the server in reach, which may not have caught up yet, then the leader."""
        found = await self._read(place, 1)
        if found and found[0].place == place:
            return found[0]
        call, body = f"STREAM.MSG.GET.{self.name}", {"seq": place}
        answer = await self._patiently(call, self.timeout_s, body, allowed=_NO_MESSAGE)
        if _code(answer):
            raise LogDamagedError(f"stream {self.name} has no frame {place}")
        message = answer["message"]
        headers = BytesHeaderParser().parsebytes(
            base64.b64decode(message.get("hdrs", "")).partition(b"\r\n")[2]
        )
        frame = base64.b64decode(message.get("data", ""))
        return _stored_of(self.name, place, dict(headers.items()), frame)

    def read(self, after: int, count: int = PAGE_FRAMES) -> list[StoredFrame]:
        """Return stored frames after a place, in order and without a gap between them.

        The first one follows ``after`` directly, unless the frames between were dropped. Returns
        none at the end of the stream, and while no server can be reached.
        """
        return self._run(self._read(after + 1, count))

    async def _read(self, place: int, count: int) -> list[StoredFrame]:
        if not self.is_connected:
            return []
        frames: list[StoredFrame] = []
        try:
            await self._while_connected(self._read_into(frames, place, count))
        except asyncio.CancelledError:
            await self._note(ConnectionError("the connection was lost"))
        except (TimeoutError, self._nats.errors.Error, OSError) as error:
            await self._note(error)
        return frames

    async def _read_into(self, frames: list[StoredFrame], place: int, count: int) -> None:
        """Append the frames from a place on, until a gap or the end of the answer."""
        inbox = self._client.new_inbox()
        subscription = await self._client.subscribe(inbox, pending_bytes_limit=-1)
        try:
            body = {"seq": place, "batch": count, "max_bytes": PAGE_BYTES}
            subject = f"$JS.API.DIRECT.GET.{self.name}"
            await self._client.publish(subject, json.dumps(body).encode(), reply=inbox)
            while len(frames) < count:
                message = await subscription.next_msg(TRY_S)
                if message.headers is None or "Status" in message.headers:
                    break
                stored = _stored_in(self.name, message)
                if frames and stored.place != frames[-1].place + 1:
                    break
                frames.append(stored)
        finally:
            await subscription.unsubscribe()

    def wait(self, after: int, timeout_s: float) -> list[StoredFrame]:
        """Return the frames after a place, as :meth:`read`, and wait for the first of them.

        Returns:
            At least one frame, or none if none was stored in time.

        Raises:
            ClusterUnreachableError: the connection ended for good, such as without permission.
        """
        if self._client.is_closed:
            raise ClusterUnreachableError(f"the connection to NATS ended: {self._problem}")
        return self._run(self._wait(after, timeout_s))

    async def _wait(self, after: int, timeout_s: float) -> list[StoredFrame]:
        end = time.monotonic() + timeout_s
        await self._listen()
        while True:
            self._news.clear()
            if frames := self._take(after):
                return frames
            now = time.monotonic()
            if self._arrived or now >= self._next_look:  # later frames arrived, or none for a while
                frames = await self._read(after + 1, PAGE_FRAMES)
                self._next_look = time.monotonic() + LOOK_S
                if frames:
                    return frames
            now = time.monotonic()
            if now >= end:
                return []
            with suppress(asyncio.TimeoutError):
                left = max(0.0, min(end, self._next_look) - now)
                await asyncio.wait_for(self._news.wait(), left)

    async def _listen(self) -> None:
        """Subscribe to the frames that the servers have stored, unless this has been done."""
        if self._subscription is None and self.is_connected:
            subject = stored_subject_of(self.name)
            subscription = await self._client.subscribe(subject, cb=self._arrive)
            self._subscription, self._next_look = subscription, 0.0

    async def _stop_listening(self) -> None:
        """End the subscription: a writer does not need its own frames."""
        if self._subscription is not None:
            subscription, self._subscription = self._subscription, None
            self._arrived.clear()
            self._arrived_bytes = 0
            if self.is_connected:
                await subscription.unsubscribe()

    async def _arrive(self, message: Any) -> None:
        """Keep a frame that was stored just now, if there is room; it can be read later, too."""
        stored = _stored_in(self.name, message)
        if self._arrived_bytes + len(stored.frame) <= BUFFER_BYTES:
            if stored.place not in self._arrived:
                self._arrived_bytes += len(stored.frame)
            self._arrived[stored.place] = stored
        self._news.set()

    def _take(self, after: int) -> list[StoredFrame]:
        """Remove the frames up to a place from those that arrived; return those that follow it."""
        for place in [place for place in self._arrived if place <= after]:
            self._arrived_bytes -= len(self._arrived.pop(place).frame)
        frames: list[StoredFrame] = []
        while len(frames) < PAGE_FRAMES and (found := self._arrived.pop(after + 1, None)):
            self._arrived_bytes -= len(found.frame)
            frames.append(found)
            after += 1
        return frames

    # ----- signs of life ---------------------------------------------------------------------

    def send_beat(self, data: bytes) -> None:
        """Send a sign of life to the other users of the stream; returns at once.

        One that cannot be sent now is dropped. May be called from any thread.
        """
        with suppress(RuntimeError):  # the stream was closed
            self._loop.call_soon_threadsafe(self._begin_beat, data)

    def _begin_beat(self, data: bytes) -> None:
        if self.is_connected:
            task = self._loop.create_task(self._client.publish(beat_subject_of(self.name), data))
            self._beats.add(task)
            task.add_done_callback(self._on_beat_sent)

    def _on_beat_sent(self, task: "asyncio.Task[None]") -> None:
        """Forget a sign of life that was sent; one that was not is missed by the others."""
        self._beats.discard(task)
        if not task.cancelled():
            task.exception()

    def follow_beats(self, on_beat: Callable[[bytes], object]) -> None:
        """Call ``on_beat`` with each sign of life, the own ones included, on another thread."""

        async def receive(message: Any) -> None:
            on_beat(message.data)

        self._run(self._client.subscribe(beat_subject_of(self.name), cb=receive))

    # ----- dropping --------------------------------------------------------------------------

    def drop(self, up_to: int) -> None:
        """Remove the frames up to a place, but never the last one: it holds the end of the log.

        Raises:
            ClusterUnreachableError: the leader of the stream did not answer in time.
        """
        first, last = self.extent()
        keep = min(up_to + 1, last)
        if keep > first:
            call, body = f"STREAM.PURGE.{self.name}", {"seq": keep}
            self._run(self._patiently(call, self.timeout_s, body))

    # ----- the connection --------------------------------------------------------------------

    async def _patiently(
        self, call: str, timeout_s: float, body: dict[str, Any] | None = None, allowed: int = 0
    ) -> dict[str, Any]:
        """Return the answer of an idempotent call of the JetStream API, repeated until it succeeds.

        An answer with the ``allowed`` error code is returned as well.

        Raises:
            ClusterUnreachableError: it did not succeed in time.
        """
        end = time.monotonic() + timeout_s
        switch = time.monotonic() + SWITCH_S
        while True:
            switch = await self._switch_after(switch)
            answer = await self._api(call, body)
            if isinstance(answer, dict) and _code(answer) in (0, allowed):
                return answer
            if time.monotonic() > end:
                reason = answer if isinstance(answer, str) else answer["error"]["description"]
                raise ClusterUnreachableError(f"stream {self.name} cannot be read: {reason}")
            await asyncio.sleep(PAUSE_S)

    async def _switch_after(self, due: float) -> float:
        """Connect to another server when it is time; return when the next one is due."""
        if time.monotonic() < due:
            return due
        await self._client.force_reconnect()
        return time.monotonic() + SWITCH_S

    def switch_server(self) -> None:
        """Connect to another server of the cluster, if there is one: this one may be cut off."""
        self._run(self._client.force_reconnect())

    async def _api(self, call: str, body: dict[str, Any] | None = None) -> dict[str, Any] | str:
        """Return the answer of the JetStream API, or why it is missing."""
        payload = b"" if body is None else json.dumps(body).encode()
        return await self._request(f"$JS.API.{call}", payload, TRY_S)

    async def _request(
        self, subject: str, payload: bytes, timeout_s: float, headers: dict[str, str] | None = None
    ) -> dict[str, Any] | str:
        """Return the JSON answer to a request, or why it is missing."""
        if not self.is_connected:  # nats-py would send it later, after its caller gave up
            return f"no connection to a NATS server ({self._problem})"
        try:
            message = await self._while_connected(
                self._client.request(subject, payload, timeout=timeout_s, headers=headers)
            )
            answer = json.loads(message.data)
        except asyncio.CancelledError:
            return "the connection to the NATS server was lost"
        except (TimeoutError, self._nats.errors.Error, OSError, ValueError) as error:
            return str(error) or type(error).__name__
        return answer if isinstance(answer, dict) else f"answer is not an object: {answer}"

    async def _while_connected(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Return the result of a request; it is cancelled when the connection is lost."""
        requesting = asyncio.ensure_future(work)
        self._requests.add(requesting)
        requesting.add_done_callback(self._requests.discard)
        return await requesting

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the thread of the connection and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def close(self) -> None:
        """Close the connection, and end its thread."""
        if not self._thread.is_alive():
            return
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        """Close the connection; end the tasks that nats-py left running."""
        await self._client.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._has_failed:
            # nats-py drops a connection that failed while it was opened, and does not close it.
            del tasks
            gc.collect()
            await asyncio.sleep(0)


def _code(answer: dict[str, Any]) -> int:
    """Return the error code of an answer; 0 if it is not an error."""
    error = answer.get("error")
    return int(error.get("err_code", 1)) if error else 0


def _stored_in(name: str, message: Any) -> StoredFrame:
    """Return the frame of a message of a stream; errors as :func:`_stored_of`."""
    headers = message.headers or {}
    return _stored_of(name, int(headers.get("Nats-Sequence", 0)), headers, message.data)


def _stored_of(name: str, place: int, headers: Mapping[str, str], frame: bytes) -> StoredFrame:
    """Return a frame with the headers of its message.

    Raises:
        LogDamagedError: something else was published to the subject of the stream.
    """
    first, dash, last = headers.get(_COMMANDS, "").partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        raise LogDamagedError(f"message {place} of stream {name} is not a frame")
    return StoredFrame(place, int(first), int(last), frame, headers.get(_ID, ""))


def _without_secret(url: str) -> str:
    """Return a URL without user and password."""
    scheme, slashes, rest = url.rpartition("://")
    return f"{scheme}{slashes}{rest.rpartition('@')[2]}"
