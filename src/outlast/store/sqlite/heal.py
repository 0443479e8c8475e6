"""Putting back the tasks of holders that are gone; one rule for open, claim and heal."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from outlast import _host
from outlast.clock import Instant
from outlast.domain.lifecycle import RECOVERY, Cause, Outcome, Status, Transition
from outlast.store.records import Healed, RecoveryPolicy
from outlast.store.sqlite.files import SideFolder
from outlast.store.sqlite.liveness import Judged, Peer, Verdict, bury, judge
from outlast.store.sqlite.readers import Readers
from outlast.store.sqlite.settle import Ending, Standing, move
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")

log = logging.getLogger("outlast.heal")

Tally = tuple[int, int]
MAX_TOLD = 1000
_WHY_IT_STAYS = {
    Verdict.ALIVE: "its process lives and its lease has not run out",
    Verdict.UNKNOWN: "whether its process lives is not known, and its lease has not run out",
}


class Write(Protocol):
    """Runs an operation in a durable transaction of its own."""

    def __call__(self, context: str, operation: Callable[[Transaction], T]) -> T:
        """The operation's result, once it is durable."""
        ...


def dead_peers(
    readers: Readers, folder: SideFolder, own: str, among: str = "living_peers"
) -> list[Judged]:
    """The incarnations that count as alive in the table and are dead to the kernel."""
    rows = readers.read("judging workers", lambda tx: tx.rows(among, {"incarnation": own}))
    judged = (judge(Peer(*row), folder) for row in rows)
    return [found for found in judged if found.verdict is Verdict.DEAD]


def leases_ran_out(readers: Readers, now: Instant) -> bool:
    """Whether any lease has run out; a read by index."""
    return bool(readers.read("looking for expired leases", lambda tx: _expired(tx, now, 1)))


class Healer:
    """Takes back what incarnations that are gone still hold."""

    def __init__(self, write: Write, readers: Readers, folder: SideFolder) -> None:
        self._write = write
        self._readers = readers
        self._folder = folder

    def heal(self, own: str, now: Instant, policy: RecoveryPolicy) -> Healed:
        """Workers are judged first, then their tasks are moved, in batches of their own."""
        put_back = failed = 0
        if log.isEnabledFor(logging.DEBUG):
            self._tell_what_stays(own, now)
        dead = dead_peers(self._readers, self._folder, own)
        dead += dead_peers(self._readers, self._folder, own, "ended_holders")
        for found in dead:
            back, spent = self._bury_peer(found, now, policy)
            put_back, failed = put_back + back, failed + spent
        if leases_ran_out(self._readers, now):
            back, spent = self._in_batches(
                policy.batch,
                now,
                lambda tx: _endings(
                    _expired(tx, now, policy.batch), lambda standing: _expiry(standing, policy)
                ),
            )
            put_back, failed = put_back + back, failed + spent
        return Healed(put_back, failed, tuple(found.peer.name for found in dead))

    def _tell_what_stays(self, own: str, now: Instant) -> None:
        """For who asked for every detail: the tasks that are left to their holders, and why."""
        expired = {
            one.seq
            for one in self._readers.read("explaining", lambda tx: _expired(tx, now, MAX_TOLD))
        }
        rows = self._readers.read(
            "explaining", lambda tx: tx.rows("living_peers", {"incarnation": own})
        )
        for found in (judge(Peer(*row), self._folder) for row in rows):
            if found.verdict is Verdict.DEAD:
                continue
            for standing in self._held_by(found.peer):
                if standing.seq not in expired:
                    log.debug(
                        "task %s stays with worker %s (pid %d): %s",
                        standing.id,
                        found.peer.name,
                        found.peer.pid,
                        _WHY_IT_STAYS[found.verdict],
                    )

    def _held_by(self, peer: Peer) -> list[Standing]:
        values: dict[str, object] = {"incarnation": peer.incarnation, "limit": MAX_TOLD}
        return self._readers.read(
            "explaining", lambda tx: _standings(tx, "situations_of_incarnation", values)
        )

    def _bury_peer(self, found: Judged, now: Instant, policy: RecoveryPolicy) -> Tally:
        peer = found.peer
        values = {"incarnation": peer.incarnation, "limit": policy.batch}
        tally = self._in_batches(
            policy.batch,
            now,
            lambda tx: _endings(
                _standings(tx, "situations_of_incarnation", values),
                lambda standing: _loss(standing, found, policy),
            ),
        )
        ending = {"incarnation": peer.incarnation, "state": "dead", "now": now.utc_ms}
        self._write("heal", lambda tx: tx.run("end_worker", ending))
        bury(peer, self._folder)
        log.log(
            logging.WARNING if any(tally) else logging.INFO,
            "worker %s (pid %d) is dead: %d tasks put back, %d failed",
            peer.name,
            peer.pid,
            *tally,
        )
        return tally

    def _in_batches(
        self, size: int, now: Instant, find: Callable[[Transaction], Sequence[Ending]]
    ) -> Tally:
        """Find and move within one transaction each, until a batch comes up short."""
        put_back = failed = 0
        found: list[Ending] = []

        def find_and_move(tx: Transaction) -> list[Transition]:
            found[:] = find(tx)
            return move(tx, found, now)

        while True:
            moved = self._write("heal", find_and_move)
            _tell_what_moved(found, moved)
            back = sum(transition.to is Status.PENDING for transition in moved)
            put_back, failed = put_back + back, failed + len(moved) - back
            if len(moved) < size:
                return put_back, failed


def _tell_what_moved(endings: Sequence[Ending], moved: Sequence[Transition]) -> None:
    """A line for each task at DEBUG, once it is committed; by the batch above a thousand."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    if len(moved) > MAX_TOLD:
        log.debug("%d tasks were moved, too many to be told one by one", len(moved))
        return
    for (standing, cause, _), transition in zip(endings, moved, strict=False):
        log.debug(
            "task %s is %s (%s): %s",
            standing.id,
            transition.to,
            transition.reason,
            cause.error or f"worker {standing.worker} died before it began",
        )


def _standings(tx: Transaction, name: str, values: dict[str, object]) -> list[Standing]:
    return [Standing._make(row) for row in tx.rows(name, values)]


def _endings(standings: Sequence[Standing], cause: Callable[[Standing], Cause]) -> list[Ending]:
    """The same cause for all that differ in nothing that it says, so that they move as one set."""
    causes: dict[Cause, Cause] = {}
    by_holder: dict[object, Cause] = {}
    endings: list[Ending] = []
    for standing in standings:
        alike = (standing.worker, standing.unstarted and (standing.seq, standing.token))
        if alike not in by_holder:
            found = cause(standing)
            by_holder[alike] = causes.setdefault(found, found)
        endings.append((standing, by_holder[alike], None))
    return endings


def _expired(tx: Transaction, now: Instant, limit: int) -> list[Standing]:
    boot_id = _host.boot_id()
    here = _standings(
        tx, "situations_expired", {"mono": now.mono_ms, "boot_id": boot_id, "limit": limit}
    )
    elsewhere = {"now": now.utc_ms, "boot_id": boot_id, "limit": limit}
    return (here + _standings(tx, "situations_expired_elsewhere", elsewhere))[:limit]


def _expiry(standing: Standing, policy: RecoveryPolicy) -> Cause:
    return Cause(
        Outcome.EXPIRE,
        RECOVERY,
        error=f"the lease of worker {standing.worker} ran out",
        action=policy.action,
    )


def _loss(standing: Standing, found: Judged, policy: RecoveryPolicy) -> Cause:
    """A prefetched task that its worker never began is given back uncharged."""
    begun = found.begun
    if standing.unstarted and begun.whole and (standing.seq, standing.token) not in begun.tasks:
        return Cause(Outcome.NEVER_STARTED, RECOVERY)
    return Cause(
        Outcome.CRASH,
        RECOVERY,
        error=f"worker {standing.worker} (pid {found.peer.pid}) died while running this task",
        action=policy.action,
    )
