"""``clob verify``: one output line per journal, and the exit code."""

import gzip

import pytest

from clob.cli import main
from clob.journal import ZERO_HASH, encode_frame, frame_hash, read_frames
from clob.order import Side
from tests.journal.stories import STORY, journal_of, submit


@pytest.fixture
def story(tmp_path):
    """Return the path of a journal file, and its recorder."""
    frames, recorder = journal_of(STORY)
    path = tmp_path / "story.frames"
    path.write_bytes(b"".join(frames))
    return path, recorder


def test_valid_journal(story, capsys):
    path, recorder = story
    assert main(["verify", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == (
        f"{path}: ok, 6 frames, 36 commands, rejected CLOCK_WENT_BACK 1, DUPLICATE_ORDER 1, "
        "MARKET_EXISTS 1, MARKET_NOT_OPEN 2, NONCE_TOO_LOW 1, ORDER_NOT_OPEN 1, "
        "PRICE_OUT_OF_RANGE 1, TOKEN_NOT_IN_MARKET 1, UNKNOWN_ORDER 1, last command 36, "
        f"state hash {recorder.matcher.state_hash().hex()}\n"
    )


def test_compressed_journal(story, tmp_path, capsys):
    path, recorder = story
    compressed = tmp_path / "story.frames.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    assert main(["verify", str(compressed)]) == 0
    assert f"state hash {recorder.matcher.state_hash().hex()}\n" in capsys.readouterr().out
    for damaged in (compressed.read_bytes()[:-9], compressed.read_bytes()[:-8] + bytes(8)):
        compressed.write_bytes(damaged)
        assert main(["verify", str(compressed)]) == 1
        assert f"{compressed}: damaged gzip file: " in capsys.readouterr().out


def test_empty_journal(tmp_path, capsys):
    (tmp_path / "none").write_bytes(b"")
    assert main(["verify", str(tmp_path / "none")]) == 0
    assert ": ok, 0 frames, 0 commands, rejected none, last command 0, " in capsys.readouterr().out


def test_tampered_command_is_reported(tmp_path, capsys):
    [frame] = read_frames(journal_of(STORY[:4])[0])
    outcomes = [outcome + bytes(24) for outcome in frame.outcomes]
    commands = [*STORY[:3], submit("b", Side.BUY, 55, 101, now_ms=4)]
    path = tmp_path / "tampered"
    path.write_bytes(encode_frame(commands, 1, ZERO_HASH, outcomes=outcomes))
    assert main(["verify", str(path)]) == 1
    out, err = capsys.readouterr()
    expected = frame.outcomes[3].hex()
    assert f"{path}: REPLAY_DIFFERS: outcome of command 4 differs: journal {expected}" in out
    assert err == ""


def test_damaged_journal_is_reported(story, capsys):
    path, _ = story
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert main(["verify", str(path)]) == 1
    assert f"{path}: FRAME_TRUNCATED: frame 6 at byte " in capsys.readouterr().out
    path.write_bytes(data[:200] + b"!" + data[201:])
    assert main(["verify", str(path)]) == 1
    assert f"{path}: CHAIN_BROKEN: frame 1 at byte 0: " in capsys.readouterr().out


def test_unreadable_files_exit_with_2(tmp_path, capsys):
    newer = tmp_path / "newer"
    newer.write_bytes(b"CLOBFRM\x04")
    assert main(["verify", str(newer), str(tmp_path / "missing")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"clob: FRAME_NEWER: {newer}: frame 1 at byte 0: " in err
    assert f"clob: FILE_UNREADABLE: {tmp_path / 'missing'}: No such file or directory\n" in err


def test_exit_code_is_that_of_the_worst_file(story, tmp_path, capsys):
    good, _ = story
    bad = tmp_path / "bad\x1b[2J"
    bad.write_bytes(b"no frame")
    assert main(["verify", str(good), str(bad), str(good)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [": ok, " in line for line in lines] == [True, False, True]
    assert "\x1b" not in lines[1]
    assert "FRAME_MALFORMED" in lines[1]


def test_file_argument_is_required(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["verify"])
    assert caught.value.code == 2
    assert "FILE" in capsys.readouterr().err


def test_journal_without_its_first_frame_is_rejected(story, tmp_path, capsys):
    frames, _ = journal_of(STORY)
    assert frame_hash(frames[0]) != ZERO_HASH
    (tmp_path / "middle").write_bytes(frames[1])
    assert main(["verify", str(tmp_path / "middle")]) == 1
    assert "CHAIN_BROKEN" in capsys.readouterr().out
