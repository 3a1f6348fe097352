"""Checks, their citations and results, and the expectations that checks state."""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from time import monotonic
from typing import Any, Final, NamedTuple

import msgspec

SPECIFICATION: Final = "specification"
"""Source of a citation: the interface specification. Other sources are pages in ``docs/``."""
SHOWN_MAX: Final = 300
"""Longest shown value, in characters."""


class Citation(NamedTuple):
    """A sentence that a check tests."""

    source: str
    """``specification``, or a page of the documentation such as ``concepts/feed.md``."""
    sentence: str
    """The sentence, as it is written there."""


class CheckFailedError(Exception):
    """A server does not behave as the citation of a check states."""

    def __init__(self, subject: str, received: str, expected: str) -> None:
        super().__init__(f"{subject}: received {received}, expected {expected}")
        self.subject = subject
        """What was tested, such as ``status of DELETE /api/orders/ord_1``."""
        self.received = received
        """The received value."""
        self.expected = expected
        """The expected one."""


class CheckSkippedError(Exception):
    """A check does not apply to the server; the message is the reason."""


class UnusableServerError(Exception):
    """No check can run: no server at the address, or no market that can be used."""


class Check(NamedTuple):
    """A named check of one sentence."""

    name: str
    """``subject.rule``, such as ``book.bids-descending``."""
    text: str
    """The rule in a few words."""
    citation: Citation
    """The sentence."""
    run: Callable[[Any], None]
    """Runs the check with a session."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a check."""

    name: str
    """Name of the check."""
    state: str
    """``passed``, ``failed`` or ``skipped``."""
    text: str
    """The rule in a few words."""
    source: str
    """``specification``, or a page of the documentation."""
    sentence: str
    """The sentence that the check tests."""
    subject: str = ""
    """Subject of a failure."""
    received: str = ""
    """The received value."""
    expected: str = ""
    """The expected value."""
    reason: str = ""
    """Reason of a skip."""
    seconds: float = 0.0
    """Duration."""


CHECKS: Final[dict[str, Check]] = {}
"""All checks by name, in the order of their definition."""


def check(source: str, sentence: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a function as a check; its name and its module make the name of the check.

    Args:
        source: :data:`SPECIFICATION`, or a page of the documentation.
        sentence: the sentence that the check tests.
    """

    def register(run: Callable[[Any], None]) -> Callable[[Any], None]:
        subject = run.__module__.rpartition(".")[2]
        name = f"{subject}.{run.__name__.replace('_', '-')}"
        text = (run.__doc__ or "").partition("\n")[0].rstrip(".")
        CHECKS[name] = Check(name, text, Citation(source, sentence), run)
        return run

    return register


def selected(patterns: list[str]) -> list[Check]:
    """Return the checks with a name, a subject or a glob of the patterns; all without a pattern."""
    if not patterns:
        return list(CHECKS.values())
    return [
        each
        for each in CHECKS.values()
        if any(fnmatchcase(each.name, p) or each.name.startswith(f"{p}.") for p in patterns)
    ]


def result_of(each: Check, session: Any) -> Result:
    """Run a check and return its result.

    Raises:
        UnusableServerError: no further check can run.
    """
    begin = monotonic()
    facts: dict[str, str] = {}
    try:
        each.run(session)
        state = "passed"
    except CheckFailedError as failure:
        state = "failed"
        facts = {
            "subject": failure.subject,
            "received": failure.received,
            "expected": failure.expected,
        }
    except CheckSkippedError as skip:
        state, facts = "skipped", {"reason": str(skip)}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        state = "failed"
        facts = {
            "subject": "shape of an answer",
            "received": f"{type(error).__name__}: {error}",
            "expected": "the documented fields and types",
        }
    return Result(
        name=each.name,
        state=state,
        text=each.text,
        source=each.citation.source,
        sentence=each.citation.sentence,
        seconds=round(monotonic() - begin, 3),
        **facts,
    )


# ----- expectations ----------------------------------------------------------------------------


def shown(value: object) -> str:
    """Return a value as text, shortened."""
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def expect(subject: str, received: object, expected: object) -> None:
    """Expect a value of the same type: 50 is not 50.0, and 1 is not true.

    Raises:
        CheckFailedError: it differs.
    """
    if type(received) is not type(expected) or received != expected:
        raise CheckFailedError(subject, shown(received), shown(expected))


def expect_that(subject: str, holds: bool, received: object, expected: str) -> None:
    """Expect that a condition holds.

    Raises:
        CheckFailedError: it does not.
    """
    if not holds:
        raise CheckFailedError(subject, shown(received), expected)


def expect_match(subject: str, received: object, pattern: str, expected: str) -> None:
    """Expect a text that matches a pattern as a whole.

    Raises:
        CheckFailedError: it does not.
    """
    is_match = isinstance(received, str) and re.fullmatch(pattern, received) is not None
    expect_that(subject, is_match, received, expected)


def expect_wei(subject: str, received: object) -> None:
    """Expect an amount in wei: a text of decimal digits.

    Raises:
        CheckFailedError: it is not one.
    """
    expect_match(subject, received, "[0-9]+", "a string of decimal digits, in wei")


def expect_cents(subject: str, received: object) -> None:
    """Expect a price: an integer from 1 to 99.

    Raises:
        CheckFailedError: it is not one.
    """
    is_price = type(received) is int and 1 <= received <= 99
    expect_that(subject, is_price, received, "an integer from 1 to 99")


def expect_milliseconds(subject: str, received: object) -> None:
    """Expect a time in Unix milliseconds, which has 13 digits until the year 2286.

    Raises:
        CheckFailedError: it is not one.
    """
    is_time = type(received) is int and 10**12 <= received < 10**13
    expect_that(subject, is_time, received, "an integer of Unix milliseconds")
