"""The guard of the time of commands, with clocks that the tests set."""

import logging

import pytest

from clob_server.core.clock import CLOCK_FILE, ClockGuard, ClockUnsureError

START_MS = 1_700_000_000_000
HOUR_MS, DAY_MS, YEARS_MS = 3_600_000, 86_400_000, 10 * 365 * 86_400_000


class Clocks:
    """A wall clock and a clock since boot."""

    def __init__(self):
        self.wall, self.boot = START_MS, 5_000

    def guard(self, *, boot_id="", **options):
        return ClockGuard(lambda: self.wall, lambda: self.boot, boot_id=boot_id, **options)

    def pass_ms(self, guard, count, *, step=250):
        """Let time pass, with regular readings."""
        for _ in range(0, count, step):
            self.wall, self.boot = self.wall + step, self.boot + step
            guard.check()


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def guard(clocks):
    made = clocks.guard()
    clocks.pass_ms(made, 5_000)
    return made


def retry_after(guard):
    """Return the Retry-After of a rejection, in seconds."""
    with pytest.raises(ClockUnsureError) as caught:
        guard.commit_ms()
    assert caught.value.code == "CLOCK_UNSURE"
    return int(dict(caught.value.headers)[b"retry-after"])


def levels(caplog):
    """Return the levels of the lines so far, and forget them."""
    found = [record.levelname for record in caplog.records]
    caplog.clear()
    return found


@pytest.fixture(autouse=True)
def all_lines(caplog):
    caplog.set_level(logging.INFO, logger="clob_server.clock")


# ----- differences -----------------------------------------------------------------------------


def test_time_of_steady_clocks_is_the_wall_clock(clocks, guard, caplog):
    assert guard.commit_ms() == guard.sweep_ms() == guard.now_ms() == clocks.wall
    assert (guard.reason, levels(caplog)) == ("", [])


@pytest.mark.parametrize("jump", [2_001, -2_001, HOUR_MS, -DAY_MS, DAY_MS, YEARS_MS])
def test_jump_is_found_by_the_next_commit_and_moves_no_time(clocks, guard, caplog, jump):
    before = guard.now_ms()
    clocks.wall += jump
    assert retry_after(guard) == 10
    assert guard.now_ms() == before
    assert f"{jump / 1000:+.1f} s" in guard.reason
    assert guard.skew_ms == jump
    clocks.pass_ms(guard, 5_000)
    assert levels(caplog) == ["WARNING"]


@pytest.mark.parametrize("jump", [HOUR_MS, -HOUR_MS, YEARS_MS])
def test_reversed_jump_is_over_after_a_second(clocks, guard, caplog, jump):
    clocks.wall += jump
    clocks.pass_ms(guard, 2_000)
    clocks.wall -= jump
    clocks.pass_ms(guard, 750)
    assert retry_after(guard)
    clocks.pass_ms(guard, 750)
    assert guard.commit_ms() == clocks.wall
    assert levels(caplog) == ["WARNING", "INFO"]


@pytest.mark.parametrize("jump", [3_000, 15 * 60_000])
def test_jump_forward_of_up_to_15_minutes_heals_after_10_seconds(clocks, guard, caplog, jump):
    clocks.wall += jump
    clocks.pass_ms(guard, 9_750)
    assert retry_after(guard) == 1
    clocks.pass_ms(guard, 500)
    assert guard.commit_ms() == clocks.wall
    assert not guard.needs_operator
    assert levels(caplog) == ["WARNING", "INFO"]


def test_clock_that_keeps_jumping_does_not_heal(clocks, guard):
    for _ in range(20):
        clocks.wall += 60_000
        clocks.pass_ms(guard, 5_000)
        assert retry_after(guard)
        clocks.wall -= 60_000 - 3_000
        clocks.pass_ms(guard, 500)
        assert retry_after(guard)


@pytest.mark.parametrize("jump", [15 * 60_000 + 1, -DAY_MS, YEARS_MS])
def test_larger_jump_needs_the_operator(clocks, guard, caplog, jump):
    clocks.wall += jump
    clocks.pass_ms(guard, HOUR_MS)
    assert retry_after(guard) == 60
    assert guard.needs_operator
    assert levels(caplog) == ["WARNING", "ERROR"]
    guard.accept("alice")
    clocks.pass_ms(guard, 1_000)
    assert guard.commit_ms() == clocks.wall
    assert caplog.records[0].operator == "alice"
    assert levels(caplog)[0] == "WARNING"
    assert not guard.needs_operator


def test_corrected_clock_needs_no_operator(clocks, guard):
    clocks.wall += DAY_MS
    clocks.pass_ms(guard, HOUR_MS)
    clocks.wall -= DAY_MS
    clocks.pass_ms(guard, 1_250)
    assert guard.commit_ms() == clocks.wall
    assert not guard.needs_operator


def test_pause_between_both_readings_is_no_jump(clocks):
    pauses = [0, HOUR_MS, 0]  # the first reading, and the second one, which is repeated

    def boot_ms():
        pause = pauses.pop(0) if clocks.reads else 0
        clocks.wall, clocks.boot = clocks.wall + pause, clocks.boot + pause
        return clocks.boot

    clocks.reads = False
    guard = ClockGuard(lambda: clocks.wall, boot_ms, boot_id="")
    clocks.reads = True
    assert guard.commit_ms() == START_MS
    assert guard.commit_ms() == START_MS + HOUR_MS
    assert pauses == []


def test_sleep_that_both_clocks_count_is_no_jump(clocks, guard):
    clocks.wall += DAY_MS
    clocks.boot += DAY_MS
    assert guard.commit_ms() == clocks.wall


def test_leap_second_is_followed_slowly_and_never_backwards(clocks, guard):
    clocks.wall -= 1_000
    last, times = guard.commit_ms(), []
    for _ in range(1_200):
        clocks.pass_ms(guard, 100, step=100)
        times.append(guard.commit_ms() - last)
        last = guard.commit_ms()
    assert {*times} <= {99, 100}
    assert 0 <= last - clocks.wall <= 10


# ----- confirmed time --------------------------------------------------------------------------


def test_orders_expire_once_the_clocks_agreed_for_a_second(clocks):
    guard = clocks.guard()
    with pytest.raises(ClockUnsureError, match="two readings"):
        guard.sweep_ms()
    assert guard.commit_ms() == clocks.wall
    clocks.pass_ms(guard, 1_000)
    assert guard.sweep_ms() == clocks.wall
    clocks.wall += 1_500
    with pytest.raises(ClockUnsureError, match="two readings"):
        guard.sweep_ms()
    clocks.pass_ms(guard, 1_000)
    guard.sweep_ms()


# ----- the log ---------------------------------------------------------------------------------


def test_small_lead_of_the_log_is_waited_out(clocks):
    guard = clocks.guard()
    assert guard.follow_log(lambda: START_MS + 1_500) == 1.5
    assert clocks.guard().follow_log(lambda: START_MS - 5) == 0
    assert guard.is_sure


def test_log_ahead_holds_commands_until_the_clock_has_reached_it(clocks, caplog):
    guard = clocks.guard()
    assert guard.follow_log(lambda: START_MS + 60_000) == 0
    assert retry_after(guard) == 60
    clocks.pass_ms(guard, 59_750)
    assert retry_after(guard) == 1
    clocks.pass_ms(guard, 250)
    assert guard.commit_ms() == START_MS + 60_000
    assert levels(caplog) == ["WARNING", "INFO"]


def test_log_far_ahead_needs_the_operator_and_the_repair(clocks, caplog):
    guard = clocks.guard()
    guard.follow_log(lambda: START_MS + YEARS_MS)
    assert levels(caplog) == ["ERROR"]
    guard.accept("alice")
    clocks.pass_ms(guard, HOUR_MS)
    assert "clob-server repair-clock" in guard.reason
    assert retry_after(guard) == 60


def test_healed_step_back_waits_for_the_log(clocks, guard):
    end = guard.commit_ms()
    guard.follow_log(lambda: end)
    clocks.wall -= 60_000
    clocks.pass_ms(guard, 11_000)
    assert "ahead of the clock" in guard.reason
    assert retry_after(guard) == 49
    clocks.pass_ms(guard, 49_250)
    assert end <= guard.commit_ms() == clocks.wall


# ----- tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [DAY_MS, -DAY_MS])
def test_tokens_use_the_earlier_time_while_the_clocks_differ(clocks, guard, jump):
    right = clocks.wall
    clocks.wall += jump
    guard.check()
    assert guard.token_ms() == min(right, right + jump)
    clocks.wall -= jump
    clocks.pass_ms(guard, 2_000)
    assert guard.token_ms() == clocks.wall


# ----- restarts --------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [DAY_MS, -DAY_MS])
def test_restart_without_a_reboot_finds_a_jump(clocks, tmp_path, jump):
    clocks.pass_ms(clocks.guard(folder=tmp_path, boot_id="a"), 1_000)
    clocks.wall += jump
    again = clocks.guard(folder=tmp_path, boot_id="a")
    assert retry_after(again)
    clocks.pass_ms(again, 1_000)
    assert retry_after(clocks.guard(folder=tmp_path, boot_id="a"))
    clocks.guard(folder=tmp_path, boot_id="b").commit_ms()
    again.accept("alice")
    clocks.pass_ms(again, 2_000)
    assert clocks.guard(folder=tmp_path, boot_id="a").commit_ms() == clocks.wall


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"bootId":"a"}',
        b"\xff",
        b"[" * 10_000,
        b'{"bootId":"\xff","offsetMs":1}',
    ],
)
def test_damaged_file_is_ignored(clocks, tmp_path, content):
    (tmp_path / CLOCK_FILE).write_bytes(content)
    guard = clocks.guard(folder=tmp_path, boot_id="a")
    clocks.pass_ms(guard, 1_000)
    assert guard.commit_ms() == clocks.wall
    assert b"offsetMs" in (tmp_path / CLOCK_FILE).read_bytes()


def test_system_clocks_agree(tmp_path):
    guard = ClockGuard(folder=tmp_path)
    guard.check()
    guard.commit_ms()
    assert guard.uptime_s >= 0


def test_time_that_commands_add_changes_no_comparison(clocks, guard):
    moves = [0]
    guard.follow_log(lambda: 0, lambda: moves[0])
    moves[0] = YEARS_MS
    now_ms = START_MS + 5_000 + YEARS_MS
    assert (guard.now_ms(), guard.commit_ms(), guard.wall_ms) == (now_ms, now_ms, now_ms)
    assert (guard.skew_ms, guard.reason, guard.ahead_ms) == (0, "", YEARS_MS)
    assert guard.token_ms() == START_MS + 5_000
    clocks.wall += HOUR_MS
    retry_after(guard)
    clocks.wall -= HOUR_MS
    clocks.pass_ms(guard, 2_000)
    assert guard.commit_ms() == now_ms + 2_000


def test_time_that_commands_add_confirms_no_reading(clocks):
    moves = [0]
    guard = clocks.guard()
    guard.follow_log(lambda: 0, lambda: moves[0])
    moves[0] = DAY_MS
    with pytest.raises(ClockUnsureError):
        guard.sweep_ms()
    clocks.pass_ms(guard, 1_000)
    assert guard.sweep_ms() == START_MS + 1_000 + DAY_MS


def test_log_ahead_of_the_clock_and_of_its_own_moves_is_noticed(clocks):
    guard = clocks.guard()
    guard.follow_log(lambda: START_MS + DAY_MS, lambda: DAY_MS)
    assert guard.commit_ms() == START_MS + DAY_MS
    guard.follow_log(lambda: START_MS + 2 * DAY_MS, lambda: DAY_MS)
    with pytest.raises(ClockUnsureError):
        guard.commit_ms()
