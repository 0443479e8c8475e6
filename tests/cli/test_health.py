"""`outlast health`: a line for each concern, judged by what is so, and a code for scripts."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import Cursor, Outlast, Subscriber, WorkerInfo
from outlast.cli.commands import health_checks
from outlast.cli.commands.health_checks import Grade
from outlast.domain.worker import StuckHandler, WorkerState
from outlast.testing import ManualClock
from tests.cli.conftest import Call, Said
from tests.store.golden import apply_migrations
from tests.support.children import Child
from tests.support.foreign import foreign_rows
from tests.support.newer import know_next

PAGE_BYTES = 4096
CONCERNS = [
    "store", "schema", "integrity", "disk", "wal", "leases", "locks", "recovery", "workers",
    "queues", "subscribers",
]  # fmt: skip


def _concern(said: Said, name: str) -> dict[str, str]:
    found: list[dict[str, str]] = [one for one in said.data["concerns"] if one["name"] == name]
    (concern,) = found
    return concern


def _degraded(said: Said) -> list[str]:
    return [one["name"] for one in said.data["concerns"] if one["status"] != "ok"]


@pytest.mark.proves("CLI-06")
def test_a_healthy_store_is_ok_in_every_concern(outlast: Call, app: Outlast) -> None:
    app.enqueue("index")
    said = outlast("health", "--json")
    assert (said.code, said.data["status"], _degraded(said)) == (0, "ok", [])
    assert [one["name"] for one in said.data["concerns"]] == CONCERNS
    plain = outlast("health")
    assert [line.split()[:2] for line in plain.out.splitlines()[1:]] == [
        ["ok", name] for name in CONCERNS
    ]


@pytest.mark.proves("CLI-06")
def test_an_old_schema_is_degraded_and_a_file_that_is_no_store_has_failed(
    outlast: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = apsw.Connection(str(tmp_path / "old.db"))
    apply_migrations(connection)
    connection.close()
    know_next(monkeypatch)
    said = outlast("health", "--store", "old.db")
    assert said.code == 1
    assert "lacks migration" in said.out
    (tmp_path / "text.db").write_text("not a database, but long enough to look like one" * 20)
    said = outlast("health", "--json", "--store", "text.db")
    assert (said.code, said.data["status"]) == (2, "failed")
    said = outlast("health", "--json", "--store", "missing.db")
    assert (said.code, said.data["status"]) == (2, "failed")
    assert not (tmp_path / "missing.db").exists()


@pytest.mark.proves("CLI-06")
def test_leases_that_ran_out_are_degraded_until_they_are_taken_back(
    outlast: Call, app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("index")
    app.claim("w1", lease="1m")
    assert outlast("health").code == 0
    clock.advance("2m")
    said = outlast("health", "--json")
    assert (said.code, said.data["status"]) == (1, "degraded")
    assert "1 lease ran out" in _concern(said, "leases")["detail"]
    app.heal()
    assert outlast("health").code == 0


@pytest.mark.parametrize("hours", [5, -5])
def test_a_wall_clock_that_was_set_makes_no_lease_run_out_and_saves_none(
    outlast: Call, app: Outlast, clock: ManualClock, hours: int
) -> None:
    """Leases run on the monotonic clock, and so does what is thought of them."""
    app.enqueue("index")
    app.claim("w1", lease="1h")
    clock.step_utc(hours * 3600)
    assert _concern(outlast("health", "--json"), "leases") == {
        "name": "leases", "status": "ok", "detail": "1 lease out, none ran out",
    }  # fmt: skip
    clock.advance("2h")
    clock.step_utc(-10 * 3600)
    assert _concern(outlast("health", "--json"), "leases")["status"] == "degraded"


def test_the_log_is_a_concern_while_it_is_longer_than_its_limit(
    outlast: Call, app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue("index")
    monkeypatch.setenv("OUTLAST_WAL_LIMIT_BYTES", "1")
    said = outlast("health")
    assert said.code == 1
    assert "keeps it from being flushed" in said.out


def _statvfs(free_bytes: int) -> Callable[[Any], Any]:
    real = os.statvfs(".")
    blocks = free_bytes // real.f_frsize

    def asked(path: Any) -> os.statvfs_result:
        return os.statvfs_result((*real[:4], blocks, *real[5:]))

    return asked


@pytest.mark.parametrize(
    ("free_bytes", "expected"),
    [
        (1 << 30, (0, "1.0 GiB are free")),
        (32 << 20, (1, "32.0 MiB are free, less than the log may need (64.0 MiB)")),
        (512 << 10, (2, "512.0 KiB are free: nothing can be stored; make room")),
    ],
)
def test_room_on_the_disk_is_a_concern_before_it_runs_out(
    outlast: Call, app: Outlast, monkeypatch: pytest.MonkeyPatch, free_bytes: int,
    expected: tuple[int, str],
) -> None:  # fmt: skip
    app.enqueue("index")
    monkeypatch.setattr(os, "statvfs", _statvfs(free_bytes))
    said = outlast("health", "--json")
    assert (said.code, _concern(said, "disk")["detail"]) == expected


@pytest.mark.proves("CLI-06")
def test_a_lock_that_was_left_behind_is_a_concern(
    outlast: Call, app: Outlast, clock: ManualClock
) -> None:
    app.lock("render", ttl=60, holder="w1").acquire()
    assert _concern(outlast("health", "--json"), "locks")["detail"] == "1 lock held"
    clock.advance("2m")
    said = outlast("health", "--json")
    assert _degraded(said) == ["locks"]
    assert "render of w1 is stale" in _concern(said, "locks")["detail"]


def _dies_with_a_task_and_a_lock(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("index", id="t1")
    app.claim("doomed")
    app.lock("render", holder="doomed").acquire()
    say()
    hear()


@pytest.mark.proves("CLI-06")
def test_a_dead_worker_is_named_with_what_it_left_until_somebody_recovers(
    bare: Call, database: Path
) -> None:
    with Child(_dies_with_a_task_and_a_lock, database) as child:
        child.hear()
        child.kill()
    said = bare("health", "--json", "--store", str(database))
    assert (said.code, _degraded(said)) == (1, ["locks", "recovery"])
    detail = _concern(said, "recovery")["detail"]
    assert f"worker doomed (pid {child.pid}) died with 1 task" in detail
    assert "recovery is due" in detail
    assert "render of doomed is orphaned" in _concern(said, "locks")["detail"]
    assert Outlast(database).get("t1").status == "running"
    assert bare("queue", "recover", "--store", str(database)).code == 0
    said = bare("health", "--json", "--store", str(database))
    assert (said.code, said.data["status"]) == (0, "ok")


@pytest.mark.proves("CLI-06")
def test_recovery_that_is_off_or_waits_for_approval_is_degraded(
    outlast: Call, make_app: Callable[..., Outlast], clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    app = make_app(recovery_mode="manual")
    app.enqueue("index", id="t1")
    app.claim("w1", lease="1m")
    clock.advance("2m")
    app.heal()
    assert "1 recovered task held for approval" in outlast("health").out
    app.unpark("t1")
    assert outlast("health").code == 0
    monkeypatch.setenv("OUTLAST_RECOVERY_ENABLED", "false")
    said = outlast("health", "--json")
    assert said.code == 1
    assert "RECOVERY IS SWITCHED OFF" in _concern(said, "recovery")["detail"]


@pytest.mark.proves("CLI-06")
def test_what_recovery_leaves_alone_is_a_person_s_and_no_lease_that_nobody_takes_back(
    outlast: Call, make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(recovery_action_by_kind={"pay": "none"})
    app.enqueue("pay", id="pay-1")
    app.claim("w1", lease="1m")
    clock.advance("2m")
    app.heal()
    said = outlast("health", "--json")
    assert _degraded(said) == ["recovery"]
    assert _concern(said, "recovery")["detail"] == "1 orphan left alone by policy: pay-1"
    assert _concern(said, "leases")["detail"] == "1 lease out, none ran out"
    shown = outlast("queue", "recovery-status").out
    assert "1 orphan of kinds that recovery leaves alone: pay-1; decide by `outlast task" in shown


def test_recovery_that_is_off_does_not_promise_to_run(
    outlast: Call, make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(recovery_enabled=False)
    app.enqueue("index", id="t1")
    app.claim("w1", lease="1m")
    clock.advance("2m")
    said = outlast("health", "--json")
    detail = _concern(said, "recovery")["detail"]
    assert detail == "RECOVERY IS SWITCHED OFF, and there is something to recover"


def test_of_many_stuck_handlers_only_some_are_named() -> None:
    moment = datetime(2027, 1, 15, tzinfo=UTC)
    stuck = tuple(StuckHandler(f"t{number}", "index", moment) for number in range(12))
    worker = WorkerInfo(
        name="w1", incarnation="x", host="box", pid=1, state=WorkerState.ALIVE,
        registered_at=moment, beat_at=moment, silent_seconds=0.0, ended_at=None, task_ids=(),
        task_count=0, beat_task_id=None, progress=None, serves=None, stuck=stuck,
    )  # fmt: skip
    found = health_checks.working([worker])
    assert found.grade is Grade.DEGRADED
    assert found.detail.count("does not stop") == 3
    assert found.detail.endswith("; and 9 more")


def test_a_task_that_is_lost_again_and_again_is_named_while_it_is_not_final(
    outlast: Call, app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("index", id="t1")
    for _ in range(2):
        app.claim("w1", lease="1m")
        clock.advance("2m")
        app.heal()
    assert "lost again and again: t1 (2 times)" in outlast("health").out
    app.claim("w1")[0].complete()
    assert outlast("health").code == 0


def test_paused_queues_are_named_and_are_no_fault(outlast: Call, app: Outlast) -> None:
    app.enqueue("index")
    for name in ("a", "b", "c", "d", "e"):
        app.pause(name)
    said = outlast("health", "--json")
    assert said.code == 0
    assert _concern(said, "queues")["detail"] == "paused: a, b, c, and 2 more"


def test_a_subscriber_that_lapsed_is_a_concern(
    outlast: Call, app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("index")
    app.subscribe(lambda event: None, "audit").close()
    assert _concern(outlast("health", "--json"), "subscribers")["detail"] == "1 subscriber"
    clock.advance("40d")
    said = outlast("health", "--json")
    assert "audit has lapsed" in _concern(said, "subscribers")["detail"]
    assert _concern(said, "subscribers")["status"] == "degraded"


def test_a_subscriber_far_behind_is_a_concern() -> None:
    moment = datetime(2027, 1, 15, tzinfo=UTC)

    def judged(behind: int) -> health_checks.Concern:
        found = Subscriber("audit", Cursor(), behind, moment, moment, False)
        return health_checks.subscribers([found])

    assert judged(health_checks.FAR_BEHIND).grade is Grade.OK
    late = judged(health_checks.FAR_BEHIND + 1)
    assert (late.grade, late.detail) == (
        Grade.DEGRADED, "1 subscriber; audit is 100,001 events behind",
    )  # fmt: skip


@pytest.mark.proves("CLI-06")
def test_damage_that_a_check_found_is_a_failure(app: Outlast) -> None:
    """Of a record: a start that finds damage stops, and is not on record as completed."""
    from dataclasses import replace

    from outlast import IntegrityResult, Verdict

    app.open()
    status = app.recovery_status()
    assert status.last is not None
    assert health_checks.integrity(status).grade is Grade.OK
    damaged = IntegrityResult(Verdict.FAILED, ("row 3 missing from index",))
    after = replace(status, last=replace(status.last, integrity_after=damaged))
    found = health_checks.integrity(after)
    assert found.grade is Grade.FAILED
    assert "row 3 missing from index" in found.detail


def test_health_changes_nothing(outlast: Call, app: Outlast, database: Path) -> None:
    app.enqueue("index")
    app.close()
    before = sorted(os.listdir(database.parent)), database.read_bytes()
    outlast("health")
    assert (sorted(os.listdir(database.parent)), database.read_bytes()) == before


@pytest.mark.parametrize(
    ("table", "concern"),
    [
        ("recovery_runs", "recovery"), ("locks", "locks"), ("workers", "workers"),
        ("cursors", "subscribers"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_has_failed_and_the_other_concerns_are_told_all_the_same(
    outlast: Call, app: Outlast, tmp_path: Path, table: str, concern: str
) -> None:
    """Of a damaged file one wants to know most, and a script goes by the code."""
    app.enqueue("index")
    app.claim("w")
    app.close()
    (root,) = foreign_rows(app.path, f"SELECT rootpage FROM sqlite_schema WHERE name = '{table}'")
    damaged = bytearray(app.path.read_bytes())
    damaged[(root[0] - 1) * PAGE_BYTES : root[0] * PAGE_BYTES] = b"\xff" * PAGE_BYTES
    (tmp_path / "damaged.db").write_bytes(damaged)
    said = outlast("health", "--store", "damaged.db", "--json")
    assert (said.code, said.data["status"]) == (2, "failed")
    assert [one["name"] for one in said.data["concerns"]] == CONCERNS
    assert _concern(said, concern)["status"] == "failed"
    assert "malformed" in _concern(said, concern)["detail"]
    assert _concern(said, "store")["status"] == _concern(said, "disk")["status"] == "ok"
