"""What hand-written SQL may not do to a task: the transition table holds below Python too."""

from typing import Any

import pytest

from outlast import Outlast
from outlast.domain.lifecycle import LEGAL_MOVES, Parked, Status
from tests.store.hand import Hand, Refused

STATUSES = [status.value for status in Status]
FINAL = ["completed", "failed", "cancelled"]
LEASE_COLUMNS = (
    "holder worker_id lease_acquired_at lease_expires_at lease_expires_mono_ms heartbeat_at"
).split()
STRANGE_WORDS = (
    ",done,PENDING,Running, pending,in_progress,claimed,processing,rebasing,testing,processed"
    ",succeeded,expired,parked"
).split(",")


@pytest.fixture
def holder(app: Outlast) -> int:
    """The row of a live worker, for rows that need one."""
    app.enqueue("anchor", queue="elsewhere")
    (lease,) = app.claim("anchor", queue="elsewhere")
    return lease.grant.holder


def whole(status: str, holder: int) -> dict[str, Any]:
    """The columns that a row of this status needs, and no others."""
    values: dict[str, Any] = {"status": status, "parked": None, "completed_at": None}
    values |= dict.fromkeys(LEASE_COLUMNS)
    if status == "running":
        values |= dict.fromkeys(LEASE_COLUMNS, 5) | {"holder": holder, "worker_id": "w"}
        values |= {"token": 1, "attempt": 1, "started_at": 5}
    elif status != "pending":
        values["completed_at"] = 5
    return values


def insert(hand: Hand, task_id: str, values: dict[str, Any]) -> None:
    row = {"id": task_id, "queue": "default", "kind": "k", "created_at": 1, "state_changed_at": 1}
    row |= {"payload_sum": 0} | values
    names = ", ".join(row)
    hand.run(f"INSERT INTO tasks ({names}) VALUES ({', '.join('?' * len(row))})", *row.values())


def update(hand: Hand, task_id: str, values: dict[str, Any]) -> int:
    changes = ", ".join(f"{name} = ?" for name in values)
    return hand.run(f"UPDATE tasks SET {changes} WHERE id = ?", *values.values(), task_id)


@pytest.mark.proves("QUE-02", "QUE-05")
def test_only_the_five_words_can_be_inserted_as_a_status(hand: Hand, holder: int) -> None:
    for word in STATUSES:
        insert(hand, f"as {word}", whole(word, holder))
    for word in STRANGE_WORDS:
        for like in STATUSES:
            with pytest.raises(Refused):
                insert(hand, "strange", whole(like, holder) | {"status": word})
    assert hand.value("SELECT count(*) FROM tasks WHERE queue = 'default'") == 5


@pytest.mark.proves("QUE-05")
@pytest.mark.parametrize("word", STRANGE_WORDS)
def test_a_strange_word_cannot_become_a_status(hand: Hand, holder: int, word: str) -> None:
    for like in ("pending", "running"):
        insert(hand, f"t {like}", whole(like, holder))
        for shape in STATUSES:
            with pytest.raises(Refused):
                update(hand, f"t {like}", whole(shape, holder) | {"status": word})


@pytest.mark.proves("QUE-03", "QUE-04")
@pytest.mark.parametrize("start", STATUSES)
@pytest.mark.parametrize("end", STATUSES)
def test_hand_written_sql_can_make_the_legal_moves_and_no_others(
    hand: Hand, holder: int, start: str, end: str
) -> None:
    """The statement sets every column as the new status wants it: the move alone is on trial."""
    insert(hand, "t", whole(start, holder))
    if start == end or (Status(start), Status(end)) in LEGAL_MOVES:
        assert update(hand, "t", whole(end, holder)) == 1
        assert hand.task("t")["status"] == end
    else:
        with pytest.raises(Refused, match="cannot move that way"):
            update(hand, "t", whole(end, holder))
        assert hand.task("t")["status"] == start


@pytest.mark.proves("QUE-03")
def test_there_are_seven_legal_moves() -> None:
    assert {(start.value, end.value) for start, end in LEGAL_MOVES} == {
        ("pending", "running"),
        ("running", "completed"),
        ("running", "failed"),
        ("running", "pending"),
        ("pending", "failed"),
        ("pending", "cancelled"),
        ("running", "cancelled"),
    }


@pytest.mark.proves("QUE-04")
def test_a_task_that_the_engine_ended_cannot_be_revived_by_hand(app: Outlast, hand: Hand) -> None:
    for task_id in FINAL:
        app.enqueue("k", id=task_id)
    leases = {lease.task_id: lease for lease in app.claim("w", limit=2)}
    leases["completed"].complete()
    leases["failed"].fail("no", retry=False)
    app.cancel("cancelled")
    for task_id in FINAL:
        assert hand.task(task_id)["status"] == task_id
        for end in set(STATUSES) - {task_id}:
            with pytest.raises(Refused):
                update(hand, task_id, whole(end, 1))


@pytest.mark.proves("QUE-19")
@pytest.mark.parametrize("column", [*LEASE_COLUMNS, "started_at"])
def test_a_running_task_needs_every_lease_column(app: Outlast, hand: Hand, column: str) -> None:
    app.enqueue("k", id="t")
    (lease,) = app.claim("w")
    with pytest.raises(Refused, match="task_is_whole"):
        update(hand, "t", {column: None})
    assert lease.complete()


@pytest.mark.proves("QUE-19")
@pytest.mark.parametrize(
    "values", [{"token": 0}, {"attempt": 0}, {"completed_at": 5}, {"parked": "hold"}]
)
def test_a_running_task_has_a_token_an_attempt_and_no_end(
    hand: Hand, holder: int, values: dict[str, Any]
) -> None:
    insert(hand, "t", whole("running", holder))
    with pytest.raises(Refused, match="task_is_whole"):
        update(hand, "t", values)


@pytest.mark.proves("QUE-19")
@pytest.mark.parametrize("column", LEASE_COLUMNS)
@pytest.mark.parametrize("status", ["pending", *FINAL])
def test_only_a_running_task_has_lease_columns(
    hand: Hand, holder: int, status: str, column: str
) -> None:
    insert(hand, "t", whole(status, holder))
    with pytest.raises(Refused, match="task_is_whole"):
        update(hand, "t", {column: whole("running", holder)[column]})


@pytest.mark.proves("QUE-19")
def test_the_status_cannot_move_without_its_lease_columns(hand: Hand, holder: int) -> None:
    insert(hand, "waiting", whole("pending", holder))
    insert(hand, "held", whole("running", holder))
    with pytest.raises(Refused, match="task_is_whole"):
        update(hand, "waiting", {"status": "running"})
    for end in ("pending", *FINAL):
        with pytest.raises(Refused, match="task_is_whole"):
            update(hand, "held", {"status": end})
    for end in FINAL:
        with pytest.raises(Refused, match="task_is_whole"):
            update(hand, "held", whole(end, holder) | {"completed_at": None})


@pytest.mark.proves("QUE-19")
def test_the_last_holder_is_kept_when_the_lease_ends(app: Outlast, hand: Hand) -> None:
    app.enqueue("k", id="t")
    (lease,) = app.claim("ada")
    lease.release()
    (lease,) = app.claim("bob")
    lease.complete()
    row = hand.task("t")
    assert (row["worker_id"], row["last_worker_id"]) == (None, "bob")
    assert [row[column] for column in LEASE_COLUMNS] == [None] * 6


@pytest.mark.proves("QUE-02")
def test_parked_is_a_reason_of_pending_tasks_alone(hand: Hand, holder: int) -> None:
    for reason in Parked:
        insert(hand, reason.value, whole("pending", holder) | {"parked": reason, "not_before": 9})
    with pytest.raises(Refused):
        insert(hand, "t", whole("pending", holder) | {"parked": "because"})
    with pytest.raises(Refused):
        insert(hand, "t", whole("pending", holder) | {"parked": "delay"})
    for status in ("running", *FINAL):
        with pytest.raises(Refused):
            insert(hand, "t", whole(status, holder) | {"parked": "hold"})


@pytest.mark.proves("RTY-08")
@pytest.mark.parametrize(
    "values",
    [
        {"retry_count": 4},
        {"retry_count": -1},
        {"recovery_count": 101},
        {"recovery_count": -1},
        {"crashes_in_row": 3},
        {"crashes_in_row": -1},
        {"attempt": -1},
        {"max_retries": 1},
    ],
)
def test_no_counter_passes_its_limit(hand: Hand, values: dict[str, int]) -> None:
    """No more crashes in a row than in all, and of these a hundred."""
    within = {"max_retries": 3, "retry_count": 3, "recovery_count": 2, "crashes_in_row": 2}
    insert(hand, "t", within | {"attempt": 6})
    with pytest.raises(Refused, match="task_budgets"):
        update(hand, "t", values)
    with pytest.raises(Refused, match="task_budgets"):
        insert(hand, "u", within | {"attempt": 6} | values)


@pytest.mark.proves("RTY-08")
def test_a_task_that_always_fails_ends_with_its_counters_at_their_limits(
    app: Outlast, hand: Hand
) -> None:
    app.enqueue("k", id="t", max_retries=2)
    for _ in range(3):
        (lease,) = app.claim("w")
        lease.fail("again", delay=0)
    assert app.claim("w") == []
    row = hand.task("t")
    assert (row["status"], row["retry_count"], row["attempt"]) == ("failed", 2, 3)
