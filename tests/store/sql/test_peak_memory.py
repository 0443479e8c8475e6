"""How much memory the engine needs: never a list of all there is."""

from pathlib import Path

import pytest

from tests.store.hand import Hand
from tests.store.sql.test_shape import claims_and_waits
from tests.support.children import Child

pytestmark = pytest.mark.slow


def _streams_many_in(path: str, count: int) -> None:
    from outlast import Outlast
    from tests.store.sql.test_peak_memory import peak_megabytes
    from tests.support.childside import say

    app = Outlast(path)
    app.enqueue("work", "x")
    before = peak_megabytes()
    payloads = (f"{n:0250}" for n in range(count))
    stored = len(app.enqueue_many("work", payloads, chunked=True))
    say([stored, peak_megabytes() - before])
    app.close()


def _recovers_many(path: str) -> None:
    from outlast import Outlast
    from tests.store.sql.test_peak_memory import peak_megabytes
    from tests.support.childside import say

    before = peak_megabytes()
    app = Outlast(path).open()
    say([app.counts()["pending"], peak_megabytes() - before])
    app.close()


def peak_megabytes() -> float:
    """The most memory this process ever had in use, as the kernel counted it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) / 1024


def test_a_stream_of_tasks_is_never_listed_on_its_way_in(database: Path) -> None:
    """Their ids are: they are what the caller gets back, some 28 MB of them."""
    with Child(_streams_many_in, database, 300_000) as child:
        stored, grown_megabytes = child.hear()
    assert stored == 300_000
    assert grown_megabytes < 110, "a list of them takes 90 more"


def test_orphans_are_never_listed_when_they_are_put_back(database: Path) -> None:
    with Child(claims_and_waits, database, 1) as child:
        child.hear()
        child.kill()
    hand = Hand(database)
    columns = ", ".join(name for name in hand.columns("tasks") if name not in ("seq", "id"))
    hand.run(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)"
        f" INSERT INTO tasks (id, {columns}) SELECT 'orphan ' || i, {columns} FROM n, tasks"
    )
    hand.close()
    with Child(_recovers_many, database) as child:
        pending, grown_megabytes = child.hear()
    assert pending == 150_001
    assert grown_megabytes < 70, "SQLite's page cache is some 35 of it, a list would be 70 more"
