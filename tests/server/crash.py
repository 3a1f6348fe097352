"""Load on a server that is killed repeatedly, and the checks after each crash.

:class:`Load` sends signed orders, cancels and nonces and reads the stream until the server is gone.
:class:`Witness` replays the log and compares it with the responses and messages.
"""

import asyncio
import contextlib
import json
import random  # noqa: TID251 - seeded, and outside the engine
import subprocess
import sys
import threading
import time
from contextlib import closing

import coincurve
import msgspec
import websockets
from websockets.sync.client import connect

from clob import Limits, OrderAdded, OrderReduced, OrderRemoved, SetLimits, Side, Submit, Trade
from clob.client import Client, ConnectionFailedError, ResponseError
from clob.signing import SignedOrder, SignedSetNonce, order_hash, sign
from clob_server.auth.api_keys import IDS, secret
from clob_server.core.commands import Budgets, SetBudgets, SignatureRecord
from clob_server.core.ids import Ids
from clob_server.core.recovery import commands_of, recover
from clob_server.core.sequencer import Sequencer
from clob_server.core.serialize import summaries
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.follower import Replica
from clob_server.history.store import HistoryStore
from clob_server.log import SqliteLog, Tail
from clob_server.settings import Settings
from tests.server.live import environment
from tests.signings import KEYS, address_of

MARKETS = {"rain": (101, 102), "snow": (201, 202)}
TOKEN = 10**18
PATIENCE_S = 60
DISCONNECTED = (ConnectionFailedError, websockets.WebSocketException, OSError, EOFError)
FINISHED_MAX = 50
BUDGETS = Budgets(
    anonymous_per_minute=100_000, orders_per_minute=100_000, cancels_per_minute=100_000
)
DOMAIN = Settings().domain
MAKERS = [(key, address_of(key)) for key in KEYS]


def prepare_folder(folder):
    """Create a folder whose server prunes finished orders early and has large budgets."""

    async def write_settings():
        with closing(SqliteLog(folder)) as log:
            engine = Sequencer(log, ServerState(), lambda: 1)
            task = asyncio.create_task(engine.run())
            limits = Limits(finished_max=FINISHED_MAX)
            await engine.submit(lambda now_ms: SetLimits(limits=limits, now_ms=now_ms))
            await engine.submit(lambda now_ms: SetBudgets(budgets=BUDGETS, now_ms=now_ms))
            engine.stop()
            await task

    asyncio.run(write_settings())


def signed_order(rng, nonces):
    """Sign a random order, with the compiled library for speed."""
    key, maker = rng.choice(MAKERS)
    market = rng.choice(list(MARKETS))
    order = SignedOrder.from_price_size(
        side=Side(rng.randrange(2)),
        price=rng.randint(45, 55),
        size=rng.randint(1, 20) * TOKEN,
        maker=maker,
        token_id=MARKETS[market][rng.random() < 0.3],
        salt=rng.getrandbits(128),
        nonce=nonces.get(maker, 0),
    )
    signed = coincurve.PrivateKey(bytes.fromhex(key[2:])).sign_recoverable(
        order_hash(order, DOMAIN), hasher=None
    )
    signature = f"0x{signed[:64].hex()}{27 + signed[64]:02x}"
    order = msgspec.structs.replace(order, signature=signature)
    return order, {**order.to_json(), "marketId": market}


@contextlib.contextmanager
def rejected_with(*codes):
    """Ignore the rejection of a request with one of these codes."""
    try:
        yield
    except ResponseError as error:
        if error.code not in codes:
            raise


class Load:
    """Clients of a server, each in a thread, until the server is gone.

    ``acked`` holds the bodies and responses of accepted orders by order hash.
    """

    def __init__(self, live, witness, seed, clients=3):
        self._live, self._witness, self._seed = live, witness, seed
        self._stop = threading.Event()
        self.cancelled, self.messages, self.errors = [], [], []
        self.acked = {}
        work = [lambda n=n: self._trade(n) for n in range(clients)]
        work += [lambda market=market: self._read_stream(market) for market in MARKETS]
        self._threads = [threading.Thread(target=self._run_client, args=(each,)) for each in work]
        for thread in self._threads:
            thread.start()

    def wait(self, count):
        """Wait until this many orders were acknowledged."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.acked) < count:
            assert time.monotonic() < deadline
            assert not self.errors, self.errors[0]
            time.sleep(0.001)

    def end(self):
        """Wait until all clients have seen that the server is gone."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        assert not self.errors, self.errors[0]

    def _run_client(self, work):
        try:
            work()
        except DISCONNECTED:
            pass
        except BaseException as error:
            if not isinstance(error.__cause__, DISCONNECTED):
                self.errors.append(error)

    def _trade(self, number):
        rng = random.Random(f"{self._seed} {number}")
        # Each request is sent once: a deadline of 0 leaves no time for a repetition.
        with Client(self._live.url, deadline_s=0, respects_limits=False) as client:
            placed = []
            while not self._stop.is_set():
                draw = rng.random()
                if draw < 0.02:
                    self._raise_nonce(client, rng.choice(MAKERS))
                elif draw < 0.25 and placed:
                    self._cancel(client, *placed.pop(rng.randrange(len(placed))))
                else:
                    placed += self._place(client, rng)

    def _place(self, client, rng):
        order, body = signed_order(rng, self._witness.nonces)
        hashed = order_hash(order, DOMAIN)
        self._witness.sent[hashed] = order
        with rejected_with("NONCE_TOO_LOW", "TOO_MANY_ORDERS", "DRAINING"):
            made = client.create_order(body)
            self.acked[hashed] = body, made
            return [(made.order_id, order.maker)]
        return []

    def _cancel(self, client, order_id, maker):
        with rejected_with("ORDER_NOT_OPEN"):
            client.cancel_order(order_id, {"maker": maker})
            self.cancelled.append(order_id)

    def _raise_nonce(self, client, maker):
        key, address = maker
        nonce = self._witness.nonces.get(address, 0) + 1
        body = sign(SignedSetNonce(maker=address, nonce=nonce), DOMAIN, key).to_json()
        with rejected_with("NONCE_TOO_LOW"):
            client.post_nonce(body)
            self._witness.nonces[address] = nonce

    def _read_stream(self, market):
        with connect(self._live.ws_url) as socket:
            socket.send(
                json.dumps({"type": "subscribe", "channel": "orderbook", "marketId": market})
            )
            while True:
                self.messages.append(json.loads(socket.recv()))


class Witness:
    """The state replayed from the log of a folder, and the acknowledged commands."""

    def __init__(self, folder, aside):
        self.folder = folder
        self.sent, self.nonces = {}, {}
        self.placed = {}
        """Command and trade summaries by order hash."""
        self.events, self.cancels, self.trades = {}, set(), {}
        self.exchange = ServerState()
        aside.mkdir()
        self._store = HistoryStore(aside)
        self._replica = Replica(aside, self._store, origin=0, tail=Tail())
        self._seq = 0

    def close(self):
        self._store.close()

    def update(self):
        """Replay the new frames of the log; assert that recovery returns the same state."""
        self._ids = Ids(secret(self.folder, IDS))
        with closing(SqliteLog(self.folder)) as log:
            for frame in log.read(self._seq):
                self._replica.apply(frame)
                self._replay(commands_of(frame))
            self._replica.write()
            exchange, hashed, _ = recover(log)
            assert self._replica.at == (log.tail.seq, log.tail.chain_hash, hashed)
        assert exchange.snapshot() == self.exchange.snapshot()
        for _, maker in MAKERS:
            self.nonces[maker] = exchange.matcher.nonce(maker)
        assert exchange.matcher.state_hash() == self.exchange.matcher.state_hash()

    def _replay(self, commands):
        """Apply the commands of a frame."""
        for command in commands:
            self._seq += 1
            num_trades = self.exchange.num_trades
            outcome = outcome_of(self.exchange, command)
            events = outcome if isinstance(outcome, list) else []
            if type(command) is Submit:
                assert command.order_hash in self.sent, "no client sent this order"
                if events:
                    trades = summaries(events, self._ids, command.now_ms, num_trades)
                    self.placed[command.order_hash] = command, trades
            for event in events:
                self.events.setdefault(event.market, {})[event.seq] = event
                if type(event) is Trade:
                    num_trades += 1
                    name = self._ids.trade(command.now_ms, num_trades)
                    self.trades.setdefault(event.market, []).append((name, event))
                elif type(event) is OrderRemoved and event.reason == "cancelled":
                    self.cancels.add(event.order_id)

    # ----- checks ----------------------------------------------------------------------------

    def check(self, load):
        """Compare responses and messages with the log."""
        for hashed, (body, answer) in load.acked.items():
            command, trades = self.placed[hashed]
            record = msgspec.msgpack.decode(command.attachment, type=SignatureRecord)
            assert command.order.id == answer.order_id
            assert f"0x{record.signature.hex()}" == body["signature"]
            assert record.salt == str(body["salt"])
            assert trades == answer.trades
        assert self.cancels.issuperset(load.cancelled)
        for message in load.messages:
            check_message(message, self.events.get(message["marketId"], {}))

    def check_history(self, *, whole):
        """Assert that history equals the log up to the last command in history."""
        with closing(
            HistoryStore(self.folder)
        ) as store:  # opening waits for a follower that is exiting
            reached = store.applied
        assert reached.seq <= self._store.applied.seq
        if whole:
            assert reached == self._store.applied
        assert rows_of(self.folder, reached.seq) == rows_of(self._store.folder, reached.seq)


def rows_of(folder, up_to=2**62):
    """Return the rows of a history up to a command."""
    import apsw  # noqa: PLC0415

    with closing(apsw.Connection(str(folder / "history.db"))) as db:
        return [
            db.execute(
                f"SELECT * FROM {table} WHERE command_seq<=? ORDER BY {order}", (up_to,)
            ).fetchall()
            for table, order in (("orders", "rowid"), ("trades", "number"))
        ]


def check_message(message, events):
    """Compare a message of the stream with the events of its market, by number, in the log."""
    kind, seq, data = message["type"], message["seq"], message["data"]
    if kind == "orderbook":
        levels_by_price = {
            (side, level["price"]): int(level["size"])
            for side, levels in enumerate((data["bids"], data["asks"]))
            for level in levels
        }
        assert levels_by_price == book_at(events, seq, message["tokenId"])
        return
    event = events[seq]
    assert event.token == message["tokenId"]
    if kind == "trade":
        assert type(event) is Trade
        logged = (event.price, str(event.size), event.buyer, event.seller)
        assert logged == (data["price"], data["size"], data["buyer"], data["seller"])
        assert event.resting_order_id == data["restingOrderId"]
        assert event.incoming_order_id == data["incomingOrderId"]
    elif kind == "order_added":
        assert type(event) in (OrderAdded, OrderReduced)
        assert (event.order_id, str(event.remaining)) == (data["orderId"], data["size"])
    else:
        assert kind == "order_removed"
        assert type(event) in (OrderRemoved, OrderReduced)
        assert event.order_id == data["orderId"]


def book_at(events, seq, token):
    """Return the size by side and price after an event, built from events only."""
    resting = {}
    for number in range(1, seq + 1):
        event = events[number]
        if event.token != token:
            continue
        if type(event) is OrderAdded:
            resting[event.order_id] = [int(event.side), event.price, event.remaining]
        elif type(event) is Trade:
            resting[event.resting_order_id][2] = event.resting_remaining
        elif type(event) is OrderReduced:
            resting[event.order_id][2] = event.remaining
        elif type(event) is OrderRemoved:
            del resting[event.order_id]
    book = {}
    for side, price, remaining in resting.values():
        book[side, price] = book.get((side, price), 0) + remaining
    return book


def start_process(folder):
    """Start a server process without waiting until it listens."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "clob_server", "run", "--port", "0", "--chain", "none"),
            *("--data-dir", str(folder)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )


def follower_of(live):
    """Return the process id of the follower of a server, or None."""
    listed = subprocess.run(
        ["ps", "-ww", "--ppid", str(live.process.pid), "-o", "pid=,args="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    pids = [line.split()[0] for line in listed.splitlines() if "history.follower" in line]
    return int(pids[0]) if pids else None


@contextlib.contextmanager
def killing(live):
    """Kill a server at the end of the block, also after an error."""
    try:
        yield
    finally:
        live.http.close()
        if live.process.poll() is None:
            live.kill()
        live.process.stdout.close()
