"""Between Outlast and the kernel: what it does itself to the files beside the database.

Python tells of such calls before it makes them, by audit events, and an error that is raised
there is the call's. Two calls are not told of and are replaced. Both cannot be undone, so this is
for the process of a single case.
"""

import errno
import os
import struct
import sys
from collections.abc import Callable
from fcntl import F_UNLCK, LOCK_UN
from pathlib import Path
from typing import Any

from outlast_lab.io_faults.faults import ERRNO
from outlast_lab.io_faults.switch import switch

_LOCKING_COMMANDS = (6, 37)  # F_SETLK and F_OFD_SETLK
_SORT_OF_LOCK = struct.Struct("=h")


def _by_path(arguments: tuple[Any, ...]) -> str | None:
    path = arguments[0]
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else None


def _by_descriptor(arguments: tuple[Any, ...]) -> str | None:
    return os.readlink(f"/proc/self/fd/{arguments[0]}")


# To let go of a lock never fails on a file that is open, and so it does not here.


def _locking(arguments: tuple[Any, ...]) -> str | None:
    return None if arguments[1] & LOCK_UN else _by_descriptor(arguments)


def _locking_a_range(arguments: tuple[Any, ...]) -> str | None:
    if arguments[1] not in _LOCKING_COMMANDS or _SORT_OF_LOCK.unpack_from(arguments[2]) == (
        F_UNLCK,
    ):
        return None
    return _by_descriptor(arguments)


# For each audit event: the kind of call, and whose path it concerns, if any.
_EVENTS: dict[str, tuple[str, Callable[[tuple[Any, ...]], str | None]]] = {
    "open": ("side-open", _by_path),
    "fcntl.flock": ("side-lock", _locking),
    "fcntl.fcntl": ("side-lock", _locking_a_range),
    "os.mkdir": ("side-folder", _by_path),
    "os.rename": ("side-rename", _by_path),
    "os.remove": ("side-remove", _by_path),
    "mmap.__new__": ("side-map", _by_descriptor),
}


def watch(database: Path) -> None:
    """Let the calls on files of this store be counted and failed from now on."""
    folder = str(database.parent)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        known = _EVENTS.get(event)
        if known is not None:
            kind, whose = known
            _meet(kind, whose(arguments))

    def _meet(kind: str, path: str | None) -> None:
        if path is None or not path.startswith(folder):
            return
        how = switch.meet(f"{kind} {_sort_of(path, folder)}")
        if how is not None:
            code = errno.ENOLCK if kind == "side-lock" else ERRNO[how]
            raise OSError(code, os.strerror(code), path)

    def telling(kind: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(descriptor: int, *details: int) -> None:
            _meet(kind, os.readlink(f"/proc/self/fd/{descriptor}"))
            real(descriptor, *details)

        return call

    os.fsync = telling("side-sync", os.fsync)
    os.posix_fallocate = telling("side-allocate", os.posix_fallocate)
    sys.addaudithook(hook)


def _sort_of(path: str, folder: str) -> str:
    """Which of the files beside the database a path is, without what differs from run to run."""
    name = os.path.basename(path)
    for sort in ("openers", "gate", "wake", "workers"):
        if name == sort:
            return sort
    parent = os.path.basename(os.path.dirname(path))
    if parent in ("workers", "wake"):
        return {"workers": "lockfile", "wake": "socket"}[parent]
    if name.endswith("-outlast"):
        return "side"
    for end in ("-wal", "-shm"):
        if name.endswith(end):
            return end[1:]
    return "above" if len(path) <= len(folder) else "db"
