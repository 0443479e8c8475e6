"""The seeds' read queries, as they wrote them, on the views that speak their words.

The rows come from the public API. The clock runs ten minutes behind the host's, because some of
the queries ask the database what time it is.
"""

import time
from datetime import UTC, datetime, timedelta

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.store.hand import Hand
from tests.support.children import Child

SECONDS_BEHIND = 600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(utc_ms=(int(time.time()) - SECONDS_BEHIND) * 1000)


def stamp(clock: ManualClock, minutes: float = 0) -> str:
    """The clock's time, some minutes later, as the schema seed writes it."""
    at = datetime.fromtimestamp(clock.now().utc_ms / 1000, UTC) + timedelta(minutes=minutes)
    return at.strftime("%Y-%m-%d %H:%M:%S")


@pytest.fixture
def agent(app: Outlast, clock: ManualClock) -> Outlast:
    """The schema seed's own example: a task of several work items, one of them done."""
    group = "task-01KG4XYZ"
    app.enqueue(
        "tool_execution",
        {"tool": "bash", "command": "ls -la", "args": []},
        id="work-01KG4ABC",
        group=group,
        priority=10,
        idempotency_key="idem-01KG4ABC",
    )
    app.enqueue("llm_call", id="work-2", group=group)
    app.enqueue("llm_call", id="work-3", group=group, idempotency_key="idem-3")
    (lease,) = app.claim("worker-abc-123")
    lease.checkpoint("iteration_start", {"iteration": 1})
    lease.checkpoint("tool_executed", {"exit_code": 0}, {"duration_ms": 1234})
    lease.checkpoint("iteration_end", {"iteration": 1})
    lease.checkpoint("iteration_start", {"iteration": 2})
    clock.advance("1m")
    lease.complete({"result": "success", "files_found": 42})
    return app


# Work items of agentos


def test_agentos_the_next_work_item_is_the_one_a_claim_would_take(
    agent: Outlast, hand: Hand
) -> None:
    agent.enqueue("llm_call", id="urgent", priority=3)
    query = """
        SELECT work_item_id
        FROM work_items
        WHERE status = 'pending'
        ORDER BY priority DESC, created_at ASC
        LIMIT 1"""
    assert hand.rows(query) == [("urgent",)]
    (lease,) = agent.claim("w")
    assert lease.task_id == "urgent"


def test_agentos_a_finished_work_item_in_all_its_columns(
    agent: Outlast, clock: ManualClock, hand: Hand
) -> None:
    (row,) = hand.records("SELECT * FROM work_items WHERE work_item_id = 'work-01KG4ABC'")
    assert row == {
        "work_item_id": "work-01KG4ABC",
        "task_id": "task-01KG4XYZ",
        "work_type": "tool_execution",
        "status": "completed",
        "priority": 10,
        "lease_holder": None,
        "lease_acquired_at": None,
        "lease_expires_at": None,
        "heartbeat_at": None,
        "retry_count": 0,
        "max_retries": 3,
        "input_data": '{"tool":"bash","command":"ls -la","args":[]}',
        "output_data": '{"result":"success","files_found":42}',
        "error_message": None,
        "created_at": stamp(clock, -1),
        "started_at": stamp(clock, -1),
        "completed_at": stamp(clock),
        "updated_at": stamp(clock),
    }


@pytest.mark.slow
def test_agentos_a_held_work_item_shows_its_lease(
    agent: Outlast, clock: ManualClock, hand: Hand
) -> None:
    (lease,) = agent.claim("worker-abc-123", lease="5m")
    clock.advance("1m")
    lease.renew()
    (row,) = hand.records("SELECT * FROM work_items WHERE lease_holder = 'worker-abc-123'")
    assert (row["work_item_id"], row["status"]) == ("work-2", "in_progress")
    assert row["lease_acquired_at"] == row["started_at"] == stamp(clock, -1)
    assert row["heartbeat_at"] == row["updated_at"] == stamp(clock)
    assert row["lease_expires_at"] == stamp(clock, 5)


@pytest.mark.slow
def test_agentos_large_texts_are_shown_though_they_lie_elsewhere(app: Outlast, hand: Hand) -> None:
    app.enqueue("k", "x" * 5000, id="t")
    (lease,) = app.claim("w")
    lease.complete("y" * 5000)
    query = "SELECT input_data, output_data FROM work_items WHERE work_item_id = 't'"
    assert hand.row(query) == ('"' + "x" * 5000 + '"', '"' + "y" * 5000 + '"')
    assert hand.value("SELECT payload FROM pending_messages") == '"' + "x" * 5000 + '"'


def _claims_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    (lease,) = Outlast(path).claim("worker-abc")
    say(lease.task_id)
    hear()


@pytest.mark.proves("RTY-01")
def test_agentos_after_a_crash_the_work_item_is_found_with_its_retry_counted(
    app: Outlast, hand: Hand
) -> None:
    """The seed's retry_count is executions less one; ours counts failures, and crashes apart."""
    app.enqueue("tool_execution", id="work-001", group="task-001")
    counts = "SELECT retry_count FROM work_items WHERE work_item_id = 'work-001'"
    assert hand.value(counts) == 0
    with Child(_claims_and_waits, app.path) as child:
        assert child.hear() == "work-001"
        assert hand.value(counts) == 0
        child.kill()
    assert app.heal().entries_reclaimed == 1
    (row,) = hand.records("""
        SELECT * FROM work_items
        WHERE task_id = 'task-001'
          AND status IN ('pending', 'expired')""")
    assert row["work_item_id"] == "work-001"
    assert "died while running" in row["error_message"]
    (lease,) = app.claim("worker-def")
    task = app.get("work-001")
    assert (lease.attempt, task.attempt, task.recovery_count, task.retry_count) == (2, 2, 1, 0)
    assert hand.value(counts) == 1
    assert hand.value("SELECT retry_count FROM pending_messages") == 1


def test_agentos_active_work_items(agent: Outlast, hand: Hand) -> None:
    rows = hand.rows("""
        SELECT
            work_type,
            status,
            COUNT(*) as count,
            AVG(julianday(CURRENT_TIMESTAMP) - julianday(created_at)) * 24 as avg_age_hours
        FROM work_items
        GROUP BY work_type, status""")
    assert [row[:3] for row in rows] == [
        ("llm_call", "pending", 2),
        ("tool_execution", "completed", 1),
    ]
    assert all(SECONDS_BEHIND - 1 < hours * 3600 < SECONDS_BEHIND + 300 for *_, hours in rows)


@pytest.mark.slow
def test_agentos_lease_health(agent: Outlast, clock: ManualClock, hand: Hand) -> None:
    agent.claim("silent", lease="1h")
    clock.advance("9m")
    (beating,) = agent.claim("beating", lease="1h")
    beating.renew()
    active, stale, minutes = hand.row("""
        SELECT
            COUNT(*) as active_leases,
            COUNT(CASE WHEN heartbeat_at < datetime('now', '-2 minutes') THEN 1 END) as stale_leases,
            AVG(julianday(CURRENT_TIMESTAMP) - julianday(heartbeat_at)) * 24 * 60 as avg_minutes_since_heartbeat
        FROM work_items
        WHERE status = 'in_progress'""")  # noqa: E501 - the seed's own line
    assert (active, stale) == (2, 1)
    assert 4.4 < minutes < 9


# Checkpoints of agentos


def test_agentos_checkpoints_are_found_as_a_recovery_looks_for_them(
    agent: Outlast, clock: ManualClock, hand: Hand
) -> None:
    latest = hand.rows("""
        SELECT checkpoint_id, checkpoint_type, snapshot_data
        FROM checkpoints
        WHERE task_id = 'task-01KG4XYZ'
        ORDER BY sequence_number DESC
        LIMIT 1""")
    last = agent.latest_checkpoint("work-01KG4ABC")
    assert last is not None
    assert latest == [(last.id, "iteration_start", '{"iteration":2}')]
    assert hand.rows("""
        SELECT snapshot_data
        FROM checkpoints
        WHERE task_id = 'task-01KG4XYZ'
          AND checkpoint_type = 'iteration_start'
        ORDER BY sequence_number DESC
        LIMIT 1""") == [('{"iteration":2}',)]
    history = hand.rows("""
        SELECT
            checkpoint_type,
            sequence_number,
            snapshot_data,
            created_at
        FROM checkpoints
        WHERE task_id = 'task-01KG4XYZ'
        ORDER BY sequence_number ASC""")
    types = [kind for kind, *_ in history]
    assert types == ["iteration_start", "tool_executed", "iteration_end", "iteration_start"]
    assert [number for _, number, *_ in history] == sorted({number for _, number, *_ in history})
    assert {at for *_, at in history} == {stamp(clock, -1)}
    (row,) = hand.records("""
        SELECT * FROM checkpoints
        WHERE task_id = 'task-01KG4XYZ'
        ORDER BY sequence_number DESC
        LIMIT 1""")
    assert (row["work_item_id"], row["metadata"]) == ("work-01KG4ABC", None)


@pytest.mark.slow
def test_agentos_checkpoints_are_numbered_across_the_work_items_of_a_task(
    agent: Outlast, hand: Hand
) -> None:
    for lease in agent.claim("w", limit=2):
        lease.checkpoint("manual_checkpoint", {})
    numbers = "SELECT sequence_number FROM checkpoints WHERE task_id = ? ORDER BY created_at, 1"
    found = [number for (number,) in hand.rows(numbers, "task-01KG4XYZ")]
    assert len(found) == len(set(found)) == 6
    assert found == sorted(found)


def test_agentos_checkpoints_by_type_and_by_task(
    agent: Outlast, clock: ManualClock, hand: Hand
) -> None:
    by_type = hand.rows("""
        SELECT
            checkpoint_type,
            COUNT(*) as count
        FROM checkpoints
        WHERE task_id = 'task-01KG4XYZ'
        GROUP BY checkpoint_type""")
    assert dict(by_type) == {"iteration_start": 2, "tool_executed": 1, "iteration_end": 1}
    assert dict(by_type) == agent.checkpoint_counts("work-01KG4ABC")
    ((task, count, highest, first, last),) = hand.rows("""
        SELECT
            task_id,
            COUNT(*) as checkpoint_count,
            MAX(sequence_number) as max_sequence,
            MIN(created_at) as first_checkpoint,
            MAX(created_at) as last_checkpoint
        FROM checkpoints
        GROUP BY task_id
        ORDER BY checkpoint_count DESC
        LIMIT 10""")
    assert (task, count, highest) == ("task-01KG4XYZ", 4, 4)
    assert first == last == stamp(clock, -1)


# Idempotency keys of agentos


COMPLETED_KEY = """
    SELECT idempotency_key, status, response_data, completed_at
    FROM idempotency_keys
    WHERE idempotency_key = ?
      AND status = 'completed'
      AND (expires_at IS NULL OR expires_at > CURRENT_TIMESTAMP)"""


def test_agentos_a_completed_key_answers_from_its_cache(
    agent: Outlast, clock: ManualClock, hand: Hand
) -> None:
    answer = '{"result":"success","files_found":42}'
    assert hand.rows(COMPLETED_KEY, "idem-01KG4ABC") == [
        ("idem-01KG4ABC", "completed", answer, stamp(clock))
    ]
    assert hand.rows(COMPLETED_KEY, "idem-3") == []
    cached = """
        SELECT response_data FROM idempotency_keys
        WHERE idempotency_key = 'idem-01KG4ABC'
          AND status = 'completed'"""
    assert hand.value(cached) == answer
    (row,) = hand.records("SELECT * FROM idempotency_keys WHERE idempotency_key = 'idem-3'")
    request_hash = row.pop("request_hash")
    assert row == {
        "idempotency_key": "idem-3",
        "task_id": "task-01KG4XYZ",
        "work_item_id": "work-3",
        "response_data": None,
        "status": "pending",
        "created_at": stamp(clock, -1),
        "completed_at": None,
        "expires_at": stamp(clock, 24 * 60 - 1),
    }
    integrity = """
        SELECT
            CASE
                WHEN request_hash = ? THEN 'MATCH'
                ELSE 'CONFLICT'
            END as integrity_check
        FROM idempotency_keys
        WHERE idempotency_key = 'idem-3'"""
    assert request_hash.startswith("sha256:")
    assert hand.value(integrity, request_hash) == "MATCH"
    assert hand.value(integrity, "sha256:a1b2c3d4...") == "CONFLICT"


def test_agentos_an_expired_key_is_not_found(app: Outlast, clock: ManualClock, hand: Hand) -> None:
    clock.step_utc(-24 * 3600)
    app.enqueue("k", id="t", idempotency_key="old")
    (lease,) = app.claim("w")
    lease.complete()
    assert hand.rows(COMPLETED_KEY, "old") == []
    assert hand.value("SELECT status FROM idempotency_keys") == "completed"


def test_agentos_the_schema_version_is_the_seeds(hand: Hand) -> None:
    query = "SELECT version FROM schema_version WHERE version = '0.30.0'"
    assert hand.rows(query) == [("0.30.0",)]
