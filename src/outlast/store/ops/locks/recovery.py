"""Freeing locks that nobody holds any more: those of the dead, by the rule that orphans go by, and
those whose time has passed. What is found is found again inside the transaction that frees it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain.orphans import Patience
from outlast.logs import about, logger
from outlast.store.ops.locks import rows as locks
from outlast.store.ops.locks.rows import LockRow
from outlast.store.ops.recovery.orphans import was_heard_of
from outlast.store.ops.settle import TaskRow
from outlast.store.presence import Judged, Peer, Presence, judge
from outlast.store.transaction import Transaction

log = logger("outlast.heal")

Rows = list[LockRow]


class Looked(NamedTuple):
    """The locks that were not given back, and those of their holders that are dead."""

    rows: Rows
    dead: list[Judged]

    @property
    def dead_incarnations(self) -> set[str | None]:
        """The same as a set of names."""
        return {found.peer.incarnation for found in self.dead}

    def to_free(self, now: Instant) -> int:
        """How many of them are free for anyone."""
        dead = self.dead_incarnations
        return sum(one.left_ms(now) <= 0 or one.incarnation in dead for one in self.rows)


class Looker(NamedTuple):
    """Who looks at locks, when, and with how much patience."""

    presence: Presence
    now: Instant
    patience: Patience

    def look(self, tx: Transaction) -> Looked:
        """The locks there are; a holder is asked for only if there is one."""
        rows = locks.all_locks(tx)
        return Looked(rows, self.dead(tx) if rows else [])

    def dead(self, tx: Transaction) -> list[Judged]:
        """The dead among those who hold a lock, whether they are on the workers' list or not."""
        peers = [
            Peer(*row) for row in tx.rows("lock_holders", {"incarnation": self.presence.own_id})
        ]
        judged = judge(self.presence, peers, self.now, self.patience)
        return [found for found in judged if found.is_dead]

    def free(self, tx: Transaction, dead: Sequence[Judged], run_id: int | None = None) -> Rows:
        """Free what is free for anyone, but for one whose silence ended meanwhile.

        As many as fit a transaction; fewer than that, and there are no more.
        """
        freed = locks.free_expired(tx, self.now, run_id)
        for found in dead:
            room = locks.FREED_AT_ONCE - len(freed)
            if room and not was_heard_of(tx, found, self.now, self.patience):
                freed += locks.free_all_of(tx, found.peer.incarnation, self.now, run_id, room)
        return freed


def free_unheld(
    looker: Looker,
    looked: Looked,
    write: Callable[[Callable[[Transaction], Rows]], Rows],
    run_id: int | None = None,
) -> int:
    """Free what was seen to be free for anyone; nothing is written if there is nothing."""
    if not looked.to_free(looker.now):
        return 0
    count = 0
    while True:
        freed = write(lambda tx: looker.free(tx, looked.dead, run_id))
        tell_what_was_freed(freed, looker.now)
        count += len(freed)
        if len(freed) < locks.FREED_AT_ONCE:
            return count


def lost_with(
    tx: Transaction, orphans: Sequence[TaskRow], now: Instant, holder_is_dead: bool
) -> Rows:
    """The locks that go with the leases of orphans, and so end when these are taken back.

    One that is taken from a living holder by force is told of by its task alone.
    """
    bound = locks.locks_with_leases(tx) if orphans else []
    ids = {one.id for one in orphans} if bound else ()
    return [
        one for one in bound if one.task_id in ids and (holder_is_dead or one.left_ms(now) <= 0)
    ]


def tell_what_was_freed(freed: Sequence[LockRow], now: Instant) -> None:
    """A line for each, once it is committed."""
    for one in freed:
        left_ms = one.left_ms(now)
        if left_ms > 0:
            log.warning(
                "lock %s of worker %s is free: the process that held it is dead",
                one.name, one.worker, extra=about(lock=one.name, worker=one.worker),
            )  # fmt: skip
        else:
            log.warning(
                "lock %s of worker %s ran out %.1f s ago", one.name, one.worker, -left_ms / 1000,
                extra=about(lock=one.name, worker=one.worker),
            )  # fmt: skip
