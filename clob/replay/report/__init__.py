"""The report of a run: one page of HTML that needs nothing else, and a table for notebooks."""

from clob.replay.report.notebook import notebook
from clob.replay.report.page import page, write_report

__all__ = ["notebook", "page", "write_report"]
