"""A chain in the process of the tests, asked as a server would ask it, with a clock of its own."""

import itertools
from contextlib import closing

import msgspec
import pytest

pytest.importorskip("eth", reason="py-evm is not installed; the extra `devchain` has it")

from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.server import answer
from clob_server.chain.devchain.state import ChainStore
from tests.chain.nodes import NodeError

BEGIN_S = 1_800_000_000


class Asked:
    """A chain in this process; ``ask`` is that of a node.

    Args:
        folder: where it is kept.
        chain_id: its id.
    """

    def __init__(self, folder, chain_id=31337):
        self.now_s = BEGIN_S
        self.store = ChainStore(folder)
        self.chain = DevelopmentChain(self.store, chain_id, lambda: self.now_s)
        self._ids = itertools.count(1)

    def post(self, body):
        """Send a body as it is, and give what the answer holds."""
        answered = answer(
            self.chain, body if isinstance(body, bytes) else msgspec.json.encode(body)
        )
        return msgspec.json.decode(answered) if answered else None

    def ask(self, method, *params):
        """Ask for one thing, and give what is answered."""
        number = next(self._ids)
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        told = self.post(asked)
        assert told["id"] == number
        if "error" in told:
            raise NodeError(told["error"])
        return told["result"]

    def refused(self, method, *params):
        """Ask for what is refused, and give the error."""
        with pytest.raises(NodeError) as caught:
            self.ask(method, *params)
        return caught.value.args[0]


@pytest.fixture
def asked(tmp_path):
    """A fresh chain in this process."""
    chain = Asked(tmp_path / "chain")
    with closing(chain.store):
        yield chain
