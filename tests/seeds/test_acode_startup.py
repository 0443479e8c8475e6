"""acode's requirements on recovery at start-up, FR-001 to FR-030 and their criteria, by number.

Most are facts about one and the same crash: a process is killed with three tasks in hand, and the
store is opened again. FR-007 and FR-008, repair and what follows if it fails, are not part of it.
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from outlast import Outlast, RecoveredTask, RecoveryReport, Settings, TaskNotFound, usual_recovery
from outlast.store.session import Session
from tests.seeds.crashing import claims_and_waits, copy_of, crash, facts
from tests.store.hand import Hand
from tests.support.children import Child
from tests.support.recovery_validator import Seen, seen, troubles, validated

PATIENCE_SECONDS = 60


class Start(NamedTuple):
    """A crash, and the start after it: what was there, what was done, what was said."""

    app: Outlast
    report: RecoveryReport
    moved: dict[str, RecoveredTask]
    before: Seen
    after: Seen
    said: list[str]


class _Listening(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.levelname} {record.getMessage()}")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A process was killed with `a`, `b` and `spent`, which had no crash left in its budget."""
    database = tmp_path_factory.mktemp("crashed") / "work.db"
    with Outlast(database) as app:
        app.enqueue("work", id="spent", max_recoveries=0)
        app.enqueue_many("work", range(3), id=["a", "b", "waiting"])
    assert crash(database, "victim", limit=3) == ["spent", "a", "b"]
    return database


@pytest.fixture(scope="module")
def start(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    database = copy_of(template, tmp_path_factory.mktemp("start"))
    before, listening = seen(database), _Listening()
    log = logging.getLogger("outlast")
    log.addHandler(listening)
    with Outlast(database) as app:
        log.removeHandler(listening)
        report = app.last_report()
        assert report is not None
        moved = {one.task_id: one for one in app.recovered(report.run_id)}
        yield Start(app, report, moved, before, seen(database), listening.said)


def events(start: Start) -> list[str]:
    """The kinds of the events of the run, in their order."""
    query = f"SELECT kind FROM events WHERE run_id = {start.report.run_id} ORDER BY pos"
    return [kind for (kind,) in facts(start.app.path, query)]


# FR-001 to FR-005, FR-009: when it runs, and what is heard of it


def test_fr_001_recovery_runs_on_startup(start: Start) -> None:
    """AC-001: nobody called it."""
    assert start.before.stuck == {"spent", "a", "b"}
    assert (start.report.trigger, start.report.tasks_put_back) == ("opening", 2)
    assert troubles(start.before, start.after) == []


def test_fr_002_recovery_completes_before_operations(template: Path, tmp_path: Path) -> None:
    """While recovery is under way, claims, enqueues and heartbeats wait; then they are served."""
    database = copy_of(template, tmp_path)
    under_way, go_on, served = threading.Event(), threading.Event(), list[str]()

    def slowly(session: Session) -> None:
        under_way.set()
        assert go_on.wait(PATIENCE_SECONDS)
        usual_recovery(session)
        served.append("recovered")

    app = Outlast(database, recovery=slowly)
    operations: dict[str, Callable[[], object]] = {
        "claim": lambda: app.claim("w"),
        "enqueue": lambda: app.enqueue("work", id="new"),
        "heartbeat": lambda: app.heartbeat("w"),
    }

    def ask(name: str) -> None:
        operations[name]()
        served.append(name)

    threads = [threading.Thread(target=ask, args=[name]) for name in operations]
    for thread in threads:
        thread.start()
    assert under_way.wait(PATIENCE_SECONDS)
    assert seen(database).stuck == {"spent", "a", "b"}
    assert served == []
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert (served[0], set(served[1:])) == ("recovered", set(operations))
    app.close()


def test_fr_003_recovery_is_logged(start: Start) -> None:
    said = "WARNING recovered 2 tasks, failed 1, of 1 dead workers, in "
    assert len([one for one in start.said if one.startswith(said)]) == 1


def test_fr_004_a_start_event_is_emitted(start: Start) -> None:
    assert events(start)[0] == "recovery.started"


def test_fr_005_a_complete_event_is_emitted(start: Start) -> None:
    assert events(start)[-1] == "recovery.completed"
    assert events(start).count("recovery.completed") == 1


def test_fr_006_recovery_checks_the_integrity_of_the_database(start: Start) -> None:
    assert (start.report.integrity.verdict, start.report.integrity.errors) == ("PASSED", ())


def test_fr_009_the_wal_is_flushed(start: Start) -> None:
    assert start.report.wal_frames_moved


def test_fr_010_a_transaction_that_was_open_is_rolled_back(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("work", id="whole")
    with Child(_dies_inside_a_transaction, database) as child:
        assert child.wait() == -signal.SIGKILL
    with validated(database), Outlast(database) as app:
        with pytest.raises(TaskNotFound):
            app.get("half")
        assert app.get("whole").status == "pending"


def _dies_inside_a_transaction(path: str) -> None:
    from outlast import Outlast, probes
    from tests.support.childside import die

    app = Outlast(path).open()
    probes.arm(lambda name: die() if name == "enqueue.written" else None)
    app.enqueue("work", id="half")


# FR-011 to FR-017: who is recovered, and by which action


def test_fr_011_running_tasks_are_identified(start: Start) -> None:
    """AC-002: as many as another program counts."""
    assert start.report.tasks_running_before == len(start.before.ids("running")) == 3


def test_fr_012_running_tasks_of_dead_workers_are_recovered_and_no_others(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue_many("work", range(2), id=["living", "dead"])
    with Child(claims_and_waits, database, "living", 1) as living:
        assert living.hear() == ["living"]
        assert crash(database, limit=1) == ["dead"]
        with validated(database), Outlast(database) as app:
            assert (app.get("living").status, app.get("dead").status) == ("running", "pending")
            living.say(0)
            assert living.hear() is True, "and its own result is taken"


ACTIONS = {
    "retry": ("pending", "crash_retry", 1, 1),
    "pending": ("pending", "crash_reset", 0, 1),
    "fail": ("failed", "crash_policy_fail", 1, 0),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_fr_013_fr_014_the_action_is_configurable(
    template: Path, tmp_path: Path, action: str
) -> None:
    """AC-003: retry, fail, pending; each leaves its own row."""
    database = copy_of(template, tmp_path)
    settings = Settings(recovery_action=action)  # type: ignore[arg-type]
    with validated(database), Outlast(database, settings=settings) as app:
        task = app.get("a")
        found = (task.status, app.history("a")[-1].reason, task.attempt, task.recovery_count)
        assert found == ACTIONS[action]


def test_fr_014_a_kind_without_action_stays_and_is_counted(template: Path, tmp_path: Path) -> None:
    """TS-3: the fourth action, for work that a person has to look at."""
    database = copy_of(template, tmp_path)
    settings = Settings(recovery_action_by_kind={"work": "none"})
    with validated(database, spared={"work"}), Outlast(database, settings=settings) as app:
        report = app.last_report()
        assert report is not None
        assert (report.tasks_skipped, report.tasks_put_back) == (3, 0)
        assert app.counts()["running"] == 3


def test_fr_015_the_default_action_is_retry(start: Start) -> None:
    assert Settings().recovery_action == "retry"
    assert start.moved["a"].reason == "crash_retry"


def test_fr_016_retry_checks_the_attempt_limit(start: Start) -> None:
    """AC-004: within the budget it goes back, and shows how much is used of how much."""
    within = start.moved["a"]
    assert (within.status, within.attempt) == ("pending", 1)
    assert (within.max_retries, within.max_recoveries) == (3, None)


def test_fr_017_over_the_limit_the_task_fails(start: Start) -> None:
    """AC-005; its error says that its worker died."""
    over = start.moved["spent"]
    assert (over.status, over.reason) == ("failed", "max_retries_exceeded")
    assert over.error is not None
    assert "died 1 of 1 times" in over.error
    assert "worker victim" in over.error
    assert start.app.get("spent").error == over.error


# FR-018 to FR-024: how a task is moved


def test_fr_018_the_status_is_updated(start: Start) -> None:
    assert {one: start.after.tasks[one].status for one in start.before.stuck} == {
        "a": "pending", "b": "pending", "spent": "failed"
    }  # fmt: skip


def test_fr_019_the_transition_is_logged(start: Start) -> None:
    moves = [(one.from_status, one.to_status) for one in start.app.history("a")]
    assert moves == [("pending", "running"), ("running", "pending")]


def test_fr_020_an_event_is_emitted_in_one_stream_with_those_of_the_run(start: Start) -> None:
    query = f"""
        SELECT kind FROM (
            SELECT pos, kind FROM events WHERE run_id = {start.report.run_id}
            UNION ALL
            SELECT pos, to_status FROM transitions WHERE run_id = {start.report.run_id})
        ORDER BY pos"""
    stream = [kind for (kind,) in facts(start.app.path, query)]
    assert stream[0] == "recovery.started"
    assert sorted(stream[1:4]) == ["failed", "pending", "pending"]
    assert stream[4:] == ["recovery.progress", "worker.dead", "recovery.completed"]


def test_fr_021_the_actor_is_system_recovery(start: Start) -> None:
    query = f"SELECT DISTINCT actor FROM transitions WHERE run_id = {start.report.run_id}"
    assert facts(start.app.path, query) == [["system/recovery"]]


def test_fr_022_the_reason_explains(start: Start) -> None:
    reasons = {task_id: one.reason for task_id, one in start.moved.items()}
    assert reasons == {"a": "crash_retry", "b": "crash_retry", "spent": "max_retries_exceeded"}
    assert all(one.error and "victim" in one.error for one in start.moved.values())


def test_fr_023_recoveries_are_counted_by_task_and_by_run(start: Start) -> None:
    assert start.app.get("a").recovery_count == 1
    assert (start.report.tasks_put_back, start.report.tasks_failed) == (2, 1)


def test_fr_024_the_time_is_tracked(start: Start) -> None:
    report = start.report
    assert all(report.started_at <= one.at <= report.completed_at for one in start.moved.values())
    assert next(step for step in report.steps if step.name == "orphans").seconds > 0


# FR-025 to FR-030: the report, and repetition


def test_fr_025_a_report_is_generated_and_read_by_any_process(start: Start) -> None:
    looking = Outlast(start.app.path)
    assert looking.last_report() == start.report
    looking.close()


def test_fr_026_the_report_shows_the_recovered_tasks(start: Start) -> None:
    assert start.moved.keys() == start.before.stuck
    assert {one.previous_worker for one in start.moved.values()} == {"victim"}


def test_fr_027_the_report_shows_failed_recoveries(template: Path, tmp_path: Path) -> None:
    """One that cannot be moved is named with its error, and the rest is recovered."""
    database = copy_of(template, tmp_path)
    with closing(Hand(database)) as hand:
        hand.run(
            "CREATE TRIGGER stubborn BEFORE UPDATE ON tasks WHEN old.id = 'a'"
            " BEGIN SELECT RAISE(ABORT, 'it will not move'); END"
        )
    with Outlast(database) as app:
        report = app.last_report()
        assert report is not None
        ((task_id, error),) = [(one.task_id, one.error) for one in report.unrecovered]
        assert task_id == "a"
        assert "it will not move" in error
        assert not report.was_successful()
        assert {one.task_id for one in app.recovered(report.run_id)} == {"b", "spent"}


def test_fr_028_the_report_shows_the_duration(start: Start) -> None:
    length = start.report.completed_at - start.report.started_at
    assert start.report.duration_seconds == length.total_seconds() > 0


@pytest.mark.slow
def test_fr_029_fr_030_repeated_recovery_is_safe(template: Path, tmp_path: Path) -> None:
    """AC-011: another start and another call change nothing; another crash is charged once."""
    database = copy_of(template, tmp_path)
    with validated(database), Outlast(database):
        pass
    once = seen(database)
    with Outlast(database) as app:
        report = app.recover()
        assert (report.tasks_put_back, report.tasks_failed, report.dead_workers) == (0, 0, ())
    assert seen(database) == once
    assert crash(database, "next victim", limit=1) == ["a"]
    with validated(database), Outlast(database) as app:
        assert [app.get(one).recovery_count for one in ("a", "b", "spent")] == [2, 1, 0]
