"""A forked child that works on: real locks of its own, and never half of an operation."""

import os
from pathlib import Path
from typing import Any

from outlast import Outlast
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


def _forks_a_worker_and_leaves_first(path: str) -> None:
    import os

    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="of the parent")
    app.counts()
    is_open, sign = os.pipe()
    if os.fork() == 0:
        app.enqueue("work", id="before")
        os.write(sign, b"!")
        hear()
        say([app.enqueue("work", id=f"after {n}").id for n in range(20)])
        app.close()
        os._exit(0)
    os.read(is_open, 1)
    app.close()
    say("the parent has closed")
    os.wait()


def test_what_a_child_stores_stands_though_parent_and_strangers_come_and_go(
    database: Path,
) -> None:
    with Child(_forks_a_worker_and_leaves_first, database) as family:
        assert family.hear() == "the parent has closed"
        with Outlast(database) as stranger:
            stranger.flush_wal()
        assert foreign_statuses(database)["before"] == "pending"
        family.say()
        stored = family.hear()
        assert family.wait() == 0, family.error()
    assert set(foreign_statuses(database)) == {"of the parent", "before", *stored}
    assert_sound(database)


def _forks_in_the_middle(path: str, ends_in_time: bool) -> None:
    """The operation under way goes on only once the fork has begun, or once it is over."""
    import os
    import threading

    from outlast import Outlast, StoreError, probes
    from outlast.store import opening
    from tests.support.childside import say

    inside, go_on = threading.Event(), threading.Event()

    def pause(name: str) -> None:
        if name == "enqueue.written":
            probes.arm(None)
            inside.set()
            go_on.wait(60)

    app = Outlast(path).open()
    if ends_in_time:
        # What registers last is called first: the fork has begun, and Outlast waits next.
        os.register_at_fork(before=go_on.set)
    else:
        opening.FORK_PATIENCE_SECONDS = 0.05
    probes.arm(pause)
    thread = threading.Thread(target=lambda: app.enqueue("work", id="under way"))
    thread.start()
    inside.wait(60)
    pid = os.fork()
    if pid == 0:
        try:
            say(["child", app.enqueue("work", id="of the child").id])
        except StoreError as error:
            say(["refused", str(error)])
        os._exit(0)
    say(["exit", os.waitpid(pid, 0)[1]])
    go_on.set()
    thread.join()
    say(["parent", app.enqueue("work", id="of the parent").id])
    app.close()


def _the_family_tells(database: Path, function: Any, *arguments: Any) -> dict[str, Any]:
    with Child(function, database, *arguments) as family:
        told = dict(family.hear_all())
        assert family.wait() == 0, family.error()
    assert_sound(database)
    return told


def test_a_fork_waits_for_the_operation_under_way(database: Path) -> None:
    told = _the_family_tells(database, _forks_in_the_middle, True)
    assert told == {"child": "of the child", "exit": 0, "parent": "of the parent"}
    assert set(foreign_statuses(database)) == {"under way", "of the child", "of the parent"}


def test_a_child_of_a_fork_that_could_wait_no_longer_refuses_that_file(database: Path) -> None:
    told = _the_family_tells(database, _forks_in_the_middle, False)
    assert "was in the middle of an operation when this process was forked" in told["refused"]
    assert (told["exit"], told["parent"]) == (0, "of the parent")
    assert set(foreign_statuses(database)) == {"under way", "of the parent"}


def _forks_inside_its_own_operation(path: str) -> None:
    import os

    from outlast import Outlast, StoreError, probes
    from tests.support.childside import say

    def fork(name: str) -> None:
        if name != "enqueue.written":
            return
        probes.arm(None)
        pid = os.fork()
        if pid:
            say(["exit", os.waitpid(pid, 0)[1]])
            return
        try:
            app.enqueue("work", id="of the child")
        except StoreError as error:
            say(["refused", str(error)])
        os._exit(0)

    app = Outlast(path).open()
    probes.arm(fork)
    say(["parent", app.enqueue("work", id="under way").id])
    say(["next", app.enqueue("work", id="next").id])
    app.close()


def test_a_fork_inside_an_operation_leaves_the_operation_to_the_parent(database: Path) -> None:
    told = _the_family_tells(database, _forks_inside_its_own_operation)
    assert "was in the middle of an operation when this process was forked" in told["refused"]
    assert (told["exit"], told["parent"], told["next"]) == (0, "under way", "next")
    assert set(foreign_statuses(database)) == {"under way", "next"}
