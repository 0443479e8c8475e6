"""From `kill -9` of a worker to its task's running again in an idle worker of another process.

Two workers, each a process of its own with its store process; the one that took the task is killed
while its handler is at it. All times are on the clock that processes share: the kill is noted
before the signal is sent, the start by the handler itself.
"""

import os
import random
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.load import Sizes
from bench.machine import ROOT, empty_folder
from bench.paired import Ratio, summary
from bench.results import Row, at_most
from bench.scenarios.latency import percentile
from outlast import Outlast

PATIENCE_SECONDS = 60
# Long enough for the other worker to be idle in every respect.
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.15, 0.25
P50_MS, AIM_MS, P99_MS = 50.0, 10.0, 1000.0
PROGRAM = """
import os
import logging
import sys
import time
from outlast import Outlast
logging.getLogger("outlast").setLevel(logging.ERROR)
app = Outlast(sys.argv[1])

@app.task
def linger(ctx):
    began_ns = time.monotonic_ns()
    os.write(1, f"{os.getpid()} {ctx.attempt} {began_ns}\\n".encode())
    if ctx.attempt == 1:
        ctx.wait(3600)

app.worker(concurrency=1, shutdown="100ms").run()
"""


class Start(NamedTuple):
    """What a handler says when it begins."""

    pid: int
    attempt: int
    began_ns: int


class Crew:
    """Two workers on one store, one of which is replaced after each kill."""

    def __init__(self, path: Path, app: Outlast) -> None:
        self._path = path
        self._app = app
        self._reads, self._writes = os.pipe()
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._killed: list[subprocess.Popen[bytes]] = []

    def fill(self) -> None:
        """Have two workers, both of which have said that they serve."""
        while self._killed:
            self._killed.pop().wait()
        while len(self._workers) < 2:
            worker = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(self._path)], stdout=self._writes, cwd=ROOT
            )
            self._workers[worker.pid] = worker
        self._wait_until(lambda: self._serving() >= self._workers.keys())

    def _serving(self) -> set[int]:
        """A worker's row says what it serves once its store process has beaten."""
        return {one.pid for one in self._app.workers() if one.serves is not None}

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > until:
                raise TimeoutError("the workers do not come up")
            time.sleep(0.02)

    def hear(self) -> Start:
        """The next start of a handler."""
        if not select.select([self._reads], [], [], PATIENCE_SECONDS)[0]:
            raise TimeoutError("no handler began")
        # A line is written in one piece, and nobody writes the next before it is asked for.
        return Start(*map(int, os.read(self._reads, 4096).split()))

    def kill(self, pid: int) -> int:
        """Kill that worker; when, in nanoseconds."""
        worker = self._workers.pop(pid)
        self._killed.append(worker)
        killed_ns = time.monotonic_ns()
        worker.send_signal(signal.SIGKILL)
        return killed_ns

    def close(self) -> None:
        for worker in self._workers.values():
            worker.terminate()
        for worker in self._workers.values():
            try:
                worker.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        for worker in self._killed:
            worker.wait()
        os.close(self._reads)
        os.close(self._writes)


def sample_ms(app: Outlast, crew: Crew) -> float:
    """Milliseconds from one kill to the second start of the task."""
    crew.fill()
    app.enqueue("linger", {})
    first = crew.hear()
    time.sleep(random.uniform(SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))
    killed_ns = crew.kill(first.pid)
    second = crew.hear()
    assert (first.attempt, second.attempt) == (1, 2), (first, second)
    assert first.pid != second.pid
    return (second.began_ns - killed_ns) / 1e6


def block_ms(kills: int) -> list[float]:
    """So many kills on one store, the first one not counted."""
    with empty_folder() as folder:
        path = folder / "work.db"
        with Outlast(path) as app:
            crew = Crew(path, app)
            try:
                return [sample_ms(app, crew) for _ in range(kills + 1)][1:]
            finally:
                crew.close()


def run(sizes: Sizes) -> list[Row]:
    blocks = [block_ms(sizes.kills) for _ in range(sizes.blocks)]
    every = [value for block in blocks for value in block]
    middles = summary([statistics.median(block) for block in blocks])
    slowest = summary([percentile(block, 99) for block in blocks])
    what = "kill -9 of a worker → its task runs again in an idle worker of another process"
    return [
        row(f"{what}, p50", statistics.median(every), middles, (P50_MS, AIM_MS), len(every)),
        row("the same, p99", percentile(every, 99), slowest, (P99_MS, None), len(every)),
    ]


def row(
    what: str, found_ms: float, blocks: Ratio, bounds: tuple[float, float | None], kills: int
) -> Row:
    """The figure is that of all kills together, the spread that of the blocks."""
    found = Ratio(found_ms, blocks.low, blocks.high)
    ours, note = f"{found_ms:,.1f} ms", f"milliseconds, {kills} kills"
    return at_most(what, ours, found, bounds[0], aim=bounds[1], note=note)
