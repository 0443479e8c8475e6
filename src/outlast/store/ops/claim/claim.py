"""The verbs of claim, and of exchange, which takes results back in the same transaction."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.metric_marks import FENCED_WRITES
from outlast.domain.task import Task
from outlast.errors import DeclaredDead
from outlast.logs import logger
from outlast.store.access import Access
from outlast.store.ops import settle
from outlast.store.ops.claim import pick
from outlast.store.ops.claim.log import Tale
from outlast.store.ops.locks import rows as locks
from outlast.store.ops.settle import GIVE_BACK
from outlast.store.records import (
    Claimed,
    ClaimRequest,
    Exchanged,
    Grant,
    Horizon,
    LeaseLength,
    Settlement,
    Ticking,
)
from outlast.store.topics import ANYBODY, FOLLOWING
from outlast.store.transaction import Transaction

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


class Claims:
    """Moves tasks between the queue and their holders."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._read = access.read

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
        own, terms = self._access.presence.own, Terms(now, lease_ms, clock)
        answers: Verdicts | None = None
        while True:
            incarnation = own.incarnation()
            try:
                done = self._exchange(settlements if answers is None else (), request, terms)
            except DeclaredDead:
                own.begin_anew(incarnation)
                log.warning("this process was declared dead by another and begins anew")
                continue
            answers = done.answers if answers is None else answers
            if done.claimed is not None:
                self._access.came_up_empty = not done.claimed and request.limit > 0
                self._access.counts.add(FENCED_WRITES, answers.count(None))
                return Exchanged(answers, done.claimed)

    def _would_come_up_empty(self, request: ClaimRequest, now: Instant) -> bool:
        """An idle poller asks by reading, so that it never stands in a writer's way."""

        def is_anything_there(tx: Transaction) -> bool:
            if request.lock is not None:
                locks.refuse_held(tx, request.lock, now)
            return pick.anything_eligible(tx, request, now)

        return (
            self._access.came_up_empty
            and not self._access.presence.own.doubtful
            and not self._read("looking for work", is_anything_there)
        )

    def _exchange(
        self, settlements: Sequence[Settlement], request: ClaimRequest, terms: Terms
    ) -> _Done:
        """What a doubtful claim may have taken is given back first, in the same transaction."""
        own = self._access.presence.own
        incarnation = own.incarnation()
        doubtful: list[Settlement] = []
        handed: list[Claimed] = []
        tale = Tale()

        def operation(tx: Transaction) -> _Done:
            nonlocal tale
            tale = Tale()
            moment = terms.clock() if terms.clock else terms.now
            doubtful[:] = own.doubtful
            settle.settle_grants(tx, doubtful, moment)
            answers = settle.settle_grants(tx, settlements, moment)
            row = own.row(tx, request.worker, moment)
            claiming = pick.Claim(
                request, row, self._access.engine.traits.token_floor, moment, terms.lease_ms, tale
            )
            if request.lock is not None:
                locks.refuse_held(tx, request.lock, moment)
            claimed = pick.claim_tasks(tx, claiming) if request.limit else []
            if request.lock is not None and claimed:
                locks.take_with(tx, request.lock, claiming, claimed[0])
            handed[:] = claimed or ()
            tale.learn(tx)
            return _Done(row, answers, claimed)

        def doubt() -> None:
            own.doubt([Settlement(one.grant, one.task_id, GIVE_BACK) for one in handed])

        pending = self._access.submit(
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
        own.remember(request.worker, done.row, incarnation)
        own.is_settled(doubtful)
        own.forget([one.grant for one in settlements])
        return done

    def take(self, request: ClaimRequest, now: Instant) -> list[Task]:
        """Remove the best eligible tasks and return them: at most once, lost if you crash."""
        taken: list[Task] | None = None
        tale = Tale()

        def operation(tx: Transaction) -> list[Task] | None:
            nonlocal tale
            tale = Tale()
            return pick.take_tasks(tx, request, now, tale)

        while taken is None:
            taken = self._access.write("claim", operation, wakes=FOLLOWING)
            tale.tell((), request.worker)
        return taken

    def horizon(self, now: Instant) -> Horizon:
        """When the next delayed task falls due, and when the next lease ends after this moment."""
        row = self._read("looking ahead", lambda tx: tx.row("horizon", {"mono": now.mono_ms}))
        return Horizon(*(row or (None, None)))

    def held_by_row(self, row: int) -> dict[Grant, str]:
        """The leases that a worker took ahead of their work, and the ids of their tasks."""
        found = self._read("looking for work", lambda tx: tx.rows("held_by_row", {"row": row}))
        return {Grant(*grant): task_id for *grant, task_id in found}

    def retries_are_due(
        self, queues: Sequence[str], kinds: Sequence[str], excluding: Sequence[int]
    ) -> bool:
        """Whether tasks that were tried before wait for their next try; some rows apart."""
        values = {
            "queues": codec.encode(list(queues), "queues"),
            "kinds": codec.encode(list(kinds), "kinds"),
            "excluding": codec.encode(list(excluding), "excluding"),
        }
        found = self._read("looking for work", lambda tx: tx.value("retries_waiting", values))
        return found is not None
