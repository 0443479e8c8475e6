"""The wake folder under attack: dead peers, planted files, missing descriptors, fork."""

import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from outlast.store.sqlite.side_folder.side_folder import Likeness, SideFolder
from outlast.store.sqlite.wakeups import sockets
from outlast.store.sqlite.wakeups.notify import Wakeups
from tests.store.sqlite.wakeups.waking import SOON_SECONDS, WORK, make_folder, sockets_in
from tests.support.children import Child


def _waits_for_its_end(path: str) -> None:
    from pathlib import Path

    from outlast.store.sqlite.side_folder.side_folder import SideFolder
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from outlast.store.topics import Topic
    from tests.support.childside import say

    with Wakeups(SideFolder(Path(path))).listener(frozenset({Topic.WORK})) as waiter:
        say("waiting")
        waiter.wait(600)


def test_a_killed_waiters_socket_is_removed_by_the_next_hint(
    wakeups: Wakeups, folder: SideFolder, database: Path
) -> None:
    with Child(_waits_for_its_end, database) as child, wakeups.listener(WORK) as waiter:
        child.hear()
        child.kill()
        assert len(sockets_in(folder)) == 2
        wakeups.tell(WORK)
        assert len(sockets_in(folder)) == 1
        assert waiter.wait(0)


def test_a_socket_in_the_making_is_not_told_and_so_not_taken_for_a_dead_ones(
    wakeups: Wakeups, folder: SideFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an instant the kernel shows the file of a socket that does not listen yet."""
    other = Wakeups(folder)
    real = sockets.WakeFolder._dress

    def dress(held: sockets.WakeFolder, name: str, mode: int, like: Likeness | None) -> None:
        assert sockets_in(folder) == [name]
        other.tell(WORK)
        real(held, name, mode, like)

    monkeypatch.setattr(sockets.WakeFolder, "_dress", dress)
    with wakeups.listener(WORK) as waiter:
        assert not waiter.wait(0)
        other.tell(WORK)
        assert waiter.wait(0)
    other.close()


def test_a_socket_that_was_never_finished_is_swept_away(
    wakeups: Wakeups, folder: SideFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    held = sockets.WakeFolder(folder)
    maker.bind(f"{held._path}/{sockets.NEW}-w-0123456789abcdef")
    maker.close()
    wakeups.tell(WORK)
    assert sockets_in(folder) == ["new-w-0123456789abcdef"], "it may be in the making"
    monkeypatch.setattr(sockets, "_MAKING_NS", -1)
    with wakeups.listener(WORK):
        wakeups.tell(WORK)
    assert sockets_in(folder) == []


def test_what_is_planted_in_the_folder_is_neither_followed_nor_removed(
    wakeups: Wakeups, folder: SideFolder
) -> None:
    with (
        tempfile.TemporaryDirectory() as elsewhere,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger,
    ):
        stranger.bind(f"{elsewhere}/socket")
        stranger.setblocking(False)
        (folder.wake / "w-link").symlink_to(f"{elsewhere}/socket")
        (folder.wake / "w-dangling").symlink_to(f"{elsewhere}/nothing")
        (folder.wake / "w-file").touch()
        (folder.wake / "w-folder").mkdir()
        (folder.wake / "new-file").touch()
        planted = sockets_in(folder)
        with wakeups.listener(WORK) as waiter:
            wakeups.tell(WORK)
            assert waiter.wait(0)
        with pytest.raises(BlockingIOError):
            stranger.recv(1)
        assert sockets_in(folder) == planted


def test_a_live_socket_under_a_name_of_no_topic_is_left_alone(
    wakeups: Wakeups, folder: SideFolder
) -> None:
    held = sockets.WakeFolder(folder)
    stranger = sockets.DatagramSocket()
    held.bind(stranger, "x-stranger", None)
    wakeups.tell(WORK)
    with pytest.raises(BlockingIOError):
        stranger.recv(1)
    assert sockets_in(folder) == ["x-stranger"]


def test_without_proc_a_long_path_means_sleeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "DESCRIPTORS", "/nowhere")
    wakeups = Wakeups(make_folder(tmp_path.joinpath(*["a-long-name"] * 12, "work.db")))
    with wakeups.listener(WORK) as waiter:
        wakeups.tell(WORK)
        assert not waiter.wait(0)
    wakeups.close()


def test_a_removed_folder_harms_nobody(wakeups: Wakeups, folder: SideFolder) -> None:
    with wakeups.listener(WORK) as waiter:
        wakeups.tell(WORK)
        shutil.rmtree(folder.path)
        wakeups.tell(WORK)
        folder.path.touch()
        wakeups.tell(WORK)
        assert waiter.wait(SOON_SECONDS)
        assert not waiter.wait(0.01)


def test_a_replaced_folder_is_the_one_that_counts(wakeups: Wakeups, folder: SideFolder) -> None:
    with wakeups.listener(WORK):
        wakeups.tell(WORK)
        folder.wake.rename(folder.path / "aside")
        folder.make()
        with wakeups.listener(WORK) as waiter:
            wakeups.tell(WORK)
            assert waiter.wait(0)
            assert len(sockets_in(folder)) == 1
    assert sockets_in(folder) == []
    assert os.listdir(folder.path / "aside") == []


def test_waiters_who_never_read_do_not_use_up_the_sender(wakeups: Wakeups) -> None:
    """What stopped processes leave unread is charged to the socket that sent it."""
    for _ in range(60):
        wakeups.listener(WORK)
    for _ in range(20):
        wakeups.tell(WORK)
    with wakeups.listener(WORK) as waiter:
        wakeups.tell(WORK)
        assert waiter.wait(0)


def _runs_out_of_descriptors(path: str) -> None:
    import os
    import resource
    from pathlib import Path

    from outlast.store.sqlite.side_folder.side_folder import SideFolder
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from outlast.store.topics import Topic
    from tests.support.childside import say

    work = frozenset({Topic.WORK})
    waiting, fresh = Wakeups(SideFolder(Path(path))), Wakeups(SideFolder(Path(path)))
    listening = waiting.listener(work)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    filling = []
    try:
        while True:
            filling.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for wakeups in (waiting, fresh):
        wakeups.tell(work)
        with wakeups.listener(work) as waiter:
            say(waiter.wait(0.01))
    for number in filling:
        os.close(number)
    listening.wait(0)
    for wakeups in (waiting, fresh):
        wakeups.tell(work)
        say(listening.wait(60))
        with wakeups.listener(work) as waiter:
            wakeups.tell(work)
            say(waiter.wait(60))


def test_without_descriptors_hints_are_lost_and_nothing_else(
    folder: SideFolder, database: Path
) -> None:
    with Child(_runs_out_of_descriptors, database) as child:
        assert child.hear_all() == [False, False, True, True, True, True], child.error()


def _forks(path: str) -> None:
    import os
    from pathlib import Path

    from outlast.store.sqlite.side_folder.side_folder import SideFolder
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from outlast.store.topics import Topic
    from tests.support.childside import say

    work = frozenset({Topic.WORK})
    before = len(os.listdir("/proc/self/fd"))
    wakeups = Wakeups(SideFolder(Path(path)))
    waiter = wakeups.listener(work)
    wakeups.tell(work)
    waiter.wait(60)
    in_use = wakeups._door  # as by a thread that is not there after the fork
    pid = os.fork()
    if pid == 0:
        wakeups.abandon()
        waiter.close()
        wakeups.tell(work)
        left_open = len(os.listdir("/proc/self/fd")) - before
        say(["left open", left_open, waiter.wait(0), in_use is None])
        raise SystemExit(0)
    say(["exit", os.waitpid(pid, 0)[1]])
    say(["untold", waiter.wait(0)])
    wakeups.tell(work)
    say(["told", waiter.wait(60)])


def test_a_forked_child_leaves_its_parents_ears_alone(folder: SideFolder, database: Path) -> None:
    """It goes the whole way out, finalizers and all."""
    with Child(_forks, database) as child:
        assert child.hear_all() == [
            ["left open", 0, False, False],
            ["exit", 0],
            ["untold", False],
            ["told", True],
        ], child.error()
