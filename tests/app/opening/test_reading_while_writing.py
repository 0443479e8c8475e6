import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast, probes
from tests.support.children import Child

WRITES = 100


def _reads_for_a_long_time(path: str) -> None:
    from pathlib import Path

    from outlast.store.sqlite.connect import connect
    from tests.support.childside import hear, say

    connection = connect(Path(path), "full")
    connection.execute("BEGIN")
    query = "SELECT count(*), max(id) FROM tasks"
    while True:
        say(connection.execute(query).fetchall())
        if hear() == "end":
            connection.execute("COMMIT")
            say(connection.execute(query).fetchall())


@pytest.fixture
def armed() -> Iterator[list[str]]:
    """Names of the probes passed, for the tests that act at one of them."""
    yield []
    probes.arm(None)


@pytest.mark.proves("INT-33")
def test_a_long_read_and_a_hundred_writes_do_not_get_in_each_others_way(
    app: Outlast, database: Path
) -> None:
    app.enqueue("work", id="t000")
    with Child(_reads_for_a_long_time, database) as reader:
        assert reader.hear() == [[1, "t000"]]
        for n in range(1, WRITES):
            app.enqueue("work", id=f"t{n:03}")
        for lease in app.claim("w", limit=WRITES):
            lease.complete()
        assert app.flush_wal("passive").frames_moved >= 0
        reader.say("again")
        assert reader.hear() == [[1, "t000"]]
        reader.say("end")
        assert reader.hear() == [[WRITES, "t099"]]


@pytest.mark.proves("INT-33", "QUE-24")
def test_a_read_in_the_middle_of_a_write_is_answered_from_before_it(
    app: Outlast, armed: list[str]
) -> None:
    """No waiting, no error, and no half of what is being written."""
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    seen: list[tuple[str, list[str], dict[str, int]]] = []

    def look(name: str) -> None:
        armed.append(name)
        listing = [task.id for task in app.tasks(status="pending")]
        seen.append((name, listing, app.counts()))

    probes.arm(look)
    app.enqueue_many("work", range(3), id=["d", "e", "f"])
    app.claim("w", limit=6)
    probes.arm(None)
    assert {"enqueue.inserted", "enqueue.written", "claim.updated"} <= set(armed)
    by_probe = {name: (listing, counts["pending"]) for name, listing, counts in seen}
    assert by_probe["enqueue.written"] == (["c", "b", "a"], 3)
    assert by_probe["enqueue.committed"] == (["f", "e", "d", "c", "b", "a"], 6)
    assert by_probe["claim.updated"] == (["f", "e", "d", "c", "b", "a"], 6)
    assert by_probe["claim.committed"] == ([], 0)


def moves_pairs(path: str, stop: str) -> None:
    from pathlib import Path

    from outlast import Outlast
    from tests.support.childside import say

    app = Outlast(path)
    say("begins")
    for _ in range(100_000):
        leases = app.claim("w", limit=2)
        app.complete_many((lease, None) for lease in leases)
        app.enqueue_many("work", range(2))
        if Path(stop).exists():
            break
    say("ends")


@pytest.mark.proves("QUE-24")
def test_a_listing_shows_one_point_in_time_while_another_process_writes(
    app: Outlast, database: Path, tmp_path: Path
) -> None:
    """The writer moves and adds tasks two by two, so one moment never holds an odd number."""
    app.enqueue_many("work", range(2))
    stop = tmp_path / "stop"
    deadline = time.monotonic() + 60
    with Child(moves_pairs, database, stop) as writer:
        assert writer.hear() == "begins"
        seen: set[int] = set()
        while len(seen) < 20 and time.monotonic() < deadline:
            by_status = Counter(task.status for task in app.tasks(limit=100_000))
            assert [count for count in by_status.values() if count % 2] == []
            seen.add(by_status.total())
        stop.touch()
        assert writer.hear() == "ends"
    assert len(seen) == 20
