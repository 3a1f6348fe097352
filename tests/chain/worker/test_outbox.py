"""The outbox: what is written is there after a restart, no nonce twice, every signed byte."""

import os
import subprocess
import sys

import apsw
import pytest

from clob_server.chain.tx.outbox import FILE, Outbox, OutboxError
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


def again(outbox):
    """Open it anew, as the next process does."""
    outbox.close()
    return Outbox(outbox.path.parent)


def draft(operation, name, nonce, **more):
    values = {"target": "0xa", "data": b"\1\2", "value": 3, "gas": 4, "expects": "", "head": 5}
    return Draft(operation=operation, name=name, nonce=nonce, **{**values, **more})


def offer(number, fee=2**70):
    return SignedTransaction(f"0x{number:064x}", bytes([number]), fee, fee - 1)


def begun(outbox, name="first"):
    return outbox.begin(name, "merge", b'{"kind":"merge"}', NOW_MS)


def test_an_operation_is_there_after_a_restart(outbox):
    made = begun(outbox)
    outbox.settle(begun(outbox, "second").number, "done", answer=b'{"a":1}')
    outbox.settle(begun(outbox, "third").number, "stuck", error="why")
    outbox = again(outbox)
    assert outbox.pending() == [made]
    assert outbox.find("second").answer == b'{"a":1}'
    assert [(each.id, each.error) for each in outbox.stuck()] == [("third", "why")]
    assert outbox.find("fourth") is None
    assert outbox.counts == {"pending": 1, "done": 1, "failed": 0, "stuck": 1}
    outbox.close()


def test_what_the_server_calls_an_operation_names_one(outbox):
    begun(outbox)
    with pytest.raises(apsw.ConstraintError):
        begun(outbox)


def test_no_nonce_is_written_twice(outbox):
    operation = begun(outbox).number
    outbox.sign(draft(operation, "mergeTx", 7), offer(1))
    with pytest.raises(apsw.ConstraintError):
        outbox.sign(draft(operation, "returnTx", 7), offer(2))


def test_no_step_counts_twice(outbox):
    operation = begun(outbox).number
    outbox.sign(draft(operation, "mergeTx", 7), offer(1))
    with pytest.raises(apsw.ConstraintError):
        outbox.sign(draft(operation, "mergeTx", 8), offer(2))


def test_every_signed_byte_and_every_fee_is_kept(outbox):
    operation = begun(outbox).number
    number = outbox.sign(draft(operation, "mergeTx", 7, value=2**200), offer(1))
    outbox.bump(number, offer(2, 2**80))
    outbox = again(outbox)
    step = outbox.standing(operation)["mergeTx"]
    assert step == outbox.step(number)
    assert step.offers == (offer(1), offer(2, 2**80))
    assert (step.status, step.nonce, step.value, step.data) == ("signed", 7, 2**200, b"\1\2")
    assert (outbox.num_bumped, outbox.num_foreign, outbox.next_nonce()) == (1, 0, 8)
    outbox.close()


def test_a_step_happens_and_can_be_taken_back(outbox):
    operation = begun(outbox).number
    number = outbox.sign(draft(operation, "mergeTx", 7), offer(1))
    assert outbox.highest_settled() == -1
    outbox.note(number, "underpriced")
    assert outbox.step(number).error == "underpriced"
    outbox.happened(number, "confirmed", offer(1).hash, 12, b"[]", None)
    step = outbox.step(number)
    assert (step.status, step.block, step.hash, step.error) == (
        "confirmed",
        12,
        offer(1).hash,
        None,
    )
    assert outbox.highest_settled() == 7
    outbox.take_back(number)
    step = outbox.step(number)
    assert (step.status, step.block, step.hash) == ("signed", None, None)
    assert outbox.from_nonce(7) == [step]
    assert outbox.from_nonce(8) == []


def test_a_step_that_is_lost_makes_room_for_another(outbox):
    operation = begun(outbox).number
    lost = outbox.sign(draft(operation, "mergeTx", 7), offer(1))
    outbox.lose(lost, "somebody else")
    assert outbox.standing(operation) == {}
    assert outbox.from_nonce(0) == []
    anew = outbox.sign(draft(operation, "mergeTx", 8), offer(2))
    assert outbox.standing(operation) == {"mergeTx": outbox.step(anew)}
    assert [step.status for step in outbox.steps(operation)] == ["lost", "signed"]
    assert outbox.num_foreign == 1


def test_what_failed_counts_until_it_is_tried_anew(outbox):
    operation = begun(outbox).number
    outbox.refuse(draft(operation, "noTransferTx", None), "it would be reverted")
    done = outbox.sign(draft(operation, "yesTransferTx", 0), offer(1))
    outbox.happened(done, "confirmed", offer(1).hash, 1, b"[]", None)
    assert list(outbox.standing(operation)) == ["noTransferTx", "yesTransferTx"]
    outbox.forget_failures(operation)
    assert list(outbox.standing(operation)) == ["yesTransferTx"]
    assert len(outbox.steps(operation)) == 2


def test_operations_are_listed_by_page_and_status(outbox):
    for number in range(10):
        operation = begun(outbox, f"op {number}")
        outbox.settle(operation.number, "done" if number % 2 else "failed")
    page = outbox.newest(None, 3, None)
    assert [each.id for each in page] == ["op 9", "op 8", "op 7"]
    assert [each.id for each in outbox.newest(None, 2, page[-1].number)] == ["op 6", "op 5"]
    assert [each.id for each in outbox.newest("failed", 2, None)] == ["op 8", "op 6"]
    assert outbox.newest("pending", 5, None) == []


def test_facts_are_kept(outbox):
    assert outbox.fact("genesis") is None
    outbox.keep("genesis", "a")
    outbox.keep("genesis", "b")
    outbox = again(outbox)
    assert outbox.fact("genesis") == "b"
    outbox.close()


def test_one_process_has_it_and_what_it_committed_survives_its_death(tmp_path):
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


def test_only_its_owner_may_read_it(outbox):
    assert os.stat(outbox.path).st_mode & 0o777 == 0o600
    assert os.stat(outbox.path.parent).st_mode & 0o777 == 0o700


def test_one_of_a_newer_version_is_left_alone(tmp_path):
    Outbox(tmp_path).close()
    db = apsw.Connection(str(tmp_path / FILE))
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(OutboxError, match="version 99"):
        Outbox(tmp_path)


def test_one_that_is_damaged_is_refused(tmp_path):
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(OutboxError, match="cannot be read"):
        Outbox(tmp_path)


def test_one_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutboxError, match="cannot be opened"):
        Outbox(tmp_path / "file" / "chain")
