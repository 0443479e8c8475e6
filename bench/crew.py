"""Four worker processes drain one queue, against one; nothing is run twice."""

import subprocess
import sys
from pathlib import Path

import apsw

from bench.draining import seconds_of, worker_on
from bench.load import QUICK, Sizes, per_second
from bench.machine import ROOT
from bench.paired import Contestant, measure, ratio, typical
from bench.results import Row
from bench.working import fill

PROCESSES = 4
PATIENCE_SECONDS = 120


def work(path: str) -> None:
    """In the child: be ready, wait for the word, work until nothing is left."""
    with worker_on(Path(path), is_async=False) as app:
        print("ready", flush=True)
        sys.stdin.readline()
        app.worker().run(until_empty=True)


def together(number: int, count: int) -> Contestant:
    def contestant(folder: Path) -> float:
        path = folder / "work.db"
        with worker_on(path, is_async=False) as app:
            fill(app, count)
        children = [start(path) for _ in range(number)]
        try:
            for child in children:
                assert child.stdout is not None
                assert child.stdout.readline() == "ready\n", "a child did not start"
            for child in children:
                child.stdin.write("go\n")  # type: ignore[union-attr]
                child.stdin.flush()  # type: ignore[union-attr]
            for child in children:
                child.wait(PATIENCE_SECONDS)
        finally:
            for child in children:
                child.kill()
                child.wait()
        refuse_doubles(path, count)
        return count / seconds_of(path, count)

    return contestant


def start(path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "bench.crew", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
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
    rates = measure(contestants, sizes.blocks, {"four": together(PROCESSES, QUICK.processes)})
    found = ratio(rates, "four", "one")
    return [
        Row(
            what="four worker processes, nothing run twice",
            ours=per_second(typical(rates, "four")),
            yardstick=f"one: {per_second(typical(rates, 'one'))}",
            ratio=found.median,
            low=found.low,
            high=found.high,
            at_least=0.85,
            aim=None,
        )
    ]


if __name__ == "__main__":
    work(sys.argv[1])
