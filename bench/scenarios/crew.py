"""Four worker processes drain one queue, against one; nothing is run twice."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from bench.load import QUICK, Sizes
from bench.machine import ROOT
from bench.paired import Contestant, measure
from bench.results import Row, rated
from bench.scenarios.draining import seconds_of, worker_on
from bench.scenarios.working import fill

PROCESSES = 4
PATIENCE_SECONDS = 120
SETTLING_SECONDS = 0.5
QUEUE = "default"


def work(path: str) -> None:
    """In the child: a worker, until it is told to stop."""
    with worker_on(Path(path), is_async=False) as app:
        app.worker().run()


def together(number: int, count: int) -> Contestant:
    """The rate of all workers from the moment the queue is opened to them; each is up by then."""

    def contestant(folder: Path) -> float:
        path = folder / "work.db"
        with worker_on(path, is_async=False) as app:
            app.pause(QUEUE)
            fill(app, count)
            children = [start(path) for _ in range(number)]
            try:
                wait_until(lambda: sum(one.serves is not None for one in app.workers()) == number)
                time.sleep(SETTLING_SECONDS)
                app.unpause(QUEUE)
                wait_until(lambda: app.backlog(QUEUE, limit=1).unfinished == 0)
            finally:
                for child in children:
                    child.terminate()
                    child.wait(PATIENCE_SECONDS)
        refuse_doubles(path, count)
        return count / seconds_of(path)

    return contestant


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError("the workers are not done in time")
        time.sleep(0.1)


def start(path: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "bench.scenarios.crew", str(path)],
        cwd=ROOT,
    )


def refuse_doubles(path: Path, count: int) -> None:
    """Every task was claimed once and completed once."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    moves = connection.execute(
        "SELECT to_status, count(*), count(DISTINCT task_seq) FROM transitions"
        " GROUP BY to_status ORDER BY to_status"
    ).fetchall()
    connection.close()
    assert moves == [("completed", count, count), ("running", count, count)], f"{moves}"


def run(sizes: Sizes) -> list[Row]:
    contestants = {
        "one": together(1, sizes.processes),
        "four": together(PROCESSES, sizes.processes),
    }
    warm_up = {"four": together(PROCESSES, QUICK.processes)}
    rates = measure(contestants, sizes.blocks, warm_up, sizes.rounds)
    what = "four worker processes, nothing run twice"
    return [rated(what, rates, "four", "one", at_least=0.85)]


if __name__ == "__main__":
    work(sys.argv[1])
