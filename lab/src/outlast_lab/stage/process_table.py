"""What the kernel tells of processes: who is below one, who stands still, who has ended."""

import os
from contextlib import suppress

from outlast.host import proc_files, processes

STANDING_STILL = frozenset("TtZX")


def descendants(pid: int) -> list[int]:
    """The processes below one; nobody is below one that is gone."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            children = proc_files.read_text(f"/proc/{pid}/task/{thread}/children") or ""
            for child in map(int, children.split()):
                found += [child, *descendants(child)]
    return found


def states_of(pid: int) -> set[str]:
    """The states of a process's threads, by the kernel's letters; none once it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return set()
    texts = [proc_files.read_text(f"/proc/{pid}/task/{thread}/stat") for thread in threads]
    return {text.rpartition(")")[2].split()[0] for text in texts if text is not None}


def has_ended(pid: int) -> bool:
    """Whether it is gone, or a corpse that nobody has buried yet."""
    found = processes.process_stat(pid)
    return found is None or found[0] in "ZX"


def is_store_process(pid: int) -> bool:
    """Whether a process speaks to the store for a worker."""
    command = proc_files.read_text(f"/proc/{pid}/cmdline") or ""
    return "outlast.app.store_process_main" in command


def store_process_below(pid: int) -> int | None:
    """The store process of a worker, if there is one that has not ended."""
    below = (one for one in descendants(pid) if is_store_process(one))
    return next((one for one in below if not has_ended(one)), None)
