"""acode's own list of tests for crash recovery, by number: five units and four integrations.

Its sample code recovered tasks before it looked for dead workers, so that it found none; it asked
for each task whether its worker lives; and it treated the actions `retry` and `pending` alike.
"""

import signal
from contextlib import closing
from pathlib import Path

import pytest

from outlast import Outlast, Settings, WorkerState
from outlast.domain.lifecycle import Cause, Outcome, RecoveryAction, Status, decide
from outlast.testing import ManualClock
from tests.crash.workers.working import WorkerChild, looking, status_is, until
from tests.domain.situations import situation
from tests.seeds.crashing import claims_and_waits, copy_of, crash, facts
from tests.store.hand import Hand, everything
from tests.support.children import Child
from tests.support.recovery_validator import seen, validated

FAR = "UPDATE workers SET host = 'far', boot_id = 'another', lock_file = 'none' WHERE name = ?"


# UT-001: orphan detection logic


@pytest.mark.proves("TST-01")
def test_ut_001_orphan_detection_logic(app: Outlast, clock: ManualClock) -> None:
    """Each case of holder and lease in one real store: told by the plan, done by healing.

    The process is this one; what it holds under `gone` and `silent` is made to belong to workers
    of another host, whose lock nobody here can ask for.
    """
    cases = {
        "living, lease good": ("here", "1h", None),
        "living, lease over": ("here", "100s", "lease_ran_out"),
        "far and heard of, lease good": ("far", "1h", None),
        "far and heard of, lease over": ("far", "100s", "lease_ran_out"),
        "far and stale, lease good": ("silent", "1h", None),
        "far and dead, lease good": ("gone", "1h", "holder_dead"),
        "far and dead, lease over": ("gone", "100s", "holder_dead"),
    }
    for task_id, (worker, lease, _) in cases.items():
        app.enqueue("work", id=task_id)
        app.claim(worker, lease=lease)
    with closing(Hand(app.path)) as hand:
        for worker in ("far", "silent", "gone"):
            hand.run(FAR, worker)
            hand.run("UPDATE workers SET incarnation = name WHERE name = ?", worker)
        _heard_of_ago(hand, clock, far=0, silent=90_001, gone=100_001)
    plan = {one.task_id: one.orphaned for one in app.recovery_plan()}
    assert plan == {task_id: orphaned for task_id, (_, _, orphaned) in cases.items()}
    app.heal()
    running = {task.id for task in app.tasks("running")}
    assert running == {task_id for task_id, (_, _, orphaned) in cases.items() if orphaned is None}


def _heard_of_ago(hand: Hand, clock: ManualClock, **silent_ms: int) -> None:
    clock.advance("200s")
    for worker, silence in silent_ms.items():
        at = clock.now().utc_ms - silence
        hand.run("UPDATE workers SET beat_at = ?, beat_mono_ms = 0 WHERE name = ?", at, worker)
        # A renewal of a lease is a sign of life, too.
        hand.run("UPDATE tasks SET heartbeat_at = ? WHERE worker_id = ?", at, worker)


# UT-002: recovery action selection

SELECTED = {
    ("retry", 0): ("pending", "crash_retry", 2, 1),
    ("retry", 2): ("pending", "crash_retry", 2, 3),
    ("retry", 3): ("failed", "max_retries_exceeded", 2, 3),
    ("pending", 0): ("pending", "crash_reset", 1, 1),
    ("pending", 2): ("pending", "crash_reset", 1, 3),
    ("pending", 3): ("failed", "max_retries_exceeded", 2, 3),
    ("fail", 0): ("failed", "crash_policy_fail", 2, 0),
    ("fail", 3): ("failed", "crash_policy_fail", 2, 3),
}


@pytest.mark.proves("TST-02")
@pytest.mark.parametrize(("action", "recoveries"), SELECTED)
def test_ut_002_recovery_action_selection(action: str, recoveries: int) -> None:
    """By policy and by what is left of the budget: below, one before, and at the limit of 3."""
    cause = Cause(Outcome.CRASH, "system/recovery", error="gone", action=RecoveryAction(action))
    move = decide(situation(attempt=2, recoveries=recoveries), cause)
    assert (move.to, move.reason, move.attempt, move.recovery_count) == SELECTED[action, recoveries]


@pytest.mark.proves("TST-02")
def test_ut_002_a_kind_may_have_an_action_of_its_own() -> None:
    settings = Settings(recovery_action="fail", recovery_action_by_kind={"mail": "none"})
    assert (settings.action_for("mail"), settings.action_for("other")) == ("none", "fail")
    assert Settings().action_for("any") == "retry", "in doubt it is tried again"


# UT-003: heartbeat timeout; UT-004: stale threshold calculation


@pytest.mark.proves("TST-02")
@pytest.mark.parametrize(
    ("silent_ms", "state"), [(89_999, "alive"), (90_000, "alive"), (90_001, "stale")]
)
def test_ut_003_heartbeat_timeout(
    app: Outlast, clock: ManualClock, silent_ms: int, state: str
) -> None:
    """Silent for longer than the threshold, not for as long."""
    app.heartbeat("w")
    clock.advance(silent_ms / 1000)
    (worker,) = app.workers()
    assert worker.state == state
    assert app.is_alive("w") == (state == "alive")
    app.heartbeat("w")
    assert app.is_alive("w"), "a beat ends the silence"


@pytest.mark.proves("TST-02")
@pytest.mark.parametrize(
    ("given", "interval_ms", "stale_ms", "grace_ms"),
    [
        ({}, 30_000, 90_000, 10_000),
        ({"heartbeat_interval_seconds": 20}, 20_000, 60_000, 10_000),
        ({"heartbeat_interval_seconds": 20, "heartbeat_stale_seconds": 45}, 20_000, 45_000, 10_000),
        ({"heartbeat_grace_seconds": 0}, 30_000, 90_000, 0),
    ],
)
def test_ut_004_stale_threshold_calculation(
    given: dict[str, float], interval_ms: int, stale_ms: int, grace_ms: int
) -> None:
    """Three intervals, unless a threshold of its own is given."""
    settings = Settings(**given)  # type: ignore[arg-type]
    assert settings.heartbeat.interval_ms == interval_ms
    assert settings.patience == (stale_ms, grace_ms)


# UT-005: idempotency verification


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose process was killed with three tasks in hand; only to be copied."""
    database = tmp_path_factory.mktemp("crashed") / "work.db"
    with Outlast(database) as app:
        app.enqueue_many("work", range(4), id=["a", "b", "c", "waiting"])
    assert crash(database, limit=3) == ["a", "b", "c"]
    return database


RUN_LOG = {"recovery_runs", "events", "sqlite_sequence", "workers"}


@pytest.mark.proves("TST-02")
@pytest.mark.parametrize("again", ["open", "recover", "heal", "claim nothing"])
def test_ut_005_idempotency_verification(template: Path, tmp_path: Path, again: str) -> None:
    """A second pass, by whatever door, leaves every table but the log of runs as it was."""
    database = copy_of(template, tmp_path)
    with validated(database), Outlast(database):
        pass
    with closing(Hand(database)) as hand:
        once = everything(hand)
    with Outlast(database) as app:
        if again == "recover":
            assert app.recover().tasks_put_back == 0
        elif again == "heal":
            assert app.heal().entries_reclaimed == 0
        elif again == "claim nothing":
            assert app.claim("w", queue="empty") == []
    with closing(Hand(database)) as hand:
        twice = everything(hand)
    assert {name for name in once if once[name] != twice[name]} <= RUN_LOG
    dead = "SELECT count(*) FROM events WHERE kind = 'worker.dead'"
    assert facts(database, dead) == [[1]], "and nobody dies twice"


# IT-001: full crash recovery


@pytest.mark.proves("TST-03")
def test_it_001_full_crash_recovery(database: Path) -> None:
    """All processes of the queue are killed at once; the next start serves what is unfinished."""
    with Outlast(database) as app:
        app.enqueue_many("work", range(6), id=list("abcdef"))
    with (
        Child(claims_and_waits, database, "one", 2) as one,
        Child(claims_and_waits, database, "two", 2) as two,
    ):
        held = {*one.hear(), *two.hear()}
        for child in (one, two):
            child.signal(signal.SIGKILL)
        one.kill()
        two.kill()
    with validated(database) as before, Outlast(database) as app:
        assert before.stuck == held
        report = app.last_report()
        assert report is not None
        assert {one.worker for one in report.dead_workers} == {"one", "two"}
        assert sorted(one.tasks_put_back for one in report.dead_workers) == [2, 2]
        leases = app.claim("next", limit=9)
        assert {(lease.task_id, lease.attempt) for lease in leases} == {
            (one, 2 if one in held else 1) for one in "abcdef"
        }
        app.complete_many([(lease, None) for lease in leases])
    assert seen(database).ids("completed") == set("abcdef")


# IT-002: worker death handling


@pytest.mark.proves("TST-03")
def test_it_002_worker_death_handling(database: Path) -> None:
    """One of two workers is killed; the other, idle, finds out and does its task, untold."""
    with Outlast(database) as app:
        app.enqueue("held", id="t")
    with WorkerChild(database, "victim") as victim, looking(database) as app:
        victim.begun("t")
        with WorkerChild(database, "heir") as heir, validated(database):
            until(lambda: app.is_alive("heir"), "the heir does not register")
            victim.kill()
            heir.begun("t", attempt=2)
            heir.let_go("t")
            status_is(app, "t", "completed")
            victims = [one for one in app.workers() if one.name == "victim"]
            assert [one.state for one in victims] == [WorkerState.DEAD]
            assert victims[0].task_ids == ()
            assert [move.actor for move in app.history("t")][1] == "system/recovery"
            heir.signal(signal.SIGTERM)
            heir.ended()


# IT-003: WAL recovery


@pytest.mark.proves("TST-03")
def test_it_003_wal_recovery(database: Path) -> None:
    """What was committed stands in the log alone when all are killed; it is replayed and moved."""
    with Outlast(database):
        pass
    with Child(_enqueues_many, database) as child:
        acknowledged = child.hear()
        child.kill()
    log = database.with_name(f"{database.name}-wal")
    assert log.stat().st_size > 0
    main_file_only = database.with_name("main.db")
    main_file_only.write_bytes(database.read_bytes())
    assert facts(main_file_only, "SELECT count(*) FROM tasks") == [[0]]
    with validated(database), Outlast(database) as app:
        report = app.last_report()
        assert report is not None
        assert report.wal_frames_moved
        assert report.integrity.passed
        assert {task.id for task in app.tasks()} == set(acknowledged)


def _enqueues_many(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    say([app.enqueue("work", n).id for n in range(20)])
    hear()


# IT-004: multiple crash cycles


@pytest.mark.proves("TST-03")
def test_it_004_multiple_crash_cycles(database: Path) -> None:
    """A task that is lost each time runs four times and fails; its neighbours are not charged."""
    with Outlast(database) as app:
        app.enqueue("work", id="unlucky")
        app.enqueue("work", id="neighbour")
    for cycle in range(1, 5):
        assert crash(database, f"life-{cycle}", limit=1) == ["unlucky"]
        with validated(database) as before, Outlast(database) as app:
            assert before.stuck == {"unlucky"}
            task = app.get("unlucky")
            assert (task.attempt, task.recovery_count) == (cycle, min(cycle, 3))
            assert task.status == ("pending" if cycle < 4 else "failed")
    after = seen(database)
    assert after.tasks["unlucky"].status == Status.FAILED
    assert after.tasks["neighbour"].attempt == 0
