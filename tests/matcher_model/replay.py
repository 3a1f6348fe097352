"""Replays a file of commands and prints the result: ``python -m tests.matcher_model.replay FILE``.

It imports nothing but the engine, so that any Python with the engine's dependencies can run it.
Each command in the file is preceded by its length in four bytes, little-endian.
"""

import json
import sys
from pathlib import Path

from clob import Matcher, RejectedError
from clob.codec import CODEC_COMPILED, decode, encode
from clob.journal import ZERO_HASH, event_hash
from clob.matcher.compiled import COMPILED as MATCHER_COMPILED


def write(path, commands):
    """Write commands to a file."""
    raws = map(encode, commands)
    path.write_bytes(b"".join(len(raw).to_bytes(4, "little") + raw for raw in raws))


def read(path):
    """Read commands from a file, one at a time."""
    data, offset = path.read_bytes(), 0
    while offset < len(data):
        end = offset + 4 + int.from_bytes(data[offset : offset + 4], "little")
        yield decode(data[offset + 4 : end])
        offset = end


def replay(path):
    """Replay a file; return the results that must be equal everywhere, and the others."""
    matcher, events, rejected = Matcher(), ZERO_HASH, 0
    for command in read(path):
        try:
            outcome = matcher.apply(command)
        except RejectedError as error:
            outcome = error
            rejected += 1
        events = event_hash(events, outcome)
    matcher.audit()
    same = {"state": matcher.state_hash().hex(), "events": events.hex(), "rejected": rejected}
    about = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "compiled": MATCHER_COMPILED and CODEC_COMPILED,
        "seed": hash("a text"),
    }
    return same, about


if __name__ == "__main__":
    sys.stdout.write(json.dumps(replay(Path(sys.argv[1]))))
