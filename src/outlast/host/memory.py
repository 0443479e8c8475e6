"""A process's memory as the kernel sees it: peak, limit, and who is killed for want of it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from outlast.host import proc_files

CGROUPS = "/sys/fs/cgroup"
# The kernel's number for the group that holds all others, and so for the machine.
_WHOLE_MACHINE = 1
_OOM_SCORE_ADDED = 500


class OomKills(NamedTuple):
    """How often the kernel has killed for want of memory, and in which group of processes."""

    group: int
    """The kernel's number of the group: what one is called differs by who looks at it, and within
    their containers many are called `/`."""
    kills: int


def peak_memory_bytes(pid: int | None = None) -> int | None:
    """The most memory a living process had resident, since its start or the last reset."""
    for line in (proc_files.read_text(f"/proc/{pid or 'self'}/status") or "").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    if pid is not None:
        return None
    import resource

    return maxrss_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def oom_kills() -> OomKills | None:
    """How often this process's memory group, or else the machine, has killed for want of memory."""
    group = f"{CGROUPS}{own_group()}"
    own = proc_files.read_text(f"{group}/memory.events")
    for line in (own or proc_files.read_text("/proc/vmstat") or "").splitlines():
        if line.startswith("oom_kill "):
            return OomKills(_number(group) if own else _WHOLE_MACHINE, int(line.split()[1]))
    return None


def _number(group: str) -> int:
    """The kernel's number of a group; 0 if it is gone, which is no group's."""
    try:
        return Path(group).stat().st_ino
    except OSError:
        return 0


def own_group() -> str:
    """The path of this process's group, as the unified hierarchy shows it to this process."""
    return (proc_files.read_text("/proc/self/cgroup") or "").partition("0::")[2].strip()


def maxrss_bytes(maxrss: int) -> int:
    """What the kernel calls ru_maxrss, in bytes: Linux counts KiB, macOS bytes."""
    return maxrss if sys.platform == "darwin" else maxrss * 1024


def reset_peak_memory() -> None:
    """Let this process's peak begin anew with what is resident now, where the kernel can do it."""
    try:
        Path("/proc/self/clear_refs").write_bytes(b"5")
    except OSError:
        return


def prefer_for_oom_kill() -> None:
    """Have a system that is out of memory end this process rather than an average one."""
    path = "/proc/self/oom_score_adj"
    try:
        worse = min(int(proc_files.read_text(path) or 0) + _OOM_SCORE_ADDED, 1000)
        Path(path).write_text(str(worse), encoding="ascii")
    except (OSError, ValueError):
        return


@contextmanager
def memory_limit(limit_bytes: int | None) -> Iterator[None]:
    """Refuse this process private memory beyond a limit for as long as the block lasts.

    RLIMIT_DATA counts what is writable and private, which is close to what is in use. RLIMIT_AS
    counts reserved addresses too: under 256 MiB the fifth thread could not start, with 14 MiB used.
    """
    if limit_bytes is None:
        yield
        return
    import resource

    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    soft, hard = resource.getrlimit(kind)
    most = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    resource.setrlimit(kind, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))
