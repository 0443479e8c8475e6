"""One look of the detector over many workers and their tasks, in a store full of finished ones.

The workers are real processes with real lock files, though all they do is sleep; a look asks the
kernel about each. It is taken while all of them live, and again after some were killed: then it
puts their tasks back.
"""

import statistics
import subprocess
import time
from pathlib import Path
from uuid import uuid4

import apsw

from bench.filling import RUNNING, Filler
from bench.load import KIND, PAYLOAD_TEXT, Sizes, timed
from bench.machine import empty_folder
from bench.paired import Ratio, summary
from bench.results import Row, at_most
from outlast import Outlast, Settings
from outlast.host import processes
from outlast.maintenance.loop import MaintenanceLoop
from outlast.store.session import Session
from outlast.store.sqlite.presence.worker_lock_file import LockFile
from outlast.store.sqlite.side_folder.side_folder import SideFolder

TASKS_EACH = 10
LOOKS = 5
REGISTER = """
INSERT INTO workers (incarnation, name, host, boot_id, pid, pid_started, pid_namespace, lock_file,
                     lock_inode, registered_at, beat_at, beat_mono_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq
"""


class Staff:
    """The workers of a store that Outlast made and has closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tasks = 0
        self.alive: list[subprocess.Popen[bytes]] = []

    def add_finished(self, count: int) -> None:
        filler = self._filler()
        filler.add_finished(count, KIND)
        filler.close()
        self._tasks += count

    def hire(self, count: int, tasks_each: int = TASKS_EACH) -> None:
        """So many more, each with tasks in hand; a child inherits the lock and keeps it."""
        folder = SideFolder(self._path)
        rows = [self._start(folder) for _ in range(count)]
        connection = apsw.Connection(str(self._path))
        with connection:
            holders = [connection.execute(REGISTER, row).get for row in rows]
        connection.close()
        filler = self._filler()
        for holder in holders:
            filler.add(RUNNING, tasks_each, kind=KIND, holder=holder, worker="w")
        filler.close()
        self._tasks += count * tasks_each

    def _start(self, folder: SideFolder) -> tuple[object, ...]:
        incarnation = uuid4().hex
        lock = LockFile(folder, incarnation)
        child = subprocess.Popen(["sleep", "infinity"], pass_fds=[lock.descriptor])
        lock.close()
        self.alive.append(child)
        here, now_ms = processes.this_process(), time.time_ns() // 1_000_000
        found = processes.process_stat(child.pid)
        started = found[1] if found else 0
        return (
            incarnation, f"worker-{child.pid}", here.host, here.boot_id, child.pid, started,
            here.pid_namespace, lock.path.name, lock.inode, now_ms, now_ms,
            time.monotonic_ns() // 1_000_000,
        )  # fmt: skip

    def kill(self, count: int) -> None:
        """As the kernel does it: the lock goes with the process."""
        dying, self.alive = self.alive[:count], self.alive[count:]
        for child in dying:
            child.kill()
        for child in dying:
            child.wait()

    def dismiss(self) -> None:
        self.kill(len(self.alive))

    def _filler(self) -> Filler:
        return Filler(self._path, PAYLOAD_TEXT, time.time_ns() // 1_000_000, self._tasks)


def look(staff: Staff, path: Path, dead: int) -> tuple[float, float]:
    """Seconds of a look over the living, and of the look that finds so many of them dead."""
    sessions: list[Session] = []

    def nothing_yet(session: Session) -> None:
        sessions.append(session)

    # Nobody else looks, or the dead would be buried before the look that is timed.
    alone = Settings(detection_interval_seconds=0)
    with Outlast(path, settings=alone, recovery=nothing_yet) as app:
        detector = MaintenanceLoop(sessions[0], clock=lambda: 0.0)
        # The first one also begins to watch the processes.
        detector.tick()
        before = app.counts()["pending"]
        living = statistics.median(timed(detector.tick) for _ in range(LOOKS))
        staff.kill(dead)
        burying = timed(detector.tick)
        back = app.counts()["pending"] - before
        assert back == dead * TASKS_EACH, f"{back} of {dead * TASKS_EACH} tasks were put back"
    return living, burying


def run(sizes: Sizes) -> list[Row]:
    living, burying = [], []
    with empty_folder() as folder:
        path = folder / "work.db"
        Outlast(path).open().close()
        staff = Staff(path)
        try:
            staff.add_finished(sizes.finished)
            for _ in range(sizes.blocks):
                staff.hire(sizes.workers - len(staff.alive))
                one, other = look(staff, path, sizes.dead_workers)
                living.append(one)
                burying.append(other)
        finally:
            staff.dismiss()
    tasks = sizes.workers * TASKS_EACH
    beside = f"{tasks:,} running tasks, {sizes.finished:,} finished rows beside"
    of_dead = f"{sizes.dead_workers} of them dead, {sizes.dead_workers * TASKS_EACH:,} tasks back"
    return [
        row(f"a look of the detector over {sizes.workers:,} living workers, {beside}", living),
        row(f"the same with {of_dead}", burying),
    ]


def row(what: str, seconds: list[float]) -> Row:
    found: Ratio = summary(seconds)
    ours = f"{found.median * 1e3:,.0f} ms"
    return at_most(what, ours, found, 1.0, aim=0.1, note="seconds")
