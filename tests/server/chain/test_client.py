"""The chain client without a chain or without its package."""

import pytest

from clob_server.api.problems import ApiError
from clob_server.chain import config
from clob_server.chain.client import ChainClient, Stage
from clob_server.settings import Settings


async def on_ready():
    """Do nothing."""


def make_client(settings, folder):
    return ChainClient(settings, folder, on_ready=on_ready, on_end=lambda end: None)


def test_missing_package_is_reported_with_the_install_command(tmp_path, monkeypatch):
    monkeypatch.setattr(config.importlib.util, "find_spec", lambda name: None)
    client = make_client(Settings(chain="embedded"), tmp_path)
    client.start()
    assert client.stage is Stage.MISSING
    with pytest.raises(ApiError, match=r"pip install 'clob\[devchain\]'") as caught:
        client.check_ready()
    assert caught.value.code == "CHAIN_UNAVAILABLE"
    assert list(tmp_path.iterdir()) == []


def test_no_process_is_started_without_a_chain(tmp_path):
    client = make_client(Settings(chain="none"), tmp_path)
    client.start()
    assert client.stage is Stage.NONE
    with pytest.raises(ApiError) as caught:
        client.check_ready()
    assert caught.value.code == "CHAIN_NOT_CONFIGURED"
