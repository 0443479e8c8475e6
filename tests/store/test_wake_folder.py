"""The wake folder under attack: dead peers, planted files, missing rights and descriptors, fork."""

import logging
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.store.sqlite.side_folder.side_folder import Likeness, SideFolder
from outlast.store.sqlite.wakeups import sockets
from outlast.store.sqlite.wakeups.notify import Wakeups
from tests.store.waking import SOON_SECONDS, WORK, make_folder, sockets_in
from tests.support.children import Child


@pytest.fixture
def folder(database: Path) -> SideFolder:
    return make_folder(database)


@pytest.fixture
def wakeups(folder: SideFolder) -> Iterator[Wakeups]:
    wakeups = Wakeups(folder)
    yield wakeups
    wakeups.close()


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def _waits_for_its_end(path: str) -> None:
    from pathlib import Path

    from outlast.store.sqlite.side_folder.side_folder import SideFolder
    from outlast.store.sqlite.wakeups.listener import Topic
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from tests.support.childside import say

    with Wakeups(SideFolder(Path(path))).waiter(frozenset({Topic.WORK})) as waiter:
        say("waiting")
        waiter.wait(600)


def test_a_killed_waiters_socket_is_removed_by_the_next_hint(
    wakeups: Wakeups, folder: SideFolder, database: Path
) -> None:
    with Child(_waits_for_its_end, database) as child, wakeups.waiter(WORK) as waiter:
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
    with wakeups.waiter(WORK) as waiter:
        assert not waiter.wait(0)
        other.tell(WORK)
        assert waiter.wait(0)
    other.close()


def test_a_socket_that_was_never_finished_is_swept_away(
    wakeups: Wakeups, folder: SideFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    held = sockets.WakeFolder(str(folder.wake))
    maker.bind(f"{held._path}/{sockets.NEW}-w-0123")
    maker.close()
    wakeups.tell(WORK)
    assert sockets_in(folder) == ["new-w-0123"], "it may be in the making"
    monkeypatch.setattr(sockets, "_MAKING_NS", -1)
    with wakeups.waiter(WORK):
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
        with wakeups.waiter(WORK) as waiter:
            wakeups.tell(WORK)
            assert waiter.wait(0)
        with pytest.raises(BlockingIOError):
            stranger.recv(1)
        assert sockets_in(folder) == planted


def test_a_live_socket_under_a_name_of_no_topic_is_left_alone(
    wakeups: Wakeups, folder: SideFolder
) -> None:
    held = sockets.WakeFolder(str(folder.wake))
    stranger = sockets.DatagramSocket()
    held.bind(stranger, "x-stranger", None)
    wakeups.tell(WORK)
    with pytest.raises(BlockingIOError):
        stranger.recv(1)
    assert sockets_in(folder) == ["x-stranger"]


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o660, 0o666])
def test_a_socket_takes_the_mode_of_the_database(
    wakeups: Wakeups, folder: SideFolder, database: Path, mode: int
) -> None:
    database.chmod(mode)
    with wakeups.waiter(WORK):
        (name,) = sockets_in(folder)
        assert stat.S_IMODE((folder.wake / name).stat().st_mode) == mode


@pytest.mark.usefixtures("umask")
def test_no_socket_is_open_to_more_users_than_the_database(
    wakeups: Wakeups, folder: SideFolder
) -> None:
    os.umask(0)
    with wakeups.waiter(WORK):
        (name,) = sockets_in(folder)
        assert stat.S_IMODE((folder.wake / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.wake.stat().st_mode) == 0o700


def test_a_socket_belongs_to_the_owner_of_the_database(
    wakeups: Wakeups, folder: SideFolder, database: Path
) -> None:
    """Root makes files for others; anybody else only for himself."""
    owner = (12_345, 23_456) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(database, *owner)
    with wakeups.waiter(WORK):
        (name,) = sockets_in(folder)
        found = (folder.wake / name).stat()
        assert (found.st_uid, found.st_gid) == owner
        assert stat.S_IMODE(found.st_mode) == 0o600


def test_no_descriptor_is_inherited_by_programs_started_meanwhile(wakeups: Wakeups) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with wakeups.waiter(WORK):
        wakeups.tell(WORK)
        new = set(os.listdir("/proc/self/fd")) - before
        numbers = [int(name) for name in new if os.path.exists(f"/proc/self/fd/{name}")]
        assert len(numbers) >= 2
        assert not any(os.get_inheritable(number) for number in numbers)


def _waits_without_rights(path: str) -> None:
    import os
    from pathlib import Path

    from outlast.store.sqlite.side_folder.side_folder import SideFolder
    from outlast.store.sqlite.wakeups.listener import Topic
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from tests.support.childside import hear, say

    if os.geteuid() == 0:
        os.setgid(65_534)
        os.setuid(65_534)
    work = frozenset({Topic.WORK})
    wakeups = Wakeups(SideFolder(Path(path)))
    with wakeups.waiter(work) as waiter:
        say(waiter.wait(0.01))
        hear()
    wakeups.tell(work)
    say("told")


def test_who_may_not_write_in_the_folder_only_sleeps() -> None:
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = make_folder(Path(name) / "work.db")
        folder.path.chmod(0o755)
        folder.wake.chmod(0o555)
        with Child(_waits_without_rights, folder.database) as child:
            assert child.hear() is False
            assert sockets_in(folder) == []
            child.say()
            assert child.hear_all() == ["told"], child.error()


def test_that_no_socket_can_be_made_is_said_once(
    wakeups: Wakeups, folder: SideFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.wake.rmdir()
    with caplog.at_level(logging.INFO, logger="outlast.store"):
        for _ in range(3):
            with wakeups.waiter(WORK) as waiter:
                assert not waiter.wait(0)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert str(folder.wake) in record.getMessage()


def test_without_proc_a_long_path_means_sleeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "DESCRIPTORS", "/nowhere")
    wakeups = Wakeups(make_folder(tmp_path.joinpath(*["a-long-name"] * 12, "work.db")))
    with wakeups.waiter(WORK) as waiter:
        wakeups.tell(WORK)
        assert not waiter.wait(0)
    wakeups.close()


def test_a_removed_folder_harms_nobody(wakeups: Wakeups, folder: SideFolder) -> None:
    with wakeups.waiter(WORK) as waiter:
        wakeups.tell(WORK)
        shutil.rmtree(folder.path)
        wakeups.tell(WORK)
        folder.path.touch()
        wakeups.tell(WORK)
        assert waiter.wait(SOON_SECONDS)
        assert not waiter.wait(0.01)


def test_a_replaced_folder_is_the_one_that_counts(wakeups: Wakeups, folder: SideFolder) -> None:
    with wakeups.waiter(WORK):
        wakeups.tell(WORK)
        folder.wake.rename(folder.path / "aside")
        folder.make()
        with wakeups.waiter(WORK) as waiter:
            wakeups.tell(WORK)
            assert waiter.wait(0)
            assert len(sockets_in(folder)) == 1
    assert sockets_in(folder) == []
    assert os.listdir(folder.path / "aside") == []


def test_waiters_who_never_read_do_not_use_up_the_sender(wakeups: Wakeups) -> None:
    """What stopped processes leave unread is charged to the socket that sent it."""
    for _ in range(60):
        wakeups.waiter(WORK)
    for _ in range(20):
        wakeups.tell(WORK)
    with wakeups.waiter(WORK) as waiter:
        wakeups.tell(WORK)
        assert waiter.wait(0)


def _runs_out_of_descriptors(path: str) -> None:
    import os
    import resource
    from pathlib import Path

    from outlast.store.sqlite.side_folder.side_folder import SideFolder
    from outlast.store.sqlite.wakeups.listener import Topic
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from tests.support.childside import say

    work = frozenset({Topic.WORK})
    waiting, fresh = Wakeups(SideFolder(Path(path))), Wakeups(SideFolder(Path(path)))
    listening = waiting.waiter(work)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    filling = []
    try:
        while True:
            filling.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for wakeups in (waiting, fresh):
        wakeups.tell(work)
        with wakeups.waiter(work) as waiter:
            say(waiter.wait(0.01))
    for number in filling:
        os.close(number)
    listening.wait(0)
    for wakeups in (waiting, fresh):
        wakeups.tell(work)
        say(listening.wait(60))
        with wakeups.waiter(work) as waiter:
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
    from outlast.store.sqlite.wakeups.listener import Topic
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from tests.support.childside import say

    work = frozenset({Topic.WORK})
    before = len(os.listdir("/proc/self/fd"))
    wakeups = Wakeups(SideFolder(Path(path)))
    waiter = wakeups.waiter(work)
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
