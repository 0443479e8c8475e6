"""Waiting for what another process does: told by a datagram, found by polling, or by its death."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Settings
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows

SOON_SECONDS = 60.0
NEVER_SECONDS = 1000.0


def _waits(path: str, poll_seconds: float, heal_seconds: float, verb: str) -> None:
    """Says "asleep" whenever it is about to sleep, and in the end what it was given."""
    from outlast import Outlast, Settings
    from outlast.store import change_watch
    from outlast.store.sqlite.wakeups.listener import Waiter
    from tests.support.childside import hear, say

    change_watch.POLL_SECONDS = poll_seconds
    # Waiting itself must find what there is, without the help of a detector.
    settings = Settings(heal_interval_seconds=heal_seconds, detection_interval_seconds=0)
    app = Outlast(path, settings=settings)
    wait = Waiter.wait
    said: list[str] = []

    def noticed(waiter: Waiter, timeout_seconds: float) -> bool:
        if not said:
            said.append("asleep")
            say("asleep")
        return wait(waiter, timeout_seconds)

    Waiter.wait = noticed  # type: ignore[method-assign, assignment]
    if verb == "wait":
        say(app.wait("t1", 60))
        say(app._handle._session is None)
    else:
        say([[lease.task_id, lease.attempt] for lease in app.claim("w", wait=60)])
    hear()


Waits = Callable[..., Child]


@pytest.fixture
def app(database: Path) -> Iterator[Outlast]:
    """By the real clock, which is the one that other processes know."""
    # Else its detector, and not the one that waits, finds the dead.
    with Outlast(database, settings=Settings(detection_interval_seconds=0)) as app:
        yield app


@pytest.fixture
def waits(app: Outlast) -> Iterator[Waits]:
    """A process that waits on the test's store and has gone to sleep."""
    begun: list[Child] = []

    def begin(verb: str, *, poll: float = NEVER_SECONDS, heal: float = NEVER_SECONDS) -> Child:
        child = Child(_waits, app.path, poll, heal, verb)
        begun.append(child)
        assert child.hear() == "asleep"
        return child

    yield begin
    for child in begun:
        child.kill()


MAKES_READY: dict[str, tuple[Callable[[Outlast], Any], Callable[[Outlast], Any]]] = {
    "enqueue": (lambda app: None, lambda app: app.enqueue("work", id="t1")),
    "enqueue_many": (lambda app: None, lambda app: app.enqueue_many("work", [1], id=["t1"])),
    "unpark": (
        lambda app: (app.enqueue("work", id="t1"), app.park("t1")),
        lambda app: app.unpark("t1"),
    ),
    "unpause": (
        lambda app: (app.enqueue("work", id="t1"), app.pause("default")),
        lambda app: app.unpause("default"),
    ),
}


@pytest.mark.parametrize("how", MAKES_READY)
def test_a_datagram_wakes_a_claim_in_another_process(app: Outlast, waits: Waits, how: str) -> None:
    """The waiter polls once in a thousand seconds: nothing else could have told it."""
    before, then = MAKES_READY[how]
    before(app)
    child = waits("claim")
    then(app)
    assert child.hear() == [["t1", 1]]


def test_a_lease_released_in_one_process_wakes_a_claim_in_another(
    app: Outlast, waits: Waits
) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    child = waits("claim")
    lease.release()
    assert child.hear() == [["t1", 1]]


def test_a_datagram_tells_a_process_that_only_looks_of_a_result(app: Outlast, waits: Waits) -> None:
    app.enqueue("work", id="t1")
    child = waits("wait")
    (lease,) = app.claim("w")
    lease.complete({"sum": 3})
    assert child.hear() == {"sum": 3}
    assert child.hear() is True, "it never opened the store to serve"


@pytest.mark.parametrize("verb", ["wait", "claim"])
def test_where_no_socket_can_be_made_polling_finds_it(
    app: Outlast, waits: Waits, verb: str
) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    os.rmdir(f"{app.path}-outlast/wake")
    child = waits(verb, poll=0.05)
    if verb == "wait":
        lease.complete("found")
        assert child.hear() == "found"
    else:
        lease.release()
        assert child.hear() == [["t1", 1]]


def _holds(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="t1")
    (lease,) = app.claim("other")
    say(lease.task_id)
    hear()


def test_a_claim_that_waits_gets_the_task_of_a_killed_holder(database: Path, waits: Waits) -> None:
    """Nobody commits and nothing falls due when a process is killed: a waiter looks by itself."""
    with Child(_holds, database) as holder:
        assert holder.hear() == "t1"
        child = waits("claim", heal=1)
        holder.kill()
        killed_at = time.monotonic()
        assert child.hear() == [["t1", 2]]
        # It looks once a second; the rest is patience with a machine under load.
        assert time.monotonic() - killed_at < 20
    assert_sound(database)


def test_a_killed_waiter_leaves_an_ear_that_disturbs_nobody(app: Outlast, waits: Waits) -> None:
    child, other = waits("claim"), waits("claim")
    child.kill()
    app.enqueue("work", id="t1")
    assert other.hear() == [["t1", 1]]
    other.kill()
    (lease,) = app.claim("w")
    assert (lease.task_id, lease.attempt) == ("t1", 2)
    lease.complete()


def test_many_waiting_processes_share_the_work_and_nothing_is_done_twice(
    app: Outlast, waits: Waits
) -> None:
    children = [waits("claim") for _ in range(3)]
    for n in range(3):
        app.enqueue("work", id=f"t{n}")
    got = [claimed for child in children for claimed in child.hear()]
    assert sorted(got) == [["t0", 1], ["t1", 1], ["t2", 1]]
    moves = "SELECT reason, count(*) FROM transitions GROUP BY reason"
    assert foreign_rows(app.path, moves) == [["claimed", 3]]
