"""A stream that the tests of sweeps share."""

import pytest

from clob.replay import Stream


@pytest.fixture(scope="session")
def stream(day):
    return Stream.of(day)
