"""Start-up recovery: the fixed order of steps, on record, before anything is served.

How the store was left, the log's size, the check of the file and the flush are found and done while
it is opened, by whoever finds it unused; workers are judged and orphans acted on here, and then the
file is looked at once more.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from outlast.domain.integrity import IntegrityResult, Verdict
from outlast.domain.recovery import DeadWorker, RecoveryReport, RecoveryStep, UnrecoveredTask
from outlast.domain.task import utc_of
from outlast.domain.worker import PreviousStop
from outlast.errors import OutlastError, QueueStalled
from outlast.logs import IDS_LISTED, about
from outlast.maintenance import expired_keys
from outlast.settings.recovering import kept
from outlast.store.records import ALREADY_OPEN, Batch, Death, Healed, Opened, RunEnd, RunStart
from outlast.store.session import Session

SUSPECTS_LISTED = 10

OPENING, CALLED = "opening", "called"

Tell = Callable[[Batch], None]


def usual_recovery(session: Session) -> None:
    """The pass at opening; the second object of a process finds it done, unless somebody died.

    One that comes while the first is at it waits for its turn, and then looks again.
    """
    store = session.store
    if _is_due(session):
        with store.runs.turn(session.settings.open_timeout_seconds):
            if _is_due(session):
                is_opening = not store.runs.is_on_record
                session.opening = _Run(session, OPENING, is_opening, session.tell).carry_out()
    if not session.settings.detects:
        # Without a maintenance loop nobody would do it later.
        expired_keys.purge(session)


def _is_due(session: Session) -> bool:
    store = session.store
    return not store.runs.is_on_record or store.recovery.is_due(
        session.now(), session.settings.patience, session.policy
    )


def run(session: Session, trigger: str, tell: Tell | None = None) -> RecoveryReport:
    """One run, alone among the processes of this store; returns its record."""
    store = session.store
    with store.runs.turn(session.settings.open_timeout_seconds):
        is_opening = not store.runs.is_on_record
        return _Run(session, trigger, is_opening, tell).carry_out()


class _Run:
    def __init__(self, session: Session, trigger: str, is_opening: bool, tell: Tell | None) -> None:
        self._session = session
        self._store = session.store
        self._trigger = trigger
        self._is_opening = is_opening
        self._tell = tell
        self._steps: list[RecoveryStep] = []
        self._errors: list[str] = []
        self._so_far = Healed()

    def carry_out(self) -> RecoveryReport:
        session = self._session
        opened = self._store.opened if self._is_opening else ALREADY_OPEN
        start = RunStart(
            self._trigger, opened.previous, opened.crashed_at_ms, opened.wal_bytes,
            opened.wal_frames_moved, None if session.is_guest else kept(session.settings),
            opened.crashed,
        )  # fmt: skip
        run_id = self._store.runs.begin(start, session.now(), self._is_opening)
        session.log.debug(
            "recovery run %d begins (%s); the last stop: %s",
            run_id, self._trigger, opened.previous,
            extra=about(run_id=run_id, store=self._store.path),
        )  # fmt: skip
        try:
            self._note_the_opening(opened)
            healed = self._heal(run_id)
            after = self._verify(opened)
            self._steps.append(RecoveryStep("report", "stored"))
            done = self._with_what_is_left(self._end(opened, healed, after))
            report = self._store.runs.end(run_id, done, session.now())
        except BaseException as error:
            self._close(run_id, opened, error)
            raise
        self._say(report)
        return report

    def _end(self, opened: Opened, healed: Healed, after: IntegrityResult) -> RunEnd:
        return RunEnd(
            self._session.settings.mode,
            healed,
            opened.integrity,
            after,
            tuple(self._steps),
            tuple(map(dead_worker, healed.deaths)),
            tuple(UnrecoveredTask(one.task_id, one.error) for one in healed.unfit),
            tuple(self._errors),
            is_after_a_crash=opened.previous is PreviousStop.UNCLEAN,
        )

    def _with_what_is_left(self, done: RunEnd) -> RunEnd:
        """What only a run that has something to tell is asked for."""
        if not done.has_findings:
            return done
        moved = done.healed.put_back or done.healed.failed
        left = self._store.recovery.left(SUSPECTS_LISTED if moved else 0)
        return replace(
            done,
            tasks_pending_after=left.pending,
            suspects=left.suspects,
            suspect_count=left.suspect_count,
        )

    def _close(self, run_id: int, opened: Opened, error: BaseException) -> None:
        """A run that is stopped is on record with what it did and why it ended.

        Best effort: if the store itself cannot be written, only that is what its caller must know.
        A run that did nothing because another process keeps all from writing is not put on record:
        its caller would have to wait for that process once more before it learns who it is.
        """
        if isinstance(error, QueueStalled) and self._so_far == Healed():
            return
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        self._errors.append(f"the run was stopped: {said}")
        self._steps.append(RecoveryStep("stopped", said))
        after = IntegrityResult(Verdict.SKIPPED, reason="the run was stopped")
        try:
            done = replace(self._end(opened, self._so_far, after), was_stopped=True)
            self._store.runs.end(run_id, self._with_what_is_left(done), self._session.now())
        except Exception as failure:
            self._session.log.warning(
                "recovery run %d was stopped, and that could not be put on record: %s",
                run_id, failure, extra=about(run_id=run_id, store=self._store.path),
            )  # fmt: skip

    def _note_the_opening(self, opened: Opened) -> None:
        if opened.flush_was_busy:
            self._errors.append("log flush: another program was reading the file; it is not empty")
        who = "crashed pid" if opened.previous is PreviousStop.IN_USE else "pid"
        pids = ", ".join(map(str, opened.crashed_pids))
        crashed = f", {who} {pids}" if pids else ""
        odd = f", {len(opened.odd_markers)} markers unreadable" if opened.odd_markers else ""
        integrity = opened.integrity
        frames = opened.wal_frames_moved
        self._steps += [
            RecoveryStep("unclean shutdown check", f"{opened.previous}{crashed}{odd}"),
            RecoveryStep(
                "log size", "in use" if opened.wal_bytes is None else f"{opened.wal_bytes} bytes"
            ),
            RecoveryStep(
                "integrity",
                f"{integrity.verdict}: {integrity.reason}"
                if integrity.reason
                else str(integrity.verdict),
                integrity.duration_seconds,
            ),
            RecoveryStep("log flush", "in use" if frames is None else f"{frames} frames moved"),
        ]

    def _heal(self, run_id: int) -> Healed:
        session = self._session
        if not session.settings.recovers:
            for name in ("workers judged", "orphans"):
                self._steps.append(RecoveryStep(name, "recovery is switched off"))
            return Healed()
        began = time.monotonic()
        healed = self._store.recovery.heal(
            session.now(), session.policy, run_id=run_id, tell=self._tell, is_thorough=True,
            stopped=self._keep,
        )  # fmt: skip
        self._so_far = healed
        dead, stale = len(healed.dead_workers), len(healed.stale_workers)
        self._steps += [
            RecoveryStep("workers judged", f"{dead} dead, {stale} stale"),
            RecoveryStep(
                "orphans",
                f"{healed.put_back} put back, {healed.failed} failed, {healed.held} held,"
                f" {healed.skipped} skipped",
                time.monotonic() - began,
            ),
        ]
        self._errors += [f"task {one.task_id}: {one.error}" for one in healed.unfit]
        return healed

    def _keep(self, healed: Healed) -> None:
        self._so_far = healed
        self._errors += [f"task {one.task_id}: {one.error}" for one in healed.unfit]

    def _verify(self, opened: Opened) -> IntegrityResult:
        """A second look, if there was a first one worth the name."""
        result = IntegrityResult(Verdict.SKIPPED, reason="nothing was checked before")
        if opened.integrity.passed:
            try:
                result = self._store.check(is_quick=True)
            except OutlastError as error:
                result = IntegrityResult(Verdict.FAILED, (str(error),), is_quick=True)
        self._errors += [f"verification: {one}" for one in result.errors]
        outcome = f"{result.verdict}: {result.reason}" if result.reason else str(result.verdict)
        self._steps.append(RecoveryStep("verification", outcome, result.duration_seconds))
        return result

    def _say(self, report: RecoveryReport) -> None:
        for step in report.steps:
            self._session.log.debug(
                "recovery run %d, %s: %s", report.run_id, step.name, step.outcome,
                extra=about(run_id=report.run_id),
            )  # fmt: skip
        if not self._session.settings.recovers:
            self._session.log.warning(
                "recovery is switched off for %s: tasks of dead workers stay as they are",
                self._session.store.path,
            )
        moved = report.tasks_put_back + report.tasks_failed
        level = logging.WARNING if moved else logging.INFO
        if self._session.log.isEnabledFor(level):
            self._session.log.log(
                level,
                "recovered %d tasks, failed %d, of %d dead workers, in %.3f s",
                report.tasks_put_back,
                report.tasks_failed,
                len(report.dead_workers),
                report.duration_seconds,
                extra=self._about(report, moved),
            )

    def _about(self, report: RecoveryReport, moved: int) -> dict[str, Any]:
        """For a log that machines read; of the tasks only so many as fit a line."""
        ids = [task_id for dead in report.dead_workers for task_id in dead.task_ids][:IDS_LISTED]
        if len(ids) < min(moved, IDS_LISTED):
            tasks = self._store.runs.recovered(report.run_id, 0, IDS_LISTED)
            ids = [one.task_id for one in tasks]
        return about(
            run_id=report.run_id, wal_bytes=report.wal_bytes, store=self._store.path,
            tasks_put_back=report.tasks_put_back, tasks_failed=report.tasks_failed,
            dead_workers=[one.worker for one in report.dead_workers[:IDS_LISTED]],
            duration_seconds=report.duration_seconds,
            task_ids=ids,
        )  # fmt: skip


def dead_worker(one: Death) -> DeadWorker:
    """A death as users see it."""
    return DeadWorker(
        one.worker, one.incarnation, one.pid, one.host, one.because, utc_of(one.beat_at_ms),
        one.put_back, one.failed, one.task_ids,
    )  # fmt: skip
