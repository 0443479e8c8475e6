"""Many threads, one store: opening, closing, claiming and waiting get in nobody's way."""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import InvalidInput, Outlast, OutlastError, Settings, StoreError, usual_recovery
from outlast.app import claim
from outlast.clock import Instant
from outlast.store.records import FlushResult
from outlast.store.session import Session
from outlast.store.store import Store
from outlast.testing import ManualClock
from tests.support.foreign import assert_sound, foreign_rows, foreign_statuses

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 60


def run_together(*actions: Callable[[], object]) -> list[object]:
    """Each action in a thread of its own; what they returned or raised, in their order."""
    answers: list[object] = [None] * len(actions)
    barrier = threading.Barrier(len(actions))

    def run(n: int) -> None:
        barrier.wait(PATIENCE_SECONDS)
        try:
            answers[n] = actions[n]()
        except BaseException as error:
            answers[n] = error

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "nobody may hang"
    return answers


def test_a_first_look_beside_a_first_opening_to_serve_drops_nobodys_session(
    database: Path, clock: ManualClock
) -> None:
    with Outlast(database, clock=clock) as first:
        first.enqueue("work", id="t")
    recovering, looked = threading.Event(), threading.Event()

    def slow_recovery(session: Session) -> None:
        recovering.set()
        looked.wait(0.3)
        usual_recovery(session)

    app = Outlast(database, clock=clock, recovery=slow_recovery)

    def look() -> dict[str, int]:
        recovering.wait(PATIENCE_SECONDS)
        try:
            return app.counts()
        finally:
            looked.set()

    (leases, counts) = run_together(lambda: app.claim("w"), look)
    assert isinstance(counts, dict)
    assert isinstance(leases, list)
    assert leases[0].complete(), "the session it was handed out by still stands"
    app.close()
    assert foreign_rows(database, "SELECT state FROM workers") == [["left"]]


def test_first_looks_at_the_same_moment_share_one_opening(
    make_app: Callable[..., Outlast],
) -> None:
    app = make_app()
    app.enqueue("work", id="t")
    app.close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        answers = run_together(*[app.counts] * 4)
        assert all(isinstance(answer, dict) for answer in answers), answers
        app.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_closing_while_others_write_ends_each_write_with_an_answer(
    app: Outlast, database: Path
) -> None:
    """Whoever writes next opens anew; what was acknowledged is there, whoever closed meanwhile."""
    app.open()
    stop = threading.Event()
    acknowledged: list[str] = []

    def write(name: str) -> None:
        for n in range(60):
            try:
                acknowledged.append(app.enqueue("work", id=f"{name}{n}").id)
            except OutlastError:
                continue

    def close_again_and_again() -> None:
        while not stop.is_set():
            app.close()
            stop.wait(0.003)

    def write_all() -> list[object]:
        try:
            return run_together(*[lambda name=name: write(name) for name in "abc"])
        finally:
            stop.set()

    answers, closed = run_together(write_all, close_again_and_again)
    assert (answers, closed) == ([None] * 3, None)
    app.close()
    assert acknowledged
    assert set(acknowledged) <= set(foreign_statuses(database))
    assert_sound(database)


def test_a_write_that_comes_after_the_closing_touches_no_descriptor(
    app: Outlast, tmp_path: Path
) -> None:
    """The number it once had for the gate may be another store's sign of life by now."""
    app.enqueue("work", id="t")
    store = app._handle.serve().store
    app.close()
    others = [os.open(tmp_path / f"other {n}", os.O_RDWR | os.O_CREAT) for n in range(30)]
    try:
        for descriptor in others:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="closed; open it again"):
            store.queues.pause("q", app._handle.now())
        for n in range(30):
            asking = os.open(tmp_path / f"other {n}", os.O_RDWR)
            with pytest.raises(BlockingIOError):
                fcntl.flock(asking, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.close(asking)
    finally:
        for descriptor in others:
            os.close(descriptor)


def test_a_claim_beside_a_close_leaves_no_running_task_behind(app: Outlast, database: Path) -> None:
    app.enqueue_many("work", range(100))
    for _ in range(15):
        claimed, closed = run_together(lambda: app.claim("w", limit=3), app.close)
        assert closed is None
        assert isinstance(claimed, list | OutlastError), claimed
        app.close()
        held = "SELECT t.id FROM tasks t JOIN workers w ON w.seq = t.holder WHERE w.state = 'left'"
        assert foreign_rows(database, held) == []
    assert set(foreign_statuses(database).values()) == {"pending"}


def test_a_claim_in_the_moment_of_leaving_is_refused(
    app: Outlast, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has signed off; a task claimed under its name now would belong to nobody."""
    app.enqueue_many("work", range(2))
    app.claim("w")
    session = app._handle.serve()
    request = claim.request_for("w", 1, "default", kinds=None, group=None)
    refusals: list[str] = []
    real = Store.flush_wal

    def claim_first(self: Store, mode: str) -> FlushResult:
        with pytest.raises(StoreError) as caught:
            claim.claim(session, request, None)
        refusals.append(str(caught.value))
        return real(self, mode)

    monkeypatch.setattr(Store, "flush_wal", claim_first)
    app.close()
    assert refusals == ["this store is being closed; open it again"]
    assert set(foreign_statuses(database).values()) == {"pending"}


class NoticedClock(ManualClock):
    """Says when somebody has asked for the time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def now(self) -> Instant:
        moment = super().now()
        self.asked.set()
        return moment


@contextmanager
def _write_lock_held(database: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(database))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    finally:
        connection.close()


@pytest.mark.parametrize("verb", ["claim", "renew"])
def test_a_lease_begins_only_once_the_write_lock_is_ours(database: Path, verb: str) -> None:
    """Time spent waiting is not taken off: the lease might be over when it is handed out."""
    clock = NoticedClock()
    app = Outlast(database, clock=clock, settings=Settings(heal_at_claim=False, stall_seconds=30))
    app.enqueue("work", id="t")
    leases = app.claim("w", lease="10s") if verb == "renew" else []
    act: Callable[[], Any] = leases[0].renew if leases else lambda: app.claim("w", lease="10s")
    with _write_lock_held(database) as holder:
        clock.asked.clear()
        thread = threading.Thread(target=act)
        thread.start()
        assert clock.asked.wait(PATIENCE_SECONDS)
        clock.advance("9s")
        holder.execute("ROLLBACK")
        thread.join(PATIENCE_SECONDS)
    expires_at = app.get("t").lease_expires_at
    assert expires_at is not None
    assert expires_at.timestamp() * 1000 == clock.now().utc_ms + 10_000
    app.close()


def test_a_renewal_never_shortens_a_lease(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t")
    (lease,) = app.claim("w", lease="10m")
    before = app.get("t").lease_expires_at
    clock.step_utc(-3600)
    lease.renew()
    assert app.get("t").lease_expires_at == before
    assert lease.session.store.leases.renew([lease.grant], clock.now(), 1000) == [True]
    clock.advance("9m")
    assert app.heal().entries_reclaimed == 0
    clock.advance("1m")
    assert app.heal().entries_reclaimed == 1


def test_objects_that_want_different_durability_cannot_share_a_file(
    make_app: Callable[..., Outlast],
) -> None:
    make_app(synchronous="normal").open()
    with pytest.raises(InvalidInput, match="open in this process with synchronous='normal'"):
        make_app().open()
    make_app(synchronous="normal").enqueue("work")


@pytest.mark.parametrize(
    "run_at",
    [datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))), datetime(2900, 1, 1, tzinfo=UTC)],
)
def test_a_moment_too_far_away_is_refused_before_anything_is_made(
    app: Outlast, tmp_path: Path, run_at: datetime
) -> None:
    """Stored, it could not be read back, and the listing it stands in could not either."""
    with pytest.raises(InvalidInput, match="run_at must be within a hundred years"):
        app.enqueue("work", run_at=run_at)
    assert os.listdir(tmp_path) == []


def test_the_same_id_with_the_same_key_is_the_same_task_from_any_thread(app: Outlast) -> None:
    app.open()
    answers = run_together(*[lambda: app.enqueue("work", 1, id="x", idempotency_key="k").id] * 4)
    assert answers == ["x"] * 4
    assert app.counts()["pending"] == 1


def test_retrying_takes_over_the_key_so_that_no_third_task_is_made(app: Outlast) -> None:
    app.enqueue("work", 1, id="x", idempotency_key="k")
    (lease,) = app.claim("w")
    lease.fail("broken", retry=False)
    clone = app.retry("x")
    assert app.enqueue("work", 1, idempotency_key="k").id == clone.id
    assert [key.task_id for key in app.keys(clone.id)] == [clone.id]
    (lease,) = app.claim("w")
    assert lease.complete("at last")
    answer = app.enqueue("work", 1, idempotency_key="k")
    assert (answer.id, answer.result) == (clone.id, "at last")
    assert app.counts() == {
        "pending": 0, "running": 0, "completed": 1, "failed": 1, "cancelled": 0,
    }  # fmt: skip
