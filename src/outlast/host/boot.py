"""Which boot of which machine this is, and how a time namespace shifts its clocks."""

import os
import time
from functools import lru_cache

from outlast.host import proc_files


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Names this boot of this kernel; monotonic times compare only within one."""
    text = proc_files.read_text("/proc/sys/kernel/random/boot_id")
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
def boottime_offset_ticks() -> int:
    """How far it shifts the start times of processes as it shows them."""
    return _offset_ns("boottime") * os.sysconf("SC_CLK_TCK") // 1_000_000_000


def _offset_ns(clock: str) -> int:
    for line in (proc_files.read_text("/proc/self/timens_offsets") or "").splitlines():
        name, _, rest = line.partition(" ")
        if name == clock:
            seconds, nanoseconds = rest.split()
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return 0
