"""claude-mem's plan for stuck messages: its six scenarios and four regressions, by its names.

A message is a task, a session is a group, `retry_count` is what the view says, and the SDK that
crashes is a process that is killed.
"""

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.crash.workers.working import WorkerChild, looking, status_is, until
from tests.store.hand import Hand
from tests.support.children import Child
from tests.support.foreign import assert_sound

SESSION = "7"


def _claims_and_waits(path: str, session: str, limit: int) -> None:
    """The SDK: it has claimed its messages, prefetched ones among them, and works on them."""
    from outlast import Outlast
    from tests.support.childside import hear, say

    leases = Outlast(path).claim("sdk", limit=limit, group=session)
    say([lease.task_id for lease in leases])
    while (at := hear()) is not None:
        say(leases[at].complete())


@contextmanager
def sdk(database: Path, limit: int) -> Iterator[Child]:
    """An SDK that holds as many messages of the session."""
    with Child(_claims_and_waits, database, SESSION, limit) as child:
        assert len(child.hear()) == limit
        yield child


def observations(app: Outlast, *ids: str) -> None:
    for one in ids:
        app.enqueue("observation", {"of": one}, id=one, group=SESSION)


def message(app: Outlast, task_id: str) -> dict[str, Any]:
    """The message as claude-mem's own words show it."""
    with closing(Hand(app.path)) as hand:
        seq = hand.value("SELECT seq FROM tasks WHERE id = ?", task_id)
        return hand.records("SELECT * FROM pending_messages WHERE id = ?", seq)[0]


# The scenarios


@pytest.mark.proves("TST-28")
def test_scenario_1_normal_flow(app: Outlast) -> None:
    """Enqueue, claim, process, mark processed; the second mark is harmless."""
    observations(app, "m")
    assert message(app, "m")["status"] == "pending"
    (lease,) = app.claim("sdk", group=SESSION)
    assert message(app, "m")["status"] == "processing"
    assert lease.complete({"stored": True})
    assert lease.complete({"stored": True}) is False
    done = message(app, "m")
    assert (done["status"], done["retry_count"]) == ("processed", 0)
    assert done["completed_at_epoch"] is not None
    assert app.claim("sdk", group=SESSION) == []


@pytest.mark.proves("TST-28")
def test_scenario_1_normal_flow_through_a_worker(app: Outlast) -> None:
    seen = []

    @app.task
    def observation(of: str) -> str:
        seen.append(of)
        return f"stored {of}"

    observations(app, "a", "b")
    tally = app.worker(concurrency=1).run(until_empty=True)
    assert (tally.completed, seen) == (2, ["a", "b"])
    assert [app.get(one).result for one in ("a", "b")] == ["stored a", "stored b"]
    assert message(app, "b")["status"] == "processed"


@pytest.mark.proves("TST-29")
def test_scenario_2_crash_recovery(database: Path) -> None:
    """Enqueue, claim, kill the worker, restart: claimed again, with a retry count of 1."""
    with Outlast(database) as app:
        observations(app, "m")
    with sdk(database, 1) as crashing, looking(database) as app:
        started_ms = message(app, "m")["started_processing_at_epoch"]
        crashing.kill()
        assert message(app, "m")["status"] == "processing", "stuck, as the issue says"
    with Outlast(database) as app:
        (lease,) = app.claim("sdk", group=SESSION)
        task, shown = app.get("m"), message(app, "m")
        assert (lease.task_id, lease.attempt, task.recovery_count) == ("m", 2, 1)
        assert (shown["status"], shown["retry_count"]) == ("processing", 1)
        assert shown["started_processing_at_epoch"] > started_ms
        reasons = [move.reason for move in app.history("m")]
        assert reasons == ["claimed", "crash_retry", "claimed"], "a re-claim is told from a claim"
        assert lease.complete()
    assert_sound(database)


@pytest.mark.proves("TST-29")
def test_scenario_2_a_restart_within_the_same_millisecond_finds_the_orphan(
    database: Path, clock: ManualClock
) -> None:
    """The seed compares times, and would take it for a message of the living."""
    with Outlast(database, clock=clock) as app:
        observations(app, "m")
    with Child(_claims_at_a_standing_clock, database, SESSION) as crashing:
        assert crashing.hear() == clock.now().utc_ms
        crashing.kill()
    with Outlast(database, clock=clock) as app:
        (lease,) = app.claim("sdk", group=SESSION)
        assert (lease.task_id, lease.attempt) == ("m", 2)


def _claims_at_a_standing_clock(path: str, session: str) -> None:
    from outlast import Outlast
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    clock = ManualClock()
    Outlast(path, clock=clock).claim("sdk", group=session)
    say(clock.now().utc_ms)
    hear()


@pytest.mark.proves("TST-30", "CLM-11")
def test_scenario_3_multiple_orphans(database: Path) -> None:
    """Three are claimed, the worker is killed: they come back in order, before what came later."""
    with Outlast(database) as app:
        observations(app, "a", "b", "c")
    with sdk(database, 3) as crashing:
        crashing.kill()
    with Outlast(database) as app:
        observations(app, "later")
        claimed = [app.claim("sdk", group=SESSION)[0].task_id for _ in range(4)]
        assert claimed == ["a", "b", "c", "later"]
        assert {app.get(one).recovery_count for one in "abc"} == {1}


@pytest.mark.slow
@pytest.mark.proves("TST-31")
def test_scenario_4_poison_message(database: Path) -> None:
    """A message that crashes whoever works on it: three retries, then it fails; others go on."""
    with Outlast(database) as app:
        app.enqueue("poison", id="poison", group=SESSION)
        app.enqueue("quick", {}, id="good", group=SESSION)
    executions = 0
    for _ in range(10):
        with WorkerChild(database, concurrency=1, until_empty=True) as worker:
            if worker.wait() == 0:
                break
            executions += 1
            assert worker.has_left("begun", "poison", executions)
    assert executions == 4
    with Outlast(database) as app:
        shown = message(app, "poison")
        assert (shown["status"], shown["retry_count"]) == ("failed", 3)
        assert shown["failed_at_epoch"] is not None
        assert app.history("poison")[-1].reason == "max_retries_exceeded"
        assert app.claim("sdk", kinds=["poison"]) == []
        good = app.get("good")
        assert (good.status, good.attempt) == ("completed", 1)


@pytest.mark.proves("TST-32", "CLM-10")
def test_scenario_5_sdk_prefetch_safe(database: Path) -> None:
    """What a live worker holds, however much of it, goes to nobody else, whoever comes and looks.

    Five are claimed, nothing is restarted, a claim gets the sixth; healing takes nothing away.
    """
    ids = ["a", "b", "c", "d", "e"]
    with Outlast(database) as app:
        observations(app, *ids, "f")
    with sdk(database, 5) as prefetching:
        with Outlast(database) as app:
            assert app.heal().entries_reclaimed == 0
            assert [lease.task_id for lease in app.claim("other", limit=9)] == ["f"]
        with Outlast(database) as app:
            for at, task_id in enumerate(ids):
                prefetching.say(at)
                assert prefetching.hear() is True
                assert app.get(task_id).attempt == 1


@pytest.mark.proves("TST-32")
def test_scenario_5_a_workers_own_prefetch_makes_no_duplicate_prompts(database: Path) -> None:
    ids = [f"m-{n}" for n in range(20)]
    with Outlast(database) as app:
        app.enqueue("held", id="first", group=SESSION)
        app.enqueue_many("quick", [{}] * 20, id=ids, group=SESSION)
    with WorkerChild(database, concurrency=1, eager=True) as worker, Outlast(database) as app:
        worker.begun("first")
        until(lambda: app.counts()["running"] == 21, "it takes nothing ahead")
        assert app.heal().entries_reclaimed == 0
        assert app.claim("other", limit=50) == []
        worker.let_go("first")
        for task_id in ids:
            status_is(app, task_id, "completed")
        worker.signal(signal.SIGTERM)
        assert worker.ended()["completed"] == 21
        moves = [[move.reason for move in app.history(one)] for one in ids]
        assert moves == [["claimed", "completed"]] * 20


@pytest.mark.proves("TST-33", "CLM-11")
def test_scenario_6_mixed_state(database: Path) -> None:
    """Orphans first, in their order; then what is pending; what is in flight stays where it is."""
    with Outlast(database) as app:
        observations(app, "orphan-1", "orphan-2")
    with sdk(database, 2) as crashing:
        with Outlast(database) as app:
            observations(app, "flying-1", "flying-2")
        with sdk(database, 2) as living:
            crashing.kill()
            with Outlast(database) as app:
                observations(app, "pending-1", "pending-2")
                claimed = [lease.task_id for lease in app.claim("next", limit=9, group=SESSION)]
                assert claimed == ["orphan-1", "orphan-2", "pending-1", "pending-2"]
                attempts = [app.get(one).attempt for one in ("orphan-1", "flying-1", "pending-1")]
                assert attempts == [2, 1, 1]
                living.say(0)
                assert living.hear() is True
                assert app.get("flying-1").status == "completed"
                assert app.backlog().groups == (SESSION,)


# No regressions


@pytest.mark.proves("TST-34", "QUE-27")
def test_regression_batch_mode_still_works(database: Path) -> None:
    """claimAndDelete: the rows are gone, and recovery after a crash finds nothing to do."""
    with Outlast(database) as app:
        observations(app, "a", "b", "c")
    with Child(_takes_and_waits, database, SESSION) as taking:
        assert taking.hear() == ["a", "b"]
        taking.kill()
    with Outlast(database) as app:
        assert app.heal().entries_reclaimed == 0
        assert [task.id for task in app.tasks()] == ["c"]
        assert (app.get("c").status, app.get("c").attempt) == ("pending", 0)


def _takes_and_waits(path: str, session: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    say([task.id for task in Outlast(path).take(2, group=session)])
    hear()


@pytest.mark.proves("TST-34")
def test_regression_hot_reload_leaves_the_old_objects_messages_alone(database: Path) -> None:
    """A new store object in a living process is no restart: what the old one holds is no orphan."""
    old = Outlast(database)
    observations(old, "a", "b")
    (held,) = old.claim("sdk", group=SESSION)
    new = Outlast(database).open()
    assert new.heal().entries_reclaimed == 0
    assert [lease.task_id for lease in new.claim("sdk", limit=9)] == ["b"]
    assert held.complete()
    old.close()
    assert new.get("b").status == "running", "closing the old one takes nothing from the new"
    new.close()
    with Outlast(database) as app:
        assert {(task.id, task.status, task.attempt) for task in app.tasks()} == {
            ("a", "completed", 1), ("b", "pending", 0)
        }  # fmt: skip


@pytest.mark.proves("QUE-23")
def test_regression_what_is_processing_still_counts_as_pending_work(app: Outlast) -> None:
    """getPendingCount, hasAnyPendingWork and getSessionsWithPendingMessages see it."""
    observations(app, "m")
    (lease,) = app.claim("sdk", group=SESSION)
    found = app.backlog()
    assert (found.unfinished, found.groups) == (1, (SESSION,))
    lease.complete()
    assert app.backlog().unfinished == 0
    assert app.backlog().groups == ()
