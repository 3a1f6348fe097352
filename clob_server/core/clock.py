"""Guards the time of commands against a wall clock that jumps.

A command keeps its time for ever, and time in the log never goes back: one command with a wrong
time expires orders and blocks new ones. The server's time is therefore the time since boot, which
no change of the wall clock moves, plus an offset that was confirmed. The wall clock has to agree
with it; while it does not, no command is accepted.

In the test environment, commands move the server's time ahead of both clocks. Their sum is added to
both, so that it changes no comparison between them.
"""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from clob_server.api.problems import ApiError
from clob_server.settings import Settings

SKEW_MAX_S: Final = Settings().clock_skew_max_s
"""Default of the largest difference between both clocks, seconds."""
HEAL_MS: Final = 10_000
"""How long the clocks must be steady until a jump is accepted."""
HEAL_MAX_MS: Final = 15 * 60_000
"""Largest jump that is accepted, and longest wait for a log that is ahead; beyond that the
operator decides."""
CONFIRM_MS: Final = 1_000
"""How long the clocks must agree until orders expire, or until a jump that was reversed is over."""
STEADY_MS: Final = 250
"""Largest difference between two readings of a steady clock."""
READS: Final = 3
"""Readings that confirm a jump: a process that is paused between both clocks sees one as well."""
SLEW: Final = 100
"""The offset follows a small difference by at most 1 / 100 of the time that passes."""
NOISE_MS: Final = 10
"""Differences up to this are due to the readings."""
CHECK_S: Final = 0.25
"""Interval of the readings besides those of commands, seconds."""
OPERATOR_RETRY_S: Final = 60
"""``Retry-After`` while the operator has to decide."""
CLOCK_FILE: Final = "clock.json"
"""The file in the data folder that keeps the offset for a restart without a reboot."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_LOG: Final = logging.getLogger("clob_server.clock")


def wall_clock_ms() -> int:
    """Return the time, Unix milliseconds."""
    return time.time_ns() // 1_000_000


def boot_clock_ms() -> int:
    """Return the milliseconds since boot, time asleep included where the system counts it."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


_BOOT_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ClockUnsureError(ApiError):
    """The time is not certain, so no command is accepted."""

    def __init__(self, detail: str, retry_s: int) -> None:
        super().__init__("CLOCK_UNSURE", detail, headers=((b"retry-after", b"%d" % retry_s),))


class KeptOffset(msgspec.Struct, frozen=True, rename="camel"):
    """The content of :data:`CLOCK_FILE`."""

    boot_id: str
    """The boot of the system in which the offset is valid."""
    offset_ms: int
    """Unix time minus time since boot."""


class ClockGuard:
    """Compares the wall clock with the time since boot and with the log.

    Args:
        wall_ms: returns the wall clock, Unix milliseconds.
        boot_ms: returns the milliseconds since boot.
        skew_max_s: largest difference between both, seconds.
        folder: the data folder, which keeps the offset; None keeps none.
        boot_id: the boot of the system; empty if unknown, then a kept offset is not used.
    """

    def __init__(
        self,
        wall_ms: Callable[[], int] = wall_clock_ms,
        boot_ms: Callable[[], int] = boot_clock_ms,
        skew_max_s: float = SKEW_MAX_S,
        *,
        folder: Path | None = None,
        boot_id: str | None = None,
    ) -> None:
        self._wall_ms, self._boot_ms = wall_ms, boot_ms
        self._max_ms = int(skew_max_s * 1000)
        self._path = None if folder is None else folder / CLOCK_FILE
        self._boot_id = read_boot_id() if boot_id is None else boot_id
        self._log_ms: Callable[[], int] = lambda: 0
        self._ahead_ms: Callable[[], int] = lambda: 0
        boot = self._started_ms = self._steady_since_ms = self._slewed_ms = boot_ms()
        self._seen_ms = wall_ms() - boot
        self._kept_ms = read_offset(self._path, self._boot_id)
        self._offset_ms = self._seen_ms if self._kept_ms is None else self._kept_ms
        self.skew_ms: int = self._seen_ms - self._offset_ms
        """How far the wall clock was ahead of the server's time at the last reading."""
        self.reason: str = ""
        """The reason why the time is not certain; empty while it is."""
        self.needs_operator: bool = False
        """Whether the time stays uncertain until the operator decides."""
        self._retry_s = 1

    # ----- the time ------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the server's time, Unix milliseconds; no jump of the wall clock moves it."""
        return self._boot_ms() + self._offset_ms + self._ahead_ms()

    def commit_ms(self) -> int:
        """Return the time for a batch of commands.

        Raises:
            ClockUnsureError: the clocks differ, or the log is ahead of them.
        """
        boot = self.observe()
        if self.reason:
            raise self.error()
        return boot + self._offset_ms + self._ahead_ms()

    def sweep_ms(self) -> int:
        """Return the time by which orders expire, which two readings a second apart confirm.

        Raises:
            ClockUnsureError: the clocks differ, or have not agreed for long enough.
        """
        now_ms = self.commit_ms()
        boot = now_ms - self._offset_ms - self._ahead_ms()
        if boot - self._steady_since_ms < CONFIRM_MS:
            raise ClockUnsureError("the time was not confirmed by two readings yet", 1)
        return now_ms

    def token_ms(self) -> int:
        """Return the time for the expiry of tokens: while the clocks differ, the earlier one.

        Otherwise a server whose time is wrong would reject the token of the operator who mends it.
        Other machines issue tokens, so the time does not include what commands added to it.
        """
        now_ms = self.now_ms() - self._ahead_ms()
        return min(now_ms, self._wall_ms()) if self.reason else now_ms

    @property
    def wall_ms(self) -> int:
        """The wall clock plus :attr:`ahead_ms`, Unix milliseconds."""
        return self._wall_ms() + self._ahead_ms()

    @property
    def ahead_ms(self) -> int:
        """How far commands moved the server's time ahead of the clocks, milliseconds."""
        return self._ahead_ms()

    @property
    def log_ms(self) -> int:
        """The time of the last command in the log, Unix milliseconds."""
        return self._log_ms()

    @property
    def uptime_s(self) -> int:
        """Seconds since the guard was made."""
        return (self._boot_ms() - self._started_ms) // 1000

    @property
    def is_sure(self) -> bool:
        """Whether commands were accepted at the last reading."""
        return not self.reason

    def error(self) -> ClockUnsureError:
        """Return the rejection of a command while the time is not certain."""
        return ClockUnsureError(self.reason, self._retry_s)

    # ----- readings ------------------------------------------------------------------------------

    def follow_log(
        self, log_ms: Callable[[], int], ahead_ms: Callable[[], int] = lambda: 0
    ) -> float:
        """Compare with the time of a log from now on.

        Args:
            log_ms: returns the time of the last command, Unix milliseconds.
            ahead_ms: returns how far its commands moved the time ahead, milliseconds.

        Returns:
            The seconds to wait until the clock has reached the log; 0 if they are too many.
        """
        self._log_ms, self._ahead_ms = log_ms, ahead_ms
        wait_ms = self._log_ahead_ms(self.observe())
        return 0.0 if self.reason else max(0, wait_ms) / 1000

    def observe(self) -> int:
        """Read both clocks and judge them; return the time since boot."""
        seen, boot = self._read()
        tries = 1
        while abs(seen - self._seen_ms) > STEADY_MS and tries < READS:
            seen, boot = self._read()
            tries += 1
        if abs(seen - self._seen_ms) > STEADY_MS:
            self._steady_since_ms = boot
        self._seen_ms = seen
        self.skew_ms = seen - self._offset_ms
        gap_ms = max(abs(self.skew_ms), self._log_ahead_ms(boot))
        if self.reason or gap_ms > self._max_ms:
            self._judge(boot)
        elif boot - self._slewed_ms >= SLEW:
            self._slew(boot)
        return boot

    def check(self) -> None:
        """Read both clocks, and keep the offset once it is certain; for regular calls."""
        self.observe()
        if not self.reason and self._path is not None:
            kept_ms = self._kept_ms
            if kept_ms is None or abs(kept_ms - self._offset_ms) > STEADY_MS:
                self._kept_ms = self._offset_ms
                keep_offset(self._path, KeptOffset(self._boot_id, self._offset_ms))

    def accept(self, operator: str) -> None:
        """Accept the wall clock as right, by the decision of an operator, and log it."""
        self.observe()
        fields = {"operator": operator, "skew_s": self.skew_ms / 1000}
        _LOG.warning("an operator accepted the wall clock", extra=fields)
        self._trust(self._seen_ms)
        self.observe()

    def _read(self) -> tuple[int, int]:
        """Return the difference of both clocks, and the time since boot."""
        wall, boot = self._wall_ms(), self._boot_ms()
        return wall - boot, boot

    def _log_ahead_ms(self, boot: int) -> int:
        """Return how far the log is ahead of the server's time."""
        return self._log_ms() - boot - self._offset_ms - self._ahead_ms()

    def _judge(self, boot: int) -> None:
        """Decide whether a jump is over, was accepted, or needs the operator."""
        steady_ms = boot - self._steady_since_ms
        if abs(self.skew_ms) > self._max_ms:
            is_large = abs(self.skew_ms) > HEAL_MAX_MS
            if steady_ms < HEAL_MS or is_large:
                self._doubt_jump(steady_ms, is_large)
                return
            self._trust(self._seen_ms)
        elif self.reason and steady_ms < CONFIRM_MS:
            return
        ahead_ms = self._log_ahead_ms(boot)
        if ahead_ms > (0 if self.reason else self._max_ms):
            self._doubt_log(ahead_ms)
        elif self.reason:
            self.reason, self.needs_operator = "", False
            _LOG.info("the clocks agree again; commands are accepted")

    def _doubt_jump(self, steady_ms: int, is_large: bool) -> None:
        """Stop accepting commands because the wall clock jumped."""
        text = f"the wall clock differs by {self.skew_ms / 1000:+.1f} s from the time since boot"
        if is_large and steady_ms >= HEAL_MS:
            decide = "correct the clock, or accept it with POST /api/admin/clock"
            self._doubt(f"{text}; the operator has to {decide}", OPERATOR_RETRY_S, operator=True)
        else:
            left_s = max(1, -(-(HEAL_MS - steady_ms) // 1000))
            self._doubt(f"{text}; no command is accepted until the clocks are steady", left_s)

    def _doubt_log(self, ahead_ms: int) -> None:
        """Stop accepting commands because the log is ahead of the clock."""
        text = f"the log is {ahead_ms / 1000:.1f} s ahead of the clock"
        if ahead_ms > HEAL_MAX_MS:
            decide = "correct the clock, or stop the server and run clob-server repair-clock"
            self._doubt(f"{text}; the operator has to {decide}", OPERATOR_RETRY_S, operator=True)
        else:
            wait_s = -(-ahead_ms // 1000)
            self._doubt(f"{text}; no command is accepted until the clock has reached it", wait_s)

    def _doubt(self, reason: str, retry_s: int, *, operator: bool = False) -> None:
        """Stop accepting commands; log the first reason, and the need of an operator."""
        if operator and not self.needs_operator:
            _LOG.error(reason)
        elif not self.reason:
            _LOG.warning(reason)
        self.reason, self.needs_operator, self._retry_s = reason, operator, retry_s

    def _trust(self, offset_ms: int) -> None:
        """Use another offset."""
        self._offset_ms, self.skew_ms = offset_ms, 0

    def _slew(self, boot: int) -> None:
        """Follow a small difference slowly, so that many small jumps do not add up quickly."""
        most = (boot - self._slewed_ms) // SLEW
        self._slewed_ms = boot
        if abs(self.skew_ms) > NOISE_MS:
            self._offset_ms += max(-most, min(most, self.skew_ms))


# ----- an offset for the next start ------------------------------------------------------------


def read_boot_id() -> str:
    """Return the id of this boot of the system; empty where it has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def read_offset(path: Path | None, boot_id: str) -> int | None:
    """Return the offset that was kept in this boot; None without one."""
    if path is None or not boot_id:
        return None
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=KeptOffset)
    except OSError:  # the first start
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _LOG.warning("%s is ignored: %s", path.name, error)
        return None
    return kept.offset_ms if kept.boot_id == boot_id else None


def keep_offset(path: Path, kept: KeptOffset) -> None:
    """Keep an offset for a restart; without it a start trusts the wall clock."""
    new = path.with_suffix(".new")
    try:
        new.write_bytes(msgspec.json.encode(kept))
        os.replace(new, path)
    except OSError as error:
        _LOG.warning("%s could not be written: %s", path.name, error)
