"""A TCP proxy on loopback that loses or delays the bytes of one direction or of both."""

import contextlib
import socket
import threading

PASS, HOLD, DROP = "pass", "hold", "drop"
_STEP_S = 0.02


class Proxy:
    """Forwards connections to a port.

    ``to_server`` and ``to_client`` are the states of the two directions: ``PASS``; ``HOLD``, which
    delays the bytes until the state changes; ``DROP``, which discards them as a partition does that
    lasts longer than the connection.
    """

    def __init__(self, target_port):
        self.to_server = self.to_client = PASS
        self.bytes_to_server = 0
        self._target_port = target_port
        self._is_open = True
        self._sockets = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def url(self):
        """URL for NATS clients."""
        return f"nats://127.0.0.1:{self.port}"

    def partition(self, state=DROP):
        """Lose or delay all bytes of both directions."""
        self.to_server = self.to_client = state

    def heal(self):
        """Forward again; cut the connections whose bytes were lost."""
        lost = DROP in (self.to_server, self.to_client)
        self.to_server = self.to_client = PASS
        if lost:
            self.cut()

    def cut(self):
        """End all connections."""
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._sockets.clear()

    def close(self):
        """Stop forwarding."""
        self._is_open = False
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.heal()
        self.cut()
        self._accepting.join()

    def _accept(self):
        while self._is_open:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            for ends in ((client, server, "to_server"), (server, client, "to_client")):
                threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source, target, direction):
        pause = threading.Event()
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                while getattr(self, direction) == HOLD:
                    pause.wait(_STEP_S)
                if direction == "to_server":
                    self.bytes_to_server += len(data)
                if getattr(self, direction) == PASS:
                    target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()


@contextlib.contextmanager
def proxy_to(port):
    """Run a proxy to a port."""
    made = Proxy(port)
    try:
        yield made
    finally:
        made.close()
