"""A development chain in the process of the tests, with a settable clock."""

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


class LocalChain:
    """A chain in this process, with the interface of a node and a settable clock.

    Args:
        folder: data folder of the chain.
        chain_id: chain id of EIP-155.
    """

    def __init__(self, folder, chain_id=31337):
        self.now_s = BEGIN_S
        self.store = ChainStore(folder)
        self.chain = DevelopmentChain(self.store, chain_id, lambda: self.now_s)
        self._ids = itertools.count(1)

    def post(self, body):
        """Send a body; return the decoded response."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        response = answer(self.chain, content)
        return msgspec.json.decode(response) if response else None

    def ask(self, method, *params):
        """Send one request; return its result."""
        number = next(self._ids)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        response = self.post(request)
        assert response["id"] == number
        if "error" in response:
            raise NodeError(response["error"])
        return response["result"]

    def rejected(self, method, *params):
        """Send a request that must fail; return the error."""
        with pytest.raises(NodeError) as caught:
            self.ask(method, *params)
        return caught.value.args[0]


@pytest.fixture
def rpc(tmp_path):
    """A fresh chain in this process."""
    chain = LocalChain(tmp_path / "chain")
    with closing(chain.store):
        yield chain
