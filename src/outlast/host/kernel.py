"""What only this host knows: boot, processes, mounts, kernel locks. Linux first, with fallbacks."""

import fcntl
import os
import select
import struct
import time
from collections.abc import Container, Iterable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_NETWORK_FILESYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs ncpfs 9p afs ceph coda glusterfs lustre orangefs pvfs2 gfs gfs2"
    " ocfs2 beegfs virtiofs fuse.sshfs fuse.glusterfs fuse.s3fs fuse.rclone fuse.cephfs"
    " fuse.davfs".split()
)

_FLOCK = "hhqqi4x"
GET_LOCK = getattr(fcntl, "F_OFD_GETLK", -1)
_FLOCK_ANSWER = struct.Struct(_FLOCK).unpack

_PR_SET_PDEATHSIG = 1
# The kernel's record of a process, of which we want the mask at its head and the status at its end.
_PIDFD_INFO = struct.Struct("<Q52xi")
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_GET_INFO = (3 << 30) | (_PIDFD_INFO.size << 16) | (0xFF << 8) | 11
_LOOKS_AT_LOCKS = 3


class ProcessIdentity(NamedTuple):
    """Which process this is, told apart from any other that ever had its pid."""

    host: str
    boot_id: str
    pid: int
    started: int
    pid_namespace: str


class LockOwner(NamedTuple):
    """The process that holds a kernel lock."""

    pid: int


def read_text(path: str) -> str | None:
    """The text of a small kernel file, or None where there is no such thing."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Names this boot of this kernel; monotonic times compare only within one."""
    text = read_text("/proc/sys/kernel/random/boot_id")
    if text:
        return text.strip()
    # Only hosts without /proc come here, and the module takes long to import.
    import uuid

    started_s = round(time.time() - time.monotonic(), -1)
    return f"{uuid.getnode():x}-{started_s:.0f}"


@lru_cache(maxsize=1)
def monotonic_offset_ms() -> int:
    """How far this process's time namespace shifts its monotonic clock from the host's."""
    return _offset_ns("monotonic") // 1_000_000


@lru_cache(maxsize=1)
def _boottime_offset_ticks() -> int:
    """How far it shifts the start times of processes as it shows them."""
    return _offset_ns("boottime") * os.sysconf("SC_CLK_TCK") // 1_000_000_000


def _offset_ns(clock: str) -> int:
    for line in (read_text("/proc/self/timens_offsets") or "").splitlines():
        name, _, rest = line.partition(" ")
        if name == clock:
            seconds, nanoseconds = rest.split()
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return 0


def process_stat(pid: int) -> tuple[str, int] | None:
    """The state letter and start time of a process, or None if there is none to be seen."""
    text = read_text(f"/proc/{pid}/stat")
    if text is None:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19]) - _boottime_offset_ticks()


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
    most_ticks_off = 1 if _boottime_offset_ticks() else 0
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
    return ProcessIdentity(socket.gethostname(), boot_id(), pid, started, pid_namespace())


def filesystem_type(path: Path) -> str | None:
    """The type of the file system that holds a path, from the kernel's mount table."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    inside = f"{path}/"
    best: tuple[int, str] | None = None
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if fields[2] == wanted or inside.startswith(fields[4].rstrip("/") + "/"):
            rank = (len(fields[4]) + (1 << 20 if fields[2] == wanted else 0), right.split()[0])
            best = max(best, rank) if best else rank
    return best[1] if best else None


def is_network_filesystem(kind: str | None) -> bool:
    """Whether locks on such a file system are somebody else's promise."""
    return kind in _NETWORK_FILESYSTEMS


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
    lines = (read_text("/proc/locks") or "").splitlines()
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
        lines = [line.split() for line in (read_text("/proc/locks") or "").splitlines()]
        if pids := {int(one[4]) for one in lines if one[1] == "FLOCK" and tail in one}:
            return sorted(pids)
    return []


def wait_until_readable(
    descriptors: Iterable[int], timeout_seconds: float, unsent: Container[int] = ()
) -> None:
    """Sleep until one of them has something to read, or room for what is `unsent`, or the time is
    up; their numbers may be as high as those of a busy process are."""
    poll = select.poll()
    for descriptor in descriptors:
        also = select.POLLOUT if descriptor in unsent else 0
        poll.register(descriptor, select.POLLIN | also)
    poll.poll(None if timeout_seconds == float("inf") else max(0.0, timeout_seconds) * 1000)


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
    status = (read_text(f"/proc/{pid}/stat") or "").split()[-1:]
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
