"""What can go wrong with a log."""

from clob import ClobError


class LogError(ClobError):
    """What every error of a log derives from."""

    code = "LOG_ERROR"


class LogLockedError(LogError):
    """Another process has the log open; one at a time."""

    code = "LOG_LOCKED"


class LogNewerError(LogError):
    """A newer version of this package wrote the log."""

    code = "LOG_NEWER"


class LogDamagedError(LogError):
    """What is stored is not what was written; it says where."""

    code = "LOG_DAMAGED"


class LogFailedError(LogError):
    """A commit failed, so that nobody knows what of it is durable: the process has to end.

    A new one reads what is there. To try again in the same process is wrong: after a failed sync
    the system may have thrown away what it could not write.
    """

    code = "LOG_FAILED"


class FencedError(LogError):
    """Somebody else has appended since; whoever appends here now is not the owner any more."""

    code = "LOG_FENCED"
