"""The wake folder and rights: whose sockets are, who may speak to them, who may make none."""

import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.wakeups.notify import Wakeups
from tests.store.sqlite.wakeups.waking import WORK, make_folder, sockets_in
from tests.support.children import Child


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o660, 0o666])
def test_a_socket_takes_the_mode_of_the_database(
    wakeups: Wakeups, folder: SideFolder, database: Path, mode: int
) -> None:
    database.chmod(mode)
    with wakeups.listener(WORK):
        (name,) = sockets_in(folder)
        assert stat.S_IMODE((folder.wake / name).stat().st_mode) == mode


@pytest.mark.usefixtures("umask")
def test_no_socket_is_open_to_more_users_than_the_database(
    wakeups: Wakeups, folder: SideFolder
) -> None:
    os.umask(0)
    with wakeups.listener(WORK):
        (name,) = sockets_in(folder)
        assert stat.S_IMODE((folder.wake / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.wake.stat().st_mode) == 0o700


def test_a_socket_belongs_to_the_owner_of_the_database(
    wakeups: Wakeups, folder: SideFolder, database: Path
) -> None:
    """Root makes files for others; anybody else only for himself."""
    owner = (12_345, 23_456) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    for file in (database, folder.path, folder.wake):
        os.chown(file, *owner)
    with wakeups.listener(WORK):
        (name,) = sockets_in(folder)
        found = (folder.wake / name).stat()
        assert (found.st_uid, found.st_gid) == owner
        assert stat.S_IMODE(found.st_mode) == 0o600


def test_no_descriptor_is_inherited_by_programs_started_meanwhile(wakeups: Wakeups) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with wakeups.listener(WORK):
        wakeups.tell(WORK)
        new = set(os.listdir("/proc/self/fd")) - before
        numbers = [int(name) for name in new if os.path.exists(f"/proc/self/fd/{name}")]
        assert len(numbers) >= 2
        assert not any(os.get_inheritable(number) for number in numbers)


def _waits_without_rights(path: str) -> None:
    import os
    from pathlib import Path

    from outlast.store.sqlite.side_folder.side_folder import SideFolder
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from outlast.store.topics import Topic
    from tests.support.childside import hear, say

    if os.geteuid() == 0:
        os.setgid(65_534)
        os.setuid(65_534)
    work = frozenset({Topic.WORK})
    wakeups = Wakeups(SideFolder(Path(path)))
    with wakeups.listener(work) as waiter:
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
            with wakeups.listener(WORK) as waiter:
                assert not waiter.wait(0)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert str(folder.wake) in record.getMessage()
