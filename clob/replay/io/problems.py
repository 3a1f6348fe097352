"""Problems of the input: reported with file, line and kind, counted, never silently repaired."""

import dataclasses
import os
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeAlias

from clob.replay.errors import ReplayFormatError, ReplayWarning

Policy: TypeAlias = Literal["raise", "warn"]
"""``"raise"`` raises on the first problem; ``"warn"`` warns once per kind and counts."""

KEPT = 5
"""How many problems of a kind are stored; further ones are only counted."""


HEADER_AGAIN = "header line repeated"
"""The remark for a line of column names after the first, as in files that were joined."""


@dataclasses.dataclass(frozen=True, slots=True)
class FileProblem:
    """One problem of a file."""

    kind: str
    """A word or two, such as ``"truncated line"``; the same for all problems of a kind."""
    text: str
    """The value received and the value expected."""
    file: str
    """The name of the file, without its directory."""
    line: int
    """The line or record, counted from 1; 0 for a problem of the whole file."""

    def __str__(self) -> str:
        """Format the problem like a compiler message: file, line, kind, text."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.kind}: {self.text}"


class Problems:
    """The problems of one stream, and remarks on conclusions that its reader drew.

    Counts are those of the latest reading: each reading starts from zero.

    Args:
        policy: ``"raise"`` raises an error for the first problem; ``"warn"`` issues a Python
            warning for the first of each kind, counts the problem, and skips the broken input.

    Raises:
        ValueError: the policy is unknown.
    """

    def __init__(self, policy: Policy = "raise") -> None:
        if policy not in ("raise", "warn"):
            raise ValueError(f'policy must be "raise" or "warn"; got {policy!r}')
        self.policy: Policy = policy
        self.counts: Counter[str] = Counter()
        """Number of problems by kind."""
        self.remarks: Counter[str] = Counter()
        """Number of conclusions the reader drew beyond the text of the file, by kind."""
        self.kept: list[FileProblem] = []
        """The first few problems of each kind, in order."""

    def __len__(self) -> int:
        """Number of problems, without remarks."""
        return self.counts.total()

    def report(self, kind: str, text: str, file: str | os.PathLike[str], line: int = 0) -> None:
        """Raise or count a problem, depending on the policy.

        Args:
            kind: a word or two, the same for all problems of a kind.
            text: the value received and the value expected.
            file: the file; only its name is stored.
            line: the line or record, counted from 1; 0 for the whole file.

        Raises:
            ReplayFormatError: the policy is ``"raise"``.
        """
        problem = FileProblem(kind, text, os.path.basename(file), line)
        if self.policy == "raise":
            raise _skippable(str(problem))
        self.counts[kind] += 1
        if self.counts[kind] == 1:
            warnings.warn(str(problem), ReplayWarning, stacklevel=2)
        if self.counts[kind] <= KEPT:
            self.kept.append(problem)

    def remark(self, kind: str, count: int = 1) -> None:
        """Count a conclusion of the reader that is not an error.

        Args:
            kind: a few words, such as ``"order never announced"``.
            count: how many to add.
        """
        if count:
            self.remarks[kind] += count

    def gather(self, parts: Iterable["Problems"]) -> None:
        """Replace the contents by the sum of others, as for a merged stream."""
        self.clear()
        for part in parts:
            self.counts += part.counts
            self.remarks += part.remarks
            self.kept += part.kept

    def clear(self) -> None:
        """Remove all problems and remarks; a stream does this when a reading starts."""
        self.counts.clear()
        self.remarks.clear()
        self.kept.clear()


def _skippable(text: str) -> ReplayFormatError:
    """Return an error; a local variable of the frame that raises it would keep files open."""
    error = ReplayFormatError(text)
    error.skippable = True
    return error


class Ignored(Problems):
    """Counts without a warning, for a first pass whose problems the second pass reports."""

    def __init__(self) -> None:
        super().__init__("warn")

    def report(self, kind: str, text: str, file: str | os.PathLike[str], line: int = 0) -> None:
        """Count the problem and store the first."""
        self.counts[kind] += 1
        if not self.kept:
            self.kept.append(FileProblem(kind, text, os.path.basename(file), line))

    def clause(self) -> str:
        """Return the first problem as the end of an error text; empty if there was none.

        A file in which a first pass finds nothing has this problem in most of its lines.
        """
        if not self.kept:
            return ""
        first = self.kept[0]
        place = f"line {first.line}: " if first.line else ""
        return f"; {place}{first.kind}: {first.text}"
