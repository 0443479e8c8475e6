"""The process that fills a real file system, or meets the largest file it may write.

It is given a mount namespace of its own, so that nobody else sees the file system and it goes with
the process. What is left of the store is copied out before that.
"""

import ctypes
import json
import logging
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from outlast.app.app import Outlast
from outlast_lab.history import Line, LineFile
from outlast_lab.io_faults.trial import NOTE, UnderWay, go_on
from outlast_lab.lives import SETTINGS, nth
from outlast_lab.set_clock import SetClock
from outlast_lab.witness import Witness

DATABASE = "work.db"
PATIENCE_SECONDS = 60
NOT_ALLOWED = 77

_OWN_USERS, _OWN_MOUNTS = 0x10000000, 0x00020000
_PRIVATE = 0x44000
_DISK_BYTES = 8 << 20
_MOST_TASKS = 400

Free = Callable[[], None]


def mount_a_disk(place: Path) -> bool:
    """Whether a small file system of our own lies there now."""
    libc = ctypes.CDLL(None)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_OWN_MOUNTS if uid == 0 else _OWN_MOUNTS | _OWN_USERS) != 0:
        return False
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")
    return bool(
        libc.mount(b"none", b"/", None, _PRIVATE, None) == 0
        and libc.mount(b"tmpfs", bytes(place), b"tmpfs", 0, f"size={_DISK_BYTES}".encode()) == 0
    )


def leave_free(place: Path, free_bytes: int) -> Free:
    """Fill the disk but for so many bytes; returns what gives the space back."""
    filling = place / "filling"
    with open(filling, "wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, _DISK_BYTES - free_bytes)
    return filling.unlink


def limit_files(most_bytes: int) -> Free:
    """No file of this process may grow larger; returns what lifts that."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def fill(path: Path, record: str, free: Free) -> None:
    """Store tasks until there is no room, try everything else there, free some, go on."""
    lines: list[Line] = []
    under_way = UnderWay(lines.append)
    clock = SetClock()
    app = Outlast(path, settings=SETTINGS, clock=clock)
    one = Witness(app, "a", under_way.write, clock)
    refused = 0
    for number in range(_MOST_TASKS):
        stored = one.enqueue(f"t-{number}", "x" * (500 if number % 3 else 9000))
        refused += stored is None
        if refused > 2:
            break
    lines.append([NOTE, "stored", number + 1 - refused])
    _try_everything(one)
    free()
    lines.append([NOTE, "struck", ["enqueue"] * refused])
    lines.append([NOTE, "openings", go_on([(app, clock)], under_way)])
    # Only now: the limit concerns every file of this process, its record too.
    file = LineFile(record)
    for line in lines:
        file.write(line)
    os._exit(0)


def _try_everything(one: Witness) -> None:
    """On a full disk each of these is done or refused, whichever; and is as it was said."""
    leases = one.claim(limit=5)
    one.renew(nth(leases, 0))
    one.checkpoint(nth(leases, 0), "tool_executed", {"large": "y" * 3000})
    one.complete(nth(leases, 0), {"n": 1})
    one.complete(nth(leases, 1), "z" * 20_000)
    one.fail(nth(leases, 2), "try again")
    one.release(nth(leases, 3))
    one.cancel("t-7")
    for mode in ("passive", "truncate"):
        one.flush(mode)
        one.enqueue_many([f"{mode} {n}" for n in range(50)], ["w" * 1000] * 50)
    one.complete_many([(lease, "at last") for lease in leases[4:]])
    one.heal()


def main() -> int:
    """Arguments: sort of limit, its size in KiB, the folder to work in."""
    sort, kib, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    logging.disable(logging.CRITICAL)
    place = folder / "disk"
    place.mkdir()
    if sort == "disk" and not mount_a_disk(place):
        return NOT_ALLOWED
    record = str(folder / "history.jsonl")
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE_SECONDS)
        lift = leave_free(place, kib << 10) if sort == "disk" else limit_files(kib << 10)
        fill(place / DATABASE, record, lift)
    status = os.waitpid(pid, 0)[1]
    shutil.copytree(place, folder / "store", ignore=shutil.ignore_patterns("filling", "wake"))
    sys.stdout.write(json.dumps({"status": status}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
