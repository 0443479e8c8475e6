"""From "enqueue returned" in one process to "claimed" in an idle other, and what being idle costs.

The yardstick is a bare datagram that wakes the other process, which then claims. Both are timed on
the clock that all processes share, sample by sample in turn, each after the same pause and the same
enqueue: all that differs is who wakes the claimer.
"""

import os
import random
import select
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.load import KIND, PAYLOAD
from bench.machine import ROOT, empty_folder
from bench.paired import summary
from bench.results import Row, at_most
from outlast import Outlast

SAMPLES = 50
PATIENCE_SECONDS = 30
# Long enough for the claimer to be idle in every respect, uneven so as not to keep step with polls.
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.06, 0.1
IDLE_SECONDS = 8

WAIT, BARE = "wait", "bare"


class Claimer:
    """The other process: claims once for each order, and says when it had its lease."""

    def __init__(self, path: Path) -> None:
        self.bell, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.scenarios.latency", str(path), str(other.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                pass_fds=[other.fileno()],
            )
        self.pid = self._process.pid

    def block(self, order: str) -> None:
        """Have it wait, in a claim or on the bare socket, and let it become idle."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        if (said := self._hear()) != order:
            raise RuntimeError(f"the claimer said {said!r}")
        time.sleep(random.uniform(SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))

    def claimed_ns(self) -> int:
        """When it had its lease."""
        return int(self._hear())

    def _hear(self) -> str:
        stream = self._process.stdout
        assert stream is not None
        # It speaks one line at a time, so nothing waits unseen in the stream's buffer.
        if not select.select([stream], [], [], 2 * PATIENCE_SECONDS)[0]:
            raise TimeoutError(f"the claimer ({self.pid}) is silent")
        line = stream.readline()
        if not line:
            raise RuntimeError("the claimer ended early; its error is on stderr")
        return line.strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bell.close()
        self._process.kill()
        with self._process:
            pass


def serve(path: str, bell_number: str) -> None:
    """In the other process: one claim for each order; a claim that comes up empty ends it."""
    bell = socket.socket(fileno=int(bell_number))
    with Outlast(path) as app:
        for line in sys.stdin:
            order = line.strip()
            print(order, flush=True)
            if order == BARE:
                bell.recv(1)
                (lease,) = app.claim("w")
            else:
                (lease,) = app.claim("w", wait=PATIENCE_SECONDS)
            claimed_ns = time.monotonic_ns()
            lease.complete()
            print(claimed_ns, flush=True)


def sample_us(app: Outlast, claimer: Claimer, order: str) -> float:
    """Microseconds from the enqueue's return to the lease."""
    claimer.block(order)
    app.enqueue(KIND, PAYLOAD)
    returned_ns = time.monotonic_ns()
    if order == BARE:
        claimer.bell.send(b"!")
    return (claimer.claimed_ns() - returned_ns) / 1e3


def block_us(app: Outlast, claimer: Claimer) -> dict[str, list[float]]:
    """A block of samples of both kinds, in turn."""
    found: dict[str, list[float]] = {WAIT: [], BARE: []}
    for number in range(SAMPLES):
        for order in (WAIT, BARE) if number % 2 else (BARE, WAIT):
            found[order].append(sample_us(app, claimer, order))
    return found


def processor_seconds(pid: int) -> float:
    """What a process has used of the processor so far, all its threads."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    # The name in parentheses may hold anything; user and system time are 12 and 13 fields on.
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle_percent(app: Outlast, claimer: Claimer) -> float:
    """The share of one core that a process takes while it is blocked in a claim."""
    claimer.block(WAIT)
    before, began = processor_seconds(claimer.pid), time.monotonic()
    time.sleep(IDLE_SECONDS)
    used = processor_seconds(claimer.pid) - before
    share = used / (time.monotonic() - began)
    app.enqueue(KIND, PAYLOAD)
    claimer.claimed_ns()
    return share * 100


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def latency_row(blocks: list[dict[str, list[float]]]) -> Row:
    found = summary(
        [statistics.median(block[WAIT]) / statistics.median(block[BARE]) for block in blocks]
    )
    ours = [value for block in blocks for value in block[WAIT]]
    bare = [value for block in blocks for value in block[BARE]]
    return at_most(
        "enqueue returned in one process → claimed in an idle other, p50",
        f"{statistics.median(ours):,.0f} µs",
        found,
        2.0,
        yardstick=f"bare datagram and a claim: {statistics.median(bare):,.0f} µs",
        aim=1.3,
        note=f"p99 {percentile(ours, 99):,.0f} µs, bare {percentile(bare, 99):,.0f} µs",
    )


def idle_row(percent: float) -> Row:
    return at_most(
        "processor time of a process blocked in a claim",
        f"{percent:.2f} %",
        summary([percent]),
        1.0,
        yardstick="one core",
        note=f"per cent, over {IDLE_SECONDS} s",
    )


def measure(blocks: int) -> list[Row]:
    """Both rows, from one store and one other process."""
    with empty_folder() as folder:
        path = folder / "work.db"
        with Outlast(path) as app, Claimer(path) as claimer:
            for order in (WAIT, BARE) * 3:
                sample_us(app, claimer, order)
            found = [block_us(app, claimer) for _ in range(blocks)]
            return [latency_row(found), idle_row(idle_percent(app, claimer))]


if __name__ == "__main__":
    serve(*sys.argv[1:])
