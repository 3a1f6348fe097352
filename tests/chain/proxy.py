"""A JSON-RPC proxy in front of a node that goes wrong as a test tells it to.

A fault is put in with :meth:`Proxy.goes_wrong` and taken out at the end of the block. Each call of
a request, batched or not, is offered to the faults in the sequence in which they were put in.
"""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import rlp
from eth_utils import keccak

PATIENCE_S = 60
SEND = "eth_sendRawTransaction"
TRIES = ("eth_estimateGas", "eth_call")
"""The methods that say if a transaction would succeed."""
RECEIPT = "eth_getTransactionReceipt"


class Patient(ThreadingHTTPServer):
    """A server that lets many connect at once; the usual one resets the sixth."""

    request_queue_size = 128


class DroppedError(Exception):
    """The connection is to be closed, with nothing answered."""


class Fault:
    """Something that goes wrong.

    Args:
        method: with calls of this method only, or of these; None is with all.
        calldata: with transactions only whose calldata begins with this, or, where the method does
            not send one, with what is asked about such transactions; None is with all.
        times: so many times only; None is until it is taken out.
    """

    def __init__(self, method=None, *, calldata=None, times=None):
        method = SEND if calldata is not None and method is None else method
        self.methods = (method,) if isinstance(method, str) else method
        self.calldata = calldata
        self.left = times
        self.hits = 0

    def concerns(self, call):
        """Say whether this call goes wrong, and count it."""
        if self.left == 0 or (self.methods is not None and call["method"] not in self.methods):
            return False
        if self.calldata is not None and not calldata_of(call).startswith(self.calldata):
            return False
        self.left = None if self.left is None else self.left - 1
        self.hits += 1
        return True

    def answer(self, call, forward):
        """Answer a call instead of the node, which ``forward`` asks."""
        raise NotImplementedError


class Drop(Fault):
    """Close the connection instead of answering; the node hears nothing."""

    def answer(self, call, forward):
        raise DroppedError


class DropAnswer(Fault):
    """Let the node do it, and close the connection instead of answering."""

    def answer(self, call, forward):
        forward(call)
        raise DroppedError


class Delay(Fault):
    """Answer later, by so many seconds."""

    def __init__(self, seconds, method=None, **options):
        super().__init__(method, **options)
        self.seconds = seconds

    def answer(self, call, forward):
        time.sleep(self.seconds)
        return forward(call)


class Raw(Fault):
    """Answer these bytes with this status of HTTP, whatever was asked; the node hears nothing."""

    def __init__(self, status, body, method=None, **options):
        super().__init__(method, **options)
        self.status, self.body = status, body

    def answer(self, call, forward):
        raise RawError(self.status, self.body)


class RawError(Exception):
    """These bytes are to be answered."""


class Result(Fault):
    """Answer this result; the node hears nothing. An answer without receipts is ``None``."""

    def __init__(self, result, method=None, **options):
        super().__init__(method, **options)
        self.result = result

    def answer(self, call, forward):
        return {"jsonrpc": "2.0", "id": call["id"], "result": self.result}


class WrongId(Fault):
    """Let the node answer, to somebody else's question."""

    def answer(self, call, forward):
        return {**forward(call), "id": 987_654_321}


class Refuse(Fault):
    """Answer an error of JSON-RPC; the node hears of it only if ``forwards``."""

    def __init__(self, code, message, method=None, *, forwards=False, **options):
        super().__init__(method, **options)
        self.error = {"code": code, "message": message}
        self.forwards = forwards

    def answer(self, call, forward):
        if self.forwards:
            forward(call)
        return {"jsonrpc": "2.0", "id": call["id"], "error": self.error}


class Swallow(Fault):
    """Say that a transaction was taken, and forget it."""

    def __init__(self, **options):
        super().__init__(SEND, **options)

    def answer(self, call, forward):
        hashed = keccak(hexstr=call["params"][0])
        return {"jsonrpc": "2.0", "id": call["id"], "result": f"0x{hashed.hex()}"}


class Meanwhile(Fault):
    """Do something of the test's own first, such as to change the state a transaction will find."""

    def __init__(self, work, method=None, **options):
        super().__init__(method, **options)
        self.work = work

    def answer(self, call, forward):
        self.work()
        return forward(call)


class Since(Fault):
    """Another fault, from the moment on in which a transaction was sent."""

    def __init__(self, calldata, fault):
        super().__init__()
        self._begin, self._fault = calldata, fault
        self.has_begun = False

    def concerns(self, call):
        if self.has_begun:
            return self._fault.concerns(call)
        self.has_begun = call["method"] == SEND and calldata_of(call).startswith(self._begin)
        return False

    def answer(self, call, forward):
        return self._fault.answer(call, forward)


class Insist(Fault):
    """Refuse a replacement of a transaction whose fees are not higher by so many percent.

    The fees of all transactions are kept, by sender's chain of nonces; a node of the tests has one
    sender of this kind.
    """

    def __init__(self, percent, **options):
        super().__init__(SEND, **options)
        self.percent = percent
        self.fees, self.taken = {}, set()
        self.raised = []
        """The nonces of the replacements that were let through."""
        self.refused = []
        """The nonces of those that were not."""

    def answer(self, call, forward):
        raw = bytes.fromhex(call["params"][0][2:])
        nonce, fees, _ = fields_of(raw)
        if raw in self.taken:
            return forward(call)
        if nonce in self.fees:
            wanted = [-(-fee * (100 + self.percent) // 100) for fee in self.fees[nonce]]
            if any(fee < least for fee, least in zip(fees, wanted, strict=True)):
                self.refused.append(nonce)
                error = {"code": -32000, "message": "replacement transaction underpriced"}
                return {"jsonrpc": "2.0", "id": call["id"], "error": error}
            self.raised.append(nonce)
        self.fees[nonce] = fees
        self.taken.add(raw)
        return forward(call)


def fields_of(raw):
    """Give the nonce, the fees and the calldata of a signed transaction."""
    if raw[0] == 2:  # EIP-1559
        _, nonce, tip, fee, _, _, _, data, *_ = rlp.decode(raw[1:])
        fees = [int.from_bytes(tip), int.from_bytes(fee)]
    else:
        nonce, price, _, _, _, data, *_ = rlp.decode(raw)
        fees = [int.from_bytes(price)]
    return int.from_bytes(nonce), fees, data


def calldata_of(call):
    """Give the calldata of the transaction that a call is about."""
    if call["method"] != SEND:
        asked = call["params"][0]
        return bytes.fromhex(asked.get("data", asked.get("input", "0x"))[2:])
    return fields_of(bytes.fromhex(call["params"][0][2:]))[2]


class Proxy:
    """A server on loopback that passes JSON-RPC on to a node.

    Args:
        target: the address of the node; it may be changed while the proxy runs.
        port: where to listen; 0 is any port that is free.
    """

    def __init__(self, target, port=0):
        self.target = target
        self.faults = []
        self.calls = []
        """The methods that were asked for, in their sequence."""
        self._http = httpx.Client(timeout=PATIENCE_S)
        self._server = Patient(("127.0.0.1", port), handler_of(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)
        self._http.close()

    @contextlib.contextmanager
    def goes_wrong(self, fault):
        """Put a fault in for as long as the block takes."""
        self.faults.append(fault)
        try:
            yield fault
        finally:
            self.faults.remove(fault)

    def forward(self, call):
        """Ask the node."""
        return self._http.post(self.target, json=call).json()

    def answer(self, call):
        """Answer one call, as the first fault has it that it concerns."""
        self.calls.append(call["method"])
        for fault in list(self.faults):
            if fault.concerns(call):
                return fault.answer(call, self.forward)
        return self.forward(call)


def handler_of(proxy):
    """Make the class that answers the requests to a proxy."""

    class Handler(BaseHTTPRequestHandler):
        """Answers on one connection."""

        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # headers and body leave together

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                many = isinstance(asked, list)
                answers = [proxy.answer(call) for call in (asked if many else [asked])]
                self.say(200, json.dumps(answers if many else answers[0]).encode())
            except RawError as error:
                self.say(*error.args)
            except (DroppedError, httpx.HTTPError):
                self.close_connection = True

        def say(self, status, body):
            """Answer over HTTP; who has gone away meanwhile misses it."""
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()

        def log_message(self, *_):
            """Say nothing of each request."""

    return Handler


@contextlib.contextmanager
def in_front_of(node):
    """A proxy in front of a node, for as long as the block takes."""
    proxy = Proxy(node.url)
    try:
        yield proxy
    finally:
        proxy.close()
