"""What becomes of an orphan: by action, by kind, by mode, by what it has left of its budget."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, RecoveryReport
from outlast.domain.lifecycle import (
    LEGAL_MOVES,
    RECOVERY,
    Cause,
    Outcome,
    Situation,
    Status,
    decide,
)
from outlast.testing import ManualClock
from tests.recovery.stage import assert_sound_inside, by_hand, crash, holder, rows
from tests.store.hand import Refused

Make = Callable[..., Outlast]


def recovered(
    make_app: Make, database: Path, *kinds: str, **settings: Any
) -> tuple[Outlast, RecoveryReport]:
    """A task of each kind, named after it, is lost with its worker; then the store is opened."""
    app = make_app(**settings)
    for kind in kinds:
        app.enqueue(kind, id=kind)
    app.close()
    assert crash(database) == list(kinds)
    report = app.open().last_report()
    assert report is not None
    return app, report


def row_of(app: Outlast, task_id: str) -> tuple[Any, ...]:
    task = app.get(task_id)
    moves = app.history(task_id)
    return task.status, task.attempt, task.recovery_count, moves[-1].reason, task.parked


ROWS = {
    "retry": ("pending", 1, 1, "crash_retry", None),
    "pending": ("pending", 0, 1, "crash_reset", None),
    "fail": ("failed", 1, 0, "crash_policy_fail", None),
    "none": ("running", 1, 0, "claimed", None),
}


@pytest.mark.proves("REC-13", "REC-18")
@pytest.mark.parametrize("action", ROWS)
def test_each_action_gives_its_documented_row(make_app: Make, database: Path, action: str) -> None:
    app, report = recovered(make_app, database, "work", recovery_action=action)
    assert row_of(app, "work") == ROWS[action]
    counts = (report.tasks_put_back, report.tasks_failed, report.tasks_skipped)
    assert counts == {"fail": (0, 1, 0), "none": (0, 0, 1)}.get(action, (1, 0, 0))
    app.close()
    assert_sound_inside(database, left=["work"] if action == "none" else ())


@pytest.mark.proves("REC-14")
def test_without_any_setting_an_orphan_is_tried_again(make_app: Make, database: Path) -> None:
    app, _ = recovered(make_app, database, "work")
    assert row_of(app, "work") == ROWS["retry"]
    (lease,) = app.claim("w")
    assert (lease.task_id, lease.attempt) == ("work", 2)


@pytest.mark.proves("REC-15")
@pytest.mark.parametrize(("lost_before", "status"), [(1, "pending"), (2, "failed")])
def test_a_task_lost_as_often_as_it_may_be_fails_with_the_next_loss(
    make_app: Make, database: Path, clock: ManualClock, lost_before: int, status: str
) -> None:
    app = make_app(max_recovery_attempts=2)
    app.enqueue("work", id="t")
    for _ in range(lost_before):
        app.claim("w", lease="10s")
        clock.advance("1m")
        assert app.heal().entries_reclaimed == 1
    app.close()
    crash(database)
    app.open()
    assert app.get("t").status == status
    assert app.get("t").recovery_count == 2
    assert app.history("t")[-1].reason == (
        "crash_retry" if status == "pending" else "max_retries_exceeded"
    )


@pytest.mark.proves("REC-15")
def test_one_beyond_the_limit_would_fail_and_the_store_has_none(app: Outlast) -> None:
    crashed = Cause(Outcome.CRASH, RECOVERY, error="it died")
    beyond = Situation(
        Status.RUNNING, 4, 0, recovery_count=3, crashes_in_row=3, max_retries=3, max_recoveries=2
    )
    assert decide(beyond, crashed).to is Status.FAILED
    app.enqueue("work")
    with pytest.raises(Refused, match="task_budgets"):
        by_hand(app.path, "UPDATE tasks SET recovery_count = 101")


@pytest.mark.proves("REC-16")
def test_each_recovered_task_has_its_legal_move_in_the_log(make_app: Make, database: Path) -> None:
    by_kind = {"hopeless": "fail", "again": "pending"}
    app, report = recovered(
        make_app, database, "work", "again", "hopeless", recovery_action_by_kind=by_kind
    )
    logged = """
        SELECT t.id, x.from_status, x.to_status, t.status FROM transitions x
        JOIN tasks t ON t.seq = x.task_seq WHERE x.run_id = ? ORDER BY t.seq"""
    moves = rows(database, logged, report.run_id)
    assert moves == [
        ("work", "running", "pending", "pending"),
        ("again", "running", "pending", "pending"),
        ("hopeless", "running", "failed", "failed"),
    ]
    assert {(Status(old), Status(new)) for _, old, new, _ in moves} <= LEGAL_MOVES
    app.close()
    assert_sound_inside(database)


@pytest.mark.proves("REC-16")
def test_recovery_asks_the_one_function_that_decides_all_moves(
    make_app: Make, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outlast.domain import lifecycle
    from outlast.store.ops import settle

    asked: list[tuple[str, str]] = []
    genuine = lifecycle.decide

    def deciding(situation: Any, cause: Any) -> Any:
        asked.append((str(situation.status), str(cause.outcome)))
        return genuine(situation, cause)

    monkeypatch.setattr(settle, "decide", deciding)
    recovered(make_app, database, "work")
    assert ("running", "crash") in asked


@pytest.mark.proves("REC-17")
def test_the_one_who_acts_is_system_recovery_to_the_letter(make_app: Make, database: Path) -> None:
    app, report = recovered(
        make_app, database, "work", "bad", recovery_action_by_kind={"bad": "fail"}
    )
    assert [app.history(one)[-1].actor for one in ("work", "bad")] == ["system/recovery"] * 2
    logged = "SELECT DISTINCT actor FROM transitions WHERE run_id = ?"
    assert rows(database, logged, report.run_id) == [("system/recovery",)]
    told = rows(database, "SELECT kind, data FROM events WHERE run_id = ?", report.run_id)
    assert {kind: json.loads(data)["actor"] for kind, data in told} == {
        "recovery.started": "system/recovery",
        "recovery.progress": "system/recovery",
        "worker.dead": "system/recovery",
        "recovery.completed": "system/recovery",
    }


@pytest.mark.proves("REC-18")
def test_four_causes_have_four_codes_and_a_text_each(
    make_app: Make, database: Path, clock: ManualClock
) -> None:
    app = make_app()
    app.enqueue("spent", id="spent")
    for _ in range(3):
        app.claim("w", lease="10s")
        clock.advance("1m")
        app.heal()
    app.close()
    by_kind = {"reset": "pending", "policy": "fail"}
    for kind in ("retry", "reset", "policy"):
        app.enqueue(kind, id=kind)
    app.close()
    crash(database)
    app = make_app(recovery_action_by_kind=by_kind).open()
    moves = {one: app.history(one)[-1] for one in ("retry", "reset", "spent", "policy")}
    assert [move.reason for move in moves.values()] == [
        "crash_retry",
        "crash_reset",
        "max_retries_exceeded",
        "crash_policy_fail",
    ]
    for kind, move in moves.items():
        assert kind in (move.error or ""), "the text names the kind"
    assert len({move.error for move in moves.values()}) == 4


@pytest.mark.proves("RTY-07")
def test_a_task_that_recovery_fails_says_that_its_worker_died(
    make_app: Make, database: Path
) -> None:
    app, report = recovered(make_app, database, "work", recovery_action="fail")
    (dead,) = report.dead_workers
    error = app.get("work").error or ""
    assert error.startswith(
        f"worker victim (pid {dead.pid}) died while running this task of kind work: "
    )
    assert "its lock is free" in error


@pytest.mark.proves("RTY-07")
def test_so_does_one_that_was_lost_once_too_often(make_app: Make, database: Path) -> None:
    app = make_app(max_recovery_attempts=0)
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    app.open()
    assert app.get("t").status == "failed"
    assert (app.get("t").error or "").startswith("died 1 of 1 times")
    assert "kind" in (app.get("t").error or "")


@pytest.mark.proves("REC-24")
def test_a_kind_without_action_stays_and_is_reported_and_told_as_skipped(
    make_app: Make, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "outlast.heal"):
        app, report = recovered(
            make_app, database, "care", "work", recovery_action_by_kind={"care": "none"}
        )
    assert (app.get("care").status, app.get("work").status) == ("running", "pending")
    assert (report.tasks_skipped, report.tasks_put_back) == (1, 1)
    assert report.was_successful()
    said = [record.getMessage() for record in caplog.records]
    assert [one for one in said if "task work of worker victim" in one and "(crash_retry)" in one]
    assert [one for one in said if "task care" in one and "leaves kind care alone" in one]
    (planned,) = app.recovery_plan()
    assert (planned.task_id, planned.reason, planned.action) == ("care", "skipped", "none")
    assert "recovery leaves this kind alone" in planned.because


@pytest.mark.proves("REC-24")
def test_it_is_skipped_again_at_each_start_until_its_kind_is_given_an_action(
    make_app: Make, database: Path
) -> None:
    app, _ = recovered(make_app, database, "care", recovery_action_by_kind={"care": "none"})
    assert app.recover().tasks_skipped == 1
    app.close()
    assert app.recover().tasks_skipped == 1
    app.close()
    assert make_app(recovery_action_by_kind={"care": "fail"}).recover().tasks_failed == 1
    assert app.get("care").status == "failed"


@pytest.mark.proves("REC-24")
def test_only_the_kinds_with_an_action_move_when_the_default_is_none(
    make_app: Make, database: Path
) -> None:
    app, report = recovered(
        make_app, database, "work", "mail", recovery_action="none",
        recovery_action_by_kind={"mail": "retry"},
    )  # fmt: skip
    assert (app.get("work").status, app.get("mail").status) == ("running", "pending")
    assert (report.tasks_skipped, report.tasks_put_back) == (1, 1)


@pytest.mark.proves("REC-24")
def test_verbose_logs_tell_why_a_task_of_a_living_worker_stays(
    make_app: Make, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app()
    app.enqueue("work", id="t")
    app.claim("w")
    app.enqueue("work", id="held")
    with holder(database) as child, caplog.at_level(logging.DEBUG, "outlast.heal"):
        assert child.hear() == ["held"]
        assert app.recover().tasks_put_back == 0
        pid = child.pid
    told = f"task held stays with worker victim (pid {pid}): its lock is held"
    assert [one for one in caplog.messages if one.startswith(told)]


def test_in_manual_mode_orphans_are_held_until_they_are_approved(
    make_app: Make, database: Path
) -> None:
    app, report = recovered(make_app, database, "work", recovery_mode="manual")
    assert row_of(app, "work") == ("pending", 1, 1, "crash_retry", "hold")
    assert (report.tasks_held, report.mode) == (1, "manual")
    assert app.recovery_status().held_tasks == 1
    assert app.claim("w") == []
    assert app.unpark("work")
    assert app.recovery_status().held_tasks == 0
    assert [lease.task_id for lease in app.claim("w")] == ["work"]


def test_in_manual_mode_what_is_beyond_its_budget_fails_as_ever(
    make_app: Make, database: Path
) -> None:
    app = make_app(recovery_mode="manual", max_recovery_attempts=0)
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    assert app.recover().tasks_failed == 1
    assert app.get("t").status == "failed"


@pytest.mark.proves("REC-24")
def test_what_is_left_alone_is_not_said_to_be_due(make_app: Make, clock: ManualClock) -> None:
    app = make_app(recovery_action_by_kind={"work": "none"})
    app.enqueue_many("work", [1], id=["t"])
    app.claim("w", lease="10s")
    clock.advance("11s")
    assert app.heal().entries_reclaimed == 0
    assert not app.recovery_status().is_due
