"""Putting back what a dead process was running, with a transition for each; how long it locks.

The holder is a real process that claimed a task and was killed; the others of its tasks are
written under its name by SQL, for it would take minutes to claim a million.
"""

import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import apsw

from bench import raw, watch
from bench.filling import RUNNING, Filler, copy_store
from bench.load import KIND, PAYLOAD, PAYLOAD_TEXT, Sizes, milliseconds, timed
from bench.machine import ROOT, empty_folder
from bench.paired import Contestant, measure, ratio, summary, typical
from bench.results import Row
from outlast import Outlast
from outlast.engine.session import Session
from outlast.store.records import Healed

LONGEST_LOCK_MS = 100


def claim_and_wait(path: str) -> None:
    """In the child: hold one task until killed."""
    app = Outlast(path).open()
    app.enqueue(KIND, PAYLOAD)
    app.claim("w", lease="1d")
    print("claimed", flush=True)
    signal.pause()


def make_ours(folder: Path, count: int) -> None:
    path = folder / "work.db"
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.putback", str(path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"claimed\n"
    finally:
        child.kill()
        child.communicate()
    connection = apsw.Connection(str(path))
    holder = connection.execute("SELECT holder FROM tasks").get
    connection.close()
    assert isinstance(holder, int), "the child claimed a task before it was killed"
    fill(path, count - 1, holder)


def make_raw(folder: Path, count: int) -> None:
    path = folder / "work.db"
    raw.make_store(path).close()
    fill(path, count, 1)


def fill(path: Path, count: int, holder: int) -> None:
    filler = Filler(path, PAYLOAD_TEXT, time.time_ns() // 1_000_000)
    filler.add(RUNNING, count, kind=KIND, holder=holder, worker="w")
    filler.close()


def ours(prepared: Path, count: int, watched: list[watch.Locks]) -> Contestant:
    """Locks are watched in every block: it costs microseconds a statement, and there are few."""

    def nothing_yet(session: Session) -> Healed:
        return Healed(0, 0, ())

    def contestant(folder: Path) -> float:
        path = copy_store(prepared, folder / "copy")
        os.sync()
        watched.append(watch.Locks())
        with (
            watch.connections(watched[-1].note),
            Outlast(path, recovery=nothing_yet) as app,
        ):
            seconds = timed(app.heal)
            pending = app.counts()["pending"]
        assert pending == count, f"{pending} of {count} tasks were put back"
        return count / seconds

    return contestant


def bare(prepared: Path, count: int) -> Contestant:
    def contestant(folder: Path) -> float:
        connection = raw.connect(copy_store(prepared, folder / "copy"))
        os.sync()
        rate = count / timed(lambda: raw.put_back(connection))
        connection.close()
        return rate

    return contestant


def run(sizes: Sizes) -> list[Row]:
    return [row for count in sizes.running for row in put_back(count, sizes.blocks)]


def put_back(count: int, blocks: int) -> list[Row]:
    with empty_folder() as prepared:
        for name, make in (("ours", make_ours), ("raw", make_raw)):
            (prepared / name).mkdir()
            make(prepared / name, count)
        watched: list[watch.Locks] = []
        contestants = {
            "ours": ours(prepared / "ours", count, watched),
            "raw": bare(prepared / "raw", count),
        }
        rates = measure(contestants, blocks)
    found = ratio(rates, "raw", "ours")
    seconds = {name: count / typical(rates, name) for name in rates}
    return [
        Row(
            what=f"putting back {count:,} running tasks with transitions",
            ours=milliseconds(seconds["ours"]),
            yardstick=f"raw: {milliseconds(seconds['raw'])}",
            ratio=found.median,
            low=found.low,
            high=found.high,
            at_least=3,
            aim=1.5,
            higher_is_better=False,
            note="times the raw time",
        ),
        lock_row(count, watched),
    ]


def lock_row(count: int, watched: list[watch.Locks]) -> Row:
    longest = summary([locks.longest * 1e3 for locks in watched])
    flush = max(locks.longest_flush for locks in watched)
    flushing = statistics.median(locks.flushing for locks in watched)
    return Row(
        what=f"longest write lock meanwhile ({count:,})",
        ours=f"{longest.median:.1f} ms",
        yardstick=f"flushes apart: longest {milliseconds(flush)}, {milliseconds(flushing)} in all",
        ratio=longest.median,
        low=longest.low,
        high=longest.high,
        at_least=LONGEST_LOCK_MS,
        aim=None,
        higher_is_better=False,
        note="milliseconds, the sync of the commit included",
    )


if __name__ == "__main__":
    claim_and_wait(sys.argv[1])
