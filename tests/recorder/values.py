"""Records of behaviour: hashes by name, with facts that help to understand a difference."""

import hashlib
import json
from typing import Any

import msgspec

PART = 10_000
"""Lines between two intermediate hashes of a sequence."""

HUMAN = frozenset(["title", "summary", "description", "detail", "error", "message", "explanation"])
"""Keys of JSON objects whose texts are wording."""


class Records(dict[str, dict[str, Any]]):
    """Records by name: the hash, facts that help to understand a difference, at times the value."""

    def put(self, name: str, content: Any, *, keep: bool = False, **facts: Any) -> None:
        """Add a record of bytes, or of anything that JSON can hold."""
        raw = content if isinstance(content, bytes) else canonical(content).encode()
        self[name] = {"hash": short(raw), "facts": facts}
        if keep:
            self[name]["value"] = json.loads(canonical(content))

    def put_split(self, name: str, content: Any, **facts: Any) -> None:
        """Add a record without its wording, and one of the whole under ``.text``."""
        stripped = without_wording(content)
        self.put(name, stripped, keep=True, **facts)
        if stripped != content:
            self.put(f"{name}.text", content, keep=True)


def canonical(value: Any) -> str:
    """Write JSON in one way."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def short(raw: bytes) -> str:
    """Hash bytes; 32 hexadecimal digits are enough to compare."""
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def without_wording(value: Any) -> Any:
    """Copy JSON without the texts under keys of :data:`HUMAN`; objects under them stay."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (k in HUMAN and isinstance(v, str))}
        return {key: without_wording(inner) for key, inner in kept.items()}
    return [without_wording(each) for each in value] if isinstance(value, list) else value


class Digest:
    """The hash of a sequence of lines, with the hash so far after every ``PART`` lines."""

    def __init__(self) -> None:
        self.hash, self.lines, self.parts = hashlib.blake2b(digest_size=16), 0, []

    def add(self, line: object) -> None:
        """Take in the ``repr`` of one more value."""
        self.hash.update(repr(line).encode() + b"\n")
        self.lines += 1
        if not self.lines % PART:
            self.parts.append(self.hash.hexdigest()[:8])

    def put(self, records: Records, name: str, **facts: Any) -> None:
        """Add the record."""
        records.put(name, self.hash.hexdigest(), lines=self.lines, parts=self.parts, **facts)


def plain(event: Any) -> Any:
    """Turn an event into builtins; a rejection inside a batch into its index and code."""
    if hasattr(event, "code"):
        return "rejected", event.index, event.code
    return msgspec.to_builtins(event)
