"""What was acknowledged is there after `kill -9`; what was not committed never is."""

import shutil
import signal
from contextlib import closing
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.support.children import Child
from tests.support.foreign import foreign_statuses
from tests.support.snapshots import foreign_snapshot

ROUNDS = 6


def _enqueues_until_killed(path: str) -> None:
    import threading

    from outlast import Outlast
    from tests.support.childside import say

    app = Outlast(path)

    def enqueue() -> None:
        while True:
            say([app.enqueue("work", {"text": "x" * 100}).id])
            say(app.enqueue_many("work", range(3)))

    threads = [threading.Thread(target=enqueue) for _ in range(2)]
    for thread in threads:
        thread.start()


@pytest.mark.proves("QUE-01")
def test_every_id_that_was_acknowledged_is_found_after_kill_9(database: Path) -> None:
    acknowledged: set[str] = set()
    for round_number in range(ROUNDS):
        with Child(_enqueues_until_killed, database) as child:
            for _ in range(1 + 8 * round_number):
                acknowledged.update(child.hear())
            child.signal(signal.SIGKILL)
            acknowledged.update(task_id for ids in child.hear_all() for task_id in ids)
        found = foreign_snapshot(database)
        assert found.faults == {}
        assert not acknowledged - set(found.statuses)
    with Outlast(database) as app:
        assert not [one for one in acknowledged if app.get(one).status != "pending"]


def _dies_inside_a_transaction_with_spilled_pages(path: str) -> None:
    from outlast import Outlast, probes
    from outlast.testing import ManualClock
    from tests.store.hand import engine_of
    from tests.support.childside import die, say

    app = Outlast(path, clock=ManualClock())
    app.enqueue_many("work", ["committed"] * 3, id=["c-1", "c-2", "c-3"])
    app.claim("w")
    say(app.path.with_name("work.db-wal").stat().st_size)
    probes.arm(lambda name: die() if name == "enqueue.written" else None)
    # The writer keeps its pages in memory as long as it can; here it cannot.
    engine_of(app)._database.writer.connection.pragma("cache_size", 10)
    app.enqueue_many("work", ["open" + "x" * 1900] * 3000, id=[f"o-{n}" for n in range(3000)])


@pytest.mark.proves("INT-28", "QUE-26")
def test_committed_work_is_replayed_and_an_open_transaction_is_discarded(
    database: Path, clock: ManualClock, tmp_path: Path
) -> None:
    """Killed inside a transaction so large that SQLite had moved pages of it to the log."""
    with Child(_dies_inside_a_transaction_with_spilled_pages, database) as child:
        committed_bytes = child.hear()
        assert child.wait() == -signal.SIGKILL
    log = database.with_name("work.db-wal")
    assert log.stat().st_size > committed_bytes + (1 << 20), "no page was spilled"
    alone = tmp_path / "without-its-log.db"
    shutil.copy(database, alone)
    assert foreign_statuses(alone) == {}, "what was committed lies in the log only"

    found = foreign_snapshot(database)
    assert found.faults == {}
    assert found.statuses == {"c-1": "running", "c-2": "pending", "c-3": "pending"}
    with Outlast(database, clock=clock) as app:
        assert sorted(task.id for task in app.tasks("pending", limit=5000)) == ["c-1", "c-2", "c-3"]
        assert app.get("c-1").recovery_count == 1, "and recovery of the tasks comes on top"


def _tells_nobody_of_an_unfinished_enqueue(path: str) -> None:
    from outlast import Outlast, probes
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="before")

    def pause(name: str) -> None:
        if name == "enqueue.written":
            say(name)
            hear()

    probes.arm(pause)
    app.enqueue("work", id="unfinished")
    say("acknowledged")
    hear()


@pytest.mark.proves("QUE-26")
def test_nobody_sees_a_task_before_its_transaction_is_committed(database: Path) -> None:
    with Child(_tells_nobody_of_an_unfinished_enqueue, database) as child:
        assert child.hear() == "enqueue.written"
        assert foreign_statuses(database) == {"before": "pending"}
        with closing(Outlast(database)) as looking:
            assert [task.id for task in looking.tasks()] == ["before"]
        child.say()
        assert child.hear() == "acknowledged"
        assert set(foreign_statuses(database)) == {"before", "unfinished"}
