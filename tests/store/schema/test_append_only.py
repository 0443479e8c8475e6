"""Logs that only grow, words that only mean something: what triggers refuse."""

import pytest

from outlast import Outlast
from outlast.domain.task import CHECKPOINT_TYPES
from outlast.testing import ManualClock
from tests.store.hand import Hand, Refused, store_of

CHECKPOINT = """
    INSERT INTO task_checkpoints (id, task_seq, checkpoint_type, sequence_number, attempt,
                                  snapshot_data, snapshot_sum, created_at)
    SELECT ?, seq, ?, ?, 1, '{}', '', 1 FROM tasks WHERE id = 't'"""
KEY = (
    "INSERT INTO task_keys (idempotency_key, request_hash, status, created_at) VALUES (?, '', ?, 1)"
)


@pytest.fixture
def lived(app: Outlast, hand: Hand) -> Outlast:
    """A task with two moves and three checkpoints."""
    app.enqueue("k", id="t", group="g")
    (lease,) = app.claim("w")
    for number in range(3):
        lease.checkpoint("iteration_end", {"iteration": number}, {"note": number})
    lease.release()
    return app


@pytest.mark.proves("QUE-22")
def test_every_move_leaves_one_row_that_says_all_about_it(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue("k", id="t", max_retries=1)
    (lease,) = app.claim("ada")
    clock.advance("1s")
    lease.fail("boom", delay=0)
    (lease,) = app.claim("bob")
    clock.advance("1h")
    app.heal()
    app.cancel("t")
    began = clock.now().utc_ms - 3_601_000
    assert hand.rows(
        "SELECT from_status, to_status, actor, reason, attempt, worker_id, at - ?, error"
        " FROM transitions ORDER BY pos",
        began,
    ) == [
        ("pending", "running", "worker", "claimed", 1, "ada", 0, None),
        ("running", "pending", "worker", "retry", 1, "ada", 1000, "boom"),
        ("pending", "running", "worker", "claimed", 2, "bob", 1000, None),
        ("running", "pending", "system/recovery", "lease_expired_retry", 2, "bob", 3_601_000,
         "the lease of worker bob ran out"),
        ("pending", "cancelled", "user", "cancelled", 2, None, 3_601_000, None),
    ]  # fmt: skip


@pytest.mark.proves("QUE-22")
def test_the_log_of_moves_is_append_only(lived: Outlast, hand: Hand) -> None:
    before = hand.rows("SELECT * FROM transitions")
    for column in hand.columns("transitions"):
        with pytest.raises(Refused, match="append-only"):
            hand.run(f"UPDATE transitions SET {column} = {column}")
    with pytest.raises(Refused, match="append-only"):
        hand.run("DELETE FROM transitions")
    assert hand.rows("SELECT * FROM transitions") == before
    assert len(before) == 2


def test_the_log_goes_with_its_task(lived: Outlast, hand: Hand) -> None:
    assert hand.run("DELETE FROM tasks") == 1
    assert hand.value("SELECT count(*) FROM transitions") == 0


@pytest.mark.proves("CKP-03")
def test_only_the_eight_types_of_checkpoint_are_taken(lived: Outlast, hand: Hand) -> None:
    for number, word in enumerate(CHECKPOINT_TYPES, start=10):
        assert hand.run(CHECKPOINT, f"c{number}", word, number) == 1
    for word in ("", "done", "Iteration_End", "iteration_end "):
        with pytest.raises(Refused, match="checkpoint type"):
            hand.run(CHECKPOINT, "bogus", word, 99)
    assert len(CHECKPOINT_TYPES) == 8


@pytest.mark.proves("CKP-04")
def test_a_checkpoint_can_be_neither_changed_nor_removed_by_hand(
    lived: Outlast, hand: Hand
) -> None:
    before = hand.rows("SELECT * FROM task_checkpoints")
    for column in hand.columns("task_checkpoints"):
        with pytest.raises(Refused, match="append-only"):
            hand.run(f"UPDATE task_checkpoints SET {column} = {column}")
    with pytest.raises(Refused, match="append-only"):
        hand.run("DELETE FROM task_checkpoints")
    assert hand.rows("SELECT * FROM task_checkpoints") == before
    assert len(before) == 3


@pytest.mark.proves("CKP-04")
def test_retention_may_remove_old_checkpoints_and_the_guard_stands_again_afterwards(
    lived: Outlast, hand: Hand
) -> None:
    assert store_of(lived).checkpoints.trim("t", 1) == 1
    numbers = "SELECT sequence_number FROM task_checkpoints ORDER BY 1"
    assert hand.rows(numbers) == [(2,), (3,)]
    assert hand.rows("SELECT * FROM meta WHERE key = 'retention_running'") == []
    with pytest.raises(Refused, match="append-only"):
        hand.run("DELETE FROM task_checkpoints")


@pytest.mark.proves("CKP-20")
def test_the_checkpoints_go_with_their_task(lived: Outlast, hand: Hand) -> None:
    assert hand.run("DELETE FROM tasks WHERE id = 't'") == 1
    assert hand.value("SELECT count(*) FROM task_checkpoints") == 0


def test_two_checkpoints_of_a_task_cannot_share_a_number(lived: Outlast, hand: Hand) -> None:
    with pytest.raises(Refused):
        hand.run(CHECKPOINT, "twin", "iteration_end", 3)
    assert hand.run(CHECKPOINT, "next", "iteration_end", 4) == 1
    unique = 'SELECT name FROM pragma_index_list(?) WHERE "unique" AND origin = ?'
    assert hand.rows(unique, "task_checkpoints", "c") == [("idx_checkpoints_work_item",)]


@pytest.mark.proves("IDM-02")
def test_a_key_is_pending_completed_or_failed(app: Outlast, hand: Hand) -> None:
    for word in ("pending", "completed", "failed"):
        assert hand.run(KEY, f"k {word}", word) == 1
    for word in ("running", "cancelled", "PENDING", ""):
        with pytest.raises(Refused, match="key status"):
            hand.run(KEY, "bogus", word)
        with pytest.raises(Refused, match="key status"):
            hand.run("UPDATE task_keys SET status = ?", word)
    app.enqueue("k", idempotency_key="mine")
    assert app.keys(status="pending")[0].key == "mine"


@pytest.mark.proves("MIG-12")
@pytest.mark.parametrize(
    ("trigger", "statement"),
    [
        ("check_work_items_status", "UPDATE tasks SET status = 'pending', completed_at = NULL"),
        ("check_checkpoints_type", CHECKPOINT.replace("?, seq, ?, ?", "'c', seq, 'bogus', 9")),
        ("check_idempotency_keys_status", KEY.replace("?", "'bogus'")),
        ("check_idempotency_keys_status_change", "UPDATE task_keys SET status = 'bogus'"),
    ],
)
def test_each_guard_fires_and_is_the_one_that_does(
    app: Outlast, hand: Hand, trigger: str, statement: str
) -> None:
    app.enqueue("k", id="t", idempotency_key="mine")
    app.cancel("t")
    with pytest.raises(Refused):
        hand.run(statement)
    hand.run(f"DROP TRIGGER {trigger}")
    assert hand.run(statement) == 1


@pytest.mark.proves("MIG-12")
def test_the_timestamp_trigger_fires_and_is_the_one_that_does(app: Outlast, hand: Hand) -> None:
    app.enqueue("k", id="t")
    hand.run("UPDATE tasks SET priority = 1")
    assert hand.task("t")["touched_at"] is not None
    hand.run("DROP TRIGGER update_work_items_timestamp")
    hand.run("UPDATE tasks SET touched_at = NULL")
    assert hand.task("t")["touched_at"] is None


def test_a_type_the_column_does_not_have_is_refused_in_every_table(hand: Hand) -> None:
    tables = hand.rows("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'")
    ours = {name: strict for name, strict in tables if not name.startswith("sqlite_")}
    views = {name for (name,) in hand.rows("SELECT name FROM sqlite_schema WHERE type = 'view'")}
    assert len(ours.keys() - views) == 21
    assert not [name for name, strict in ours.items() if not strict and name not in views]
    with pytest.raises(Refused, match="cannot store TEXT value in INTEGER column"):
        hand.run("INSERT INTO queues (name, paused_at) VALUES ('q', 'yesterday')")
