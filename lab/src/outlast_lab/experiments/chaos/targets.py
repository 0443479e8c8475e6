"""Processes that are struck: each by a descriptor, so that no signal ever reaches another process
that has got the pid of one that is gone; and whether those that stand still keep others out."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from outlast.host import proc_files
from outlast_lab.stage.process_table import (
    STANDING_STILL,
    descendants,
    is_store_process,
    states_of,
)

_STOP_SECONDS = 0.1
_LOOK_SECONDS = 0.001
# Where SQLite locks the byte in the shared memory's file without which nobody can write.
_WRITE_LOCK_OFFSET = 120


class Target(NamedTuple):
    """A process by pid and descriptor."""

    pid: int
    descriptor: int
    is_store_process: bool = False
    is_owned: bool = True
    """Whether the descriptor is closed by whoever lets the target go."""


def targets_below(pid: int) -> list[Target]:
    """The processes below one, as the kernel knows them now."""
    found: list[Target] = []
    for one in descendants(pid):
        with suppress(OSError):
            found.append(Target(one, os.pidfd_open(one), is_store_process(one)))
    # A pid that is still below it after the descriptor was opened was nobody else's in between.
    still = set(descendants(pid))
    let_go(one for one in found if one.pid not in still)
    return [one for one in found if one.pid in still]


def send(number: int, targets: Iterable[Target]) -> None:
    """A signal to those that are still there."""
    for one in targets:
        with suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(one.descriptor, number)


def let_go(targets: Iterable[Target]) -> None:
    """Close the descriptors that nobody needs any more."""
    for one in targets:
        if one.is_owned:
            os.close(one.descriptor)


def await_stop(targets: Iterable[Target]) -> None:
    """Until they stand still or are gone, for a moment at most."""
    ends_at = time.monotonic() + _STOP_SECONDS
    for one in targets:
        while not states_of(one.pid) <= STANDING_STILL and time.monotonic() < ends_at:
            time.sleep(_LOOK_SECONDS)


def keep_others_out(path: Path, targets: Iterable[Target]) -> bool:
    """Whether one of them has the lock that every writer of a store needs, or the gate's."""
    gate = _as_locked(path.with_name(f"{path.name}-outlast") / "gate")
    index = _as_locked(path.with_name(f"{path.name}-shm"))
    for one in targets:
        for kind, mode, file, first, last in _locks_of(one.pid):
            is_gate = (kind, file) == ("FLOCK", gate)
            is_write_lock = (kind, file) == ("POSIX", index) and first <= _WRITE_LOCK_OFFSET <= last
            if mode == "WRITE" and (is_gate or is_write_lock):
                return True
    return False


def _as_locked(path: Path) -> str | None:
    """How the kernel names a file where it tells of locks."""
    try:
        found = path.stat()
    except OSError:
        return None
    return f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"


def _locks_of(pid: int) -> Iterator[tuple[str, str, str, int, float]]:
    """By its descriptors: /proc/locks is read page by page, and misses some while others change."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fdinfo")
    except OSError:
        return
    for descriptor in descriptors:
        for line in (proc_files.read_text(f"/proc/{pid}/fdinfo/{descriptor}") or "").splitlines():
            if line.startswith("lock:"):
                _, _, kind, _, mode, _, file, first, last = line.split()
                yield kind, mode, file, int(first), float("inf") if last == "EOF" else int(last)
