"""Mutated files of every format are read or rejected, without any other error."""

import contextlib
import random  # noqa: TID251 - seeded
import warnings

import pytest

from clob.replay import ReplayFormatError, ReplayWarning, backtest, open_stream
from tests.replay.readers import mutants

TEXTS = (
    *("lobster", "kalshi", "betfair", "polymarket", "kalshi-ws"),
    *("dbn", "journal", "export", "table"),
)
SEEDS = [range(150), pytest.param(range(1_000, 1_800), marks=pytest.mark.long)]


@contextlib.contextmanager
def naming(file):
    """Name the mutated file in the error."""
    try:
        yield
    except Exception as error:
        error.add_note(file)
        raise


def read(path, form, draw):
    """Read and replay a file; return whether it was rejected."""
    options = {} if form == "npz" else {"on_problem": draw.choice(("raise", "warn"))}
    mode, chunk = draw.choice(("rematch", "rematch", "shadow")), draw.choice((7, 4_096))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplayWarning)
        try:
            stream = open_stream(path, draw.choice((form, form, "auto")), **options)
            result = backtest(stream, mode=mode, chunk=chunk, sample=draw.choice((None, 5)))
        except ReplayFormatError:
            return True
    assert result.digest
    return False


@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
@pytest.mark.parametrize("form", TEXTS)
def test_mutated_text_is_read_or_rejected(tmp_path, form, seeds):
    name, text, beside = mutants.texts(tmp_path)[form]
    rejected = 0
    for seed in seeds:
        draw = random.Random(seed)
        (tmp_path / name).write_bytes(mutants.changed(text, draw))
        for other, its_text in beside.items():
            (tmp_path / other).write_bytes(mutants.changed(its_text, draw))
        with naming(f"{form}, seed {seed}"):
            rejected += read(tmp_path / name, form, draw)
    assert 0 < rejected < len(seeds)


@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
@pytest.mark.parametrize("form", mutants.ARRAYS)
def test_mutated_arrays_are_read_or_rejected(tmp_path, form, seeds):
    path = tmp_path / "flow.npz"
    rejected = 0
    for seed in seeds:
        draw = random.Random(seed)
        mutants.ARRAYS[form](path, draw)
        with naming(f"{form}, seed {seed}"):
            rejected += read(path, form, draw)
    assert 0 < rejected < len(seeds)
