"""Locks on files as the kernel knows them: taken, asked for, and by whom they are held."""

import fcntl
import os
import struct
from pathlib import Path
from typing import NamedTuple

from outlast.host import proc_files

_FLOCK = "hhqqi4x"
GET_LOCK = getattr(fcntl, "F_OFD_GETLK", -1)
_FLOCK_ANSWER = struct.Struct(_FLOCK).unpack
_LOOKS_AT_LOCKS = 3


class LockOwner(NamedTuple):
    """The process that holds a kernel lock."""

    pid: int


def lock_owner(descriptor: int, offset: int, only_exclusive: bool = False) -> LockOwner | None:
    """Who holds a lock on one byte of a file, shared ones too unless they do not matter.

    Asking takes nothing and drops nothing.
    """
    kind = fcntl.F_RDLCK if only_exclusive else fcntl.F_WRLCK
    question = struct.pack(_FLOCK, kind, os.SEEK_SET, offset, 1, 0)
    answer = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, question))
    return None if answer[0] == fcntl.F_UNLCK else LockOwner(answer[4])


def lock_question(offset: int) -> bytes:
    """What is_locked_by_us asks about one byte; prepared, for it is asked at each commit."""
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)


def lock_answer(offset: int) -> bytes:
    """What the kernel answers while this process holds a lock on that one byte."""
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, offset, 1, os.getpid())


def is_locked_by_us(descriptor: int, question: bytes) -> bool:
    """Whether the kernel knows a lock of this process where the question asks."""
    answer = _FLOCK_ANSWER(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, question))
    return bool(answer[0] != fcntl.F_UNLCK and answer[4] == os.getpid())


def can_ask_for_lock_owner() -> bool:
    """Whether this system answers lock_owner at all."""
    return hasattr(fcntl, "F_OFD_GETLK") and Path("/proc/self/fd").is_dir()


def lock_byte(descriptor: int, offset: int) -> None:
    """Take a process-wide lock on one byte, as SQLite takes its own."""
    fcntl.fcntl(
        descriptor, fcntl.F_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
    )


def anchor(descriptor: int, offset: int, length: int) -> None:
    """Take a shared lock that belongs to the descriptor and not to the process.

    It stands against this process's own POSIX locks too, and no close of another descriptor of
    the file drops it.
    """
    lock = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, offset, length, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)


def unanchor(descriptor: int) -> None:
    """Give such a lock up, and the descriptor too unless its close would harm somebody.

    Closing drops every POSIX lock this process has on the file; where the caller's own apsw
    connection holds one, the descriptor stays open for good.
    """
    lock = struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
    found = os.fstat(descriptor)
    tail = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    ours = {"POSIX", str(os.getpid()), tail}
    lines = (proc_files.read_text("/proc/locks") or "").splitlines()
    if not any(ours <= set(line.split()) for line in lines):
        os.close(descriptor)


def descriptor_of(device: int, inode: int) -> int | None:
    """A descriptor this process already has on a file; opening another would endanger its locks."""
    for name in os.listdir("/proc/self/fd"):
        try:
            found = os.fstat(int(name))
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (device, inode):
            return int(name)
    return None


def flock_holders(path: Path) -> list[int]:
    """The pids that hold a flock on a file, as far as this process may see them."""
    try:
        found = path.stat()
    except OSError:
        return []
    tail = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    # The kernel shows its locks page by page: whoever locks and unlocks between two pages may hide
    # another's line.
    for _ in range(_LOOKS_AT_LOCKS):
        lines = [line.split() for line in (proc_files.read_text("/proc/locks") or "").splitlines()]
        if pids := {int(one[4]) for one in lines if one[1] == "FLOCK" and tail in one}:
            return sorted(pids)
    return []
