"""Before a commit is sent and before it is acknowledged: are the files and the locks still ours?"""

import os
import random
import time
from contextlib import suppress
from pathlib import Path

from outlast import _host
from outlast.errors import StoreReplaced
from outlast.store.sqlite.files import is_settled

# SQLite's write lock is the first of the lock bytes it keeps in the wal-index file.
_WAL_WRITE_LOCK_OFFSET = 120
_WRITE_LOCK_QUESTION = _host.lock_question(_WAL_WRITE_LOCK_OFFSET)
# After write, checkpoint and recovery lock come those of the readers' marks.
_WAL_READ_LOCK_OFFSETS = range(123, 128)
_CANARY_BASE = 1 << 50

# What SQLite keeps locked while it has a WAL database open: a range of the main file, and a byte
# of the wal-index. We hold both a second time by locks that belong to a descriptor. A second copy
# of SQLite in this process then cannot take itself for the only user, which would empty the
# wal-index under our feet and remove the log when it closes.
_SHARED_RANGE = (0x40000002, 510)
_DMS_BYTE = (128, 1)

FileId = tuple[int, int]
FolderState = tuple[int, int, int]


def file_id(path: Path | str) -> FileId | None:
    """Device and inode of what lies at a path now."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _folder_state(folder: str) -> FolderState:
    """Which folder lies there, and when a name in it last changed."""
    try:
        found = os.stat(folder)
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_dev, found.st_ctime_ns)


class FileGuard:
    """Remembers which files were opened, and asks the kernel whether our locks on them stand.

    Closing any descriptor of a file drops all of a process's POSIX locks on it. A second copy of
    SQLite in this process, or `open(db).close()`, does just that, and the engine never learns.
    So we hold one more such lock far beyond the data, the canary, and look for it and for the
    write lock before each commit, through descriptors that SQLite itself opened.

    The anchors prevent the worst of it: a second time over, by locks that belong to a descriptor
    of ours and not to the process, we hold what tells others that the store is in use.
    """

    def __init__(self, database: Path, openers: Path) -> None:
        self._shm_path = f"{database}-shm"
        self._paths = (str(database), f"{database}-wal", self._shm_path, str(openers))
        self._anchors: dict[FileId, int] = {}
        self._ids: tuple[FileId | None, ...] = ()
        self._folders = (str(database.parent), str(openers.parent))
        self._folders_seen: tuple[FolderState, FolderState] | None = None
        self._shm_id: FileId | None = None
        self._descriptors: dict[FileId, int] = {}
        self._canary = _CANARY_BASE + random.SystemRandom().randrange(1 << 40)
        self._canary_question = _host.lock_question(self._canary)
        self._can_ask = _host.can_ask_for_lock_owner()

    def arm(self) -> None:
        """Remember the files as they are now that a connection has read from them."""
        self._folders_seen = None
        self._ids = tuple(file_id(path) for path in self._paths)
        self._shm_id = file_id(self._shm_path)
        self._descriptors.clear()
        main = self._ids[0]
        if self._can_ask:
            self._hold(self._paths[0], *_SHARED_RANGE)
            self._hold(self._shm_path, *_DMS_BYTE)
        if self._can_ask and main is not None:
            _host.lock_byte(self._descriptor(main), self._canary)

    def _hold(self, path: str, offset: int, length: int) -> None:
        found = file_id(path)
        if found is not None and found not in self._anchors:
            self._anchors[found] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            _host.anchor(self._anchors[found], offset, length)

    def release(self) -> None:
        """Let go of the files, once no connection of ours is open."""
        for descriptor in self._anchors.values():
            _host.unanchor(descriptor)
        self._anchors.clear()

    def abandon(self) -> None:
        """In a forked child: the parent has the same descriptors, and the locks stay with it."""
        for descriptor in self._anchors.values():
            os.close(descriptor)
        self._anchors.clear()

    def check_files(self) -> None:
        """Refuse to go on when database, WAL or openers' lock were replaced or removed.

        No name in a folder changes without the folder's own times, so most checks end there.
        """
        database_folder, side_folder = self._folders
        looked_at_ns = time.time_ns()
        seen = (_folder_state(database_folder), _folder_state(side_folder))
        if seen != self._folders_seen:
            self._look_closely(seen, looked_at_ns)

    def check_database(self) -> None:
        """Refuse to acknowledge when database or WAL were replaced or removed."""
        seen = self._folders_seen
        if seen is None or _folder_state(self._folders[0]) != seen[0]:
            self.check_files()

    def _look_closely(self, seen: tuple[FolderState, FolderState], looked_at_ns: int) -> None:
        self._folders_seen = None
        self._check_each_file()
        changed_ns = max(seen[0][2], seen[1][2])
        if changed_ns and is_settled(changed_ns, looked_at_ns):
            self._folders_seen = seen

    def _check_each_file(self) -> None:
        for path, remembered in zip(self._paths, self._ids, strict=True):
            if remembered != file_id(path):
                raise StoreReplaced(
                    f"{path} was replaced or removed while it was open; nothing was stored."
                    " Find out who touches the store's files; stdlib sqlite3 in this process does"
                )

    def database_is_there(self) -> bool:
        """Whether the main file itself is still the one that was opened."""
        return self._ids[0] == file_id(self._paths[0])

    def log_is_unlinked(self) -> bool:
        """Whether the WAL's name is gone, or another's, while all else is as we opened it."""
        return (
            file_id(self._paths[1]) != self._ids[1]
            and self.database_is_there()
            and self._shm_id == file_id(self._shm_path)
            and self.canary_stands()
        )

    def locks_stand(self) -> bool:
        """Whether the kernel still knows our write lock and our canary."""
        if not self._can_ask or self._shm_id is None:
            return True
        return self._ours(self._shm_id, _WRITE_LOCK_QUESTION) and self.canary_stands()

    def canary_stands(self) -> bool:
        """Whether the kernel still knows the lock that only the loss of all locks removes."""
        main = self._ids[0]
        return not self._can_ask or main is None or self._ours(main, self._canary_question)

    def writer_pid(self) -> int | None:
        """The process that holds the write lock at this moment."""
        if not self._can_ask or self._shm_id is None:
            return None
        owner = _host.lock_owner(self._descriptor(self._shm_id), _WAL_WRITE_LOCK_OFFSET)
        return owner.pid if owner else None

    def reader_pids(self) -> list[int]:
        """The processes seen to hold a reader's mark in the log at this moment."""
        if not self._can_ask or self._shm_id is None:
            return []
        shm = self._descriptor(self._shm_id)
        owners = [_host.lock_owner(shm, offset) for offset in _WAL_READ_LOCK_OFFSETS]
        return sorted({owner.pid for owner in owners if owner is not None})

    def _ours(self, file: FileId, question: bytes) -> bool:
        """Whether a lock of ours stands; a descriptor that says no is looked up anew first."""
        known = self._descriptors.get(file)
        if known is not None:
            with suppress(OSError):
                if _host.is_locked_by_us(known, question):
                    return True
        return _host.is_locked_by_us(self._descriptor(file), question)

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
        fresh = _host.descriptor_of(*file)
        if fresh is None:
            raise StoreReplaced("the store's files are no longer open in this process; reopen it")
        self._descriptors[file] = fresh
        return fresh
