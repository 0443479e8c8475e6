"""The lives of operators: what they do by name, each with its entry in the audit.

Like the other lives they are fixed in all they do, and go on after any call that was refused.
"""

from dataclasses import replace
from pathlib import Path

from outlast.errors import OutlastError
from outlast_lab.acts import Operator
from outlast_lab.history import KILLED, Write, host_seconds
from outlast_lab.lives import SETTINGS, Life, each_of, founded, nth, opened
from outlast_lab.locks import Locker
from outlast_lab.witness import Witness

# The dead stay as they are until somebody declares them dead, or until their tasks are held.
LEFT_ALONE = replace(SETTINGS, recovery_mode="off")
HELD = replace(SETTINGS, recovery_mode="manual")


def abandoned(path: Path, write: Write) -> None:
    """A worker died holding more tasks than are taken back at once, and a lock."""
    founded(path, write)
    one, _ = opened(path, write)
    gone = one.named("gone")
    gone.claim(limit=3)
    Locker(gone).acquire("left behind", "30d")
    write([KILLED, "gone", host_seconds()])


def operate(path: Path, write: Write) -> None:
    """Everything that a person can do to workers, tasks, locks and queues, and may not do."""
    one, _ = opened(path, write, settings=LEFT_ALONE)
    anna, ben = Operator(one.named("anna")), Operator(one.named("ben"))
    anna.mark_dead(_newest(one, "gone"))
    _force_what_is_held(one, anna)
    _force_what_waits(one, anna, ben)
    one.enqueue_many(["g-1", "g-2", "g-3"], [1, 2, 3], group="g")
    anna.force_many("fail", status="pending", group="g")
    anna.force_many("retry", ["g-1", "t-7", "nobody", "t-2"])
    _decide(one, ben)
    Locker(one).acquire("x", "1h")
    for _ in range(2):
        Locker(one.named("ben")).free("x")
    one.close()


def _force_what_is_held(one: Witness, anna: Operator) -> None:
    """Its holder lives, and finds out when it writes."""
    leases = one.claim(limit=4)
    anna.force("t-0", "pending")
    one.complete(nth(leases, 0), "too late")
    anna.force("t-1", "retry", "it hangs")
    one.renew(nth(leases, 1))
    anna.force("t-2", "fail", "not wanted")
    one.complete(nth(leases, 3), 3)


def _force_what_waits(one: Witness, anna: Operator, ben: Operator) -> None:
    """Parked, eligible, or final already."""
    anna.force("t-3", "retry")
    anna.force("t-3", "pending")
    one.park_task("t-4")
    ben.force("t-4", "pending")
    ben.force("t-4", "retry")


def _decide(one: Witness, ben: Operator) -> None:
    ben.cancel("t-5")
    ben.cancel("t-5")
    ben.retry("t-5")
    ben.fail("t-6", "no longer wanted")
    ben.park("t-8")
    ben.unpark("t-8")
    ben.unpark("t-8")
    ben.pause("side")
    ben.unpause("side")


def approve_by_name(path: Path, write: Write) -> None:
    """Recovery holds what the dead left; one is approved, one refused, then all that are left."""
    one, _ = opened(path, write, settings=HELD)
    anna = Operator(one.named("anna"))
    one.park_task("t-9")
    anna.approve("t-0")
    anna.approve("t-9")
    one.complete(nth(one.claim(), 0), "approved")
    anna.approve()
    anna.approve()
    one.close()


def _newest(one: Witness, worker: str) -> str | None:
    """The incarnation of the newest of a name; looking leaves no trace."""
    try:
        found = [info.incarnation for info in one.app.workers() if info.name == worker]
    except OutlastError:
        return None
    return found[0] if found else None


_ACTING = each_of("settle", "logged", "updated")

OPERATING_LIVES = {
    "operate": Life(
        abandoned,
        operate,
        frozenset(
            _ACTING | each_of("heal") | each_of("lock") | each_of("pause") | {"enqueue.inserted"}
        ),
    ),
    "approve by name": Life(abandoned, approve_by_name, frozenset(_ACTING)),
}
