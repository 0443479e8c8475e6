"""Sums that last: whoever moves them on, whatever is removed, nothing is counted twice or lost."""

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import apsw
import pytest

from outlast import Outlast
from outlast.domain.metric_marks import MOST_PAIRS
from outlast.store.ops import metrics
from outlast.store.ops.metrics import FOLD_WORTH
from outlast.store.sqlite import statements
from outlast.testing import ManualClock
from tests.metrics.reading import assert_none_fell, rising, value_of
from tests.store.hand import Hand, store_of

FINISHED = "outlast_tasks_finished_total"


def _a_history(app: Outlast, clock: ManualClock, tasks: int = 12) -> None:
    app.enqueue_many("work", range(tasks + 1))
    app.take(1)
    for round_ in range(3):
        clock.advance(round_ + 0.5)
        leases = app.claim("w", limit=tasks // 4, lease=30)
        clock.advance(0.2)
        app.complete_many([(lease, None) for lease in leases[1:]])
        leases[0].fail("once more", delay=0)
    app.claim("w", lease=1)
    clock.advance(60)
    app.heal()


def test_sums_say_the_same_as_the_rows_they_were_made_of(app: Outlast, clock: ManualClock) -> None:
    _a_history(app, clock)
    before = app.metrics()
    assert store_of(app).metrics.fold(1) > 20
    assert rising(app.metrics()) == rising(before)
    assert store_of(app).metrics.fold(1) == 0, "and nothing is left"
    done = value_of(before, FINISHED, outcome="completed")
    app.enqueue("later")
    app.claim("w", kinds=["later"])[0].complete()
    assert value_of(app.metrics(), FINISHED, outcome="completed") == done + 1, "once, and no more"


def test_sums_in_many_steps_are_the_same_as_in_one(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _a_history(app, clock)
    before = app.metrics()
    monkeypatch.setattr(metrics, "FOLDED_AT_ONCE", 3)
    store_of(app).metrics.fold(1)
    assert rising(app.metrics()) == rising(before)


def test_who_stops_the_detector_waits_for_one_step_of_summing_up(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _a_history(app, clock)
    monkeypatch.setattr(metrics, "FOLDED_AT_ONCE", 3)
    goes_on = iter([True, False])
    assert store_of(app).metrics.fold(1, lambda: next(goes_on)) == 3


@pytest.mark.proves("OBS-10")
def test_counters_do_not_fall_when_tasks_and_events_are_removed(
    app: Outlast, clock: ManualClock
) -> None:
    """Nobody summed up before, and it is plain SQL that removes: the database itself sees to it."""
    _a_history(app, clock)
    before = app.metrics()
    with closing(Hand(app.path)) as hand:
        assert hand.run("DELETE FROM tasks WHERE status = 'completed'") == 6
        assert hand.run("DELETE FROM tasks") > 0
        assert hand.run("DELETE FROM events") > 0
    after = app.metrics()
    assert rising(after) == rising(before)
    assert value_of(after, "outlast_tasks") == 0, "those that rest are gone"
    app.enqueue("work")
    app.claim("w")[0].complete()
    assert value_of(app.metrics(), FINISHED, outcome="completed") == 7


def test_events_that_are_removed_alone_stay_counted(app: Outlast) -> None:
    app.enqueue_many("work", range(2))
    app.take(1)
    before = app.metrics()
    with closing(Hand(app.path)) as hand:
        assert hand.run("DELETE FROM events") > 1
    assert rising(app.metrics()) == rising(before)
    assert value_of(before, FINISHED, outcome="taken") == 1


def test_a_removed_group_takes_its_tasks_along_and_they_stay_counted(app: Outlast) -> None:
    app.enqueue("work", group="g")
    app.claim("w")[0].complete()
    with closing(Hand(app.path)) as hand:
        assert hand.run("DELETE FROM groups") == 1
        assert hand.value("SELECT count(*) FROM tasks") == 0
    assert value_of(app.metrics(), FINISHED, outcome="completed") == 1


@pytest.mark.proves("OBS-10")
def test_counters_do_not_fall_over_restarts(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    last: dict[str, Any] = {}
    for _ in range(3):
        app = make_app()
        _a_history(app, clock)
        found = app.metrics()
        assert_none_fell(last, found)
        app.close()
        assert_none_fell(found, make_app().metrics())
        last = found


def test_two_that_sum_up_at_once_count_everything_once(app: Outlast, clock: ManualClock) -> None:
    """Both have read the same rest; the second finds that its place is taken."""
    _a_history(app, clock)
    before, store = app.metrics(), store_of(app)
    read = store.engine.read("measuring", lambda tx: metrics.rest(tx, 1000))
    assert read is not None
    assert store.tasks._access.write("fold", lambda tx: metrics.fold(tx, read))
    assert not store.tasks._access.write("fold", lambda tx: metrics.fold(tx, read))
    assert rising(app.metrics()) == rising(before)


def test_threads_that_sum_up_while_others_work_agree_with_the_rows(app: Outlast) -> None:
    app.enqueue_many("work", range(300))
    store, is_over = store_of(app), threading.Event()

    def sum_up() -> None:
        while not is_over.is_set():
            store.metrics.fold(1)

    threads = [threading.Thread(target=sum_up) for _ in range(3)]
    for thread in threads:
        thread.start()
    while leases := app.claim("w", limit=10):
        app.complete_many([(lease, None) for lease in leases])
    is_over.set()
    for thread in threads:
        thread.join(60)
    assert value_of(app.metrics(), FINISHED, outcome="completed") == 300


def test_the_sums_move_on_when_the_detector_looks_and_when_a_process_leaves(
    make_app: Callable[..., Outlast],
) -> None:
    app = make_app(detection_interval_seconds=600)
    _work_on(app, FOLD_WORTH // 2)
    detector = app._handle._maintenance
    assert detector is not None
    assert _folded(app) == 0
    detector.tick()
    assert _folded(app) >= FOLD_WORTH
    _work_on(app, FOLD_WORTH // 2)
    app.close()
    assert _folded(app) >= 2 * FOLD_WORTH


def _work_on(app: Outlast, tasks: int) -> None:
    app.enqueue_many("work", range(tasks))
    while leases := app.claim("w", limit=1000):
        app.complete_many([(lease, None) for lease in leases])


def _folded(app: Outlast) -> int:
    with closing(Hand(app.path)) as hand:
        return int(hand.value("SELECT value FROM counters WHERE name = 'metrics_folded'"))


def test_looking_writes_nothing(app: Outlast, clock: ManualClock) -> None:
    _a_history(app, clock)
    app.close()
    folded = _folded(app)
    looking = Outlast(app.path, clock=clock)
    assert value_of(looking.metrics(), FINISHED) > 0
    looking.close()
    assert _folded(app) == folded


@pytest.mark.parametrize("is_folded", [False, True])
def test_the_first_pairs_have_series_of_their_own_and_the_others_share_one(
    app: Outlast, is_folded: bool
) -> None:
    """However many names are used: the number of series is bounded, and no count is lost."""
    pairs = MOST_PAIRS + 20
    for n in range(pairs):
        app.enqueue(f"kind-{n}", priority=-n)
    app.complete_many([(lease, None) for lease in app.claim("w", limit=pairs)])
    app.enqueue("never seen before")
    if is_folded:
        store_of(app).metrics.fold(1)
    found = app.metrics()
    samples = found[FINISHED]["samples"]
    assert len(samples) <= MOST_PAIRS + 1
    assert value_of(found, FINISHED) == pairs
    assert value_of(found, FINISHED, kind="kind-0") == 1
    assert value_of(found, FINISHED, kind="other") >= 20
    assert value_of(found, "outlast_tasks", kind="other", status="pending") == 1
    before = rising(found)
    app.enqueue(f"kind-{pairs - 1}")
    app.claim("w", kinds=[f"kind-{pairs - 1}"])[0].complete()
    later = rising(app.metrics())
    assert all(later[key] >= value for key, value in before.items())


ROWS = 100_000


@pytest.fixture
def large(app: Outlast) -> Outlast:
    """A hundred thousand finished tasks with their moves, all summed up, and a few unfinished."""
    app.enqueue("work", id="model")
    app.claim("w")[0].complete()
    with closing(Hand(app.path)) as hand:
        hand.run(
            "WITH RECURSIVE numbers AS (SELECT 1 AS value UNION ALL"
            " SELECT value + 1 FROM numbers WHERE value < ?)"
            " INSERT INTO tasks (id, status, queue, kind, token, attempt, created_at, started_at,"
            " state_changed_at, completed_at, payload_sum)"
            " SELECT 'x' || value, status, queue, kind, token, attempt, created_at, started_at,"
            " state_changed_at, completed_at, 0 FROM numbers, tasks"
            " WHERE id = 'model'",
            ROWS,
        )
        for move in ("running", "completed"):
            hand.run(
                "INSERT INTO transitions (task_seq, from_status, to_status, actor, reason, attempt,"
                " token, at)"
                " SELECT t.seq, x.from_status, x.to_status, x.actor, x.reason, 1, 1, x.at"
                " FROM tasks t, transitions x"
                " WHERE t.seq > 1 AND x.task_seq = 1 AND x.to_status = ?",
                move,
            )
    store_of(app).metrics.fold(1)
    app.enqueue_many("work", range(10))
    app.claim("w", limit=3)
    return app


@pytest.mark.proves("OBS-10")
def test_a_scrape_of_a_long_history_reads_none_of_it(
    large: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in rows that SQLite steps over, which no busy machine changes."""
    ran: list[str] = []
    known = statements.sql

    def noted(name: str) -> str:
        ran.append(name)
        return known(name)

    monkeypatch.setattr("outlast.store.sqlite.transaction.sql", noted)
    found = large.metrics()
    assert value_of(found, FINISHED, outcome="completed") == ROWS + 1
    assert len(ran) <= 20
    with closing(Hand(large.path)) as hand:
        for name in sorted(set(ran)):
            steps = _rows_stepped_over(hand.connection, known(name))
            assert steps < 1000, f"{name} walks over {steps} rows"


def _rows_stepped_over(connection: apsw.Connection, text: str) -> int:
    """Full scans and automatic indexes of a statement, by SQLite's own count, plus its steps."""
    folded = connection.execute("SELECT value FROM counters WHERE name = 'metrics_folded'").get
    values = {"now": 1 << 60, "folded": folded, "upto": 1 << 60, "name": None}
    counted: dict[str, int] = {}

    def note(event: dict[str, int]) -> None:
        counted["steps"] = event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]  # type: ignore[index]
        counted["steps"] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"] // 20  # type: ignore[index]

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    connection.execute(text, values).fetchall()
    connection.trace_v2(0, None)
    return counted["steps"]
