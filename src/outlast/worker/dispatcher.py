"""A worker's desk: between its hands, which run tasks, and its clerk, which claims and settles.

One thread reads the clerk's news, hands tasks on, watches the clocks, and reports. A result counts
only once the clerk says that it is committed.
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
from outlast.worker.executors import Crew
from outlast.worker.job import Job
from outlast.worker.jobs import InHand, proof_of, settle_the_rest
from outlast.worker.lost_leases import Losing
from outlast.worker.messages import Ending, News, Proof
from outlast.worker.outbox import Writer
from outlast.worker.prefetch import Pace
from outlast.worker.store_link import ClerkLink

CLOCKS_SECONDS = 0.25
DEAF_SECONDS = 2.0
LAST_WORDS_SECONDS = 10.0

# Called in each round with whether the worker stops; says how many seconds may pass at most.
Tick = Callable[[bool], float]


class Desk:
    """What goes on between a worker's hands and its clerk."""

    def __init__(
        self,
        session: Session,
        link: ClerkLink,
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
        # Held by whoever writes to the clerk, or decides that there is one.
        self._writing = threading.RLock()
        batch = max(1, prefetch // 2)
        self._tasks = InHand(session, batch, self._waker.wake, self._report_if_nobody_does, worker)
        self._crew = Crew(concurrency, self._tasks.begin, self._tasks.lay)
        self._pace = Pace(concurrency, prefetch)
        self._writer = Writer(self._tasks, self._pace)
        self._clocks_at = 0.0
        self._peak_memory_bytes = 0
        self._is_dry = False
        self._stops_at: float | None = None
        self._releases_at = float("inf")
        self._has_left = False
        self.tally = Tally()
        self._losing = Losing(session, self._tasks, self.tally, worker)
        self.is_ready = False

    @property
    def running(self) -> int:
        """How many handlers are at work."""
        return len(self._tasks.running)

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
                    self._keep_a_clerk()
                self._read_news()
                self._watch_clocks()
                if self._releases_at < float("inf") or (until_empty and self._is_empty()):
                    self._stop_working()
                with self._writing:
                    self._report()
                self._sleep(tick(self._stops_at is not None))
        finally:
            self._close()

    # What the clerk says

    def _keep_a_clerk(self) -> None:
        if self._link.is_up or time.monotonic() < self._link.starts_at:
            return
        try:
            principal = self._session.store.principal(self._worker, self._session.now())
            if self._principal is not None and principal.row != self._principal.row:
                self._lose_everything("this worker was taken for dead")
            self._principal = principal
            self._crew.hold(principal.lock_descriptor)
            self._link.start(principal)
        except StoreReplaced:
            raise
        except (OutlastError, OSError, RuntimeError) as error:
            # No process or thread is to be had, perhaps: that passes, and leases last a while.
            self._session.log.warning("no clerk could be started: %s", error)
            self._link.drop()
            return
        self._link.send(self._writer.first_report(time.monotonic()))

    def _read_news(self) -> None:
        if not self._link.is_up:
            return
        try:
            with self._writing:
                letters = self._link.news()
        except EOFError:
            if not self._has_left:
                self._session.log.warning("the clerk is gone, another one takes its place")
                self._drop_clerk()
            return
        for news in letters:
            # A clerk that only tells of trouble has not got to its work yet.
            has_beaten = news.beaten_mono_ms is not None
            self.is_ready = self.is_ready or has_beaten or news.is_dry is not None
            self._take_in(news)

    def _take_in(self, news: News) -> None:
        if news.settled:
            self._settled(news.settled)
        if news.handed:
            self._hand_on(news.handed, news.claimed_mono_ms)
        for proof in news.lost:
            self._losing.hear(self._grant(proof))
        if news.is_dry is not None:
            is_current = news.excluding == self._tasks.ignoring()
            self._is_dry = news.is_dry and not news.awaits_retries and is_current
        if news.beaten_mono_ms is not None:
            for job in list(self._tasks.open.values()):
                job.renewed(news.beaten_mono_ms)
        self._hear_of_trouble(news)
        self._has_left = self._has_left or news.has_left

    def _hear_of_trouble(self, news: News) -> None:
        for line in news.logs:
            from_elsewhere(*line)
        if news.trouble is not None:
            self._session.log.warning("worker %s: %s", self._worker, news.trouble)
        for proof in news.spoiled:
            self._tasks.unsettled[proof] = Ending(*proof, Outcome.FAIL)
        if news.is_replaced is not None:
            self._lose_everything("its store was replaced or removed")
            raise StoreReplaced(news.is_replaced)
        if news.is_dead:
            self._lose_everything("this worker was taken for dead")
            self._drop_clerk()

    def _settled(self, proofs: list[Proof]) -> None:
        for outcome in self._tasks.settled(proofs):
            self.tally.count(outcome)
        self._session.store.note_end([self._grant(proof) for proof in proofs])

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
            self._tasks.take_in(job)
        self._writer.handed(len(handed))
        self._pace.handed()
        if self._stops_at is None:
            self._crew.give(jobs)
        else:
            # They were on their way when the worker was told to stop, and nobody begins them.
            self._tasks.release_queued(jobs)

    # What goes wrong

    def _lose_everything(self, reason: str) -> None:
        tasks = self._tasks
        with self._writing:
            for proof in {proof_of(grant) for grant in list(tasks.open)} | set(tasks.unsettled):
                self._losing.lose(self._grant(proof), reason)
            tasks.outbox.clear()

    def _drop_clerk(self) -> None:
        with self._writing:
            self._link.drop()

    def _watch_clocks(self) -> None:
        now = time.monotonic()
        self._losing.look_again()
        for job in self._tasks.overdue(now):
            self._losing.call_off(job, "its time is up")
        if now < self._clocks_at:
            return
        self._clocks_at = now + CLOCKS_SECONDS
        self._note_memory()
        if self._pace.hoards(now):
            # Tasks taken ahead turn out to wait behind long ones: others may have them.
            self._tasks.release_queued(self._tasks.surplus(self._free_slots()))
        self._watch_leases()

    def _note_memory(self) -> None:
        """What is known of it if this process is killed."""
        peak_bytes = memory.peak_memory_bytes()
        if peak_bytes is not None and peak_bytes > self._peak_memory_bytes:
            self._peak_memory_bytes = peak_bytes
            self._session.store.note_memory(peak_bytes)

    def _watch_leases(self) -> None:
        tasks, mono_ms = self._tasks, self._session.now().mono_ms
        if any(mono_ms >= job.lease_ends_mono_ms for job in list(tasks.open.values())):
            # A handler may have kept this thread from reading what the clerk did meanwhile.
            self._read_news()
        for grant, job in list(tasks.open.items()):
            if mono_ms < job.lease_ends_mono_ms or job.ctx.is_completing:
                # Who is about to complete is looked at when it has.
                continue
            tasks.release_queued([job])
            if grant in tasks.open and grant in tasks.running:
                # Whoever renews it now would keep it from others, with nobody at work on it.
                self._writer.dropped.append(proof_of(grant))
                reason = "its lease ran out before it could be renewed"
                self._losing.lose(grant, reason, is_taken=False)

    # Coming to an end

    def _is_empty(self) -> bool:
        """Nothing is in hand and nothing to be had, but for handlers that take no notice."""
        if not self._tasks.is_empty or not (self._is_dry or self._free_slots() == 0):
            return False
        patience_ends_at = time.monotonic() - DEAF_SECONDS
        return all(job.called_off_at <= patience_ends_at for job in self._tasks.at_work())

    def _stop_working(self) -> None:
        """Put back what has not begun; once the time is up, also what has."""
        tasks, now = self._tasks, time.monotonic()
        if self._stops_at is None:
            self._stops_at = now
            if self._releases_at == float("inf"):
                self._releases_at = now + LAST_WORDS_SECONDS
        for job in tasks.at_work():
            job.ctx.stop_soon()
        tasks.release_queued(tasks.queued.values())
        if now >= self._releases_at:
            is_last_moment = now >= self._releases_at + LAST_WORDS_SECONDS
            for job in list(tasks.open.values()):
                # Who is about to complete may have completed.
                if is_last_moment or not job.ctx.is_completing:
                    tasks.release(job)
                    self._losing.call_off(job, "the worker stops")
            if is_last_moment or self._session.ended:
                self._session.log.warning("the worker leaves without its clerk's last word")
                self._has_left = True
        if not self._link.is_up and tasks.is_empty:
            # With nothing to be told, a clerk that is gone need not be replaced.
            self._has_left = True

    def _close(self) -> None:
        for job in self._tasks.at_work():
            self._losing.call_off(job, "the worker stops")
        with self._writing:
            self._link.close()
        if self._principal is not None and not self._session.ended:
            # Outcomes that the clerk has not acknowledged; those it has stored are so twice.
            settle_the_rest(self._session, self._principal.row, self._tasks.left_over())
        self._crew.close()
        self._waker.close()

    # Telling the clerk

    def _free_slots(self) -> int:
        return self._concurrency - len(self._tasks.ignoring())

    def _room(self) -> int:
        return 0 if self._stops_at is not None else self._writer.room(self._free_slots())

    def _report_if_nobody_does(self) -> None:
        """For a hand that finds the outbox full."""
        if self._writing.acquire(blocking=False):
            try:
                self._report()
            finally:
                self._writing.release()
        else:
            # What is laid down after that one has gathered would wait for the next clock.
            self._waker.wake()

    def _report(self) -> None:
        if not self._link.is_up:
            return
        now, is_stopping = time.monotonic(), self._stops_at is not None
        leaves = is_stopping and self._tasks.is_empty
        room = self._room()
        is_due = self._tasks.is_time(now) or leaves or self._writer.has_news(room, is_stopping)
        if is_due:
            report = self._writer.report(now)
            report.leave = leaves
            self._writer.offer(report, self._room())
            if report.completed or report.endings:
                self._is_dry = False
            self._link.send(report)

    def _sleep(self, longest_seconds: float) -> None:
        """Until the clerk or a hand has something, or a clock runs out."""
        if self._has_left:
            return
        tasks = self._tasks
        tasks.is_watched = False
        now = time.monotonic()
        until = min(now + longest_seconds, self._releases_at + LAST_WORDS_SECONDS)
        if tasks.open or tasks.running:
            until = min(until, self._clocks_at, tasks.next_timeout())
        if tasks.outbox:
            delay_seconds = self._session.settings.settle_delay_seconds
            until = min(until, tasks.first_laid_at + delay_seconds)
        if self._releases_at > now:
            until = min(until, self._releases_at)
        if self._link.is_up and tasks.is_time(now):
            # What was laid down while nobody watched any more is looked at first.
            until = now
        self._link.wait(self._waker.fileno(), now, until)
        tasks.is_watched = True
        self._waker.drain()
