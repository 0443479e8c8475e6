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


class _Exchange:
    """One transaction of an exchange, and what follows from its commit."""

    def __init__(
        self,
        access: Access,
        settlements: Sequence[Settlement],
        request: ClaimRequest,
        terms: Terms,
    ) -> None:
        self._access = access
        self._own = access.presence.own
        self._settlements = settlements
        self._request = request
        self._terms = terms
        self._doubtful: list[Settlement] = []
        self._handed: list[Claimed] = []
        self._tale = Tale()

    def run(self) -> _Done:
        """Commit it; leases of a caller who was interrupted meanwhile are given back later."""
        own, incarnation = self._own, self._own.incarnation()
        pending = self._access.submit(
            "claim",
            self._apply,
            chain(
                (one.task_id for one in self._handed), (one.task_id for one in self._settlements)
            ),
            wakes=ANYBODY if self._settlements else FOLLOWING,
            in_doubt=self._doubt,
        )
        try:
            done = pending.result()
            self._tale.tell(self._handed, self._request.worker)
        except BaseException:
            if pending.committed:
                # The caller was interrupted, so nobody holds these leases.
                self._doubt()
            raise
        own.remember(self._request.worker, done.row, incarnation)
        own.is_settled(self._doubtful)
        own.forget([one.grant for one in self._settlements])
        return done

    def _apply(self, tx: Transaction) -> _Done:
        """What a doubtful claim may have taken is given back first, in the same transaction."""
        own, request, terms = self._own, self._request, self._terms
        self._tale = Tale()
        moment = terms.clock() if terms.clock else terms.now
        self._doubtful = list(own.doubtful)
        settle.settle_grants(tx, self._doubtful, moment)
        answers = settle.settle_grants(tx, self._settlements, moment)
        row = own.row(tx, request.worker, moment)
        floor = self._access.engine.traits.token_floor
        claiming = pick.Claim(request, row, floor, moment, terms.lease_ms, self._tale)
        claimed = self._claim(tx, claiming)
        self._handed[:] = claimed or ()
        self._tale.learn(tx)
        return _Done(row, answers, claimed)

    def _claim(self, tx: Transaction, claiming: pick.Claim) -> list[Claimed] | None:
        """A claim under a named lock takes nothing while another holds it."""
        request = self._request
        if request.lock is not None:
            locks.refuse_held(tx, request.lock, claiming.now)
        claimed = pick.claim_tasks(tx, claiming) if request.limit else []
        if request.lock is not None and claimed:
            locks.take_with(tx, request.lock, claiming, claimed[0])
        return claimed

    def _doubt(self) -> None:
        self._own.doubt([Settlement(one.grant, one.task_id, GIVE_BACK) for one in self._handed])


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
                done = _Exchange(
                    self._access, settlements if answers is None else (), request, terms
                ).run()
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
