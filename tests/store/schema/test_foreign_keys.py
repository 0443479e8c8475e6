"""What goes, stays or lets go when the row it hangs on is deleted."""

import pytest

from outlast import Outlast
from tests.store.hand import Hand, Refused

# Child table and column, parent, and what a delete of the parent does.
LINKS = {
    ("task_traces", "task_seq", "tasks", "CASCADE"),
    ("task_dues", "task_seq", "tasks", "CASCADE"),
    ("tasks", "group_id", "groups", "CASCADE"),
    ("tasks", "holder", "workers", "NO ACTION"),
    ("blobs", "task_seq", "tasks", "CASCADE"),
    ("transitions", "task_seq", "tasks", "CASCADE"),
    ("task_checkpoints", "task_seq", "tasks", "CASCADE"),
    ("task_checkpoints", "group_id", "groups", "CASCADE"),
    ("task_keys", "task_id", "tasks", "SET NULL"),
    ("task_keys", "group_id", "groups", "SET NULL"),
    ("locks", "holder", "workers", "NO ACTION"),
    ("workers", "task_seq", "tasks", "SET NULL"),
}


@pytest.fixture
def family(app: Outlast, hand: Hand) -> Outlast:
    """A task with everything that can hang on one, and a stranger beside it."""
    for task_id in ("t", "stranger"):
        payload = {"text": "x" * 5000}
        app.enqueue("k", payload, id=task_id, group=f"g {task_id}", idempotency_key=f"k {task_id}")
    app.claim("w", limit=2)
    return app


def left(hand: Hand) -> dict[str, int]:
    tables = ("groups", "tasks", "blobs", "transitions", "task_keys")
    return {table: hand.value(f"SELECT count(*) FROM {table}") for table in tables}


def test_every_link_has_its_stated_delete_action(hand: Hand) -> None:
    found = hand.rows(
        'SELECT m.name, f."from", f."table", f.on_delete FROM sqlite_schema m,'
        " pragma_foreign_key_list(m.name) f WHERE m.type = 'table'"
    )
    assert set(found) == LINKS


def test_every_link_has_an_index_to_follow_it_by(hand: Hand) -> None:
    """Deleting a parent looks for its children; without an index that is a scan each time."""
    for table, column, _, _ in LINKS - {("locks", "holder", "workers", "NO ACTION")}:
        first_columns = hand.rows(
            "SELECT x.name FROM pragma_index_list(?) i, pragma_index_info(i.name) x"
            " WHERE x.seqno = 0"
            # A key of one whole number is the table itself.
            " UNION ALL SELECT c.name FROM pragma_table_info(?) c WHERE c.pk = 1",
            table,
            table,
        )
        assert (column,) in first_columns, f"{table}.{column}"


def test_a_deleted_task_takes_its_parts_along_and_frees_its_key(
    family: Outlast, hand: Hand
) -> None:
    assert hand.run("DELETE FROM tasks WHERE id = 't'") == 1
    assert left(hand) == {"groups": 2, "tasks": 1, "blobs": 1, "transitions": 1, "task_keys": 2}
    keys = hand.rows("SELECT idempotency_key, task_id FROM task_keys ORDER BY 1")
    assert keys == [("k stranger", "stranger"), ("k t", None)]


def test_a_deleted_group_takes_its_tasks_along_and_frees_their_keys(
    family: Outlast, hand: Hand
) -> None:
    assert hand.run("DELETE FROM groups WHERE id = 'g t'") == 1
    assert left(hand) == {"groups": 1, "tasks": 1, "blobs": 1, "transitions": 1, "task_keys": 2}
    keys = hand.rows("SELECT idempotency_key, task_id, group_id FROM task_keys ORDER BY 1")
    assert keys == [("k stranger", "stranger", "g stranger"), ("k t", None, None)]


def test_nothing_can_hang_on_what_is_not_there(family: Outlast, hand: Hand) -> None:
    for statement in (
        "UPDATE tasks SET group_id = 'nobody'",
        "UPDATE tasks SET holder = 99",
        "INSERT INTO blobs (task_seq, part, data) VALUES (99, 'payload', '1')",
        "UPDATE task_keys SET task_id = 'nobody'",
        "UPDATE task_keys SET group_id = 'nobody'",
    ):
        with pytest.raises(Refused, match="FOREIGN KEY"):
            hand.run(statement)


def test_a_worker_that_holds_tasks_cannot_be_deleted(family: Outlast, hand: Hand) -> None:
    with pytest.raises(Refused, match="FOREIGN KEY"):
        hand.run("DELETE FROM workers")
