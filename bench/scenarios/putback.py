"""Recovery of what dead processes were running, with a transition for each; how long it locks.

The holders were real processes with real lock files and were killed. Each held as many tasks as a
worker takes ahead at most; they are written under its name by SQL, for it would take minutes to
claim a million.
"""

import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench import raw, watch
from bench.filling import RUNNING, Filler, copy_store
from bench.load import KIND, PAYLOAD_TEXT, Sizes, milliseconds, timed
from bench.machine import ROOT, empty_folder
from bench.paired import Contestant, measure, ratio, summary, typical
from bench.results import Row, at_most
from bench.scenarios.detecting import Staff
from outlast import Outlast, Settings
from outlast.store.session import Session
from outlast.worker.worker import MAX_PREFETCH

LONGEST_LOCK_MS = 100
# The detector would take part in a recovery that lasts for a minute.
ALONE = Settings(detection_interval_seconds=0)
OPEN_AND_DIE = """
import os, signal, sys
from outlast import Outlast, Settings
app = Outlast(sys.argv[1]).open()
os.kill(os.getpid(), signal.SIGKILL)
"""
# What is promised in seconds: so many tasks within so many.
PROMISED_TASKS, PROMISED_SECONDS = 10_000, 5.0


def make_ours(folder: Path, count: int) -> None:
    """A store that was left without a word, too: its file has to be checked."""
    path = folder / "work.db"
    ended = subprocess.run([sys.executable, "-c", OPEN_AND_DIE, str(path)], cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL, "the child opened the store and was killed"
    staff = Staff(path)
    try:
        full, rest = divmod(count, MAX_PREFETCH)
        staff.hire(full, MAX_PREFETCH)
        if rest:
            staff.hire(1, rest)
    finally:
        staff.dismiss()


def make_raw(folder: Path, count: int) -> None:
    path = folder / "work.db"
    raw.make_store(path).close()
    filler = Filler(path, PAYLOAD_TEXT, time.time_ns() // 1_000_000)
    filler.add(RUNNING, count, kind=KIND, holder=1, worker="w")
    filler.close()


def ours(prepared: Path, count: int, watched: list[watch.Locks], checks: list[float]) -> Contestant:
    """A run of recovery, on record; the check of the file that ends it is counted apart.

    Locks are watched in every block: it costs microseconds a statement, and there are few, as long
    as triggers are not counted among them.
    """

    def nothing_yet(session: Session) -> None:
        """Opening recovers nothing, so that it can be timed alone."""

    def contestant(folder: Path) -> float:
        path = copy_store(prepared, folder / "copy")
        os.sync()
        watched.append(watch.Locks())
        with (
            watch.connections(watched[-1].note, is_timed=False),
            Outlast(path, settings=ALONE, recovery=nothing_yet) as app,
        ):
            seconds = timed(app.recover)
            report = app.last_report()
            pending = app.counts()["pending"]
        assert report is not None
        assert report.was_successful(), report.errors
        assert pending == count == report.tasks_put_back, f"{pending} of {count} were put back"
        checks.append(sum(one.seconds for one in report.steps if one.name == "verification"))
        return count / (seconds - checks[-1])

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
    watched: list[watch.Locks] = []
    checks: list[float] = []
    with empty_folder() as prepared:
        for name, make in (("ours", make_ours), ("raw", make_raw)):
            (prepared / name).mkdir()
            make(prepared / name, count)
        contestants = {
            "ours": ours(prepared / "ours", count, watched, checks),
            "raw": bare(prepared / "raw", count),
        }
        rates = measure(contestants, blocks)
    found = ratio(rates, "raw", "ours")
    seconds = {name: count / typical(rates, name) for name in rates}
    check = milliseconds(statistics.median(checks))
    rows = [
        at_most(
            f"recovery of {count:,} running tasks of dead workers, on record",
            milliseconds(seconds["ours"]),
            found,
            4,
            yardstick=f"raw: {milliseconds(seconds['raw'])}",
            aim=1.5,
            note=f"times the raw time; the check of the file afterwards is apart: {check}",
        ),
        lock_row(count, watched),
    ]
    if count == PROMISED_TASKS:
        rows.append(promise_row([count / rate for rate in rates["ours"]], checks))
    return rows


def promise_row(recovering: list[float], checks: list[float]) -> Row:
    whole = summary([one + other for one, other in zip(recovering, checks, strict=True)])
    what = f"the same for {PROMISED_TASKS:,} in seconds, with the check"
    return at_most(what, milliseconds(whole.median), whole, PROMISED_SECONDS, note="seconds")


def lock_row(count: int, watched: list[watch.Locks]) -> Row:
    longest = summary([locks.longest * 1e3 for locks in watched])
    flush = max(locks.longest_flush for locks in watched)
    flushing = statistics.median(locks.flushing for locks in watched)
    return at_most(
        f"longest write lock meanwhile ({count:,})",
        f"{longest.median:.1f} ms",
        longest,
        LONGEST_LOCK_MS,
        yardstick=f"flushes apart: longest {milliseconds(flush)}, {milliseconds(flushing)} in all",
        note="milliseconds, the sync of the commit included",
    )
