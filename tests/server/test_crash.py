"""A server killed under load keeps every acknowledged command and publishes only logged events.

The processes are real, the orders are signed, and ``kill -9`` hits the server under load, during
its start, during snapshots, and its follower. All servers use the same folder in turn.
"""

import os
import random  # noqa: TID251 - seeded, and outside the engine
import signal
import subprocess
import sys
import time
from itertools import islice

import pytest

from tests.server.crash import (
    MARKETS,
    Load,
    Witness,
    environment,
    follower_of,
    killing,
    prepare_folder,
    rejected_with,
    rows_of,
    start_process,
)
from tests.server.live import started

CYCLES = int(os.environ.get("CLOB_CRASHES", "40"))
SETTINGS = {"rate_limits": True, "snapshot_commands": 150, "log_level": "error"}
ENDINGS = ("kill", "kill", "follower first", "kill", "while it starts", "term")


def check_served(live, witness, load):
    """Assert that a restarted server serves everything acknowledged before the crash."""
    client = live.client(respects_limits=False)
    for market in witness.trades:
        served = [(each.id, each.seq) for each in islice(client.trades(market, limit=100), 100)]
        assert served == [(name, event.seq) for name, event in witness.trades[market][:-101:-1]]
        for token in MARKETS[market]:
            check_book(client, witness, market, str(token))
    for body, first in list(load.acked.values())[-20:]:
        order = client.order(first.order_id)
        assert (order.salt, order.signature) == (str(body["salt"]), body["signature"])
        with rejected_with("NONCE_TOO_LOW"):
            again = client.create_order(body)
            assert again.duplicate, again
            assert (again.order_id, again.trades) == (first.order_id, first.trades)
    for order_id in load.cancelled[-10:]:
        assert client.order(order_id).status == "cancelled"


def check_book(client, witness, market, token):
    """Assert that the served book equals the book replayed from the log."""
    depth = witness.exchange.matcher.depth(market, token)
    with rejected_with("TOKEN_NOT_IN_MARKET"):  # no order has used the second token yet
        book = client.orderbook(market, token_id=token)
        for levels, shown in ((depth.bids, book.bids), (depth.asks, book.asks)):
            served = [(each.price, each.size) for each in shown]
            assert served == [(level.price, str(level.size)) for level in levels]


def cycle(folder, witness, load, number):
    """Run a server under load and end it; then compare it with its log."""
    rng = random.Random(f"crash {number}")
    ending = ENDINGS[number % len(ENDINGS)]
    if ending == "while it starts":
        process = start_process(folder)
        time.sleep(rng.uniform(0.05, 0.8))  # any point of the start; no assertion depends on it
        process.kill()
        process.wait()
        witness.update()
        return load
    live = started(folder, **SETTINGS)
    with killing(live):
        if load is not None:
            check_served(live, witness, load)
        load = Load(live, witness, number)
        load.wait(rng.randrange(10, 100))
        if ending == "follower first":
            follower = follower_of(live)
            if follower is not None:
                os.kill(follower, signal.SIGKILL)
            load.wait(len(load.acked) + rng.randrange(20))
        if ending == "term":
            assert live.stop() == 0
        else:
            live.kill()
        load.end()
    witness.update()
    witness.check(load)
    witness.check_history(whole=ending == "term")
    return load


def crashes(tmp_path, cycles):
    """Run and crash servers on one folder, then check everything."""
    folder = tmp_path / "data"
    prepare_folder(folder)
    witness = Witness(folder, tmp_path / "aside")
    load = None
    for number in range(cycles):
        load = cycle(folder, witness, load, number)
    live = started(folder, **SETTINGS)
    with killing(live):
        check_served(live, witness, load)
        assert live.stop() == 0
    witness.update()
    witness.check_history(whole=True)
    audited = subprocess.run(
        [sys.executable, "-m", "clob_server", "verify", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert audited.returncode == 0, audited.stderr
    assert witness.exchange.matcher.state_hash().hex() in audited.stdout
    witness.close()
    return witness


def test_acknowledged_commands_survive_a_few_crashes(tmp_path):
    witness = crashes(tmp_path, 4)
    assert len(witness.placed) >= 30
    assert witness.trades


@pytest.mark.long
def test_acknowledged_commands_survive_many_crashes(tmp_path):
    witness = crashes(tmp_path, CYCLES)
    orders, trades = rows_of(tmp_path / "data")
    assert len(witness.placed) > 8 * CYCLES
    assert len(orders) > CYCLES
    assert len(trades) > CYCLES


def test_second_server_on_a_folder_is_rejected(tmp_path):
    live = started(tmp_path, log_level="error")
    with killing(live):
        second = subprocess.run(
            [sys.executable, "-m", "clob_server", "--port", "0", "--data-dir", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        assert second.returncode == 2
        assert "LOG_LOCKED" in second.stderr
        assert "Traceback" not in second.stderr
        assert live.http.get("/health").status_code == 200
        assert live.stop() == 0
