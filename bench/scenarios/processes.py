"""Four processes work one queue off, against one: all of them together, and each for itself."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import apsw

from bench.load import QUICK, Sizes
from bench.machine import ROOT
from bench.paired import Contestant, measure, summary
from bench.results import Row, rated, row_of
from bench.scenarios.working import BATCH, fill
from outlast import Outlast

PROCESSES = 4
PATIENCE_SECONDS = 120


class Share(NamedTuple):
    """What one process did, and when, on the clock that all processes share."""

    done: int
    began: float
    ended: float
    # Before the clock started: the first claim of a process puts its worker on record.
    warmed: int = 0

    @property
    def rate(self) -> float:
        return self.done / (self.ended - self.began) if self.done else 0.0


def work(path: str) -> None:
    """In the child: be ready, wait for the word, work until nothing is left, say what was done."""
    with Outlast(path) as app:

        def work_on() -> int:
            leases = app.claim("w", limit=BATCH)
            return sum(app.complete_many([(lease, None) for lease in leases])) if leases else 0

        warmed = work_on()
        print("ready", flush=True)
        sys.stdin.readline()
        done, began = 0, time.monotonic()
        ended = began
        while worked := work_on():
            done += worked
            ended = time.monotonic()
    print(json.dumps([done, began, ended, warmed]), flush=True)


def shares_of(number: int, path: Path) -> list[Share]:
    children = [start(path) for _ in range(number)]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n", "a child did not start"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said = [child.communicate(timeout=PATIENCE_SECONDS)[0] for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    return [Share(*json.loads(line)) for line in said]


def start(path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "bench.scenarios.processes", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def together(number: int, count: int, balances: list[float]) -> Contestant:
    """The rate of all processes; notes how the slowest compares with the quickest."""

    def contestant(folder: Path) -> float:
        path = folder / "work.db"
        with Outlast(path) as app:
            fill(app, count + number * BATCH)
        shares = shares_of(number, path)
        refuse_doubles(path, count + number * BATCH, shares)
        rates = [share.rate for share in shares]
        balances.append(min(rates) / max(rates))
        began = min(share.began for share in shares)
        return count / (max(share.ended for share in shares) - began)

    return contestant


def refuse_doubles(path: Path, count: int, shares: list[Share]) -> None:
    """Every task was claimed once and completed once, and nobody counts what it did not do."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    moves = connection.execute(
        "SELECT to_status, count(*), count(DISTINCT task_seq) FROM transitions"
        " GROUP BY to_status ORDER BY to_status"
    ).fetchall()
    connection.close()
    expected = [("completed", count, count), ("running", count, count)]
    assert moves == expected, f"of {count} tasks: {moves}"
    assert sum(share.done + share.warmed for share in shares) == count


def run(sizes: Sizes) -> list[Row]:
    alone: list[float] = []
    balances: list[float] = []
    contestants = {
        "one": together(1, sizes.processes, alone),
        "four": together(PROCESSES, sizes.processes, balances),
    }
    warm_up = {"four": together(PROCESSES, QUICK.processes, [])}
    rates = measure(contestants, sizes.blocks, warm_up, sizes.rounds)
    return [
        rated(
            "four processes doing so, nothing twice",
            rates,
            "four",
            "one",
            named="one process",
            at_least=0.8,
            aim=1.05,
        ),
        row_of(
            "the slowest of the four",
            "",
            "the quickest of the four",
            summary(balances),
            at_least=0.5,
        ),
    ]


if __name__ == "__main__":
    work(sys.argv[1])
