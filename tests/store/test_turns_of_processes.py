"""Processes that share the write gate and its bell: they work, die inside, and leave."""

import stat
import threading
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.store.sqlite.bell import Bell
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from tests.store.hand import store_of
from tests.store.waking import wait_until
from tests.support.children import Child
from tests.support.foreign import foreign_rows

PATIENCE_SECONDS = 60
TASKS = 4000


def _works_off(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    with Outlast(path) as app:
        say("ready")
        hear()
        done = 0
        while leases := app.claim("w", limit=10):
            done += sum(app.complete_many([(lease, None) for lease in leases]))
    say(done)


def test_processes_that_take_turns_do_everything_once_and_none_goes_away_empty(
    database: Path,
) -> None:
    with (
        Outlast(database) as app,
        Child(_works_off, database) as one,
        Child(_works_off, database) as other,
    ):
        app.enqueue_many("work", range(TASKS))
        for child in (one, other):
            child.hear()
        for child in (one, other):
            child.say()
        shares = [one.hear(), other.hear()]
        assert stat.S_ISFIFO(SideFolder(database).bell.lstat().st_mode), "they met"
    assert sum(shares) == TASKS
    assert min(shares) > TASKS / 10
    moves = "SELECT to_status, count(*), count(DISTINCT task_seq) FROM transitions GROUP BY 1"
    assert foreign_rows(database, moves) == [
        ["completed", TASKS, TASKS],
        ["running", TASKS, TASKS],
    ]


def _dies_at_the_gate(path: str) -> None:
    import os
    import signal

    from outlast import Outlast
    from outlast.host import probe_points
    from tests.support.childside import hear, say

    def die(name: str) -> None:
        if name == "enqueue.written":
            say(name)
            hear()
            os.kill(os.getpid(), signal.SIGKILL)

    app = Outlast(path).open()
    say("open")
    hear()
    probe_points.arm(die)
    app.enqueue("work", id="lost")


def test_one_who_dies_inside_rings_for_nobody_and_is_followed_all_the_same(database: Path) -> None:
    with Outlast(database) as app, Child(_dies_at_the_gate, database) as other:
        assert other.hear() == "open"
        # Who is alone passes by the gate without taking it.
        gate = store_of(app)._gate
        gate.insist()
        gate.leave()
        other.say()
        other.hear()
        waiter = threading.Thread(target=app.enqueue, args=("work",), kwargs={"id": "next"})
        waiter.start()
        wait_until(SideFolder(database).bell.exists)
        other.say()
        waiter.join(PATIENCE_SECONDS)
        assert not waiter.is_alive()
    assert foreign_rows(database, "SELECT id FROM tasks") == [["next"]]


def _keeps_it_open(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    with Outlast(path):
        say("open")
        hear()


def test_the_last_to_leave_takes_the_bell_down(app: Outlast) -> None:
    """A FIFO that stayed would be in the way of every copy of the folder."""
    app.open()
    folder = SideFolder(app.path)
    bell = Bell.of(folder)
    assert bell is not None
    bell.close()
    with Child(_keeps_it_open, app.path) as child:
        assert child.hear() == "open"
        app.close()
        assert folder.bell.exists(), "somebody may still ring it"
    app.open()
    app.close()
    assert not folder.bell.exists()


def test_who_is_interrupted_while_it_takes_the_bell_down_locks_nobody_out(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.open()
    bell = Bell.of(SideFolder(app.path))
    assert bell is not None
    bell.close()
    unlink = Path.unlink

    def interrupted(path: Path, missing_ok: bool = False) -> None:
        if path.name == "bell":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as struck:
        struck.setattr(Path, "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            app.close()
    with Child(_keeps_it_open, app.path) as other:
        assert other.hear() == "open"
