"""A process's memory as the kernel sees it: peak, limit, and who is killed for want of it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outlast import _host

_OOM_SCORE_ADDED = 500


def peak_memory_bytes(pid: int | None = None) -> int | None:
    """The most memory a living process had resident, since its start or the last reset."""
    for line in (_host.read_text(f"/proc/{pid or 'self'}/status") or "").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    if pid is not None:
        return None
    import resource

    return maxrss_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def oom_kills() -> int | None:
    """How often this process's memory group, or else the machine, has killed for want of memory."""
    group = (_host.read_text("/proc/self/cgroup") or "").partition("::")[2].strip()
    own = _host.read_text(f"/sys/fs/cgroup{group}/memory.events") if group else None
    for line in (own or _host.read_text("/proc/vmstat") or "").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return None


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
        worse = min(int(_host.read_text(path) or 0) + _OOM_SCORE_ADDED, 1000)
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
