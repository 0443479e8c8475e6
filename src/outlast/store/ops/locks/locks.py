"""The verbs of named rows."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain.events import LOCK_RELEASED
from outlast.domain.locks import Locked, LockGrant, LockInfo, LockRequest, LockState
from outlast.domain.operator_acts import signed
from outlast.domain.orphans import Patience
from outlast.errors import DeclaredDead
from outlast.logs import logger
from outlast.store.access import Access
from outlast.store.ops.audit import Act, add_audit
from outlast.store.ops.events import add_event
from outlast.store.ops.locks import rows
from outlast.store.ops.locks.recovery import Looker, Rows, free_unheld
from outlast.store.records import Ticking
from outlast.store.topics import WAITING_FOR_LOCKS
from outlast.store.transaction import Transaction

Free = Callable[[Transaction], Rows]

log = logger("outlast.store")


class _Asked(NamedTuple):
    """What one transaction answered, and the row it was asked under."""

    row: int
    answer: Locked | LockInfo


class Locks:
    """Hands out named locks and takes them back. Each verb that writes is one transaction."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def acquire(
        self, request: LockRequest, now: Instant, clock: Ticking | None = None
    ) -> Locked | LockInfo:
        """Take a lock that is free, or renew one's own; else what stands in the way."""
        own = self._access.presence.own
        while True:
            incarnation = own.incarnation()
            try:
                asked = self._ask_for_lock(request, now, clock)
            except DeclaredDead:
                own.begin_anew(incarnation)
                log.warning("this process was declared dead by another and begins anew")
                continue
            own.remember(request.worker, asked.row, incarnation)
            return asked.answer

    def _ask_for_lock(self, request: LockRequest, now: Instant, clock: Ticking | None) -> _Asked:
        """What a doubtful request may have taken is freed first, in the same transaction."""
        own = self._access.presence.own
        doubtful: list[LockGrant] = []
        handed: list[LockGrant] = []

        def operation(tx: Transaction) -> _Asked:
            moment = clock() if clock else now
            doubtful[:] = own.doubtful_locks
            rows.drop(tx, [grant for grant in doubtful if grant != request.own])
            row = own.row(tx, request.worker, moment)
            answer = rows.take(tx, request, row, self._access.engine.traits.token_floor, moment)
            handed[:] = [answer.grant] if isinstance(answer, Locked) else []
            return _Asked(row, answer)

        def doubt() -> None:
            if handed != [request.own]:
                own.doubt_locks(handed)

        pending = self._access.submit("lock", operation, in_doubt=doubt)
        try:
            asked = pending.result()
        except BaseException:
            if pending.committed:
                # The caller was interrupted, so nobody knows that it holds this lock.
                doubt()
            raise
        own.locks_are_settled(doubtful)
        return asked

    def extend(
        self,
        lengths: Sequence[tuple[LockGrant, int]],
        now: Instant,
        clock: Ticking | None = None,
    ) -> list[int | None]:
        """Hold locks for so many milliseconds from now, and for no shorter time than before."""

        def operation(tx: Transaction) -> list[int | None]:
            moment = clock() if clock else now
            return [rows.extend(tx, grant, ttl_ms, moment) for grant, ttl_ms in lengths]

        return self._access.write("lock", operation)

    def give_back(
        self, grants: Sequence[LockGrant], now: Instant, clock: Ticking | None = None
    ) -> list[bool]:
        """Free locks before their time; False for each that was not held any more."""

        def operation(tx: Transaction) -> list[bool]:
            moment = clock() if clock else now
            return [rows.give_back(tx, grant, moment) for grant in grants]

        return self._access.write("lock", operation, wakes=WAITING_FOR_LOCKS)

    def free_dead(self, now: Instant, patience: Patience) -> int:
        """Free the locks that have run out or whose holders are dead; how many."""
        looker = self._looker(now, patience)
        looked = self._access.read("looking at locks", looker.look)

        def write(operation: Free) -> Rows:
            return self._access.write("heal", operation, wakes=WAITING_FOR_LOCKS)

        return free_unheld(looker, looked, write)

    def free_by_force(
        self, name: str, by: str, source: str, now: Instant, patience: Patience
    ) -> LockInfo | None:
        """Free a lock whoever holds it, on an operator's word; what it was, None if it was free."""
        looker = self._looker(now, patience)

        def operation(tx: Transaction) -> LockInfo | None:
            found = rows.lock_named(tx, name)
            if found is None:
                return None
            tx.run("free_lock", {"name": found.name, "token": found.token})
            actor = signed(by).actor
            data = rows.lock_data(found) | {"holder": found.worker, "by": by, "actor": actor}
            add_audit(tx, Act(actor, source, "lock.release", name, data), now)
            add_event(
                tx, LOCK_RELEASED, now, data, incarnation=found.incarnation, worker=found.worker
            )
            return found.info(now, {one.peer.incarnation for one in looker.dead(tx)})

        return self._access.write("lock", operation, wakes=WAITING_FOR_LOCKS)

    def _looker(self, now: Instant, patience: Patience) -> Looker:
        return Looker(self._access.presence, now, patience)

    def all(self, now: Instant, patience: Patience) -> list[LockInfo]:
        """The locks that were not given back, by name, each judged now."""
        looked = self._access.read("looking at locks", self._looker(now, patience).look)
        return [one.info(now, looked.dead_incarnations) for one in looked.rows]

    def get(self, name: str, now: Instant, patience: Patience) -> LockInfo | None:
        """One of them; None if nobody has it."""
        return next((one for one in self.all(now, patience) if one.name == name), None)

    def is_held(self, grant: LockGrant, now: Instant) -> bool:
        """Whether a lock is still held as this grant says."""
        found = self._access.read("looking at locks", lambda tx: rows.lock_named(tx, grant.name))
        return (
            found is not None
            and (found.holder, found.token) == (grant.holder, grant.token)
            and found.info(now).state is LockState.HELD
        )

    def to_free(self, now: Instant, patience: Patience) -> int:
        """How many locks have run out, or belong to the dead."""
        looked = self._access.read("looking at locks", self._looker(now, patience).look)
        return looked.to_free(now)
