"""The store process: it claims, settles and beats for one worker, and runs none of its handlers.

A worker's handlers may hold the GIL for seconds; transactions made there would hold the store's
write lock for as long. The store process ends with its worker, and renews nothing for one that is
stopped or gone.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from outlast.domain.lifecycle import RECOVERY, WORKER, Cause, Outcome
from outlast.errors import (
    DeclaredDead,
    OutcomeUnknown,
    OutlastError,
    QueueFull,
    QueueStalled,
    StoreBusy,
    StoreReplaced,
    StoreUnwritable,
)
from outlast.maintenance.healing import heal_before_claim
from outlast.store.records import Claimed, ClaimRequest, Exchanged, Settlement
from outlast.store.session import Session
from outlast.worker.heartbeat import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    WATCH_SECONDS,
    Heartbeat,
)
from outlast.worker.messages import Begin, Logged, News, Proof, Report, Wire, settlements_in
from outlast.worker.work_waiter import WorkWaiter

MOST_AT_ONCE = 1000
SINGLY_AFTER_FAILURES = 2
HOPELESS_AFTER_REFUSALS = 3

# Not the worker's own doing: a late outcome of its own must not be taken for settled by this.
_STRAY = Cause(Outcome.RELEASE, RECOVERY)
# What says nothing of the ending that was to be stored, however often it is met.
_OF_THE_STORE = (QueueStalled, StoreBusy, QueueFull, OutcomeUnknown, StoreUnwritable)


class StoreProcess:
    """Serves one worker until the worker closes the socket or says that it leaves."""

    def __init__(
        self,
        wire: Wire[Report],
        session: Session,
        begin: Begin,
        worker_is_running: Callable[[], bool],
        logs: deque[Logged] | None = None,
    ) -> None:
        self._wire = wire
        self._session = session
        self._store = session.store
        self._begin = begin
        self._worker_is_running = worker_is_running
        # Other threads append to it too; this one alone sends.
        self._logs: deque[Logged] = deque() if logs is None else logs
        self._refusals: Counter[Proof] = Counter()
        self._has_heard = False
        self._request = ClaimRequest(
            begin.worker, 0, tuple(begin.queues), tuple(begin.kinds), None, started=False
        )
        self._has_predecessor = begin.is_successor
        self._held: dict[Proof, Claimed] = {}
        self._endings: dict[Proof, Settlement] = {}
        self._report = Report()
        self._handed_in_all = 0
        self._failures = 0
        self._resumes_at = 0.0
        self._told_no_work = False
        self._told_retries = False
        self._work_waiter = WorkWaiter(session)
        self._heartbeat = Heartbeat(session, begin)

    def run(self) -> None:
        """Serve until the worker is gone; recovery settles what it left unreported."""
        try:
            while self._take_in(self._wire.messages()):
                self._serve_once()
                self._wire.flush()
                self._wait()
        except EOFError:
            return
        finally:
            self._work_waiter.close()

    def _serve_once(self) -> None:
        """One round; what nobody here can mend is told, and ends it."""
        try:
            self._exchange_if_due()
            self._beat_if_due()
            self._watch_if_due()
        except DeclaredDead:
            self._wire.send(News(is_dead=True))
            raise EOFError from None
        except StoreReplaced as error:
            self._wire.send(News(is_replaced=str(error)))
            raise EOFError from None
        while self._logs:
            self._wire.send(News(logs=[self._logs.popleft()]))

    # Reports from the worker

    def _take_in(self, messages: list[Report]) -> bool:
        """Note what was reported; False once the worker leaves and all it ended is stored."""
        for report in messages:
            self._has_heard = True
            for claimed in report.held:
                self._held[claimed.grant.seq, claimed.grant.token] = claimed
            for settlement in settlements_in(report, self._begin.row, self._held):
                grant = settlement.grant
                self._endings[grant.seq, grant.token] = settlement
            for key in report.dropped:
                self._held.pop(key, None)
            if (report.stuck, report.progress) != (self._report.stuck, self._report.progress):
                self._heartbeat.beat_soon()
            if report.excluding != self._report.excluding:
                # The look that found no work did not count these.
                self._work_waiter.found_no_work = self._told_no_work = False
            self._report = report
            self._release_strays()
        # Tasks may be on their way to a worker that is about to leave; it has to put them back.
        if self._report.leave and not (self._endings or self._held):
            self._wire.send(News(has_left=True))
            return False
        return True

    def _release_strays(self) -> None:
        """Put back what the store process before this one claimed and could not tell of."""
        if not self._has_predecessor:
            return
        self._has_predecessor = False
        for grant, task_id in self._store.claims.held_by_row(self._begin.row).items():
            key = grant.seq, grant.token
            is_known = key in self._held or key in self._endings
            if not is_known and grant.seq not in self._report.excluding:
                self._endings[key] = Settlement(grant, task_id, _STRAY)

    # Settling and claiming

    @property
    def _room(self) -> int:
        """How many more tasks the worker would take now."""
        room = self._report.takes_in_all - self._handed_in_all
        return 0 if self._report.leave else max(0, min(room, MOST_AT_ONCE))

    def _exchange_if_due(self) -> None:
        now = time.monotonic()
        looks = self._room > 0 and self._work_waiter.is_worth_a_look
        if now < self._resumes_at or not (self._endings or looks):
            return
        if not self._worker_is_running():
            self._resumes_at = now + WATCH_SECONDS
            return
        try:
            self._exchange()
        except (DeclaredDead, StoreReplaced):
            raise
        except OutlastError as error:
            self._fail(error)

    def _exchange(self) -> None:
        if self._failures >= SINGLY_AFTER_FAILURES and self._endings:
            self._settle_singly()
        self._work_waiter.begin()
        self._heal(force=False)
        endings = dict(self._endings)
        began_mono_ms = self._session.now().mono_ms
        done = self._trade(list(endings.values()))
        came_up_empty = self._room > 0 and not done.claimed and not self._work_waiter.found_no_work
        # Orphans of dead workers are looked for before the queue is called empty.
        if came_up_empty and self._heal(force=True):
            done = Exchanged(done.answers, self._trade([]).claimed)
        self._failures = 0
        self._tell(list(endings), done, began_mono_ms)

    def _heal(self, force: bool) -> bool:
        """Not while our own leases may have run out: they would be put back, too, though what the
        worker has ended meanwhile is still to be read and stored. The next beat renews them."""
        return not (self._held and self._is_late()) and heal_before_claim(self._session, force)

    def _trade(self, settlements: list[Settlement]) -> Exchanged:
        request = ClaimRequest(
            self._request.worker, self._room, self._request.queues, self._request.kinds,
            started=False, excluding=frozenset(self._report.excluding),
        )  # fmt: skip
        session = self._session
        return self._store.claims.exchange(
            settlements, request, session.now(), self._lease_ms, session.now
        )

    def _lease_ms(self, kind: str) -> int:
        return self._begin.lease_ms_by_kind[kind]

    def _tell(self, ended: list[Proof], done: Exchanged, began_mono_ms: int) -> None:
        looked = self._room > 0
        self._take_note(ended, done)
        told = self._told_no_work, self._told_retries
        if looked:
            self._work_waiter.found(bool(done.claimed), self._room > 0)
            self._told_no_work = not done.claimed
        awaits_retries = looked and not done.claimed and self._awaits_retries()
        if not (done.claimed or ended) and told == (True, awaits_retries):
            return
        self._told_retries = awaits_retries
        lost = [key for key, answer in zip(ended, done.answers, strict=True) if answer is None]
        self._wire.send(
            News(
                handed=done.claimed,
                claimed_mono_ms=began_mono_ms,
                settled=[key for key in ended if key not in lost] if lost else ended,
                lost=lost,
                found_no_work=not done.claimed if looked else None,
                excluding=self._report.excluding if looked else [],
                awaits_retries=awaits_retries,
            )
        )

    def _take_note(self, ended: Iterable[Proof], done: Exchanged) -> None:
        """What was handed out is held from now on, and what has ended is not."""
        for claimed in done.claimed:
            self._held[claimed.grant.seq, claimed.grant.token] = claimed
        self._handed_in_all += len(done.claimed)
        for key in ended:
            self._held.pop(key, None)
            self._endings.pop(key, None)

    def _awaits_retries(self) -> bool:
        """Whether tasks of ours wait for their next try, so that empty is not yet empty."""
        if not self._begin.until_empty:
            return False
        with suppress(OutlastError):
            return self._store.claims.retries_are_due(
                self._begin.queues, self._begin.kinds, self._report.excluding
            )
        return False

    def _fail(self, error: OutlastError) -> None:
        """Try again later what could not be stored, with a growing pause; nothing is dropped."""
        self._failures += 1
        pause_seconds = FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 10)
        self._resumes_at = time.monotonic() + min(pause_seconds, LONGEST_PAUSE_SECONDS)
        self._wire.send(News(trouble=str(error)))

    def _settle_singly(self) -> None:
        """One ending that cannot be stored must not keep the others. It is given up only if the
        store is sound and takes everything else, time after time."""
        refused: dict[Proof, OutlastError] = {}
        for key, settlement in list(self._endings.items()):
            try:
                self._settle({key: settlement})
            except (DeclaredDead, StoreReplaced):
                raise
            except OutlastError as error:
                if isinstance(error, _OF_THE_STORE):
                    raise
                refused[key] = error
        if refused:
            self._lose(self._heartbeat.beat(self._held, self._report))
        for key, why in refused.items():
            self._refusals[key] += 1
            if self._refusals[key] >= HOPELESS_AFTER_REFUSALS:
                self._fail_unstorable(key, why)

    def _fail_unstorable(self, key: Proof, error: OutlastError) -> None:
        settlement = self._endings.pop(key)
        if settlement.cause.outcome is Outcome.RELEASE:
            # Its lease will run out, which puts it back too.
            self._held.pop(key, None)
            self._wire.send(News(lost=[key]))
            return
        text = f"how it ended could not be stored: {error}"
        cause = Cause(Outcome.FAIL, WORKER, error=text, retryable=False)
        self._endings[key] = settlement._replace(cause=cause, result=None)
        self._wire.send(News(unstorable=[key]))

    def _settle(self, endings: dict[Proof, Settlement]) -> None:
        """Store these and tell of it, without a look at what there is to do."""
        session, settlements = self._session, list(endings.values())
        done = self._store.claims.exchange(
            settlements, self._request, session.now(), self._lease_ms, session.now
        )
        answers = dict(zip(endings, done.answers, strict=True))
        self._take_note(answers, done)
        lost = [key for key, answer in answers.items() if answer is None]
        # Something may have come of it: the next look is worth telling of, whatever it finds.
        self._told_no_work = False
        self._wire.send(News(settled=[key for key in answers if key not in lost], lost=lost))

    def _is_late(self) -> bool:
        """Whether leases may have run out since they were last renewed."""
        shortest_ms = min(self._begin.lease_ms_by_kind.values())
        return self._session.now().mono_ms - self._heartbeat.renewed_mono_ms >= shortest_ms

    # Heartbeat

    def _beat_if_due(self) -> None:
        # Before it knows what is held, a beat would look like a renewal that it is not.
        if time.monotonic() < self._heartbeat.beat_at or not self._has_heard:
            return
        if not self._worker_is_running():
            self._heartbeat.put_off()
            return
        try:
            self._lose(self._heartbeat.beat(self._held, self._report))
        except (DeclaredDead, StoreReplaced):
            raise
        except OutlastError as error:
            self._wire.send(News(trouble=f"a beat failed and is tried again: {error}"))
        else:
            self._wire.send(News(beaten_mono_ms=self._heartbeat.renewed_mono_ms))

    def _watch_if_due(self) -> None:
        if self._held and time.monotonic() >= self._heartbeat.watch_at:
            self._lose(self._heartbeat.watch(self._held))

    def _lose(self, keys: list[Proof]) -> None:
        lost = [key for key in keys if key not in self._endings]
        for key in lost:
            self._held.pop(key, None)
        if lost:
            self._wire.send(News(lost=lost))

    # Waiting

    def _wait(self) -> None:
        now = time.monotonic()
        if self._resumes_at > now:
            until = min(self._resumes_at, self._heartbeat.beat_at)
        elif self._endings or (self._room > 0 and not self._work_waiter.found_no_work):
            return
        else:
            until = self._heartbeat.beat_at if self._has_heard else now + WATCH_SECONDS
        if self._held:
            until = min(until, self._heartbeat.watch_at)
        if self._wire.has_unsent:
            until = min(until, now + 0.01)
        listens = self._room > 0 and self._resumes_at <= now
        self._work_waiter.wait(max(0.0, until - now), self._wire.fileno(), listens=listens)
