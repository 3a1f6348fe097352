"""Responses of a live server match /openapi.json, tested with schemathesis."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.live import live_server
from tests.server.meta.operators import token_of

# A body may be right by its schema and wrong by its meaning: 422. Of a batch each order has its
# own result, and so has an order that is only to be checked: an error of it is not a rejection.
# Chain operations are rejected with 503 without a chain, and so is a minSeq that does not come. A
# body that is too large is a 413.
CONFIG = """
hooks = "described_codes.py"

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "401", "403", "404", "409", "422", "503"]

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "413", "415", "422", "503"]

[[operations]]
include-operation-id = ["create_batch", "cancel_batch", "validate_order"]
checks.negative_data_rejection.enabled = false

[[operations]]
include-operation-id = [
  "gasless_split", "gasless_merge", "gasless_redeem", "gasless_wrap", "gasless_unwrap",
  "gasless_faucet", "gasless_operation",
  "gasless_deposit", "gasless_withdraw_request", "gasless_withdraw",
  "send_from_dev_wallet", "call_contracts", "get_receipt",
  "admin_list_operations", "admin_retry_operation", "admin_create_market",
  "list_orders", "list_fills", "get_account", "get_orderbook", "get_ticker", "list_tickers",
]
checks.not_a_server_error.enabled = false
"""
HOOKS = Path(__file__).with_name("described_codes.py")
PROGRAM = Path(sys.executable).with_name("st")


def ask_everything(live, folder, *options, token=None):
    """Run schemathesis with all of its checks."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG)
    shutil.copy(HOOKS, folder)
    command = [shutil.which(PROGRAM), "--config-file", str(config), "--no-color", "run"]
    command += [f"{live.url}/openapi.json", "--seed", "1", *options]
    if token is not None:
        command += ["-H", f"Authorization: Bearer {token}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout[:2000] + done.stdout[-4000:]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("data"), rate_limits=False) as live:
        yield live


def test_responses_match_the_openapi_document(live, tmp_path):
    ask_everything(live, tmp_path, "--phases", "examples,coverage", token=token_of(live))


@pytest.mark.long
@pytest.mark.parametrize("environment", ["test", "production"])
@pytest.mark.parametrize("with_token", [False, True], ids=["nobody", "operator"])
def test_responses_match_the_openapi_document_in_a_long_run(tmp_path, environment, with_token):
    domain = {
        "eip712_name": "clob",
        "eip712_version": "1",
        "chain_id": 31337,
        "verifying_contract": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
    }
    settings = {"environment": environment, "rate_limits": False, **domain}
    # The short test asks the other phases as the operator of a test environment.
    phases = ("--phases", "fuzzing,stateful") if environment == "test" and with_token else ()
    with live_server(tmp_path / "data", **settings) as live:
        token = token_of(live) if with_token else None
        ask_everything(live, tmp_path, "-n", "5", *phases, token=token)
