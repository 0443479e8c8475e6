"""The lives that the kill sweep cuts short: each runs in a process of its own and says its acks.

Everything in them is fixed (ids, clock, names), so that two runs of a life write the same rows
and a killed one can be compared with a whole one, row by row.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from outlast import Outlast, PermanentError, Settings, _probe
from outlast.testing import ManualClock
from tests.store.hand import store_of
from tests.support.childside import die, say

SETTINGS = Settings(heal_batch=2)
PATIENCE_SECONDS = 60


class Life(NamedTuple):
    """What happens before (in another process, that is killed), the life, the probes swept.

    From `writes_from` on, each write of a file is a point to be killed at as well.
    """

    before: Callable[[Path], None]
    live: Callable[[Path], None]
    probes: frozenset[str] = frozenset()
    writes_from: str | None = None


def opened(path: Path, days_later: int) -> tuple[Outlast, ManualClock]:
    clock = ManualClock()
    clock.advance(days_later * 86_400)
    return Outlast(path, settings=SETTINGS, clock=clock), clock


def stored(*ids: str) -> None:
    say(["stored", list(ids)])


def ended(task_id: str, status: str) -> None:
    say(["ended", [task_id, status]])


def in_one_group(app: Outlast, first: str, *calls: Callable[[], Any]) -> list[Any]:
    """What each call returned or raised, in their order; they share one transaction.

    An enqueue of `first` is held inside its own transaction until all of them are queued.
    """
    inside, queued = threading.Event(), threading.Event()
    group, armed = store_of(app)._group, _probe._armed

    def hold_the_first(name: str) -> None:
        if armed is not None:
            armed(name)
        if name == "enqueue.begun" and not inside.is_set():
            inside.set()
            queued.wait(PATIENCE_SECONDS)

    _probe.arm(hold_the_first)
    answers: list[Any] = [None] * (len(calls) + 1)
    threads = [answering(answers, 0, lambda: app.enqueue("work", id=first).id)]
    assert inside.wait(PATIENCE_SECONDS)
    for n, call in enumerate(calls, 1):
        threads.append(answering(answers, n, call))
        await_that(lambda n=n: len(group._shared) == n)  # type: ignore[misc]
    queued.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "nobody may hang"
    _probe.arm(armed)
    assert answers[0] == first
    return answers[1:]


def answering(answers: list[Any], n: int, call: Callable[[], Any]) -> threading.Thread:
    def answer() -> None:
        try:
            answers[n] = call()
        except Exception as error:
            answers[n] = error

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    return thread


def await_that(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.0005)


def nothing(path: Path) -> None:
    """The life begins without a file."""


def founded(path: Path) -> None:
    """A store in good order, with the caller's own table in it and some work."""
    app, _ = opened(path, 0)
    app.enqueue_many("work", range(10), id=[f"t-{n}" for n in range(10)])
    with apsw.Connection(str(path)) as connection:
        connection.execute("CREATE TABLE ledger (what TEXT, amount INTEGER)")
    connection.close()
    app.close()


def orphaned(path: Path) -> None:
    """A worker died holding two tasks at work, two prefetched ones and one of those begun."""
    founded(path)
    app, _ = opened(path, 0)
    app.enqueue("work", id="keyed", priority=9, idempotency_key="day-before-yesterday")
    (lease,) = app.claim("gone")
    lease.complete()
    app.claim("gone", limit=2)
    begun, _ = app.prefetch("gone too", limit=2)
    begun.start()
    die()


def half_migrated(path: Path) -> None:
    """The process that made the store died between its second migration and its third."""
    seen = []

    def kill_at_the_second(name: str) -> None:
        seen.append(name)
        if seen.count("migrate.committed") == 2:
            die()

    _probe.arm(kill_at_the_second)
    Outlast(path, clock=ManualClock()).open()


def enqueue(path: Path) -> None:
    app, _ = opened(path, 0)
    stored(app.enqueue("work", {"n": 1}, id="e-1").id)
    stored(*app.enqueue_many("work", [1, 2, 3], id=["e-2", "e-3", "e-4"]))
    stored(app.enqueue("work", id="e-5", group="g", idempotency_key="k-5").id)
    stored(app.enqueue("work", id="e-6", group="g", idempotency_key="k-5").id)
    stored(app.enqueue("work", "x" * 5000, id="e-7").id)
    note = ("INSERT INTO ledger VALUES (?, ?)", ("e-8", 1))
    stored(app.enqueue("work", id="e-8", also=[note]).id)
    stored(app.enqueue("work", id="e-9", delay="1h").id)
    die()


def claim(path: Path) -> None:
    app, clock = opened(path, 0)
    (first,) = app.claim("a")
    for _ in range(2):
        clock.advance("1m")
        first.renew(stage="halfway")
        first.checkpoint("tool_executed", {"at": clock.now().utc_ms}, {"tool": "x"})
    app.heartbeat("a", [first.task_id], {"half": "way"})
    store_of(app).beat("a", [(first.grant, 600_000)], clock.now(), serves='{"queues": []}')
    app.claim("a", limit=2, kinds=["work", "play"])
    waiting, _ = app.prefetch("b", limit=2)
    waiting.start()
    first.session.store.trim_checkpoints(first.task_id, 1, clock.now())
    app.take(2)
    die()


def settle(path: Path) -> None:
    app, _ = opened(path, 0)
    app.enqueue("work", id="keyed", priority=9, idempotency_key="k")
    leases = app.claim("a", limit=9)
    leases[0].complete({"keyed": True})
    ended("keyed", "completed")
    leases[1].complete("y" * 5000)
    ended("t-0", "completed")
    leases[2].complete(2, also=[("INSERT INTO ledger VALUES (?, ?)", ("t-1", 2))])
    ended("t-1", "completed")
    leases[3].fail("try again", delay=5)
    leases[4].fail(PermanentError("never"))
    ended("t-3", "failed")
    leases[5].release()
    leases[6].park("approval")
    app.complete_many([(leases[7], "seven"), (leases[8], "eight")])
    ended("t-6", "completed")
    ended("t-7", "completed")
    app.cancel("t-8")
    ended("t-8", "cancelled")
    app.fail("t-9", "no longer wanted")
    ended("t-9", "failed")
    app.retry("t-9")
    die()


def heal(path: Path) -> None:
    """Two days later: the dead worker's tasks, an old key, then leases of our own that ran out."""
    app, clock = opened(path, 2)
    app.open()
    app.claim("slow", limit=3, lease="10s")
    clock.advance("1m")
    app.heal()
    die()


def keep(path: Path) -> None:
    app, _ = opened(path, 0)
    for mode in ("passive", "full", "restart", "truncate"):
        app.enqueue("work", "z" * 3000, id=f"before {mode}")
        stored(f"before {mode}")
        app.flush_wal(mode)
    app.pause("default")
    app.unpause("default")
    app.park("t-0")
    app.unpark("t-0")
    app.resolve("t-1")
    app.claim("a", limit=2)
    app.prefetch("b", limit=2)
    app.close()
    die()


def in_groups(path: Path) -> None:
    """Two groups of many verbs: one in which nobody errs, and one in which some do."""
    app, _ = opened(path, 0)
    leases = app.claim("a", limit=6)

    def enqueue(task_id: str, **options: Any) -> Callable[[], None]:
        return lambda: stored(app.enqueue("work", id=task_id, **options).id)

    def complete(n: int) -> Callable[[], None]:
        def ending() -> None:
            leases[n].complete(n)
            ended(leases[n].task_id, "completed")

        return ending

    raised = in_one_group(
        app, "first", enqueue("g-1"), complete(0), enqueue("g-2", idempotency_key="k"),
        complete(1), lambda: leases[2].renew(stage="on"), enqueue("g-3", payload="x" * 5000),
        lambda: leases[3].checkpoint("tool_executed", {"n": 3}), enqueue("g-4", group="g"),
    )  # fmt: skip
    assert not [one for one in raised if isinstance(one, Exception)]
    raised = in_one_group(
        app, "second", enqueue("g-5"), enqueue("g-1"), complete(4), enqueue("g-6"),
        enqueue("g-7", payload=1, idempotency_key="k"), complete(5), lambda: app.cancel("t-9"),
        lambda: app.cancel("nobody"),
    )  # fmt: skip
    assert [type(one).__name__ for one in raised if isinstance(one, Exception)] == [
        "InvalidInput", "IdempotencyConflict", "TaskNotFound"
    ]  # fmt: skip
    die()


def finish_and_flush(path: Path) -> None:
    """One completion that touches many tables, then the flush of what it wrote."""
    app, _ = opened(path, 0)
    app.enqueue("work", id="keyed", priority=9, idempotency_key="k")
    (lease,) = app.claim("a")
    lease.complete("y" * 5000, also=[("INSERT INTO ledger VALUES (?, ?)", ("keyed", 2))])
    ended("keyed", "completed")
    app.flush_wal("truncate")
    die()


def migrate(path: Path) -> None:
    app = Outlast(path, clock=ManualClock())
    app.open()
    stored(app.enqueue("work", id="first").id)
    die()


def _each(context: str, *between: str) -> set[str]:
    return {f"{context}.{point}" for point in ("begun", "written", "committed", *between)}


MIGRATING = frozenset({"migrate.statement", "migrate.written", "migrate.committed"})

LIVES = {
    "enqueue": Life(founded, enqueue, frozenset(_each("enqueue", "inserted"))),
    "claim": Life(
        founded,
        claim,
        frozenset(_each("claim", "updated") | _each("renew") | _each("beat") | _each("checkpoint")),
    ),
    "settle": Life(founded, settle, frozenset(_each("settle", "logged", "updated"))),
    "heal": Life(orphaned, heal, frozenset(_each("heal") | _each("purge") | {"settle.updated"})),
    "keep": Life(
        founded,
        keep,
        frozenset(
            {"flush.begun", "flush.counted", "flush.done", "settle.updated", "settle.committed"}
            | _each("pause")
            | _each("park")
            | _each("resolve")
            | _each("close")
        ),
    ),
    "in groups": Life(
        founded,
        in_groups,
        frozenset(_each("group") | {"enqueue.inserted", "settle.logged", "settle.updated"}),
    ),
    "finish and flush": Life(founded, finish_and_flush, writes_from="settle.begun"),
    "migrate": Life(nothing, migrate, MIGRATING),
    "migrate on": Life(half_migrated, migrate, MIGRATING),
}
