"""Workers that are stopped past their leases and come back, and one that is taken for dead."""

import signal
from contextlib import closing
from pathlib import Path

from outlast import Outlast
from outlast_lab.experiments.chaos.crowd import result_of
from tests.crash.workers.working import (
    WorkerChild,
    assert_history_is_sound,
    looking,
    named,
    status_is,
    stopped,
    until,
)
from tests.store.hand import Hand
from tests.support.children import Child

LEASE_SECONDS = 1
SHORT = {"lease_seconds": LEASE_SECONDS}


def test_for_a_stopped_worker_nothing_is_renewed_and_nothing_claimed(database: Path) -> None:
    """Its store process runs on and sees that it acts for nobody."""
    with Outlast(database) as app:
        app.enqueue("held", id="t")
        with WorkerChild(database, settings=SHORT) as worker:
            worker.begun("t")
            with stopped(worker.pid):
                app.enqueue("quick", {}, id="new")
                (lease,) = until(lambda: app.claim("other", kinds=["held"]), "renewed for ever")
                assert named(app, "w").silent_seconds >= LEASE_SECONDS
                assert (lease.task_id, lease.attempt) == ("t", 2)
                assert app.get("new").status == "pending"
                assert lease.complete("the other's result")
            assert worker.sign("cancelled", "t")
            status_is(app, "new", "completed")
            worker.signal(signal.SIGTERM)
            assert worker.ended()["lost"] == 1
        assert app.get("t").result == "the other's result"


def test_a_worker_back_from_the_dead_cannot_end_what_another_has_taken_over(
    database: Path,
) -> None:
    """Two handlers are at work on one task, and only the one with the newer token counts."""
    with Outlast(database) as app:
        app.enqueue("stubborn", id="t")
    with (
        WorkerChild(database, "frozen", SHORT) as frozen,
        looking(database) as app,
    ):
        frozen.begun("t")
        with WorkerChild(database, "heir", SHORT) as heir:
            with stopped(frozen.pid):
                heir.begun("t", attempt=2)
            until(
                lambda: any("lease" in text for _, text in frozen.troubles()),
                "it does not notice that its lease is gone",
            )
            assert app.get("t").worker == "heir"
            heir.let_go("t")
            for attempt in (1, 2):
                heir.sign("finished", "t", attempt)
            status_is(app, "t", "completed")
            tallies = []
            for worker in (frozen, heir):
                worker.signal(signal.SIGTERM)
                tallies.append(worker.ended())
        assert [(one["completed"], one["lost"]) for one in tallies] == [(0, 1), (1, 0)]
        assert app.get("t").result == result_of("heir", 2)
    assert_history_is_sound(database, {})


def test_a_worker_that_others_took_for_dead_loses_its_tasks_and_begins_anew(
    database: Path,
) -> None:
    """Its row stays dead; the same process goes on under another, and does the task again."""
    with Outlast(database) as app:
        app.enqueue("held", id="t")
    settings = {"heartbeat_interval_seconds": 0.2}
    with WorkerChild(database, settings=settings) as worker, looking(database) as app:
        worker.begun("t")
        before = named(app, "w")
        with Child(_takes_everybody_for_dead, database) as mistaken:
            assert mistaken.hear_all() == [["w"]]
        worker.sign("cancelled", "t")
        worker.begun("t", attempt=2)
        after, ended = app.workers()
        assert (after.state, ended.state) == ("alive", "dead")
        assert ended.incarnation == before.incarnation != after.incarnation
        assert after.pid == ended.pid == worker.pid
        app.enqueue("quick", {}, id="next")
        status_is(app, "next", "completed")
        worker.let_go("t")
        status_is(app, "t", "completed")
        assert (app.get("t").attempt, app.get("t").recovery_count) == (2, 1)
        worker.signal(signal.SIGTERM)
        tally = worker.ended()
        assert (tally["completed"], tally["lost"]) == (2, 1)
    with closing(Hand(database)) as hand:
        assert hand.rows("SELECT state FROM workers ORDER BY seq") == [("dead",), ("left",)]


def _takes_everybody_for_dead(path: str) -> None:
    """What a detector does that cannot see a lock, in a container of its own for instance."""
    from outlast import Outlast, Settings
    from outlast.domain.orphans import Sign
    from outlast.store.presence import NOT_WHOLE
    from outlast.store.records import Healed
    from outlast.store.sqlite.presence import presence
    from tests.support.childside import say

    gone = (Sign.PROCESS_GONE, NOT_WHOLE)
    vars(presence)["signs_of"] = lambda peers, folder: [gone] * len(peers)
    # Else its detector makes the mistake before the call that tells of it.
    alone = Settings(detection_interval_seconds=0)
    app = Outlast(path, settings=alone, recovery=lambda session: Healed(0, 0, ()))
    say(app.heal().dead_workers)
    app.close()
