"""The read queries of acode, zjj and claude-mem, as written, on the views in their words."""

from datetime import UTC, datetime, timedelta

from outlast import Outlast
from outlast.testing import ManualClock
from tests.store.hand import Hand


def time_of(clock: ManualClock) -> datetime:
    return datetime.fromtimestamp(clock.now().utc_ms / 1000, UTC)


def round_trip(at: datetime) -> str:
    """How acode writes a time: seven digits and an offset."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f0+00:00")


# The heartbeats of acode


IS_ALIVE = """
    SELECT COUNT(*) FROM worker_heartbeats
    WHERE worker_id = ? AND timestamp >= ?"""
STALE_WORKERS = """
    SELECT
        h.worker_id,
        h.timestamp as last_heartbeat,
        GROUP_CONCAT(t.id) as task_ids
    FROM worker_heartbeats h
    LEFT JOIN tasks t ON t.worker_id = h.worker_id AND t.status = 'running'
    WHERE h.timestamp < ?
    GROUP BY h.worker_id
    HAVING COUNT(t.id) > 0"""
ALL_STATUS = """
    SELECT worker_id, task_id, timestamp
    FROM worker_heartbeats
    ORDER BY timestamp DESC"""


def test_acode_a_worker_is_alive_by_its_last_beat(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue("k", id="t1")
    clock.advance(0.123)
    app.claim("ada")
    beat = time_of(clock)
    just_before, just_after = beat - timedelta(milliseconds=1), beat + timedelta(milliseconds=1)
    assert hand.value(IS_ALIVE, "ada", round_trip(just_before)) == 1
    assert hand.value(IS_ALIVE, "ada", round_trip(just_after)) == 0
    assert hand.value(IS_ALIVE, "bob", round_trip(just_before)) == 0


def test_acode_silent_workers_are_listed_with_the_tasks_they_run(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    for number in range(4):
        app.enqueue("k", id=f"t{number}")
    first, _ = app.claim("ada", limit=2)
    (finished,) = app.claim("idle")
    finished.complete()
    beat = time_of(clock)
    clock.advance("2m")
    app.claim("bob")
    threshold = round_trip(time_of(clock) - timedelta(seconds=90))
    ((worker, timestamp, task_ids),) = hand.rows(STALE_WORKERS, threshold)
    assert worker == "ada"
    assert datetime.fromisoformat(timestamp) == beat
    assert sorted(task_ids.split(",")) == ["t0", "t1"]
    first.complete()
    assert hand.rows(STALE_WORKERS, threshold)[0][2] == "t1"


def test_acode_every_worker_is_shown_with_what_it_does(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue("k", id="t1")
    (lease,) = app.claim("ada")
    clock.advance("1m")
    app.claim("bob")
    newest, oldest = hand.rows(ALL_STATUS)
    assert newest == ("bob", None, time_of(clock).strftime("%Y-%m-%dT%H:%M:%S.000Z"))
    assert oldest[:2] == ("ada", "t1")
    assert datetime.fromisoformat(oldest[2]) == time_of(clock) - timedelta(minutes=1)
    lease.complete()
    assert {task for _, task, _ in hand.rows(ALL_STATUS)} == {None}


def test_acode_workers_that_left_are_shown_no_more(app: Outlast, hand: Hand) -> None:
    app.enqueue("k")
    app.claim("ada")
    app.close()
    assert hand.rows(ALL_STATUS) == []


# The merge queue of zjj


def test_zjj_stale_claims_are_counted_in_whole_seconds(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    query = """
        SELECT COUNT(*) FROM merge_queue
         WHERE status = 'claimed'
           AND started_at IS NOT NULL
           AND started_at < ?1"""
    app.enqueue("merge", queue="workspace-1", group="bd-2i5", priority=5)
    (lease,) = app.claim("agent-1", queue="workspace-1", lease="1h")
    clock.advance("5m")
    now_secs = clock.now().utc_ms // 1000
    assert hand.value(query, now_secs - 300) == 0
    assert hand.value(query, now_secs - 299) == 1
    lease.release()
    assert hand.value(query, now_secs) == 0


def test_zjj_an_entry_keeps_the_rules_of_its_columns(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    """A claimed entry has an agent and a start; a reclaimed one has neither, and keeps the rest."""
    app.enqueue("merge", queue="workspace-1", group="bd-2i5", priority=5)
    entry = {"workspace": "workspace-1", "bead_id": "bd-2i5", "priority": 5}
    waiting = hand.records("SELECT * FROM merge_queue")[0]
    assert waiting | entry | {"status": "pending", "agent_id": None, "started_at": None} == waiting
    (lease,) = app.claim("agent-1", queue="workspace-1")
    now_secs = clock.now().utc_ms // 1000
    claimed = {"status": "claimed", "agent_id": "agent-1", "started_at": now_secs}
    held = hand.records("SELECT * FROM merge_queue")[0]
    assert held | entry | claimed | {"state_changed_at": now_secs} == held
    lease.renew(stage="rebasing")
    assert hand.value("SELECT status FROM merge_queue") == "rebasing"
    clock.advance("10m")
    app.heal()
    again = hand.records("SELECT * FROM merge_queue")[0]
    assert again == waiting | {
        "state_changed_at": now_secs + 600,
        "error_message": "the lease of worker agent-1 ran out",
    }


def test_zjj_expired_locks_are_counted_in_whole_seconds(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    query = "SELECT COUNT(*) FROM queue_processing_lock WHERE expires_at < ?1"
    now_ms = clock.now().utc_ms
    app.open()
    assert hand.value(query, now_ms // 1000) == 0
    for name in ("another", "default"):
        assert app.lock(name, holder="agent-1").acquire()
    assert hand.value(query, now_ms // 1000 + 300) == 0
    assert hand.value(query, now_ms // 1000 + 301) == 2
    assert hand.records("SELECT * FROM queue_processing_lock WHERE id = 1") == [
        {
            "id": 1,
            "agent_id": "agent-1",
            "acquired_at": now_ms // 1000,
            "expires_at": now_ms // 1000 + 300,
            "name": "default",
        }
    ]


# The pending messages of claude-mem


NEXT_PENDING = """
    SELECT id FROM pending_messages
    WHERE session_db_id = ? AND status = 'pending'
    ORDER BY id ASC
    LIMIT 1"""
NEXT_ORPHAN = """
    SELECT * FROM pending_messages
    WHERE session_db_id = ?
      AND status = 'processing'
      AND (started_processing_at_epoch IS NULL OR started_processing_at_epoch < ?)
    ORDER BY id ASC
    LIMIT 1"""


def test_claude_mem_a_sessions_next_message_by_its_number(app: Outlast, hand: Hand) -> None:
    """The seed's sessions are numbers; a group named by one is found by it."""
    for task_id, session in (("a", "7"), ("b", "8"), ("c", "7")):
        app.enqueue("observation", {"of": task_id}, id=task_id, group=session)
    (first,) = hand.row(NEXT_PENDING, 7)
    message = hand.records("SELECT * FROM pending_messages WHERE id = ?", first)[0]
    assert (message["payload"], message["message_type"]) == ('{"of":"a"}', "observation")
    app.claim("w", group="7")
    (second,) = hand.row(NEXT_PENDING, 7)
    assert second > first
    app.claim("w", group="7")
    assert hand.rows(NEXT_PENDING, 7) == []
    assert len(hand.rows(NEXT_PENDING, "8")) == 1


def test_claude_mem_messages_in_flight_since_before_a_time_are_found(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue("observation", group="7")
    created_ms = clock.now().utc_ms
    clock.advance("1s")
    (lease,) = app.claim("w")
    started_ms = clock.now().utc_ms
    assert hand.rows(NEXT_ORPHAN, 7, started_ms) == []
    (orphan,) = hand.records(NEXT_ORPHAN, 7, started_ms + 1)
    assert orphan["created_at_epoch"] == created_ms
    assert orphan["started_processing_at_epoch"] == started_ms
    assert (orphan["status"], orphan["retry_count"]) == ("processing", 0)
    clock.advance("1s")
    lease.complete()
    (done,) = hand.records("SELECT * FROM pending_messages")
    assert done["status"] == "processed"
    assert done["completed_at_epoch"] == started_ms + 1000
    assert done["failed_at_epoch"] is None


def test_claude_mem_a_failed_message_has_its_time_under_both_names(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue("observation", group="7")
    (lease,) = app.claim("w")
    lease.fail("poison", retry=False)
    (failed,) = hand.records("SELECT * FROM pending_messages")
    assert failed["status"] == "failed"
    assert failed["completed_at_epoch"] == failed["failed_at_epoch"] == clock.now().utc_ms
    assert failed["started_processing_at_epoch"] is None
