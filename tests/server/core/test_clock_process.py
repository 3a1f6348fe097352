"""A server process whose wall clock is wrong for a while, with restarts meanwhile."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from clob_server.cli import main
from clob_server.core.clock import CLOCK_FILE, wall_clock_ms
from tests.server.api.makers import Maker, MarketIds
from tests.server.live import started

SOURCE = Path(__file__).with_name("shifted_clock.c")
DAY_S, YEARS_S = 86_400, 10 * 365 * 86_400
PATIENCE_S = 60


class Shifted:
    """Starts servers on a folder, with a wall clock that the test shifts."""

    def __init__(self, folder, shift_file):
        self.folder, self._file = folder, shift_file
        self.maker, self.market = Maker(), MarketIds()
        self.live = None

    def shift(self, seconds):
        """Shift the wall clock of all processes of the server."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        os.replace(new, self._file)

    def start(self):
        """Start the server, or restart it."""
        self.stop()
        self.live = started(self.folder, clock_skew_max_s=2)

    def stop(self):
        """Stop the server, if it runs."""
        if self.live is not None:
            self.live.http.close()
            assert self.live.stop() == 0
            self.live.process.stdout.close()
            self.live = None

    def place(self):
        """Send an order that expires in an hour; return the response."""
        order = self.maker.signed(
            self.market, expiration_s=wall_clock_ms() // 1000 + 3_600, also={"timeInForce": "GTD"}
        )
        return self.live.http.post("/api/orders", json=order)

    def status(self, order_id):
        """Return the status of an order."""
        return self.live.http.get(f"/api/orders/{order_id}").json()["status"]

    def wait_ready(self, status):
        """Wait until ``/ready`` answers with a status; return the detail."""
        end = time.monotonic() + PATIENCE_S
        while (answer := self.live.http.get("/ready")).status_code != status:
            assert time.monotonic() < end, answer.text
            time.sleep(0.05)
        return answer.json()["detail"]


@pytest.fixture
def shifted(tmp_path, monkeypatch):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library, shift_file = tmp_path / "shifted_clock.so", tmp_path / "shift"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    made = Shifted(tmp_path / "data", shift_file)
    made.shift(0)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("CLOCK_SHIFT_FILE", str(shift_file))
    yield made
    if made.live is not None:
        made.live.http.close()
        made.live.kill()
        made.live.process.stdout.close()


@pytest.mark.parametrize(
    "shifts", [(YEARS_S, -60), pytest.param((DAY_S, -DAY_S), marks=pytest.mark.long)]
)
def test_wrong_moment_leaves_no_trace(shifted, shifts):
    shifted.start()
    first = shifted.place().json()["orderId"]
    for seconds in shifts:
        shifted.shift(seconds)
        answer = shifted.place()
        assert (answer.status_code, answer.json()["code"]) == (503, "CLOCK_UNSURE"), seconds
        shifted.wait_ready(503)
        shifted.start()
        assert shifted.wait_ready(503)
        assert shifted.place().json()["code"] == "CLOCK_UNSURE"
        assert shifted.status(first) == "open"
        shifted.shift(0)
        shifted.wait_ready(200)
        answer = shifted.place()
        assert answer.status_code == 200, answer.text
        assert shifted.status(first) == "open"
    shifted.start()
    shifted.wait_ready(200)
    assert shifted.status(first) == "open"
    assert shifted.place().status_code == 200
    shifted.stop()
    assert main(["verify", str(shifted.folder)]) == 0


@pytest.mark.long
def test_jump_back_heals_and_waits_for_the_log(shifted):
    shifted.start()
    first = shifted.place().json()["orderId"]
    shifted.shift(-20)
    shifted.wait_ready(503)
    shifted.wait_ready(200)
    assert shifted.status(first) == "open"
    assert shifted.place().status_code == 200
    shifted.start()
    assert shifted.place().status_code == 200


def test_log_of_a_start_with_a_wrong_clock_is_repaired(shifted, capsys):
    shifted.start()
    order_id = shifted.place().json()["orderId"]
    shifted.stop()
    (shifted.folder / CLOCK_FILE).unlink()  # as after a reboot
    shifted.shift(YEARS_S)
    shifted.start()
    end = time.monotonic() + PATIENCE_S
    while shifted.status(order_id) != "cancelled":  # the wrong clock cannot be detected
        assert time.monotonic() < end
        time.sleep(0.05)
    shifted.shift(0)
    shifted.wait_ready(503)
    shifted.stop()

    command = ["repair-clock", "--data-dir", str(shifted.folder)]
    assert main(command) == 0
    listed = capsys.readouterr().out
    assert order_id in listed
    assert f"market {shifted.market.id}" in listed
    assert shifted.maker.address in listed
    assert main([*command, "--yes"]) == 0
    shifted.start()
    shifted.wait_ready(200)
    answer = shifted.place()
    assert answer.status_code == 200, answer.text
    assert shifted.status(answer.json()["orderId"]) == "open"
    shifted.start()
    assert shifted.status(answer.json()["orderId"]) == "open"
    shifted.stop()
    assert main(["verify", str(shifted.folder)]) == 0
