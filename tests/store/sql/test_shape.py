"""How much the engine asks of SQLite: as many statements for many tasks as for few."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import Outlast, Settings
from outlast.store.sqlite.statements import sql
from outlast.store.sqlite.transaction import SqliteTransaction
from outlast.testing import ManualClock
from tests.conformance.driver import PATIENCE
from tests.store.hand import Hand, store_of
from tests.store.sql.test_claim_cost import steps_of
from tests.store.sql.test_plans import plan, scans
from tests.store.trace import Trace
from tests.support.children import Child


class Calls:
    """Notes each statement handed to SQLite; a call with many sets of values counts once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._found: Counter[str] | None = None
        self._is_one_call = False
        self._of_this_call: set[str] = set()
        monkeypatch.setattr(apsw, "connection_hooks", [self._hook])
        real = SqliteTransaction.run_many

        def run_many(tx: SqliteTransaction, name: str, values: Iterable[Any]) -> None:
            self._is_one_call, self._of_this_call = True, set()
            real(tx, name, values)
            self._is_one_call = False

        monkeypatch.setattr(SqliteTransaction, "run_many", run_many)

    def _hook(self, connection: apsw.Connection) -> None:
        connection.exec_trace = self._about_to_run

    def _about_to_run(self, cursor: apsw.Cursor, text: str, values: object) -> bool:
        is_known = self._is_one_call and text in self._of_this_call
        if self._found is not None and not is_known:
            self._found[text] += 1
        self._of_this_call.add(text)
        return True

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        found = self._found = Counter()
        try:
            yield found
        finally:
            self._found = None


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """To be asked for before the store is opened."""
    return Calls(monkeypatch)


def batch_acts(app: Outlast, clock: ManualClock) -> dict[str, Callable[[int], object]]:
    """Each act on so many tasks, which are there and of which it is the first to know."""

    def held(size: int) -> list[Any]:
        app.enqueue_many("work", range(size))
        return app.claim("w", limit=size)

    def expired(size: int) -> int:
        held(size)
        clock.advance("10m")
        return size

    return {
        "claim": lambda size: app.enqueue_many("work", range(size)),
        "complete_many": held,
        "complete_many with results": held,
        "heal": expired,
        "prefetch": lambda size: app.enqueue_many("work", range(size)),
    }


def perform(app: Outlast, act: str, prepared: Any, size: int) -> int:
    """Do it; how many tasks it concerned."""
    if act in ("claim", "prefetch"):
        return len(getattr(app, act)("w", limit=size))
    if act == "heal":
        return app.heal().entries_reclaimed
    result = {"n": 1} if act.endswith("results") else None
    return sum(app.complete_many([(lease, result) for lease in prepared]))


@pytest.mark.parametrize(
    "act",
    [
        "claim",
        "prefetch",
        "complete_many",
        pytest.param("heal", marks=pytest.mark.proves("PRF-10")),
    ],
)
def test_a_batch_takes_as_many_statements_for_five_hundred_as_for_ten(
    make_app: Callable[..., Outlast], clock: ManualClock, calls: Calls, act: str
) -> None:
    app = make_app(heal_batch=1000, flush_pages=1_000_000)
    prepare = batch_acts(app, clock)[act]
    assert app.claim("w") == []
    counted = []
    for size in (10, 500):
        prepared = prepare(size)
        with calls.counted() as found:
            assert perform(app, act, prepared, size) == size
        counted.append(found)
        app.complete_many([(lease, None) for lease in app.claim("w", limit=1000)])
    few, many = counted
    assert few == many
    logged = sum(n for text, n in many.items() if "INSERT INTO transitions" in text)
    assert logged == 1, "moves are logged by the set"
    assert 3 <= many.total() < 30


def test_tasks_come_in_by_the_hundred(make_app: Callable[..., Outlast], calls: Calls) -> None:
    """A statement can bind only so many values, so their number grows, a hundred times slower."""
    app = make_app(flush_pages=1_000_000)
    app.open()
    with calls.counted() as found:
        app.enqueue_many("work", range(10_000))
    assert found.total() <= 100 + 10


def test_results_go_in_by_the_hundred(
    make_app: Callable[..., Outlast], calls: Calls, clock: ManualClock
) -> None:
    app = make_app(flush_pages=1_000_000)
    prepared = batch_acts(app, clock)["complete_many with results"](1000)
    with calls.counted() as found:
        assert perform(app, "complete_many with results", prepared, 1000) == 1000
    assert found.total() < 25


def claims_and_waits(path: str, count: int) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue_many("work", range(count))
    say(len(app.claim("w", limit=count)))
    hear()


def statements_to_bury(database: Path, calls: Calls, orphans: int) -> Counter[str]:
    with Child(claims_and_waits, database, orphans) as child:
        assert child.hear() == orphans
        child.kill()
    with calls.counted() as found, Outlast(database) as app:
        assert app.counts()["pending"] == orphans
    # The detector's thread may or may not find a connection free, and open one more.
    return Counter({text: n for text, n in found.items() if not text.startswith("pragma")})


@pytest.mark.proves("PRF-10")
def test_the_dead_are_buried_by_as_many_statements_whatever_they_held(
    tmp_path: Path, calls: Calls
) -> None:
    """The moves too, not only the questions: a killed worker's tasks are put back as a set."""
    few = statements_to_bury(tmp_path / "few.db", calls, 10)
    many = statements_to_bury(tmp_path / "many.db", calls, 499)
    assert not many - few
    # Of as many as a person may read of, it is asked what they were at; by one statement for all.
    ((asked, times),) = (few - many).items()
    assert ("task_checkpoints" in asked, times) == (True, 1)


def test_the_measure_tells_one_call_for_many_from_many_calls(app: Outlast, calls: Calls) -> None:
    app.open()
    with calls.counted() as singly:
        for n in range(8):
            app.enqueue("work", n)
    with calls.counted() as together:
        app.enqueue_many("work", range(8))
    assert singly.total() == 8
    assert together.total() == 1


# Tables of a handful of rows, and the small answer of a query that walked its index.
# The last two are the index of the running ones alone: an explicit heal() asks for its first, and
# walks it if there is one.
SMALL = {
    "SCAN queues", "SCAN locks", "SCAN h", "SCAN s USING INDEX idx_work_items_lease_expiry",
    "SCAN tasks USING COVERING INDEX idx_work_items_lease_expiry",
}  # fmt: skip


@pytest.mark.proves("PRF-08")
def test_whatever_a_busy_store_asks_walks_an_index(
    make_app: Callable[..., Outlast], clock: ManualClock, calls: Calls, blank: Hand
) -> None:
    """Taken from what really runs, so that no new statement slips past a list of hot ones."""
    app = make_app()
    app.enqueue_many("work", range(20))
    app.claim("w", limit=10)
    with calls.counted() as found:
        live_through_everything(app, clock)
    asked = {text for text in found if text.split()[0] not in NO_PLAN}
    slow = {text: scans(plan(blank.connection, text)) for text in asked}
    assert {text: lines for text, lines in slow.items() if set(lines) - SMALL} == {}
    for name in ("claim_tasks", "situations_expired", "checkpoints_of_task", "read_key"):
        assert sql(name) in asked
    assert len(asked) > 20


NO_PLAN = {"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA"}


def live_through_everything(app: Outlast, clock: ManualClock) -> None:
    """What a store does all day: claims narrow and wide, beats, appends, keys, endings, healing."""
    for _ in range(2):
        app.enqueue("work", idempotency_key="key", group="g", delay="1s")
    clock.advance("2s")
    (first,) = app.claim("w", group="g")
    second, third, *_ = app.claim("w", kinds=["work", "other"], limit=5)
    first.renew()
    first.checkpoint("tool_executed", "x" * 3000)
    assert len(app.checkpoints(first.task_id)) == 1
    assert first.complete({"answer": "y" * 3000})
    second.fail("no luck")
    third.release(delay="1s")
    app.wait(first.task_id, timeout=1)
    assert app.get(first.task_id).status == "completed"
    app.cancel(third.task_id)
    clock.advance("10m")
    assert app.heal().entries_reclaimed > 5
    assert app.claim("w", queue="nothing here") == []
    assert app.claim("w", queue="nothing here") == []


def held_store(database: Path, clock: ManualClock, running: int, **settings: Any) -> Outlast:
    """A store with so many leases out, none of them stale, and some work."""
    app = Outlast(database, clock=clock, settings=Settings(flush_pages=1_000_000, **settings))
    app.enqueue_many("work", range(running + 150))
    app.claim("w", limit=running)
    clock.advance("2s")
    return app


@pytest.mark.proves("PRF-07")
def test_a_probe_that_finds_nothing_to_heal_is_one_read_by_index_each(
    tmp_path: Path, clock: ManualClock, trace: Trace
) -> None:
    """One for dead workers, one for leases of this boot, one for those of other boots, one for
    the locks there are; none takes the write lock, and none costs more with five thousand leases
    out than with ten."""
    costs = []
    for running in (10, 5000):
        with held_store(tmp_path / f"{running}.db", clock, running) as app:
            app.claim("w")
            with trace.listening() as ran:
                assert not store_of(app).recovery.is_due(clock.now(), PATIENCE)
            costs.append(steps_of(ran))
            asked = [one.text for one in ran if one.text not in ("BEGIN", "ROLLBACK")]
            assert asked == [sql(name) for name in PROBES]
    assert costs[1] < 1.1 * costs[0]


PROBES = ("living_peers", "situations_expired", "situations_expired_elsewhere", "locks_all")


@pytest.mark.slow
@pytest.mark.proves("PRF-07")
def test_healing_adds_less_than_a_tenth_to_the_claims_of_an_interval(
    tmp_path: Path, clock: ManualClock, trace: Trace
) -> None:
    """Counted in the engine's own steps, which a busy machine cannot stretch."""
    steps = {}
    for heals in (True, False):
        with held_store(tmp_path / f"{heals}.db", clock, 500, heal_at_claim=heals) as app:
            app.claim("w")
            clock.advance("1s")
            with trace.listening() as ran:
                for _ in range(100):
                    clock.advance(0.009)
                    assert len(app.claim("w")) == 1
            steps[heals] = steps_of(ran)
    assert steps[False] < steps[True] < 1.1 * steps[False]


def test_claims_that_find_work_look_for_the_dead_once_in_an_interval(
    make_app: Callable[..., Outlast], clock: ManualClock, calls: Calls
) -> None:
    app = make_app(heal_interval_seconds=3)
    app.enqueue_many("work", range(100))
    app.claim("w")
    for _ in range(3):
        clock.advance("3s")
        probes = []
        for _ in range(5):
            with calls.counted() as found:
                assert len(app.claim("w")) == 1
            probes.append(found[sql("living_peers")])
            clock.advance("0.5s")
        assert probes == [1, 0, 0, 0, 0]


def test_idle_polls_begin_no_transaction_that_writes(
    app: Outlast, clock: ManualClock, calls: Calls
) -> None:
    app.enqueue("work", delay="1h")
    assert app.claim("w") == []
    with calls.counted() as found:
        for _ in range(10):
            clock.advance("1s")
            assert app.claim("w") == []
    assert found["BEGIN"] > 0
    writing = ("IMMEDIATE", "INSERT", "UPDATE", "DELETE", "SAVEPOINT")
    assert not [text for text in found if any(word in text for word in writing)]
