"""Fixtures that run a test with both codecs."""

import pytest

from clob import codec, journal
from clob.journal import frames
from tests.journal.values import CODECS, load


@pytest.fixture(params=CODECS)
def any_codec(request):
    """The pure-Python codec, then the compiled one."""
    return load(request.param)


@pytest.fixture(params=CODECS, scope="module")
def journal_codec(request):
    """Make frames and journals use the pure-Python codec, then the compiled one."""
    chosen = load(request.param)
    with pytest.MonkeyPatch.context() as patch:
        for module in (frames, journal):
            for name in vars(module).keys() & set(codec.__all__):
                patch.setattr(module, name, getattr(chosen, name))
        yield
