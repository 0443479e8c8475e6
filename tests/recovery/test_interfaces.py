"""Recovery as an interface: its four members, its records, its parts, and how to bring another."""

import dataclasses
import importlib
import inspect
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import pytest

import outlast
from outlast import (
    Batch,
    FlushResult,
    IntegrityResult,
    Outlast,
    QueueRecovery,
    RecoveryReport,
    Verdict,
    usual_recovery,
)
from outlast.store.session import Session
from outlast.testing import ManualClock
from tests.recovery.stage import crash

MEMBERS = {"recover", "check_integrity", "flush_wal", "last_report"}


class StandIn:
    """Somebody else's recovery, which never finds anything."""

    def recover(self, on_batch: Callable[[Batch], None] | None = None) -> RecoveryReport:
        raise NotImplementedError

    def check_integrity(self, quick: bool = False) -> IntegrityResult:
        return IntegrityResult(Verdict.PASSED, is_quick=quick)

    def flush_wal(self, mode: str = "truncate") -> FlushResult:
        return FlushResult(False, 0, 0)

    def last_report(self) -> RecoveryReport | None:
        return None


def sound(recovery: QueueRecovery) -> bool:
    """A program that needs no more than the interface; mypy checks what it is given."""
    return recovery.check_integrity(quick=True).passed and not recovery.flush_wal().busy


@pytest.mark.proves("API-01")
def test_an_outlast_and_a_stand_in_are_both_the_recovery_a_program_asks_for(app: Outlast) -> None:
    assert sound(app)
    assert sound(StandIn())


@pytest.mark.proves("API-01")
@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_each_member_has_the_shape_that_the_interface_gives_it(name: str) -> None:
    declared = {one for one in vars(QueueRecovery) if not one.startswith("_")}
    assert declared == MEMBERS
    wanted = inspect.signature(getattr(QueueRecovery, name))
    assert inspect.signature(getattr(Outlast, name)) == wanted


@pytest.mark.proves("API-01")
def test_the_four_members_do_what_they_say(app: Outlast, database: Path) -> None:
    recovery: QueueRecovery = app
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    report = recovery.recover()
    assert report.tasks_put_back == 1
    assert recovery.last_report() == report
    checked = recovery.check_integrity()
    assert (checked.verdict, checked.is_quick, checked.errors) == (Verdict.PASSED, False, ())
    assert recovery.check_integrity(quick=True).is_quick
    app.enqueue("work")
    flushed = recovery.flush_wal()
    assert not flushed.busy
    assert database.with_name("work.db-wal").stat().st_size == 0


RECORDS = {
    "IntegrityResult": {"verdict", "errors", "duration_seconds", "repair_attempted"},
    "RecoveryReport": {"started_at", "completed_at", "integrity", "wal_frames_moved",
                       "dead_workers", "unrecovered", "errors"},
    "RecoveredTask": {"task_id", "previous_worker", "status", "reason", "attempt", "error"},
    "DeadWorker": {"worker", "last_beat_at", "task_ids", "tasks_put_back"},
    "UnrecoveredTask": {"task_id", "error"},
    "WorkerInfo": {"name", "beat_at", "silent_seconds", "state", "task_ids", "beat_task_id"},
}  # fmt: skip


@pytest.mark.proves("API-03")
@pytest.mark.parametrize("name", RECORDS)
def test_each_record_is_public_and_frozen_and_has_its_fields(name: str) -> None:
    record = getattr(outlast, name)
    assert dataclasses.is_dataclass(record)
    assert inspect.getattr_static(record, "__dataclass_params__").frozen
    assert {field.name for field in dataclasses.fields(record)} >= RECORDS[name]
    assert name in outlast.__all__


@pytest.mark.proves("API-03")
def test_actions_and_states_are_enumerations() -> None:
    assert {one.value for one in outlast.RecoveryAction} == {"retry", "fail", "pending", "none"}
    assert {one.value for one in outlast.WorkerState} >= {"alive", "stale", "dead"}
    assert issubclass(outlast.RecoveryAction, Enum)


@pytest.mark.proves("API-03")
def test_the_records_are_what_the_verbs_return(
    app: Outlast, database: Path, clock: ManualClock
) -> None:
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    report = app.recover()
    assert isinstance(report, outlast.RecoveryReport)
    assert isinstance(report.integrity, outlast.IntegrityResult)
    assert [type(one) for one in report.dead_workers] == [outlast.DeadWorker]
    assert [type(one) for one in app.recovered(report.run_id)] == [outlast.RecoveredTask]
    app.heartbeat("idle")
    clock.advance("5m")
    (status,) = (one for one in app.workers() if one.name == "idle")
    assert (type(status), status.state) == (outlast.WorkerInfo, "stale")


@pytest.mark.proves("API-04")
@pytest.mark.parametrize(
    ("module", "name"),
    [("outlast.maintenance.loop", "MaintenanceLoop"), ("outlast.store.sqlite.check", "check")],
)
def test_detector_and_integrity_checker_are_modules_of_their_own(module: str, name: str) -> None:
    found = getattr(importlib.import_module(module), name)
    assert found.__module__ == module


@pytest.mark.proves("REC-34")
def test_the_recovery_given_is_called_once_instead_of_the_usual_one(
    app: Outlast, database: Path, clock: ManualClock
) -> None:
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    called: list[Path] = []
    with Outlast(database, clock=clock, recovery=lambda it: called.append(it.store.path)) as other:
        assert other.get("t").status == "running"
        other.enqueue("work")
        assert called == [database]
    with app.open():
        assert app.get("t").status == "pending", "the default is built if none is given"


@pytest.mark.proves("REC-34")
def test_a_recovery_of_one_s_own_may_have_the_usual_one_done(
    app: Outlast, database: Path, clock: ManualClock
) -> None:
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    found: list[int] = []

    def counting(session: Session) -> None:
        usual_recovery(session)
        assert session.opening is not None
        found.append(session.opening.tasks_put_back)

    with Outlast(database, clock=clock, recovery=counting) as other:
        assert (found, other.get("t").status) == ([1], "pending")
