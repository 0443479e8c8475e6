"""Finding orphans: the workers that are dead, the leases that ran out, and whose tasks they are.

The same queries serve a pass that takes back, the plan that only tells, and the question whether
there is anything to do; what is found is found again inside the transaction that acts on it.
"""

import json
from collections.abc import Sequence
from functools import partial

from outlast.clock import Instant
from outlast.domain.orphans import Judgement, Liveness, Patience, Sign
from outlast.host import kernel
from outlast.store.ops.settle import Standing
from outlast.store.records import RecoveryPolicy, Spared
from outlast.store.sqlite.presence.peers import Judged, Peer, judge
from outlast.store.sqlite.readers import Readers
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.transaction import Transaction, Values


def judged_peers(
    readers: Readers, folder: SideFolder, own: str, now: Instant, patience: Patience
) -> list[Judged]:
    """The incarnations that the table calls alive, but our own, and what is thought of each."""
    rows = readers.read("judging workers", lambda tx: tx.rows("living_peers", {"incarnation": own}))
    judged = [judge(Peer(*row), folder, now, patience) for row in rows]
    return [listened_to(readers, found, now, patience) for found in judged]


def listened_to(readers: Readers, found: Judged, now: Instant, patience: Patience) -> Judged:
    """One that is silent but renews its leases is no more than stale."""
    if not (found.is_dead and found.sign is Sign.NONE):
        return found
    if readers.read("judging workers", lambda tx: was_heard_of(tx, found, now, patience)):
        renews = Judgement(Liveness.STALE, f"{found.sign}, silent, and it renews its leases")
        return found._replace(judgement=renews)
    return found


def ended_holders(
    readers: Readers, folder: SideFolder, own: str, now: Instant, patience: Patience
) -> list[Judged]:
    """Those that are off the list and yet hold tasks, and are dead to the kernel as well."""
    rows = readers.read(
        "judging workers", lambda tx: tx.rows("ended_holders", {"incarnation": own})
    )
    judged = (judge(Peer(*row), folder, now, patience) for row in rows)
    return [found for found in judged if found.is_dead]


def kinds_concerned(policy: RecoveryPolicy) -> Values:
    """The kinds that are left alone, and those that alone are not, as the queries want them."""
    spared, only = policy.spared_kinds, policy.only_kinds
    return {
        "spared": json.dumps(spared) if spared else None,
        "only": None if only is None else json.dumps(only),
    }


# Spares the detour by which a named tuple is usually made; the queries name every column.
_as_standing = partial(tuple.__new__, Standing)

ALL_KINDS: Values = {"spared": None, "only": None}


def any_running(readers: Readers) -> bool:
    """Whether anything runs; after most crashes, once the dead are buried, nothing does."""
    return readers.read("looking for orphans", lambda tx: tx.row("any_running")) is not None


def leases_ran_out(readers: Readers, now: Instant, kinds: Values | None = None) -> bool:
    """Whether any lease has run out, of a kind that is not left alone; a read by index."""
    only = kinds or ALL_KINDS
    return bool(readers.read("looking for expired leases", lambda tx: expired(tx, now, 1, only)))


def expired(tx: Transaction, now: Instant, limit: int, kinds: Values = ALL_KINDS) -> list[Standing]:
    """The tasks whose leases have run out, by the clock they ran on."""
    boot_id = kernel.boot_id()
    here = {"mono": now.mono_ms, "boot_id": boot_id, "limit": limit}
    elsewhere = {"now": now.utc_ms, "boot_id": boot_id, "limit": limit}
    found = standings(tx, "situations_expired", here | kinds)
    if len(found) < limit:
        found += standings(tx, "situations_expired_elsewhere", elsewhere | kinds)
    return found[:limit]


def held_by(tx: Transaction, peer: Peer, limit: int, kinds: Values = ALL_KINDS) -> list[Standing]:
    """The tasks of an incarnation."""
    values = {"incarnation": peer.incarnation, "limit": limit}
    return standings(tx, "orphans_of_incarnation", values | kinds)


def spared(
    readers: Readers, dead: Sequence[Judged], now: Instant, policy: RecoveryPolicy, limit: int
) -> Spared:
    """The orphans that are left alone because of their kind: how many, and the first of them."""
    kinds = kinds_concerned(policy)
    if kinds == ALL_KINDS:
        return Spared()
    values = {
        "dead": json.dumps([found.peer.incarnation for found in dead]),
        "boot_id": kernel.boot_id(),
        "mono": now.mono_ms,
        "now": now.utc_ms,
        "limit": limit,
    }
    rows = readers.read("counting", lambda tx: tx.rows("spared", values | kinds))
    return Spared(rows[0][1], tuple(one for one, _ in rows)) if rows else Spared()


def standings(tx: Transaction, name: str, values: Values) -> list[Standing]:
    """The rows of a query as decisions need them."""
    return list(map(_as_standing, tx.rows(name, values)))


def was_heard_of(tx: Transaction, found: Judged, now: Instant, patience: Patience) -> bool:
    """Whether one that was only called dead for its silence has broken it."""
    if found.sign is not Sign.NONE:
        return False
    values = {
        "incarnation": found.peer.incarnation,
        "boot_id": kernel.boot_id(),
        "mono": now.mono_ms,
        "now": now.utc_ms,
        "patience_ms": patience.stale_ms + patience.grace_ms,
    }
    return tx.row("heard_of", values) is not None


def names(found: Sequence[Judged]) -> tuple[str, ...]:
    """The workers' names."""
    return tuple(one.peer.name for one in found)
