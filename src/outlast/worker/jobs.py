"""The jobs of a worker: its tasks from the moment they are claimed until they are settled.

Executors begin and end jobs here, each in a thread of its own; the dispatcher does the rest. The
outcome of a task is decided by whoever removes it from `open`.
"""

import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from outlast.domain.lifecycle import Outcome
from outlast.errors import LeaseLost, OutlastError
from outlast.logs import about
from outlast.store.records import Claimed, Grant
from outlast.store.session import Session
from outlast.tasks.execute import Ended
from outlast.worker.job import Job
from outlast.worker.messages import Completed, Ending, Proof, completed_ending

MOST_TOLD = 100

Entry = Completed | Ending


class TakenOut(NamedTuple):
    """What was known of a task whose lease has ended."""

    job: Job | None
    """The job, if a handler is at work on it."""
    is_news: bool
    is_done: bool
    """Whether its handler had completed it itself, by `ctx.complete()`."""


class Jobs:
    """Open jobs have no outcome yet: they are queued for an executor, or running. Outcomes wait in
    the outbox until they are reported, and are unsettled until they are known to be committed."""

    def __init__(
        self,
        session: Session,
        batch: int,
        wake: Callable[[], None],
        report: Callable[[], None],
        worker: str | None = None,
    ) -> None:
        """`wake` makes the dispatcher look; `report` sends what is in the outbox at once."""
        self._session = session
        self._batch = batch
        self._wake = wake
        self._report = report
        self._worker = worker
        self.open: dict[Grant, Job] = {}
        self.queued: dict[Grant, Job] = {}
        self.running: dict[Grant, Job] = {}
        self.outbox: deque[Entry] = deque()
        self.first_outcome_at = 0.0
        self.unsettled: dict[Proof, Entry] = {}
        # Their handlers completed these themselves; they are not known to be settled here yet.
        self._done_early: set[Proof] = set()
        # A job moves between these containers under this lock, so that it is never in none of them.
        self._moving = threading.Lock()
        self.is_watched = True
        """Whether the dispatcher is awake, and will see new outcomes without being woken."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to be run, reported or settled."""
        with self._moving:
            return not (self.open or self.outbox or self.unsettled)

    def take_in(self, job: Job) -> None:
        """Add a claimed task, which waits for an executor."""
        self.open[job.grant] = self.queued[job.grant] = job

    # For the executors

    def begin(self, job: Job) -> bool:
        """Start a job in an executor; False if it is no longer to be run."""
        if self.queued.pop(job.grant, None) is None:
            return False
        self.running[job.grant] = job
        if not self._may_run(job):
            self.running.pop(job.grant, None)
            self._wake()
            return False
        options = job.function.options
        if options.timeout_seconds is not None and options.isolation == "thread":
            # The slot of an isolated process enforces the limit itself, and says how it ended.
            job.times_out_at = time.monotonic() + options.timeout_seconds
            self._wake()
        return True

    def _may_run(self, job: Job) -> bool:
        """Note the start; False if the lease is over, or the dispatcher has taken the task back."""
        if self._session.now().mono_ms >= job.lease_ends_mono_ms:
            self.release(job)
            return False
        try:
            self._session.store.leases.note_start(job.grant)
        except OutlastError as error:
            self._session.log.warning("a start could not be noted, it is put back: %s", error)
            self.release(job)
            return False
        return job.grant in self.open

    def end(self, job: Job, ended: Ended) -> None:
        """Take an executor's outcome; it counts unless the task was settled otherwise."""
        self.running.pop(job.grant, None)
        if ended.is_given_back:
            self.release(job)
            return
        if ended.error is not None:
            self._log_error(job, ended)
        if ended.error is None and ended.peak_memory_bytes is None:
            seq, _, token = job.grant
            self.decide(job, (seq, token, ended.result))
        else:
            self.decide(job, self.ending(job, ended))

    def _log_error(self, job: Job, ended: Ended) -> None:
        # A handler that lost its lease has not failed: others hold the task, or it is settled.
        is_lost = job.grant not in self.open or ended.error_type == LeaseLost.__name__
        what = "stopped" if is_lost else "failed"
        self._session.log.warning(
            "task %s (%s) %s in attempt %d: %s",
            job.claimed.task_id, job.claimed.kind,
            "was completed and then failed" if job.ctx.has_completed else what,
            job.claimed.attempt, ended.error_type,
            extra=job.fields() | about(worker=self._worker, reason=ended.error_type),
        )  # fmt: skip

    def decide(self, job: Job, entry: Entry) -> None:
        """Decide how a task ended, unless somebody has."""
        has_completed = job.ctx.has_completed
        if has_completed:
            # The handler completed it itself, whatever came of it since.
            entry = (*proof_of(job.grant), None)
        with self._moving:
            is_open = self.open.pop(job.grant, None) is not None
            if is_open:
                if not self.outbox:
                    self.first_outcome_at = time.monotonic()
                if has_completed:
                    self._done_early.add(proof_of(job.grant))
                self.outbox.append(entry)
            count = len(self.outbox)
        if not is_open:
            self._wake()
            return
        if count >= self._batch and self.open:
            # The dispatcher would have to wait until this thread releases the GIL, and the store
            # process for the dispatcher.
            self._report()
        elif not self.is_watched and (count == 1 or not self.open):
            self.is_watched = True
            self._wake()

    def ending(self, job: Job, ended: Ended) -> Ending:
        """What is reported of an execution that is more than a plain success."""
        first_ms, cap_ms = job.function.backoff(self._session.settings.backoff)
        return Ending(
            *proof_of(job.grant),
            Outcome.COMPLETE if ended.error is None else Outcome.FAIL,
            ended.result,
            ended.error,
            ended.retryable,
            (first_ms, cap_ms),
            random.random(),
            ended.exit_signal,
            ended.peak_memory_bytes,
        )

    # For the dispatcher

    def held(self) -> list[Claimed]:
        """Everything that was handed out and has no outcome yet; payloads are not repeated."""
        with self._moving:
            return [job.claimed._replace(payload=None) for job in self.open.values()]

    def left_over(self) -> list[Entry]:
        """Outcomes that are not known to be committed."""
        with self._moving:
            return [*self.unsettled.values(), *self.outbox]

    def release(self, job: Job) -> None:
        """Put a task back, uncharged."""
        self.decide(job, Ending(*proof_of(job.grant), Outcome.RELEASE))

    def release_queued(self, jobs: Iterable[Job]) -> None:
        """Put back what no executor has begun."""
        for job in list(jobs):
            if self.queued.pop(job.grant, None) is not None:
                self.release(job)

    def is_completing(self, grant: Grant) -> bool:
        """Whether its handler is about to hear, as the first, how its lease has ended."""
        job = self.running.get(grant)
        return job is not None and job.ctx.is_completing

    def take_out(self, grant: Grant) -> TakenOut:
        """Forget a task whose lease has ended."""
        proof = proof_of(grant)
        was_offered = self.unsettled.pop(proof, None) is not None
        self.queued.pop(grant, None)
        was_open = self.open.pop(grant, None)
        job = was_open or self.running.get(grant)
        is_done = proof in self._done_early or (job is not None and job.ctx.has_completed)
        self._done_early.discard(proof)
        return TakenOut(job, was_offered or was_open is not None, is_done)

    def settled(self, proofs: Iterable[Proof]) -> Iterator[Outcome]:
        """These are committed; how each of them ended, as far as it was reported."""
        for proof in proofs:
            entry = self.unsettled.pop(proof, None)
            self._done_early.discard(proof)
            if entry is not None:
                yield entry.outcome if isinstance(entry, Ending) else Outcome.COMPLETE

    def overdue(self, now: float) -> Iterator[Job]:
        """Handlers that have had their time; their tasks have failed of it by then."""
        for job in self.at_work():
            # One that is about to complete may have completed; if not, its time is up afterwards.
            if now >= job.times_out_at and not job.ctx.is_completing:
                job.times_out_at = float("inf")
                seconds = job.function.options.timeout_seconds
                error = f"TimeoutError: it was not done within {seconds:g} s"
                self.decide(job, self.ending(job, Ended(error=error)))
                yield job

    def next_timeout(self) -> float:
        """When the next handler has had its time, but for those that are about to complete."""
        limits = (job.times_out_at for job in self.at_work() if not job.ctx.is_completing)
        return min(limits, default=float("inf"))

    def surplus(self, free_slots: int) -> list[Job]:
        """What was taken ahead beyond the slots there are, the latest first."""
        too_many = max(0, len(self.open) - free_slots)
        return list(self.queued.values())[::-1][:too_many]

    def at_work(self) -> list[Job]:
        """The jobs whose handlers run, settled ones among them."""
        return list(self.running.values())

    def ignoring(self) -> list[int]:
        """Tasks whose handlers go on although they are settled: not to be run beside them."""
        return [grant.seq for grant in list(self.running) if grant not in self.open]

    def stuck(self) -> str | None:
        """The same for people to see."""
        found = [
            {"task_id": job.claimed.task_id, "kind": job.claimed.kind, "since_ms": since_ms}
            for grant, job in list(self.running.items())
            if grant not in self.open and (since_ms := job.called_off_utc_ms) is not None
        ]
        return json.dumps(found) if found else None

    def progress(self) -> str | None:
        """What handlers have said of their progress."""
        found = [one for job in self.at_work() if (one := job.ctx.progressed)]
        return json.dumps(found[:MOST_TOLD], default=str) if found else None

    def is_time(self, now: float) -> bool:
        """Whether to report now: outcomes wait a little to be settled in one transaction."""
        if not self.outbox:
            return False
        return (
            not self.open
            or len(self.outbox) >= self._batch
            or now - self.first_outcome_at >= self._session.settings.settle_delay_seconds
        )

    def gather(self, now: float) -> tuple[list[Completed], list[Ending]]:
        """Everything in the outbox, which is unsettled from now on."""
        completed: list[Completed] = []
        endings: list[Ending] = []
        for _ in range(len(self.outbox)):
            with self._moving:
                entry = self.outbox.popleft()
                self.unsettled[entry[0], entry[1]] = entry
            if isinstance(entry, Ending):
                endings.append(entry)
            else:
                completed.append(entry)
        if self.outbox:
            self.first_outcome_at = now
        return completed, endings

    def offer_again(self) -> None:
        """Report once more what is not known to be committed."""
        self.outbox.extendleft(self.unsettled.values())
        self.unsettled.clear()


def proof_of(grant: Grant) -> Proof:
    """What tells a lease from others of the same worker."""
    return grant.seq, grant.token


def settle_the_rest(session: Session, row: int, entries: Iterable[Entry]) -> None:
    """Store outcomes without a store process, one by one, as far as the store allows it."""
    try:
        for entry in entries:
            ending = entry if isinstance(entry, Ending) else completed_ending(*entry)
            with suppress(LeaseLost):
                session.store.leases.settle([ending.settlement(row)], session.now())
    except OutlastError as error:
        session.log.warning("settling without the store process failed: %s", error)
