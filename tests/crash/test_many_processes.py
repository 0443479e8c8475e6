"""Eight processes on one file: nobody gets what another has, and nobody waits for a reader."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.support.children import Child
from tests.support.foreign import ForeignError, assert_sound, foreign_rows
from tests.support.sitting import sits_in_a_transaction

pytestmark = pytest.mark.slow

PROCESSES = 8


@pytest.fixture
def crowd() -> Iterator[Callable[..., list[Child]]]:
    """Starts eight children with the same arguments and their own number, all ready to go."""
    with ExitStack() as stack:

        def start(function: Callable[..., None], *arguments: Any) -> list[Child]:
            children = [
                stack.enter_context(Child(function, *arguments, number))
                for number in range(PROCESSES)
            ]
            for child in children:
                assert child.hear() == "ready"
            for child in children:
                child.say("go")
            return children

        yield start


def _ended(children: list[Child]) -> list[list[Any]]:
    """What each of them told until its end, which must have been a good one."""
    told = [child.hear_all() for child in children]
    assert [child.error() for child in children if child.wait()] == []
    return told


def _claims_all_it_can_get(path: str, number: int) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path).open()
    say("ready")
    hear()
    while leases := app.claim(f"w{number}", limit=10):
        say([lease.task_id for lease in leases])
        app.complete_many([(lease, number) for lease in leases])


@pytest.mark.proves("CLM-01")
def test_no_task_is_handed_out_twice(database: Path, crowd: Callable[..., list[Child]]) -> None:
    with Outlast(database) as app:
        ids = app.enqueue_many("work", range(PROCESSES * 1000))
        children = crowd(_claims_all_it_can_get, database)
        handed_out = [[one for batch in told for one in batch] for told in _ended(children)]
        assert sorted(one for ids_of_one in handed_out for one in ids_of_one) == sorted(ids)
        assert sum(map(bool, handed_out)) > 1, "nobody competed"
    assert foreign_rows(database, "SELECT status, attempt, token, count(*) FROM tasks") == [
        ["completed", 1, 1, PROCESSES * 1000]
    ]
    assert_sound(database)


def _submits_one_request_ten_times(path: str, number: int) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path).open()
    say("ready")
    hear()
    for _ in range(10):
        say(app.enqueue("charge", {"cents": 100}, idempotency_key="order-1").id)


@pytest.mark.proves("IDM-03", "IDM-12")
def test_racers_with_one_idempotency_key_make_one_task(
    database: Path, crowd: Callable[..., list[Child]]
) -> None:
    children = crowd(_submits_one_request_ten_times, database)
    answers = [answer for told in _ended(children) for answer in told]
    assert len(answers) == PROCESSES * 10
    (task_id,) = set(answers)
    assert foreign_rows(database, "SELECT id FROM tasks") == [[task_id]]
    assert foreign_rows(database, "SELECT idempotency_key, task_id FROM task_keys") == [
        ["order-1", task_id]
    ]
    with Outlast(database) as app:
        assert len(app.claim("w", limit=10)) == 1, "one executor"


def _writes_a_hundred_checkpoints(path: str, number: int) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    (lease,) = app.claim(f"w{number}")
    say("ready")
    hear()
    for n in range(100):
        say([lease.task_id, lease.checkpoint("tool_executed", n).sequence_number])
    lease.complete()


@pytest.mark.proves("CKP-07")
def test_checkpoints_of_eight_processes_are_numbered_without_gap_or_double(
    database: Path, crowd: Callable[..., list[Child]]
) -> None:
    with Outlast(database) as app:
        ids = app.enqueue_many("work", range(PROCESSES))
    children = crowd(_writes_a_hundred_checkpoints, database)
    told = [pair for pairs in _ended(children) for pair in pairs]
    for task_id in ids:
        assert [number for one, number in told if one == task_id] == list(range(1, 101))
    stored = foreign_rows(
        database,
        "SELECT t.id, c.sequence_number FROM task_checkpoints c JOIN tasks t ON t.seq = c.task_seq",
    )
    assert sorted(stored) == sorted(told)
    assert _unique_columns(database, "task_checkpoints") >= {("task_seq", "sequence_number")}
    with pytest.raises(ForeignError, match="IntegrityError"):
        foreign_rows(
            database,
            """INSERT INTO task_checkpoints (id, task_seq, checkpoint_type, sequence_number,
                    attempt, snapshot_data, snapshot_sum, created_at)
                SELECT 'double', task_seq, checkpoint_type, sequence_number, attempt,
                    snapshot_data, snapshot_sum, created_at
                FROM task_checkpoints LIMIT 1""",
        )


def _unique_columns(database: Path, table: str) -> set[tuple[str, ...]]:
    rows = foreign_rows(
        database,
        """SELECT l.name, i.name FROM pragma_index_list(?) l, pragma_index_info(l.name) i
           WHERE l."unique" ORDER BY l.name, i.seqno""",
        (table,),
    )
    indexes = {index for index, _ in rows}
    return {tuple(column for name, column in rows if name == index) for index in indexes}


@pytest.mark.proves("CKP-07")
def test_eight_threads_that_share_a_lease_number_their_checkpoints_in_order(app: Outlast) -> None:
    app.enqueue("work", id="t")
    (lease,) = app.claim("w")

    def write(thread: int) -> list[int]:
        return [lease.checkpoint("tool_executed", thread).sequence_number for _ in range(100)]

    with ThreadPoolExecutor(PROCESSES) as pool:
        numbers = list(pool.map(write, range(PROCESSES)))
    assert sorted(number for one in numbers for number in one) == list(range(1, 801))
    assert all(one == sorted(one) for one in numbers)
    assert [one.sequence_number for one in app.checkpoints("t")] == list(range(1, 801))


def _heals_once(path: str, number: int) -> None:
    from outlast import Outlast, Settings
    from outlast.store.records import Healed
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    clock = ManualClock()
    clock.advance("1m")
    # Else a detector puts all of them back before anybody is told to heal.
    alone = Settings(detection_interval_seconds=0)
    nothing = Healed(0, 0, ())
    app = Outlast(path, settings=alone, clock=clock, recovery=lambda session: nothing).open()
    say("ready")
    hear()
    say(app.heal().entries_reclaimed)


@pytest.mark.proves("HEAL-13")
def test_eight_healers_put_back_each_stale_task_once(
    database: Path, clock: ManualClock, crowd: Callable[..., list[Child]]
) -> None:
    with Outlast(database, clock=clock) as app:
        app.enqueue_many("work", range(500))
        app.claim("slow", limit=500, lease="10s")
        children = crowd(_heals_once, database)
        assert sum(count for counts in _ended(children) for count in counts) == 500
        counted = "SELECT status, recovery_count, count(*) FROM tasks"
        assert foreign_rows(database, counted) == [["pending", 1, 500]]
    assert_sound(database)


def _reads_for_a_long_time(path: str) -> None:
    import sqlite3

    from tests.support.childside import hear, say

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    for _ in range(2):
        say(connection.execute("SELECT count(*) FROM tasks").fetchone()[0])
        hear()


@pytest.mark.proves("INT-33")
def test_a_long_read_and_a_hundred_writes_do_not_meet(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("work")
    with Outlast(database) as app, Child(_reads_for_a_long_time, database) as reader:
        assert reader.hear() == 1
        for _ in range(100):
            app.enqueue("work")
        reader.say()
        assert reader.hear() == 1, "the reader still sees what it began with"
        assert app.counts()["pending"] == 101
        assert app.flush_wal("truncate").busy, "a flush says that a reader is in its way"


@pytest.mark.proves("INT-33")
def test_reads_are_answered_while_a_write_is_under_way(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("work", id="here")
        with Child(sits_in_a_transaction, database) as writer:
            assert writer.hear() == "enqueue.written"
            assert app.get("here").status == "pending"
            assert app.counts()["pending"] == 1
            writer.say()
            assert writer.wait() == 0
        assert app.counts()["pending"] == 2
