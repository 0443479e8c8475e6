"""The lives that experiments cut short: fixed sequences of all that Outlast does to its files.

Everything in them is fixed (ids, clock, names), so that two runs of a life write the same rows
and a broken one can be compared with a whole one. They are driven through a `Witness` and go on
after any of its calls was refused.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw

from outlast.app.app import Outlast
from outlast.app.lease import Lease
from outlast.errors import PermanentError
from outlast.settings import Settings
from outlast_lab.inside import store_of
from outlast_lab.judge.lock_rules import Locker
from outlast_lab.judge.subscriber_rules import Listening
from outlast_lab.record import newer
from outlast_lab.record.grouping import in_one_group
from outlast_lab.record.history import KILLED, Write, host_seconds
from outlast_lab.record.measuring import count_and_trace
from outlast_lab.record.recorder import Witness
from outlast_lab.record.set_clock import SetClock

# The detector looks when it is called, and not when it likes: two runs must write the same.
SETTINGS = Settings(heal_batch=2, detection_interval_seconds=0)


newer.play()


class Life(NamedTuple):
    """What happens before, the life itself, and the probes at which the kill sweep ends it.

    `before` makes the store, in a process of its own that is killed when it returns, if it does.
    From `writes_from` on, each write of a file is a point to be killed at as well. One that
    `converges` is nothing but a recovery: killed and lived again, it ends as if nobody had been.
    """

    before: Callable[[Path, Write], None]
    live: Callable[[Path, Write], None]
    probes: frozenset[str] = frozenset()
    writes_from: str | None = None
    converges: bool = False


def opened(
    path: Path, write: Write, days_later: int = 0, settings: Settings = SETTINGS
) -> tuple[Witness, SetClock]:
    """The store in the hands of worker a; its opening is a call of its own, which recovers."""
    clock = SetClock(days_later)
    app = Outlast(path, settings=settings, clock=clock)
    one = Witness(app, "a", write, clock)
    one.open()
    return one, clock


def nth(leases: list[Lease], number: int) -> Lease | None:
    """A lease, or None when fewer were handed out."""
    return leases[number] if number < len(leases) else None


# What was before


def nothing(path: Path, write: Write) -> None:
    """The life begins without a file."""


def founded(path: Path, write: Write) -> None:
    """A store in good order, with the caller's own table in it and some work."""
    one, _ = opened(path, write)
    one.enqueue_many([f"t-{n}" for n in range(10)], list(range(10)))
    with apsw.Connection(str(path)) as connection:
        connection.execute("CREATE TABLE ledger (what TEXT, amount INTEGER)")
    connection.close()
    one.app.close()


def begun(path: Path, write: Write) -> None:
    """A store in good order with one task in it."""
    one, _ = opened(path, write)
    one.enqueue("t-0")
    one.app.close()


def orphaned(path: Path, write: Write) -> None:
    """A worker died holding two tasks at work, two prefetched ones and one of those begun."""
    founded(path, write)
    one, _ = opened(path, write)
    one.enqueue("keyed", priority=9, idempotency_key="day-before-yesterday")
    gone, too = one.named("gone"), one.named("gone too")
    gone.complete(nth(gone.claim(), 0))
    gone.claim(limit=2)
    too.start(nth(too.prefetch(limit=2), 0))
    for name in ("gone", "gone too"):
        write([KILLED, name, host_seconds()])


def locked(path: Path, write: Write) -> None:
    """A worker died holding a lock that would last for long, and one that goes with a task."""
    founded(path, write)
    one, _ = opened(path, write)
    gone = Locker(one.named("gone"))
    gone.acquire("left behind", "30d")
    gone.next_task("at work")
    write([KILLED, "gone", host_seconds()])


def of_an_older_library(path: Path, write: Write) -> None:
    """A store in good order that lacks the migration of the Outlast that opens it next."""
    founded(path, write)
    newer.mark(path)


# The lives


def enqueue(path: Path, write: Write) -> None:
    """Singly, in bulk, keyed, large, together with a row of the caller's, delayed."""
    one, _ = opened(path, write)
    one.enqueue("e-1", {"n": 1})
    one.enqueue_many(["e-2", "e-3", "e-4"], [1, 2, 3])
    one.enqueue("e-5", group="g", idempotency_key="k-5")
    one.enqueue("e-6", group="g", idempotency_key="k-5")
    one.enqueue("e-7", "x" * 5000)
    one.enqueue("e-8", also=[("INSERT INTO ledger VALUES (?, ?)", ("e-8", 1))])
    one.enqueue("e-9", delay="1h")


def claim(path: Path, write: Write) -> None:
    """Claims, renewals, beats, checkpoints, prefetches and the lossy take."""
    one, clock = opened(path, write)
    first = nth(one.claim(), 0)
    for _ in range(2):
        clock.advance("1m")
        one.renew(first, stage="halfway")
        one.checkpoint(first, "tool_executed", {"at": clock.now().utc_ms}, {"tool": "x"})
    if first is not None:
        one.heartbeat([first.task_id], {"half": "way"})
        grants = [(first.grant, 600_000)]
        one.call(
            "beat",
            {},
            lambda: store_of(one.app).workers.beat("a", grants, clock.now(), serves="{}"),
        )
    one.claim(limit=2, kinds=["work", "play"])
    other = one.named("b")
    other.start(nth(other.prefetch(limit=2), 0))
    if first is not None:
        one.trim_checkpoints(first.task_id, 1)
    one.take(2)


def settle(path: Path, write: Write) -> None:
    """Every way a task can end, or go back."""
    one, _ = opened(path, write)
    one.enqueue("keyed", priority=9, idempotency_key="k")
    leases = one.claim(limit=9)
    one.complete(nth(leases, 0), {"keyed": True})
    one.complete(nth(leases, 1), "y" * 5000)
    one.complete(nth(leases, 2), 2, [("INSERT INTO ledger VALUES (?, ?)", ("t-1", 2))])
    one.fail(nth(leases, 3), "try again", delay=5)
    one.fail(nth(leases, 4), PermanentError("never"))
    one.release(nth(leases, 5))
    one.park(nth(leases, 6), "approval")
    one.complete_many([(lease, lease.task_id) for lease in leases[7:9]])
    one.cancel("t-8")
    one.fail_task("t-9", "no longer wanted")
    one.retry("t-9")


def heal(path: Path, write: Write) -> None:
    """Two days later: the dead worker's tasks, an old key, then leases of our own that ran out."""
    one, clock = opened(path, write, 2)
    one.named("slow").claim(limit=3, lease="10s")
    clock.advance("1m")
    one.heal()


def keep(path: Path, write: Write) -> None:
    """Flushes of each kind, pauses, parking, sums and traces, a clean leave with leases out."""
    one, _ = opened(path, write)
    for mode in ("passive", "full", "restart", "truncate"):
        one.enqueue(f"before {mode}", "z" * 3000)
        one.flush(mode)
    one.pause("default")
    one.unpause("default")
    one.park_task("t-0")
    one.unpark_task("t-0")
    one.resolve("t-1")
    count_and_trace(one)
    one.claim(limit=2)
    one.named("b").prefetch(limit=2)
    one.close()


def in_groups(path: Path, write: Write) -> None:
    """Two groups of many verbs: one in which nobody errs, and one in which some do."""
    one, _ = opened(path, write)
    leases = one.claim(limit=6)
    in_one_group(
        one, "first",
        lambda: one.enqueue("g-1"),
        lambda: one.complete(nth(leases, 0), 0),
        lambda: one.enqueue("g-2", idempotency_key="k"),
        lambda: one.complete(nth(leases, 1), 1),
        lambda: one.renew(nth(leases, 2), stage="on"),
        lambda: one.enqueue("g-3", payload="x" * 5000),
        lambda: one.checkpoint(nth(leases, 3), "tool_executed", {"n": 3}),
        lambda: one.enqueue("g-4", group="g"),
    )  # fmt: skip
    in_one_group(
        one, "second",
        lambda: one.enqueue("g-5"),
        lambda: one.enqueue("g-1"),
        lambda: one.complete(nth(leases, 4), 4),
        lambda: one.enqueue("g-6"),
        lambda: one.enqueue("g-7", payload=1, idempotency_key="k"),
        lambda: one.complete(nth(leases, 5), 5),
        lambda: one.cancel("t-9"),
        lambda: one.cancel("nobody"),
    )  # fmt: skip


def locks(path: Path, write: Write) -> None:
    """Every way a lock changes hands: taken, refused, renewed, over, left behind, with a task."""
    one, clock = opened(path, write, 2)
    first, second = Locker(one), Locker(one.named("b"))
    kept = first.acquire("left behind", "1h")
    first.extend(kept, "10s")
    clock.advance("1m")
    second.acquire("left behind", "1h")
    first.release(kept)
    late = first.acquire("x", "10s")
    clock.advance("10s")
    second.acquire("x", "1h")
    first.extend(late, "1h")
    first.release(late)
    first.acquire("x", "1h")
    second.free("x")
    first.acquire("x", "1h")
    one.complete(first.next_task("at work"), 1)
    second.next_task("at work")
    first.next_task("at work")
    second.acquire("short", "10s")
    clock.advance("1m")
    one.heal()
    one.close()


def subscribe(path: Path, write: Write) -> None:
    """A named subscriber hears of everything, comes back, is another one, and is forgotten."""
    one, clock = opened(path, write)
    one.enqueue("e-1")
    first = Listening(one, "audit")
    first.hear()
    one.enqueue_many(["e-2", "e-3"], [2, 3])
    leases = one.claim(limit=3)
    one.complete(nth(leases, 0), 1)
    one.fail(nth(leases, 1), "try again", delay=5)
    Listening(one.named("b"), "audit").hear()
    one.take(1)
    one.pause("default")
    clock.advance("1m")
    first.hear()
    one.call("unsubscribe", {"name": "audit"}, lambda: one.app.unsubscribe("audit"))
    one.close()


def finish_and_flush(path: Path, write: Write) -> None:
    """One completion that touches many tables, then the flush of what it wrote."""
    one, _ = opened(path, write)
    one.enqueue("keyed", priority=9, idempotency_key="k")
    also = [("INSERT INTO ledger VALUES (?, ?)", ("keyed", 2))]
    one.complete(nth(one.claim(), 0), "y" * 5000, also)
    one.flush("truncate")


def migrate(path: Path, write: Write) -> None:
    """The first opening, which makes the tables, and the first task."""
    app = Outlast(path, clock=SetClock())
    one = Witness(app, "a", write, SetClock())
    one.open()
    one.enqueue("first")


def each_of(context: str, *between: str) -> set[str]:
    """The probes of a transaction."""
    return {f"{context}.{point}" for point in ("begun", "written", "committed", *between)}


MIGRATING = frozenset({"migrate.statement", "migrate.written", "migrate.committed"})

LIVES = {
    "enqueue": Life(founded, enqueue, frozenset(each_of("enqueue", "inserted"))),
    "claim": Life(
        founded,
        claim,
        frozenset(
            each_of("claim", "updated") | each_of("renew") | each_of("beat") | each_of("checkpoint")
        ),
    ),
    "settle": Life(founded, settle, frozenset(each_of("settle", "logged", "updated"))),
    "heal": Life(
        orphaned,
        heal,
        frozenset(each_of("recover") | each_of("heal") | each_of("purge") | {"settle.updated"}),
    ),
    "keep": Life(
        founded,
        keep,
        frozenset(
            {"flush.begun", "flush.counted", "flush.done", "settle.updated", "settle.committed"}
            | each_of("pause")
            | each_of("park")
            | each_of("resolve")
            | each_of("fold")
            | each_of("trace")
            | each_of("close")
        ),
    ),
    "in groups": Life(
        founded,
        in_groups,
        frozenset(each_of("group") | {"enqueue.inserted", "settle.logged", "settle.updated"}),
    ),
    "locks": Life(
        locked, locks, frozenset(each_of("lock") | {"claim.committed", "heal.committed"})
    ),
    "subscribe": Life(
        begun,
        subscribe,
        frozenset(each_of("cursor") | {"subscriber.telling", "subscriber.told"}),
    ),
    "finish and flush": Life(founded, finish_and_flush, writes_from="settle.begun"),
    "migrate": Life(nothing, migrate, MIGRATING),
    "migrate on": Life(of_an_older_library, migrate, MIGRATING),
}
