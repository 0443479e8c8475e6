"""A list of every task at one moment, while everybody goes on writing."""

import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import InvalidInput, Outlast, StoreError
from tests.app.opening.test_reading_while_writing import moves_pairs
from tests.support.children import Child

MANY = 250


def ids(snapshot: Any) -> list[str]:
    return [task.id for task in snapshot]


@pytest.mark.proves("QUE-24")
def test_every_task_is_listed_newest_first_however_many_there_are(app: Outlast) -> None:
    assert ids(app.open().snapshot()) == []
    stored = app.enqueue_many("work", range(MANY))
    assert ids(app.snapshot()) == stored[::-1]
    assert ids(app.snapshot()) == [task.id for task in app.tasks(limit=1000)]


@pytest.mark.proves("QUE-24")
def test_a_snapshot_is_narrowed_by_status_queue_and_group(app: Outlast) -> None:
    for queue, group in (("a", "g"), ("b", "g"), ("a", "h")):
        names = [f"{end} {queue}{group}" for end in ("completed", "failed", "running", "pending")]
        app.enqueue_many("work", range(4), id=names, queue=queue, group=group)
        completing, failing, _ = app.claim("w", limit=3, queue=queue, group=group)
        completing.complete()
        failing.fail("no", retry=False)
    for status in ("completed", "failed", "running", "pending"):
        assert ids(app.snapshot(status)) == [f"{status} {one}" for one in ("ah", "bg", "ag")]
        assert ids(app.snapshot(status, "a")) == [f"{status} ah", f"{status} ag"]
        assert ids(app.snapshot(status, group="g")) == [f"{status} bg", f"{status} ag"]
        assert ids(app.snapshot(status, "b", "g")) == [f"{status} bg"]
    assert len(ids(app.snapshot(queue="a"))) == 8
    assert len(ids(app.snapshot(group="h"))) == 4
    assert ids(app.snapshot(group="nobody")) == []
    with pytest.raises(InvalidInput):
        app.snapshot("no such status")


@pytest.mark.proves("QUE-24")
@pytest.mark.parametrize("narrowed", [{}, {"status": "pending"}, {"group": "g"}])
def test_what_happens_after_the_first_look_is_not_in_it(
    app: Outlast, narrowed: dict[str, str]
) -> None:
    stored = app.enqueue_many("work", range(MANY), group="g")
    snapshot = app.snapshot(**narrowed)
    app.enqueue("work", group="g", priority=9)
    app.take()
    leases = app.claim("w", limit=MANY)
    first = next(snapshot)
    app.complete_many([(lease, None) for lease in leases])
    rest = list(snapshot)
    assert [first.id, *(task.id for task in rest)] == stored[::-1]
    assert {task.status.value for task in (first, *rest)} == {"pending"}
    assert app.counts()["completed"] == MANY


@pytest.mark.proves("QUE-24")
def test_a_snapshot_shows_one_point_in_time_while_another_process_writes(
    app: Outlast, database: Path, tmp_path: Path
) -> None:
    """The writer moves and adds two by two, so one moment never holds an odd number of any.

    Between the first task and the rest the test waits for commits: a list that is read on from a
    later moment would show it.
    """
    app.enqueue_many("work", range(MANY))
    stop = tmp_path / "stop"
    deadline = time.monotonic() + 60
    with Child(moves_pairs, database, stop) as writer:
        assert writer.hear() == "begins"
        for _ in range(5):
            snapshot = app.snapshot()
            first = next(snapshot)
            before = app.counts()
            while app.counts()["completed"] < before["completed"] + 4:
                assert time.monotonic() < deadline, "the writer writes on"
            by_status = Counter(task.status for task in (first, *snapshot))
            assert [count for count in by_status.values() if count % 2] == []
            assert by_status["completed"] <= before["completed"]
        stop.touch()
        assert writer.hear() == "ends"


def test_a_snapshot_is_of_the_moment_it_was_asked_for_not_of_the_first_reading(
    app: Outlast,
) -> None:
    app.enqueue("work", id="t1")
    snapshot = app.snapshot()
    app.enqueue("work", id="t2")
    assert ids(snapshot) == ["t1"]


def test_the_log_can_be_emptied_once_a_snapshot_is_read_or_closed_or_forgotten(
    app: Outlast,
) -> None:
    app.enqueue_many("work", range(MANY))

    def log_is_kept() -> bool:
        app.enqueue("work")
        return app.flush_wal("truncate").busy

    read = app.snapshot()
    next(read)
    assert log_is_kept()
    assert len(ids(read)) == MANY - 1
    assert not log_is_kept()
    with app.snapshot() as closed:
        next(closed)
        assert log_is_kept()
    assert not log_is_kept()
    assert ids(closed) == []
    forgotten = app.snapshot()
    assert log_is_kept()
    del forgotten
    assert not log_is_kept()


def test_closing_the_store_ends_what_is_being_listed_at_once(
    make_app: Callable[..., Outlast],
) -> None:
    app = make_app()
    app.enqueue_many("work", range(MANY))
    snapshot = app.snapshot()
    next(snapshot)
    began = time.monotonic()
    app.close()
    assert time.monotonic() - began < 10, "nobody waits for a reader that may never come back"
    with pytest.raises(StoreError, match="ended because the store was closed; begin a new one"):
        ids(snapshot)


def _forks_while_listing(path: str) -> None:
    import os

    from outlast import Outlast, StoreError
    from tests.support.childside import say

    app = Outlast(path)
    app.enqueue_many("work", range(250))
    snapshot = app.snapshot()
    next(snapshot)
    child = os.fork()
    if child == 0:
        ours = Outlast(path)
        ours.enqueue("work")
        say(["child", len(list(ours.snapshot()))])
        ours.close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    say(["status", status])
    try:
        say(["parent", len(list(snapshot))])
    except StoreError as error:
        say(["parent", str(error)])
    say(["again", len(list(app.snapshot()))])


def test_a_fork_ends_a_snapshot_and_the_child_may_use_the_store(database: Path) -> None:
    """A child that inherited a read transaction could never open the file safely."""
    with Child(_forks_while_listing, database) as child:
        assert child.hear() == ["child", 251]
        assert child.hear() == ["status", 0]
        what, said = child.hear()
        assert what == "parent"
        assert "a snapshot has ended because this process was forked" in said
        assert child.hear() == ["again", 251]


def test_only_a_piece_of_the_list_is_held_in_memory(app: Outlast) -> None:
    app.enqueue_many("work", ["x" * 20_000] * 1500)
    tracemalloc.start()
    try:
        assert sum(1 for _ in app.snapshot()) == 1500
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 10_000_000 < 1500 * 20_000


def test_the_tasks_of_a_snapshot_can_be_waited_for(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    (task,) = app.snapshot()
    (lease,) = app.claim("w")
    lease.complete("done")
    assert task.wait(5) == "done"
