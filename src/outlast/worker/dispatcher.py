"""The dispatcher of a worker: between the executors, which run the handlers, and the store process,
which claims and settles tasks.

One thread reads the messages of the store process, passes claimed tasks to the executors, enforces
time limits and leases, and reports outcomes. A result counts only once the store process has said
that it is committed.
"""

import threading
import time
from collections.abc import Callable, Mapping

from outlast.domain.lifecycle import Outcome
from outlast.errors import OutlastError, StoreReplaced
from outlast.host import memory
from outlast.host.waker import Waker
from outlast.logs import from_elsewhere
from outlast.store.records import Claimed, Grant, Principal
from outlast.store.session import Session
from outlast.tasks.context import Context
from outlast.tasks.functions import AnyFunction
from outlast.worker.counts import Tally
from outlast.worker.executors import Executors
from outlast.worker.job import Job
from outlast.worker.jobs import Jobs, proof_of, settle_the_rest
from outlast.worker.lost_leases import LostLeases
from outlast.worker.messages import Ending, News, Proof
from outlast.worker.prefetch import PrefetchPace
from outlast.worker.report_writer import ReportWriter
from outlast.worker.store_link import StoreLink

CLOCKS_SECONDS = 0.25
DEAF_SECONDS = 2.0
LAST_WORDS_SECONDS = 10.0

# Called in each round with whether the worker stops; says how many seconds may pass at most.
Tick = Callable[[bool], float]


class Dispatcher:
    """Passes tasks from the store process to the executors, and outcomes back."""

    def __init__(
        self,
        session: Session,
        link: StoreLink,
        functions: Mapping[str, AnyFunction],
        *,
        worker: str,
        concurrency: int,
        prefetch: int,
    ) -> None:
        self._session = session
        self._link = link
        self._functions = functions
        self._worker = worker
        self._concurrency = concurrency
        self._principal: Principal | None = None
        self._waker = Waker()
        # Whoever writes to the store process, starts it or drops it holds this lock.
        self._writing = threading.RLock()
        batch = max(1, prefetch // 2)
        self._jobs = Jobs(session, batch, self._waker.wake, self._report_if_nobody_does, worker)
        self._executors = Executors(concurrency, self._jobs.begin, self._jobs.end)
        self._pace = PrefetchPace(concurrency, prefetch)
        self._writer = ReportWriter(self._jobs, self._pace)
        self._clocks_at = 0.0
        self._peak_memory_bytes = 0
        self._found_no_work = False
        self._stops_at: float | None = None
        self._releases_at = float("inf")
        self._has_left = False
        self.tally = Tally()
        self._lost_leases = LostLeases(session, self._jobs, self.tally, worker)
        self.is_ready = False

    @property
    def running(self) -> int:
        """How many handlers are at work."""
        return len(self._jobs.running)

    def stop(self, limit_seconds: float) -> None:
        """Claim no more and end: what is not done within the limit is released."""
        self._releases_at = min(self._releases_at, time.monotonic() + limit_seconds)
        self._waker.wake()

    def serve(self, until_empty: bool, tick: Tick) -> None:
        """Work until told to stop, or until there is nothing left to do."""
        try:
            while not self._has_left:
                if self._session.ended:
                    self._lose_everything("its Outlast was closed")
                    return
                with self._writing:
                    self._ensure_store_process()
                self._read_news()
                self._watch_clocks()
                if self._releases_at < float("inf") or (until_empty and self._is_empty()):
                    self._stop_working()
                with self._writing:
                    self._report()
                self._sleep(tick(self._stops_at is not None))
        finally:
            self._close()

    # Messages from the store process

    def _ensure_store_process(self) -> None:
        if self._link.is_up or time.monotonic() < self._link.starts_at:
            return
        try:
            principal = self._session.store.workers.principal(self._worker, self._session.now())
            if self._principal is not None and principal.row != self._principal.row:
                self._lose_everything("this worker was taken for dead")
            self._principal = principal
            self._executors.hold(principal.lock_descriptor)
            self._link.start(principal)
        except StoreReplaced:
            raise
        except (OutlastError, OSError, RuntimeError) as error:
            # The machine may have no process or thread to give; leases outlast such a moment.
            self._session.log.warning("no store process could be started: %s", error)
            self._link.drop()
            return
        self._link.send(self._writer.first_report(time.monotonic()))

    def _read_news(self) -> None:
        if not self._link.is_up:
            return
        try:
            with self._writing:
                messages = self._link.news()
        except EOFError:
            if not self._has_left:
                self._session.log.warning("the store process is gone, another one takes its place")
                self._drop_store_process()
            return
        for news in messages:
            # A store process that only tells of trouble does not serve yet.
            has_beaten = news.beaten_mono_ms is not None
            self.is_ready = self.is_ready or has_beaten or news.found_no_work is not None
            self._take_in(news)

    def _take_in(self, news: News) -> None:
        if news.settled:
            self._settled(news.settled)
        if news.handed:
            self._hand_on(news.handed, news.claimed_mono_ms)
        for proof in news.lost:
            self._lost_leases.hear(self._grant(proof))
        if news.found_no_work is not None:
            is_current = news.excluding == self._jobs.ignoring()
            self._found_no_work = news.found_no_work and not news.awaits_retries and is_current
        if news.beaten_mono_ms is not None:
            for job in list(self._jobs.open.values()):
                job.renewed(news.beaten_mono_ms)
        self._hear_of_trouble(news)
        self._has_left = self._has_left or news.has_left

    def _hear_of_trouble(self, news: News) -> None:
        for line in news.logs:
            from_elsewhere(*line)
        if news.trouble is not None:
            self._session.log.warning("worker %s: %s", self._worker, news.trouble)
        for proof in news.unstorable:
            self._jobs.unsettled[proof] = Ending(*proof, Outcome.FAIL)
        if news.is_replaced is not None:
            self._lose_everything("its store was replaced or removed")
            raise StoreReplaced(news.is_replaced)
        if news.is_dead:
            self._lose_everything("this worker was taken for dead")
            self._drop_store_process()

    def _settled(self, proofs: list[Proof]) -> None:
        for outcome in self._jobs.settled(proofs):
            self.tally.count(outcome)
        self._session.store.leases.note_end([self._grant(proof) for proof in proofs])

    def _grant(self, proof: Proof) -> Grant:
        assert self._principal is not None
        return Grant(proof[0], self._principal.row, proof[1])

    def _hand_on(self, handed: list[Claimed], claimed_mono_ms: int) -> None:
        session = self._session
        jobs = [
            Job(one, self._functions[one.kind], Context(session, one), claimed_mono_ms)
            for one in handed
        ]
        for job in jobs:
            self._jobs.take_in(job)
        self._writer.handed(len(handed))
        self._pace.handed()
        if self._stops_at is None:
            self._executors.give(jobs)
        else:
            # These tasks were on their way when the worker was told to stop.
            self._jobs.release_queued(jobs)

    # Lost leases and time limits

    def _lose_everything(self, reason: str) -> None:
        jobs = self._jobs
        with self._writing:
            for proof in {proof_of(grant) for grant in list(jobs.open)} | set(jobs.unsettled):
                self._lost_leases.lose(self._grant(proof), reason)
            jobs.outbox.clear()

    def _drop_store_process(self) -> None:
        with self._writing:
            self._link.drop()

    def _watch_clocks(self) -> None:
        now = time.monotonic()
        self._lost_leases.look_again()
        for job in self._jobs.overdue(now):
            self._lost_leases.call_off(job, "its time is up")
        if now < self._clocks_at:
            return
        self._clocks_at = now + CLOCKS_SECONDS
        self._note_memory()
        if self._pace.hoards(now):
            # Prefetched tasks wait behind long ones, so they go back for other workers.
            self._jobs.release_queued(self._jobs.surplus(self._free_slots()))
        self._watch_leases()

    def _note_memory(self) -> None:
        """Note the peak memory where it can be read after this process was killed."""
        peak_bytes = memory.peak_memory_bytes()
        if peak_bytes is not None and peak_bytes > self._peak_memory_bytes:
            self._peak_memory_bytes = peak_bytes
            self._session.store.workers.note_memory(peak_bytes)

    def _watch_leases(self) -> None:
        jobs, mono_ms = self._jobs, self._session.now().mono_ms
        if any(mono_ms >= job.lease_ends_mono_ms for job in list(jobs.open.values())):
            # A handler that holds the GIL keeps this thread from reading that leases were renewed.
            self._read_news()
        for grant, job in list(jobs.open.items()):
            if mono_ms < job.lease_ends_mono_ms or job.ctx.is_completing:
                # A handler that is about to complete is looked at when it has.
                continue
            jobs.release_queued([job])
            if grant in jobs.open and grant in jobs.running:
                # A renewal from now on would keep the task from others, with nobody at work on it.
                self._writer.dropped.append(proof_of(grant))
                reason = "its lease ran out before it could be renewed"
                self._lost_leases.lose(grant, reason, is_taken=False)

    # Stopping

    def _is_empty(self) -> bool:
        """Whether nothing is left to run or claim, but for handlers that were called off."""
        if not self._jobs.is_empty or not (self._found_no_work or self._free_slots() == 0):
            return False
        patience_ends_at = time.monotonic() - DEAF_SECONDS
        return all(job.called_off_at <= patience_ends_at for job in self._jobs.at_work())

    def _stop_working(self) -> None:
        """Put back what has not begun; once the time is up, also what has."""
        jobs, now = self._jobs, time.monotonic()
        if self._stops_at is None:
            self._stops_at = now
            if self._releases_at == float("inf"):
                self._releases_at = now + LAST_WORDS_SECONDS
        for job in jobs.at_work():
            job.ctx.stop_soon()
        jobs.release_queued(jobs.queued.values())
        if now >= self._releases_at:
            is_last_moment = now >= self._releases_at + LAST_WORDS_SECONDS
            for job in list(jobs.open.values()):
                # A handler that is about to complete may have completed.
                if is_last_moment or not job.ctx.is_completing:
                    jobs.release(job)
                    self._lost_leases.call_off(job, "the worker stops")
            if is_last_moment or self._session.ended:
                self._session.log.warning("the worker leaves before its store process has answered")
                self._has_left = True
        if not self._link.is_up and jobs.is_empty:
            # A store process that is gone need not be replaced when there is nothing to tell it.
            self._has_left = True

    def _close(self) -> None:
        for job in self._jobs.at_work():
            self._lost_leases.call_off(job, "the worker stops")
        with self._writing:
            self._link.close()
        if self._principal is not None and not self._session.ended:
            # These outcomes were not acknowledged; settling one that was stored changes nothing.
            settle_the_rest(self._session, self._principal.row, self._jobs.left_over())
        self._executors.close()
        self._waker.close()

    # Reports to the store process

    def _free_slots(self) -> int:
        return self._concurrency - len(self._jobs.ignoring())

    def _room(self) -> int:
        return 0 if self._stops_at is not None else self._writer.room(self._free_slots())

    def _report_if_nobody_does(self) -> None:
        """Send the outbox; called by an executor's thread that finds it full."""
        if self._writing.acquire(blocking=False):
            try:
                self._report()
            finally:
                self._writing.release()
        else:
            # An outcome added after the other thread has gathered would wait for the next clock.
            self._waker.wake()

    def _report(self) -> None:
        if not self._link.is_up:
            return
        now, is_stopping = time.monotonic(), self._stops_at is not None
        leaves = is_stopping and self._jobs.is_empty
        room = self._room()
        is_due = self._jobs.is_time(now) or leaves or self._writer.has_news(room, is_stopping)
        if is_due:
            report = self._writer.report(now)
            report.leave = leaves
            self._writer.offer(report, self._room())
            if report.completed or report.endings:
                self._found_no_work = False
            self._link.send(report)

    def _sleep(self, longest_seconds: float) -> None:
        """Wait until the store process or an executor has something, or a time limit is reached."""
        if self._has_left:
            return
        jobs = self._jobs
        jobs.is_watched = False
        now = time.monotonic()
        until = min(now + longest_seconds, self._releases_at + LAST_WORDS_SECONDS)
        if jobs.open or jobs.running:
            until = min(until, self._clocks_at, jobs.next_timeout())
        if jobs.outbox:
            delay_seconds = self._session.settings.settle_delay_seconds
            until = min(until, jobs.first_outcome_at + delay_seconds)
        if self._releases_at > now:
            until = min(until, self._releases_at)
        if self._link.is_up and jobs.is_time(now):
            # Outcomes that came after this thread stopped watching are reported first.
            until = now
        self._link.wait(self._waker.fileno(), now, until)
        jobs.is_watched = True
        self._waker.drain()
