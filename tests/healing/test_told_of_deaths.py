"""Being told of deaths by the kernel: everybody who waits, by which signal, and across a fork."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.host import polling, processes
from outlast.store.presence import Peer
from outlast.store.sqlite.presence.exits import MOST_WATCHED, ExitWatch
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.wakeups.listener import SocketListener
from outlast.store.sqlite.wakeups.notify import Wakeups
from outlast.store.topics import LOOKING_FOR_WORK, NOBODY
from tests.store.hand import engine_of
from tests.support.children import Child


def _lives_until_it_is_killed() -> None:
    from tests.support.childside import hear, say

    say("here")
    hear()


@pytest.fixture
def mortal() -> Iterator[Child]:
    with Child(_lives_until_it_is_killed) as child:
        child.hear()
        yield child


def peer_of(child: Child) -> Peer:
    here, stat = processes.this_process(), processes.process_stat(child.pid)
    assert stat is not None
    return Peer(
        "i", "w", here.boot_id, child.pid, stat[1], here.pid_namespace, "no.lock", 1, 0, 0, "h"
    )


@pytest.fixture
def wakeups(database: Path) -> Iterator[Wakeups]:
    folder = SideFolder(database)
    folder.make()
    made = Wakeups(folder)
    yield made
    made.close()


def test_a_death_is_told_to_everybody_who_waits_and_to_each_once(
    wakeups: Wakeups, mortal: Child
) -> None:
    """A worker that does not heal must not keep it from the detector."""
    ears: list[SocketListener] = [
        wakeups.listener(topics, for_exits=True) for topics in (LOOKING_FOR_WORK, NOBODY)
    ]
    reads, writes = os.pipe()
    wakeups.exits.watch([peer_of(mortal)])
    mortal.kill()
    assert [ear.wait(10, reads) for ear in ears] == [True, True]
    assert [ear.wait(0, reads) for ear in ears] == [False, False]
    os.close(reads)
    os.close(writes)


def test_signals_of_those_whom_others_buried_do_not_crowd_out_the_next(mortal: Child) -> None:
    watch, peer = ExitWatch(), peer_of(mortal)
    watch._signals = {(pid, pid): signal.SIGTERM for pid in range(MOST_WATCHED)}
    watch.watch([peer])
    mortal.dies_of(signal.SIGKILL)
    assert watch.exit_signal(peer) == signal.SIGKILL
    assert len(watch._signals) <= MOST_WATCHED
    watch.close()


def _mutex_of_the_watch(app: Outlast) -> Any:
    return engine_of(app)._wakeups.exits._mutex


def _mutex_of_the_lock_file(app: Outlast) -> Any:
    return engine_of(app)._own.own().lock_file._mutex


@pytest.mark.parametrize("mutex_of", [_mutex_of_the_watch, _mutex_of_the_lock_file])
def test_a_fork_in_the_middle_of_a_question_leaves_the_child_able_to_begin_anew(
    app: Outlast, mutex_of: Callable[[Outlast], Any]
) -> None:
    """Another thread, which is not there in the child, holds what the child inherits locked."""
    app.enqueue("work")
    mutex, taken, over = mutex_of(app), threading.Event(), threading.Event()

    def asks() -> None:
        with mutex:
            taken.set()
            over.wait()

    thread = threading.Thread(target=asks)
    thread.start()
    taken.wait()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    descriptor = os.pidfd_open(pid)
    polling.wait_until_readable([descriptor], 10)
    has_ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
    if not has_ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os.close(descriptor)
    over.set()
    thread.join()
    assert has_ended
