"""The durable log of commands.

:class:`SqliteLog` stores the log in a folder, :class:`MemoryLog` in memory, and
:class:`ReplicatedLog` in a folder and in a cluster of NATS servers.
"""

from clob_server.log.base import (
    ClusterLostError,
    ClusterUnreachableError,
    ClusterUnsafeError,
    FencedError,
    FrameTooLargeError,
    Log,
    LogBehindError,
    LogDamagedError,
    LogDivergedError,
    LogError,
    LogFailedError,
    LogLockedError,
    LogNewerError,
    LogOlderError,
    MemoryLog,
    Snapshot,
    Tail,
)
from clob_server.log.files import Folder
from clob_server.log.jetstream import FrameStream
from clob_server.log.replicated import ReplicatedLog, put_back
from clob_server.log.sqlite import SqliteLog

__all__ = [
    "ClusterLostError",
    "ClusterUnreachableError",
    "ClusterUnsafeError",
    "FencedError",
    "Folder",
    "FrameStream",
    "FrameTooLargeError",
    "Log",
    "LogBehindError",
    "LogDamagedError",
    "LogDivergedError",
    "LogError",
    "LogFailedError",
    "LogLockedError",
    "LogNewerError",
    "LogOlderError",
    "MemoryLog",
    "ReplicatedLog",
    "Snapshot",
    "SqliteLog",
    "Tail",
    "put_back",
]
