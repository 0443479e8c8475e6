"""What a worker costs that has nothing to do, or only leases to renew; and a busy one its peers.

A worker and its store process are two processes: memory is what both have for themselves and their
share of what they have in common (PSS), processor time is that of both.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.load import Sizes
from bench.machine import ROOT, empty_folder
from bench.paired import Ratio, summary
from bench.results import Row, at_most
from outlast import Outlast

T = TypeVar("T")

SECONDS = 10.0
# As many beats as ten minutes have where one comes every thirty seconds.
BEATING_SECONDS = 20.0
LEASES = 50
BURNERS = 7
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PROGRAM = """
import sys
from outlast import Outlast, Settings
beat = float(sys.argv[3])
settings = Settings(heartbeat_interval_seconds=beat, lease_seconds=300)
app = Outlast(sys.argv[1], settings=settings)

def say(word):
    # In one piece, for several threads speak.
    sys.stdout.write(word + "\\n")
    sys.stdout.flush()

@app.task
def rest(ctx):
    say("resting")
    ctx.wait(3600)

@app.task
def burn(ctx):
    say("burning")
    while not (ctx.cancelled or ctx.stopping):
        sum(range(1000))

@app.task
def trickle() -> None:
    pass

say("made")
app.worker(concurrency=int(sys.argv[2]), shutdown="100ms").run()
"""


def start(path: Path, concurrency: int, beat_seconds: float) -> "subprocess.Popen[str]":
    arguments = [str(path), str(concurrency), str(beat_seconds)]
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    _heard(child, "made")
    return child


def _heard(child: "subprocess.Popen[str]", word: str, times: int = 1) -> None:
    assert child.stdout is not None
    for _ in range(times):
        assert child.stdout.readline() == f"{word}\n", f"the worker never said {word}"


def crew_of(child: "subprocess.Popen[str]") -> list[int]:
    """The worker and its store process."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        listed = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        if listed:
            return [child.pid, *map(int, listed)]
        time.sleep(0.05)
    raise TimeoutError("the worker has no store process")


def pss_mb(pids: list[int]) -> float:
    lines = [
        line
        for pid in pids
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        if line.startswith("Pss:")
    ]
    return sum(int(line.split()[1]) for line in lines) * 1024 / 1e6


def cpu_seconds(pids: list[int]) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / TICKS_PER_SECOND


def percent_of(pids: list[int], seconds: float = SECONDS) -> float:
    before, began = cpu_seconds(pids), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_seconds(pids) - before) / (time.monotonic() - began)


def idle(folder: Path) -> tuple[float, float]:
    """Memory in MB and processor time in percent of a worker that waits for work."""
    child = start(folder / "work.db", 8, 30)
    try:
        pids = crew_of(child)
        time.sleep(2)
        return pss_mb(pids), percent_of(pids)
    finally:
        _end(child)


def beating(folder: Path, seconds: float = BEATING_SECONDS, beat_seconds: float = 1) -> float:
    """Percent of a processor for fifty leases, renewed every second instead of every thirty."""
    path = folder / "work.db"
    with Outlast(path) as app:
        app.enqueue_many("rest", [{}] * LEASES)
    child = start(path, LEASES, beat_seconds)
    try:
        _heard(child, "resting", LEASES)
        pids = crew_of(child)
        return percent_of(pids, seconds)
    finally:
        _end(child)


def waiting_ms(folder: Path) -> float:
    """The longest that an enqueue of another process took while seven handlers burn; no hold of
    the write lock was longer."""
    path = folder / "work.db"
    with Outlast(path) as app:
        app.enqueue_many("burn", [{}] * BURNERS)
        child = start(path, BURNERS + 1, 30)
        try:
            _heard(child, "burning", BURNERS)
            longest, until = 0.0, time.monotonic() + SECONDS
            while time.monotonic() < until:
                began = time.perf_counter()
                app.enqueue("trickle", {})
                longest = max(longest, time.perf_counter() - began)
                time.sleep(0.002)
            return longest * 1e3
        finally:
            _end(child)


def _end(child: "subprocess.Popen[str]") -> None:
    child.terminate()
    try:
        child.wait(30)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout is not None:
        child.stdout.close()


def run(sizes: Sizes) -> list[Row]:
    resting = [_in_a_folder(idle) for _ in range(sizes.blocks)]
    memory = summary([mb for mb, _ in resting])
    cpu = summary([percent for _, percent in resting])
    beats = summary([_in_a_folder(beating) for _ in range(sizes.blocks)])
    waits = summary([_in_a_folder(waiting_ms) for _ in range(sizes.blocks)])
    return [
        row("longest wait for the write lock, seven handlers burning", waits, "ms", (100, 20)),
        row("memory of an idle worker and its store process", memory, "MB", (45, 30)),
        row("processor time of an idle worker", cpu, "%", (0.5, None)),
        row("the same with 50 leases, a beat a second", beats, "%", (0.5, None)),
    ]


def _in_a_folder(measured: Callable[[Path], T]) -> T:
    with empty_folder() as folder:
        return measured(folder)


def row(what: str, found: Ratio, unit: str, bounds: tuple[float, float | None]) -> Row:
    ours = f"{found.median:.2g} {unit}"
    return at_most(what, ours, found, bounds[0], aim=bounds[1], note=unit)
