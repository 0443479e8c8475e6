"""What the figures were measured on, and a folder on its real disk to measure in."""

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

ROOT = Path(__file__).parents[1]
IN_MEMORY = ("tmpfs", "ramfs")
SYNCS = 200


def file_system_of(folder: Path) -> str:
    """The type of the file system that holds a folder."""
    best, found = "", "unknown"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        mounted = left.split()[4]
        inside = mounted == "/" or f"{folder.resolve()}/".startswith(f"{mounted}/")
        if inside and len(mounted) >= len(best):
            best, found = mounted, right.split()[0]
    return found


def on_disk() -> Path:
    """Where temporary files lie, unless that is memory: there a sync costs nothing."""
    places = (Path(tempfile.gettempdir()), Path("/var/tmp"), ROOT)
    usable = [place for place in places if os.access(place, os.W_OK)]
    return next((place for place in usable if file_system_of(place) not in IN_MEMORY), usable[0])


@contextmanager
def empty_folder() -> Iterator[Path]:
    """A folder of its own on the disk, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="outlast-bench-", dir=on_disk()) as folder:
        yield Path(folder)


def sync_us(folder: Path) -> float:
    """What appending a page and syncing it takes, in the median."""
    times = []
    with open(folder / "sync", "wb", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def describe() -> str:
    """The machine in half a sentence."""
    return (
        f"{os.cpu_count()} cores ({processor()}), Linux {platform.release()},"
        f" Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()},"
        f" {file_system_of(on_disk())}"
    )


def conditions() -> str:
    """How fast the disk and how busy the machine is just now."""
    with empty_folder() as folder:
        sync = sync_us(folder)
    return f"{sync:.0f} µs, {os.getloadavg()[0]:.1f}"
