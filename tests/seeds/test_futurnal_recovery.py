"""futurnal's tests of the recovery itself, by its names: reset, whole course, stop, many crashes.

Its sample marked an interrupted job as failed and then put it back, which a crash in between makes
a loss; it counted every job of the queue as recovered, and it took a living neighbour's jobs away.
What its tests were meant to show is shown here; every crash is a SIGKILL of a real process.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast, usual_recovery
from outlast.store.session import Session
from tests.crash.workers.working import WorkerChild
from tests.seeds.crashing import POISON, copy_of, crash, facts, markers
from tests.support.children import Child
from tests.support.forge import Forge
from tests.support.recovery_validator import Seen, seen, troubles, validated

pytestmark = pytest.mark.slow

CYCLES = 50


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose process was killed with two jobs in hand and one waiting; only to be copied."""
    database = tmp_path_factory.mktemp("crashed") / "work.db"
    with Outlast(database) as app:
        app.enqueue_many("job", range(3), id=["a", "b", "c"])
    assert crash(database, "ghost", limit=2) == ["a", "b"]
    return database


@pytest.fixture
def crashed(template: Path, tmp_path: Path) -> Path:
    return copy_of(template, tmp_path)


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with Forge("tests.seeds.crashing") as made:
        yield made


# test_reset_interrupted_jobs


@pytest.mark.proves("TST-06")
def test_reset_interrupted_jobs(crashed: Path) -> None:
    """AC-5, SC-3, CRM-5: what was running is pending again by one move; nothing else is touched."""
    with validated(crashed) as before:
        assert before.stuck == {"a", "b"}
        waiting = before.tasks["c"]
        with Outlast(crashed) as app:
            report = app.last_report()
            assert report is not None
            assert (report.tasks_running_before, report.tasks_put_back) == (2, 2)
            for task_id in ("a", "b"):
                assert app.get(task_id).status == "pending"
                moves = [(one.from_status, one.to_status) for one in app.history(task_id)]
                assert moves == [("pending", "running"), ("running", "pending")]
                assert [one.reason for one in app.history(task_id)] == ["claimed", "crash_retry"]
    assert seen(crashed).tasks["c"] == waiting


@pytest.mark.proves("TST-06")
def test_reset_interrupted_jobs_is_one_move_wherever_it_is_killed(
    template: Path, tmp_path: Path, forge: Forge
) -> None:
    """Killed at each point of the reset: a job is running or pending, never failed, never lost."""
    (probing,) = forge.fork("dies_at_a_probe", copy_of(template, tmp_path / "0"), "heal.", 0)
    points = probing.hear()
    assert probing.ended() == 0
    assert points >= 3, "or nothing is swept"
    for nth in range(1, points + 1):
        database = copy_of(template, tmp_path / str(nth))
        before = seen(database, is_checked=False)
        (dying,) = forge.fork("dies_at_a_probe", database, "heal.", nth)
        assert dying.ended() == -signal.SIGKILL
        between = seen(database)
        assert between.faults == {}
        assert {between.tasks[one].status for one in "ab"} <= {"running", "pending"}
        with Outlast(database):
            assert troubles(before, seen(database)) == []
        assert {task.recovery_count for task in seen(database).tasks.values()} == {0, 1}


def test_reset_interrupted_jobs_leaves_the_jobs_of_a_living_process_alone(database: Path) -> None:
    """The seed reset all that ran, a neighbour's too."""
    with Outlast(database) as app:
        app.enqueue_many("job", range(2), id=["theirs", "lost"])
    with Child(_claims_one, database) as living:
        assert living.hear() == ["theirs"]
        assert crash(database) == ["lost"]
        with validated(database) as before, Outlast(database) as app:
            assert before.stuck == {"lost"}
            assert (app.get("theirs").status, app.get("lost").status) == ("running", "pending")
            living.say(0)
            assert living.hear() is True


def _claims_one(path: str) -> None:
    from tests.seeds.crashing import claims_and_waits

    claims_and_waits(path, "living", 1)


# The order of recovery, and what drives it


def test_crm_2_the_steps_are_in_a_fixed_order_and_integrity_precedes_any_change(
    crashed: Path,
) -> None:
    """CRM-2, RP-3; the seed checked the file after it had changed it."""
    with Outlast(crashed) as app:
        report = app.last_report()
        assert report is not None
    assert [step.name for step in report.steps] == [
        "unclean shutdown check", "log size", "integrity", "log flush", "workers judged",
        "orphans", "verification", "report",
    ]  # fmt: skip
    assert (report.integrity.verdict, report.integrity_after.verdict) == ("PASSED", "PASSED")
    assert report.wal_bytes
    assert report.wal_frames_moved
    assert report.was_successful()


def test_orc_1_recovery_runs_at_each_start_though_no_marker_tells_of_a_crash(crashed: Path) -> None:
    """PUR-2, RA-3: the seed recovered only when it found its marker."""
    for marker in markers(crashed):
        marker.unlink()
    with validated(crashed), Outlast(crashed) as app:
        report = app.last_report()
        assert report is not None
        assert (report.trigger, report.tasks_put_back) == ("opening", 2)


def test_crm_1_another_manager_may_be_given_and_is_called_once(crashed: Path) -> None:
    called: list[Session] = []

    def manager(session: Session) -> None:
        called.append(session)
        usual_recovery(session)

    with validated(crashed), Outlast(crashed, recovery=manager) as app:
        assert app.counts()["pending"] == 3
        app.claim("w")
    assert len(called) == 1


def test_rp_1_what_was_committed_is_replayed_and_what_was_not_is_gone(database: Path) -> None:
    """RP-1, RP-2; the seed had it that uncommitted changes are rolled forward."""
    with Outlast(database):
        pass
    with Child(_commits_one_and_dies_in_the_next, database) as child:
        assert child.hear() == "committed"
        assert child.wait() == -signal.SIGKILL
    main_file_only = database.with_name("main.db")
    main_file_only.write_bytes(database.read_bytes())
    assert facts(main_file_only, "SELECT count(*) FROM tasks") == [[0]], "it is in the log alone"
    with validated(database), Outlast(database) as app:
        assert [task.id for task in app.tasks()] == ["committed"]


def _commits_one_and_dies_in_the_next(path: str) -> None:
    from outlast import Outlast, probes
    from tests.support.childside import die, say

    app = Outlast(path)
    app.enqueue("job", id="committed")
    say("committed")
    probes.arm(lambda name: die() if name == "enqueue.written" else None)
    app.enqueue("job", id="half")


# test_crash_recovery_end_to_end, test_graceful_shutdown


@pytest.mark.proves("TST-08")
def test_crash_recovery_end_to_end(database: Path) -> None:
    """SC-2: killed at work, recovered by the next start, and all is done without a word of ours."""
    ids = ["slow", *(f"job-{n}" for n in range(30))]
    with Outlast(database) as app:
        app.enqueue("held", id="slow")
        app.enqueue_many("quick", [{}] * 30, id=ids[1:])
    with WorkerChild(database, "first", concurrency=2) as worker:
        worker.begun("slow")
        worker.kill()
    assert len(markers(database)) == 1, "the sign of a session that did not end"
    with validated(database) as before:
        assert before.stuck >= {"slow"}
        with Outlast(database) as app:
            report = app.last_report()
            assert report is not None
            assert (report.previous, report.was_successful()) == ("unclean", True)
            assert report.crashed_at is not None
            assert report.tasks_running_before == len(before.stuck) == report.tasks_put_back
            assert [one.worker for one in report.dead_workers] == ["first"]
            assert {one.task_id for one in app.recovered(report.run_id)} == before.stuck
            assert app.counts()["running"] == 0
    assert markers(database) == []
    with WorkerChild(database, "second", until_empty=True) as worker:
        worker.let_go("slow")
        worker.ended()
    done = seen(database)
    assert done.ids("completed") == set(ids)
    assert (done.tasks["slow"].attempt, done.tasks["slow"].recovery_count) == (2, 1)


@pytest.mark.proves("TST-11")
def test_graceful_shutdown(database: Path) -> None:
    """SIM-2, AC-3, ORC-4: after SIGTERM no recovery is needed, and none is made."""
    with Outlast(database) as app:
        app.enqueue("held", id="slow")
        app.enqueue_many("quick", [{"seconds": 0.01}] * 100)
    with WorkerChild(database, concurrency=2, eager=True) as worker:
        worker.begun("slow")
        worker.signal(signal.SIGTERM)
        worker.let_go("slow")
        worker.ended()
    assert markers(database) == []
    assert seen(database).ids("running") == set()
    with validated(database), Outlast(database) as app:
        report = app.last_report()
        assert report is not None
        assert (report.previous, report.crashed_at) == ("clean", None)
        assert (report.tasks_running_before, report.tasks_put_back, report.dead_workers) == (
            0, 0, ()
        )  # fmt: skip
        assert app.get("slow").status == "completed"
    moved_by_recovery = "SELECT count(*) FROM transitions WHERE actor = 'system/recovery'"
    assert facts(database, moved_by_recovery) == [[0]]
    lost = "SELECT count(*) FROM tasks WHERE recovery_count > 0 OR attempt > 1"
    assert facts(database, lost) == [[0]], "what was in hand went back uncharged"


# test_multiple_crashes


@pytest.mark.proves("TST-16")
def test_multiple_crashes(database: Path, forge: Forge) -> None:
    """Crash after crash: each life recovers what the one before lost, and finishes one job.

    A few jobs are poison and never end well. Now and then a life dies in the middle of its own
    recovery. In the end all good jobs are done, all poison has failed, and no budget is overdrawn.
    """
    good = [f"good-{n}" for n in range(CYCLES - 5)]
    bad = [f"bad-{n}" for n in range(4)]
    with Outlast(database) as app:
        for n, task_id in enumerate(good):
            app.enqueue("job", id=task_id)
            if n % 12 == 6:
                app.enqueue(POISON, id=bad[n // 12])
    last, kills = seen(database), 0
    while kills < CYCLES or last.ids("pending") | last.ids("running"):
        assert kills < 4 * CYCLES, "it does not converge"
        if kills % 7 == 3:
            (dying,) = forge.fork("dies_at_a_probe", database, "heal.", 1 + kills % 4)
            kills += dying.ended() == -signal.SIGKILL
        last = _one_life(database, forge, last)
        kills += 1
    with validated(database), Outlast(database):
        pass
    _assert_converged(seen(database), set(good), set(bad))


def _one_life(database: Path, forge: Forge, last: Seen) -> Seen:
    """What is seen of the store while it lives, with all that the lives before had lost."""
    (life,) = forge.fork("works_until_killed", database)
    assert life.hear() == "open"
    held = life.hear()
    now = seen(database)
    assert troubles(last, now)[:5] == []
    assert {task_id for task_id, task in now.tasks.items() if task.holder_lives} <= set(held)
    life.killed()
    return now


def _assert_converged(after: Seen, good: set[str], bad: set[str]) -> None:
    assert (after.ids("completed"), after.ids("failed")) == (good, bad)
    executed = {after.tasks[one].attempt for one in bad}
    assert executed == {4}, "one run and three recoveries, whatever died in between"
    assert {after.tasks[one].recovery_count for one in bad} == {3}
    assert all(after.tasks[one].recovery_count <= 3 for one in good)
