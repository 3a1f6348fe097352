"""What is wrong with input: reported with file, line and kind, counted, never silently repaired."""

import dataclasses
import os
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeAlias

from clob.replay.errors import ReplayFormatError, ReplayWarning

Policy: TypeAlias = Literal["raise", "warn"]
"""What becomes of a problem: an error, or a warning for the first of its kind and a count."""

KEPT = 5
"""How many problems of a kind are kept whole; the others are only counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class FileProblem:
    """One thing that is wrong with, or was concluded about, a file."""

    kind: str
    """A word or two, as ``"truncated line"``; the same for all that are alike."""
    text: str
    """What was found, and what was expected."""
    file: str
    """The name of the file, without its folder."""
    line: int
    """The line or record, counted from 1; 0 where it is not of one line."""

    def __str__(self) -> str:
        """Write it as compilers do: file, line, kind, text."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.kind}: {self.text}"


class Problems:
    """The problems of one stream, and the remarks about what its reader had to conclude.

    Counts are those of the last reading: a stream that is read anew begins with none.

    Args:
        policy: ``"raise"`` makes an error of the first problem; ``"warn"`` gives a Python warning
            for the first of each kind, counts it, and leaves out what is broken.

    Raises:
        ValueError: the policy is neither.
    """

    def __init__(self, policy: Policy = "raise") -> None:
        if policy not in ("raise", "warn"):
            raise ValueError(f'the policy must be "raise" or "warn", not {policy!r}')
        self.policy: Policy = policy
        """What becomes of a problem."""
        self.counts: Counter[str] = Counter()
        """How many problems there were, by kind."""
        self.remarks: Counter[str] = Counter()
        """How often the reader concluded something that the file does not say, by kind."""
        self.kept: list[FileProblem] = []
        """The first few problems of each kind, in order."""

    def __len__(self) -> int:
        """Count all problems; remarks are none."""
        return self.counts.total()

    def report(self, kind: str, text: str, file: str | os.PathLike[str], line: int = 0) -> None:
        """Take down a problem.

        Args:
            kind: a word or two, the same for all that are alike.
            text: what was found, and what was expected.
            file: the file; only its name is kept.
            line: the line or record, counted from 1; 0 for none.

        Raises:
            ReplayFormatError: the policy is to raise.
        """
        problem = FileProblem(kind, text, os.path.basename(file), line)
        if self.policy == "raise":
            raise ReplayFormatError(str(problem))
        self.counts[kind] += 1
        if self.counts[kind] == 1:
            warnings.warn(str(problem), ReplayWarning, stacklevel=2)
        if self.counts[kind] <= KEPT:
            self.kept.append(problem)

    def remark(self, kind: str, count: int = 1) -> None:
        """Count what the reader concluded and nobody needs to be stopped by.

        Args:
            kind: a few words, as ``"order never announced"``.
            count: how many of it.
        """
        if count:
            self.remarks[kind] += count

    def gather(self, parts: Iterable["Problems"]) -> None:
        """Become the sum of others, as of the parts of a merged stream.

        Args:
            parts: the others; they stay as they are.
        """
        self.clear()
        for part in parts:
            self.counts += part.counts
            self.remarks += part.remarks
            self.kept += part.kept

    def clear(self) -> None:
        """Forget all; a stream does so when it is read anew."""
        self.counts.clear()
        self.remarks.clear()
        self.kept.clear()


class Ignored(Problems):
    """Counts and says nothing, for a first reading whose problems the second reports."""

    def __init__(self) -> None:
        super().__init__("warn")

    def report(self, kind: str, text: str, file: str | os.PathLike[str], line: int = 0) -> None:
        """Count, and keep the first."""
        self.counts[kind] += 1
        if not self.kept:
            self.kept.append(FileProblem(kind, text, os.path.basename(file), line))
