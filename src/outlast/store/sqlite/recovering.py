"""Recovery as the store sees it: one at a time, on record, with the marker set while we serve."""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from outlast.clock import Instant
from outlast.domain.integrity import IntegrityResult
from outlast.domain.recovery import RecoveryReport
from outlast.errors import StoreBusy
from outlast.host import kernel
from outlast.host.probe_points import probe
from outlast.store.ops import recovery_runs
from outlast.store.records import RunEnd, RunStart
from outlast.store.sqlite.check import check
from outlast.store.sqlite.connect import in_our_words
from outlast.store.sqlite.serving import Serving
from outlast.store.sqlite.side_folder import session_marker
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.transaction import Row, Transaction

T = TypeVar("T")

_POLL_SECONDS = 0.01


class Recovering(Serving):
    """The part of the store that start-up recovery works with."""

    _beginning: recovery_runs.Beginning | None = None

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """One process at a time; the others wait, and find nothing left to do."""
        with _turn(self._folder, self._settings.open_timeout_seconds):
            yield

    @property
    def path(self) -> Path:
        """The store's file."""
        return self._folder.database

    @property
    def is_on_record(self) -> bool:
        """Whether the run of this process's opening is over."""
        return self._is_on_record

    def begin_run(self, start: RunStart, now: Instant, is_opening: bool) -> int:
        """Begin a run; the one of an opening stands for the whole session.

        Its first transaction puts it on record, a batch or its end: one that is broken off before
        has changed nothing.
        """
        if is_opening:
            self._marker.set(now)
            probe("recover.marked")
        run_id = self._read("reading a run", recovery_runs.next_id)
        earlier = self._run_id if is_opening else None
        self._beginning = recovery_runs.Beginning(
            run_id, start, self._holding.session_id, now, is_opening, earlier
        )
        if is_opening:
            self._run_id = run_id
        return run_id

    def _with_beginning(self, operation: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        """What a run writes; before it, in the same transaction, that it begins."""
        beginning = self._beginning

        def both(tx: Transaction) -> T:
            if beginning is not None:
                recovery_runs.begin(tx, beginning)
            return operation(tx)

        return both

    def end_run(self, run_id: int, done: RunEnd, now: Instant) -> RecoveryReport:
        """Put on record what came of it; only a recovery without errors takes old markers away.

        What they mirror in the file ends with them.

        One that was stopped leaves its opening undone.
        """
        is_opening = run_id == self._run_id and not done.was_stopped
        is_well = done.mode != "off" and not (done.errors or done.unrecovered)
        over = self.opened.crashed if is_opening and is_well else ()

        def operation(tx: Transaction) -> Row:
            if over:
                tx.run("end_sessions", {"incarnations": json.dumps(over), "now": now.utc_ms})
            return recovery_runs.end(tx, run_id, done, now)

        row = self._write("recover", self._with_beginning(operation))
        self._beginning = None
        if is_opening:
            self._is_on_record = True
            if is_well:
                session_marker.sweep(self._folder, self._workspace, self.opened.markers)
        return recovery_runs.report_of(row)

    def check(self, is_quick: bool) -> IntegrityResult:
        """Check the file while it is served."""
        return self._exclusive("checking the file", lambda sqlite: check(sqlite, is_quick)).result()


@contextmanager
def _turn(folder: SideFolder, timeout_seconds: float) -> Iterator[None]:
    with in_our_words(f"waiting to recover {folder.database}", folder.recovery):
        descriptor = folder.open_file(folder.recovery)
    pid = os.getpid()
    try:
        with in_our_words(f"waiting to recover {folder.database}", folder.recovery):
            _wait_for_lock(descriptor, folder, timeout_seconds)
        yield
    finally:
        # A child that was forked meanwhile has the descriptor too, and would keep the lock.
        if os.getpid() == pid:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _wait_for_lock(descriptor: int, folder: SideFolder, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreBusy(_who_recovers(folder, timeout_seconds)) from None
            time.sleep(_POLL_SECONDS)


def _who_recovers(folder: SideFolder, timeout_seconds: float) -> str:
    pids = ", ".join(str(pid) for pid in kernel.flock_holders(folder.recovery))
    who = f"process {pids}" if pids else "another process"
    return (
        f"{folder.database} is being recovered by {who}; it did not finish within"
        f" {timeout_seconds:g} s, try again later"
    )
