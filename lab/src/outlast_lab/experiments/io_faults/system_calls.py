"""Between SQLite and the kernel: the system calls of its unix VFS, each of which can be failed.

SQLite lets them be replaced, so what it makes of an errno is its own. Only for processes that the
laboratory started: what is replaced stays replaced. Syncing is not among them; see `vfs.py`.
"""

import ctypes
import errno
import os
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_int64, c_short, c_size_t, c_ssize_t, c_void_p
from fcntl import F_UNLCK
from typing import Any

import apsw

from outlast_lab.experiments.io_faults.faults import ERRNO, LATE, SHORT, TORN, TORN_FULL
from outlast_lab.experiments.io_faults.switch import switch

Make = Callable[[Any], Callable[..., int]]

_LOCKING_COMMANDS = (6, 37)  # F_SETLK and F_OFD_SETLK
# How SQLite names files that it removes as soon as they are open.
_TEMPORARY = "etilqs_"
_MAP_FAILED = ctypes.c_void_p(-1).value
_kept: list[object] = []

removed: list[str] = []
"""The sorts of files that SQLite has removed in this process."""


def sort_of(path: str) -> str:
    """Which of the store's files a path is."""
    for end, sort in (("-wal", "wal"), ("-shm", "shm"), ("-journal", "journal")):
        if path.endswith(end):
            return sort
    is_temporary = " (deleted)" in path or os.path.basename(path).startswith(_TEMPORARY)
    return "temp" if is_temporary else "db"


def _file_of(descriptor: int) -> str:
    return sort_of(os.readlink(f"/proc/self/fd/{descriptor}"))


def _failing(how: str, value: int = -1) -> int:
    ctypes.set_errno(ERRNO[how])
    return value


def _by_path(kind: str) -> Make:
    """A call that names its file first, and is made or fails."""

    def make(real: Any) -> Callable[..., int]:
        def call(path: bytes, *details: int) -> int:
            how = switch.meet(f"{kind} {sort_of(os.fsdecode(path))}")
            return _failing(how) if how else int(real(path, *details))

        return call

    return make


def _by_descriptor(kind: str) -> Make:
    """The same of a file that is open."""

    def make(real: Any) -> Callable[..., int]:
        def call(descriptor: int, *details: int) -> int:
            how = switch.meet(f"{kind} {_file_of(descriptor)}")
            return _failing(how) if how else int(real(descriptor, *details))

        return call

    return make


def _read(real: Any) -> Callable[..., int]:
    def read(descriptor: int, data: int, length: int, offset: int) -> int:
        how = switch.meet(f"read {_file_of(descriptor)}")
        if how == SHORT:
            # Nothing, without an error: SQLite takes what it did not get for zeros.
            return 0
        return _failing(how) if how else int(real(descriptor, data, length, offset))

    return read


def _write(real: Any) -> Callable[..., int]:
    def write(descriptor: int, data: int, length: int, offset: int) -> int:
        how = switch.meet(f"write {_file_of(descriptor)}")
        if how in (TORN, TORN_FULL):
            real(descriptor, data, length // 2, offset)
        elif how in (LATE, None):
            written = int(real(descriptor, data, length, offset))
            if how is None:
                return written
        return _failing(how)

    return write


def _delete(real: Any) -> Callable[..., int]:
    def delete(path: bytes) -> int:
        sort = sort_of(os.fsdecode(path))
        how = switch.meet(f"delete {sort}")
        if how:
            return _failing(how)
        removed.append(sort)
        return int(real(path))

    return delete


def _map(real: Any) -> Callable[..., int]:
    def map_file(at: int, length: int, *details: int) -> int:
        how = switch.meet(f"map {_file_of(details[2])}")
        if how:
            ctypes.set_errno(errno.ENOMEM)
            return _MAP_FAILED or 0
        return int(real(at, length, *details))

    return map_file


def _lock(real: Any) -> Callable[..., int]:
    def control(descriptor: int, command: int, argument: int) -> int:
        # To let go of a lock never fails on a file that is open.
        if command in _LOCKING_COMMANDS and c_short.from_address(argument).value != F_UNLCK:
            how = switch.meet(f"lock {_file_of(descriptor)}")
            if how:
                return _failing(how)
        return int(real(descriptor, command, argument))

    return control


def _folder(real: Any) -> Callable[..., int]:
    def open_folder(path: bytes, descriptor: int) -> int:
        # Not a system call but a function of SQLite's, which answers with a code of its own.
        if switch.meet("folder db"):
            return int(apsw.SQLITE_CANTOPEN)
        return int(real(path, descriptor))

    return open_folder


# What each returns, what it takes, and what takes its place.
_CALLS: dict[str, tuple[Any, tuple[Any, ...], Make]] = {
    "open": (c_int, (c_char_p, c_int, c_int), _by_path("open")),
    "pread64": (c_ssize_t, (c_int, c_void_p, c_size_t, c_int64), _read),
    "pwrite64": (c_ssize_t, (c_int, c_void_p, c_size_t, c_int64), _write),
    "ftruncate": (c_int, (c_int, c_int64), _by_descriptor("truncate")),
    "fstat": (c_int, (c_int, c_void_p), _by_descriptor("size")),
    "stat": (c_int, (c_char_p, c_void_p), _by_path("look")),
    "unlink": (c_int, (c_char_p,), _delete),
    "mmap": (c_void_p, (c_void_p, c_size_t, c_int, c_int, c_int, c_int64), _map),
    "fcntl": (c_int, (c_int, c_int, c_void_p), _lock),
    "openDirectory": (c_int, (c_char_p, c_void_p), _folder),
}


def stand_between(vfs: apsw.VFS) -> None:
    """Replace the system calls of this process's SQLite."""
    for name, (result, arguments, make) in _CALLS.items():
        signature = ctypes.CFUNCTYPE(result, *arguments, use_errno=True)
        found = vfs.xGetSystemCall(name)
        if found is None:
            raise RuntimeError(f"this SQLite has no system call {name}")
        real = signature(found)
        callback = signature(make(real))
        pointer = ctypes.cast(callback, c_void_p).value
        if pointer is None or not vfs.xSetSystemCall(name, pointer):
            raise RuntimeError(f"this SQLite does not let its system call {name} be replaced")
        _kept.extend((real, callback))
