"""What a dead worker's lock file says had begun: every slot in use is read, wherever it is."""

import os
from pathlib import Path

import pytest

from outlast.store.records import Grant
from outlast.store.sqlite.presence.worker_lock_file import SLOTS, LockFile, read_begun
from outlast.store.sqlite.side_folder.side_folder import SideFolder

INCARNATION = "5" * 32


def grant(seq: int) -> Grant:
    return Grant(seq, 1, 7)


@pytest.fixture
def lock(tmp_path: Path) -> LockFile:
    folder = SideFolder(tmp_path / "work.db")
    folder.make()
    return LockFile(folder, INCARNATION)


@pytest.mark.parametrize("taken", [0, 1, 2, 3, SLOTS // 2, SLOTS // 2 + 1, SLOTS - 1, SLOTS])
def test_as_many_are_read_as_were_noted(lock: LockFile, taken: int) -> None:
    assert all(lock.note(grant(seq)) for seq in range(1, taken + 1))
    begun = read_begun(lock.descriptor, INCARNATION)
    lock.close()
    assert begun.whole
    assert begun.tasks == {(seq, 7) for seq in range(1, taken + 1)}


@pytest.mark.parametrize("left", [1, 2, SLOTS // 2, SLOTS // 2 + 1, SLOTS])
def test_one_behind_many_that_were_given_back_is_read(lock: LockFile, left: int) -> None:
    for seq in range(1, SLOTS + 1):
        lock.note(grant(seq))
    lock.clear([grant(seq) for seq in range(1, SLOTS + 1) if seq != left])
    begun = read_begun(lock.descriptor, INCARNATION)
    lock.close()
    assert begun.whole
    assert begun.tasks == {(left, 7)}


def test_damage_behind_the_last_slot_in_use_is_seen(lock: LockFile) -> None:
    lock.note(grant(1))
    size = os.fstat(lock.descriptor).st_size
    os.pwrite(lock.descriptor, b"\1", size - 1)
    os.pwrite(lock.descriptor, b"\1", size - 24)
    begun = read_begun(lock.descriptor, INCARNATION)
    lock.close()
    assert not begun.whole
