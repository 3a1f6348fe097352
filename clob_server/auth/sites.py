"""Accepts requests by Host and Origin, so that web pages of other sites cannot use a server.

A browser connects any page to any address that its user can reach, and also sends requests that it
does not let the page read. Two headers, which no page can choose, identify such requests: ``Host``
is the name under which the browser found the server, and differs from the names of this server if
that name was rebound to its address. ``Origin`` is the site of the page; requests of the address
bar, of the same page (unless they write) and of programs have none.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from clob_server.api.problems import ApiError
from clob_server.settings import ANY, Settings, SettingsError

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
"""Names that are allowed on every server, with any port."""
EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
"""Values of ``--host`` that are not the address of a machine."""
KNOWN_MAX: Final = 1_024
"""Maximum number of accepted ``Host`` values in the cache."""

_HOST: Final = re.compile(rb"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::[0-9]{1,5})?")
_DEFAULT_PORT: Final = re.compile(rb"^http:.*:80/?$|^https:.*:443/?$")
_ORIGIN: Final = re.compile(rb"[a-z][a-z0-9+.-]*://" + _HOST.pattern + rb"/?")


class Sites:
    """The names and origins that requests are accepted for.

    Args:
        hosts: names in ``Host``, with a port or for any port; ``*`` for any name.
        origins: origins in ``Origin`` besides that of the request's ``Host``; ``*`` for any origin.
    """

    def __init__(self, hosts: Iterable[str] = LOOPBACK, origins: Iterable[str] = ()) -> None:
        self.hosts: Final = tuple(dict.fromkeys(host.lower() for host in hosts))
        self._hosts = frozenset(host.encode() for host in self.hosts)
        self._origins = frozenset(origin.lower().rstrip("/").encode() for origin in origins)
        self._any_host = ANY.encode() in self._hosts
        self._any_origin = ANY.encode() in self._origins
        self._known: set[bytes] = set()

    def check(
        self, headers: Mapping[bytes, bytes], *, any_host: bool = False, own_pages: bool = False
    ) -> None:
        """Reject a request for another host, or from a page of another site.

        Args:
            headers: the headers by lower-case name.
            any_host: whether every ``Host`` is accepted, as for probes.
            own_pages: whether only pages of this server are accepted.

        Raises:
            ApiError: HOST_NOT_ALLOWED, ORIGIN_NOT_ALLOWED.
        """
        host = headers.get(b"host")
        if host not in self._known and not any_host and not self.allows_host(host):
            raise self._other_host(host)
        origin = headers.get(b"origin")
        if origin is None:
            return
        allows = is_own if own_pages else self._allows_origin
        if not allows(origin, host or b""):
            others = "" if own_pages else " or one of --cors-origins"
            raise ApiError(
                "ORIGIN_NOT_ALLOWED",
                f"Origin must be that of this server{others}; got {origin.decode('latin-1')!r:.99}",
            )

    def allows_host(self, host: bytes | None) -> bool:
        """Return whether a value of ``Host`` is a name of this server."""
        if host is None:
            return False
        lower = host.lower()
        parsed = _HOST.fullmatch(lower)
        allowed = parsed is not None and (
            self._any_host or parsed[1] in self._hosts or lower in self._hosts
        )
        if allowed:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known.add(host)
        return allowed

    def _allows_origin(self, origin: bytes, host: bytes) -> bool:
        """Return whether a page of an origin may use this server."""
        return self._any_origin or origin.lower() in self._origins or is_own(origin, host)

    def _other_host(self, host: bytes | None) -> ApiError:
        """Return the rejection of a request for another host."""
        received = "none" if host is None else f"{host.decode('latin-1')!r:.99}"
        return ApiError(
            "HOST_NOT_ALLOWED",
            f"Host must be {' or '.join(self.hosts)}; got {received} (option --allowed-hosts)",
        )


def is_own(origin: bytes, host: bytes) -> bool:
    """Return whether an origin is that of the server with a name.

    The scheme is not compared: behind a proxy that ends TLS the request itself is plain HTTP.
    """
    own = host.lower()
    return origin.lower() in (b"http://" + own, b"https://" + own)


def sites_of(settings: Settings) -> Sites:
    """Return the names and origins of a server: those of its settings, and loopback."""
    hosts = [*LOOPBACK, *settings.allowed_hosts]
    origins = list(settings.cors_origins)
    if settings.host not in EVERY_ADDRESS:
        hosts.append(f"[{settings.host}]" if ":" in settings.host else settings.host)
    public = urlsplit(settings.public_url)
    if public.hostname:
        hosts.append(f"[{public.hostname}]" if ":" in public.hostname else public.hostname)
        origins.append(f"{public.scheme}://{public.netloc}")
    return Sites(hosts, origins)


def check_sites(settings: Settings) -> None:
    """Reject names and origins that no request can have.

    Raises:
        SettingsError: one of them is in another form.
    """
    for host in settings.allowed_hosts:
        if host != ANY and (ANY in host or not _HOST.fullmatch(host.lower().encode())):
            rule = "names as in Host, such as exchange.example or [::1]:8000, or * for any name"
            raise SettingsError(f"--allowed-hosts must be {rule}; got {host!r}")
    for origin in settings.cors_origins:
        lower = origin.lower().encode()
        is_sent = ANY not in origin and _ORIGIN.fullmatch(lower) and not _DEFAULT_PORT.search(lower)
        if origin != ANY and not is_sent:
            rule = (
                "a scheme and a host, such as https://exchange.example, with a port unless it is "
                "the default one, or * for every page"
            )
            raise SettingsError(f"--cors-origins must be {rule}; got {origin!r}")


def unreachable(settings: Settings) -> str:
    """Return a warning if other machines can connect but no name for them is allowed."""
    if settings.host not in EVERY_ADDRESS or set(sites_of(settings).hosts) - set(LOOPBACK):
        return ""
    return (
        "the server listens on all addresses, but accepts only requests for "
        f"{', '.join(LOOPBACK)}; list the names and addresses that clients use in "
        "--allowed-hosts, or set --public-url"
    )
