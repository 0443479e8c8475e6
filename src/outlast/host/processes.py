"""Processes: who one is, whether it lives, how it ended. Linux first, with fallbacks."""

import fcntl
import os
import struct
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from outlast.host import boot, proc_files

_PR_SET_PDEATHSIG = 1
# The kernel's record of a process, of which we want the mask at its head and the status at its end.
_PIDFD_INFO = struct.Struct("<Q52xi")
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_GET_INFO = (3 << 30) | (_PIDFD_INFO.size << 16) | (0xFF << 8) | 11


class ProcessIdentity(NamedTuple):
    """Which process this is, told apart from any other that ever had its pid."""

    host: str
    boot_id: str
    pid: int
    started: int
    pid_namespace: str


def process_stat(pid: int) -> tuple[str, int] | None:
    """The state letter and start time of a process, or None if there is none to be seen."""
    text = proc_files.read_text(f"/proc/{pid}/stat")
    if text is None:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19]) - boot.boottime_offset_ticks()


def process_is(pid: int, started: int) -> bool | None:
    """Whether that very process lives; None when this system cannot tell."""
    try:
        found = process_stat(pid) if Path(f"/proc/{pid}/stat").read_bytes() else None
    except FileNotFoundError:
        # Where other users' processes are hidden, not being seen proves nothing.
        return False if Path("/proc/1/stat").exists() else None
    except ProcessLookupError:
        return False
    except OSError:
        return None
    if found is None:
        return None
    # An offset that is no whole number of ticks may move a start time by one.
    most_ticks_off = 1 if boot.boottime_offset_ticks() else 0
    return abs(found[1] - started) <= most_ticks_off and found[0] not in "ZX"


def process_state_word(pid: int) -> str:
    """A word for a process that will not let go by itself, else nothing."""
    found = process_stat(pid)
    return "stopped" if found is not None and found[0] in "Tt" else ""


def pid_namespace() -> str:
    """Pids mean something only within one namespace."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "host"


def this_process() -> ProcessIdentity:
    """The identity of the calling process, read afresh so that a forked child is itself."""
    # Programs that never open a store need no sockets.
    import socket

    pid = os.getpid()
    found = process_stat(pid)
    started = found[1] if found else int(time.time())
    return ProcessIdentity(socket.gethostname(), boot.boot_id(), pid, started, pid_namespace())


def process_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when that process ends; None where there is no such thing.

    A dead process that nobody has reaped yet counts as ended.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def exit_signal(pid: int, started: int, descriptor: int | None = None) -> int | None:
    """The signal that ended a process; None if none did, or if nobody can tell any more.

    While its parent has not reaped it, its last entry in /proc says so; afterwards only a
    descriptor that was opened while it lived, and not before Linux 6.15.
    """
    status = _status_of_corpse(pid, started)
    if status is None and descriptor is not None:
        status = _status_by_descriptor(descriptor)
    return None if status is None else status & 0x7F or None


def _status_of_corpse(pid: int, started: int) -> int | None:
    found = process_stat(pid)
    if found is None or found[0] != "Z" or abs(found[1] - started) > 1:
        return None
    status = (proc_files.read_text(f"/proc/{pid}/stat") or "").split()[-1:]
    return int(status[0]) if status and status[0].isdigit() else None


def _status_by_descriptor(descriptor: int) -> int | None:
    answer = bytearray(_PIDFD_INFO.size)
    _PIDFD_INFO.pack_into(answer, 0, _PIDFD_INFO_EXIT, 0)
    try:
        fcntl.ioctl(descriptor, _PIDFD_GET_INFO, answer)
    except OSError:
        return None
    known, status = _PIDFD_INFO.unpack(answer)
    return status if known & _PIDFD_INFO_EXIT else None


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends; at once if it has ended already.

    The kernel means the thread that forked, so this is for parents with a single one. Without such
    a kernel nothing happens, and the caller has to notice by other means.
    """
    # Only processes that Outlast starts come here.
    import signal

    with suppress(AttributeError):
        c_library().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGKILL)


@cache
def c_library() -> Any:
    """What the standard library does not reach, loaded once; None where there is no such thing."""
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True)
    except (ImportError, OSError):
        return None
