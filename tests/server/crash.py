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
import httpx
import msgspec
import websockets
from websockets.sync.client import connect

from clob import Limits, OrderAdded, OrderReduced, OrderRemoved, SetLimits, Side, Submit, Trade
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
GONE = (httpx.HTTPError, websockets.WebSocketException, OSError, EOFError)
FINISHED_MAX = 50
BUDGETS = Budgets(
    anonymous_per_minute=100_000, orders_per_minute=100_000, cancels_per_minute=100_000
)
DOMAIN = Settings().domain
MAKERS = [(key, address_of(key)) for key in KEYS]


def prepared(folder):
    """Create a folder whose server prunes finished orders early and has large budgets."""

    async def story():
        with closing(SqliteLog(folder)) as log:
            engine = Sequencer(log, ServerState(), lambda: 1)
            task = asyncio.create_task(engine.run())
            limits = Limits(finished_max=FINISHED_MAX)
            await engine.submit(lambda now_ms: SetLimits(limits=limits, now_ms=now_ms))
            await engine.submit(lambda now_ms: SetBudgets(budgets=BUDGETS, now_ms=now_ms))
            engine.stop()
            await task

    asyncio.run(story())


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
    made = coincurve.PrivateKey(bytes.fromhex(key[2:])).sign_recoverable(
        order_hash(order, DOMAIN), hasher=None
    )
    signature = f"0x{made[:64].hex()}{27 + made[64]:02x}"
    order = msgspec.structs.replace(order, signature=signature)
    return order, {**order.to_json(), "marketId": market}


class Load:
    """Clients of a server, each in a thread, until it is gone.

    ``sent`` are all orders that were posted, by hash; ``acked`` the answers, by the same.
    """

    def __init__(self, live, witness, seed, clients=3):
        self._live, self._witness, self._seed = live, witness, seed
        self._stop = threading.Event()
        self.cancelled, self.messages, self.errors = [], [], []
        self.acked = {}
        work = [lambda n=n: self._trade(n) for n in range(clients)]
        work += [lambda market=market: self._listen(market) for market in MARKETS]
        self._threads = [threading.Thread(target=self._until_gone, args=(each,)) for each in work]
        for thread in self._threads:
            thread.start()

    def wait(self, count):
        """Wait until so many orders were acknowledged."""
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

    def _until_gone(self, work):
        try:
            work()
        except GONE:
            pass
        except BaseException as error:
            self.errors.append(error)

    def _trade(self, number):
        rng = random.Random(f"{self._seed} {number}")
        with httpx.Client(base_url=self._live.url, timeout=30) as http:
            mine = []
            while not self._stop.is_set():
                turn = rng.random()
                if turn < 0.02:
                    self._raise_nonce(http, rng.choice(MAKERS))
                elif turn < 0.25 and mine:
                    self._cancel(http, mine.pop(rng.randrange(len(mine))))
                else:
                    mine.append(self._place(http, rng))

    def _place(self, http, rng):
        order, body = signed_order(rng, self._witness.nonces)
        hashed = order_hash(order, DOMAIN)
        self._witness.sent[hashed] = order
        answer = http.post("/api/orders", json=body)
        if answer.status_code == 200:
            self.acked[hashed] = body, answer.json()
        else:
            assert answer.json()["code"] in ("NONCE_TOO_LOW", "TOO_MANY_ORDERS", "DRAINING"), (
                answer.text
            )
        return answer.json().get("orderId"), order.maker

    def _cancel(self, http, mine):
        order_id, maker = mine
        if order_id is None:
            return
        answer = http.request("DELETE", f"/api/orders/{order_id}", json={"maker": maker})
        if answer.status_code == 200:
            self.cancelled.append(order_id)
        else:
            assert answer.json()["code"] == "ORDER_NOT_OPEN", answer.text

    def _raise_nonce(self, http, maker):
        key, address = maker
        nonce = self._witness.nonces.get(address, 0) + 1
        body = sign(SignedSetNonce(maker=address, nonce=nonce), DOMAIN, key).to_json()
        answer = http.post("/api/orders/nonce", json=body)
        if answer.status_code == 200:
            self._witness.nonces[address] = nonce

    def _listen(self, market):
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
        """By order hash: its command, and the summaries of its trades."""
        self.events, self.cancels, self.traded = {}, set(), {}
        self.exchange = ServerState()
        aside.mkdir()
        self._store = HistoryStore(aside)
        self._replica = Replica(aside, self._store, origin=0, tail=Tail())
        self._seq = 0

    def close(self):
        self._store.close()

    def look(self):
        """Take in what is new in the log; what a server would recover must be the same."""
        self._ids = Ids(secret(self.folder, IDS))
        with closing(SqliteLog(self.folder)) as log:
            for frame in log.read(self._seq):
                self._replica.apply(frame)
                self._take(commands_of(frame))
            self._replica.write()
            exchange, hashed, _ = recover(log)
            assert self._replica.at == (log.tail.seq, log.tail.chain_hash, hashed)
        assert exchange.snapshot() == self.exchange.snapshot()
        for _, maker in MAKERS:
            self.nonces[maker] = exchange.matcher.nonce(maker)
        assert exchange.matcher.state_hash() == self.exchange.matcher.state_hash()

    def _take(self, commands):
        """Apply the commands of a frame."""
        for command in commands:
            self._seq += 1
            num_trades = self.exchange.num_trades
            outcome = outcome_of(self.exchange, command)
            events = outcome if isinstance(outcome, list) else []
            if type(command) is Submit:
                assert command.order_hash in self.sent, "nobody sent this order"
                if events:
                    trades = summaries(events, self._ids, command.now_ms, num_trades)
                    self.placed[command.order_hash] = command, trades
            for event in events:
                self.events.setdefault(event.market, {})[event.seq] = event
                if type(event) is Trade:
                    num_trades += 1
                    name = self._ids.trade(command.now_ms, num_trades)
                    self.traded.setdefault(event.market, []).append((name, event))
                elif type(event) is OrderRemoved and event.reason == "cancelled":
                    self.cancels.add(event.order_id)

    # ----- what was promised -----------------------------------------------------------------

    def check(self, load):
        """Compare responses and messages with the log."""
        for hashed, (body, answer) in load.acked.items():
            command, trades = self.placed[hashed]
            record = msgspec.msgpack.decode(command.attachment, type=SignatureRecord)
            assert command.order.id == answer["orderId"]
            assert f"0x{record.signature.hex()}" == body["signature"]
            assert record.salt == str(body["salt"])
            assert json.loads(msgspec.json.encode(trades)) == answer["trades"]
        assert self.cancels.issuperset(load.cancelled)
        for message in load.messages:
            self._check_message(message)

    def _check_message(self, message):
        """Find in the log what was shown."""
        kind, seq, data = message["type"], message["seq"], message["data"]
        events = self.events.get(message["marketId"], {})
        if kind == "orderbook":
            shown = {
                (side, level["price"]): int(level["size"])
                for side, levels in enumerate((data["bids"], data["asks"]))
                for level in levels
            }
            assert shown == book_at(events, seq, message["tokenId"])
            return
        event = events[seq]
        assert event.token == message["tokenId"]
        if kind == "trade":
            assert type(event) is Trade
            told = (event.price, str(event.size), event.buyer, event.seller)
            assert told == (data["price"], data["size"], data["buyer"], data["seller"])
            assert event.resting_order_id == data["restingOrderId"]
            assert event.incoming_order_id == data["incomingOrderId"]
        elif kind == "order_added":
            assert type(event) in (OrderAdded, OrderReduced)
            assert (event.order_id, str(event.remaining)) == (data["orderId"], data["size"])
        else:
            assert kind == "order_removed"
            assert type(event) in (OrderRemoved, OrderReduced)
            assert event.order_id == data["orderId"]

    def check_history(self, *, whole):
        """Assert that history equals the log, as far as it reaches."""
        with closing(
            HistoryStore(self.folder)
        ) as store:  # waits for a follower that is about to end
            reached = store.applied
        assert reached.seq <= self._store.applied.seq
        if whole:
            assert reached == self._store.applied
        ours = self._store_rows(self._store.folder, reached.seq)
        assert self._store_rows(self.folder, reached.seq) == ours

    def _store_rows(self, folder, up_to):
        return rows_of(folder, up_to)


def rows_of(folder, up_to=2**62):
    """Return the rows of a history, as far as a command."""
    import apsw  # noqa: PLC0415

    with closing(apsw.Connection(str(folder / "history.db"))) as db:
        return [
            db.execute(
                f"SELECT * FROM {table} WHERE command_seq<=? ORDER BY {order}", (up_to,)
            ).fetchall()
            for table, order in (("orders", "rowid"), ("trades", "number"))
        ]


def book_at(events, seq, token):
    """Build a book as it was after an event, from events alone: size by side and price."""
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
    for side, price, left in resting.values():
        book[side, price] = book.get((side, price), 0) + left
    return book


def begun(folder):
    """Start a server, and do not wait for anything."""
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
    """Find the follower of a server; None where it has none at the moment."""
    listed = subprocess.run(
        ["ps", "--ppid", str(live.process.pid), "-o", "pid=,args="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = [line.split()[0] for line in listed.splitlines() if "history.follower" in line]
    return int(found[0]) if found else None


@contextlib.contextmanager
def killing(live):
    """Kill a server at the end, whatever happens."""
    try:
        yield
    finally:
        live.http.close()
        if live.process.poll() is None:
            live.kill()
        live.process.stdout.close()
