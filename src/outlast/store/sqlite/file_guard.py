"""Before a commit is sent and before it is acknowledged: are the files and the locks still ours?"""

import os
import random
import time
from contextlib import suppress
from fcntl import fcntl
from os import stat
from pathlib import Path
from time import monotonic
from typing import ClassVar

from outlast.errors import StoreError, StoreReplaced
from outlast.host import file_locks, processes
from outlast.host.file_locks import GET_LOCK
from outlast.store.sqlite.side_folder.side_folder import is_settled

# SQLite's write lock is the first of the lock bytes it keeps in the wal-index file.
_WAL_WRITE_LOCK_OFFSET = 120
_WRITE_LOCK_QUESTION = file_locks.lock_question(_WAL_WRITE_LOCK_OFFSET)
# After write, checkpoint and recovery lock come those of the readers' marks.
_WAL_READ_LOCK_OFFSETS = range(123, 128)
# Whoever has one of these to itself keeps others from writing, who need a mark of their own; the
# first one they can do without.
_WAL_LOCKS_IN_THE_WAY = (_WAL_WRITE_LOCK_OFFSET, *_WAL_READ_LOCK_OFFSETS[1:])
_CANARY_BASE = 1 << 50

# A descriptor, what to ask of it, and what the kernel answers while our lock stands; twice.
_Questions = tuple[int, bytes, bytes, int, bytes, bytes]

# What SQLite keeps locked while it has a WAL database open: a range of the main file, and a byte
# of the wal-index. We hold both a second time by locks that belong to a descriptor. A second copy
# of SQLite in this process then cannot take itself for the only user, which would empty the
# wal-index under our feet and remove the WAL when it closes.
_SHARED_RANGE = (0x40000002, 510)
_DMS_BYTE = (128, 1)

FileId = tuple[int, int]

# Device and inode of the database's folder, when a name in it last changed, and the same of the
# side folder. Nothing has these times, so a closer look is due.
_NEVER_SEEN = (0, 0, 0, 0)


def file_id(path: Path | str) -> FileId | None:
    """Device and inode of what lies at a path now."""
    found = _found(path)
    return None if found is None else _id_of(found)


def _found(path: Path | str) -> os.stat_result | None:
    try:
        return stat(path)
    except OSError:
        return None


def _id_of(found: os.stat_result) -> FileId:
    return found.st_dev, found.st_ino


class FileGuard:
    """Remembers which files were opened, and asks the kernel whether our locks on them stand.

    Closing any descriptor of a file drops all of a process's POSIX locks on it. A second copy of
    SQLite in this process, or `open(db).close()`, does just that, and the engine never learns.
    So we hold one more such lock far beyond the data, the canary, and look for it and for the
    write lock before each commit, through descriptors that SQLite itself opened.

    The anchors prevent the worst of it: a second time over, by locks that belong to a descriptor
    of ours and not to the process, we hold what tells others that the store is in use.
    """

    # How long a caller that comes straight back may begin without asking anew: what has happened
    # to the files since is found before it is answered.
    recent_seconds: ClassVar[float] = 0.001

    def __init__(self, database: Path, openers: Path) -> None:
        self._shm_path = f"{database}-shm"
        self._paths = (str(database), f"{database}-wal", self._shm_path, str(openers))
        self._anchors: dict[FileId, int] = {}
        self._ids: tuple[FileId | None, ...] = ()
        self._folder, self._side_folder = str(database.parent), str(openers.parent)
        self._seen = _NEVER_SEEN
        self.recent_until = 0.0
        """Until then the last word that nothing has changed is a recent one."""
        self._shm_id: FileId | None = None
        self._descriptors: dict[FileId, int] = {}
        self._canary = _CANARY_BASE + random.SystemRandom().randrange(1 << 40)
        self._canary_question = file_locks.lock_question(self._canary)
        self._can_ask = file_locks.can_ask_for_lock_owner()
        self._questions: _Questions | None = None

    def arm(self) -> None:
        """Remember the files as they are now that a connection has read from them."""
        self._seen, self.recent_until = _NEVER_SEEN, 0.0
        self._ids = tuple(file_id(path) for path in self._paths)
        self._shm_id = file_id(self._shm_path)
        self._descriptors.clear()
        self._questions = None
        main = self._ids[0]
        if self._can_ask:
            self._hold(self._paths[0], *_SHARED_RANGE)
            self._hold(self._shm_path, *_DMS_BYTE)
        if self._can_ask and main is not None:
            file_locks.lock_byte(self._descriptor(main), self._canary)

    def _hold(self, path: str, offset: int, length: int) -> None:
        found = file_id(path)
        if found is not None and found not in self._anchors:
            self._anchors[found] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            file_locks.anchor(self._anchors[found], offset, length)

    def release(self) -> None:
        """Let go of the files, once no connection of ours is open."""
        for descriptor in self._anchors.values():
            file_locks.unanchor(descriptor)
        self._anchors.clear()

    def abandon(self) -> None:
        """In a forked child: the parent has the same descriptors, and the locks stay with it."""
        for descriptor in self._anchors.values():
            os.close(descriptor)
        self._anchors.clear()

    def check_files(self) -> None:
        """Refuse to go on, or to acknowledge, when a file was replaced or removed.

        They are database, WAL, wal-index and openers' lock. Most checks end with the times of
        what lies at the paths of their folders now.
        """
        device, inode, changed_ns, side_changed_ns = self._seen
        try:
            found, side = stat(self._folder), stat(self._side_folder)
            if (
                found.st_ctime_ns == changed_ns
                and side.st_ctime_ns == side_changed_ns
                and found.st_ino == inode
                and found.st_dev == device
            ):
                self.recent_until = monotonic() + self.recent_seconds
                return
        except OSError:
            self._seen = _NEVER_SEEN
        self._look_closely()

    def _look_closely(self) -> None:
        """Check each file; the folders' times are trusted if no later change can have them."""
        self._seen = _NEVER_SEEN
        looked_at_ns = time.time_ns()
        found, side = _found(self._folder), _found(self._side_folder)
        self._check_each_file()
        if found is None or side is None:
            return
        if is_settled(max(found.st_ctime_ns, side.st_ctime_ns), looked_at_ns):
            self._seen = (found.st_dev, found.st_ino, found.st_ctime_ns, side.st_ctime_ns)

    def _check_each_file(self) -> None:
        for path, remembered in zip(self._paths, self._ids, strict=True):
            if remembered != file_id(path):
                raise StoreReplaced(
                    f"{path} was replaced or removed while it was open; nothing was stored."
                    " Find out who touches the store's files; stdlib sqlite3 in this process may"
                )

    def database_is_there(self) -> bool:
        """Whether the main file itself is still the one that was opened."""
        return self._ids[0] == file_id(self._paths[0])

    def who_reads(self) -> tuple[str, bool]:
        """Who keeps the WAL from being moved, in words, and whether it is nobody but ourselves."""
        try:
            pids = self.reader_pids()
        except StoreReplaced:
            return "", False
        names = ["this process" if pid == os.getpid() else f"process {pid}" for pid in pids]
        words = f", for an old state of it is being read by {' and '.join(names)}" if pids else ""
        return words, pids == [os.getpid()]

    def log_is_unlinked(self) -> bool:
        """Whether the WAL's name is gone, or another's, while all else is as we opened it.

        The wal-index's name may be free: who was there shares the old one with us, and nobody has
        come since, for he would have made another.
        """
        return (
            file_id(self._paths[1]) != self._ids[1]
            and self.database_is_there()
            and file_id(self._shm_path) in (self._shm_id, None)
            and self.canary_stands()
        )

    def locks_stand(self) -> bool:
        """Whether the kernel still knows our write lock and our canary."""
        if self._questions is not None:
            shm, write_lock, expected, main, canary, canary_expected = self._questions
            try:
                if (
                    fcntl(shm, GET_LOCK, write_lock) == expected
                    and fcntl(main, GET_LOCK, canary) == canary_expected
                ):
                    return True
            except OSError:
                pass
        return self._locks_stand_on_a_closer_look()

    def _locks_stand_on_a_closer_look(self) -> bool:
        self._questions = None
        main, shm = self._ids[0], self._shm_id
        if not self._can_ask or shm is None:
            return True
        stand = self._ours(shm, _WRITE_LOCK_QUESTION) and self.canary_stands()
        if stand and main is not None:
            write_lock, canary = map(file_locks.lock_answer, (_WAL_WRITE_LOCK_OFFSET, self._canary))
            self._questions = (
                self._descriptors[shm], _WRITE_LOCK_QUESTION, write_lock,
                self._descriptors[main], self._canary_question, canary,
            )  # fmt: skip
        return stand

    def canary_stands(self) -> bool:
        """Whether the kernel still knows the lock that only the loss of all locks removes."""
        main = self._ids[0]
        return not self._can_ask or main is None or self._ours(main, self._canary_question)

    def blocker_pid(self) -> int | None:
        """The process that keeps others from writing now; one that is stopped, if there is one."""
        if not self._can_ask or self._shm_id is None:
            return None
        shm = self._descriptor(self._shm_id)
        owners = (
            file_locks.lock_owner(shm, at, only_exclusive=True) for at in _WAL_LOCKS_IN_THE_WAY
        )
        pids = [owner.pid for owner in owners if owner]
        # The writer itself may be waiting for one that has a mark and was stopped.
        return next(
            (pid for pid in pids if processes.process_state_word(pid)), next(iter(pids), None)
        )

    def reader_pids(self) -> list[int]:
        """The processes seen to hold a reader's mark in the WAL at this moment."""
        if not self._can_ask or self._shm_id is None:
            return []
        shm = self._descriptor(self._shm_id)
        owners = [file_locks.lock_owner(shm, offset) for offset in _WAL_READ_LOCK_OFFSETS]
        return sorted({owner.pid for owner in owners if owner is not None})

    def _ours(self, file: FileId, question: bytes) -> bool:
        """Whether a lock of ours stands; a descriptor that says no is looked up anew first."""
        known = self._descriptors.get(file)
        if known is not None:
            with suppress(OSError):
                if file_locks.is_locked_by_us(known, question):
                    return True
        return file_locks.is_locked_by_us(self._descriptor(file), question)

    def _descriptor(self, file: FileId) -> int:
        """SQLite's own descriptor of a file; looked up again if it was closed under us."""
        known = self._descriptors.get(file)
        if known is not None:
            try:
                found = os.fstat(known)
                if (found.st_dev, found.st_ino) == file:
                    return known
            except OSError:
                pass
        try:
            fresh = file_locks.descriptor_of(*file)
        except OSError as error:
            raise StoreError(
                f"this process cannot see its own open files ({error.strerror}), so whether it has"
                " the store's locks is not known; give it more memory and try again"
            ) from error
        if fresh is None:
            raise StoreReplaced("the store's files are no longer open in this process; reopen it")
        self._descriptors[file] = fresh
        return fresh
