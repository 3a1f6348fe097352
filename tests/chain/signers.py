"""The reference signer as a process, and a proxy that returns wrongly signed transactions."""

import contextlib
import subprocess
import sys

from eth_account import Account

from clob_server.chain.eth.accounts import OPERATOR
from tests.chain.proxy import Fault
from tests.server.live import environment

SIGN = "eth_signTransaction"
ACCOUNTS = "eth_accounts"
CHAIN_ID = 31337
NO_KEY = {"operator_key": "", "operator": OPERATOR.address}
"""Settings of a worker without a key, besides ``signer_url``."""


class SignerProcess:
    """A running signer; ``url`` is its address.

    Args:
        folder: folder for its key file.
        key: its private key.
        options: more arguments.
    """

    def __init__(self, folder, *options, key=OPERATOR.private_key, chain_id=CHAIN_ID, port=0):
        path = folder / "signer.key"
        path.touch(mode=0o600)
        path.write_text(key)
        self._log = (folder / "signer.log").open("a+")
        command = [sys.executable, "-m", "clob_server.chain.signer", str(path)]
        self.process = subprocess.Popen(
            [*command, "--chain-id", str(chain_id), "--port", str(port), *options],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(),
        )
        self.url = self.process.stdout.readline().split()[-1]

    @property
    def port(self):
        """Its port."""
        return int(self.url.rpartition(":")[2])

    def logged(self):
        """Return the lines that it has logged."""
        self._log.seek(0)
        return self._log.read().splitlines()

    def stop(self):
        """Stop it and return the exit code."""
        self.process.terminate()
        code = self.process.wait(60)
        self.process.stdout.close()
        self._log.close()
        return code


@contextlib.contextmanager
def signing(folder, *options, **more):
    """Yield a signer and stop it at the end."""
    signer = SignerProcess(folder, *options, **more)
    try:
        yield signer
    finally:
        signer.stop()


class SignAltered(Fault):
    """Return a valid signature of another transaction, or of another account.

    Args:
        change: changes the transaction, given as eth-account takes it.
        key: private key that signs.
    """

    def __init__(self, change, key=OPERATOR.private_key, **options):
        super().__init__(SIGN, **options)
        self._change, self._key = change, key

    def answer(self, call, forward):
        raw = Account.sign_transaction(self._change(readable(call["params"][0])), self._key)
        result = f"0x{bytes(raw.raw_transaction).hex()}"
        return {"jsonrpc": "2.0", "id": call["id"], "result": result}


class Edit(Fault):
    """Edit the signed bytes that the signer returns."""

    def __init__(self, edit, **options):
        super().__init__(SIGN, **options)
        self._edit = edit

    def answer(self, call, forward):
        answer = forward(call)
        raw = bytes.fromhex(answer["result"][2:])
        return {**answer, "result": f"0x{self._edit(raw).hex()}"}


def readable(request):
    """Return a request to sign as eth-account takes it."""
    fields = {name: int(value, 16) for name, value in request.items() if name in NUMBERS}
    target = bytes.fromhex(request.get("to", "0x")[2:])
    return {**fields, "data": request["data"], "to": target}


NUMBERS = (
    "chainId", "nonce", "gas", "value", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas"
)  # fmt: skip
