"""Conformance suite: named checks of a server over HTTP and WebSocket.

The command is ``clob-conformance``; :func:`results_of` is the same in Python. The folder has these
parts:

- ``checks``: checks, citations, results and expectations;
- ``session``, ``wallet``, ``feed_reader``: requests, signed bodies, and a WebSocket;
- ``subjects``: the checks, one module per subject;
- ``cli``: the command.
"""

from clob.testing.conformance.checks import Check, Citation, Result, UnusableServerError, selected
from clob.testing.conformance.cli import results_of
from clob.testing.conformance.session import Options

__all__ = [
    "Check",
    "Citation",
    "Options",
    "Result",
    "UnusableServerError",
    "results_of",
    "selected",
]
