"""futurnal's tests of recovery time by their names, and acode's bounds: the shape of the work.

How fast it is, the bench measures. Here the work is counted: recovery asks and writes by the
batch, so that its statements grow with the batches and not with the jobs. The seeds' bounds are
held, too, in time of the processor, which others on the machine cannot take away; a sound recovery
stays far below them.
"""

import time
from contextlib import closing
from pathlib import Path

import pytest

from outlast import Outlast, Settings
from outlast.domain.recovery import RecoveryReport
from outlast.maintenance.loop import MaintenanceLoop
from outlast.testing import ManualClock
from tests.store.hand import Hand
from tests.store.trace import Ran, Trace
from tests.support.children import Child
from tests.support.recovery_validator import seen, troubles

pytestmark = pytest.mark.slow

MOST_STATEMENTS_A_BATCH = 25
MOST_STATEMENTS_BESIDES = 200
SIZES = {"1k": (1_000, 5), "10k": (10_000, 5), "100k": (100_000, 30)}

WORKERS = 1_000
RUNNING = 10_000


def _claims_all(path: str, count: int) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue_many("job", range(count))
    claimed = 0
    while batch := len(app.claim("crashing", limit=10_000)):
        claimed += batch
    say(claimed)
    hear()


def crashed(database: Path, count: int) -> None:
    """A process is killed with that many jobs in hand."""
    with Child(_claims_all, database, count) as child:
        assert child.hear() == count
        child.kill()


def recovered(database: Path, trace: Trace) -> tuple[RecoveryReport, list[Ran], float]:
    """The record of an opening, what it ran, and its seconds of the processor."""
    app = Outlast(database)
    began = time.process_time()
    with trace.listening() as ran:
        app.open()
    seconds = time.process_time() - began
    report = app.last_report()
    app.close()
    assert report is not None
    return report, ran, seconds


@pytest.mark.proves("TST-17", "PRF-01", "PRF-02")
@pytest.mark.parametrize("size", SIZES)
def test_recovery_performance_jobs(database: Path, trace: Trace, size: str) -> None:
    """The worst case: every job was running, and the whole of it is one process's loss."""
    count, most_seconds = SIZES[size]
    crashed(database, count)
    before = seen(database, is_checked=False)
    report, ran, seconds = recovered(database, trace)
    assert (report.tasks_running_before, report.tasks_put_back) == (count, count)
    assert troubles(before, seen(database))[:5] == []
    batches = count // Settings().heal_batch + 1
    assert len(ran) <= MOST_STATEMENTS_BESIDES + MOST_STATEMENTS_A_BATCH * batches
    assert len(ran) < max(MOST_STATEMENTS_BESIDES, count // 20), "batches are no handfuls"
    progress = "SELECT count(*) FROM events WHERE kind = 'recovery.progress'"
    with closing(Hand(database)) as hand:
        assert batches - 1 <= hand.value(progress) <= batches
    assert seconds < most_seconds


@pytest.mark.proves("TST-17")
def test_recovery_performance_does_not_depend_on_what_is_finished(
    tmp_path: Path, trace: Trace
) -> None:
    """IX-1: as many steps of SQLite beside twenty thousand finished jobs as beside none."""
    steps = []
    for finished in (0, 20_000):
        database = tmp_path / f"{finished}.db"
        with Outlast(database) as app:
            app.enqueue_many("job", [None] * finished)
            while leases := app.claim("w", limit=10_000):
                app.complete_many([(lease, None) for lease in leases])
        crashed(database, 100)
        report, ran, _ = recovered(database, trace)
        assert report.tasks_put_back == 100
        # The check of the file and the search for rows that no constraint allows see all of it.
        steps.append(sum(one.steps for one in ran if "_check" not in one.text))
    assert steps[1] < 2 * steps[0] + 1000, "the finished ones are walked over"


# acode's bound on the detection of stale workers


@pytest.fixture(scope="module")
def many_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand workers of other hosts with ten running tasks each; they beat just now."""
    database = tmp_path_factory.mktemp("many") / "work.db"
    clock = ManualClock()
    app = Outlast(database, clock=clock)
    app.enqueue_many("job", range(RUNNING))
    app.claim("w", limit=RUNNING, lease="1h")
    with closing(Hand(database)) as hand:
        hand.run(
            """WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < ?)
               INSERT INTO workers (incarnation, name, host, boot_id, pid, pid_started,
                   pid_namespace, lock_file, lock_inode, registered_at, beat_at, beat_mono_ms)
               SELECT 'incarnation-' || k, 'far-' || k, 'far', 'another boot', 7, 7, 'far',
                   'nowhere', 0, beat_at, beat_at, beat_mono_ms
               FROM workers, n WHERE name = 'w'""",
            WORKERS,
        )
        hand.run("UPDATE tasks SET holder = (SELECT seq FROM workers WHERE name = 'far-' || (1 +"
                 f" (tasks.seq - 1) / {RUNNING // WORKERS}))")  # fmt: skip
    app.close()
    return database


@pytest.mark.proves("PRF-06")
def test_stale_detection_over_a_thousand_workers_and_ten_thousand_tasks(
    many_workers: Path, trace: Trace
) -> None:
    """NFR-004: one look asks a few questions, however many there are; bench/ has its seconds."""
    ran = _looked(many_workers, trace)
    assert len(ran) <= 20, "no question for each worker or task"
    steps = sum(one.steps for one in ran)
    assert steps < 100 * WORKERS + 20 * RUNNING, "each is looked at once"
    _bury_many(many_workers)
    ran = _looked(many_workers, trace)
    assert sum(one.steps for one in ran) < 1.1 * steps, "the dead are not looked at again"


def _looked(database: Path, trace: Trace) -> list[Ran]:
    """What one look of the detector runs; it finds nothing to do."""
    alone = Settings(detection_interval_seconds=0)
    with (
        Outlast(database, clock=ManualClock(), settings=alone) as app,
        closing(Hand(database)) as hand,
    ):
        held = "SELECT count(*), count(DISTINCT holder) FROM tasks WHERE status = 'running'"
        assert hand.row(held) == (RUNNING, WORKERS)
        detector = MaintenanceLoop(app._handle.serve())
        detector._interval_seconds = 60
        with trace.listening() as ran:
            assert detector.tick()
        assert hand.row(held) == (RUNNING, WORKERS)
    return ran


def _bury_many(database: Path) -> None:
    """Dead workers stay listed, so there are ever more of them."""
    with closing(Hand(database)) as hand:
        hand.run(
            """WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 20000)
               INSERT INTO workers (incarnation, name, host, boot_id, pid, pid_started, state,
                   pid_namespace, lock_file, lock_inode, registered_at, beat_at, beat_mono_ms,
                   ended_at)
               SELECT 'buried-' || k, 'dead-' || k, 'far', 'another boot', 7, 7, 'dead', 'far',
                   'nowhere', 0, beat_at, beat_at, beat_mono_ms, beat_at
               FROM workers, n WHERE name = 'far-1'"""
        )
