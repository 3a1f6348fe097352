"""A JSON-RPC proxy that injects faults between a worker and a node.

:meth:`Proxy.inject` adds a fault for the duration of a block. Each call of a request, batched
or not, is offered to the faults in the order in which they were added.
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
DRY_RUNS = ("eth_estimateGas", "eth_call")
"""Methods that run a transaction without sending it."""
RECEIPT = "eth_getTransactionReceipt"


class ProxyServer(ThreadingHTTPServer):
    """A server with a long backlog; the default resets the sixth pending connection."""

    request_queue_size = 128


class DroppedError(Exception):
    """Close the connection without a response."""


class Fault:
    """Base of faults: selects the calls that it affects.

    Args:
        method: only calls of this method or these methods; None for all.
        calldata: only transactions whose calldata starts with this, or, for other methods, calls
            about such transactions; None for all.
        times: number of calls it affects; None for no limit.
    """

    def __init__(self, method=None, *, calldata=None, times=None):
        method = SEND if calldata is not None and method is None else method
        self.methods = (method,) if isinstance(method, str) else method
        self.calldata = calldata
        self.remaining = times
        self.hits = 0

    def affects(self, call):
        """Return whether the fault affects this call, and count the call."""
        if self.remaining == 0 or (self.methods is not None and call["method"] not in self.methods):
            return False
        if self.calldata is not None and not calldata_of(call).startswith(self.calldata):
            return False
        self.remaining = None if self.remaining is None else self.remaining - 1
        self.hits += 1
        return True

    def answer(self, call, forward):
        """Answer a call; ``forward`` sends it to the node."""
        raise NotImplementedError


class Drop(Fault):
    """Close the connection without forwarding the call."""

    def answer(self, call, forward):
        raise DroppedError


class DropAnswer(Fault):
    """Forward the call and close the connection without a response."""

    def answer(self, call, forward):
        forward(call)
        raise DroppedError


class Delay(Fault):
    """Delay the response by some seconds."""

    def __init__(self, seconds, method=None, **options):
        super().__init__(method, **options)
        self.seconds = seconds

    def answer(self, call, forward):
        time.sleep(self.seconds)
        return forward(call)


class Raw(Fault):
    """Respond with these bytes and this HTTP status without forwarding the call."""

    def __init__(self, status, body, method=None, **options):
        super().__init__(method, **options)
        self.status, self.body = status, body

    def answer(self, call, forward):
        raise RawError(self.status, self.body)


class RawError(Exception):
    """Respond with these bytes."""


class Result(Fault):
    """Respond with this result without forwarding the call; ``None`` means no receipt."""

    def __init__(self, result, method=None, **options):
        super().__init__(method, **options)
        self.result = result

    def answer(self, call, forward):
        return {"jsonrpc": "2.0", "id": call["id"], "result": self.result}


class Lie(Fault):
    """Forward the call and change its result."""

    def __init__(self, change, method, **options):
        super().__init__(method, **options)
        self.change = change

    def answer(self, call, forward):
        answer = forward(call)
        return {**answer, "result": self.change(answer["result"])} if "result" in answer else answer


class WrongId(Fault):
    """Forward the call and respond with another request's id."""

    def answer(self, call, forward):
        return {**forward(call), "id": 987_654_321}


class Reject(Fault):
    """Respond with a JSON-RPC error; the call is forwarded only if ``forwards``."""

    def __init__(self, code, message, method=None, *, forwards=False, **options):
        super().__init__(method, **options)
        self.error = {"code": code, "message": message}
        self.forwards = forwards

    def answer(self, call, forward):
        if self.forwards:
            forward(call)
        return {"jsonrpc": "2.0", "id": call["id"], "error": self.error}


class DropTransaction(Fault):
    """Accept a transaction and drop it."""

    def __init__(self, **options):
        super().__init__(SEND, **options)

    def answer(self, call, forward):
        hashed = keccak(hexstr=call["params"][0])
        return {"jsonrpc": "2.0", "id": call["id"], "result": f"0x{hashed.hex()}"}


class RunBefore(Fault):
    """Run code of the test before the call is forwarded."""

    def __init__(self, work, method=None, **options):
        super().__init__(method, **options)
        self.work = work

    def answer(self, call, forward):
        self.work()
        return forward(call)


class AfterSending(Fault):
    """Enable another fault once a transaction was sent."""

    def __init__(self, calldata, fault):
        super().__init__()
        self._begin, self._fault = calldata, fault
        self.has_begun = False

    def affects(self, call):
        if self.has_begun:
            return self._fault.affects(call)
        self.has_begun = call["method"] == SEND and calldata_of(call).startswith(self._begin)
        return False

    def answer(self, call, forward):
        return self._fault.answer(call, forward)


class RequireHigherFees(Fault):
    """Reject a replacement unless its fees are at least ``percent`` higher.

    Fees are recorded by nonce; the tests have one such sender per node.
    """

    def __init__(self, percent, **options):
        super().__init__(SEND, **options)
        self.percent = percent
        self.fees, self.accepted = {}, set()
        self.raised = []
        """Nonces of accepted replacements."""
        self.rejected = []
        """Nonces of rejected replacements."""

    def answer(self, call, forward):
        raw = bytes.fromhex(call["params"][0][2:])
        nonce, fees, _ = fields_of(raw)
        if raw in self.accepted:
            return forward(call)
        if nonce in self.fees:
            required = [-(-fee * (100 + self.percent) // 100) for fee in self.fees[nonce]]
            if any(fee < least for fee, least in zip(fees, required, strict=True)):
                self.rejected.append(nonce)
                error = {"code": -32000, "message": "replacement transaction underpriced"}
                return {"jsonrpc": "2.0", "id": call["id"], "error": error}
            self.raised.append(nonce)
        self.fees[nonce] = fees
        self.accepted.add(raw)
        return forward(call)


def fields_of(raw):
    """Return nonce, fees and calldata of a signed transaction."""
    if raw[0] == 2:  # EIP-1559
        _, nonce, tip, fee, _, _, _, data, *_ = rlp.decode(raw[1:])
        fees = [int.from_bytes(tip), int.from_bytes(fee)]
    else:
        nonce, price, _, _, _, data, *_ = rlp.decode(raw)
        fees = [int.from_bytes(price)]
    return int.from_bytes(nonce), fees, data


def calldata_of(call):
    """Return the calldata of the transaction that a call is about."""
    if call["method"] != SEND:
        transaction = call["params"][0]
        data = transaction.get("data", transaction.get("input", "0x"))
        return bytes.fromhex(data[2:])
    return fields_of(bytes.fromhex(call["params"][0][2:]))[2]


class Proxy:
    """A loopback server that forwards JSON-RPC to a node.

    Args:
        target: URL of the node; it may be changed while the proxy runs.
        port: port to listen on; 0 for any free port.
    """

    def __init__(self, target, port=0):
        self.target = target
        self.faults = []
        self.calls = []
        """Methods of the calls, in order."""
        self._http = httpx.Client(timeout=PATIENCE_S)
        self._server = ProxyServer(("127.0.0.1", port), handler_of(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)
        self._http.close()

    @contextlib.contextmanager
    def inject(self, fault):
        """Add a fault for the duration of the block."""
        self.faults.append(fault)
        try:
            yield fault
        finally:
            self.faults.remove(fault)

    def forward(self, call):
        """Send a call to the node."""
        return self._http.post(self.target, json=call).json()

    def answer(self, call):
        """Answer one call, by the first fault that affects it or by the node."""
        self.calls.append(call["method"])
        for fault in list(self.faults):
            if fault.affects(call):
                return fault.answer(call, self.forward)
        return self.forward(call)


def handler_of(proxy):
    """Return the request handler class of a proxy."""

    class Handler(BaseHTTPRequestHandler):
        """Handles one connection."""

        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # headers and body leave together

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                is_batch = isinstance(request, list)
                answers = [proxy.answer(call) for call in (request if is_batch else [request])]
                self.respond(200, json.dumps(answers if is_batch else answers[0]).encode())
            except RawError as error:
                self.respond(*error.args)
            except (DroppedError, httpx.HTTPError):
                self.close_connection = True

        def respond(self, status, body):
            """Send an HTTP response, unless the client has disconnected."""
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()

        def log_message(self, *_):
            """Do not log requests."""

    return Handler


@contextlib.contextmanager
def proxy_to(node):
    """Yield a proxy for a node."""
    proxy = Proxy(node.url)
    try:
        yield proxy
    finally:
        proxy.close()
