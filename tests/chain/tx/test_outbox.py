"""The outbox: rows survive a restart, nonces are unique, all signed bytes are stored."""

import itertools
import os
import random  # noqa: TID251 - seeded, and outside the engine
import subprocess
import sys

import apsw
import pytest

from clob_server.chain.tx.outbox import FILE, Outbox, OutboxBehindError, OutboxError
from clob_server.chain.tx.steps import Draft, SignedTransaction

NOW_MS = 1_700_000_000_000
HOLD = """
import os, sys
from pathlib import Path
from clob_server.chain.tx.outbox import Outbox
outbox = Outbox(Path(sys.argv[1]))
outbox.begin("kept", "faucet", b"{}", 1)
outbox.commit()
outbox.begin("not kept", "faucet", b"{}", 1)
print("ready", flush=True)
sys.stdin.read()
os._exit(9)
"""


@pytest.fixture
def outbox(tmp_path):
    outbox = Outbox(tmp_path / "chain")
    yield outbox
    outbox.close()


def reopen(outbox):
    """Open the outbox again, as the next process does."""
    outbox.close()
    return Outbox(outbox.path.parent)


def draft(operation, name, nonce, **more):
    values = {"target": "0xa", "data": b"\1\2", "value": 3, "gas": 4, "expects": "", "head": 5}
    return Draft(operation=operation, name=name, nonce=nonce, **{**values, **more})


def offer(number, fee=2**70):
    return SignedTransaction(f"0x{number:064x}", bytes([number % 256]), fee, fee - 1)


def begin(outbox, name="first"):
    return outbox.begin(name, "merge", b'{"kind":"merge"}', NOW_MS)


def test_operations_survive_a_restart(outbox):
    made = begin(outbox)
    outbox.set_status(begin(outbox, "second").number, "done", answer=b'{"a":1}')
    outbox.set_status(begin(outbox, "third").number, "stuck", error="why")
    outbox = reopen(outbox)
    assert outbox.pending() == [made]
    assert outbox.find("second").answer == b'{"a":1}'
    assert [(each.id, each.error) for each in outbox.stuck()] == [("third", "why")]
    assert outbox.find("fourth") is None
    assert outbox.counts == {"pending": 1, "done": 1, "failed": 0, "stuck": 1}
    outbox.close()


def test_operation_ids_are_unique(outbox):
    begin(outbox)
    with pytest.raises(apsw.ConstraintError):
        begin(outbox)


def test_nonces_are_unique(outbox):
    operation = begin(outbox).number
    outbox.insert_signed(draft(operation, "mergeTx", 7), offer(1))
    with pytest.raises(apsw.ConstraintError):
        outbox.insert_signed(draft(operation, "returnTx", 7), offer(2))


def test_current_step_names_are_unique(outbox):
    operation = begin(outbox).number
    outbox.insert_signed(draft(operation, "mergeTx", 7), offer(1))
    with pytest.raises(apsw.ConstraintError):
        outbox.insert_signed(draft(operation, "mergeTx", 8), offer(2))


def test_signed_bytes_and_fees_survive_a_restart(outbox):
    operation = begin(outbox).number
    number = outbox.insert_signed(draft(operation, "mergeTx", 7, value=2**200), offer(1))
    outbox.add_transaction(number, offer(2, 2**80))
    outbox = reopen(outbox)
    step = outbox.current_steps(operation)["mergeTx"]
    assert step == outbox.step(number)
    assert step.transactions == (offer(1), offer(2, 2**80))
    assert (step.status, step.nonce, step.value, step.data) == ("signed", 7, 2**200, b"\1\2")
    assert (outbox.num_bumped, outbox.num_foreign, outbox.next_nonce()) == (1, 0, 8)
    outbox.close()


def test_receipt_of_a_step_is_recorded_and_reset(outbox):
    operation = begin(outbox).number
    number = outbox.insert_signed(draft(operation, "mergeTx", 7), offer(1))
    assert outbox.highest_included_nonce() == -1
    outbox.record_error(number, "underpriced")
    assert outbox.step(number).error == "underpriced"
    outbox.record_receipt(number, "confirmed", offer(1).hash, 12, b"[]", None)
    step = outbox.step(number)
    assert (step.status, step.block, step.hash, step.error) == (
        "confirmed",
        12,
        offer(1).hash,
        None,
    )
    assert outbox.highest_included_nonce() == 7
    outbox.reset_step(number)
    step = outbox.step(number)
    assert (step.status, step.block, step.hash) == ("signed", None, None)
    assert outbox.from_nonce(7) == [step]
    assert outbox.from_nonce(8) == []


def test_lost_step_can_be_signed_again(outbox):
    operation = begin(outbox).number
    lost = outbox.insert_signed(draft(operation, "mergeTx", 7), offer(1))
    outbox.mark_lost(lost, "foreign transaction")
    assert outbox.current_steps(operation) == {}
    assert outbox.from_nonce(0) == []
    signed = outbox.insert_signed(draft(operation, "mergeTx", 8), offer(2))
    assert outbox.current_steps(operation) == {"mergeTx": outbox.step(signed)}
    assert [step.status for step in outbox.steps(operation)] == ["lost", "signed"]
    assert outbox.num_foreign == 1


def test_failed_steps_are_current_until_discarded(outbox):
    operation = begin(outbox).number
    outbox.insert_failed(draft(operation, "noTransferTx", None), "the call would be reverted")
    done = outbox.insert_signed(draft(operation, "yesTransferTx", 0), offer(1))
    outbox.record_receipt(done, "confirmed", offer(1).hash, 1, b"[]", None)
    assert list(outbox.current_steps(operation)) == ["noTransferTx", "yesTransferTx"]
    outbox.discard_failures(operation)
    assert list(outbox.current_steps(operation)) == ["yesTransferTx"]
    assert len(outbox.steps(operation)) == 2


def test_operations_are_listed_by_page_and_status(outbox):
    for number in range(10):
        operation = begin(outbox, f"op {number}")
        outbox.set_status(operation.number, "done" if number % 2 else "failed")
    page = outbox.newest(None, 3, None)
    assert [each.id for each in page] == ["op 9", "op 8", "op 7"]
    assert [each.id for each in outbox.newest(None, 2, page[-1].number)] == ["op 6", "op 5"]
    assert [each.id for each in outbox.newest("failed", 2, None)] == ["op 8", "op 6"]
    assert outbox.newest("pending", 5, None) == []


def test_facts_survive_a_restart(outbox):
    assert outbox.get_fact("genesis") is None
    outbox.set_fact("genesis", "a")
    outbox.set_fact("genesis", "b")
    outbox = reopen(outbox)
    assert outbox.get_fact("genesis") == "b"
    outbox.close()


def test_outbox_is_exclusive_and_committed_rows_survive_a_crash(tmp_path):
    folder = tmp_path / "chain"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"ready\n"
        with pytest.raises(OutboxError, match="another process"):
            Outbox(folder)
        holder.stdin.close()
        assert holder.wait() == 9
    outbox = Outbox(folder)
    assert [each.id for each in outbox.pending()] == ["kept"]
    assert outbox.counts["pending"] == 1
    outbox.close()


def test_files_are_readable_by_the_owner_only(outbox):
    assert os.stat(outbox.path).st_mode & 0o777 == 0o600
    assert os.stat(outbox.path.parent).st_mode & 0o777 == 0o700


def test_each_account_has_its_own_nonces(outbox):
    operation = begin(outbox)
    oracle = outbox.of("0x0AC1E")
    numbers = [
        each.insert_signed(draft(operation.number, name, 7), offer(place))
        for place, (each, name) in enumerate(((outbox, "one"), (oracle, "two")))
    ]
    assert [step.number for step in outbox.steps(operation.number)] == numbers
    assert [step.name for step in outbox.from_nonce(0)] == ["one"]
    assert [step.name for step in oracle.from_nonce(0)] == ["two"]
    assert (outbox.next_nonce(), oracle.next_nonce()) == (8, 8)
    oracle.record_receipt(numbers[1], "confirmed", "0x2", 1, b"[]", None)
    assert (outbox.highest_included_nonce(), oracle.highest_included_nonce()) == (-1, 7)
    oracle.add_transaction(numbers[1], offer(9))
    assert outbox.num_bumped == oracle.num_bumped == 1
    assert outbox.of("0xOTHER").next_nonce() == 0


VERSION_1 = """
CREATE TABLE facts(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE operations(
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, body BLOB NOT NULL,
    status TEXT NOT NULL, answer BLOB, error TEXT, begun_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL);
CREATE INDEX operations_status ON operations(status, number);
CREATE TABLE steps(
    number INTEGER PRIMARY KEY, operation INTEGER NOT NULL, name TEXT NOT NULL,
    counts INTEGER NOT NULL, status TEXT NOT NULL, nonce INTEGER UNIQUE, target TEXT NOT NULL,
    data BLOB NOT NULL, value TEXT NOT NULL, gas INTEGER NOT NULL, expects TEXT NOT NULL,
    head INTEGER NOT NULL, hash TEXT, block INTEGER, logs BLOB, error TEXT,
    changed_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX steps_name ON steps(operation, name) WHERE counts;
CREATE INDEX steps_status ON steps(status, nonce);
CREATE TABLE offers(
    hash TEXT PRIMARY KEY, step INTEGER NOT NULL, raw BLOB NOT NULL, max_fee TEXT NOT NULL,
    tip TEXT NOT NULL);
CREATE INDEX offers_step ON offers(step);
INSERT INTO operations VALUES(1, 'old', 'faucet', '{}', 'pending', NULL, NULL, 1, 1);
INSERT INTO steps VALUES(4, 1, 'faucetTx', 1, 'signed', 7, '0x1', x'', '5', 6, '', 3,
    NULL, NULL, NULL, NULL, 1);
INSERT INTO offers VALUES('0xa', 4, x'0102', '9', '8');
PRAGMA user_version=1;
"""


def test_outbox_of_version_1_belongs_to_the_operator(tmp_path):
    db = apsw.Connection(str(tmp_path / FILE))
    db.execute(VERSION_1)
    db.close()
    outbox = Outbox(tmp_path)
    [step] = outbox.from_nonce(0)
    assert (step.number, step.nonce, step.value, step.transactions[0].raw) == (4, 7, 5, b"\1\2")
    assert outbox.next_nonce() == 8
    with pytest.raises(apsw.ConstraintError):
        outbox.insert_signed(draft(1, "again", 7), offer(1))
    outbox.of("0x0AC1E").insert_signed(draft(1, "reportTx", 7), offer(2))
    outbox.close()
    fresh = Outbox(tmp_path / "fresh")
    fresh.close()
    assert schema(outbox.path) == schema(fresh.path)


def schema(path):
    """Return the tables and indexes of a database."""
    db = apsw.Connection(str(path))
    rows = db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    db.close()
    return {name: " ".join(sql.replace('"', "").split()) for name, sql in rows if sql}


def test_newer_version_is_rejected_and_left_unlocked(tmp_path):
    Outbox(tmp_path).close()
    db = apsw.Connection(str(tmp_path / FILE))
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(OutboxError, match="version 99") as rejected:
        Outbox(tmp_path)
    db = apsw.Connection(str(tmp_path / FILE))
    db.execute("PRAGMA user_version=1")
    db.close()
    assert rejected.value


def test_damaged_file_is_rejected(tmp_path):
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(OutboxError, match="cannot be read"):
        Outbox(tmp_path)


def test_folder_that_cannot_be_created_is_rejected(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutboxError, match="cannot be opened"):
        Outbox(tmp_path / "file" / "chain")


# ----- in a cluster --------------------------------------------------------------------------


class Kept:
    """The records of a log."""

    def __init__(self):
        self.records = []

    def __call__(self, number, data):
        self.records.append((number, 10 * number, data))
        return 10 * number

    def follow(self, copy):
        for record in self.records:
            copy.follow(*record)


def rows(path):
    """Return the content of a closed outbox."""
    db = apsw.Connection(str(path))
    tables = ("facts", "operations", "steps", "offers")
    found = {each: db.execute(f"SELECT * FROM {each}").fetchall() for each in tables}
    db.close()
    return found


def change_at_random(rng, outbox, names):
    """Make one of the changes of a worker."""
    steps = outbox.from_nonce(0)
    kind = rng.choice(("fact", "begin", "sign", "sign", "fail", "bump", "receipt", "reset", "lost",
                       "error", "status", "discard", "oracle"))  # fmt: skip
    operations = [each.number for each in outbox.newest(None, 100, None)]
    if kind == "fact":
        outbox.set_fact(rng.choice("abc"), str(rng.random()))
    elif kind == "begin" or not operations:
        begin(outbox, f"op {next(names)}")
    elif kind in ("sign", "oracle"):
        account = outbox.of("0xORACLE") if kind == "oracle" else outbox
        made = draft(rng.choice(operations), f"tx {next(names)}", account.next_nonce())
        account.insert_signed(made, offer(next(names), next(names)))
    elif kind == "fail":
        outbox.insert_failed(draft(rng.choice(operations), f"tx {next(names)}", None), "no")
    elif kind in ("status", "discard"):
        number = rng.choice(operations)
        if kind == "discard":
            outbox.discard_failures(number)
        else:
            outbox.set_status(number, rng.choice(("done", "failed", "stuck")), answer=b"{}")
    elif steps:
        number = rng.choice(steps).number
        if kind == "bump":
            outbox.add_transaction(number, offer(next(names), next(names)))
        elif kind == "receipt":
            outbox.record_receipt(number, "confirmed", "0x1", 5, b"[]", None)
        elif kind == "reset":
            outbox.reset_step(number)
        elif kind == "lost":
            outbox.mark_lost(number, "foreign")
        else:
            outbox.record_error(number, "underpriced")


@pytest.mark.parametrize("seed", range(5))
def test_copy_that_follows_the_records_is_equal_whichever_worker_wrote_them(tmp_path, seed):
    rng, names, kept = random.Random(seed), itertools.count(1), Kept()
    folders = [tmp_path / name for name in "ab"]
    for number in range(12):
        folder = folders[number % 2]
        copy = Outbox(folder, is_copy=True)
        kept.follow(copy)
        copy.close()
        outbox = Outbox(folder, kept)
        for _ in range(30):
            change_at_random(rng, outbox, names)
            if rng.random() < 0.3:
                outbox.commit()
        if number % 3:
            outbox.commit()
        outbox.close()  # otherwise what it did not commit is lost
    found = []
    for folder in (*folders, tmp_path / "c"):
        copy = Outbox(folder, is_copy=True)
        kept.follow(copy)
        assert copy.records == kept.records[-1][:2]
        copy.close()
        found.append(rows(copy.path))
    assert len(found[0]["steps"]) > 20
    assert found[0] == found[1] == found[2]


def test_commit_that_the_log_does_not_store_is_not_made(tmp_path):
    def reject(number, data):
        raise OSError("no owner")

    outbox = Outbox(tmp_path, reject)
    begin(outbox)
    with pytest.raises(OSError, match="no owner"):
        outbox.commit()
    outbox.close()
    outbox = Outbox(tmp_path)
    assert outbox.pending() == []
    outbox.close()


def test_record_that_was_stored_and_not_committed_is_made_good(tmp_path):
    kept = Kept()

    def store_and_die(number, data):
        kept(number, data)
        raise SystemExit

    outbox = Outbox(tmp_path, store_and_die)
    begin(outbox)
    with pytest.raises(SystemExit):
        outbox.commit()
    outbox.close()
    outbox = Outbox(tmp_path, is_copy=True)
    kept.follow(outbox)
    assert [each.id for each in outbox.pending()] == ["first"]
    outbox.close()


def test_copy_that_lacks_a_record_is_rejected_and_stays_as_it_is(tmp_path):
    kept = Kept()
    outbox = Outbox(tmp_path / "a", kept)
    for name in ("one", "two"):
        begin(outbox, name)
        outbox.commit()
    outbox.close()
    copy = Outbox(tmp_path / "b", is_copy=True)
    with pytest.raises(OutboxBehindError, match=r"record 2 .* follows operation 1 .* replace it"):
        copy.follow(*kept.records[1])
    assert copy.records == (0, 0)
    kept.follow(copy)
    kept.follow(copy)
    assert [each.id for each in copy.pending()] == ["one", "two"]
    copy.close()
