"""The times of a row: all in milliseconds, and honest whoever writes it."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast import Lease, Outlast
from outlast.testing import ManualClock
from tests.store.hand import Hand, store_of

DAY_MS = 86_400_000
TEXT_TIME = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d")


@pytest.fixture
def clock() -> ManualClock:
    """Yesterday: what the host's own clock stamps is newer than all that the engine did."""
    return ManualClock(utc_ms=time.time_ns() // 1_000_000 - DAY_MS)


def updated_at(hand: Hand, seq: int) -> datetime:
    task_id = hand.value("SELECT id FROM tasks WHERE seq = ?", seq)
    text = hand.value("SELECT updated_at FROM work_items WHERE work_item_id = ?", task_id)
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.proves("QUE-18")
def test_a_raw_update_of_the_priority_moves_updated_at_and_not_state_changed_at(
    app: Outlast, hand: Hand
) -> None:
    app.enqueue("k", id="t")
    before = hand.task("t")
    shown_before = updated_at(hand, before["seq"])
    began = datetime.now(UTC).replace(microsecond=0)
    hand.run("UPDATE tasks SET priority = 7 WHERE id = 't'")
    assert shown_before < began <= updated_at(hand, before["seq"])
    assert app.get("t").updated_at >= began
    after = hand.task("t")
    assert after["state_changed_at"] == before["state_changed_at"]
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"priority", "touched_at"}


# A row in this status, and a value that the column may take all by itself.
RAW_CHANGES: dict[str, dict[str, Any]] = {
    "pending": {
        "seq": 1_000_000, "id": "other", "queue": "other", "kind": "other", "priority": 5,
        "group_id": "other", "parked": "hold", "not_before": 5, "stage": "x", "attempt": 1,
        "retry_count": 1, "recovery_count": 1, "max_retries": 9, "max_recoveries": 9, "token": 9,
        "last_worker_id": "x", "unstarted": 1, "keyed": 1, "created_at": 5, "started_at": 5,
        "retry_of": "x", "payload_bytes": 1, "payload_sum": 1,
        "result_bytes": 1, "result_sum": 1, "error": "x", "payload": "1", "result": "1",
        "held_by_recovery": 1,
    },
    "running": {
        "holder": None, "worker_id": "x", "lease_acquired_at": 5, "lease_expires_at": 5,
        "lease_expires_mono_ms": 5,
    },
    "completed": {"completed_at": 5},
}  # fmt: skip
# It never passes the count of all crashes, so it cannot change all by itself.
MOVES_WITH_ANOTHER = {"crashes_in_row"}
MOVES_BY_ITSELF = {"status", "state_changed_at", "heartbeat_at", "touched_at"}


@pytest.mark.proves("QUE-18")
def test_a_raw_update_of_any_column_moves_updated_at(app: Outlast, hand: Hand) -> None:
    tried = {column for changes in RAW_CHANGES.values() for column in changes}
    assert tried | MOVES_BY_ITSELF | MOVES_WITH_ANOTHER == set(hand.columns("tasks"))
    app.enqueue("k", id="elsewhere", group="other", queue="elsewhere")
    (other,) = app.claim("another worker", queue="elsewhere")
    for status, changes in RAW_CHANGES.items():
        for column, new in changes.items():
            value = other.grant.holder if column == "holder" else new
            began = datetime.now(UTC).replace(microsecond=0)
            seq = one_task(app, hand, status)
            assert updated_at(hand, seq) < began, column
            state_changed_at = hand.value("SELECT state_changed_at FROM tasks WHERE seq = ?", seq)
            assert hand.run(f"UPDATE tasks SET {column} = ? WHERE seq = ?", value, seq) == 1
            seq = value if column == "seq" else seq
            assert updated_at(hand, seq) >= began, column
            row = hand.row("SELECT state_changed_at FROM tasks WHERE seq = ?", seq)
            assert row == (state_changed_at,), column


def one_task(app: Outlast, hand: Hand, status: str) -> int:
    task = app.enqueue("k")
    if status != "pending":
        lease = next(lease for lease in claims(app) if lease.task_id == task.id)
        if status == "completed":
            lease.complete()
    row = hand.task(task.id)
    assert row["status"] == status
    return int(row["seq"])


def claims(app: Outlast) -> Iterator[Lease]:
    while leases := app.claim("w", limit=100):
        yield from leases


def scripted_lives(app: Outlast, clock: ManualClock) -> Iterator[str]:
    """One verb after another; the wall clock is set back in the middle of it."""

    def after(verb: str, _: object) -> str:
        clock.advance("10s")
        return verb

    yield after("enqueue", app.enqueue("k", id="t", group="g", max_retries=5))
    yield after("park", app.park("t"))
    yield after("unpark", app.unpark("t"))
    (lease,) = app.claim("w")
    yield after("claim", lease)
    yield after("renew", lease.renew(stage="halfway"))  # type: ignore[func-returns-value]
    yield after("checkpoint", lease.checkpoint("manual_checkpoint", {}))
    yield after("release", lease.release())
    clock.step_utc(-3600)
    for _ in range(2):
        (lease,) = app.claim("w")
        yield after("claim again", lease)
        yield after("fail", lease.fail("no", delay=0))
    app.claim("w")
    clock.advance("1h")
    yield after("expire", app.heal())
    (lease,) = app.claim("w")
    yield after("claim to complete", lease)
    yield after("complete", lease.complete())


@pytest.mark.proves("QUE-18")
def test_state_changed_at_moves_with_the_status_alone_and_never_precedes_the_start(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    moves, state_changed_at = 0, None
    seen = []
    for verb in scripted_lives(app, clock):
        row = hand.task("t")
        moved = hand.value("SELECT count(*) FROM transitions") - moves
        moves += moved
        if state_changed_at is not None and not moved:
            assert row["state_changed_at"] == state_changed_at, verb
        if state_changed_at is not None:
            assert row["state_changed_at"] >= state_changed_at, verb
        state_changed_at = row["state_changed_at"]
        if row["started_at"] is not None:
            assert row["started_at"] <= state_changed_at, verb
        seen.append(row["status"])
    assert moves == 10
    assert seen[-1] == "completed"


@pytest.mark.proves("QUE-18")
def test_updated_at_is_the_time_of_the_last_move_or_renewal(
    app: Outlast, clock: ManualClock
) -> None:
    def is_current() -> bool:
        return app.get("t").updated_at.timestamp() * 1000 == clock.now().utc_ms

    app.enqueue("k", id="t")
    assert is_current()
    for ending in (Lease.release, Lease.complete):
        clock.advance("1s")
        (lease,) = app.claim("w")
        assert is_current()
        clock.advance("1s")
        lease.renew()
        assert is_current()
        clock.advance("1s")
        assert ending(lease)
        assert is_current()


@pytest.mark.proves("QUE-18")
def test_parking_moves_updated_at_to_the_clocks_now(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("k", id="t")
    for change in (app.park, app.unpark):
        clock.advance("1s")
        assert change("t")
        assert app.get("t").updated_at.timestamp() * 1000 == clock.now().utc_ms


@pytest.mark.proves("QUE-18")
def test_a_raw_update_is_noticed_under_recursive_triggers_too(app: Outlast, hand: Hand) -> None:
    app.enqueue("k", id="t")
    hand.connection.pragma("recursive_triggers", "ON")
    assert hand.run("UPDATE tasks SET priority = 3") == 1
    assert hand.task("t")["touched_at"] is not None


@pytest.mark.proves("MIG-16")
def test_every_time_is_stored_as_whole_milliseconds(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    """By declaration, and by what a life full of events leaves in every text column."""
    list(scripted_lives(app, clock))
    app.enqueue("k", id="keyed", idempotency_key="key", delay="1h")
    app.pause("default")
    store_of(app).tasks.resolve("keyed")
    times = texts = 0
    for (table,) in hand.rows("SELECT name FROM pragma_table_list WHERE type = 'table'"):
        if table.startswith("sqlite_"):
            continue
        for name, declared, default in hand.rows(
            "SELECT name, type, dflt_value FROM pragma_table_info(?)", table
        ):
            if re.search(r"(^|_)(at|ms|before)$", name):
                times += 1
                assert (declared, default) == ("INTEGER", None), f"{table}.{name}"
            else:
                assert declared in ("INTEGER", "TEXT")
            if declared == "TEXT":
                texts += 1
                stored = hand.rows(f'SELECT "{name}" FROM "{table}" WHERE "{name}" IS NOT NULL')
                assert not [text for (text,) in stored if TEXT_TIME.search(text)], f"{table}.{name}"
    assert times > 20
    assert texts > 20
    created = hand.value("SELECT created_at FROM tasks WHERE id = 'keyed'")
    assert abs(created - clock.now().utc_ms) < 1000
