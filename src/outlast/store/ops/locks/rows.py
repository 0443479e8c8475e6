"""Named locks inside a transaction: taken by one guarded statement, extended, given back, freed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from outlast.clock import Instant, boot_id
from outlast.domain.events import LOCK_EXPIRED, LOCK_FREED
from outlast.domain.locks import Locked, LockGrant, LockInfo, LockRequest, judge_lock
from outlast.domain.task import stamp_of, utc_of
from outlast.errors import LockHeld
from outlast.store.ops.claim.pick import Claim
from outlast.store.ops.events import add_event
from outlast.store.records import Claimed, Grant
from outlast.store.transaction import Transaction, Values

FREED_AT_ONCE = 500


class LockRow(NamedTuple):
    """A lock that was not given back, and who took it."""

    name: str
    worker: str
    token: int
    acquired_at: int
    expires_at: int
    expires_mono_ms: int
    holder: int | None
    incarnation: str | None
    boot_id: str | None
    host: str | None
    pid: int | None
    task_id: str | None

    def left_ms(self, now: Instant) -> int:
        """How long it is still held; only within one boot do monotonic times compare."""
        if self.boot_id == boot_id():
            return self.expires_mono_ms - now.mono_ms
        return self.expires_at - now.utc_ms

    def info(self, now: Instant, dead: Iterable[str | None] = ()) -> LockInfo:
        """The lock as its user sees it, given whose processes are dead."""
        left_ms = self.left_ms(now)
        return LockInfo(
            self.name, self.worker, self.token, utc_of(self.acquired_at), utc_of(self.expires_at),
            left_ms, judge_lock(left_ms, self.incarnation in dead), self.pid, self.host,
            self.task_id,
        )  # fmt: skip


def all_locks(tx: Transaction) -> list[LockRow]:
    """Every lock that was not given back, by name."""
    return [LockRow(*row) for row in tx.rows("locks_all")]


def locks_with_leases(tx: Transaction) -> list[LockRow]:
    """Those of them that go with a lease."""
    return [LockRow(*row) for row in tx.rows("locks_with_leases")]


def lock_named(tx: Transaction, name: str) -> LockRow | None:
    """One of them."""
    row = tx.row("lock_named", {"name": name})
    return None if row is None else LockRow(*row)


def take(
    tx: Transaction,
    request: LockRequest,
    row: int,
    floor: int,
    now: Instant,
    *,
    lease: Grant | None = None,
) -> Locked | LockInfo:
    """Take a lock that is free, or renew one's own; else who has it.

    With a lease the lock is held as long as that, whatever it is called for here.
    """
    if request.own is not None and (ends_at := extend(tx, request.own, request.ttl_ms, now)):
        return Locked(request.own, ends_at)
    before = lock_named(tx, request.name)
    token = tx.value("next_lock_token", {"floor": floor})
    values = {
        "name": request.name,
        "row": row,
        "worker": request.worker,
        "token": token,
        "ttl_ms": request.ttl_ms,
        "task_seq": None if lease is None else lease.seq,
        "task_token": None if lease is None else lease.token,
    }
    if tx.row("take_lock", values | _moment(now)) is None:
        assert before is not None, "what refused us is there to be read"
        return before.info(now)
    tx.run("raise_lock_token", {"token": token})
    if before is not None:
        _tell(tx, LOCK_EXPIRED, before, now)
    return Locked(LockGrant(request.name, row, token), now.utc_ms + request.ttl_ms)


def refuse_held(tx: Transaction, name: str, now: Instant) -> None:
    """Raise unless a lock is free at this moment."""
    found = lock_named(tx, name)
    if found is not None and found.left_ms(now) > 0:
        raise LockHeld(name, found.worker, utc_of(found.expires_at))


def take_with(tx: Transaction, name: str, claiming: Claim, claimed: Claimed) -> None:
    """Take a lock that is known to be free, to be held as long as a lease."""
    request = LockRequest(name, claiming.request.worker, claimed.lease_ms)
    taken = take(
        tx, request, claiming.holder, claiming.token_floor, claiming.now, lease=claimed.grant
    )
    assert isinstance(taken, Locked), "the write lock is ours, so nobody took it meanwhile"


def extend(tx: Transaction, grant: LockGrant, ttl_ms: int, now: Instant) -> int | None:
    """When it ends now; None if it is not held any more. A renewal is a sign of life too."""
    values = _proof(grant) | _moment(now) | {"ttl_ms": ttl_ms}
    if not tx.run("extend_lock", values):
        return None
    tx.run("touch_worker", {"row": grant.holder, "now": now.utc_ms, "mono": now.mono_ms})
    found = lock_named(tx, grant.name)
    assert found is not None, "it was just extended"
    return found.expires_at


def give_back(tx: Transaction, grant: LockGrant, now: Instant) -> bool:
    """Free one's own lock before its time."""
    return tx.run("release_lock", _proof(grant) | _moment(now)) == 1


def drop(tx: Transaction, grants: Sequence[LockGrant]) -> None:
    """Free locks that may have been handed out to nobody."""
    for grant in grants:
        tx.run("free_lock", {"name": grant.name, "token": grant.token})


def free_expired(tx: Transaction, now: Instant, run_id: int | None = None) -> list[LockRow]:
    """Remove locks whose time has passed, so many at once, and rows that ended with a lease."""
    tx.run("drop_ended_locks")
    found = [one for one in all_locks(tx) if one.left_ms(now) <= 0]
    return _free(tx, found[:FREED_AT_ONCE], LOCK_EXPIRED, now, run_id)


def free_all_of(
    tx: Transaction,
    incarnation: str,
    now: Instant,
    run_id: int | None = None,
    limit: int | None = None,
    *,
    actor: str | None = None,
) -> list[LockRow]:
    """Free what a dead process held, perhaps only so many at once; `actor` is who said so."""
    found = [one for one in all_locks(tx) if one.incarnation == incarnation]
    return _free(tx, found[:limit], LOCK_FREED, now, run_id, actor=actor)


def free_lost(
    tx: Transaction,
    found: Sequence[LockRow],
    now: Instant,
    run_id: int | None = None,
    actor: str | None = None,
) -> list[LockRow]:
    """Free locks that ended with the leases of their tasks: run out, or left by the dead."""
    for one in found:
        kind = LOCK_EXPIRED if one.left_ms(now) <= 0 else LOCK_FREED
        _free(tx, [one], kind, now, run_id, actor=actor)
    return list(found)


def leave_all_of(tx: Transaction, incarnation: str) -> None:
    """Give back what a process holds that says goodbye."""
    for one in all_locks(tx):
        if one.incarnation == incarnation:
            tx.run("free_lock", {"name": one.name, "token": one.token})


def _free(
    tx: Transaction,
    found: Sequence[LockRow],
    kind: str,
    now: Instant,
    run_id: int | None,
    *,
    actor: str | None = None,
) -> list[LockRow]:
    for one in found:
        tx.run("free_lock", {"name": one.name, "token": one.token})
        _tell(tx, kind, one, now, run_id, actor=actor)
    return list(found)


def _tell(
    tx: Transaction,
    kind: str,
    lock: LockRow,
    now: Instant,
    run_id: int | None = None,
    *,
    actor: str | None = None,
) -> None:
    add_event(
        tx, kind, now, lock_data(lock) | ({} if actor is None else {"actor": actor}),
        run_id=run_id, incarnation=lock.incarnation, worker=lock.worker,
    )  # fmt: skip


def lock_data(lock: LockRow) -> Values:
    """What an event says of a lock."""
    return {
        "lock": lock.name,
        "token": lock.token,
        "acquired_at": stamp_of(lock.acquired_at),
        "expires_at": stamp_of(lock.expires_at),
    }


def _proof(grant: LockGrant) -> Values:
    return {"name": grant.name, "row": grant.holder, "token": grant.token}


def _moment(now: Instant) -> Values:
    return {"now": now.utc_ms, "mono": now.mono_ms, "boot_id": boot_id()}
