"""Clients that generators make from /openapi.json have every route, and place orders."""

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import FOLDER
from tests.server.api.makers import Maker, MarketIds, good
from tests.server.live import live_server

TSC = (
    *("--strict", "--skipLibCheck", "--target", "es2022", "--lib", "es2023,dom,dom.iterable"),
    *("--module", "commonjs", "--moduleResolution", "node10", "--outDir"),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("generated"), rate_limits=False) as live:
        yield live


@pytest.fixture(scope="module")
def document(live, tmp_path_factory):
    """The file with the server's document."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(live.http.get("/openapi.json").content)
    return path


def operations(document):
    """Return the names of all operations."""
    paths = json.loads(document.read_text())["paths"]
    return {each["operationId"] for methods in paths.values() for each in methods.values()}


def run(*command, cwd, **options):
    """Run a program and return its output; fail if it fails."""
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120, **options
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


# ----- openapi-python-client -------------------------------------------------------------------


@pytest.fixture(scope="module")
def python_client(document, tmp_path_factory):
    """The package made by openapi-python-client, and what the generator printed."""
    pytest.importorskip("openapi_python_client", reason="openapi-python-client is not installed")
    folder = tmp_path_factory.mktemp("python")
    code = "from openapi_python_client.cli import app; app()"
    options = ("--path", str(document), "--output-path", "made_client", "--meta", "none")
    printed = run(sys.executable, "-c", code, "generate", *options, cwd=folder)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("made_client"), printed
    sys.path.remove(str(folder))


def test_openapi_python_client_drops_no_route(python_client, document):
    package, printed = python_client
    assert "Endpoint will not be generated" not in printed
    folder = importlib.resources.files(package) / "api"
    made = {path.stem for path in folder.glob("*/*.py") if path.stem != "__init__"}
    assert made == operations(document)


@pytest.mark.parametrize("operation", ["create_order", "create_gasless_order"])
def test_a_client_of_openapi_python_client_places_and_cancels_an_order(
    python_client, live, operation
):
    package, _ = python_client
    module = importlib.import_module(f"made_client.api.orders.{operation}")
    body = order_for(operation)
    with package.Client(base_url=live.url) as client:
        created = module.sync(client=client, body=model_of(module, body))
        found = good(live.http.get(f"/api/orders/{created.order_id}"))
        assert (found["maker"], found["tokenId"]) == (body["maker"], body["tokenId"])
        cancel = importlib.import_module("made_client.api.orders.cancel_order")
        by = model_of(cancel, {"maker": body["maker"]})
        ended = cancel.sync(created.order_id, client=client, body=by)
    assert ended.status == "cancelled"
    assert good(live.http.get(f"/api/orders/{created.order_id}"))["status"] == "cancelled"


def model_of(module, body):
    """Return a body as the model that an operation of the generated package takes."""
    kind = re.search(r"body: (\w+)", Path(module.__file__).read_text())[1]
    return getattr(importlib.import_module("made_client.models"), kind).from_dict(body)


def order_for(operation):
    """Return the body of an order in a new market."""
    maker = Maker()
    return (maker.signed if operation == "create_order" else maker.gasless)(MarketIds())


# ----- @hey-api/openapi-ts ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def typescript_client(document, tmp_path_factory):
    """The folder of the client made by @hey-api/openapi-ts, compiled with strict types."""
    programs = FOLDER / "node_modules" / ".bin"
    if shutil.which("node") is None or not (programs / "openapi-ts").exists():
        pytest.skip("npm install in tests/clients/js has not been run; `make clients` does")
    folder = tmp_path_factory.mktemp("typescript")
    run(programs / "openapi-ts", "-i", document, "-o", folder / "made", cwd=FOLDER)
    sources = [folder / "made" / name for name in ("index.ts", "client.gen.ts")]
    run(programs / "tsc", *TSC, folder / "compiled", *sources, cwd=folder)
    return folder / "compiled"


def test_openapi_ts_drops_no_route(typescript_client, document):
    exported = re.findall(r"exports\.(\w+) = \w+;", (typescript_client / "sdk.gen.js").read_text())
    names = {
        re.sub(r"_(\w)", lambda found: found[1].upper(), each) for each in operations(document)
    }
    assert names <= set(exported)


@pytest.mark.parametrize("operation", ["create_order", "create_gasless_order"])
def test_a_client_of_openapi_ts_places_and_cancels_an_order(typescript_client, live, operation):
    body = order_for(operation)
    name = {"create_order": "createOrder", "create_gasless_order": "createGaslessOrder"}[operation]
    order_id = sent_by_node(typescript_client, live, name, body=body)["orderId"]
    found = good(live.http.get(f"/api/orders/{order_id}"))
    assert (found["maker"], found["tokenId"]) == (body["maker"], body["tokenId"])
    options = {"path": {"orderId": order_id}, "body": {"maker": body["maker"]}}
    ended = sent_by_node(typescript_client, live, "cancelOrder", **options)
    assert ended["status"] == "cancelled"
    assert good(live.http.get(f"/api/orders/{order_id}"))["status"] == "cancelled"


def sent_by_node(folder, live, name, **options):
    """Send a request with the generated client, and return the answer."""
    command = ("node", FOLDER / "generated.cjs", folder, live.url, name)
    printed = json.loads(run(*command, cwd=FOLDER, input=json.dumps(options)))
    assert "error" not in printed, printed
    return printed["data"]
