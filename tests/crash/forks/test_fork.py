"""fork: the child abandons what it inherited, opens its own, and leaves the parent's alone."""

import os
import signal
from pathlib import Path

import pytest

from outlast import Outlast, Settings
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows, foreign_statuses

pytestmark = pytest.mark.slow

# A detector would put a dead parent's task back before the call that counts it.
ALONE = Settings(detection_interval_seconds=0)


def _forks_a_child_that_uses_the_app(path: str) -> None:
    import os

    from outlast import LeaseInherited, Outlast
    from tests.support.childside import say

    app = Outlast(path)
    app.enqueue_many("work", range(3), id=["mine", "childs", "left"])
    (lease,) = app.claim("w")
    pid = os.fork()
    if pid == 0:
        for verb in (lease.complete, lease.renew, lease.release, lease.start):
            try:
                verb()
            except LeaseInherited:
                say(["refused", verb.__name__])
        (own,) = app.claim("w")
        say(["claimed", own.task_id, own.complete()])
        raise SystemExit(0)
    say(["exit", os.waitpid(pid, 0)[1]])
    say(["still mine", lease.task_id, lease.complete()])
    say(["stored", app.enqueue("work", id="after").id])


def test_a_forked_child_is_an_incarnation_of_its_own(database: Path) -> None:
    """It goes the whole way out, finalizers and all, and takes nothing of its parent's along."""
    with Child(_forks_a_child_that_uses_the_app, database) as child:
        assert child.hear_all() == [
            ["refused", "complete"],
            ["refused", "renew"],
            ["refused", "release"],
            ["refused", "start"],
            ["claimed", "childs", True],
            ["exit", 0],
            ["still mine", "mine", True],
            ["stored", "after"],
        ], child.error()
    assert foreign_statuses(database) == {
        "mine": "completed", "childs": "completed", "left": "pending", "after": "pending"
    }  # fmt: skip
    counted = "SELECT count(DISTINCT incarnation), count(DISTINCT pid) FROM workers"
    assert foreign_rows(database, counted) == [[2, 2]]
    assert_sound(database)


def _forks_while_a_thread_is_inside_a_transaction(path: str, ending: str) -> None:
    import gc
    import os
    import threading

    from outlast import Outlast, probes
    from tests.support.childside import say

    inside, go_on = threading.Event(), threading.Event()

    def pause(name: str) -> None:
        if name == "enqueue.written":
            probes.arm(None)
            inside.set()
            go_on.wait(60)

    app = Outlast(path)
    app.enqueue("work", id="held", priority=1)
    (lease,) = app.claim("w")
    probes.arm(pause)
    thread = threading.Thread(target=lambda: say(app.enqueue("work", id="open when forked").id))
    thread.start()
    inside.wait(60)
    pid = os.fork()
    if pid == 0:
        if ending == "close":
            app.close()
        del app, lease
        gc.collect()
        raise SystemExit(0)
    say(os.waitpid(pid, 0)[1])
    go_on.set()
    thread.join()
    say(app.enqueue("work", id="next").id)
    say(lease.complete())


@pytest.mark.parametrize("ending", ["exit", "close"])
def test_a_child_that_ends_leaves_its_parents_open_transaction_alone(
    database: Path, ending: str
) -> None:
    with Child(_forks_while_a_thread_is_inside_a_transaction, database, ending) as child:
        assert child.hear_all() == [0, "open when forked", "next", True], child.error()
    assert foreign_statuses(database) == {
        "held": "completed", "open when forked": "pending", "next": "pending"
    }  # fmt: skip
    assert_sound(database)


def _holds_a_task_and_forks(path: str) -> None:
    import os
    import signal

    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="t")
    app.claim("w")
    pid = os.fork()
    if pid == 0:
        say(os.getpid())
        signal.pause()
    hear()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    say("the child is gone")
    hear()


def test_a_workers_lock_lives_and_dies_with_the_parent_alone(database: Path) -> None:
    with Outlast(database, settings=ALONE) as app:
        with Child(_holds_a_task_and_forks, database) as parent:
            parent.hear()
            parent.say()
            assert parent.hear() == "the child is gone"
            assert app.heal().entries_reclaimed == 0, "a child that dies frees nothing"
            parent.kill()
        assert app.heal().entries_reclaimed == 1


def test_a_dead_parents_task_is_put_back_although_its_forked_child_lives_on(
    database: Path,
) -> None:
    with (
        Outlast(database, settings=ALONE) as app,
        Child(_holds_a_task_and_forks, database) as parent,
    ):
        orphan = parent.hear()
        try:
            parent.kill()
            assert app.heal().entries_reclaimed == 1
            (lease,) = app.claim("next")
            assert lease.complete()
        finally:
            os.kill(orphan, signal.SIGKILL)
