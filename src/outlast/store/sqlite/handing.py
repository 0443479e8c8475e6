"""Handing tasks out and taking results back: the verbs of claim, and of exchange, which is both."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain.metric_marks import FENCED_WRITES
from outlast.domain.task import Task
from outlast.errors import DeclaredDead
from outlast.logs import logger
from outlast.store.base import LeaseLength, Ticking
from outlast.store.ops import claim_rows, locks, settle
from outlast.store.ops.claim_log import Tale
from outlast.store.records import Claimed, ClaimRequest, Exchanged, Grant, Principal, Settlement
from outlast.store.sqlite.serving import GIVE_BACK, Serving
from outlast.store.sqlite.transaction import Transaction
from outlast.store.sqlite.wakeups.listener import ANYBODY, FOLLOWING

Verdicts = list[bool | None]

log = logger("outlast.store")


class _Done(NamedTuple):
    """What one transaction of an exchange did; `claimed` is None when it must come again."""

    row: int
    answers: Verdicts
    claimed: list[Claimed] | None


class Terms(NamedTuple):
    """What both sides of an exchange need: the moment, and how long leases last."""

    now: Instant
    lease_ms: LeaseLength
    clock: Ticking | None


class Handing(Serving):
    """The part of the store that moves tasks between the queue and their holders."""

    def claim(
        self,
        request: ClaimRequest,
        now: Instant,
        lease_ms: LeaseLength,
        clock: Ticking | None = None,
    ) -> list[Claimed]:
        """Move the best eligible tasks to running and hand them out."""
        return self.exchange((), request, now, lease_ms, clock).claimed

    def exchange(
        self,
        settlements: Sequence[Settlement],
        request: ClaimRequest,
        now: Instant,
        lease_ms: LeaseLength,
        clock: Ticking | None = None,
    ) -> Exchanged:
        """End leases and hand out new ones in one transaction; a limit of 0 hands out nothing."""
        if not settlements and self._would_come_up_empty(request, now):
            return Exchanged([], [])
        holding, terms = self._holding, Terms(now, lease_ms, clock)
        answers: Verdicts | None = None
        while True:
            incarnation = holding.incarnation()
            try:
                done = self._exchange(settlements if answers is None else (), request, terms)
            except DeclaredDead:
                holding.begin_anew(incarnation)
                log.warning("this process was declared dead by another and begins anew")
                continue
            answers = done.answers if answers is None else answers
            if done.claimed is not None:
                self._came_up_empty = not done.claimed and request.limit > 0
                self.tallies.add(FENCED_WRITES, answers.count(None))
                return Exchanged(answers, done.claimed)

    def _would_come_up_empty(self, request: ClaimRequest, now: Instant) -> bool:
        """An idle poller asks by reading, so that it never stands in a writer's way."""

        def is_anything_there(tx: Transaction) -> bool:
            if request.lock is not None:
                locks.refuse_held(tx, request.lock, now)
            return claim_rows.anything_eligible(tx, request, now)

        return (
            self._came_up_empty
            and not self._holding.doubtful
            and not self._read("looking for work", is_anything_there)
        )

    def _exchange(
        self, settlements: Sequence[Settlement], request: ClaimRequest, terms: Terms
    ) -> _Done:
        """What a doubtful claim may have taken is given back first, in the same transaction."""
        holding = self._holding
        incarnation = holding.incarnation()
        doubtful: list[Settlement] = []
        handed: list[Claimed] = []
        tale = Tale()

        def operation(tx: Transaction) -> _Done:
            nonlocal tale
            tale = Tale()
            moment = terms.clock() if terms.clock else terms.now
            doubtful[:] = holding.doubtful
            settle.settle_grants(tx, doubtful, moment)
            answers = settle.settle_grants(tx, settlements, moment)
            row = holding.row(tx, request.worker, moment)
            claiming = claim_rows.Claim(
                request, row, self._token_floor, moment, terms.lease_ms, tale
            )
            if request.lock is not None:
                locks.refuse_held(tx, request.lock, moment)
            claimed = claim_rows.claim_tasks(tx, claiming) if request.limit else []
            if request.lock is not None and claimed:
                locks.take_with(tx, request.lock, claiming, claimed[0])
            handed[:] = claimed or ()
            tale.learn(tx)
            return _Done(row, answers, claimed)

        def doubt() -> None:
            holding.doubt([Settlement(one.grant, one.task_id, GIVE_BACK) for one in handed])

        pending = self._submit(
            "claim",
            operation,
            chain((one.task_id for one in handed), (one.task_id for one in settlements)),
            wakes=ANYBODY if settlements else FOLLOWING,
            in_doubt=doubt,
        )
        try:
            done = pending.result()
            tale.tell(handed, request.worker)
        except BaseException:
            if pending.committed:
                # The caller was interrupted, so nobody holds these leases.
                doubt()
            raise
        holding.remember(request.worker, done.row, incarnation)
        holding.is_settled(doubtful)
        holding.forget([one.grant for one in settlements])
        return done

    def take(self, request: ClaimRequest, now: Instant) -> list[Task]:
        """Remove the best eligible tasks and return them: at most once, lost if you crash."""
        taken: list[Task] | None = None
        tale = Tale()

        def operation(tx: Transaction) -> list[Task] | None:
            nonlocal tale
            tale = Tale()
            return claim_rows.take_tasks(tx, request, now, tale)

        while taken is None:
            taken = self._write("claim", operation, wakes=FOLLOWING)
            tale.tell((), request.worker)
        return taken

    def principal(self, worker: str, now: Instant) -> Principal:
        """This process as a worker of that name, registered, for an assistant to act for."""
        holding = self._holding
        while True:
            incarnation = holding.own()
            try:
                row = self._write("claim", lambda tx: holding.row(tx, worker, now))
            except DeclaredDead:
                holding.begin_anew(incarnation)
                continue
            holding.remember(worker, row, incarnation)
            return Principal(worker, row, incarnation.id, incarnation.lock_file.descriptor)

    def enlist(self, worker: str) -> bool:
        """A worker of this name begins its work; False if one in this process is at it."""
        return self._holding.enlist(worker)

    def retire(self, worker: str, now: Instant) -> None:
        """A worker of this process has ended its work; what it still holds is put back."""
        row = self._holding.retired(worker)

        def operation(tx: Transaction) -> None:
            rows = tx.rows("situations_of_row", {"row": row})
            held = [settle.Standing(*one) for one in rows]
            settle.move(tx, [(standing, GIVE_BACK, None) for standing in held], now)
            tx.run("retire_worker", {"row": row, "now": now.utc_ms})

        if row is not None:
            self._write("beat", operation, wakes=ANYBODY)

    def note_end(self, grants: Sequence[Grant]) -> None:
        """The ends of these leases are committed, by an assistant: their notes may go."""
        self._holding.forget(grants)
