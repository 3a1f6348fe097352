"""Recorded hours in rematch mode: how many incoming orders match exactly, and other causes."""

import pytest

from clob.replay.backtest import backtest
from clob.replay.readers.lobster import read_lobster
from clob.replay.readers.mbo import read_mbo
from tests.books import load
from tests.real.data import data_file

FUTURES = "esh4_20231225_mbo.npz"
STOCK = "lobster_AAPL_2012-06-21_0930_0950_message_50.csv"


def test_rematch_of_an_hour_of_futures():
    result = backtest(read_mbo(data_file(FUTURES)))
    check = result.check
    # 98.05 %: all differences are iceberg orders and their queue places after each new part.
    assert (check.exact, check.takers) == (2_914, 2_972)
    assert check.recorded == 6_229
    assert result.divergence.counts == {"hidden": 27, "sequence": 31}


def test_rematch_of_twenty_minutes_of_a_stock():
    result = backtest(read_lobster(data_file(STOCK)))
    # 99.83 %: two of 1,182 orders were filled out of priority.
    assert (result.check.exact, result.check.takers) == (1_180, 1_182)
    assert result.divergence.counts == {"orders": 2}


@pytest.mark.long
@pytest.mark.parametrize(("reader", "name"), [(read_mbo, FUTURES), (read_lobster, STOCK)])
def test_chunks_and_book_class_do_not_change_the_result(reader, name):
    whole = backtest(reader(data_file(name)))
    for arguments in ({"chunk": 7}, {"chunk": 4_096}, {"book_class": load("python")}):
        other = backtest(reader(data_file(name)), **arguments)
        assert other.digest == whole.digest
        assert (other.check, other.divergence) == (whole.check, whole.divergence)
