"""Requests for other hosts, and from pages of other sites, are rejected on every route."""

import httpx
import pytest

from clob_server.api.problems import ApiError
from clob_server.app import ROUTES
from clob_server.auth.policy import ROUTE_RULES
from clob_server.auth.sites import KNOWN_MAX, Sites, sites_of, unreachable
from clob_server.settings import Settings
from tests.server.live import live_server

OWN = "http://exchange.example"
PROBES = {"health", "ready", "metrics"}


def verdict(sites, host="localhost", origin=None, **options):
    """Return the code of a rejection; None if the request is accepted."""
    headers = {b"host": host, b"origin": origin}
    sent = {name: value.encode() for name, value in headers.items() if value is not None}
    try:
        sites.check(sent, **options)
    except ApiError as error:
        return error.code
    return None


@pytest.mark.parametrize("port", ["", ":1", ":8000", ":65535"])
@pytest.mark.parametrize("name", ["localhost", "LocalHost", "127.0.0.1", "[::1]"])
def test_loopback_names_are_allowed_with_any_port(name, port):
    assert verdict(sites_of(Settings()), name + port) is None


@pytest.mark.parametrize(
    "host",
    [
        None, "", "evil.example", "evil.example:8000", "localhost.evil.example", "evil.localhost",
        "localhost@evil.example", "evil.example/localhost", "192.0.2.1", "0.0.0.0:8000",
        "127.0.0.1.evil.example", "localhost:", "localhost:x", "localhost:1:2", "[::2]", "::1", "*",
        "localhost ", "localhost,evil.example", "localhost\x00",
    ],
)  # fmt: skip
def test_other_hosts_are_rejected(host):
    sites = sites_of(Settings())
    assert verdict(sites, host) == "HOST_NOT_ALLOWED"
    assert verdict(sites, host, any_host=True) is None
    assert verdict(sites, host) == "HOST_NOT_ALLOWED"


def test_rejection_names_the_received_host_the_allowed_ones_and_the_option():
    with pytest.raises(ApiError) as caught:
        sites_of(Settings(allowed_hosts=("exchange.example",))).check({b"host": b"evil.example"})
    assert str(caught.value) == (
        "Host must be localhost or 127.0.0.1 or [::1] or exchange.example; got 'evil.example' "
        "(option --allowed-hosts)"
    )


@pytest.mark.parametrize(
    ("settings", "allowed", "rejected"),
    [
        ({"allowed_hosts": ("a.example", "B.example:81")}, "a.example:5", "a.example.org"),
        ({"allowed_hosts": ("a.example", "B.example:81")}, "b.example:81", "b.example:82"),
        ({"host": "192.0.2.7"}, "192.0.2.7:8000", "192.0.2.8"),
        ({"host": "fd00::7"}, "[fd00::7]:8000", "[fd00::8]"),
        ({"public_url": "https://exchange.example/api"}, "exchange.example", "api.example"),
        ({"host": "0.0.0.0"}, "127.0.0.1", "0.0.0.0"),
        ({"allowed_hosts": ("*",)}, "anything.example:1", "a b"),
    ],
)
def test_settings_add_hosts(settings, allowed, rejected):
    sites = sites_of(Settings(**settings))
    assert verdict(sites, allowed) is None
    assert verdict(sites, "localhost") is None
    assert verdict(sites, rejected) == "HOST_NOT_ALLOWED"


def test_cache_of_hosts_is_bounded():
    sites = Sites(("*",))
    for number in range(KNOWN_MAX + 10):
        assert verdict(sites, f"h{number}.example") is None
    assert len(sites._known) == 10


@pytest.mark.parametrize(
    "origin",
    [
        "null", "", "http://localhost:8001", "http://localhost", "https://localhost", "file://",
        "http://evil.example", "http://127.0.0.1:8000", "http://localhost:8000.evil.example",
        "http://exchange.example:81", "ws://localhost:8000", "http://localhost:8000/",
        "http://localhost:8000, http://evil.example", "chrome-extension://abc", "*",
    ],
)  # fmt: skip
def test_other_origins_are_rejected(origin):
    sites = sites_of(Settings(public_url=OWN, cors_origins=("https://app.example",)))
    assert verdict(sites, "localhost:8000", origin) == "ORIGIN_NOT_ALLOWED"
    assert verdict(sites, "localhost:8000", origin, any_host=True) == "ORIGIN_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8000", None),
        ("localhost:8000", "http://localhost:8000"),
        ("exchange.example", "https://exchange.example"),
        ("127.0.0.1:8000", "https://exchange.example"),
        ("127.0.0.1:8000", "https://app.example"),
        ("[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_own_and_configured_origins_are_accepted(host, origin):
    settings = Settings(
        public_url="https://exchange.example", cors_origins=("https://app.example/",)
    )
    assert verdict(sites_of(settings), host, origin) is None


def test_star_accepts_every_origin():
    sites = sites_of(Settings(cors_origins=("*",)))
    for origin in ("null", "http://evil.example"):
        assert verdict(sites, "localhost", origin) is None


def test_server_on_all_addresses_without_names_is_warned():
    for host in ("0.0.0.0", "::", ""):
        assert "--allowed-hosts, or set --public-url" in unreachable(Settings(host=host))
        assert not unreachable(Settings(host=host, allowed_hosts=("a.example",)))
        assert not unreachable(Settings(host=host, public_url="https://a.example"))
    assert not unreachable(Settings())
    assert not unreachable(Settings(host="192.0.2.7"))


# ----- every route of a server -----------------------------------------------------------------


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("sites"), rate_limits=False) as live:
        yield live


def ask(live, route, headers):
    """Send a request without a body to a route."""
    path = route.path.replace("{", "").replace("}", "")
    return live.http.request(route.method, path, headers=headers)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_but_probes_checks_the_host(live, route):
    answer = ask(live, route, {"Host": "evil.example"})
    assert (route.name in PROBES) == ROUTE_RULES[route.name].any_host
    if route.name == "metrics":
        assert answer.json()["code"] == "TOKEN_REQUIRED"
    elif route.name in PROBES:
        assert answer.status_code == 200
    else:
        assert (answer.status_code, answer.json()["code"]) == (421, "HOST_NOT_ALLOWED")


@pytest.mark.parametrize("origin", ["null", "http://127.0.0.1:1", "https://evil.example"])
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_checks_the_origin(live, route, origin):
    answer = ask(live, route, {"Origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "ORIGIN_NOT_ALLOWED")
    assert f'got "{origin}"' in answer.json()["detail"]


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_unknown_paths_check_host_and_origin(live, method):
    for headers, code in [
        ({"Host": "evil.example"}, "HOST_NOT_ALLOWED"),
        ({"Origin": "null"}, "ORIGIN_NOT_ALLOWED"),
    ]:
        assert live.http.request(method, "/nowhere", headers=headers).json()["code"] == code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 101),
        ({"Origin": "own"}, 101),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ],
    ids=str,
)
def test_handshake_of_a_websocket_checks_host_and_origin(live, headers, status):
    handshake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    sent = {name: live.url if value == "own" else value for name, value in headers.items()}
    with httpx.stream("GET", f"{live.url}/ws", headers=handshake | sent) as answer:
        assert answer.status_code == status
        if status != 101:
            assert answer.read()
            assert answer.json()["code"].endswith("_NOT_ALLOWED")
