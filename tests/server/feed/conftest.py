"""Fixture: a running server for each module."""

import pytest

from tests.server.live import live_server


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("feed")
    with live_server(folder, rate_limits=False, ws_heartbeat_s=1) as server:
        yield server
