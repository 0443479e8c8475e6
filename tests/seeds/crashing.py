"""What the seeds' tests kill: processes that hold tasks, and a store left behind by one of them."""

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from outlast import Lease, LockHeld, Outlast, Settings
from outlast.host import probe_points
from outlast.testing import ManualClock
from tests.store.hand import Hand
from tests.support.children import Child

Say = Callable[..., None]

POISON = "poison"


def claims_and_waits(
    path: str, worker: str, limit: int, clock_ms: list[int] | None = None, lock: str | None = None
) -> None:
    """For a child: it holds tasks until it is killed, perhaps a lock too, at a time of its own."""
    from outlast import Outlast, Settings
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    # One that lives on would take back what another held before the test does.
    alone = Settings(detection_interval_seconds=0)
    app = Outlast(path, settings=alone, clock=ManualClock(*clock_ms) if clock_ms else None)
    leases = app.claim(worker, limit=limit)
    if lock:
        assert app.lock(lock, ttl="1h", holder=worker).acquire()
    say([lease.task_id for lease in leases])
    while (at := hear()) is not None:
        say(leases[at].complete())


def crash(
    database: Path,
    worker: str = "crashed",
    limit: int = 100,
    clock: ManualClock | None = None,
    lock: str | None = None,
) -> list[str]:
    """A process claims as much and is killed, perhaps at the test's own time; what it held.

    A lock that it took is to last for an hour.
    """
    at = None if clock is None else list(clock.now())
    with Child(claims_and_waits, database, worker, limit, at, lock) as child:
        held: list[str] = child.hear()
        child.kill()
    return held


def copy_of(crashed: Path, folder: Path) -> Path:
    """The same crash once more: the files of a store that nobody has open."""
    copied = folder / "copy"
    shutil.copytree(crashed.parent, copied, ignore=shutil.ignore_patterns("bell"))
    return copied / crashed.name


def moved_to_another_host(database: Path, worker: str) -> None:
    """The worker of this name, and what it holds, is from now on none of this host's."""
    with closing(Hand(database)) as hand:
        hand.run(
            "UPDATE workers SET incarnation = 'far-' || name, host = 'far', boot_id = 'another',"
            " lock_file = 'none' WHERE name = ?",
            worker,
        )


def markers(database: Path) -> list[Path]:
    """The session markers beside a store."""
    return sorted((database.parent / f"{database.name}-outlast" / "sessions").iterdir())


# For processes of the forge


def works_until_killed(say: Say, path: str) -> None:
    """One life: recover by opening, finish the first good task, hold the others, say so, wait."""
    app = Outlast(path)
    app.open()
    say("open")
    leases = app.claim("cycling", limit=4)
    good = next((lease for lease in leases if lease.kind != POISON), None)
    if good is not None:
        good.complete({"by": os.getpid()})
    say([lease.task_id for lease in leases])
    signal.pause()


def dies_at_a_probe(say: Say, path: str, prefix: str, nth: str) -> None:
    """Killed at the nth probe whose name begins so, while it opens the store."""
    passed: list[str] = []

    def count(name: str) -> None:
        if name.startswith(prefix):
            passed.append(name)
            if len(passed) == int(nth):
                os.kill(os.getpid(), signal.SIGKILL)

    probe_points.arm(count)
    app = Outlast(path)
    app.open()
    probe_points.arm(None)
    app.close()
    say(len(passed))


def claims_when_told(say: Say, path: str) -> None:
    """Opens before the crash, and at a signal claims as all the others do; what it got."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    # Else a detector takes back what the dead one held before the signal for all comes.
    app = Outlast(path, settings=Settings(detection_interval_seconds=0)).open()
    say("open")
    signal.sigwait({signal.SIGUSR1})
    healed = app.heal() if os.getpid() % 2 else None
    put_back = 0 if healed is None else healed.entries_reclaimed
    claimed = [lease.task_id for lease in app.claim("healer", limit=100)]
    say({"put_back": put_back, "claimed": claimed})
    signal.pause()


def works_under_the_lock(say: Say, path: str) -> None:
    """At a signal one try for a task with its lock; at the next one, turns until none is left."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    app = Outlast(path, settings=Settings(detection_interval_seconds=0)).open()
    say("open")
    signal.sigwait({signal.SIGUSR1})
    lease = _turn(app, wait_seconds=0)
    say("locked" if lease is None else [lease.task_id, lease.attempt])
    signal.sigwait({signal.SIGUSR1})
    done = 0
    while lease is not None or app.counts()["pending"]:
        if lease is not None:
            done += lease.complete()
        lease = _turn(app, wait_seconds=0.2)
    app.close()
    say(done)


def _turn(app: Outlast, wait_seconds: float) -> Lease | None:
    try:
        return app.next_with_lock(f"agent-{os.getpid()}", wait=wait_seconds)
    except LockHeld:
        return None


def facts(database: Path, query: str) -> list[Any]:
    """The rows of a query by a foreign tool."""
    from tests.support.foreign import foreign_rows

    return foreign_rows(database, query)
