"""The report of a run: one page of HTML that needs nothing else, and a table for notebooks."""

from clob.replay.report.page import notebook, page, write_report

__all__ = ["notebook", "page", "write_report"]
