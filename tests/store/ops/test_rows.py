from dataclasses import fields
from pathlib import Path

import pytest

from outlast import Outlast, Task
from outlast.domain.task import TOLD_WHEN_ASKED
from outlast.store.new_tasks import NewTask
from outlast.store.sqlite.statements import sql
from tests.support.foreign import ForeignError, foreign_rows

SEED_COLUMNS = (
    "work_item_id task_id work_type status priority lease_holder lease_acquired_at"
    " lease_expires_at heartbeat_at retry_count max_retries input_data output_data error_message"
    " created_at started_at completed_at updated_at"
).split()


@pytest.mark.proves("QUE-06")
def test_a_task_carries_all_that_the_requirements_name(app: Outlast, database: Path) -> None:
    app.enqueue("mail", {"to": "ada"}, id="t1", group="g", priority=3)
    app.claim("w")[0].complete({"sent": True})
    app.close()
    names = [
        name
        for (name,) in foreign_rows(database, "SELECT name FROM pragma_table_info('work_items')")
    ]
    assert names == SEED_COLUMNS
    shown = "work_item_id, task_id, work_type, status, priority, input_data, output_data"
    assert foreign_rows(database, f"SELECT {shown} FROM work_items") == [
        ["t1", "g", "mail", "completed", 3, '{"to":"ada"}', '{"sent":true}']
    ]
    kept = foreign_rows(database, "SELECT state_changed_at, completed_at FROM tasks")
    assert kept[0][0] == kept[0][1]
    in_python = {field.name for field in fields(Task)}
    assert {
        "id", "group", "kind", "status", "priority", "worker", "token", "lease_acquired_at",
        "lease_expires_at", "heartbeat_at", "attempt", "retry_count", "recovery_count", "error",
        "created_at", "started_at", "completed_at", "updated_at", "state_changed_at",
    } <= in_python  # fmt: skip


@pytest.mark.proves("QUE-02")
@pytest.mark.parametrize("word", ["expired", "claimed", "processing", "done", "", "PENDING"])
def test_the_database_takes_no_status_but_the_five(app: Outlast, database: Path, word: str) -> None:
    app.open().close()
    insert = (
        "INSERT INTO tasks (id, status, queue, kind, created_at, state_changed_at, payload_sum)"
        f" VALUES ('raw', '{word}', 'default', 'work', 1, 1, 1)"
    )
    with pytest.raises(ForeignError, match="CHECK constraint failed: task_is_whole"):
        foreign_rows(database, insert)
    foreign_rows(database, insert.replace(f"'{word}'", "'pending'"))


@pytest.mark.proves("CLM-16")
def test_the_tasks_of_a_worker_are_found_by_index(app: Outlast, database: Path) -> None:
    app.open().close()
    query = sql("tasks_held_by").replace(":worker", "'w1'")
    plan = [detail for *_, detail in foreign_rows(database, f"EXPLAIN QUERY PLAN {query}")]
    assert any("INDEX idx_work_items_lease_holder (holder=?" in one for one in plan)
    assert not [one for one in plan if one.startswith("SCAN")]


SPENT = "attempt = 4, recovery_count = 4, crashes_in_row = 4, max_recoveries = 3"


@pytest.mark.proves("CLM-20", "RTY-10")
def test_a_pending_task_with_no_run_left_fails_on_sight_and_the_next_one_is_returned(
    app: Outlast, database: Path
) -> None:
    app.enqueue_many("work", range(3), id=["spent", "last-run", "fresh"])
    app.close()
    foreign_rows(database, f"UPDATE tasks SET {SPENT} WHERE id = 'spent'")
    foreign_rows(database, "UPDATE tasks SET attempt = 3, retry_count = 3 WHERE id = 'last-run'")
    (lease,) = app.claim("w")
    assert (lease.task_id, lease.attempt) == ("last-run", 4)
    spent = app.get("spent")
    assert (spent.status, spent.attempt, spent.token) == ("failed", 4, 0)
    assert spent.completed_at is not None
    assert spent.error == "it crashed 4 times in a row"
    assert app.history("spent")[-1].reason == "max_retries_exceeded"
    lease.fail("broken")
    assert app.get("last-run").status == "failed"
    assert [one.task_id for one in app.claim("w")] == ["fresh"]


@pytest.mark.proves("CLM-20")
def test_a_take_hands_out_no_spent_task_either(app: Outlast, database: Path) -> None:
    app.enqueue_many("work", range(2), id=["spent", "fresh"])
    app.close()
    foreign_rows(database, f"UPDATE tasks SET {SPENT} WHERE id = 'spent'")
    assert [task.id for task in app.take(1)] == ["fresh"]
    assert app.get("spent").status == "failed"


@pytest.mark.proves("RTY-08")
@pytest.mark.parametrize(
    "change",
    [
        "retry_count = 4",
        "recovery_count = 101",
        "crashes_in_row = 1",
        "recovery_count = 1, crashes_in_row = -1",
        "retry_count = -1",
        "recovery_count = -1",
        "attempt = -1",
        "retry_count = 2, max_retries = 1",
    ],
)
def test_the_database_keeps_every_counter_within_its_limit(
    app: Outlast, database: Path, change: str
) -> None:
    app.enqueue("work")
    app.close()
    with pytest.raises(ForeignError, match="CHECK constraint failed: task_budgets"):
        foreign_rows(database, f"UPDATE tasks SET {change}")
    most = "attempt = 999, retry_count = 3, recovery_count = 100, crashes_in_row = 100"
    foreign_rows(database, f"UPDATE tasks SET {most}")


def test_a_record_just_made_is_told_each_field_that_it_leaves_out() -> None:
    """Guards against a field that one of the two lists has and the other has not."""
    new = NewTask("t", "k", "q", 1, "g", "1", 2, 3, 4, 5, 6, "original")
    assert set(new.told()) == set(TOLD_WHEN_ASKED)


def test_the_places_of_a_new_task_are_those_that_statements_bind() -> None:
    """Guards add_task.sql, add_tasks.sql and the short way, which go by the places."""
    assert NewTask._fields == (
        "id", "kind", "queue", "priority", "group", "payload", "payload_sum", "max_retries",
        "max_recoveries", "not_before_ms", "created_ms", "retry_of", "key",
    )  # fmt: skip
