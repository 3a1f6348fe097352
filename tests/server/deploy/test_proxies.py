"""Samples of proxies, run as they are delivered: TLS, WebSockets, the address of the client."""

import contextlib
import datetime
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.sync.client import connect

from clob.client import Client
from tests.server.api.makers import SELL, ApiClient, Maker, MarketIds
from tests.server.live import END_S, START_S, live_server

DEPLOY = Path(__file__).parents[3] / "deploy"
HOST = "exchange.example"
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
CADDY = shutil.which("caddy")
OTHER = "127.0.0.2"
"""Address of a client on another machine, as the proxy sees it."""
HTTP_BLOCK = """
daemon off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/clob.conf;
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def write_certificate(folder):
    """Write a certificate for the host, and its key; return both paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths = folder / "fullchain.pem", folder / "privkey.pem"
    paths[0].write_bytes(certificate.public_bytes(pem))
    paths[1].write_bytes(key.private_bytes(pem, *private))
    return paths


class Proxied:
    """A server behind a proxy.

    Args:
        port: port of the proxy on loopback.
        certificate: path of its certificate.
    """

    def __init__(self, port, certificate):
        self.port = port
        self.url = f"https://{HOST}:{port}"
        self.tls = ssl.create_default_context(cafile=certificate)

    @contextlib.contextmanager
    def http(self, **headers):
        """Yield an HTTP client on another machine; names are resolved to loopback."""
        transport = httpx.HTTPTransport(verify=self.tls, local_address=OTHER)
        connect_tcp = transport._pool._network_backend.connect_tcp
        transport._pool._network_backend.connect_tcp = lambda host, port, **more: connect_tcp(
            "127.0.0.1", port, **more
        )
        with httpx.Client(
            base_url=self.url, transport=transport, timeout=START_S, headers=headers
        ) as http:
            yield http

    def websocket(self):
        """Return a connection to the feed."""
        return connect(
            f"wss://{HOST}:{self.port}/ws",
            sock=socket.create_connection(("127.0.0.1", self.port)),
            ssl=self.tls,
        )


@contextlib.contextmanager
def nginx(folder, upstream, port):
    certificate, key = write_certificate(folder)
    text = (DEPLOY / "nginx.conf").read_text()
    changes = {
        "127.0.0.1:8000": upstream,
        "listen 80": f"listen 127.0.0.1:{free_port()}",
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/letsencrypt/live/exchange.example/fullchain.pem": str(certificate),
        "/etc/letsencrypt/live/exchange.example/privkey.pem": str(key),
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "clob.conf").write_text(text)
    (folder / "nginx.conf").write_text(HTTP_BLOCK.format(folder=folder))
    command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with running(command, port):
        yield Proxied(port, certificate)


@contextlib.contextmanager
def caddy(folder, upstream, port):
    certificate, key = write_certificate(folder)
    text = (DEPLOY / "Caddyfile").read_text()
    site = "{$EXCHANGE_HOST} {"
    assert site in text
    # A certificate of our own instead of one from the internet, and a port without rights.
    text = text.replace(site, f"{site}\n\ttls {certificate} {key}")
    head = "{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n}\n"
    (folder / "Caddyfile").write_text(head + text)
    command = [CADDY, "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    names = {"EXCHANGE_HOST": f"{HOST}:{port}", "EXCHANGE_UPSTREAM": upstream}
    homes = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with running(command, port, **names, **homes):
        yield Proxied(port, certificate)


@contextlib.contextmanager
def running(command, port, **environment):
    """Run a proxy within the block, once it listens."""
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE)
    try:
        while not is_open(port):
            if process.poll() is not None:
                raise AssertionError(process.stderr.read().decode())
        yield
    finally:
        process.terminate()
        process.communicate(timeout=END_S)


def is_open(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
        return True
    return False


@pytest.fixture(
    params=[
        pytest.param(
            nginx, marks=pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
        ),
        pytest.param(
            caddy,
            marks=pytest.mark.skipif(CADDY is None, reason="not here: caddy is not installed"),
        ),
    ]
)
def proxied(request, tmp_path):
    """A server behind each of the proxies, and the file with the server's log."""
    (tmp_path / "proxy").mkdir()
    log = tmp_path / "log"
    port = free_port()
    with (
        log.open("w") as stderr,
        live_server(
            tmp_path / "data",
            stderr=stderr,
            trusted_proxies="127.0.0.1",
            public_url=f"https://{HOST}",
            access_log=True,
            log_level="info",
        ) as live,
        request.param(tmp_path / "proxy", live.url.removeprefix("http://"), port) as proxy,
    ):
        yield proxy, log


def test_proxy_forwards_orders_and_names_the_client(proxied):
    proxy, log = proxied
    market = MarketIds()
    with proxy.http(**{"X-Forwarded-For": "203.0.113.9"}) as http:
        assert list(Client(proxy.url, http=http).markets()) == []
        api = ApiClient(http)
        placed = api.gasless(Maker().gasless(market, SELL, price=60))
        assert placed["status"] == "open"
        answer = http.get("/metrics")
        assert answer.status_code == 404
        # A problem of the server, in its own words, which does not wait for its history.
        problem = http.get("/api/markets/absent")
        assert problem.status_code == 404
        assert problem.json()["code"] == "UNKNOWN_MARKET"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    clients = {line["client"] for line in lines if line["message"] == "request"}
    assert clients == {OTHER}


def test_proxy_forwards_the_feed(proxied):
    proxy, _ = proxied
    market = MarketIds()
    with proxy.http() as http, proxy.websocket() as feed:
        feed.send(json.dumps({"type": "subscribe", "channel": "orderbook", "marketId": market.id}))
        ApiClient(http).gasless(Maker().gasless(market, SELL, price=60))
        texts = []
        while not any(re.search(r'"price": ?60', text) for text in texts):
            texts.append(feed.recv(timeout=START_S))
