"""The verbs of recovery runs: taken in turn, begun, ended and read."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from outlast.clock import Instant
from outlast.domain.recovery import RecoveredTask, RecoveryReport
from outlast.probes import probe
from outlast.store.access import Access
from outlast.store.ops.recovery import run_rows
from outlast.store.records import RunEnd, RunStart
from outlast.store.transaction import Row, Transaction

T = TypeVar("T")

RECOVERY_TURN = "recovery"


class RecoveryRuns:
    """Recovery on record: one process at a time, with the session marked while it serves."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._beginning: run_rows.Beginning | None = None
        self.session_run_id: int | None = None
        """The run of this process's opening."""
        self.is_on_record = False
        """Whether that run is over."""

    @contextmanager
    def turn(self, timeout_seconds: float) -> Iterator[None]:
        """One process at a time; the others wait, and find nothing left to do."""
        turn = self._access.engine.only_one(RECOVERY_TURN, timeout_seconds)
        try:
            yield
        finally:
            if turn is not None:
                turn.close()

    def is_under_way(self) -> bool:
        """Whether a process is in the middle of a recovery run."""
        return self._access.engine.is_somebodys(RECOVERY_TURN)

    def begin(self, start: RunStart, now: Instant, is_opening: bool) -> int:
        """Begin a run; the one of an opening stands for the whole session.

        Its first transaction puts it on record, a batch or its end: one that is broken off before
        has changed nothing.
        """
        if is_opening:
            self._access.presence.mark_session(now)
            probe("recover.marked")
        run_id = self._access.read("reading a run", run_rows.next_id)
        earlier = self.session_run_id if is_opening else None
        self._beginning = run_rows.Beginning(
            run_id,
            start,
            self._access.presence.own.session_id,
            now,
            is_opening,
            earlier,
            self._access.presence.identity(),
        )
        if is_opening:
            self.session_run_id = run_id
        return run_id

    def with_beginning(self, operation: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        """What a run writes; before it, in the same transaction, that it begins."""
        beginning = self._beginning

        def both(tx: Transaction) -> T:
            if beginning is not None:
                run_rows.begin(tx, beginning)
            return operation(tx)

        return both

    def end(self, run_id: int, done: RunEnd, now: Instant) -> RecoveryReport:
        """Put on record what came of it; only a recovery without errors takes old markers away.

        What they mirror in the file ends with them.

        One that was stopped leaves its opening undone.
        """
        is_opening = run_id == self.session_run_id and not done.was_stopped
        is_well = done.mode != "off" and not (done.errors or done.unrecovered)
        over = self._access.engine.traits.opened.crashed if is_opening and is_well else ()

        def operation(tx: Transaction) -> Row:
            if over:
                tx.run("end_sessions", {"incarnations": json.dumps(over), "now": now.utc_ms})
            return run_rows.end(tx, run_id, done, now)

        row = self._access.write("recover", self.with_beginning(operation))
        self._beginning = None
        if is_opening:
            self.is_on_record = True
            if is_well:
                self._access.presence.sweep_sessions()
        return run_rows.report_of(row)

    def began(self) -> None:
        """A batch of the run is committed, and with it that it began."""
        self._beginning = None

    def recovered(self, run_id: int, after: int, limit: int) -> list[RecoveredTask]:
        """The tasks a run moved, a page at a time."""
        return self._access.read(
            "reading a run", lambda tx: run_rows.recovered(tx, run_id, after, limit)
        )

    def recovered_count(self, run_id: int, after: int) -> int:
        """How many tasks a run moved behind a position of the stream."""
        return self._access.read(
            "reading a run", lambda tx: run_rows.recovered_count(tx, run_id, after)
        )

    def telling(self, run_id: int | None) -> tuple[RecoveryReport, int] | None:
        """A run, or the newest with something to tell, and how many found nothing since."""
        return self._access.read("reading a run", lambda tx: run_rows.telling(tx, run_id))

    def last(self, trigger: str | None = None) -> RecoveryReport | None:
        """The newest run that was completed, perhaps of one trigger."""
        return self._access.read("reading a run", lambda tx: run_rows.last(tx, trigger))

    def settings(self) -> str | None:
        """The recovery settings that whoever served last has left, as JSON."""
        key = {"key": run_rows.RECOVERY_SETTINGS}
        left: str | None = self._access.read("reading a run", lambda tx: tx.value("get_meta", key))
        return left
