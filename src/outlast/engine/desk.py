"""A worker's desk: between its hands, which run tasks, and its clerk, which claims and settles.

One thread reads the clerk's news, hands tasks on, gathers what ended, watches the clocks, and
reports. A result counts only once the clerk says that it is committed.
"""

import json
import logging
import random
import select
import time
from collections import deque
from collections.abc import Callable, Mapping

from outlast.domain.lifecycle import Outcome
from outlast.engine.clerk_link import ClerkLink
from outlast.engine.context import Context
from outlast.engine.functions import AnyFunction
from outlast.engine.hands import Job, Loop, Slots, Threads, Waker
from outlast.engine.letters import Completed, Ending, News, Proof, Report
from outlast.engine.run import Ended
from outlast.engine.session import Session
from outlast.engine.tally import Tally
from outlast.errors import OutlastError
from outlast.store.records import Claimed, Grant, Principal

AHEAD_SECONDS = 0.1
CLOCKS_SECONDS = 0.25
DEAF_SECONDS = 2.0
HOARD_SECONDS = 1.0
LAST_WORDS_SECONDS = 10.0

Entry = Completed | Ending
# Called in each round with whether the worker stops; says how many seconds may pass at most.
Tick = Callable[[bool], float]


class Desk:
    """The tasks a worker has in hand, from the moment they are claimed until they are settled."""

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
        self._prefetch = prefetch
        self._batch = max(1, prefetch // 2)
        self._principal: Principal | None = None
        slots = Slots(concurrency)
        self._threads = Threads(concurrency, slots, self._begin, self._lay)
        self._loop = Loop(concurrency, slots, self._begin, self._lay)
        self._waker = Waker()
        # Tasks in hand without an outcome: whoever takes one out decides how it ended.
        self._open: dict[Grant, Job] = {}
        self._queued: dict[Grant, Job] = {}
        self._running: dict[Grant, Job] = {}
        self._outbox: deque[Entry] = deque()
        self._first_laid_at = 0.0
        # Outcomes that were reported and are not known to be committed.
        self._unsettled: dict[Proof, Entry] = {}
        # Leases given up here, of which the clerk does not know yet.
        self._dropped: list[Proof] = []
        self._handed_in_all = 0
        self._takes_in_all = 0
        self._rate_per_second = 0.0
        self._reported_at = self._handed_at = time.monotonic()
        self._told: tuple[str | None, str | None] = (None, None)
        self._clocks_at = 0.0
        self._is_dry = False
        self._excluded: list[int] = []
        self._is_asleep = False
        self._stops_at: float | None = None
        self._releases_at = float("inf")
        self._has_left = False
        self.tally = Tally()
        self.is_ready = False

    # Seen from other threads

    def wake(self) -> None:
        """Have a look at everything now."""
        self._waker.wake()

    @property
    def running(self) -> int:
        """How many handlers are at work."""
        return len(self._running)

    def stop(self, limit_seconds: float) -> None:
        """Claim no more and end: what is not done within the limit is released."""
        self._releases_at = min(self._releases_at, time.monotonic() + limit_seconds)
        self._waker.wake()

    def _begin(self, job: Job) -> bool:
        """A hand takes a task up; False if it is no longer to be run."""
        if self._queued.pop(job.grant, None) is None:
            return False
        if self._session.now().mono_ms >= job.lease_ends_mono_ms:
            self._put_down(job, Ending(*_proof(job.grant), Outcome.RELEASE))
            return False
        self._running[job.grant] = job
        try:
            self._session.store.note_start(job.grant)
        except OutlastError as error:
            self._running.pop(job.grant, None)
            self._session.log.warning("a start could not be noted, it is put back: %s", error)
            self._put_down(job, Ending(*_proof(job.grant), Outcome.RELEASE))
            return False
        timeout_seconds = job.function.options.timeout_seconds
        if timeout_seconds is not None and job.function.options.isolation == "thread":
            # A process has its time limit from its slot, which also says how it ended.
            job.times_out_at = time.monotonic() + timeout_seconds
            self._waker.wake()
        return True

    def _lay(self, job: Job, ended: Ended) -> None:
        """A hand lays an outcome down; it counts unless the task was settled otherwise."""
        self._running.pop(job.grant, None)
        seq, _, token = job.grant
        if ended.error is None and ended.peak_memory_bytes is None:
            self._put_down(job, (seq, token, ended.result))
        else:
            self._put_down(job, self._ending(job, ended))

    def _put_down(self, job: Job, entry: Entry) -> None:
        if self._open.pop(job.grant, None) is None:
            self._waker.wake()
            return
        if not self._outbox:
            self._first_laid_at = time.monotonic()
        self._outbox.append(entry)
        count = len(self._outbox)
        if self._is_asleep and (count == 1 or count >= self._batch or not self._open):
            self._is_asleep = False
            self._waker.wake()

    def _ending(self, job: Job, ended: Ended) -> Ending:
        first_ms, cap_ms = job.function.backoff(self._session.settings.backoff)
        return Ending(
            *_proof(job.grant),
            Outcome.COMPLETE if ended.error is None else Outcome.FAIL,
            ended.result,
            ended.error,
            ended.retryable,
            (first_ms, cap_ms),
            random.random(),
            ended.exit_signal,
            ended.peak_memory_bytes,
        )

    # The desk's own thread

    def serve(self, until_empty: bool, tick: Tick) -> None:
        """Work until told to stop, or until there is nothing left to do."""
        try:
            while not self._has_left:
                if self._session.ended:
                    self._lose_everything("its Outlast was closed")
                    return
                self._keep_a_clerk()
                self._read_news()
                self._watch_clocks()
                if self._releases_at < float("inf") or (until_empty and self._is_empty()):
                    self._stop_working()
                self._report()
                self._sleep(tick(self._stops_at is not None))
        finally:
            self._close()

    def _keep_a_clerk(self) -> None:
        if self._link.is_up or self._session.ended or time.monotonic() < self._link.starts_at:
            return
        try:
            principal = self._session.store.principal(self._worker, self._session.now())
            if self._principal is not None and principal.row != self._principal.row:
                self._lose_everything("this worker was taken for dead")
            self._principal = principal
            self._threads.lock_descriptor = principal.lock_descriptor
            self._link.start(principal)
        except (OutlastError, OSError, RuntimeError) as error:
            # No process or thread is to be had, perhaps: that passes, and leases last a while.
            self._session.log.warning("no clerk could be started: %s", error)
            self._link.drop()
            return
        self._handed_in_all = self._takes_in_all = 0
        self._outbox.extendleft(self._unsettled.values())
        self._unsettled.clear()
        # All at once: what the clerk is not told of now it takes for its predecessor's strays.
        report = self._written(time.monotonic())
        report.held = [job.claimed for job in list(self._open.values())]
        self._link.send(report)

    def _read_news(self) -> None:
        if not self._link.is_up:
            return
        try:
            letters = self._link.news()
        except EOFError:
            if not self._has_left:
                self._session.log.warning("the clerk is gone, another one takes its place")
                self._link.drop()
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
            self._lose(proof, "its lease was lost")
        if news.is_dry is not None:
            is_current = news.excluding == self._excluding()
            self._is_dry = news.is_dry and not news.awaits_retries and is_current
        if news.beaten_mono_ms is not None:
            for job in list(self._open.values()):
                job.renewed(news.beaten_mono_ms)
        for level, name, text in news.logs:
            logging.getLogger(name).log(level, "%s", text)
        if news.trouble is not None:
            self._session.log.warning("worker %s: %s", self._worker, news.trouble)
        if news.is_dead:
            self._lose_everything("this worker was taken for dead")
            self._link.drop()
        self._has_left = self._has_left or news.has_left

    def _settled(self, proofs: list[Proof]) -> None:
        assert self._principal is not None
        row = self._principal.row
        for proof in proofs:
            entry = self._unsettled.pop(proof, None)
            if entry is not None:
                self.tally.count(entry.outcome if isinstance(entry, Ending) else Outcome.COMPLETE)
        self._session.store.note_end([Grant(seq, row, token) for seq, token in proofs])

    def _hand_on(self, handed: list[Claimed], claimed_mono_ms: int) -> None:
        session = self._session
        plain: list[Job] = []
        coroutines: list[Job] = []
        for claimed in handed:
            function = self._functions[claimed.kind]
            job = Job(claimed, function, Context(session, claimed), claimed_mono_ms)
            self._open[job.grant] = self._queued[job.grant] = job
            is_plain = not function.is_async or function.options.isolation == "process"
            (plain if is_plain else coroutines).append(job)
        self._handed_in_all += len(handed)
        self._handed_at = time.monotonic()
        if plain:
            self._threads.give(plain)
        if coroutines:
            self._loop.give(coroutines)

    # What goes wrong

    def _lose(self, proof: Proof, reason: str) -> None:
        assert self._principal is not None
        grant = Grant(proof[0], self._principal.row, proof[1])
        was_offered = self._unsettled.pop(proof, None) is not None
        self._queued.pop(grant, None)
        was_open = self._open.pop(grant, None)
        job = was_open or self._running.get(grant)
        # One loss may be told of twice: seen by a look at the leases, and said to a late result.
        self.tally.lost += was_offered or was_open is not None
        if job is not None:
            self._call_off(job, reason)
            self._session.log.warning("task %s: %s", job.claimed.task_id, reason)
        self._session.store.note_end([grant])

    def _lose_everything(self, reason: str) -> None:
        proofs = {_proof(grant) for grant in list(self._open)} | set(self._unsettled)
        for proof in proofs:
            self._lose(proof, reason)
        self._outbox.clear()

    def _watch_clocks(self) -> None:
        now = time.monotonic()
        for job in list(self._running.values()):
            if now >= job.times_out_at:
                job.times_out_at = float("inf")
                self._time_out(job)
        if now < self._clocks_at:
            return
        self._clocks_at = now + CLOCKS_SECONDS
        if now - max(self._reported_at, self._handed_at) >= HOARD_SECONDS:
            self._share()
        mono_ms = self._session.now().mono_ms
        if any(mono_ms >= job.lease_ends_mono_ms for job in list(self._open.values())):
            # A handler may have kept this thread from reading what the clerk did meanwhile.
            self._read_news()
        for grant, job in list(self._open.items()):
            if mono_ms < job.lease_ends_mono_ms:
                continue
            if self._queued.pop(grant, None) is not None:
                self._put_down(job, Ending(*_proof(grant), Outcome.RELEASE))
            elif grant in self._running:
                # Whoever renews it now would keep it from others, with nobody at work on it.
                self._dropped.append(_proof(grant))
                self._lose(_proof(grant), "its lease ran out before it could be renewed")

    def _share(self) -> None:
        """Tasks taken ahead turn out to wait behind long ones: others may have them."""
        too_many = len(self._open) - self._free_slots()
        for job in list(self._queued.values())[::-1][: max(0, too_many)]:
            if self._queued.pop(job.grant, None) is not None:
                self._put_down(job, Ending(*_proof(job.grant), Outcome.RELEASE))

    def _time_out(self, job: Job) -> None:
        seconds = job.function.options.timeout_seconds
        error = f"TimeoutError: it was not done within {seconds:g} s"
        self._put_down(job, self._ending(job, Ended(error=error)))
        self._call_off(job, "its time is up")

    def _call_off(self, job: Job, reason: str) -> None:
        job.call_off(reason, time.monotonic(), self._session.now().utc_ms)

    # Coming to an end

    def _is_empty(self) -> bool:
        """Nothing is in hand and nothing to be had, but for handlers that take no notice."""
        if self._has_something or not (self._is_dry or self._free_slots() == 0):
            return False
        patience_ends_at = time.monotonic() - DEAF_SECONDS
        return all(job.called_off_at <= patience_ends_at for job in list(self._running.values()))

    @property
    def _has_something(self) -> bool:
        return bool(self._open or self._outbox or self._unsettled)

    def _stop_working(self) -> None:
        """Put back what has not begun; once the time is up, also what has."""
        now = time.monotonic()
        if self._stops_at is None:
            self._stops_at = now
            if self._releases_at == float("inf"):
                self._releases_at = now + LAST_WORDS_SECONDS
            for job in list(self._running.values()):
                job.ctx.stop_soon()
        for job in list(self._queued.values()):
            if self._queued.pop(job.grant, None) is not None:
                self._put_down(job, Ending(*_proof(job.grant), Outcome.RELEASE))
        if now >= self._releases_at:
            for job in list(self._open.values()):
                self._put_down(job, Ending(*_proof(job.grant), Outcome.RELEASE))
                self._call_off(job, "the worker stops")
            if now >= self._releases_at + LAST_WORDS_SECONDS or self._session.ended:
                self._session.log.warning("the worker leaves without its clerk's last word")
                self._has_left = True
        if not (self._link.is_up or self._has_something):
            # With nothing to be told, a clerk that is gone need not be replaced.
            self._has_left = True

    def _close(self) -> None:
        for job in list(self._running.values()):
            self._call_off(job, "the worker stops")
        self._link.close()
        self._threads.close(timeout_seconds=0.5)
        self._loop.close(timeout_seconds=0.5)
        self._waker.close()

    # Telling the clerk

    def _free_slots(self) -> int:
        return self._concurrency - sum(grant not in self._open for grant in list(self._running))

    def _room(self) -> int:
        """As many as there are slots, and what is likely done in a moment beyond that."""
        if self._stops_at is not None:
            return 0
        rate = self._rate_per_second
        quiet_seconds = time.monotonic() - self._reported_at
        if quiet_seconds > CLOCKS_SECONDS:
            # Where nothing ends for long, what was quick once is quick no more.
            rate = min(rate, self._concurrency / quiet_seconds)
        ahead = min(self._prefetch, int(rate * AHEAD_SECONDS))
        free = self._free_slots()
        return max(0, free + ahead - len(self._open)) if free else 0

    def _report(self) -> None:
        if not self._link.is_up:
            return
        now = time.monotonic()
        leaves = self._stops_at is not None and not self._has_something
        room = self._room()
        unused = self._takes_in_all - self._handed_in_all
        told = self._stuck(), self._progress()
        if not (
            self._is_time(now)
            or leaves
            or (room > unused and unused < max(1, (room + len(self._open)) // 4))
            or (room == 0 and unused > 0 and self._stops_at is not None)
            or self._dropped
            or self._excluding() != self._excluded
            or told != self._told
        ):
            return
        report = self._written(now)
        report.leave = leaves
        self._takes_in_all = report.takes_in_all = self._handed_in_all + self._room()
        self._link.send(report)

    def _written(self, now: float) -> Report:
        """What there is to tell at this moment."""
        self._told = self._stuck(), self._progress()
        dropped, self._dropped = self._dropped, []
        report = Report(stuck=self._told[0], progress=self._told[1], dropped=dropped)
        self._gather(report, now)
        self._excluded = report.excluding = self._excluding()
        return report

    def _excluding(self) -> list[int]:
        """Tasks whose handlers go on although they are settled: not to be run beside them."""
        return [grant.seq for grant in list(self._running) if grant not in self._open]

    def _is_time(self, now: float) -> bool:
        """Outcomes wait a little for company, unless there is nothing they could wait for."""
        if not self._outbox:
            return False
        waited_seconds = now - self._first_laid_at
        return (
            not self._open
            or len(self._outbox) >= self._batch
            or waited_seconds >= self._session.settings.settle_delay_seconds
        )

    def _gather(self, report: Report, now: float) -> None:
        count = len(self._outbox)
        done = 0
        for _ in range(count):
            entry = self._outbox.popleft()
            self._unsettled[entry[0], entry[1]] = entry
            if isinstance(entry, Ending):
                report.endings.append(entry)
                done += entry.outcome is not Outcome.RELEASE
            else:
                report.completed.append(entry)
                done += 1
        if self._outbox:
            self._first_laid_at = now
        if count:
            self._is_dry = False
        if done:
            seconds = max(now - self._reported_at, 1e-6)
            weight = 0.3 if seconds < CLOCKS_SECONDS else 1.0
            self._rate_per_second += weight * (done / seconds - self._rate_per_second)
            self._reported_at = now

    def _stuck(self) -> str | None:
        """Handlers that go on although their task is settled, for people to see."""
        found = [
            {"task_id": job.claimed.task_id, "kind": job.claimed.kind, "since_ms": since_ms}
            for grant, job in list(self._running.items())
            if grant not in self._open and (since_ms := job.called_off_utc_ms) is not None
        ]
        return json.dumps(found) if found else None

    def _progress(self) -> str | None:
        found = [one for job in list(self._running.values()) if (one := job.ctx.progressed)]
        return json.dumps(found[:100], default=str) if found else None

    def _sleep(self, longest_seconds: float) -> None:
        """Until the clerk or a hand has something, or a clock runs out."""
        if self._has_left:
            return
        self._is_asleep = True
        now = time.monotonic()
        until = min(now + longest_seconds, self._releases_at + LAST_WORDS_SECONDS)
        # Whether its Outlast was closed, nobody comes to tell.
        until = min(until, max(self._clocks_at, now + CLOCKS_SECONDS))
        if self._open:
            until = min(until, self._clocks_at)
            until = min([until, *(job.times_out_at for job in list(self._running.values()))])
        if self._outbox:
            delay_seconds = self._session.settings.settle_delay_seconds
            until = min(until, self._first_laid_at + delay_seconds)
        if self._releases_at > now:
            until = min(until, self._releases_at)
        waits_for = [self._waker.fileno()]
        if self._link.is_up:
            waits_for.append(self._link.fileno())
        else:
            until = min(until, self._link.starts_at)
        select.select(waits_for, [], [], max(0.0, until - now))
        self._is_asleep = False
        self._waker.drain()


def _proof(grant: Grant) -> Proof:
    return grant.seq, grant.token
