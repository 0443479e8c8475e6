"""The store's verbs for named locks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain.events import LOCK_RELEASED
from outlast.domain.locks import LockInfo
from outlast.domain.operator_acts import signed
from outlast.domain.orphans import Patience
from outlast.errors import DeclaredDead
from outlast.logs import logger
from outlast.store.base import Ticking
from outlast.store.locking import Locked, LockGrant, LockRequest
from outlast.store.ops import locks
from outlast.store.ops.audit import Act, add_audit
from outlast.store.ops.events import add_event
from outlast.store.ops.lock_recovery import Rows, free_unheld
from outlast.store.sqlite.serving import Serving
from outlast.store.sqlite.transaction import Transaction
from outlast.store.sqlite.wakeups.listener import WAITING_FOR_LOCKS

Free = Callable[[Transaction], Rows]

log = logger("outlast.store")


class _Asked(NamedTuple):
    """What one transaction answered, and the row it was asked under."""

    row: int
    answer: Locked | LockInfo


class Locking(Serving):
    """The part of the store that hands out named locks and takes them back."""

    def acquire_lock(
        self, request: LockRequest, now: Instant, clock: Ticking | None = None
    ) -> Locked | LockInfo:
        """Take a lock that is free, or renew one's own; else what stands in the way."""
        holding = self._holding
        while True:
            incarnation = holding.incarnation()
            try:
                asked = self._ask_for_lock(request, now, clock)
            except DeclaredDead:
                holding.begin_anew(incarnation)
                log.warning("this process was declared dead by another and begins anew")
                continue
            holding.remember(request.worker, asked.row, incarnation)
            return asked.answer

    def _ask_for_lock(self, request: LockRequest, now: Instant, clock: Ticking | None) -> _Asked:
        """What a doubtful request may have taken is freed first, in the same transaction."""
        holding = self._holding
        doubtful: list[LockGrant] = []
        handed: list[LockGrant] = []

        def operation(tx: Transaction) -> _Asked:
            moment = clock() if clock else now
            doubtful[:] = holding.doubtful_locks
            locks.drop(tx, [grant for grant in doubtful if grant != request.own])
            row = holding.row(tx, request.worker, moment)
            answer = locks.take(tx, request, row, self._token_floor, moment)
            handed[:] = [answer.grant] if isinstance(answer, Locked) else []
            return _Asked(row, answer)

        def doubt() -> None:
            if handed != [request.own]:
                holding.doubt_locks(handed)

        pending = self._submit("lock", operation, in_doubt=doubt)
        try:
            asked = pending.result()
        except BaseException:
            if pending.committed:
                # The caller was interrupted, so nobody knows that it holds this lock.
                doubt()
            raise
        holding.locks_are_settled(doubtful)
        return asked

    def extend_locks(
        self,
        lengths: Sequence[tuple[LockGrant, int]],
        now: Instant,
        clock: Ticking | None = None,
    ) -> list[int | None]:
        """Hold locks for so many milliseconds from now, and for no shorter time than before."""

        def operation(tx: Transaction) -> list[int | None]:
            moment = clock() if clock else now
            return [locks.extend(tx, grant, ttl_ms, moment) for grant, ttl_ms in lengths]

        return self._write("lock", operation)

    def give_back_locks(
        self, grants: Sequence[LockGrant], now: Instant, clock: Ticking | None = None
    ) -> list[bool]:
        """Free locks before their time; False for each that was not held any more."""

        def operation(tx: Transaction) -> list[bool]:
            moment = clock() if clock else now
            return [locks.give_back(tx, grant, moment) for grant in grants]

        return self._write("lock", operation, wakes=WAITING_FOR_LOCKS)

    def free_dead_locks(self, now: Instant, patience: Patience) -> int:
        """Free the locks that have run out or whose holders are dead; how many."""
        looker = self._looker(now, patience)
        looked = self._read("looking at locks", looker.look)

        def write(operation: Free) -> Rows:
            return self._write("heal", operation, wakes=WAITING_FOR_LOCKS)

        return free_unheld(looker, looked, write)

    def free_lock_by_force(
        self, name: str, by: str, source: str, now: Instant, patience: Patience
    ) -> LockInfo | None:
        """Free a lock whoever holds it, on an operator's word; what it was, None if it was free."""
        looker = self._looker(now, patience)

        def operation(tx: Transaction) -> LockInfo | None:
            found = locks.lock_named(tx, name)
            if found is None:
                return None
            tx.run("free_lock", {"name": found.name, "token": found.token})
            actor = signed(by).actor
            data = locks.lock_data(found) | {"holder": found.worker, "by": by, "actor": actor}
            add_audit(tx, Act(actor, source, "lock.release", name, data), now)
            add_event(
                tx, LOCK_RELEASED, now, data, incarnation=found.incarnation, worker=found.worker
            )
            return found.info(now, {one.peer.incarnation for one in looker.dead(tx)})

        return self._write("lock", operation, wakes=WAITING_FOR_LOCKS)
