"""Recorded order flow run through the Book, and its fills held against the recorded ones.

The only part of the package that needs NumPy to be imported: ``pip install "clob[replay]"``.
"""

from clob.records import EVENT, FILL, Flag, Kind
from clob.replay.errors import ReplayFormatError
from clob.replay.npz import read_npz, write_npz
from clob.replay.recording import Recording
from clob.replay.run import Check, Result, replay
from clob.replay.synthetic import sample_path, synthetic_day

__all__ = [
    "EVENT",
    "FILL",
    "Check",
    "Flag",
    "Kind",
    "Recording",
    "ReplayFormatError",
    "Result",
    "read_npz",
    "replay",
    "sample_path",
    "synthetic_day",
    "write_npz",
]
