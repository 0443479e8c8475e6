"""A forked child: it has locks of its own, and leaves alone what is its parent's."""

import os
from pathlib import Path

import pytest

from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_statuses

FIRST_CANARY_OFFSET = 1 << 50


def locks_held(database: str, pid: int) -> list[list[str]]:
    """What the kernel knows of a process's locks on main file and wal-index: file, mode, range."""
    names = {os.stat(database + end).st_ino: end for end in ("", "-shm")}
    found = []
    with open("/proc/locks") as table:
        for line in table:
            fields = [field for field in line.split() if field != "->"]
            kind, _, mode, owner, inode, start, end = fields[1:8]
            name = names.get(int(inode.split(":")[2]))
            if kind == "POSIX" and int(owner) == pid and name is not None:
                is_canary = int(start) >= FIRST_CANARY_OFFSET
                found.append([name, mode, "canary" if is_canary else f"{start}-{end}"])
    return sorted(found)


def _forks_and_tells_the_childs_locks(path: str) -> None:
    import os

    from outlast import Outlast
    from tests.crash.forks.test_forked_child import locks_held
    from tests.support.childside import say

    app = Outlast(path)
    app.enqueue("work")
    app.counts()
    pid = os.fork()
    if pid == 0:
        app.enqueue("work")
        app.counts()
        say(locks_held(path, os.getpid()))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    say(locks_held(path, os.getpid()))


def _tells_its_locks(path: str) -> None:
    import os

    from outlast import Outlast
    from tests.crash.forks.test_forked_child import locks_held
    from tests.support.childside import say

    app = Outlast(path)
    app.enqueue("work")
    app.counts()
    say(locks_held(path, os.getpid()))


def test_a_forked_childs_connections_hold_the_same_locks_as_a_fresh_processs(
    database: Path,
) -> None:
    """SQLite shares lock state by inode in a process: without care a child believes in locks
    that only its parent holds, and others may truncate the log under it."""
    with Child(_forks_and_tells_the_childs_locks, database) as parent:
        of_child, of_parent = parent.hear_all()
    with Child(_tells_its_locks, database) as fresh:
        (of_fresh,) = fresh.hear_all()
    assert ["-shm", "READ", "128-128"] in of_fresh, "the lock that says the wal-index is in use"
    assert {name for name, mode, span in of_fresh if span != "canary"} == {"", "-shm"}
    assert of_child == of_fresh
    assert of_parent == of_fresh, "and the parent has lost none of its own"


def _forks_while_a_thread_is_inside_a_transaction(path: str, ending: str) -> None:
    import gc
    import os
    import threading

    from outlast import Outlast, probes
    from outlast.store import opening
    from tests.support.childside import say

    opening.FORK_PATIENCE_SECONDS = 0.05

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
    """It goes the whole way out, finalizers and all; the laboratory's children end at once."""
    with Child(_forks_while_a_thread_is_inside_a_transaction, database, ending) as child:
        assert child.hear_all() == [0, "open when forked", "next", True], child.error()
    assert foreign_statuses(database) == {
        "held": "completed", "open when forked": "pending", "next": "pending"
    }  # fmt: skip
    assert_sound(database)


def _forks_while_a_thread_imports(path: str) -> None:
    import os
    import sys
    import threading

    from outlast import Outlast, Settings
    from tests.support.childside import say

    importing, has_forked = threading.Event(), threading.Event()

    class Slow:
        """Holds up whatever a thread of the library imports until the fork is over."""

        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            if threading.current_thread() is not threading.main_thread():
                importing.set()
                has_forked.wait()

    sys.meta_path.insert(0, Slow)
    app = Outlast(path, settings=Settings(flush_commits=10)).open()

    def write_until_a_flush() -> None:
        for n in range(20):
            app.enqueue("work", id=f"{os.getpid()}-{n}")
        importing.set()

    writer = threading.Thread(target=write_until_a_flush)
    writer.start()
    importing.wait()
    pid = os.fork()
    has_forked.set()
    if pid == 0:
        write_until_a_flush()
        app.close()
        os._exit(0)
    say(pid)
    say(os.waitpid(pid, 0)[1])
    writer.join()


@pytest.mark.timeout(30)
def test_a_child_forked_while_a_thread_is_about_to_flush_can_use_the_store(database: Path) -> None:
    """Guards against imports put off until a thread needs them: a child forked in the middle of
    one waits for its end for ever."""
    with Child(_forks_while_a_thread_imports, database) as child:
        grandchild, *ends = child.hear_all()
        assert ends == [0], child.error()
    assert f"{grandchild}-19" in foreign_statuses(database)
