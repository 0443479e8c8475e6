"""The lives that the kill sweep cuts short: each runs in a process of its own and says its acks.

Everything in them is fixed (ids, clock, names), so that two runs of a life write the same rows
and a killed one can be compared with a whole one, row by row.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw

from outlast import Outlast, PermanentError, Settings, _probe
from outlast.testing import ManualClock
from tests.support.childside import die, say

SETTINGS = Settings(heal_batch=2)


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
        founded, claim, frozenset(_each("claim", "updated") | _each("renew") | _each("checkpoint"))
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
    "finish and flush": Life(founded, finish_and_flush, writes_from="settle.begun"),
    "migrate": Life(nothing, migrate, MIGRATING),
    "migrate on": Life(half_migrated, migrate, MIGRATING),
}
