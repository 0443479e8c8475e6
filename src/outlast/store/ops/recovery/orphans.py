"""Finding orphans: the workers that are dead, the leases that ran out, and whose tasks they are.

The same queries serve a pass that takes back, the plan that only tells, and the question whether
there is anything to do; what is found is found again inside the transaction that acts on it.
"""

import json
from collections.abc import Sequence
from functools import partial

from outlast.clock import Instant, boot_id
from outlast.domain.orphans import Judgement, Liveness, Patience, Sign
from outlast.store.access import Access
from outlast.store.ops.settle import TaskRow
from outlast.store.presence import Judged, Peer, judge
from outlast.store.records import RecoveryPolicy, Spared
from outlast.store.transaction import Transaction, Values


def judged_peers(access: Access, now: Instant, patience: Patience) -> list[Judged]:
    """The incarnations that the table calls alive, but our own, and what is thought of each."""
    own = {"incarnation": access.presence.own_id}
    rows = access.read("judging workers", lambda tx: tx.rows("living_peers", own))
    judged = judge(access.presence, [Peer(*row) for row in rows], now, patience)
    return [listened_to(access, found, now, patience) for found in judged]


def listened_to(access: Access, found: Judged, now: Instant, patience: Patience) -> Judged:
    """One that is silent but renews its leases is no more than stale."""
    if not (found.is_dead and found.sign is Sign.NONE):
        return found
    if access.read("judging workers", lambda tx: was_heard_of(tx, found, now, patience)):
        renews = Judgement(Liveness.STALE, f"{found.sign}, silent, and it renews its leases")
        return found._replace(judgement=renews)
    return found


def ended_holders(access: Access, now: Instant, patience: Patience) -> list[Judged]:
    """Those that are off the list and yet hold tasks, and are dead to the kernel as well."""
    own = {"incarnation": access.presence.own_id}
    rows = access.read("judging workers", lambda tx: tx.rows("ended_holders", own))
    judged = judge(access.presence, [Peer(*row) for row in rows], now, patience)
    return [found for found in judged if found.is_dead]


def kinds_concerned(policy: RecoveryPolicy) -> Values:
    """The kinds that are left alone, and those that alone are not, as the queries want them."""
    spared, only = policy.spared_kinds, policy.only_kinds
    return {
        "spared": json.dumps(spared) if spared else None,
        "only": None if only is None else json.dumps(only),
    }


# Spares the detour by which a named tuple is usually made; the queries name every column.
_as_task_row = partial(tuple.__new__, TaskRow)

ALL_KINDS: Values = {"spared": None, "only": None}


def any_running(access: Access) -> bool:
    """Whether anything runs; after most crashes, once their tasks are put back, nothing does."""
    return access.read("looking for orphans", lambda tx: tx.row("any_running")) is not None


def leases_ran_out(access: Access, now: Instant, kinds: Values | None = None) -> bool:
    """Whether any lease has run out, of a kind that is not left alone; a read by index."""
    only = kinds or ALL_KINDS
    return bool(access.read("looking for expired leases", lambda tx: expired(tx, now, 1, only)))


def expired(tx: Transaction, now: Instant, limit: int, kinds: Values = ALL_KINDS) -> list[TaskRow]:
    """The tasks whose leases have run out, by the clock they ran on."""
    boot = boot_id()
    here = {"mono": now.mono_ms, "boot_id": boot, "limit": limit}
    elsewhere = {"now": now.utc_ms, "boot_id": boot, "limit": limit}
    found = task_rows(tx, "situations_expired", here | kinds)
    if len(found) < limit:
        found += task_rows(tx, "situations_expired_elsewhere", elsewhere | kinds)
    return found[:limit]


def held_by(tx: Transaction, peer: Peer, limit: int, kinds: Values = ALL_KINDS) -> list[TaskRow]:
    """The tasks of an incarnation."""
    values = {"incarnation": peer.incarnation, "limit": limit}
    return task_rows(tx, "orphans_of_incarnation", values | kinds)


def spared(
    access: Access, dead: Sequence[Judged], now: Instant, policy: RecoveryPolicy, limit: int
) -> Spared:
    """The orphans that are left alone because of their kind: how many, and the first of them."""
    kinds = kinds_concerned(policy)
    if kinds == ALL_KINDS:
        return Spared()
    values = {
        "dead": json.dumps([found.peer.incarnation for found in dead]),
        "boot_id": boot_id(),
        "mono": now.mono_ms,
        "now": now.utc_ms,
        "limit": limit,
    }
    rows = access.read("counting", lambda tx: tx.rows("spared", values | kinds))
    return Spared(rows[0][1], tuple(one for one, _ in rows)) if rows else Spared()


def task_rows(tx: Transaction, name: str, values: Values) -> list[TaskRow]:
    """The rows of a query as decisions need them."""
    return list(map(_as_task_row, tx.rows(name, values)))


def was_heard_of(tx: Transaction, found: Judged, now: Instant, patience: Patience) -> bool:
    """Whether one that was only called dead for its silence has broken it."""
    if found.sign is not Sign.NONE:
        return False
    values = {
        "incarnation": found.peer.incarnation,
        "boot_id": boot_id(),
        "mono": now.mono_ms,
        "now": now.utc_ms,
        "patience_ms": patience.stale_ms + patience.grace_ms,
    }
    return tx.row("heard_of", values) is not None


def names(found: Sequence[Judged]) -> tuple[str, ...]:
    """The workers' names."""
    return tuple(one.peer.name for one in found)
