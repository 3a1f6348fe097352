"""The fixtures that run tests over both codecs."""

import pytest

from clob import codec, journal
from clob.journal import frames
from tests.journal.values import CODECS, load


@pytest.fixture(params=CODECS)
def any_codec(request):
    """The codec in plain Python, and the compiled one."""
    return load(request.param)


@pytest.fixture(params=CODECS, scope="module")
def journal_codec(request):
    """Frames and journals use the one codec, and then the other."""
    chosen = load(request.param)
    with pytest.MonkeyPatch.context() as patch:
        for module in (frames, journal):
            for name in vars(module).keys() & set(codec.__all__):
                patch.setattr(module, name, getattr(chosen, name))
        yield
