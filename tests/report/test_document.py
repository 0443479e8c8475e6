"""The report as data: its schema, its figures, its pages, and how long it is kept."""

import json
from contextlib import closing
from dataclasses import asdict, fields
from pathlib import Path

import msgspec
import pytest

from outlast import DatabaseError, InvalidInput, Outlast, ReportDocument
from outlast.domain.recovery import RecoveredTask
from outlast.store.ops.recovery import run_rows
from outlast.store.ops.recovery.runs import RecoveryRuns
from outlast.store.store import Store
from outlast.testing import ManualClock
from tests.docs.report_schema import PAGE, rendered
from tests.recovery.stage import crash, rows
from tests.report.stage import Make, crashed_store, lost, report_of
from tests.store.hand import Hand


@pytest.mark.proves("RPT-14")
def test_the_schema_on_its_page_is_that_of_the_code() -> None:
    assert PAGE.read_text() == rendered(), (
        "if this is meant: ./run python -m tests.docs.report_schema --write"
    )


@pytest.mark.proves("RPT-14")
@pytest.mark.parametrize("mode", ["auto", "manual"])
def test_each_document_is_read_back_strictly_and_says_what_the_text_says(
    make_app: Make, clock: ManualClock, mode: str
) -> None:
    app = crashed_store(make_app, clock, recovery_mode=mode)
    empty = report_of(app)
    app.recover()
    full = report_of(app)
    for one in (empty, full, report_of(app, limit=1)):
        said = json.dumps(asdict(one)).encode()
        again = msgspec.json.decode(said, type=ReportDocument, strict=True)
        assert again == one
        assert str(again) == str(one)


@pytest.mark.proves("RPT-01", "RPT-02", "RPT-03", "RPT-07")
def test_a_known_crash_gives_known_figures(make_app: Make, clock: ManualClock) -> None:
    app = crashed_store(make_app, clock)
    app.enqueue_many("work", range(5), queue="waiting")
    report = app.last_report()
    assert report is not None
    found = report_of(app, limit=100)
    assert rows(app.path, "SELECT completed_at > 0 FROM recovery_runs WHERE id = ?", found.run_id)
    assert found.started_at <= found.completed_at == found.recovered_at
    assert found.duration_seconds == found.recovery_duration_seconds >= 0
    assert found.integrity == "PASSED"
    assert found.wal_frames_moved is not None
    assert found.wal_size_before_recovery_bytes
    assert found.jobs_recovered == len(found.recovered_tasks) == 4
    assert found.jobs_running_before_crash == 6
    assert found.jobs_reset_to_pending == 2
    assert found.jobs_pending == 2, "as the run left it, not with what came later"
    assert found.errors == tuple(f"task stubborn: {one.error}" for one in report.unrecovered)
    assert {one.worker for one in found.dead_workers} == {"worker-001", "worker-002"}
    assert (found.orphaned_tasks_found, found.tasks_skipped) == (6, 1)
    assert found.successful_recoveries == sum(one.success for one in found.recovered_tasks) == 2
    assert found.failed_recoveries == 3
    lists = len(found.recovered_tasks) + len(found.unrecovered_tasks)
    assert found.orphaned_tasks_found == lists + found.tasks_skipped
    assert (found.successful_recoveries + found.failed_recoveries) == lists


@pytest.mark.proves("RPT-02", "RPT-03")
def test_the_document_has_the_fields_that_both_seeds_ask_for() -> None:
    names = {one.name for one in fields(ReportDocument)}
    assert names >= {
        "started_at", "completed_at", "duration_seconds", "integrity", "wal_frames_moved",
        "recovered_tasks", "dead_workers",
        "recovered_at", "jobs_recovered", "jobs_pending", "jobs_running_before_crash",
        "jobs_reset_to_pending", "wal_size_before_recovery_bytes", "recovery_duration_seconds",
        "errors",
    }  # fmt: skip


@pytest.mark.proves("RPT-04", "RPT-05", "RPT-06")
def test_each_task_and_each_dead_worker_is_told_of_in_full(
    make_app: Make, clock: ManualClock
) -> None:
    app = crashed_store(make_app, clock)
    app.recover()
    found = report_of(app)
    by_id = {one.task_id: one for one in found.recovered_tasks}
    three, policy = by_id["task-three"], by_id["task-policy"]
    assert (three.action, three.attempt, three.limit, three.success) == ("retry", 3, 3, True)
    assert three.previous_worker == "worker-001"
    assert (policy.action, policy.success, policy.attempt) == ("fail", False, 1)
    assert policy.error is not None
    assert "worker-001" in policy.error
    (apart,) = found.unrecovered_tasks
    assert apart["task_id"] == "stubborn"
    assert "it is frozen" in apart["error"]
    first, second = sorted(found.dead_workers, key=lambda one: one.worker)
    assert (first.silent_seconds, second.silent_seconds) == (90, 60)
    assert first.last_beat_at < second.last_beat_at
    assert set(first.tasks) == {"task-two", "task-three", "task-policy"}
    assert second.tasks == ("task-spent",)


@pytest.mark.proves("RPT-06")
def test_two_dead_workers_of_one_name_have_their_own_tasks(
    app: Outlast, database: Path, clock: ManualClock
) -> None:
    for number in range(4):
        app.enqueue("work", id=f"t{number}", queue="left" if number % 2 else "right")
    app.close()
    for queue in ("left", "right"):
        lost(database, "twin", clock, queue)
    app.recover()
    tasks = sorted(sorted(one.tasks) for one in report_of(app).dead_workers)
    assert tasks == [["t0", "t2"], ["t1", "t3"]]


@pytest.mark.slow
@pytest.mark.proves("RPT-08")
def test_a_flush_that_a_reader_keeps_busy_is_an_error_of_the_run(
    app: Outlast, database: Path
) -> None:
    app.enqueue_many("work", range(50))
    app.close()
    crash(database)
    with closing(Hand(database)) as reader:
        reader.run("BEGIN")
        reader.rows("SELECT count(*) FROM tasks")
        app.open()
        report = app.last_report()
        reader.run("COMMIT")
    assert report is not None
    assert not report.was_successful()
    assert [one for one in report.errors if one.startswith("log flush: ")]
    app.close()
    app.open()
    again = app.last_report()
    assert again is not None
    assert again.was_successful()


def test_many_tasks_are_read_page_by_page(
    app: Outlast, database: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No read asks for more than a page, and together the pages have each task once."""
    ids = app.enqueue_many("work", range(2500))
    app.close()
    assert len(lost(database, "w", clock, "default")) == 2500
    app.recover()
    made: list[int] = []
    genuine = RecoveredTask.__init__

    def counting(self: RecoveredTask, *values: object, **named: object) -> None:
        made.append(1)
        genuine(self, *values, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(RecoveredTask, "__init__", counting)
    pages, after = [], 0
    while True:
        made.clear()
        page = report_of(app, limit=1000, after=after)
        assert len(made) <= 1001
        pages.append(page)
        if page.next_after is None:
            break
        after = page.next_after
    assert [len(one.recovered_tasks) for one in pages] == [1000, 1000, 500]
    assert [one.task_id for page in pages for one in page.recovered_tasks] == ids
    assert {one.jobs_recovered for one in pages} == {2500}
    assert [one.recovered_tasks_not_listed for one in pages] == [1500, 500, 0], "what follows"
    assert "more" not in str(pages[-1])


@pytest.mark.proves("OBS-19")
def test_of_many_suspects_the_worst_are_listed_and_all_are_counted(
    app: Outlast, database: Path, clock: ManualClock
) -> None:
    app.enqueue_many("work", range(12))
    for _ in range(2):
        app.close()
        assert len(lost(database, "w", clock, "default")) == 12
        app.recover()
    found, status = report_of(app), app.recovery_status()
    assert (len(found.repeatedly_orphaned), found.repeatedly_orphaned_not_listed) == (10, 2)
    section = str(found).partition("Repeatedly Orphaned: 12\n")[2].split("\n\n")[0].splitlines()
    assert (len(section), section[-1]) == (11, "  - and 2 more")
    assert (len(status.suspects), status.suspect_count) == (10, 12)


@pytest.mark.proves("REC-24")
def test_what_policy_leaves_alone_is_named_in_the_report_and_the_status(
    make_app: Make, database: Path, clock: ManualClock
) -> None:
    app = make_app(recovery_action_by_kind={"pay": "none"})
    app.enqueue_many("pay", range(103), id=[f"pay-{number:03d}" for number in range(103)])
    app.close()
    lost(database, "w", clock, "default")
    app.recover()
    ids = tuple(f"pay-{number:03d}" for number in range(100))
    found, status = report_of(app), app.recovery_status()
    assert (found.tasks_skipped, found.skipped_tasks) == (103, ids)
    assert "Left Alone By Policy: 103\n  - pay-000\n  - pay-001\n" in str(found)
    assert "  - pay-099\n  - and 3 more\n" in str(found)
    assert (status.is_due, status.left_alone, status.left_alone_ids) == (False, 103, ids)


def _crash_and_recover(app: Outlast, clock: ManualClock) -> int:
    app.enqueue("work")
    app.claim("w", lease="10s")
    clock.advance("1m")
    return app.recover().run_id


@pytest.mark.proves("RPT-10")
def test_the_newest_report_outlives_any_number_of_runs_that_found_nothing(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start is a run, each command that changes something among them."""
    monkeypatch.setattr(run_rows, "RUNS_KEPT", 3)
    monkeypatch.setattr(run_rows, "TELLING_RUNS_KEPT", 2)
    first, second, third = (_crash_and_recover(app, clock) for _ in range(3))
    for _ in range(5):
        app.recover()
    found = report_of(app)
    assert (found.run_id, found.orphaned_tasks_found) == (third, 1)
    assert app.recovery_report(second) is not None
    assert app.recovery_report(first) is None, "but they do not pile up for ever"
    kept = rows(app.path, "SELECT count(*) FROM recovery_runs")
    assert kept == [(1 + 2 + 3,)], "and the session that goes on is kept, too"


def test_only_runs_that_found_nothing_are_said_to_have_found_nothing(
    app: Outlast, clock: ManualClock
) -> None:
    first, second = (_crash_and_recover(app, clock) for _ in range(2))
    app.recover()
    for run_id in (first, second):
        assert report_of(app, run_id=run_id).runs_without_findings_since == 1


@pytest.mark.parametrize("page", [{"after": -1}, {"after": "1"}, {"run_id": 0}, {"run_id": True}])
def test_a_page_that_cannot_be_is_refused(app: Outlast, page: dict[str, int]) -> None:
    app.open()
    with pytest.raises(InvalidInput):
        app.recovery_report(**page)
    with pytest.raises(InvalidInput):
        app.recovered(**({"run_id": 1} | page))


@pytest.mark.proves("RPT-02")
def test_a_clock_that_is_set_back_meanwhile_makes_no_duration_negative(
    app: Outlast, database: Path, clock: ManualClock
) -> None:
    app.enqueue("work")
    app.close()
    lost(database, "w", clock, "default")
    app.recover(on_batch=lambda batch: clock.step_utc(-3600))
    found = report_of(app)
    assert (found.duration_seconds, found.recovery_duration_seconds) == (0, 0)
    (entry,) = app.audit()
    assert entry.data["duration_seconds"] == 0


@pytest.mark.proves("RPT-01", "OBS-01")
def test_a_run_whose_end_is_committed_though_its_answer_was_lost_has_ended_once(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed once more as one that was stopped, it would be told of twice, and wrongly."""
    end_run = RecoveryRuns.end
    answers: list[int] = []

    def lost_on_the_way(self: Store, *rest: object) -> None:
        end_run(self, *rest)  # type: ignore[arg-type]
        answers.append(1)
        if len(answers) == 1:
            raise DatabaseError("the answer was lost", OSError())

    app.enqueue("work")
    app.claim("w", lease="10s")
    clock.advance("1m")
    with monkeypatch.context() as patch:
        patch.setattr(RecoveryRuns, "end", lost_on_the_way)
        with pytest.raises(DatabaseError):
            app.recover()
    found = report_of(app)
    assert (found.was_successful, found.jobs_recovered) == (True, 1)
    ends = [one.run_id for one in app.events(kinds="recovery.completed")]
    assert ends.count(found.run_id) == 1
    assert [one.run_id for one in app.audit()] == [found.run_id]
