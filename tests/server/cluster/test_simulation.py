"""A simulated cluster keeps its promises under crashes, freezes, cuts and wrong clocks."""

import os

import pytest
from msgspec.structs import replace

from clob import ClobError
from clob_server.cluster.replica import ReplicaSequencer
from clob_server.core import sequencer
from clob_server.core.rejections import NotOwnerError
from tests.server.cluster.simulation import SimThread, Simulation

SEEDS = int(os.environ.get("CLOB_CLUSTER_SEEDS", "40"))
"""Number of simulated clusters, each half a second; the long test has ten times as many."""
MUTANT_SEEDS = 60
"""Seeds within which a deliberate fault has to show."""


@pytest.fixture(autouse=True)
def simulated_thread(monkeypatch):
    monkeypatch.setattr(sequencer, "LogThread", SimThread)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_simulated_cluster_loses_nothing_and_shows_nothing_else(seed):
    simulation = Simulation(seed)
    simulation.run()
    assert simulation.acked


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_many_simulated_clusters_lose_nothing_and_show_nothing_else(part):
    for seed in range((part + 1) * SEEDS, (part + 2) * SEEDS):
        try:
            Simulation(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


# ----- deliberate faults ---------------------------------------------------------------------


class AcknowledgesBeforeAppend(ReplicaSequencer):
    """Writes a batch with the next one, when its callers have their results."""

    _unwritten = None

    def _append(self, encoded):
        before, self._unwritten = self._unwritten, encoded
        if before is not None:
            self.seq, seq = self.seq - len(before), self.seq
            try:
                super()._append(before)
            finally:
                self.seq = seq


class TrustsItsClock(ReplicaSequencer):
    """Writes the time of its clock, even if the log is later."""

    def _assign(self, batch, now_ms):
        return super()._assign(batch, self._clock_ms())


class PlacesTwice(ReplicaSequencer):
    """Ignores the hash by which an order that is sent again is the same one."""

    def _with_ids(self, new, opening, now_ms):
        new = replace(new, submit=replace(new.submit, order_hash=None))
        return super()._with_ids(new, opening, now_ms)


class NeverStepsDown(ReplicaSequencer):
    """Acknowledges what the log did not accept."""

    def _append(self, encoded):
        try:
            super()._append(encoded)
        except NotOwnerError:
            if not self.is_owner:
                raise


@pytest.mark.parametrize(
    "replica_type", [AcknowledgesBeforeAppend, TrustsItsClock, PlacesTwice, NeverStepsDown]
)
def test_deliberate_fault_of_a_node_is_found(replica_type):
    assert finds(replica_type)


def test_log_without_compare_and_set_is_found():
    assert finds(ReplicaSequencer, checks_end=False)


def finds(replica_type, *, checks_end=True):
    """Return whether some simulation fails."""
    for seed in range(MUTANT_SEEDS):
        simulation = Simulation(seed, replica_type)
        simulation.servers.checks_end = checks_end
        try:
            simulation.run()
        except (AssertionError, ClobError):
            return True
    return False
