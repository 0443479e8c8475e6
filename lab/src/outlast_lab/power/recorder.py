"""Standing between SQLite and its file system: every change of a file is done, then written down.

For child processes only: the recorder becomes the default file system of the process and stays
it. Reading, locking and shared memory pass through to the file system of SQLite untouched.
"""

import os
import threading
from pathlib import Path
from typing import Any

import apsw

from outlast_lab.power.recording import (
    CREATE,
    DELETE,
    FOLDER,
    MAKE_FOLDER,
    SYNC,
    TRUNCATE,
    WRITE,
    Event,
    EventLog,
)

BASE = "unix"

# SQLite opens the folder and syncs it inside the first sync of such a file, if the file was opened
# to be created. Nothing of that passes through a file system's methods; strace shows it.
_SYNCS_ITS_FOLDER = (
    apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
)

Name = str | apsw.URIFilename | None


class _Recorder:
    """The log, and the lock that makes doing a thing and writing it down one step."""

    def __init__(self, database: Path, log: EventLog) -> None:
        self.folders = [str(folder) for folder in database.parents]
        self.prefix = str(database)
        self.add = log.add
        self.lock = threading.RLock()

    def is_ours(self, path: str) -> bool:
        return path.startswith(self.prefix)


class _File(apsw.VFSFile):
    """A file whose changes are written down."""

    def __init__(self, recorder: _Recorder, name: Name, flags: list[int], path: str) -> None:
        self._recorder = recorder
        self._name = os.path.basename(path)
        self._is_folder_due = bool(
            flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _SYNCS_ITS_FOLDER
        )
        super().__init__(BASE, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        """Write, then say so."""
        with self._recorder.lock:
            super().xWrite(data, offset)
            self._recorder.add(Event(WRITE, self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        """Truncate, then say so."""
        with self._recorder.lock:
            super().xTruncate(newsize)
            self._recorder.add(Event(TRUNCATE, self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Sync, then say so; the folder too, where SQLite does that."""
        with self._recorder.lock:
            super().xSync(flags)
            self._recorder.add(Event(SYNC, self._name))
            if self._is_folder_due:
                self._recorder.add(Event(FOLDER))
                self._is_folder_due = False


class _FileSystem(apsw.VFS):
    """SQLite's own file system, with a record."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder
        super().__init__("outlast-recorder", base=BASE, makedefault=True)

    def xOpen(self, name: Name, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        """Open; whether that made the file is told by its absence before."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or not self._recorder.is_ours(path):
            return apsw.VFSFile(BASE, name, flags)
        with self._recorder.lock:
            is_new = not os.path.exists(path)
            file = _File(self._recorder, name, flags, path)
            if is_new and os.path.exists(path):
                self._recorder.add(Event(CREATE, os.path.basename(path)))
            return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Delete, then say so."""
        with self._recorder.lock:
            super().xDelete(filename, syncdir)
            if self._recorder.is_ours(filename):
                self._recorder.add(Event(DELETE, os.path.basename(filename)))
                if syncdir:
                    self._recorder.add(Event(FOLDER))


_kept: list[object] = []


def record(database: Path, log: EventLog) -> None:
    """Write down, from now on and to the process's end, what becomes of a database's files."""
    recorder = _Recorder(database, log)
    _watch_folders(recorder)
    _kept.append(_FileSystem(recorder))


def _watch_folders(recorder: _Recorder) -> None:
    """Outlast makes and syncs folders itself; that is all it does without SQLite that must last."""
    real_mkdir, real_fsync = os.mkdir, os.fsync

    def mkdir(path: str | Path, *arguments: Any, **options: Any) -> None:
        with recorder.lock:
            real_mkdir(path, *arguments, **options)
            if str(path) in recorder.folders:
                recorder.add(Event(MAKE_FOLDER, at=recorder.folders.index(str(path))))

    def fsync(descriptor: int) -> None:
        with recorder.lock:
            real_fsync(descriptor)
            name = os.readlink(f"/proc/self/fd/{descriptor}")
            if name in recorder.folders:
                recorder.add(Event(FOLDER, at=recorder.folders.index(name)))

    vars(os).update(mkdir=mkdir, fsync=fsync)
