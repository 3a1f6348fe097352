"""Reference signer: ``python -m clob_server.chain.signer KEY_FILE --chain-id ID``.

A process of its own that holds the operator's key and signs over HTTP on loopback. It speaks
``eth_accounts`` and ``eth_signTransaction`` of web3signer, for one account and one chain. It can be
limited to transactions that go to named contracts. Each signature is logged.
"""

import argparse
import json
import logging
import re
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from clob import RejectedError
from clob.signing import fields
from clob_server.chain.config import LOOPBACK, read_key
from clob_server.chain.tx.gas_fees import Fees
from clob_server.chain.tx.signer import LocalSigner
from clob_server.chain.tx.steps import Draft
from clob_server.settings import SettingsError

PORT: Final = 9000
"""Default port, the same as web3signer's."""
BODY_BYTES_MAX: Final = 1 << 20
"""Largest request, bytes; contracts are smaller."""
UNUSABLE: Final = 2
"""Exit code if the signer cannot start."""
PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD = -32700, -32600, -32601
INVALID_PARAMS, NOT_SIGNED = -32602, -32000
"""JSON-RPC error codes."""

_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")
_BYTES: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*")

_LOG: Final = logging.getLogger("clob_server.signer")


class SigningRequestError(Exception):
    """A request is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code: Final[int] = code


class SigningService:
    """Answers JSON-RPC requests with the signatures of one key.

    Args:
        signer: the key.
        chain_id: the only chain for which it signs.
        recipients: contracts to which transactions may go, in lower case; empty allows every
            recipient, and the creation of contracts.
    """

    def __init__(self, signer: LocalSigner, chain_id: int, recipients: frozenset[str]) -> None:
        self._signer = signer
        self._chain_id = chain_id
        self._recipients = recipients

    def answer(self, body: bytes) -> bytes:
        """Return the response to a request or a batch, as JSON."""
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            return json.dumps(error_response(None, PARSE_ERROR, "invalid JSON")).encode()
        if isinstance(request, list) and request:
            return json.dumps([self._respond(each) for each in request]).encode()
        return json.dumps(self._respond(request)).encode()

    def _respond(self, request: Any) -> dict[str, Any]:
        """Return the response to one request."""
        if not isinstance(request, dict):
            return error_response(None, INVALID_REQUEST, "a request must be an object")
        number = request.get("id")
        try:
            result = self._result(request.get("method"), request.get("params", []))
        except SigningRequestError as error:
            _LOG.warning("rejected: %s", error)
            return error_response(number, error.code, str(error))
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def _result(self, method: object, params: Any) -> Any:
        if method == "eth_accounts":
            return [self._signer.address.lower()]
        if method != "eth_signTransaction":
            raise SigningRequestError(UNKNOWN_METHOD, f"unknown method {method!r:.80}")
        if not isinstance(params, list) or len(params) != 1 or not isinstance(params[0], dict):
            raise SigningRequestError(INVALID_PARAMS, "params must be a list of one transaction")
        return self._sign(params[0])

    def _sign(self, transaction: dict[str, Any]) -> str:
        """Sign a transaction and return the signed bytes as hex."""
        self._check(transaction)
        draft = Draft(
            operation=0,
            name="",
            nonce=number_of(transaction, "nonce"),
            target=str(transaction.get("to") or ""),
            data=bytes.fromhex(text_of(transaction, data_name(transaction), _BYTES, "0x")[2:]),
            value=number_of(transaction, "value", "0x0"),
            gas=number_of(transaction, "gas"),
            expects="",
            head=0,
        )
        signed = self._signer.sign_at_once(draft, fees_of(transaction))
        recipient = draft.target or "a new contract"
        _LOG.info("signed %s: nonce %d, to %s", signed.hash, draft.nonce, recipient)
        return f"0x{signed.raw.hex()}"

    def _check(self, transaction: dict[str, Any]) -> None:
        """Reject a transaction of another account or chain, or to another recipient."""
        sender = transaction.get("from")
        if not isinstance(sender, str) or sender.lower() != self._signer.address.lower():
            raise SigningRequestError(NOT_SIGNED, f"no key of the account {sender!r:.80}")
        chain_id = number_of(transaction, "chainId", hex(self._chain_id))
        if chain_id != self._chain_id:
            problem = f"signs for chain {self._chain_id}; got chain {chain_id}"
            raise SigningRequestError(NOT_SIGNED, problem)
        recipient = transaction.get("to") or ""
        if recipient:
            try:
                fields.address("to", recipient)
            except RejectedError as error:
                raise SigningRequestError(INVALID_PARAMS, str(error)) from None
        if self._recipients and recipient.lower() not in self._recipients:
            raise SigningRequestError(
                NOT_SIGNED, f"the recipient {recipient or 'none'} is not allowed"
            )


def error_response(number: Any, code: int, message: str) -> dict[str, Any]:
    """Return a JSON-RPC error."""
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def text_of(
    transaction: dict[str, Any], name: str, pattern: re.Pattern[str], default: str = ""
) -> str:
    """Return a member of a transaction as hex text."""
    value = transaction.get(name, default)
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        raise SigningRequestError(
            INVALID_PARAMS, f"{name} must be 0x and hex digits; got {value!r:.80}"
        )
    return value


def number_of(transaction: dict[str, Any], name: str, default: str = "") -> int:
    """Return a number of a transaction."""
    return int(text_of(transaction, name, _NUMBER, default), 16)


def data_name(transaction: dict[str, Any]) -> str:
    """Return the member with the calldata: ``data``, or the newer ``input``."""
    return "data" if "data" in transaction else "input"


def fees_of(transaction: dict[str, Any]) -> Fees:
    """Return the fees: of EIP-1559 if they are given, else the gas price."""
    if "maxFeePerGas" not in transaction:
        price = number_of(transaction, "gasPrice")
        return Fees(price, price, is_legacy=True)
    tip = number_of(transaction, "maxPriorityFeePerGas")
    return Fees(number_of(transaction, "maxFeePerGas"), tip)


class SignerHandler(BaseHTTPRequestHandler):
    """Handles the requests of one connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together

    def __init__(self, service: SigningService, *arguments: Any) -> None:
        self._service = service
        super().__init__(*arguments)

    def do_POST(self) -> None:
        """Answer a JSON-RPC request.

        A web page cannot send this content type to another site unasked, and a page whose own name
        leads to this machine sends that name as host.
        """
        length = self.headers.get("Content-Length", "")
        host = self.headers.get("Host", "").partition(":")[0]
        if host not in (LOOPBACK, "localhost"):
            self.send_error(421, f"Host must be {LOOPBACK} or localhost")
        elif self.headers.get_content_type() != "application/json":
            self.send_error(415, "Content-Type must be application/json")
        elif not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            self.send_error(413, f"Content-Length must be at most {BODY_BYTES_MAX}")
        else:
            self._respond(self._service.answer(self.rfile.read(int(length))))

    def _respond(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: signatures are logged instead."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the signer until SIGINT or SIGTERM; return 0, or 2 if it cannot start."""
    arguments = parser().parse_args(argv)
    logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s", level=logging.INFO)
    try:
        signer = LocalSigner(read_key(arguments.key_file, "KEY_FILE"), arguments.chain_id)
        service = SigningService(signer, arguments.chain_id, frozenset(arguments.to))
        server = ThreadingHTTPServer((LOOPBACK, arguments.port), partial(SignerHandler, service))
    except (SettingsError, OSError, ValueError, OverflowError) as error:
        sys.stderr.write(f"clob-signer: {error}\n")
        return UNUSABLE
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: threading.Thread(target=server.shutdown).start())
    with server:
        sys.stdout.write(f"listening on http://{LOOPBACK}:{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()
    return 0


def parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    described = argparse.ArgumentParser(
        prog="python -m clob_server.chain.signer",
        description="Sign the operator's transactions over HTTP on loopback. The address is "
        "written to standard output, each signature to standard error.",
        epilog="Exit code: 0 after a clean stop, 2 the signer could not start.",
    )
    described.add_argument("key_file", type=Path, metavar="KEY_FILE", help="file with the key")
    described.add_argument("--chain-id", type=int, required=True, metavar="ID", help="the chain")
    described.add_argument(
        "--port", type=int, default=PORT, help="the port; 0 for any (default: %(default)s)"
    )
    described.add_argument(
        "--to",
        type=str.lower,
        action="append",
        default=[],
        metavar="ADDRESS",
        help="sign only transactions to this contract; can be repeated",
    )
    return described


if __name__ == "__main__":
    sys.exit(main())
